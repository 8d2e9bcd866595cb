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
#define SET_MS      1000 /* a clock whose error has changed by so much was set meanwhile */

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void check_options(const struct once *once, const struct lock *lock)
{
    const redlock_lease_options *lease = &lock->cli->lease;
    if (lock->at_least_ms > 0)
        cli_fail(CLI_USAGE, "run: --once-per and --at-least exclude each other");
    if (once->period_ms == CLI_UNSAID)
        cli_fail(CLI_USAGE, "run: --once-id and --retry need --once-per");
    if (once->id && once->id[0] == '\0')
        cli_fail(CLI_USAGE, "run: --once-id is empty");
    if (once->period_ms < PERIOD_MIN_MS || once->period_ms > PERIOD_MAX_MS)
        cli_fail(CLI_USAGE, "run: --once-per is from 1s to 31d");
    if (lease->kind != REDLOCK_KIND_EXCLUSIVE || lease->fenced ||
        lock->cli->keys.others > 0)
        cli_fail(CLI_USAGE,
                 "run: --once-per is for plain locks of one key: without "
                 "--fence, --shared, --redisson, --slots and --and");
}

void once_begin(struct once *once, struct lock *lock)
{
    struct cli *cli = lock->cli;
    char number[24];
    int64_t now_ms = cli_clock_us(CLOCK_REALTIME) / 1000, period_ms = once->period_ms;
    check_options(once, lock);
    once->lock = lock;
    once->begun_ms = once->id ? now_ms : now_ms - now_ms % period_ms;
    snprintf(number, sizeof(number), "%" PRId64, now_ms / period_ms);
    cli->lease.kind = REDLOCK_KIND_RECORD;
    cli->lease.ttl_ms = lesser(cli->lease.ttl_ms, period_ms / TTL_SHARE);
    int64_t rest_ms = once->begun_ms + period_ms - now_ms;
    if (cli->lease.wait_ms == REDLOCK_FOREVER || cli->lease.wait_ms > rest_ms)
        cli->lease.wait_ms = rest_ms;
    char *key = cli_format("%s@%s", lock->key, once->id ? once->id : number);
    lock->key = cli_keys_begin(&cli->keys, key);
}

/* The clock may have been set since the period was chosen by it. */
static int64_t clock_error(struct once *once)
{
    int64_t theirs = redlock_client_nodes_time(once->lock->cli->client);
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
        redlock_cancel(once->lock->lease);
}

static bool look(struct once *once)
{
    const struct cli *cli = once->lock->cli;
    const redlock_key *key = &cli->keys.of[0];
    once->inspection.done = false;
    return redlock_inspect(cli->client, key->bytes, key->len, look_is_done, once) ==
           REDLOCK_OK;
}

static void on_tick(void *arg)
{
    struct once *once = arg;
    if (once->inspection.done && !once->taken && !look(once))
        once->inspection.done = true;
}

void once_wait(struct once *once)
{
    cli_timer_begin(&once->timer, once->lock->cli->base, LOOK_MS, on_tick, once);
}

void once_wait_ends(struct once *once)
{
    cli_timer_end(&once->timer);
}

/* --- what is concluded --- */

static const char *holder_of(const struct once *once)
{
    const struct inspection *inspection = &once->inspection;
    const redlock_node *holder = cli_holder(inspection->nodes, inspection->found.count);
    return holder ? holder->holder : "another";
}

/* A host whose clock is wrong is in another period than it believes. */
static bool has_time(struct once *once)
{
    char span[CLI_SPAN];
    int64_t error_ms = clock_error(once), off_ms = once->off_ms;
    if (error_ms == 0)
        return true;
    cli_complain("%s: refused: the clock of this host %s %s %s of the nodes' clocks",
                 once->lock->key, llabs(error_ms - off_ms) < SET_MS ? "is" : "was",
                 cli_span(span, error_ms > 0 ? error_ms : -error_ms),
                 error_ms > 0 ? "ahead" : "behind");
    ending_conclude(once->lock->ending, CLI_CONFIG, BY_CLOCK);
    return false;
}

