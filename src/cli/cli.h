/* Shared by the subcommands: options, environment, exit codes and output. */
#ifndef CLI_H
#define CLI_H

#include <event2/event.h>
#include <jansson.h>
#include <redlock/admin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "timer.h"

/* The exit codes; those of sysexits(3) and timeout(1) where these define one. */
enum cli_exit {
    CLI_OK = 0,
    CLI_GONE = 1,   /* extend, release: the nodes do not store the token */
    CLI_OTHERS = 2, /* extend, release: another client holds the key */
    CLI_USAGE = 64,
    CLI_NO_QUORUM = 69,
    CLI_HELD_ELSEWHERE = 75, /* -E overrides */
    CLI_DENIED = 77,
    CLI_CONFIG = 78,
    CLI_LOST = 124,
    CLI_FAILED = 125,
    CLI_CANNOT_EXECUTE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNALLED = 128, /* + the signal number */
};

/* The value of a duration or number that is not set. */
#define CLI_UNSAID INT64_MIN

/* A failed extension is tried again after the TTL divided by this. */
#define CLI_RETRY_SHARE 20

/* The keys of one lock: KEY, and those of --and (keys.c). */
struct cli_keys {
    redlock_key of[REDLOCK_KEYS_MAX]; /* the first is KEY */
    size_t others;
    char *name; /* if there are several: all of them, allocated */
};

/* The help text of a command: -h prints the first part, --help both. */
struct cli_help {
    const char *brief, *more;
};

struct cli;

/* A subcommand: a row of main.c. */
struct cli_command {
    const char *name;
    int (*main)(struct cli *cli, int argc, char **argv);
    const struct cli_help *help;
    const char *summary;
    int operands_least, operands_most;
};

#define CLI_MORE_FILES_MAX 256

/* The command line; environment and configuration file fill in what it does not set. */
struct cli {
    const struct cli_command *command; /* NULL while its name is looked for */
    bool alone;      /* needs no nodes: neither environment nor file is read */
    int own_failure; /* the exit code if no client can be made: 125, or the command's own */
    unsigned more_files; /* that the command needs besides; at most CLI_MORE_FILES_MAX */

    struct redlock_settings *settings; /* the texts of what follows */
    const char **uris;
    size_t uri_count;
    redlock_options options;
    redlock_lease_options lease; /* the TTL and, by CLI_HOLD_OPTIONS, the wait */
    struct cli_keys keys;
    int64_t held_elsewhere; /* the exit code if another client holds the lock: 75 or -E */
    bool json, quiet, color;
    int verbose;

    /* From cli_connect() to cli_disconnect(). */
    struct event_base *base;
    redlock_client *client;

    /* The user's values; cli_parse() derives the fields above from them. */
    const char *nodes, *config, *color_when;
    int64_t slots;
    bool ttl_learns; /* -t auto: lease.ttl_ms is the least */
    bool nonblock, version, wants_help;
    bool brief_help; /* -h, not --help */
};

enum cli_type {
    CLI_FLAG,     /* bool: set to true */
    CLI_KIND,     /* redlock_lease_options: the kind that has the option's name */
    CLI_TEXT,     /* const char * */
    CLI_DURATION, /* int64_t, milliseconds: 250ms, 30s, 5m, 1h, 1d; a bare number is seconds
                   */
    CLI_TTL,      /* struct cli: a duration, or "auto" */
    CLI_NUMBER,   /* int64_t */
    CLI_COUNT,    /* int: how often the option is given */
    CLI_LIST,     /* const char *: comma-separated URIs, allocated; hidden in argv */
    CLI_KEYS,     /* struct cli_keys: one more key */
};

/*
 * An option of a subcommand. `letter` 0: it has a long name only. A list ends at name NULL.
 */
struct cli_option {
    const char *name;
    char letter;
    enum cli_type type;
    void *into;
};

/* --and, for the commands on a lock that may have several keys. */
#define CLI_KEYS_OPTION(cli) "and", 0, CLI_KEYS, &(cli)->keys

