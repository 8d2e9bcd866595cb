#include "holding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct cli_help cli_extend_help = {
    "Usage: redlock extend [OPTION]... KEY\n"
    "Extend the lock KEY: it then expires TTL from now.\n" TOKEN_SOURCES
    "\n"
    "  -t, --ttl TTL             default: the TTL in the token file, else 30s\n"
    "      --token-file F        what acquire wrote; it gets the new deadline\n" SLOT_HELP
    "\n"
    "Example:\n"
    "  redlock extend -t 1m --token-file /run/backup.lock backup || stop_at_once\n",
    "\n"
    "With a token file, the extension succeeds only before the old deadline, so the\n"
    "lock was held without a gap. A bare token has no deadline: a majority must still\n"
    "store it, and another client may have held the lock in between.\n\n"
    "Exit codes: 0 extended; 1 gone, or past its deadline; 2 another client holds it;\n"
    "69 no quorum: the lock is held until its old deadline.\n",
};

#define PAUSE_MAX_MS 10 /* between reading the clock and adopting the lease */

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
        redlock_code code = holding_adopt(holding, left - PAUSE_MAX_MS);
        int64_t took = cli_clock_us(CLOCK_BOOTTIME) - before;
        if (code != REDLOCK_OK || took < PAUSE_MAX_MS * 1000)
            return code;
        redlock_disown(holding->lease);
        redlock_lease_free(holding->lease);
        holding->lease = NULL;
    }
}

/* The lock may be extended before the file's deadline; if not, prints why. */
static bool may_extend(struct holding *holding)
{
    int64_t left;
    enum tokenfile_state state = tokenfile_left(&holding->file, &left);
    if (state == TOKENFILE_VALID)
        return true;
    bool expired = state == TOKENFILE_EXPIRED;
    cli_say(holding->cli, "%s is no longer held: %s %s", holding->key, holding->path,
            expired ? "is past its deadline" : "was written under another boot or clock");
    holding_print(holding, expired ? "expired" : "other_boot",
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
        return holding_report_failure(holding);
    }
    if (holding->path && !tokenfile_write(holding->path, &holding->file, &cli->keys)) {
        cli_complain("%s: %s; %s is extended, but the file has the old deadline",
                     holding->path, strerror(errno), holding->key);
        return CLI_FAILED;
    }
    if (!holding->path)
        cli_say(cli,
                "%s is extended; to prove that no other client held it in between, use "
                "--token-file",
                holding->key);
    json_t *object = tokenfile_json(&holding->file, &cli->keys);
    json_object_set_new(object, "continuity",
                        json_string(holding->path ? "proven" : "unproven"));
    if (holding_print(holding, "ok", object))
        return CLI_OK;
    cli_complain("stdout: %s; %s is extended", strerror(errno), holding->key);
    return CLI_FAILED;
}

/* No node was sent the round: the connections or the markers have the reason. */
static void report_unasked(struct holding *holding)
{
    struct cli_outcome *outcome = &holding->outcome;
    const redlock_client *client = holding->cli->client;
    bool is_fenced;
    redlock_token_kind(holding->file.token, &is_fenced);
    outcome->count =
        is_fenced ? redlock_client_members(client, outcome->nodes, REDLOCK_NODES_MAX)
                  : redlock_client_explain(client, outcome->nodes, REDLOCK_NODES_MAX);
}

static int extend(struct holding *holding)
{
    redlock_code code = holding->path ? adopt_timed(holding) : holding_adopt(holding, 0);
    if (code == REDLOCK_OK)
        code = redlock_extend(holding->lease, 0, cli_note_outcome, &holding->outcome);
    if (code == REDLOCK_EXPIRED || code == REDLOCK_NOT_HELD) {
        holding->outcome.result.code = REDLOCK_EXPIRED;
        return holding_report_failure(holding);
    }
    cli_need_start(code, holding->key);
    holding_wait(holding);
    if (cli_count_faults(holding->outcome.nodes, holding->outcome.count) == 0 &&
        holding->outcome.result.code == REDLOCK_NO_QUORUM)
        report_unasked(holding);
    return holding->outcome.result.code == REDLOCK_OK ? report_extended(holding)
                                                      : holding_report_failure(holding);
}

/*
 * A round that found the lock lost may have recreated the key on nodes that had lost it.
 * There the key would keep other clients out, and a later extension would find it and take
 * the lock as held. So the handle of a lost lock is not disowned: freeing it releases the
 * lock.
 */
static void free_lease(struct holding *holding)
{
    bool lost = holding_is_lost(holding->outcome.result.code);
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
        {CLI_KEYS_OPTION(cli)},
        {NULL, 0, CLI_FLAG, NULL},
    };
    holding_read(&holding, argc, argv, own);
    if (ttl_ms != CLI_UNSAID)
        cli->lease.ttl_ms = ttl_ms;
    else if (holding.path)
        cli->lease.ttl_ms = holding.file.ttl_ms;
    cli->lease.watchdog = false; /* no process remains to extend it */
    if (holding.path)
        tokenfile_need_regular(holding.path);
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
