/* Locking: options, waits, and how waits are given up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync_parts.h"

/* --- options --- */

void redlock_lock_options_init(redlock_lock_options *options)
{
    *options = (redlock_lock_options){
        .size = sizeof(*options),
        .ttl_ms = REDLOCK_TTL_MS,
        .watchdog = true,
        .handoffs = REDLOCK_HANDOFFS,
    };
}

/* False: redlock_lock_options_init() has not set the size. */
static bool copy_options(const redlock_lock_options *options,
                         redlock_lock_options *ret_options)
{
    redlock_lock_options_init(ret_options);
    size_t size = options ? options->size : 0;
    if (options && size < 2 * sizeof(size_t))
        return false;
    if (options)
        memcpy(ret_options, options, size < sizeof(*options) ? size : sizeof(*options));
    return true;
}

redlock_code rl_lock_begin(redlock_sync *sync, const redlock_lock_options *options,
                           redlock_lock_options *ret_options)
{
    redlock_lock_options copy;
    if (!rl_sync_is_ours(sync))
        return REDLOCK_FORKED;
    if (rl_sync_is_loop())
        return REDLOCK_LOOP;
    if (!copy_options(options, &copy))
        return REDLOCK_BAD_OPTION;
    if (copy.ttl_ms <= 0 || copy.ttl_ms > REDLOCK_TTL_MAX_MS)
        return REDLOCK_BAD_TTL;
    if (copy.min_validity_ms < 0 || copy.margin_ms < 0 || copy.max_hold_ms < 0 ||
        copy.handoffs > REDLOCK_HANDOFFS_MAX || (copy.stop && copy.stop->sync != sync))
        return REDLOCK_BAD_OPTION;
    *ret_options = copy;
    return REDLOCK_OK;
}

static redlock_code refuse(redlock_error *ret_error, const char *text)
{
    if (ret_error) {
        ret_error->code = REDLOCK_BAD_OPTION;
        snprintf(ret_error->text, sizeof(ret_error->text), "%s", text);
    }
    return REDLOCK_BAD_OPTION;
}

redlock_code redlock_lock_explain(const redlock_sync *sync, const void *key, size_t key_len,
                                  const redlock_lock_options *options,
                                  redlock_error *ret_error)
{
    char text[64];
    redlock_lock_options mine;
    redlock_lease_options lease;
    if (!copy_options(options, &mine))
        return refuse(ret_error,
                      "size is not set: make the options by redlock_lock_options_init()");
    snprintf(text, sizeof(text), "handoffs is %u, and must be at most %d", mine.handoffs,
             REDLOCK_HANDOFFS_MAX);
    if (mine.handoffs > REDLOCK_HANDOFFS_MAX)
        return refuse(ret_error, text);
    if (mine.stop && mine.stop->sync != sync)
        return refuse(ret_error, "stop is of another client");
    redlock_lease_options_init(&lease);
    lease.ttl_ms = mine.ttl_ms;
    lease.min_validity_ms = mine.min_validity_ms;
    lease.margin_ms = mine.margin_ms;
    lease.max_hold_ms = mine.max_hold_ms;
    return redlock_acquire_explain(sync->client, key, key_len, &lease, ret_error);
}

/* --- waiting --- */

/*
 * It is the first, and nobody has the lock: something is under way for it, or about to be,
 * and that has an end of its own.
 */
static bool is_being_served(const struct rl_waiter *waiter)
{
    const struct rl_key *key = waiter->key;
    return TAILQ_FIRST(&key->waiters) == waiter &&
           !(key->tenure && key->tenure->state == RL_TENURE_HELD);
}

static void wait_for_turn(redlock_sync *sync, struct rl_waiter *waiter)
{
    int64_t deadline = waiter->deadline;
    while (!waiter->wait.done) {
        if (rl_wait_once(sync, &waiter->wait, deadline) || waiter->wait.done)
            continue;
        if (is_being_served(waiter))
            deadline = RL_FOREVER;
        else
            rl_key_dismiss(sync, waiter, REDLOCK_TIMEOUT);
    }
}

static redlock_code join(redlock_sync *sync, const void *key, size_t key_len,
                         struct rl_waiter *waiter)
{
    if (sync->closing)
        return REDLOCK_CLOSED;
    if (waiter->options->stop && waiter->options->stop->stopped)
        return REDLOCK_CANCELLED;
    waiter->key = rl_key_get(sync, key, key_len);
    if (!waiter->key)
        return REDLOCK_NO_MEMORY;
    if (waiter->tries && rl_key_is_wanted(waiter->key))
        return REDLOCK_TAKEN;
    rl_wait_begin(sync, &waiter->wait);
    rl_key_join(sync, waiter);
    wait_for_turn(sync, waiter);
    rl_wait_end(sync, &waiter->wait);
    return waiter->wait.code;
}

