/* extend and release: the commands for the holder of a token. */
#include "cli.h"
#include "learn.h"
#include "nesting.h"
#include "tokenfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_SOURCES                                                                      \
    "The token is read from --token-file, else from REDLOCK_TOKEN, else from stdin. In "   \
    "a\n"                                                                                  \
    "command of redlock run, that run's REDLOCK_TOKEN counts for its own KEY only.\n"

#define SLOT_HELP                                                                          \
    "      --slot I              a slot of the semaphore KEY; F has it, a bare token "     \
    "has\n"                                                                                \
    "                            not\n"

const char cli_extend_help[] =
    "Usage: redlock extend [-t TTL] [--token-file F] [--slot I] [--and KEY2 ...] KEY\n"
    "Extend the lock KEY: it then expires TTL from now.\n" TOKEN_SOURCES
    "\n"
    "  -t, --ttl TTL             default: the TTL in the token file, else 30s\n"
    "      --token-file F        the file that acquire wrote; extend writes the new\n"
    "                            deadline to it\n" SLOT_HELP
    "      --and KEY2            the other keys of a lock of several keys\n"
    "\n"
    "With a token file, the extension succeeds only before the old deadline, so the lock\n"
    "was held without a gap. A bare token has no deadline: a majority must still store\n"
    "it, and another client may have held the lock in between. A fenced lock keeps its\n"
    "fence; its TTL is at most the one that the nodes were admitted for.\n"
    "\n"
    "Example:\n"
    "  redlock extend -t 1m --token-file /run/backup.lock backup || stop_at_once\n"
    "\n"
    "Exit codes: 0 extended; 1 gone, or past its deadline; 2 another client holds it;\n"
    "69 no quorum: the lock is held until its old deadline; 77 refused; 64 usage;\n"
    "78 configuration; 125 own failure.\n";

const char cli_release_help[] =
    "Usage: redlock release [--token-file F] [--slot I] [--and KEY2 ...] KEY\n"
    "Release the lock KEY.\n" TOKEN_SOURCES
    "\n"
    "      --token-file F        the file that acquire wrote\n" SLOT_HELP
    "      --and KEY2            the other keys of a lock of several keys\n"
    "\n"
    "Example:\n"
    "  echo \"$token\" | redlock release backup\n"
    "\n"
    "Exit codes: 0 released; 1 gone: it had ended before; 2 another client holds it;\n"
    "69 too few nodes confirmed the release: what is left on the others expires;\n"
    "77 refused; 64 usage; 78 configuration; 125 own failure.\n";

#define PAUSE_MAX_MS 10 /* between reading the clock and adopting the lease */

struct holding {
    struct cli *cli;
    const char *key, *path;
    struct tokenfile file; /* always has the token, the rest only if there is a path */
    int64_t slot;          /* --slot */
    redlock_key slot_key;  /* of a semaphore; else NULL */
    redlock_lease *lease;
    struct cli_outcome outcome;
};

/* No valid token has a line end: the nodes would treat it as another client's token. */
static bool has_line_end(const char *text, size_t len)
{
    return memchr(text, '\n', len) || memchr(text, '\r', len);
}

/* Reads one line, as `acquire` prints it. */
static void read_stdin(char token[REDLOCK_TOKEN_MAX + 1])
{
    char text[REDLOCK_TOKEN_MAX + 2]; /* room for the newline */
    size_t len = 0;
    ssize_t got = 1;
    if (isatty(STDIN_FILENO))
        cli_fail(CLI_USAGE, "no token: --token-file, REDLOCK_TOKEN and stdin are empty");
    while (len < sizeof(text) && got != 0) {
        got = read(STDIN_FILENO, text + len, sizeof(text) - len);
        if (got < 0 && errno != EINTR)
            cli_fail(CLI_FAILED, "stdin: %s", strerror(errno));
        len += got > 0 ? (size_t)got : 0;
    }
    if (len > 0 && text[len - 1] == '\n')
        len--;
    if (len == 0)
        cli_fail(CLI_USAGE, "no token: --token-file, REDLOCK_TOKEN and stdin are empty");
    if (len > REDLOCK_TOKEN_MAX || has_line_end(text, len) || memchr(text, '\0', len))
        cli_fail(CLI_USAGE, "stdin is not one token%s",
                 text[len - 1] == '\r' ? ": the line ends in CR LF" : "");
    memcpy(token, text, len);
    token[len] = '\0';
}

