#include "lock.h"

#include <stdlib.h>
#include <string.h>

#include "keeper.h"

#define LATE "not extended in time"

/* --- the acquire --- */

void lock_acquire(struct lock *lock, redlock_lease_fn *acquired, void *arg)
{
    struct cli *cli = lock->cli;
    redlock_code code =
        redlock_acquire_many(cli->client, cli->keys.of, cli_keys_count(&cli->keys),
                             &cli->lease, acquired, arg, &lock->lease);
    cli_need_start(code, lock->key);
    cli_waiting_begin(&lock->waiting, cli, lock->key, &lock->lease);
    nesting_begin(&lock->nesting, cli, &lock->lease);
}

static enum run_cause cause_of(redlock_code code)
{
    switch (code) {
    case REDLOCK_TAKEN: return BY_HOLDER;
    case REDLOCK_TIMEOUT: return BY_TIMEOUT;
    case REDLOCK_NO_QUORUM:
    case REDLOCK_EXPIRED: return BY_NO_QUORUM;
    case REDLOCK_DENIED: return BY_DENIAL;
    case REDLOCK_BAD_TTL: return BY_TTL;
    default: return BY_FAILURE;
    }
}

void lock_take(struct lock *lock, const redlock_result *result, bool explained)
{
    struct ending *ending = lock->ending;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(lock->lease, nodes, REDLOCK_NODES_MAX);
    cli_waiting_end(&lock->waiting);
    nesting_end(&lock->nesting);
    lock->state = result->code == REDLOCK_OK ? LOCK_HELD : LOCK_NOT_HELD;
    lock->fence = redlock_fence(lock->lease);
    lock->since_us = keeper_clock();
    lock_tell_nodes(lock);
    if (ending->signal != 0) {
        cli_say(lock->cli, "%s: %s; the lock is not held", lock->key,
                strsignal(ending->signal));
        ending_conclude_signal(ending);
    } else if (lock->state == LOCK_NOT_HELD && lock->nesting.found) {
        nesting_complain(lock->key);
        ending_conclude(ending, CLI_USAGE, BY_NESTING);
    } else if (lock->state == LOCK_NOT_HELD && !explained) {
        cli_say_not_acquired(lock->cli, lock->key, result, nodes, count);
        ending_conclude(ending,
                        cli_acquire_exit(result->code, (int)lock->cli->held_elsewhere),
                        cause_of(result->code));
    }
}

/* --- what its nodes reply --- */

void lock_tell_nodes(struct lock *lock)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(lock->lease, nodes, REDLOCK_NODES_MAX);
    cli_say_nodes(lock->cli, nodes, count);
    json_decref(lock->nodes);
    lock->nodes = lock->cli->json ? cli_nodes_json(nodes, count) : NULL;
}

char *lock_why_not_extended(const struct lock *lock, const char *otherwise)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(lock->lease, nodes, REDLOCK_NODES_MAX);
    if (cli_count_faults(nodes, count) == 0)
        return cli_format("%s", otherwise);
    char *faults = cli_faults(nodes, count);
    char *why = cli_format("not extended: %s", faults);
    free(faults);
    return why;
}

char *lock_why_lost(const struct lock *lock, redlock_code code)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    if (code == REDLOCK_EXPIRED)
        return lock_why_not_extended(lock, LATE);
    size_t count = redlock_explain(lock->lease, nodes, REDLOCK_NODES_MAX);
    const redlock_node *holder = cli_holder(nodes, count);
    if (code != REDLOCK_TAKEN || !holder)
        return cli_format("%s", redlock_code_text(code));
    return cli_format("%s is held by %s",
                      cli_keys_taken(&lock->cli->keys, lock->key, holder), holder->holder);
}

static void say_not_extended(const struct lock *lock)
{
    char *why = lock_why_not_extended(lock, LATE), span[CLI_SPAN];
    cli_say(lock->cli, "%s: %s; the lock ends in %s unless the next extension succeeds",
            lock->key, why, cli_span(span, redlock_valid_ms(lock->lease)));
    free(why);
}

void lock_tell_event(const struct lock *lock, const redlock_event *event)
{
    if (event->type == REDLOCK_EVENT_WATCHDOG_EXTENSION_FAILED)
        say_not_extended(lock);
    else if (event->type == REDLOCK_EVENT_WATCHDOG_EXTENSION_RECOVERED)
        cli_say(lock->cli, "%s: the lock is extended again", lock->key);
}

/* --- the last extension, which keeps it when redlock has ended, too --- */

int64_t lock_ttl_for(const struct lock *lock, int64_t ms)
{
    return ms + ms * lock->cli->options.drift_ppm / 500000 + 10;
}

static void extend_last(struct lock *lock);

static void on_pause_ended(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    extend_last(arg);
}

static bool tries_again(struct lock *lock, redlock_code code)
{
    int64_t pause_ms = lock->cli->lease.ttl_ms / CLI_RETRY_SHARE;
    const struct timeval pause = {pause_ms / 1000, pause_ms % 1000 * 1000};
    return code == REDLOCK_NO_QUORUM && lock->ending->signal == 0 &&
           redlock_valid_ms(lock->lease) > 0 &&
           event_base_once(lock->cli->base, -1, EV_TIMEOUT, on_pause_ended, lock, &pause) ==
               0;
}

