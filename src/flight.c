/* Single flight: one thread does it, and all who wait for it get what came of it. */
#include <string.h>

#include "sync_parts.h"

/* --- those who wait for it --- */

static struct rl_flight *find(redlock_sync *sync, const void *key, size_t key_len)
{
    struct rl_flight *flight;
    LIST_FOREACH (flight, &sync->flights, next)
        if (flight->key_len == key_len && memcmp(flight->key, key, key_len) == 0)
            break;
    return flight;
}

static void alight(struct rl_flight *flight, struct rl_passenger *passenger,
                   redlock_code code, int returned)
{
    TAILQ_REMOVE(&flight->passengers, passenger, next);
    passenger->returned = returned;
    rl_wait_done(&passenger->wait, code);
}

void rl_flights_wake(redlock_sync *sync)
{
    struct rl_flight *flight;
    LIST_FOREACH (flight, &sync->flights, next) {
        struct rl_passenger *passenger = TAILQ_FIRST(&flight->passengers), *next;
        for (; passenger; passenger = next) {
            next = TAILQ_NEXT(passenger, next);
            if (sync->closing || (passenger->stop && passenger->stop->stopped))
                alight(flight, passenger, REDLOCK_CANCELLED, 0);
        }
    }
}

static redlock_code ride(redlock_sync *sync, struct rl_flight *flight, int64_t deadline,
                         const redlock_stop *stop, int *ret_returned, bool *ret_stranded)
{
    struct rl_passenger passenger = {.stop = stop};
    if (pthread_equal(flight->pilot, pthread_self()))
        return REDLOCK_BUSY;
    if (stop && stop->stopped)
        return REDLOCK_CANCELLED;
    rl_wait_begin(sync, &passenger.wait);
    TAILQ_INSERT_TAIL(&flight->passengers, &passenger, next);
    while (!passenger.wait.done)
        if (!rl_wait_once(sync, &passenger.wait, deadline) && !passenger.wait.done)
            alight(flight, &passenger, REDLOCK_TIMEOUT, 0);
    rl_wait_end(sync, &passenger.wait);
    if (passenger.wait.code == REDLOCK_OK)
        *ret_returned = passenger.returned;
    *ret_stranded = passenger.stranded;
    return passenger.wait.code;
}

/* --- the one who does it --- */

struct outcome {
    redlock_code code;
    int returned;
    bool flew;
};

static void land(struct rl_flight *flight, redlock_code code, int returned)
{
    struct rl_passenger *passenger;
    rl_sync_lock(flight->sync);
    LIST_REMOVE(flight, next);
    while ((passenger = TAILQ_FIRST(&flight->passengers))) {
        passenger->stranded = code != REDLOCK_OK;
        alight(flight, passenger, code, returned);
    }
    rl_sync_unlock(flight->sync);
}

/* The thread ends in the air: what was half done is nobody's before the TTL ends. */
static void crash(void *arg)
{
    struct rl_flight *flight = arg;
    redlock_sync *sync = flight->sync;
    if (rl_sync_is_ours(sync)) {
        land(flight, REDLOCK_CANCELLED, 0);
        rl_hold_abandon(flight->hold);
    }
    redlock_hold_free(flight->hold);
    rl_sync_put(sync);
}

static int do_fly(struct rl_flight *flight, redlock_flight_fn *fly, void *arg)
{
    int returned;
    pthread_cleanup_push(crash, flight);
    returned = fly(flight->hold, arg);
    pthread_cleanup_pop(0);
    return returned;
}

static redlock_code take_off(struct rl_flight *flight, int64_t wait_ms,
                             const redlock_lock_options *options, redlock_flight_fn *fly,
                             void *arg, int *ret_returned)
{
    redlock_sync *sync = flight->sync;
    redlock_code code = wait_ms < 0 ? redlock_lock(sync, flight->key, flight->key_len,
                                                   options, &flight->hold)
                                    : redlock_lock_for(sync, flight->key, flight->key_len,
                                                       wait_ms, options, &flight->hold);
    int returned = code == REDLOCK_OK ? do_fly(flight, fly, arg) : 0;
    if (!rl_sync_is_ours(sync))
        return REDLOCK_FORKED; /* in `fly`, and this is the child */
    land(flight, code, returned);
    redlock_hold_free(flight->hold);
    if (code == REDLOCK_OK)
        *ret_returned = returned;
    return code;
}

/* False: somebody else was to do it, and could not. */
static bool ride_or_fly(struct rl_flight *flight, int64_t deadline,
                        const redlock_lock_options *options, redlock_flight_fn *fly,
                        void *arg, struct outcome *ret)
{
    redlock_sync *sync = flight->sync;
    bool stranded = false;
    rl_sync_lock(sync);
    struct rl_flight *other = find(sync, flight->key, flight->key_len);
    *ret = (struct outcome){.flew = !other};
    if (other) {
        ret->code = ride(sync, other, deadline, options->stop, &ret->returned, &stranded);
        rl_sync_unlock(sync);
        return !stranded;
    }
    LIST_INSERT_HEAD(&sync->flights, flight, next);
    rl_sync_unlock(sync);
    ret->code = take_off(flight, rl_left_ms(deadline), options, fly, arg, &ret->returned);
    return true;
}

redlock_code redlock_single_flight(redlock_sync *sync, const void *key, size_t key_len,
                                   int64_t wait_ms, const redlock_lock_options *options,
                                   redlock_flight_fn *fly, void *arg, int *ret_returned,
                                   bool *ret_flew)
{
    redlock_lock_options mine;
    struct outcome outcome;
    redlock_code code = rl_lock_begin(sync, options, &mine);
    if (code != REDLOCK_OK)
        return code;
    struct rl_flight flight = {
        .sync = sync, .pilot = pthread_self(), .key = key, .key_len = key_len};
    TAILQ_INIT(&flight.passengers);
    atomic_fetch_add(&sync->handles, 1);
    int64_t deadline = rl_in_ms(wait_ms);
    while (!ride_or_fly(&flight, deadline, &mine, fly, arg, &outcome))
        ;
    rl_sync_put(sync);
    if (outcome.code != REDLOCK_OK)
        return outcome.code;
    if (ret_returned)
        *ret_returned = outcome.returned;
    if (ret_flew)
        *ret_flew = outcome.flew;
    return REDLOCK_OK;
}
