#include "single_flight.h"

#include <string.h>

#include "failure.h"
#include "lock.h"
#include "sync.h"

/* --- followers --- */

static struct rl_single_flight *single_flight_find(redlock_sync *sync, const void *key,
                                                   size_t key_len)
{
    struct rl_single_flight *flight;
    LIST_FOREACH (flight, &sync->flights.all, link)
        if (flight->key_len == key_len && memcmp(flight->key, key, key_len) == 0)
            break;
    return flight;
}

static void single_flight_dismiss(struct rl_single_flight *flight,
                                  struct rl_follower *follower, redlock_code code,
                                  int returned)
{
    TAILQ_REMOVE(&flight->followers, follower, link);
    follower->returned = returned;
    rl_loop_owner_finish_wait(&flight->sync->loop, &follower->wait, code);
}

void rl_single_flights_dismiss(struct rl_single_flights *flights, const redlock_stop *stop,
                               bool all)
{
    struct rl_single_flight *flight;
    LIST_FOREACH (flight, &flights->all, link) {
        struct rl_follower *follower = TAILQ_FIRST(&flight->followers), *next;
        for (; follower; follower = next) {
            next = TAILQ_NEXT(follower, link);
            if (!all && follower->stop != stop)
                continue;
            follower->wait.reason =
                all ? REDLOCK_REASON_CLIENT_FREED : REDLOCK_REASON_BY_CALLER;
            single_flight_dismiss(flight, follower, REDLOCK_CANCELLED, 0);
        }
    }
}

static redlock_code follow(redlock_sync *sync, struct rl_single_flight *flight,
                           int64_t deadline, redlock_code late, const redlock_stop *stop,
                           int *ret_returned, bool *ret_leader_failed)
{
    struct rl_follower follower = {.stop = stop};
    if (pthread_equal(flight->leader, pthread_self()))
        return rl_fail(REDLOCK_BUSY, REDLOCK_REASON_RECURSION,
                       "this thread does the work of the key already");
    if (sync->loop.closing)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_CLIENT_FREED);
    if (rl_stop_is_stopped(stop))
        return rl_fail_by_reason(REDLOCK_CANCELLED, REDLOCK_REASON_BY_CALLER);
    rl_loop_owner_begin_wait(&sync->loop, &follower.wait);
    TAILQ_INSERT_TAIL(&flight->followers, &follower, link);
    while (!follower.wait.done)
        if (!rl_loop_owner_wait_once(&sync->loop, &follower.wait, deadline) &&
            !follower.wait.done) {
            rl_fail(late, REDLOCK_REASON_THREAD,
                    "another thread of this process does the work still");
            follower.wait.error = *redlock_last_error();
            single_flight_dismiss(flight, &follower, late, 0);
        }
    rl_loop_owner_end_wait(&sync->loop, &follower.wait);
    if (follower.wait.code == REDLOCK_OK)
        *ret_returned = follower.returned;
    *ret_leader_failed = follower.leader_failed;
    return rl_wait_result(&follower.wait);
}

/* --- the leader --- */

struct outcome {
    redlock_code code;
    int returned;
    bool led;
};

static void finish_flight(struct rl_single_flight *flight, redlock_code code, int returned)
{
    struct rl_follower *follower;
    rl_loop_owner_lock(&flight->sync->loop);
    LIST_REMOVE(flight, link);
    while ((follower = TAILQ_FIRST(&flight->followers))) {
        follower->leader_failed = code != REDLOCK_OK;
        single_flight_dismiss(flight, follower, code, returned);
    }
    rl_loop_owner_unlock(&flight->sync->loop);
}

/*
 * The thread ends in `fn`. Its work may be half done, so the lock stays until its TTL ends.
 */
static void on_thread_end(void *arg)
{
    struct rl_single_flight *flight = arg;
    redlock_sync *sync = flight->sync;
    if (rl_loop_owner_is_ours(&sync->loop)) {
        finish_flight(flight, REDLOCK_CANCELLED, 0);
        rl_unlock_abandon(flight->hold);
    }
    redlock_hold_free(flight->hold);
    rl_loop_owner_unref(&sync->loop);
}

