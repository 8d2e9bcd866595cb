/* redlock run --once-per: what a run does otherwise. */
#include "run.h"

#include <stdlib.h>

#define SET_MS 1000 /* a clock whose error has changed by so much was set meanwhile */

void run_read_once(struct run *run)
{
    struct cli *cli = run->cli;
    if (run->at_least_ms > 0)
        cli_fail(CLI_USAGE, "run: --once-per and --at-least exclude each other");
    run->key = cli_keys_begin(&cli->keys, once_begin(&run->once, cli, run->key));
}

/* A host whose clock is wrong is in another period than it believes. */
static bool has_time(struct run *run)
{
    char span[CLI_SPAN];
    int64_t error_ms = once_clock_error(&run->once), off_ms = run->once.off_ms;
    if (error_ms == 0)
        return true;
    cli_complain("%s: refused: the clock of this host %s %s %s of the nodes' clocks",
                 run->key, llabs(error_ms - off_ms) < SET_MS ? "is" : "was",
                 cli_span(span, error_ms > 0 ? error_ms : -error_ms),
                 error_ms > 0 ? "ahead" : "behind");
    run_conclude(run, CLI_CONFIG, BY_CLOCK);
    return false;
}

void run_judge_once(struct run *run)
{
    if (!has_time(run) || !run->once.taken)
        return;
    cli_say(run->cli, "%s: taken by %s", run->key, once_holder(&run->once));
    run_conclude(run, (int)run->cli->held_elsewhere, BY_RECORD);
}

void run_ask_once(struct run *run)
{
    once_ask(&run->once);
    if (run->signal != 0)
        run_conclude(run, CLI_SIGNALLED + run->signal, BY_SIGNAL);
    else
        run_judge_once(run);
}

/* The TTL, on the nodes' clocks, of a record that is kept so long. */
static int64_t record_ttl(const struct run *run, int64_t left_ms)
{
    int64_t wanted = run_ttl_for(run, left_ms) + run->cli->lease.margin_ms;
    return wanted < REDLOCK_RECORD_MAX_MS ? wanted : REDLOCK_RECORD_MAX_MS;
}

static void on_taken(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    (void)lease;
    if (run->signal != 0) {
        run_conclude(run, CLI_SIGNALLED + run->signal, BY_SIGNAL);
    } else if (result->code != REDLOCK_OK) {
        char *why = run_why_not_extended(run, redlock_code_text(result->code));
        cli_complain("%s: no record of the period, the command is not run: %s", run->key,
                     why);
        free(why);
        run_conclude(run, CLI_NO_QUORUM, BY_NO_QUORUM);
    }
    run->proceed(run);
}

void run_begin_once(struct run *run, void (*proceed)(struct run *run))
{
    run->proceed = proceed;
    int64_t left_ms = once_left_ms(&run->once);
    if (!run->cli->options.durable)
        cli_say(run->cli,
                "%s: if a quorum of the nodes forgets the record, it runs again; --durable "
                "says that they do not",
                run->key);
    if (!has_time(run) || run->once.retry) {
        proceed(run);
    } else {
        redlock_code code =
            redlock_extend(run->lease, record_ttl(run, left_ms), on_taken, run);
        if (code != REDLOCK_OK)
            on_taken(run->lease, &(redlock_result){.code = code}, run);
    }
}

static void on_recorded(struct run *run, redlock_code code)
{
    if (code != REDLOCK_OK) {
        char *why = run_why_not_extended(run, redlock_code_text(code));
        cli_complain("%s: no record of the success, it may run again: %s", run->key, why);
        free(why);
    }
    redlock_disown(run->lease);
    run->done = true;
}

/* By default the record is there since before CMD started. */
bool run_keeps_once(struct run *run)
{
    bool succeeded = run->cause == BY_CHILD && run->exit == CLI_OK;
    int64_t left_ms = once_left_ms(&run->once);
    if (!run->once.retry) {
        run_check_and_disown(run, record_ttl(run, left_ms > 0 ? left_ms : 0));
    } else if (succeeded && !run->lost && left_ms > 0) {
        child_keep_lock(&run->child);
        run_extend_last(run, record_ttl(run, left_ms), on_recorded);
    } else {
        return false;
    }
    return true;
}

json_t *run_once_json(const struct run *run)
{
    const struct once *once = &run->once;
    const char *did = run->may_have_run        ? "ran"
                      : once->taken            ? "taken"
                      : run->cause == BY_CLOCK ? "refused"
                                               : "nothing";
    return json_pack("{s:s, s:o, s:I}", "did", did, "holder",
                     once->taken ? cli_json_text(once_holder(once)) : json_null(),
                     "clock_off_ms", (json_int_t)once->off_ms);
}
