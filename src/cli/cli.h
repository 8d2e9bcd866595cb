/* What the subcommands share: words, options, environment, exit codes and output. */
#ifndef CLI_H
#define CLI_H

#include <event2/event.h>
#include <jansson.h>
#include <redlock/redlock.h>
#include <stdio.h>

/* The exit codes; sysexits(3) and timeout(1) where they have one. */
enum cli_exit {
    CLI_OK = 0,
    CLI_GONE = 1,   /* extend, release: the nodes do not store the token */
    CLI_OTHERS = 2, /* extend, release: the key is another's */
    CLI_USAGE = 64,
    CLI_NO_QUORUM = 69,
    CLI_HELD_ELSEWHERE = 75, /* -E overrides */
    CLI_DENIED = 77,
    CLI_CONFIG = 78,
    CLI_LOST = 124,
    CLI_FAILED = 125,
    CLI_CANNOT_EXECUTE = 126,
    CLI_NOT_FOUND = 127,
    CLI_SIGNALLED = 128, /* + the signal's number */
};

/* A duration or number that nobody has said. */
#define CLI_UNSAID INT64_MIN

/* The words that were said, after environment and configuration file filled the gaps. */
struct cli {
    const char *command; /* "run" */
    const char *help;    /* its help text */
    bool alone;          /* it needs no nodes: neither environment nor file is read */
    int operands_least, operands_most;
    int own_failure; /* the exit code where there is no client: 125, or the command's */

    const char **uris;
    size_t uri_count;
    redlock_options client;
    redlock_lease_options lease; /* the TTL and, by CLI_HOLD_OPTIONS, the wait */
    int64_t held_elsewhere;      /* the exit code for a lock that others hold: 75 or -E */
    bool json, quiet, color;
    int verbose;

    /* As they were said; cli_parse() makes the above of them. */
    const char *nodes, *config, *color_when;
    int64_t drift_ppm;
    bool nonblock, version, wants_help;
};

enum cli_type {
    CLI_FLAG,     /* bool: set to true */
    CLI_TEXT,     /* const char * */
    CLI_DURATION, /* int64_t, milliseconds: 250ms, 30s, 5m, 1h; a bare number is seconds */
    CLI_NUMBER,   /* int64_t */
    CLI_COUNT,    /* int: how often it was said */
    CLI_LIST,     /* const char *: URIs joined by commas, allocated; hidden in argv */
    CLI_ABSENT,   /* not built in yet: ends the process with CLI_CONFIG */
};

/* An option of a subcommand. `letter` 0: it has a long name only. A list ends at name NULL.
 */
struct cli_option {
    const char *name;
    char letter;
    enum cli_type type;
    void *into;
};

/* -t, -w, -n, -E and --fence, for the commands that acquire. */
#define CLI_TTL_OPTION(cli)                                                                \
    {                                                                                      \
        "ttl", 't', CLI_DURATION, &(cli)->lease.ttl_ms                                     \
    }
#define CLI_WAIT_HELP                                                                      \
    "  -w, --wait WAIT           wait this long while another holds it or no quorum can\n" \
    "                            be reached, then try a last time; default: for as\n"      \
    "                            long as it takes\n"                                       \
    "  -n, --nonblock            the same as -w 0: try once, as soon as the nodes are\n"   \
    "                            connected, or 1s (--timeout if longer) has passed\n"
#define CLI_HOLD_OPTIONS(cli)                                                              \
    CLI_TTL_OPTION(cli), {"wait", 'w', CLI_DURATION, &(cli)->lease.wait_ms},               \
        {"nonblock", 'n', CLI_FLAG, &(cli)->nonblock},                                     \
        {"fence", 0, CLI_FLAG, &(cli)->lease.fenced},                                      \
    {                                                                                      \
        "conflict-exit-code", 'E', CLI_NUMBER, &(cli)->held_elsewhere                      \
    }

/*
 * Overwrites the passwords of a list of URIs, which is a word of argv: others see it by ps
 * and in /proc. What was read of it must be a copy.
 */
void cli_hide_passwords(char *uris);

/*
 * Reads a subcommand's own options and the global ones, from argv[1] on, up to the first
 * operand or "--", checks how many operands there are, then fills what was not said from
 * the environment and the configuration file. Returns the index of the first operand. Ends
 * the process with CLI_USAGE on an unknown option or a malformed value, with CLI_CONFIG
 * where the configuration is wrong, and after --help.
 */
int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *own);

