#include "lock.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/token.h"
#include "failure.h"
#include "sync.h"

/* --- options --- */

void redlock_lock_options_init_sized(redlock_lock_options *options, size_t size)
{
    const redlock_lock_options defaults = {
        .size = size,
        .ttl_ms = REDLOCK_TTL_MS,
        .watchdog = true,
        .handoffs = REDLOCK_HANDOFFS,
    };
    rl_copy_sized(options, size, &defaults, sizeof(defaults));
}

/* The loop owner checks what needs the client's own options. */
static redlock_code check_options(const redlock_sync *sync, redlock_lock_options *options)
{
    const redlock_options client = {.max_ttl_ms = sync->max_ttl_ms};
    redlock_lease_options lease = rl_process_lease_options(options), read;
    redlock_code code = rl_lease_options_read(&lease, &read);
    if (code == REDLOCK_OK)
        code = rl_kind_check(&read, false);
    options->fenced = read.fenced;
    if (code == REDLOCK_OK && options->kind == REDLOCK_KIND_RECORD)
        code = rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_OUT_OF_RANGE, "kind",
                             "is record, which is no lock of a thread");
    if (code == REDLOCK_OK)
        code = rl_check_range("handoffs", options->handoffs, 0, REDLOCK_HANDOFFS_MAX);
    if (code == REDLOCK_OK && options->recursive && options->any_thread)
        code = rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT, "any_thread",
                             "is set, and recursive: only the thread that locked may lock "
                             "again");
    if (code == REDLOCK_OK && options->recursive && options->kind == REDLOCK_KIND_SLOT)
        code = rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT, "recursive",
                             "is set, and the kind is slot: a thread may hold several");
    if (code == REDLOCK_OK && options->stop && options->stop->sync != sync)
        code = rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_FOREIGN, "stop",
                             "belongs to another client");
    lease.margin_ms = lease.min_validity_ms = 0;
    return code == REDLOCK_OK ? rl_ttl_check(&client, &lease, options->ttl_ms, false)
                              : code;
}

redlock_code rl_lock_begin(redlock_sync *sync, const redlock_lock_options *options,
                           redlock_lock_options *ret_options)
{
    redlock_lock_options_init(ret_options);
    redlock_code refusal =
        rl_read_sized(options, RL_FIRST_SIZE(redlock_lock_options, user), ret_options,
                      sizeof(*ret_options), "redlock_lock_options_init");
    if (refusal == REDLOCK_OK)
        refusal = rl_failure_begin(&ret_options->failure);
    redlock_code code = rl_loop_owner_may_wait(sync ? &sync->loop : NULL);
    if (code == REDLOCK_OK)
        code = refusal;
    return code == REDLOCK_OK ? check_options(sync, ret_options) : code;
}

/* --- waiting --- */

/*
 * It is the first waiter, and no thread has the lock. Then an operation for it is under
 * way, or about to begin, and that operation has its own deadline.
 */
static bool is_being_served(const struct rl_key_waiter *waiter)
{
    const struct rl_key *key = waiter->key;
    return TAILQ_FIRST(&key->waiters) == waiter && !rl_process_lease_is_held(key->lease);
}

/* The remaining time of the thread that holds the lock, or REDLOCK_UNKNOWN. */
static int64_t held_for(const struct rl_key *key)
{
    return rl_process_lease_is_held(key->lease) ? rl_until_left_ms(key->lease->until)
                                                : REDLOCK_UNKNOWN;
}

static void lock_dismiss(struct rl_key_waiter *waiter)
{
    rl_failure_by_thread(waiter->options->failure, REDLOCK_TIMEOUT, held_for(waiter->key));
    waiter->wait.error = *redlock_last_error();
    rl_key_dismiss(waiter, REDLOCK_TIMEOUT);
}

static void wait_until_served(redlock_sync *sync, struct rl_key_waiter *waiter)
{
    int64_t deadline = waiter->deadline;
    while (!waiter->wait.done) {
        if (rl_loop_owner_wait_once(&sync->loop, &waiter->wait, deadline) ||
            waiter->wait.done)
            continue;
        if (is_being_served(waiter))
            deadline = RL_FOREVER;
        else
            lock_dismiss(waiter);
    }
}

/* A thread holds the lock, or waits for it. */
static bool is_wanted(const struct rl_key *key)
{
    return !TAILQ_EMPTY(&key->waiters) || rl_process_lease_is_held(key->lease);
}

/*
 * The lease by which the thread reads these sorted keys; NULL: it does not. A process has a
 * reader only while a key is `alone`.
 */
