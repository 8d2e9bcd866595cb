#include "once.h"

#include <inttypes.h>
#include <stdlib.h>

#define PERIOD_MIN_MS 1000
#define PERIOD_MAX_MS (REDLOCK_RECORD_MAX_MS / 2)
#define TTL_SHARE     3 /* the lock's TTL is at most the period divided by this */
#define RECORD_SHARE                                                                       \
    2 /* a key that lasts longer than the period divided by this is a record */
#define CLOCK_SHARE 4 /* a clock is off by at most the period divided by this */
#define LOOK_MS     1000

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void check_options(const struct once *once, const struct cli *cli)
{
    const redlock_lease_options *lease = &cli->lease;
    if (once->period_ms == CLI_UNSAID)
        cli_fail(CLI_USAGE, "run: --once-id and --retry need --once-per");
    if (once->id && once->id[0] == '\0')
        cli_fail(CLI_USAGE, "run: --once-id is empty");
    if (once->period_ms < PERIOD_MIN_MS || once->period_ms > PERIOD_MAX_MS)
        cli_fail(CLI_USAGE, "run: --once-per is from 1s to 31d");
    if (lease->kind != REDLOCK_KIND_EXCLUSIVE || lease->fenced || cli->keys.others > 0)
        cli_fail(CLI_USAGE,
                 "run: --once-per is for plain locks of one key: without "
                 "--fence, --shared, --redisson, --slots and --and");
}

char *once_begin(struct once *once, struct cli *cli, const char *key)
{
    char number[24];
    int64_t now_ms = cli_clock_us(CLOCK_REALTIME) / 1000, period_ms = once->period_ms;
    check_options(once, cli);
    once->cli = cli;
    once->begun_ms = once->id ? now_ms : now_ms - now_ms % period_ms;
    snprintf(number, sizeof(number), "%" PRId64, now_ms / period_ms);
    cli->lease.kind = REDLOCK_KIND_RECORD;
    cli->lease.ttl_ms = lesser(cli->lease.ttl_ms, period_ms / TTL_SHARE);
    int64_t rest_ms = once->begun_ms + period_ms - now_ms;
    if (cli->lease.wait_ms == REDLOCK_FOREVER || cli->lease.wait_ms > rest_ms)
        cli->lease.wait_ms = rest_ms;
    return cli_format("%s@%s", key, once->id ? once->id : number);
}

/* The clock may have been set since the period was chosen by it. */
int64_t once_clock_error(struct once *once)
{
    int64_t theirs = redlock_client_nodes_time(once->cli->client);
    if (theirs == REDLOCK_UNKNOWN)
        return 0;
    int64_t end_ms = once->begun_ms + once->period_ms;
    int64_t early_ms = once->begun_ms - theirs / 1000, late_ms = theirs / 1000 - end_ms;
    once->off_ms = (cli_clock_us(CLOCK_REALTIME) - theirs) / 1000;
    int64_t error_ms = early_ms > llabs(once->off_ms)  ? early_ms
                       : late_ms > llabs(once->off_ms) ? -late_ms
                                                       : once->off_ms;
    return llabs(error_ms) > once->period_ms / CLOCK_SHARE ? error_ms : 0;
}

int64_t once_left_ms(const struct once *once)
{
    int64_t end_ms = once->begun_ms + 2 * once->period_ms,
            now_ms = cli_clock_us(CLOCK_REALTIME) / 1000;
    return end_ms > now_ms ? end_ms - now_ms : 0;
}

/* --- whether a record is there --- */

/* A lock of the period lasts for a part of it; a record, at least for all of the next. */
static void look_is_done(redlock_client *client, const redlock_inspection *found, void *arg)
{
    struct once *once = arg;
    struct inspection *inspection = &once->inspection;
    inspection_take(client, found, inspection);
    once->taken = inspection_state(inspection) == INSPECTION_HELD &&
                  found->remaining_ms > once->period_ms / RECORD_SHARE;
    if (once->taken && once->timer.event)
        redlock_cancel(*once->lease);
}

static bool once_look(struct once *once)
{
    const redlock_key *key = &once->cli->keys.of[0];
    once->inspection.done = false;
    return redlock_inspect(once->cli->client, key->bytes, key->len, look_is_done, once) ==
           REDLOCK_OK;
}

void once_ask(struct once *once)
{
    if (once_look(once))
        cli_wait(once->cli->base, &once->inspection.done);
}

static void once_tick(void *arg)
{
    struct once *once = arg;
    if (once->inspection.done && !once->taken && !once_look(once))
        once->inspection.done = true;
}

void once_wait(struct once *once, redlock_lease *const *lease)
{
    once->lease = lease;
    cli_timer_begin(&once->timer, once->cli->base, LOOK_MS, once_tick, once);
}

void once_wait_ends(struct once *once)
{
    cli_timer_end(&once->timer);
}

const char *once_holder(const struct once *once)
{
    const struct inspection *inspection = &once->inspection;
    const redlock_node *holder = cli_holder(inspection->nodes, inspection->found.count);
    return holder ? holder->holder : "another";
}