/* One line on stderr, "redlock: ...", and the end of the process. */
_Noreturn void cli_fail(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, but the process goes on, to tidy up. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line on stderr unless --quiet. Control characters are escaped in all. */
void cli_say(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Ends the process with own_failure if there are too few file descriptors for a command on
 * so many nodes: libevent ends the process with 1 if it gets none, and nodes that are not
 * reached for want of a descriptor would look as if they were down.
 */
void cli_need_files(const struct cli *cli, size_t nodes);

/* The event loop of a command; ends the process with own_failure if there is none. */
struct event_base *cli_new_loop(const struct cli *cli);

/*
 * The client of the configured nodes. Ends the process where it cannot be: with CLI_CONFIG,
 * or own_failure.
 */
redlock_client *cli_connect(const struct cli *cli, struct event_base *base);

/* Ends the process because an operation on `key` with cli->lease could not be started. */
_Noreturn void cli_fail_start(const struct cli *cli, const redlock_client *client,
                              redlock_code code, const char *key);

/* The end of an operation, as cli_note_outcome() was told it. */
struct cli_outcome {
    redlock_result result;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count;
    bool done;
};

/* A callback; its argument is a struct cli_outcome. */
void cli_note_outcome(redlock_lease *lease, const redlock_result *result, void *outcome);

/* Runs the loop until `*done`. */
void cli_wait(struct event_base *base, const bool *done);

/*
 * Runs the loop until all that was said is answered, for one per-node timeout at most: what
 * a connection has not delivered goes with it when it is closed, and a lock that is left
 * behind should be on all nodes, not on a bare majority.
 */
void cli_drain(redlock_client *client, struct event_base *base);

/*
 * Calls `caught` from the loop at the first HUP, INT or TERM; the second ends the process.
 * A signal that was ignored when the process began stays ignored.
 */
#define CLI_SIGNALS 3
struct cli_signals {
    struct event *events[CLI_SIGNALS];
    void (*caught)(void *arg);
    void *arg;
    int number; /* of the signal that came; 0: none */
};
void cli_signals_begin(struct cli_signals *signals, struct event_base *base,
                       void (*caught)(void *arg), void *arg);
void cli_signals_end(struct cli_signals *signals);

/* The exit code for the end of an acquire; `held_elsewhere` is 75 or what -E said. */
int cli_acquire_exit(redlock_code code, int held_elsewhere);

/* Too few nodes granted it: "refused", "no quorum", or that some of them were late. */
const char *cli_no_quorum(const redlock_result *result, bool denied);

/* Why an acquire failed, in one line on stderr: who holds the lock, or what the nodes say.
 */
void cli_say_not_acquired(const struct cli *cli, const char *key,
                          const redlock_result *result, const redlock_node *nodes,
                          size_t count);

/*
 * From begin to end of an acquire: what it waits for, in one line on stderr every 10 s; and
 * after 1 s if no quorum can be reached, with what each node said.
 */
struct cli_waiting {
    const struct cli *cli;
    const char *key;
    const redlock_client *client;
    redlock_lease *const *lease;
    unsigned quorum;
    unsigned ticks;
    bool told; /* that no quorum can be reached */
    struct event *timer;
};
void cli_waiting_begin(struct cli_waiting *waiting, struct event_base *base);
void cli_waiting_end(struct cli_waiting *waiting);

/* "12.3 s"; "unknown" below 0. */
#define CLI_SPAN 24
const char *cli_span(char buffer[CLI_SPAN], int64_t ms);

/* "another 8.2 s" in quarantine, "votes", or why it does not. */
#define CLI_STANDING (CLI_SPAN + 16)
const char *cli_standing(const redlock_node *node, char buffer[CLI_STANDING]);

/* "3 of 5 nodes vote; redis://a: another 8.2 s; redis://b: ..." */
void cli_write_standing(const redlock_node *nodes, size_t count, FILE *stream);

/* Whether markers keep so many nodes from voting that no quorum is left; what to do then.
 */
bool cli_wants_admission(const redlock_node *nodes, size_t count, unsigned quorum);
void cli_say_admission(const struct cli *cli, const redlock_node *nodes, size_t count,
                       unsigned quorum);

/* That the TTL is above what the nodes were admitted for. */
void cli_say_too_long(const struct cli *cli, const char *key);

/* Whether so many nodes refused the user or a right that no quorum is left. */
bool cli_is_denied(const redlock_node *nodes, size_t count, unsigned quorum);

/* "2 of 5 nodes failed; redis://a, redis://b: no answer in time; ...". To be freed. */
size_t cli_count_faults(const redlock_node *nodes, size_t count);
char *cli_faults(const redlock_node *nodes, size_t count);

/* The node that stores the value which most nodes store; NULL if none does. */
const redlock_node *cli_holder(const redlock_node *nodes, size_t count);

/* The text with control characters escaped, for a terminal. To be freed; never NULL. */
char *cli_printable(const char *text);

/* A JSON string even where the text is not UTF-8: such bytes become \xNN. */
json_t *cli_json_text(const char *text);

/* The code's name as programs read it: "no_quorum". */
#define CLI_CAUSE 32
const char *cli_cause_name(redlock_code code, char buffer[CLI_CAUSE]);
json_t *cli_cause(redlock_code code);

/*
 * Prints {"schema":"redlock.<command>/1", ...} as one line on stdout; takes `object`. False
 * if it could not be written; cli_flush() tells the same of what was printed otherwise.
 */
bool cli_print_json(const struct cli *cli, json_t *object);
bool cli_flush(void);

/* The same line elsewhere. */
bool cli_write_json(const struct cli *cli, json_t *object, FILE *stream);

/* The outcome node by node, as an array of objects, and as lines on stderr with -v. */
json_t *cli_nodes_json(const redlock_node *nodes, size_t count);
void cli_say_nodes(const struct cli *cli, const redlock_node *nodes, size_t count);

/* The subcommands: argv[0] is the command's own name. They return the exit code. */
int cli_run(struct cli *cli, int argc, char **argv);
int cli_acquire(struct cli *cli, int argc, char **argv);
int cli_extend(struct cli *cli, int argc, char **argv);
int cli_release(struct cli *cli, int argc, char **argv);
int cli_break(struct cli *cli, int argc, char **argv);
int cli_status(struct cli *cli, int argc, char **argv);
int cli_check(struct cli *cli, int argc, char **argv);
int cli_admit(struct cli *cli, int argc, char **argv);
int cli_bench(struct cli *cli, int argc, char **argv);
int cli_local(struct cli *cli, int argc, char **argv);

/* Their help texts; the global options are added to them. */
extern const char cli_run_help[], cli_acquire_help[], cli_extend_help[], cli_release_help[],
    cli_break_help[], cli_status_help[], cli_check_help[], cli_admit_help[],
    cli_bench_help[], cli_local_help[];

#endif
