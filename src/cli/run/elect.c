/* redlock elect: leads while a command runs, again and again; or shows who leads. */
#include "run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_MS 1000 /* after an attempt that failed */

const struct cli_help cli_elect_help = {
    "Usage: redlock elect [OPTION]... NAME [--] CMD [ARG...]\n"
    "       redlock elect --observe NAME\n"
    "Campaign for NAME, on admitted nodes; run CMD while this candidate leads; campaign\n"
    "again when it does not lead any more. At most one leads at a time.\n\n"
    "  -t, --ttl TTL             how long a dead leader still leads; default "
    "30s\n" CLI_KILL_HELP
    "      --observe             take no part: print each change of "
    "leader\n" CLI_STATS_FILE_HELP
    "\n"
    "Example:\n"
    "  redlock elect -t 10s scheduler -- my-scheduler\n",
    "  redlock elect --observe --json scheduler | jq -r .leader\n\n"
    "CMD gets REDLOCK_TERM, the number of the term: it rises with each leader, and\n"
    "each resource that CMD uses must refuse smaller ones (it is also REDLOCK_FENCE).\n"
    "CMD is stopped before its leadership ends, as by redlock run. When CMD ends, the\n"
    "leader resigns. TERM and INT are forwarded to CMD; a candidate that does not\n"
    "lead ends. Observers see the candidate's --label.\n\n"
    "Exit codes: CMD's own, 128+n if signal n ended it or the wait; 124 the leadership\n"
    "was lost, and CMD had ended when that was noticed; 126 CMD cannot be executed; 127\n"
    "CMD is not found.\n",
};

/* --- leading --- */

/* A campaign may end otherwise if it is tried again. */
static bool goes_on(const struct run *run)
{
    return run->ending.stopped || run->ending.cause == BY_NO_QUORUM;
}

/* One term after the other, each by a keeper and connections of its own. */
static int lead(const struct run *first, int64_t kill_after_ms)
{
    for (;;) {
        struct run run = *first;
        run_play(&run, kill_after_ms);
        if (!goes_on(&run))
            return run.ending.exit;
        if (run.ending.signal != 0)
            return CLI_SIGNALLED + run.ending.signal;
        if (run.lock.state == LOCK_NOT_HELD)
            cli_sleep(PAUSE_MS);
    }
}

/* --- observing --- */

struct observer {
    const struct cli *cli;
    const char *name;
    bool done;
    int failed; /* the exit code if stdout could not be written; or 0 */
};

static bool elect_print_json(const struct observer *observer, const redlock_leader *leader)
{
    bool leads = leader->term > 0;
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:o, s:I}", "name", cli_json_text(observer->name), "leader",
        leads ? cli_json_text(leader->id) : json_null(), "term",
        leads ? json_integer(leader->term) : json_null(), "cause", cli_cause(leader->code),
        "unix_ms", (json_int_t)cli_clock_us(CLOCK_REALTIME) / 1000);
    return cli_print_json(observer->cli, object);
}

/* "TIME NAME: ID leads, term T" */
static bool print_line(const struct observer *observer, const redlock_leader *leader)
{
    char *name = cli_printable(observer->name), *id = cli_printable(leader->id);
    cli_print_time();
    if (leader->code != REDLOCK_OK)
        cli_print("%s: unknown: too few nodes reply\n", name);
    else if (leader->term == REDLOCK_NO_FENCE)
        cli_print("%s: nobody leads\n", name);
    else
        cli_print("%s: %s leads, term %" PRId64 "\n", name, id, leader->term);
    free(name);
    free(id);
    return cli_flush();
}

static void changed(redlock_observer *handle, const redlock_leader *leader, void *arg)
{
    struct observer *observer = arg;
    (void)handle;
    if (observer->done)
        return;
    observer->failed =
        cli_exit_streamed(observer->cli->json ? elect_print_json(observer, leader)
                                              : print_line(observer, leader));
    observer->done = observer->failed != 0;
}

static int observe(struct cli *cli, const char *name)
{
    struct observer observer = {.cli = cli, .name = name};
    struct cli_signals signals;
    redlock_observer *handle;
    cli_connect(cli);
    redlock_code code =
        redlock_observe(cli->client, name, strlen(name), changed, &observer, &handle);
    cli_need_start(code, name);
    cli_signals_begin(&signals, cli->base, cli_set, &observer.done);
    cli_wait(cli->base, &observer.done);
    int exit_code = observer.failed ? observer.failed : CLI_SIGNALLED + signals.number;
    redlock_observer_free(handle);
    cli_signals_end(&signals);
    cli_disconnect(cli);
    return exit_code;
}

int cli_elect(struct cli *cli, int argc, char **argv)
{
    struct run run = {.lock.cli = cli};
    int64_t kill_after_ms = KILL_AFTER_MS;
    bool observes = false;
    const struct cli_option own[] = {
        {CLI_TTL_OPTION(cli)},
        {"kill-after", 0, CLI_DURATION, &kill_after_ms},
        {MAX_HOLD_OPTION(cli)},
        {"spare-daemons", 0, CLI_FLAG, &run.cmd.plan.spare_daemons},
        {STATS_FILE_OPTION(&run.stats_file)},
        {"observe", 0, CLI_FLAG, &observes},
        {NULL, 0, CLI_FLAG, NULL},
    };
    int first = cli_parse(cli, argc, argv, own);
    cli->lease.kind = REDLOCK_KIND_ELECTION;
    cli->lease.fenced = true;
    cli->lease.wait_ms = REDLOCK_FOREVER;
    if (observes && argc - first > 1)
        cli_fail(CLI_USAGE, "elect: --observe takes no command");
    if (observes)
        return observe(cli, argv[first]);
    run_read_command(&run, argv, first, argc);
    return lead(&run, kill_after_ms);
}