/* --slots, for the commands on a semaphore. */
#define CLI_SLOTS_OPTION(cli) "slots", 0, CLI_NUMBER, &(cli)->slots

/* For the commands that acquire: -t, -w, -n, -E, and the kind of lock. */
#define CLI_TTL_OPTION(cli) "ttl", 't', CLI_TTL, (cli)
#define CLI_WAIT_HELP                                                                      \
    "  -w, --wait WAIT           wait at most this long; default: without limit\n"         \
    "  -n, --nonblock            try once: the same as -w 0\n"
#define CLI_KIND_HELP                                                                      \
    "  -E, --conflict-exit-code CODE\n"                                                    \
    "                            exit with CODE instead of 75\n"                           \
    "      --and KEY2            several keys, all or nothing; may be given 15 times\n"    \
    "      --shared              a shared lock: many hold it, or one without --shared\n"   \
    "      --redisson            stored as Redisson's RLock, for Java services\n"
#define CLI_KILL_HELP                                                                      \
    "      --kill-after D        time from TERM to KILL; default 5s, at most TTL / 4\n"    \
    "      --max-hold D          end CMD before it has held the lock for D\n"              \
    "      --spare-daemons       do not end processes that have called setsid(2)\n"
#define CLI_STATS_FILE_HELP                                                                \
    "      --stats-file F        write counters to F, for Prometheus' node_exporter\n"
/* (clang-format takes the last braces for a block.) */
/* clang-format off */
#define CLI_HOLD_OPTIONS(cli)                                                              \
    {CLI_TTL_OPTION(cli)},                                                                 \
    {CLI_KEYS_OPTION(cli)},                                                                \
    {CLI_SLOTS_OPTION(cli)},                                                               \
    {"wait", 'w', CLI_DURATION, &(cli)->lease.wait_ms},                                    \
    {"nonblock", 'n', CLI_FLAG, &(cli)->nonblock},                                         \
    {"fence", 0, CLI_FLAG, &(cli)->lease.fenced},                                          \
    {"shared", 0, CLI_KIND, &(cli)->lease},                                                \
    {"redisson", 0, CLI_KIND, &(cli)->lease},                                              \
    {"conflict-exit-code", 'E', CLI_NUMBER, &(cli)->held_elsewhere}
/* clang-format on */

/* Adds the value of an --and. Returns what is wrong with it, or NULL. */
const char *cli_keys_add(struct cli_keys *keys, const char *text);

size_t cli_keys_count(const struct cli_keys *keys);

/* Sets KEY; returns the name of the lock for messages: all its keys. */
const char *cli_keys_begin(struct cli_keys *keys, const char *key);

/* The key that `holder`, or NULL, has; else `name`. */
const char *cli_keys_taken(const struct cli_keys *keys, const char *name,
                           const redlock_node *holder);

/* {"key": KEY}, and "keys" with all, if there are several. */
json_t *cli_keys_json(const struct cli_keys *keys);

/* The object has these keys, in any order. */
bool cli_keys_are(const struct cli_keys *keys, const json_t *object);

/*
 * Overwrites the passwords in a list of URIs, which is a word of argv: other users see argv
 * by ps and in /proc. The caller must have copied what it needs from the list.
 */
void cli_hide_passwords(char *uris);

/*
 * Reads a subcommand's own options and the global ones, from argv[1] to the first operand
 * or "--", and checks the number of operands. Then fills in unset options from the
 * environment and the configuration file. Returns the index of the first operand. Ends the
 * process with CLI_USAGE on an unknown option or a malformed value, with CLI_CONFIG if the
 * configuration is wrong, and after --help.
 */
int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *own);

/*
 * Prints one line on stderr, "redlock: ...", with control characters escaped. cli_fail()
 * then ends the process; cli_say() prints it unless --quiet.
 */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *cli_last_complaint(void); /* without "redlock: "; "": there was none */
#define cli_fail(code, ...) (cli_complain(__VA_ARGS__), exit(code))
#define cli_say(cli, ...)   ((cli)->quiet ? (void)0 : cli_complain(__VA_ARGS__))