static struct rl_process_lease *reads(const redlock_sync *sync,
                                      const struct rl_thread *thread,
                                      const redlock_key *keys, size_t count)
{
    const struct rl_key *key;
    LIST_FOREACH (key, &sync->leases.keys.bucket[RL_BUCKETS], in_bucket) {
        struct rl_process_lease *lease = key->lease;
        if (thread && lease && lease->options.kind == REDLOCK_KIND_SHARED &&
            rl_process_lease_is_held(lease) && lease->owner->thread == thread &&
            rl_key_is_of(key, keys, count))
            return lease;
    }
    return NULL;
}

static redlock_code join(redlock_sync *sync, const redlock_key *keys, size_t count,
                         struct rl_key_waiter *waiter)
{
    if (sync->loop.closing)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_CLIENT_FREED);
    if (rl_stop_is_stopped(waiter->options->stop))
        return rl_fail_by_reason(REDLOCK_CANCELLED, REDLOCK_REASON_BY_CALLER);
    bool alone = waiter->options->kind == REDLOCK_KIND_SHARED ||
                 waiter->options->kind == REDLOCK_KIND_SLOT;
    if (!alone && reads(sync, waiter->hold->thread, keys, count))
        return rl_fail(REDLOCK_WOULD_DEADLOCK, REDLOCK_REASON_RECURSION,
                       "this thread has the lock as a reader: unlock that first");
    waiter->key = rl_key_get(&sync->leases.keys, keys, count, alone);
    if (!waiter->key)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    if (waiter->one_attempt && is_wanted(waiter->key))
        return rl_failure_by_thread(waiter->options->failure, REDLOCK_TAKEN,
                                    held_for(waiter->key));
    rl_loop_owner_begin_wait(&sync->loop, &waiter->wait);
    rl_key_join(waiter);
    wait_until_served(sync, waiter);
    rl_loop_owner_end_wait(&sync->loop, &waiter->wait);
    return rl_wait_result(&waiter->wait);
}

static void on_thread_end(struct rl_binding *binding)
{
    rl_unlock_abandon(
        (redlock_hold *)((char *)binding - offsetof(struct redlock_hold, binding)));
}

/* --- locking again --- */

static redlock_code extend_for(redlock_hold *hold, const redlock_lock_options *options)
{
    struct rl_process_lease *lease = hold->lease;
    int64_t ttl = lease->options.ttl_ms;
    if (rl_process_lease_has_left(lease, options->min_validity_ms))
        return REDLOCK_OK;
    redlock_code code =
        rl_process_lease_extend(lease, options->ttl_ms > ttl ? options->ttl_ms : ttl);
    if (code == REDLOCK_OK &&
        (redlock_hold_lost(hold) || redlock_hold_valid_ms(hold) < options->min_validity_ms))
        code = rl_fail_by_reason(REDLOCK_EXPIRED, REDLOCK_REASON_LATE);
    return code;
}

static redlock_code lock_enter(redlock_hold *hold, const redlock_lock_options *options)
{
    if (options->fenced && !hold->lease->options.fenced)
        return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT, "fenced",
                             "is set, and this thread has the lock as a plain one");
    if (rl_hold_uses(hold).handles >= REDLOCK_DEPTH_MAX)
        return rl_fail(REDLOCK_BUSY, REDLOCK_REASON_RECURSION,
                       "this thread has locked it %d times", REDLOCK_DEPTH_MAX);
    if (!rl_hold_enter(hold))
        return rl_fail(REDLOCK_NOT_HELD, REDLOCK_REASON_RELEASED,
                       "another thread is unlocking it");
    return REDLOCK_OK;
}

/* The lease of the thread that serves this call; NULL: none. */
static struct rl_process_lease *find_own(const redlock_sync *sync,
                                         const struct rl_thread *thread,
                                         const redlock_key *keys, size_t count,
                                         redlock_kind kind)
{
    struct rl_key *key = rl_key_find(&sync->leases.keys, keys, count);
    bool has =
        key && rl_process_lease_is_held(key->lease) && key->lease->owner->thread == thread;
    return has                           ? key->lease
           : kind == REDLOCK_KIND_SHARED ? reads(sync, thread, keys, count)
                                         : NULL;
}

/* True: the calling thread has the lock; *ret_code: the result of locking it again. */
static bool lock_again(redlock_sync *sync, const redlock_key *keys, size_t count,
                       const redlock_lock_options *options, redlock_hold **ret_hold,
                       redlock_code *ret_code)
{
    struct rl_thread *thread = rl_thread_here();
    rl_loop_owner_lock(&sync->loop);
    struct rl_process_lease *lease =
        thread ? find_own(sync, thread, keys, count, options->kind) : NULL;
    redlock_hold *hold = lease ? lease->owner : NULL;
    bool has = lease != NULL;
    bool entered = has && (*ret_code = lock_enter(hold, options)) == REDLOCK_OK;
    if (entered) /* while this waits, another thread may unlock and free its use of it */
        *ret_code = extend_for(hold, options);
    rl_loop_owner_unlock(&sync->loop);
    if (entered && *ret_code != REDLOCK_OK)
        rl_unlock_undo(hold);
    else if (entered)
        *ret_hold = hold;
    return has;
}