static void read_token(struct holding *holding)
{
    char *token = holding->file.token;
    const char *variable = nesting_token(holding->key);
    if (holding->path)
        tokenfile_read(holding->path, holding->key, &holding->cli->keys, &holding->file);
    else if (!variable)
        read_stdin(token);
    else if (variable[0] == '\0' || strlen(variable) > REDLOCK_TOKEN_MAX)
        cli_fail(CLI_USAGE, "REDLOCK_TOKEN is %s", variable[0] ? "too long" : "empty");
    else if (has_line_end(variable, strlen(variable)))
        cli_fail(CLI_USAGE, "REDLOCK_TOKEN has the end of a line (CR or LF) in it");
    else
        strcpy(token, variable);
    holding->cli->lease.fence = holding->file.fence;
}

/* Sets the key by which redlock_adopt() knows a slot: "KEY!3". */
static void read_slot(struct holding *holding)
{
    struct cli *cli = holding->cli;
    int64_t slot = holding->file.slot, slots = holding->file.slots;
    if (holding->slot != CLI_UNSAID) {
        if (holding->path || cli->keys.others > 0)
            cli_fail(CLI_USAGE, "--slot excludes --token-file, which has it, and --and");
        if (holding->slot < 1 || holding->slot > REDLOCK_SLOTS_MAX)
            cli_fail(CLI_USAGE, "--slot is from 1 to %d", REDLOCK_SLOTS_MAX);
        slot = slots = holding->slot;
    }
    if (slot == 0)
        return;
    char *key;
    int len = asprintf(&key, "%s!%" PRId64, holding->key, slot);
    cli_need_memory(len < 0 ? NULL : key);
    holding->slot_key = (redlock_key){key, (size_t)len};
    cli->lease.slots = (unsigned)slots;
}

/* False if stdout could not be written. */
static bool print_outcome(struct holding *holding, const char *cause, json_t *object)
{
    const redlock_result *result = &holding->outcome.result;
    if (!holding->cli->json) {
        json_decref(object);
        return true;
    }
    json_object_set_new(object, "cause", json_string(cause));
    json_object_set_new(object, "granted", json_integer(result->granted));
    json_object_set_new(object, "quorum", json_integer(result->quorum));
    json_object_set_new(object, "nodes",
                        cli_nodes_json(holding->outcome.nodes, holding->outcome.count));
    return cli_print_json(holding->cli, object);
}

static bool print_code(struct holding *holding, redlock_code code)
{
    char cause[CLI_CAUSE];
    return print_outcome(holding, cli_cause_name(code, cause),
                         cli_keys_json(&holding->cli->keys));
}

static int exit_of(const struct holding *holding)
{
    const redlock_result *result = &holding->outcome.result;
    switch (result->code) {
    case REDLOCK_OK: return CLI_OK;
    case REDLOCK_GONE:
    case REDLOCK_EXPIRED: return CLI_GONE;
    case REDLOCK_TAKEN: return CLI_OTHERS;
    case REDLOCK_DENIED: return CLI_DENIED;
    case REDLOCK_BAD_TTL: return CLI_USAGE;
    case REDLOCK_NO_QUORUM:
    case REDLOCK_UNCONFIRMED:
        return cli_is_denied(holding->outcome.nodes, holding->outcome.count, result->quorum)
                   ? CLI_DENIED
                   : CLI_NO_QUORUM;
    default: return CLI_FAILED;
    }
}

/* Prints the nodes' errors, if too few of them granted or confirmed. */
static void report_too_few(struct holding *holding)
{
    const redlock_result *result = &holding->outcome.result;
    bool denied =
        cli_is_denied(holding->outcome.nodes, holding->outcome.count, result->quorum);
    char *faults = cli_faults(holding->outcome.nodes, holding->outcome.count);
    if (result->code == REDLOCK_UNCONFIRMED)
        cli_say(holding->cli, "%s: %s; %s", holding->key, redlock_code_text(result->code),
                faults);
    else
        cli_say(holding->cli,
                "%s is not extended: %s: %u of %u nodes granted it, %u are needed; it is "
                "held until its old deadline; %s",
                holding->key, cli_no_quorum(result, denied), result->granted, result->nodes,
                result->quorum, faults);
    free(faults);
    cli_say_admission(holding->cli, holding->outcome.nodes, holding->outcome.count,
                      result->quorum);
}

static bool is_lost(redlock_code code)
{
    return code == REDLOCK_GONE || code == REDLOCK_TAKEN || code == REDLOCK_EXPIRED;
}

/* Prints a failure in one line and returns its exit code. */
static int report_failure(struct holding *holding)
{
    const struct cli *cli = holding->cli;
    const redlock_code code = holding->outcome.result.code;
    const redlock_node *holder = cli_holder(holding->outcome.nodes, holding->outcome.count);
    if (code == REDLOCK_TAKEN && holder)
        cli_say(cli, "%s is held by %s, no longer by this token",
                cli_keys_taken(&cli->keys, holding->key, holder), holder->holder);
    else if (code == REDLOCK_NO_QUORUM || code == REDLOCK_UNCONFIRMED ||
             code == REDLOCK_DENIED)
        report_too_few(holding);
    else if (code == REDLOCK_BAD_TTL)
        cli_say_too_long(cli, holding->key);
    else
        cli_say(cli, "%s: %s", holding->key, redlock_code_text(code));
    if (is_lost(code))
        cli_say_record(cli);
    int exit_code = exit_of(holding);
    print_code(holding, exit_code == CLI_DENIED ? REDLOCK_DENIED : code);
    return exit_code;
}