/*
 * Ends the process with own_failure if too few file descriptors are free for a command on
 * `nodes` nodes. Without free descriptors, libevent ends the process with 1, or nodes
 * that cannot be connected look as if they were down.
 */
void cli_need_files(const struct cli *cli, size_t nodes);

/* Ends the process if `memory` is NULL, because there is no more; otherwise returns it. */
void *cli_need_memory(void *memory);

/* Makes the event loop of a command; ends the process with own_failure if that fails. */
struct event_base *cli_new_loop(const struct cli *cli);

/*
 * Makes the event loop and the client of the configured nodes. If that fails, ends the
 * process with CLI_CONFIG or own_failure.
 */
void cli_connect(struct cli *cli);
void cli_disconnect(struct cli *cli);

/* Ends the process if the operation on `key` just now could not be started. */
void cli_need_start(redlock_code code, const char *key);

/* The result of an operation, as cli_note_outcome() received it. */
struct cli_outcome {
    redlock_result result;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count;
    bool done;
};

/* A callback; its argument is a struct cli_outcome. */
void cli_note_outcome(redlock_lease *lease, const redlock_result *result, void *outcome);

/* Other programs of this host go first: for a command that reads much. */
void cli_step_back(void);

/* Sleeps: no event is handled meanwhile. */
void cli_sleep(int64_t ms);

/* Runs the loop until `*done`. */
void cli_wait(struct event_base *base, const bool *done);

/*
 * Runs the loop until all commands that were sent are answered, for at most one per-node
 * timeout. Closing a connection drops what it has not delivered yet; and a lock that is
 * left in place should be on all nodes, not on a bare majority.
 */
void cli_drain(const struct cli *cli);

/*
 * Calls `caught` from the loop at the first HUP, INT or TERM; the second one ends the
 * process. A signal that was ignored when the process began stays ignored.
 */
struct cli_signals {
    struct event *event;
    int fd; /* the signals are blocked, so that the writer sees one before the loop does */
    sigset_t before;
    void (*caught)(void *arg);
    void *arg;
    int number; /* the number of the signal that came; 0: none */
};
void cli_signals_begin(struct cli_signals *signals, struct event_base *base,
                       void (*caught)(void *arg), void *arg);

/* Sets a bool: as `caught`, for a command that waits for nothing else then. */
void cli_set(void *flag);
void cli_signals_end(struct cli_signals *signals);

/* The exit code for the result of an acquire; `held_elsewhere` is 75 or the value of -E. */
int cli_acquire_exit(redlock_code code, int held_elsewhere);

/*
 * Why too few nodes granted it: the nodes that failed, if these are so many, else how many
 * granted it. The caller frees it.
 */
char *cli_too_few(const redlock_result *result, const redlock_node *nodes, size_t count);

/*
 * Prints one line on stderr: why an acquire failed, with the holder or the nodes' errors.
 */
void cli_say_not_acquired(const struct cli *cli, const char *key,
                          const redlock_result *result, const redlock_node *nodes,
                          size_t count);

/* The same of a release that is UNCONFIRMED; `before` precedes its reason. */
void cli_say_not_released(const struct cli *cli, const char *key, const char *before,
                          const redlock_result *result, const redlock_node *nodes,
                          size_t count);

/*
 * While an acquire waits, prints one line on stderr every 10 s: what it waits for, or if
 * that is the same as before, for how long.
 * Prints one after 1 s if no quorum can be reached, with the error of each node.
 */
struct cli_waiting {
    const struct cli *cli;
    const char *key;
    redlock_lease *const *lease;
    unsigned quorum;
    unsigned ticks;
    bool told;  /* it was reported that no quorum can be reached */
    char *said; /* what it waits for, as printed last */
    struct cli_timer timer;
};
void cli_waiting_begin(struct cli_waiting *waiting, const struct cli *cli, const char *key,
                       redlock_lease *const *lease);
void cli_waiting_end(struct cli_waiting *waiting);