void once_judge(struct once *once)
{
    const struct lock *lock = once->lock;
    if (!has_time(once) || !once->taken)
        return;
    cli_say(lock->cli, "%s: taken by %s", lock->key, holder_of(once));
    ending_conclude(lock->ending, (int)lock->cli->held_elsewhere, BY_RECORD);
}

void once_ask(struct once *once)
{
    if (look(once))
        cli_wait(once->lock->cli->base, &once->inspection.done);
    if (once->lock->ending->signal != 0)
        ending_conclude_signal(once->lock->ending);
    else
        once_judge(once);
}

/* --- the record --- */

/* The TTL of the record, to the end of the next period; 0: that has passed. ms */
static int64_t left_of_record(const struct once *once)
{
    int64_t end_ms = once->begun_ms + 2 * once->period_ms,
            now_ms = cli_clock_us(CLOCK_REALTIME) / 1000;
    return end_ms > now_ms ? end_ms - now_ms : 0;
}

/* The same on the nodes' clocks. */
static int64_t record_ttl(const struct once *once)
{
    int64_t wanted =
        lock_ttl_for(once->lock, left_of_record(once)) + once->lock->cli->lease.margin_ms;
    return wanted < REDLOCK_RECORD_MAX_MS ? wanted : REDLOCK_RECORD_MAX_MS;
}

static void on_taken(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct once *once = arg;
    struct ending *ending = once->lock->ending;
    (void)lease;
    if (ending->signal != 0) {
        ending_conclude_signal(ending);
    } else if (result->code != REDLOCK_OK) {
        char *why = lock_why_not_extended(once->lock, redlock_code_text(result->code));
        cli_complain("%s: no record of the period, the command is not run: %s",
                     once->lock->key, why);
        free(why);
        ending_conclude(ending, CLI_NO_QUORUM, BY_NO_QUORUM);
    }
    once->proceed(once->arg);
}

void once_record(struct once *once, void (*proceed)(void *arg), void *arg)
{
    const struct lock *lock = once->lock;
    once->proceed = proceed;
    once->arg = arg;
    if (!lock->cli->options.durable)
        cli_say(lock->cli,
                "%s: if a quorum of the nodes forgets the record, it runs again; --durable "
                "says that they do not",
                lock->key);
    if (!has_time(once) || once->retry) {
        proceed(arg);
    } else {
        redlock_code code = redlock_extend(lock->lease, record_ttl(once), on_taken, once);
        if (code != REDLOCK_OK)
            on_taken(lock->lease, &(redlock_result){.code = code}, once);
    }
}

static void on_recorded(void *arg, redlock_code code)
{
    struct lock *lock = arg;
    if (code != REDLOCK_OK) {
        char *why = lock_why_not_extended(lock, redlock_code_text(code));
        cli_complain("%s: no record of the success, it may run again: %s", lock->key, why);
        free(why);
    }
    lock_leave(lock);
}

/* By default the record is there since before CMD started. */
bool once_keeps(const struct once *once)
{
    const struct ending *ending = once->lock->ending;
    bool succeeded = ending->cause == BY_CHILD && ending->exit == CLI_OK;
    return ending->fate != NEVER_RAN &&
           (!once->retry ||
            (succeeded && once->lock->state != LOCK_LOST && left_of_record(once) > 0));
}

void once_keep(struct once *once)
{
    if (once->retry)
        lock_extend_last(once->lock, record_ttl(once), on_recorded, once->lock);
    else
        lock_check_and_leave(once->lock, record_ttl(once));
}

json_t *once_json(const struct once *once)
{
    const struct ending *ending = once->lock->ending;
    const char *did = ending->fate != NEVER_RAN   ? "ran"
                      : once->taken               ? "period_taken"
                      : ending->cause == BY_CLOCK ? "refused"
                                                  : "nothing";
    return json_pack("{s:s, s:o, s:I}", "did", did, "holder",
                     once->taken ? cli_json_text(holder_of(once)) : json_null(),
                     "clock_off_ms", (json_int_t)once->off_ms);
}