static void on_extended_last(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lock *lock = arg;
    (void)lease;
    if (!tries_again(lock, result->code))
        lock->extended_last(lock->extended_arg, result->code);
}

static void extend_last(struct lock *lock)
{
    redlock_code code =
        redlock_extend(lock->lease, lock->last_ttl_ms, on_extended_last, lock);
    if (code != REDLOCK_OK)
        on_extended_last(lock->lease, &(redlock_result){.code = code}, lock);
}

void lock_extend_last(struct lock *lock, int64_t ttl_ms,
                      void (*then)(void *arg, redlock_code code), void *arg)
{
    lock->last_ttl_ms = ttl_ms;
    lock->extended_last = then;
    lock->extended_arg = arg;
    extend_last(lock);
}

/* --- its end --- */

void lock_leave(struct lock *lock)
{
    redlock_disown(lock->lease);
    lock->ending->done = true;
}

/* If the lock is gone, the caller's on_lost has told it. */
static void on_checked(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)lease;
    (void)result;
    lock_leave(arg);
}

/* An extension never ends a lock earlier. */
void lock_check_and_leave(struct lock *lock, int64_t ttl_ms)
{
    if (redlock_extend(lock->lease, ttl_ms, on_checked, lock) != REDLOCK_OK)
        lock_leave(lock);
}

/* So many nodes did not store the lock any more that another client may have held it. */
static bool is_missing(const redlock_lease *lease)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t missing = 0, count = redlock_explain(lease, nodes, REDLOCK_NODES_MAX);
    for (size_t i = 0; i < count; i++)
        missing += nodes[i].verdict == REDLOCK_VERDICT_GONE ||
                   nodes[i].verdict == REDLOCK_VERDICT_HELD ||
                   nodes[i].verdict == REDLOCK_VERDICT_UNASKED;
    return missing > count / 2;
}

static void say_not_released(struct lock *lock, bool ran, const redlock_result *result)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(lock->lease, nodes, REDLOCK_NODES_MAX);
    lock_tell_nodes(lock);
    cli_say_not_released(lock->cli, lock->key, ran ? "the command has ended, but " : "",
                         result, nodes, count);
}

/* After the deadline the nodes may have let the lock expire. */
static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lock *lock = arg;
    bool ran = lock->ending->fate == HAS_ENDED, was_lost = lock->state == LOCK_LOST;
    if (keeper_clock() < lock->valid_until_us && ran && is_missing(lease)) {
        lock_tell_nodes(lock);
        ending_replace_by_loss(lock->ending, lock->key);
    } else if (result->code == REDLOCK_UNCONFIRMED && !was_lost) {
        say_not_released(lock, ran, result);
    } else if (result->code != REDLOCK_OK && ran && !was_lost) {
        cli_say(lock->cli, "%s: the command has ended, but %s", lock->key,
                redlock_code_text(result->code));
    }
    lock->ending->done = true;
}

static void release(struct lock *lock)
{
    lock->valid_until_us = keeper_clock() + redlock_valid_ms(lock->lease) * 1000;
    if (redlock_release(lock->lease, on_released, lock) != REDLOCK_OK)
        lock->ending->done = true;
}

static int64_t left_of_at_least(const struct lock *lock)
{
    return lock->at_least_ms - (keeper_clock() - lock->since_us) / 1000;
}

static void on_kept(void *arg, redlock_code code)
{
    struct lock *lock = arg;
    char span[CLI_SPAN];
    int64_t valid_ms = redlock_valid_ms(lock->lease);
    if (code == REDLOCK_GONE || code == REDLOCK_TAKEN) { /* ending_replace_by_loss() */
        release(lock);
        return;
    }
    if (valid_ms < left_of_at_least(lock)) {
        char *why = lock_why_not_extended(lock, redlock_code_text(code));
        cli_complain("%s: not kept for --at-least, it may be free in %s: %s", lock->key,
                     cli_span(span, valid_ms), why);
        free(why);
    }
    lock_leave(lock);
}

/*
 * A lock that lasts long enough is left to its TTL. Else it is extended; an extension never
 * ends a lock earlier.
 */
static void keep(struct lock *lock)
{
    int64_t left = left_of_at_least(lock);
    int64_t wanted = lock_ttl_for(lock, left) + lock->cli->lease.margin_ms;
    const struct cli *cli = lock->cli;
    int64_t most = cli->lease.fenced             ? cli->lease.ttl_ms
                   : cli->options.max_ttl_ms > 0 ? cli->options.max_ttl_ms
                                                 : REDLOCK_TTL_MAX_MS;
    if (wanted > most)
        wanted = most;
    int64_t valid_ms = redlock_valid_ms(lock->lease);
    if (left <= valid_ms)
        lock_check_and_leave(lock, valid_ms);
    else
        lock_extend_last(lock, wanted, on_kept, lock);
}

void lock_end(struct lock *lock)
{
    bool ran = lock->ending->fate == HAS_ENDED;
    if (ran && lock->state == LOCK_HELD && left_of_at_least(lock) > 0)
        keep(lock);
    else
        release(lock);
}
