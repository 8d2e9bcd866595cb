#include "holding.h"
#include "nesting.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    char *key = cli_format("%s!%" PRId64, holding->key, slot);
    holding->slot_key = (redlock_key){key, strlen(key)};
    cli->lease.slots = (unsigned)slots; /* the token says that it is one */
}

void holding_read(struct holding *holding, int argc, char **argv,
                  const struct cli_option *own)
{
    struct cli *cli = holding->cli;
    holding->key = cli_keys_begin(&cli->keys, argv[cli_parse(cli, argc, argv, own)]);
    read_token(holding);
    read_slot(holding);
}

bool holding_print(struct holding *holding, const char *cause, json_t *object)
{
    if (!holding->cli->json) {
        json_decref(object);
        return true;
    }
    json_object_set_new(object, "cause", json_string(cause));
    cli_add_outcome(object, &holding->outcome);
    return cli_print_json(holding->cli, object);
}

bool holding_print_code(struct holding *holding, redlock_code code)
{
    char cause[CLI_CAUSE];
    return holding_print(holding, cli_cause_name(code, cause),
                         cli_keys_json(&holding->cli->keys));
}

static int holding_exit_of(const struct holding *holding)
{
    const struct cli_outcome *outcome = &holding->outcome;
    redlock_code code = outcome->result.code;
    if (code == REDLOCK_GONE || code == REDLOCK_EXPIRED)
        return CLI_GONE;
    int exit_code = cli_acquire_exit(code, CLI_OTHERS);
    bool is_denied = cli_is_denied(outcome->nodes, outcome->count, outcome->result.quorum);
    return exit_code == CLI_NO_QUORUM && is_denied ? CLI_DENIED : exit_code;
}

/* Prints the nodes' errors, if too few of them granted or confirmed. */
static void report_too_few(struct holding *holding)
{
    const redlock_result *result = &holding->outcome.result;
    const redlock_node *nodes = holding->outcome.nodes;
    const char *advice = cli_advice(nodes, holding->outcome.count, result->quorum);
    if (result->code == REDLOCK_UNCONFIRMED) {
        cli_say_not_released(holding->cli, holding->key, "", result, nodes,
                             holding->outcome.count);
        return;
    }
    char *why = cli_too_few(result, nodes, holding->outcome.count);
    cli_say(holding->cli, "%s is not extended, and held until its old deadline: %s%s",
            holding->key, why, advice);
    free(why);
}

bool holding_is_lost(redlock_code code)
{
    return code == REDLOCK_GONE || code == REDLOCK_TAKEN || code == REDLOCK_EXPIRED;
}

int holding_report_failure(struct holding *holding)
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
    else if (code == REDLOCK_GONE)
        cli_say(cli, "%s is not held: a majority of the nodes does not have this token",
                holding->key);
    else
        cli_say(cli, "%s: %s", holding->key, redlock_code_text(code));
    if (holding_is_lost(code))
        cli_say_record(cli);
    int exit_code = holding_exit_of(holding);
    holding_print_code(holding, exit_code == CLI_DENIED ? REDLOCK_DENIED : code);
    return exit_code;
}

void holding_wait(struct holding *holding)
{
    cli_wait(holding->cli->base, &holding->outcome.done);
    if (holding->outcome.result.code != REDLOCK_OK) {
        cli_drain(holding->cli);
        holding->outcome.count =
            redlock_explain(holding->lease, holding->outcome.nodes, REDLOCK_NODES_MAX);
    }
    cli_say_nodes(holding->cli, holding->outcome.nodes, holding->outcome.count);
}

redlock_code holding_adopt(struct holding *holding, int64_t valid_ms)
{
    const struct cli_keys *keys = &holding->cli->keys;
    bool is_slot = holding->slot_key.bytes;
    const char *token = holding->file.token;
    redlock_code code =
        redlock_adopt_many(holding->cli->client, is_slot ? &holding->slot_key : keys->of,
                           is_slot ? 1 : cli_keys_count(keys), token, valid_ms,
                           &holding->cli->lease, &holding->lease);
    if (code == REDLOCK_BAD_KEY && redlock_token_kind(token, NULL) == REDLOCK_KIND_SLOT)
        cli_fail(CLI_USAGE,
                 "%s: the token is that of a slot: --slot says of which one, or "
                 "--token-file, which has it",
                 holding->key);
    return code;
}