/* What it takes is taken before it waits, so that nothing can fail when its turn comes. */
static redlock_code get_lock(redlock_sync *sync, const void *key, size_t key_len,
                             struct rl_waiter *waiter, redlock_hold **ret_hold)
{
    const redlock_lock_options *options = waiter->options;
    struct rl_thread *thread = options->any_thread ? NULL : rl_thread_here();
    if (!options->any_thread && !thread)
        return REDLOCK_NO_MEMORY;
    waiter->hold = rl_hold_new(sync, options);
    waiter->tenure = malloc(sizeof(*waiter->tenure));
    redlock_code code = REDLOCK_NO_MEMORY;
    if (waiter->hold && waiter->tenure) {
        rl_tenure_init(waiter->tenure, sync, options);
        rl_sync_lock(sync);
        code = join(sync, key, key_len, waiter);
        rl_sync_unlock(sync);
    }
    free(waiter->tenure);
    if (code != REDLOCK_OK) {
        if (waiter->hold)
            rl_hold_delete(waiter->hold);
        return code;
    }
    if (thread)
        rl_thread_bind(thread, waiter->hold);
    *ret_hold = waiter->hold;
    return REDLOCK_OK;
}

static redlock_code lock_until(redlock_sync *sync, const void *key, size_t key_len,
                               bool tries, int64_t deadline,
                               const redlock_lock_options *options, redlock_hold **ret_hold)
{
    redlock_lock_options mine;
    struct rl_waiter waiter = {.options = &mine, .tries = tries, .deadline = deadline};
    redlock_code code = rl_lock_begin(sync, options, &mine);
    if (code != REDLOCK_OK)
        return code;
    if (key_len == 0 || key_len > REDLOCK_KEY_MAX)
        return REDLOCK_BAD_KEY;
    return get_lock(sync, key, key_len, &waiter, ret_hold);
}

redlock_code redlock_lock(redlock_sync *sync, const void *key, size_t key_len,
                          const redlock_lock_options *options, redlock_hold **ret_hold)
{
    return lock_until(sync, key, key_len, false, RL_FOREVER, options, ret_hold);
}

redlock_code redlock_try_lock(redlock_sync *sync, const void *key, size_t key_len,
                              const redlock_lock_options *options, redlock_hold **ret_hold)
{
    return lock_until(sync, key, key_len, true, RL_FOREVER, options, ret_hold);
}

redlock_code redlock_lock_for(redlock_sync *sync, const void *key, size_t key_len,
                              int64_t wait_ms, const redlock_lock_options *options,
                              redlock_hold **ret_hold)
{
    if (wait_ms < 0)
        return REDLOCK_BAD_OPTION;
    return lock_until(sync, key, key_len, false, rl_in_ms(wait_ms), options, ret_hold);
}

/* --- giving waits up --- */

redlock_code redlock_stop_new(redlock_sync *sync, redlock_stop **ret_stop)
{
    if (!rl_sync_is_ours(sync))
        return REDLOCK_FORKED;
    rl_sync_lock(sync);
    bool closing = sync->closing;
    rl_sync_unlock(sync);
    if (closing)
        return REDLOCK_CLOSED;
    redlock_stop *stop = calloc(1, sizeof(*stop));
    if (!stop)
        return REDLOCK_NO_MEMORY;
    atomic_fetch_add(&sync->handles, 1);
    stop->sync = sync;
    stop->generation = sync->generation;
    *ret_stop = stop;
    return REDLOCK_OK;
}

static void dismiss_all(redlock_stop *stop, struct rl_key *key)
{
    struct rl_waiter *waiter = TAILQ_FIRST(&key->waiters), *next;
    for (; waiter; waiter = next) {
        next = TAILQ_NEXT(waiter, next);
        if (waiter->options->stop == stop)
            rl_key_dismiss(stop->sync, waiter, REDLOCK_CANCELLED);
    }
}

void redlock_stop_all(redlock_stop *stop)
{
    struct rl_key *key;
    if (!stop || stop->generation != rl_fork_generation())
        return;
    rl_sync_lock(stop->sync);
    stop->stopped = true;
    for (size_t i = 0; i < RL_BUCKETS; i++)
        LIST_FOREACH (key, &stop->sync->bucket[i], in_bucket)
            dismiss_all(stop, key);
    rl_flights_wake(stop->sync);
    rl_sync_unlock(stop->sync);
}

void redlock_stop_free(redlock_stop *stop)
{
    if (!stop)
        return;
    redlock_sync *sync = stop->sync;
    free(stop);
    rl_sync_put(sync);
}
