/* What the subcommands share: words, options, environment, exit codes and output. */
#ifndef CLI_H
#define CLI_H

#include <event2/event.h>
#include <jansson.h>
#include <redlock/redlock.h>

/* The exit codes; sysexits(3) and timeout(1) where they have one. */
enum cli_exit {
    CLI_OK = 0,
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

/* The words that were said, after environment and configuration file filled the gaps. */
struct cli {
    const char *command; /* "run" */
    const char **uris;
    size_t uri_count;
    redlock_options client;
    redlock_lease_options lease;
    bool json, quiet, color;
    int verbose;
};

enum cli_type {
    CLI_FLAG,     /* bool: set to true */
    CLI_TEXT,     /* const char * */
    CLI_DURATION, /* int64_t, milliseconds: 250ms, 30s, 5m, 1h; a bare number is seconds */
    CLI_NUMBER,   /* int64_t */
};

/* An option of a subcommand. `letter` 0: it has a long name only. A list ends at name NULL. */
struct cli_option {
    const char *name;
    char letter;
    enum cli_type type;
    void *into;
};

/*
 * Reads a subcommand's own options and the global ones, from argv[1] on, up to the first
 * operand or "--". Returns the index of the first operand. Ends the process with CLI_USAGE
 * on an unknown option or a malformed value, and after --help.
 */
int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *own);

/* One line on stderr, "redlock: ...", and the end of the process. */
_Noreturn void cli_fail(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One line on stderr unless --quiet. */
void cli_say(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The client of the configured nodes. Ends the process with CLI_CONFIG where it cannot be. */
redlock_client *cli_connect(const struct cli *cli, struct event_base *base);

/* The exit code for the end of an acquire; `held_elsewhere` is 75 or what -E said. */
int cli_acquire_exit(redlock_code code, int held_elsewhere);

/* Prints {"schema":"redlock.<command>/1", ...} as one line on stdout; takes `object`. */
void cli_print_json(const struct cli *cli, json_t *object);

/* The outcome node by node, as an array of objects, and as lines on stderr with -v. */
json_t *cli_nodes_json(const redlock_node *nodes, size_t count);
void cli_say_nodes(const struct cli *cli, const redlock_node *nodes, size_t count);

/* Runs the loop until the client has no release left that could be confirmed. */
void cli_drain(redlock_client *client, struct event_base *base);

/* The subcommands: argv[0] is the command's own name. They return the exit code. */
int cli_run(struct cli *cli, int argc, char **argv);
int cli_acquire(struct cli *cli, int argc, char **argv);
int cli_extend(struct cli *cli, int argc, char **argv);
int cli_release(struct cli *cli, int argc, char **argv);
int cli_break(struct cli *cli, int argc, char **argv);
int cli_status(struct cli *cli, int argc, char **argv);
int cli_local(struct cli *cli, int argc, char **argv);

#endif