static int call_fn(struct rl_single_flight *flight, redlock_flight_fn *fn, void *arg)
{
    int returned;
    pthread_cleanup_push(on_thread_end, flight);
    returned = fn(flight->hold, arg);
    pthread_cleanup_pop(0);
    return returned;
}

static redlock_code lead(struct rl_single_flight *flight, int64_t wait_ms,
                         const redlock_lock_options *options, redlock_flight_fn *fn,
                         void *arg, int *ret_returned)
{
    redlock_sync *sync = flight->sync;
    redlock_code code = redlock_lock_for(sync, flight->key, flight->key_len, wait_ms,
                                         options, &flight->hold);
    int returned = code == REDLOCK_OK ? call_fn(flight, fn, arg) : 0;
    if (!rl_loop_owner_is_ours(&sync->loop))
        return rl_fail_by_code(REDLOCK_FORKED); /* `fn` forked, and this is the child */
    finish_flight(flight, code, returned);
    redlock_hold_free(flight->hold);
    if (code == REDLOCK_OK)
        *ret_returned = returned;
    return code;
}

/* False: another thread was the leader, and failed. */
static bool lead_or_follow(struct rl_single_flight *flight, int64_t wait_ms,
                           int64_t deadline, const redlock_lock_options *options,
                           redlock_flight_fn *fn, void *arg, struct outcome *ret)
{
    redlock_sync *sync = flight->sync;
    bool leader_failed = false;
    rl_loop_owner_lock(&sync->loop);
    struct rl_single_flight *other = single_flight_find(sync, flight->key, flight->key_len);
    *ret = (struct outcome){.led = !other};
    if (other) {
        ret->code =
            follow(sync, other, deadline, wait_ms == 0 ? REDLOCK_TAKEN : REDLOCK_TIMEOUT,
                   options->stop, &ret->returned, &leader_failed);
        rl_loop_owner_unlock(&sync->loop);
        return !leader_failed;
    }
    LIST_INSERT_HEAD(&sync->flights.all, flight, link);
    rl_loop_owner_unlock(&sync->loop);
    int64_t left_ms = wait_ms > 0 ? rl_left_ms(deadline) : wait_ms;
    if (wait_ms > 0 && left_ms == 0)
        left_ms = 1; /* it still waits: one attempt has another result */
    ret->code = lead(flight, left_ms, options, fn, arg, &ret->returned);
    return true;
}

redlock_code redlock_single_flight(redlock_sync *sync, const void *key, size_t key_len,
                                   int64_t wait_ms, const redlock_lock_options *options,
                                   redlock_flight_fn *fn, void *arg, int *ret_returned,
                                   bool *ret_led)
{
    redlock_lock_options mine;
    struct outcome outcome;
    redlock_code code = rl_lock_begin(sync, options, &mine);
    if (code == REDLOCK_OK)
        code = rl_check_range("wait_ms", wait_ms, REDLOCK_FOREVER, INT64_MAX);
    if (code != REDLOCK_OK)
        return rl_failure_finish(mine.failure, code);
    struct rl_single_flight flight = {
        .sync = sync, .leader = pthread_self(), .key = key, .key_len = key_len};
    TAILQ_INIT(&flight.followers);
    rl_loop_owner_ref(&sync->loop);
    int64_t deadline = rl_in_ms(wait_ms);
    while (!lead_or_follow(&flight, wait_ms, deadline, &mine, fn, arg, &outcome))
        ;
    rl_loop_owner_unref(&sync->loop);
    if (outcome.code != REDLOCK_OK)
        return rl_failure_finish(mine.failure, outcome.code);
    if (ret_returned)
        *ret_returned = outcome.returned;
    if (ret_led)
        *ret_led = outcome.led;
    return REDLOCK_OK;
}