/*
 * A round is decided early. After a failure, waits for the remaining replies so that the
 * message covers all nodes.
 */
static void wait_for_replies(struct holding *holding)
{
    cli_wait(holding->cli->base, &holding->outcome.done);
    if (holding->outcome.result.code != REDLOCK_OK) {
        cli_drain(holding->cli);
        holding->outcome.count =
            redlock_explain(holding->lease, holding->outcome.nodes, REDLOCK_NODES_MAX);
    }
    cli_say_nodes(holding->cli, holding->outcome.nodes, holding->outcome.count);
}

static redlock_code adopt(struct holding *holding, int64_t valid_ms)
{
    const struct cli_keys *keys = &holding->cli->keys;
    bool is_slot = holding->slot_key.bytes;
    return redlock_adopt_many(holding->cli->client, is_slot ? &holding->slot_key : keys->of,
                              is_slot ? 1 : cli_keys_count(keys), holding->file.token,
                              valid_ms, &holding->cli->lease, &holding->lease);
}

/*
 * redlock_adopt() takes the validity as a duration, so time that passes until the library
 * reads its clock would be added to it. So PAUSE_MAX_MS is subtracted, and after a longer
 * pause it is done again.
 */
static redlock_code adopt_timed(struct holding *holding)
{
    for (;;) {
        int64_t left, before = cli_clock_us(CLOCK_BOOTTIME);
        if (tokenfile_left(&holding->file, &left) != TOKENFILE_VALID ||
            left <= PAUSE_MAX_MS)
            return REDLOCK_EXPIRED;
        redlock_code code = adopt(holding, left - PAUSE_MAX_MS);
        int64_t took = cli_clock_us(CLOCK_BOOTTIME) - before;
        if (code != REDLOCK_OK || took < PAUSE_MAX_MS * 1000)
            return code;
        redlock_disown(holding->lease);
        redlock_lease_free(holding->lease);
        holding->lease = NULL;
    }
}

/* Whether the lock may be extended before the file's deadline; if not, prints why. */
static bool may_extend(struct holding *holding)
{
    int64_t left;
    enum tokenfile_state state = tokenfile_left(&holding->file, &left);
    if (state == TOKENFILE_VALID)
        return true;
    bool expired = state == TOKENFILE_EXPIRED;
    cli_say(holding->cli, "%s is no longer held: %s %s", holding->key, holding->path,
            expired ? "is past its deadline" : "was written under another boot or clock");
    print_outcome(holding, expired ? "expired" : "other_boot",
                  cli_keys_json(&holding->cli->keys));
    return false;
}

/*
 * After a successful extension: stores the new deadline; for a bare token, prints that the
 * lock may not have been held without a gap.
 */
static int report_extended(struct holding *holding)
{
    const struct cli *cli = holding->cli;
    if (!tokenfile_fill(&holding->file, holding->lease, cli->lease.ttl_ms)) {
        holding->outcome.result.code = REDLOCK_EXPIRED;
        return report_failure(holding);
    }
    if (holding->path && !tokenfile_write(holding->path, &holding->file, &cli->keys)) {
        cli_complain("%s: %s; %s is extended, but the file has the old deadline",
                     holding->path, strerror(errno), holding->key);
        return CLI_FAILED;
    }
    if (!holding->path)
        cli_say(cli,
                "%s is extended; that it was held without a gap is unproven: a bare "
                "token has no deadline, and another client may have held it meanwhile",
                holding->key);
    json_t *object = tokenfile_json(&holding->file, &cli->keys);
    json_object_set_new(object, "continuity",
                        json_string(holding->path ? "proven" : "unproven"));
    if (print_outcome(holding, "ok", object))
        return CLI_OK;
    cli_complain("stdout: %s; %s is extended", strerror(errno), holding->key);
    return CLI_FAILED;
}

/* No node was sent the round: the connections or the markers have the reason. */
static void report_unasked(struct holding *holding)
{
    struct cli_outcome *outcome = &holding->outcome;
    const redlock_client *client = holding->cli->client;
    outcome->count =
        tokenfile_is_fenced(holding->file.token)
            ? redlock_client_members(client, outcome->nodes, REDLOCK_NODES_MAX)
            : redlock_client_explain(client, outcome->nodes, REDLOCK_NODES_MAX);
}