/*
 * All memory is allocated before the wait, so that nothing can fail when it gets the lock.
 * From then on on_lost may free the hold, also before this thread runs: it is bound before,
 * and not used after that.
 */
static redlock_code get_lock(redlock_sync *sync, const redlock_key *keys,
                             const uint8_t *order, size_t count,
                             struct rl_key_waiter *waiter, redlock_hold **ret_hold)
{
    const redlock_lock_options *options = waiter->options;
    struct rl_thread *thread = options->any_thread ? NULL : rl_thread_here();
    if (!options->any_thread && !thread)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    waiter->hold = rl_hold_new(&sync->loop, options);
    waiter->lease = malloc(sizeof(*waiter->lease));
    redlock_code code;
    if (waiter->hold && waiter->lease) {
        waiter->hold->thread = thread;
        memcpy(waiter->hold->order, order, count);
        if (thread)
            rl_thread_bind(thread, &waiter->hold->binding, on_thread_end);
        rl_process_lease_init(waiter->lease, &sync->leases, options);
        rl_loop_owner_lock(&sync->loop);
        code = join(sync, keys, count, waiter);
        rl_loop_owner_unlock(&sync->loop);
    } else {
        code = rl_fail_by_code(REDLOCK_NO_MEMORY);
    }
    free(waiter->lease);
    if (code != REDLOCK_OK) {
        if (waiter->hold) {
            if (thread)
                rl_thread_unbind(&waiter->hold->binding);
            rl_hold_delete(waiter->hold);
        }
        return code;
    }
    *ret_hold = waiter->hold;
    return REDLOCK_OK;
}

/*
 * Sorts the keys, and fills `ret_order` with the caller's number of each: nodes and errors
 * name a key by that. The client checks the rest.
 */
static redlock_code sort_keys(const redlock_key *keys, size_t count,
                              redlock_key ret_sorted[REDLOCK_KEYS_MAX],
                              uint8_t ret_order[REDLOCK_KEYS_MAX])
{
    redlock_code code = rl_check_count(REDLOCK_BAD_KEY, "keys", count, REDLOCK_KEYS_MAX);
    for (size_t i = 0; i < count && code == REDLOCK_OK; i++)
        code = rl_check_len(REDLOCK_BAD_KEY, "key", keys[i].len, REDLOCK_KEY_MAX);
    for (size_t i = 0; i < count && code == REDLOCK_OK; i++)
        if (!rl_key_insert(ret_sorted, i, keys[i], ret_order))
            code = rl_fail_field(REDLOCK_BAD_KEY, REDLOCK_REASON_TWICE, "key",
                                 "is given twice: number %zu", i + 1);
    return code;
}

/* `refusal`: why the arguments of the caller cannot be used; OK: they can. */
static redlock_code lock_until(redlock_sync *sync, const redlock_key *keys, size_t count,
                               struct rl_key_waiter waiter, redlock_code refusal,
                               const redlock_lock_options *options, redlock_hold **ret_hold)
{
    redlock_lock_options mine;
    redlock_key sorted[REDLOCK_KEYS_MAX];
    uint8_t order[REDLOCK_KEYS_MAX];
    redlock_code code = rl_lock_begin(sync, options, &mine);
    waiter.options = &mine;
    if (code == REDLOCK_OK)
        code = refusal;
    if (code == REDLOCK_OK)
        code = sort_keys(keys, count, sorted, order);
    if (code == REDLOCK_OK && waiter.token)
        mine.kind = rl_token_kind_to_adopt(waiter.token, &mine.fenced);
    if (code == REDLOCK_OK) {
        if (!mine.recursive || waiter.token ||
            !lock_again(sync, sorted, count, &mine, ret_hold, &code))
            code = get_lock(sync, sorted, order, count, &waiter, ret_hold);
    }
    return rl_failure_finish(mine.failure, code);
}

redlock_code redlock_lock(redlock_sync *sync, const void *key, size_t key_len,
                          const redlock_lock_options *options, redlock_hold **ret_hold)
{
    return redlock_lock_for(sync, key, key_len, REDLOCK_FOREVER, options, ret_hold);
}