/* A text as of printf(3). The caller frees it. */
char *cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A text that is printed to a stream. cli_text_end() returns it; the caller frees it. */
struct cli_text {
    char *bytes;
    size_t size;
    FILE *to;
};
FILE *cli_text_begin(struct cli_text *text);
char *cli_text_end(struct cli_text *text);

/* Colors of a terminal. */
#define CLI_RED    "\033[31m"
#define CLI_GREEN  "\033[32m"
#define CLI_YELLOW "\033[33m"
#define CLI_PLAIN  "\033[0m"

/* Microseconds of a clock. */
int64_t cli_clock_us(clockid_t clock);

/* Microseconds in ms; a value below 0 stays below 0. */
int64_t cli_ms(int64_t us);

/* "12.3 s"; "unknown" below 0. */
#define CLI_SPAN 24
const char *cli_span(char buffer[CLI_SPAN], int64_t ms);

/* "another 8.2 s" in quarantine, "votes", or why the node has no vote. */
#define CLI_MEMBER_STATE (CLI_SPAN + 16)
const char *cli_member_state(const redlock_node *node, char buffer[CLI_MEMBER_STATE]);

/* "3 of 5 nodes vote; redis://a: another 8.2 s; redis://b: ..." */
void cli_write_member_states(const redlock_node *nodes, size_t count, FILE *stream);

/* "; " and what to do, if so many nodes refuse a vote or a right that no quorum is left; or
   "". */
const char *cli_advice(const redlock_node *nodes, size_t count, unsigned quorum);

/* The text of the error, with the option of the command instead of the field at fault. */
#define CLI_ERROR (sizeof(redlock_last_error()->text) + 64)
const char *cli_error(char text[CLI_ERROR], const redlock_error *error);

/* Prints that the TTL is longer than the nodes were admitted for. */
void cli_say_too_long(const struct cli *cli, const char *key);

/* So many nodes refused the user or a right that no quorum is left. */
bool cli_is_denied(const redlock_node *nodes, size_t count, unsigned quorum);

/*
 * "2 of 5 nodes failed: redis://a, redis://b: no answer in time; ...". The caller frees it.
 */
size_t cli_count_faults(const redlock_node *nodes, size_t count);
char *cli_faults(const redlock_node *nodes, size_t count);

/* Prints them on stderr, after `key` and `state`, and what to do. */
void cli_say_faults(const struct cli *cli, const char *key, const char *state,
                    const redlock_node *nodes, size_t count);

/* A node that stores the value which most nodes store; NULL if no node stores one. */
const redlock_node *cli_holder(const redlock_node *nodes, size_t count);

/* The text for a terminal, by visible.h. The caller frees it; never NULL. */
char *cli_printable(const char *text);
char *cli_printable_bytes(const char *bytes, size_t len);

/*
 * Jansson leaves out what it has no memory for. So each of its allocations that fails is
 * noted. False, with errno, if there was one since the last call: do not use what was made
 * or read. Clears the mark.
 */
void cli_json_begin(void);
bool cli_json_check(void);

/* A JSON string, also if the text is not UTF-8: invalid bytes become \xNN. */
json_t *cli_json_text(const char *text);
json_t *cli_json_bytes(const char *bytes, size_t len);

/* The object on one line, by visible.h. The caller frees it; NULL: there was no memory. */
char *cli_json_dump(const json_t *object);

/* null if the text is empty; null if the number is below 0, that is, not known. */
json_t *cli_json_known_text(const char *text);
json_t *cli_json_known(int64_t number);

/* {"kind", "fenced"} of a token; both are null if it is NULL or empty. */
json_t *cli_json_kind(const char *token);

/* The code's name for programs: "no_quorum". */
#define CLI_CAUSE 32
const char *cli_cause_name(redlock_code code, char buffer[CLI_CAUSE]);
json_t *cli_cause(redlock_code code);

/*
 * Prints on stdout; what is printed may stay in a buffer until cli_flush(). cli_stdout() is
 * for functions that print to any stream.
 */
void cli_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
FILE *cli_stdout(void);