static int extend(struct holding *holding)
{
    redlock_code code = holding->path ? adopt_timed(holding) : adopt(holding, 0);
    if (code == REDLOCK_OK)
        code = redlock_extend(holding->lease, 0, cli_note_outcome, &holding->outcome);
    if (code == REDLOCK_EXPIRED || code == REDLOCK_NOT_HELD) {
        holding->outcome.result.code = REDLOCK_EXPIRED;
        return report_failure(holding);
    }
    if (code != REDLOCK_OK)
        cli_fail_start(code, holding->key);
    wait_for_replies(holding);
    if (cli_count_faults(holding->outcome.nodes, holding->outcome.count) == 0 &&
        holding->outcome.result.code == REDLOCK_NO_QUORUM)
        report_unasked(holding);
    return holding->outcome.result.code == REDLOCK_OK ? report_extended(holding)
                                                      : report_failure(holding);
}

/*
 * A round that found the lock lost may have recreated the key on nodes that had lost it.
 * There the key would keep other clients out, and a later extension would find it and take
 * the lock as held. So the handle of a lost lock is not disowned: freeing it releases the
 * lock.
 */
static void free_lease(struct holding *holding)
{
    bool lost = is_lost(holding->outcome.result.code);
    if (holding->lease && !(holding->outcome.done && lost))
        redlock_disown(holding->lease);
    redlock_lease_free(holding->lease);
}

int cli_extend(struct cli *cli, int argc, char **argv)
{
    struct holding holding = {.cli = cli, .slot = CLI_UNSAID};
    int64_t ttl_ms = CLI_UNSAID;
    const struct cli_option own[] = {
        {"ttl", 't', CLI_DURATION, &ttl_ms},
        {"token-file", 0, CLI_TEXT, &holding.path},
        {"slot", 0, CLI_NUMBER, &holding.slot},
        CLI_KEYS_OPTION(cli),
        {NULL, 0, CLI_FLAG, NULL},
    };
    holding.key = cli_keys_begin(&cli->keys, argv[cli_parse(cli, argc, argv, own)]);
    read_token(&holding);
    read_slot(&holding);
    if (ttl_ms != CLI_UNSAID)
        cli->lease.ttl_ms = ttl_ms;
    else if (holding.path)
        cli->lease.ttl_ms = holding.file.ttl_ms;
    cli->lease.watchdog = false; /* no process remains to extend it */
    if (holding.path && !may_extend(&holding))
        return CLI_GONE;

    cli_connect(cli);
    int exit_code = extend(&holding);
    free_lease(&holding);
    cli_drain(cli);
    cli_disconnect(cli);
    free((void *)holding.slot_key.bytes);
    return exit_code;
}

/* Its times are by the clock that this process reads. */
static bool is_of_this_boot(const struct tokenfile *file)
{
    int64_t left;
    return tokenfile_left(file, &left) != TOKENFILE_OTHER_BOOT;
}

static int report_released(struct holding *holding)
{
    if (print_code(holding, REDLOCK_OK))
        return CLI_OK;
    cli_complain("stdout: %s; %s is released", strerror(errno), holding->key);
    return CLI_FAILED;
}

int cli_release(struct cli *cli, int argc, char **argv)
{
    struct holding holding = {.cli = cli, .slot = CLI_UNSAID};
    const struct cli_option own[] = {
        {"token-file", 0, CLI_TEXT, &holding.path},
        {"slot", 0, CLI_NUMBER, &holding.slot},
        CLI_KEYS_OPTION(cli),
        {NULL, 0, CLI_FLAG, NULL},
    };
    holding.key = cli_keys_begin(&cli->keys, argv[cli_parse(cli, argc, argv, own)]);
    read_token(&holding);
    read_slot(&holding);
    if (holding.path)
        cli->lease.ttl_ms = holding.file.ttl_ms;
    if (cli->options.max_ttl_ms > 0 && cli->lease.ttl_ms > cli->options.max_ttl_ms)
        cli->lease.ttl_ms = cli->options.max_ttl_ms; /* a release asks for no time */
    cli->lease.watchdog = false;

    cli_connect(cli);
    if (holding.file.begun_us > 0 && is_of_this_boot(&holding.file))
        learn_tell(cli, holding.file.begun_us, holding.file.ttl_ms);
    redlock_code code = adopt(&holding, 0); /* a release needs no deadline */
    if (code == REDLOCK_OK)
        code = redlock_release(holding.lease, cli_note_outcome, &holding.outcome);
    if (code != REDLOCK_OK)
        cli_fail_start(code, holding.key);
    wait_for_replies(&holding);
    int exit_code = holding.outcome.result.code == REDLOCK_OK ? report_released(&holding)
                                                              : report_failure(&holding);
    cli_drain(cli);
    redlock_lease_free(holding.lease);
    cli_disconnect(cli);
    free((void *)holding.slot_key.bytes);
    return exit_code;
}