redlock_code redlock_try_lock(redlock_sync *sync, const void *key, size_t key_len,
                              const redlock_lock_options *options, redlock_hold **ret_hold)
{
    return redlock_lock_for(sync, key, key_len, REDLOCK_ONE_ATTEMPT, options, ret_hold);
}

redlock_code redlock_lock_for(redlock_sync *sync, const void *key, size_t key_len,
                              int64_t wait_ms, const redlock_lock_options *options,
                              redlock_hold **ret_hold)
{
    const redlock_key one = {key, key_len};
    return redlock_lock_many(sync, &one, 1, wait_ms, options, ret_hold);
}

redlock_code redlock_lock_many(redlock_sync *sync, const redlock_key *keys, size_t count,
                               int64_t wait_ms, const redlock_lock_options *options,
                               redlock_hold **ret_hold)
{
    struct rl_key_waiter waiter = {
        .deadline = wait_ms > 0 ? rl_in_ms(wait_ms) : RL_FOREVER,
        .one_attempt = wait_ms == 0,
    };
    redlock_code refusal = rl_check_range("wait_ms", wait_ms, REDLOCK_FOREVER, INT64_MAX);
    return lock_until(sync, keys, count, waiter, refusal, options, ret_hold);
}

/* --- by token --- */

redlock_code redlock_lock_adopt_many(redlock_sync *sync, const redlock_key *keys,
                                     size_t count, const char *token, int64_t valid_ms,
                                     const redlock_lock_options *options,
                                     redlock_hold **ret_hold)
{
    struct rl_key_waiter waiter = {
        .deadline = RL_FOREVER,
        .one_attempt = true,
        .token = token,
        .timed = valid_ms > 0,
        .valid = rl_until_after(rl_clocks_begin(), valid_ms),
    };
    redlock_code refusal = rl_check_token(token);
    if (refusal == REDLOCK_OK)
        refusal = rl_check_valid_ms(valid_ms);
    return lock_until(sync, keys, count, waiter, refusal, options, ret_hold);
}

redlock_code redlock_lock_adopt(redlock_sync *sync, const void *key, size_t key_len,
                                const char *token, int64_t valid_ms,
                                const redlock_lock_options *options,
                                redlock_hold **ret_hold)
{
    const redlock_key one = {key, key_len};
    return redlock_lock_adopt_many(sync, &one, 1, token, valid_ms, options, ret_hold);
}

struct release {
    struct rl_call call;
    redlock_sync *sync;
    const redlock_key *keys;
    size_t count;
    const char *token;
};

static void lock_on_released(redlock_lease *handle, const redlock_result *result, void *arg)
{
    struct release *release = arg;
    struct rl_loop_owner *loop = &release->sync->loop;
    redlock_code code = result->code;
    rl_loop_owner_lock(loop);
    release->call.wait.reason = result->reason;
    if (code != REDLOCK_OK) {
        rl_failure_by_nodes(NULL, NULL, code, result->reason, handle, result->remaining_ms);
        release->call.wait.error = *redlock_last_error();
    }
    redlock_lease_free(handle);
    rl_loop_owner_finish_wait(loop, &release->call.wait,
                              code == REDLOCK_CANCELLED ? REDLOCK_UNCONFIRMED : code);
    rl_loop_owner_unlock(loop);
}

static void begin_release(struct rl_loop_owner *loop, struct rl_job *job)
{
    struct release *release = (struct release *)job;
    redlock_lease *handle = NULL;
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    if (release->sync->max_ttl_ms > 0 && options.ttl_ms > release->sync->max_ttl_ms)
        options.ttl_ms = release->sync->max_ttl_ms;
    redlock_code code =
        redlock_adopt_many(release->sync->leases.client, release->keys, release->count,
                           release->token, REDLOCK_UNKNOWN, &options, &handle);
    if (code == REDLOCK_OK)
        code = redlock_release(handle, lock_on_released, release);
    if (code == REDLOCK_OK)
        return;
    release->call.wait.error = *redlock_last_error();
    redlock_lease_free(handle);
    rl_loop_owner_finish_wait(loop, &release->call.wait, code);
}

redlock_code redlock_lock_release_many(redlock_sync *sync, const redlock_key *keys,
                                       size_t count, const char *token)
{
    struct release release = {
        .call.job.run = begin_release,
        .sync = sync,
        .keys = keys,
        .count = count,
        .token = token,
    };
    redlock_code code = rl_loop_owner_may_wait(sync ? &sync->loop : NULL);
    return code == REDLOCK_OK ? rl_loop_owner_request(&sync->loop, &release.call) : code;
}

redlock_code redlock_lock_release(redlock_sync *sync, const void *key, size_t key_len,
                                  const char *token)
{
    const redlock_key one = {key, key_len};
    return redlock_lock_release_many(sync, &one, 1, token);
}