/*
 * Waits until it is written. False, with errno, if some of it could not be; EINTR if a
 * signal that ends the command came while no reader took it: cli_exit_printed() has the
 * exit code. cli_flush_with() calls `meanwhile` every 50 ms while it waits. cli_hand_on()
 * does not wait: an error of this write is returned by a later call.
 */
bool cli_flush(void);
bool cli_flush_with(void (*meanwhile)(void *arg), void *arg);
bool cli_hand_on(void);

/* Prints a line and flushes. */
bool cli_print_text(const char *text);

/*
 * Prints {"schema":"redlock.<command>/1", ...} as one line on stdout, frees `object`, and
 * flushes.
 */
bool cli_print_json(const struct cli *cli, json_t *object);

/*
 * Replaces the file: a reader finds the old text or the new one, never a part. False, with
 * errno, if that fails. `durable`: it blocks until the text is on the disk.
 */
bool cli_replace_file(const char *path, const char *text, mode_t mode, bool durable);

/* Prints the time of day on stdout, in UTC, and a blank. */
void cli_print_time(void);

/*
 * The exit code of a command that has printed its result; CLI_FAILED, with a message that
 * has errno, if it could not be written.
 */
int cli_exit_printed(bool printed, int exit_code);

/* Checks a part of a longer output; 0: go on. If the reader has closed the pipe, as
   head(1) does, it prints nothing and returns the code of a program that SIGPIPE ended. */
int cli_exit_streamed(bool printed);

/* Writes the same line to another stream, without a flush; or to stderr, as a result. */
bool cli_write_json(const struct cli *cli, json_t *object, FILE *stream);
void cli_tell_json(const struct cli *cli, json_t *object);

/* Adds what an acquire, extend or release prints: "granted", "quorum", "nodes". */
void cli_add_outcome(json_t *object, const struct cli_outcome *outcome);

/* "warning" */
const char *cli_severity(redlock_severity severity);

/* The names of what an operator can promise; the last one has none. */
struct cli_promise {
    const char *name;
    unsigned promise; /* REDLOCK_PROMISE_DURABLE */
};
extern const struct cli_promise cli_promises[];

/* A finding and what to do about it, with the command's options. The caller frees it. */
char *cli_finding_text(const redlock_finding *found);

/* What a check found of a node: an object. */
json_t *cli_health_json(const redlock_node_health *node);

/* The result for each node: as an array of objects, and as lines on stderr with -v. */
json_t *cli_nodes_json(const redlock_node *nodes, size_t count);
void cli_say_nodes(const struct cli *cli, const redlock_node *nodes, size_t count);

/* With -vv, after a lock was lost: the client's flight recorder as lines on stderr. */
void cli_say_record(const struct cli *cli);

/* The subcommands: argv[0] is the command's own name. They return the exit code. */
int cli_run(struct cli *cli, int argc, char **argv);
int cli_elect(struct cli *cli, int argc, char **argv);
int cli_acquire(struct cli *cli, int argc, char **argv);
int cli_extend(struct cli *cli, int argc, char **argv);
int cli_release(struct cli *cli, int argc, char **argv);
int cli_break(struct cli *cli, int argc, char **argv);
int cli_status(struct cli *cli, int argc, char **argv);
int cli_list(struct cli *cli, int argc, char **argv);
int cli_monitor(struct cli *cli, int argc, char **argv);
int cli_wait_free(struct cli *cli, int argc, char **argv);
int cli_check(struct cli *cli, int argc, char **argv);
int cli_admit(struct cli *cli, int argc, char **argv);
int cli_bench(struct cli *cli, int argc, char **argv);
int cli_local(struct cli *cli, int argc, char **argv);
int cli_pipe(struct cli *cli, int argc, char **argv);

/* Their help texts. */
extern const struct cli_help cli_elect_help, cli_run_help, cli_acquire_help,
    cli_extend_help, cli_release_help, cli_break_help, cli_status_help, cli_check_help,
    cli_admit_help, cli_bench_help, cli_local_help, cli_list_help, cli_wait_help,
    cli_monitor_help, cli_pipe_help;

#endif
