/* redlock run, after the command: the lock is released, or kept for --at-least. */
#include "run.h"

#define KEEP_MS 1000 /* that an extension for --at-least may take */

static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    (void)lease;
    if (result->code != REDLOCK_OK && run->ran && !run->lost)
        cli_say(run->cli, "%s: the release: %s", run->key, redlock_code_text(result->code));
    run->done = true;
}

static void release(struct run *run)
{
    if (redlock_release(run->lease, on_released, run) != REDLOCK_OK)
        run->done = true;
}

static int64_t left_of_at_least(const struct run *run)
{
    return run->at_least_ms - (keeper_clock() - run->since_us) / 1000;
}

static void on_kept(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    char span[CLI_SPAN];
    if (redlock_valid_ms(lease) < left_of_at_least(run))
        cli_complain("%s: --at-least: %s; it may be free in %s", run->key,
                     redlock_code_text(result->code),
                     cli_span(span, redlock_valid_ms(lease)));
    redlock_disown(lease);
    run->done = true;
}

/*
 * The nodes' clocks may be faster than ours by the drift. A TTL near the margin would be
 * told as lost at once, and LOST is of no use to us any more.
 */
static void keep(struct run *run)
{
    int64_t left = left_of_at_least(run), share = run->cli->lease.ttl_ms / KILL_AFTER_SHARE;
    int64_t drift = left * run->cli->client.drift_ppm / 500000 + 10;
    int64_t least = run->cli->lease.margin_ms + (share < KEEP_MS ? share : KEEP_MS);
    int64_t wanted = left + drift > least ? left + drift : least;
    if (wanted > REDLOCK_TTL_MAX_MS)
        wanted = REDLOCK_TTL_MAX_MS;
    redlock_code code = redlock_extend(run->lease, wanted, on_kept, run);
    if (code != REDLOCK_OK)
        on_kept(run->lease, &(redlock_result){.code = code}, run);
}

void run_leave(struct run *run, bool clean)
{
    run->stage = LEAVING;
    event_del(run->timer);
    if (!run->held) {
        run->done = true;
        return;
    }
    run->held_ms = (keeper_clock() - run->since_us) / 1000;
    if (!clean) {
        cli_complain("%s: some process could not be killed; the lock is left to its TTL",
                     run->key);
        redlock_disown(run->lease);
        run->done = true;
    } else if (run->ran && !run->lost && left_of_at_least(run) > 0) {
        keep(run);
    } else {
        release(run);
    }
}
