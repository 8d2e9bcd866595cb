/*
 * Single flight: one thread computes the result for all threads that request it at that
 * time.
 */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "worker_threads.h"

#define HANDS 8

/* The function: it waits until the test lets it end. */
struct thing {
    atomic_uint flown, flying;
    sem_t go;
    bool waits, was_held;
    int returns;
    redlock_sync *sync;
    redlock_code inner;
};

struct one {
    struct worker worker;
    struct thing *thing;
    int returned;
    bool flew;
};

static int fly(redlock_hold *hold, void *arg)
{
    struct thing *thing = arg;
    atomic_fetch_add(&thing->flown, 1);
    thing->was_held = !redlock_hold_lost(hold) && redlock_hold_valid_ms(hold) > 0;
    atomic_fetch_add(&thing->flying, 1);
    while (thing->waits && sem_wait(&thing->go) != 0)
        ;
    atomic_fetch_sub(&thing->flying, 1);
    return thing->returns;
}

static void job_fly(struct worker *worker)
{
    struct one *one = (struct one *)worker;
    one->returned = -1;
    worker->code = redlock_single_flight(worker->sync, worker->key, strlen(worker->key),
                                         worker->wait_ms, &worker->options, fly, one->thing,
                                         &one->returned, &one->flew);
}

static void start(struct one *one, redlock_sync *sync, struct thing *thing)
{
    worker_start(&one->worker, sync, "job", NULL);
    one->thing = thing;
    one->worker.wait_ms = REDLOCK_FOREVER;
    one->flew = false;
}

/* One thread leads, and the others wait for its result. */
static void board(struct sync_quorum *c, struct one *one, unsigned n, struct thing *thing)
{
    *thing = (struct thing){.waits = true, .returns = 42, .sync = c->sync};
    sem_init(&thing->go, 0, 0);
    for (unsigned i = 0; i < n; i++)
        start(&one[i], c->sync, thing);
    worker_do(&one[0].worker, job_fly);
    SYNC_QUORUM_UNTIL(thing->flying == 1);
    for (unsigned i = 1; i < n; i++)
        worker_do(&one[i].worker, job_fly);
}

static void land_all(struct one *one, unsigned n, struct thing *thing)
{
    for (unsigned i = 0; i < n; i++)
        worker_end(&one[i].worker);
    sem_destroy(&thing->go);
}

Test(single_flight, one_call_serves_all)
{
    struct sync_quorum c;
    struct one one[HANDS];
    struct thing thing;
    sync_quorum_open(&c, 3);
    board(&c, one, HANDS, &thing);
    SYNC_QUORUM_UNTIL(sync_quorum_followers(c.sync) == HANDS - 1);
    cr_assert_eq(sync_quorum_waiting(c.sync, "job"), 0);
    sem_post(&thing.go);
    for (unsigned i = 0; i < HANDS; i++) {
        cr_assert_eq(worker_await(&one[i].worker), REDLOCK_OK);
        cr_assert_eq(one[i].returned, 42);
        cr_assert_eq(one[i].flew, i == 0);
    }
    cr_assert_eq(thing.flown, 1);
    cr_assert(thing.was_held);
    thing.waits = false;
    worker_done(&one[1].worker, job_fly); /* a later call starts again */
    cr_assert(one[1].flew);
    cr_assert_eq(thing.flown, 2);
    SYNC_QUORUM_UNTIL(servers_keys(&c.servers) == 0);
    land_all(one, HANDS, &thing);
    sync_quorum_close(&c);
}

/* Another process has its own flight, and waits for the lock. */
Test(single_flight, another_process_calls_for_itself)
{
    struct sync_quorum c;
    struct one one, another;
    struct thing thing;
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    board(&c, &one, 1, &thing);
    start(&another, other, &thing);
    worker_do(&another.worker, job_fly);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(other, "job") == 1);
    cr_assert_eq(thing.flown, 1);
    sem_post(&thing.go);
    SYNC_QUORUM_UNTIL(thing.flown == 2);
    sem_post(&thing.go);
    cr_assert_eq(worker_await(&one.worker), REDLOCK_OK);
    cr_assert_eq(worker_await(&another.worker), REDLOCK_OK);
    cr_assert(one.flew && another.flew);
    worker_end(&another.worker);
    land_all(&one, 1, &thing);
    redlock_sync_free(other);
    sync_quorum_close(&c);
}

/* The leader is not interrupted; a follower may stop waiting, for itself. */
Test(single_flight, a_follower_may_stop_waiting)
{
    struct sync_quorum c;
    struct one one[4];
    struct thing thing;
    redlock_stop *stop = NULL;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    board(&c, one, 2, &thing);
    start(&one[2], c.sync, &thing);
    start(&one[3], c.sync, &thing);
    one[2].worker.wait_ms = 20;
    one[3].worker.options.stop = stop;
    cr_assert_eq(worker_done(&one[2].worker, job_fly), REDLOCK_TIMEOUT);
    one[2].worker.wait_ms = REDLOCK_ONE_ATTEMPT;
    cr_assert_eq(worker_done(&one[2].worker, job_fly), REDLOCK_TAKEN);
    worker_do(&one[3].worker, job_fly);
    SYNC_QUORUM_UNTIL(sync_quorum_followers(c.sync) == 2);
    redlock_stop_all(stop);
    cr_assert_eq(worker_await(&one[3].worker), REDLOCK_CANCELLED);
    cr_assert_eq(worker_done(&one[3].worker, job_fly), REDLOCK_CANCELLED);
    cr_assert_eq(one[2].returned, -1);
    cr_assert_eq(one[3].returned, -1);
    sem_post(&thing.go);
    cr_assert_eq(worker_await(&one[0].worker), REDLOCK_OK);
    cr_assert_eq(worker_await(&one[1].worker), REDLOCK_OK);
    cr_assert_eq(thing.flown, 1);
    redlock_stop_free(stop);
    land_all(one, 4, &thing);
    sync_quorum_close(&c);
}

/* The leader fails before the call, and only for itself: another thread leads then. */
Test(single_flight, a_follower_leads_if_the_leader_fails)
{
    struct sync_quorum c;
    struct one one[2];
    struct thing thing = {.returns = 1};
    redlock_hold *hold = NULL;
    redlock_stop *stop = NULL;
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    cr_assert_eq(redlock_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    start(&one[0], c.sync, &thing);
    start(&one[1], c.sync, &thing);
    one[0].worker.options.stop = stop;
    worker_do(&one[0].worker, job_fly);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    worker_do(&one[1].worker, job_fly);
    SYNC_QUORUM_UNTIL(sync_quorum_followers(c.sync) == 1);
    redlock_stop_all(stop);
    cr_assert_eq(worker_await(&one[0].worker), REDLOCK_CANCELLED);
    cr_assert_eq(one[0].returned, -1);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    cr_assert_eq(sync_quorum_followers(c.sync), 0);
    cr_assert(worker_is_busy(&one[1].worker));
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_OK);
    cr_assert_eq(worker_await(&one[1].worker), REDLOCK_OK);
    cr_assert(one[1].flew);
    cr_assert_eq(thing.flown, 1);
    redlock_hold_free(hold);
    cr_assert_eq(redlock_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    one[1].worker.wait_ms = 20;
    cr_assert_eq(worker_done(&one[1].worker, job_fly), REDLOCK_TIMEOUT);
    cr_assert_eq(thing.flown, 1);
    redlock_hold_free(hold);
    redlock_stop_free(stop);
    worker_end(&one[0].worker);
    worker_end(&one[1].worker);
    redlock_sync_free(other);
    sync_quorum_close(&c);
}

/*
 * The client is freed: followers get that code, and the leader ends when its call is done.
 */
Test(single_flight, client_is_freed_in_a_flight)
{
    struct sync_quorum c;
    struct one one[3];
    struct thing thing;
    sync_quorum_open(&c, 3);
    board(&c, one, 3, &thing);
    SYNC_QUORUM_UNTIL(sync_quorum_followers(c.sync) == 2);
    sync_quorum_free_client(&c);
    cr_assert_eq(worker_await(&one[1].worker), REDLOCK_CANCELLED);
    cr_assert_eq(worker_await(&one[2].worker), REDLOCK_CANCELLED);
    cr_assert(worker_is_busy(&one[0].worker));
    sem_post(&thing.go);
    cr_assert_eq(worker_await(&one[0].worker), REDLOCK_OK);
    cr_assert_eq(one[0].returned, 42);
    land_all(one, 3, &thing);
    sync_quorum_close(&c);
}

static int fly_twice(redlock_hold *hold, void *arg)
{
    struct thing *thing = arg;
    int returned;
    (void)hold;
    thing->inner =
        redlock_single_flight(thing->sync, "job", 3, -1, NULL, fly, thing, &returned, NULL);
    return redlock_single_flight(thing->sync, "other", 5, -1, NULL, fly, thing, &returned,
                                 NULL) == REDLOCK_OK
               ? returned
               : -1;
}

Test(single_flight, a_call_inside_itself_would_deadlock)
{
    struct sync_quorum c;
    struct thing thing = {.returns = 7};
    int returned = 0;
    bool flew = false;
    sync_quorum_open(&c, 3);
    thing.sync = c.sync;
    cr_assert_eq(redlock_single_flight(c.sync, "job", 3, -1, NULL, fly_twice, &thing,
                                       &returned, &flew),
                 REDLOCK_OK);
    cr_assert_eq(thing.inner, REDLOCK_BUSY, "it would wait for itself");
    cr_assert_eq(returned, 7);
    cr_assert(flew);
    cr_assert_eq(thing.flown, 1);
    sync_quorum_close(&c);
}

/*
 * A thread that ends in a flight takes no other thread with it, and leaves the lock to its
 * TTL.
 */
static int end_thread(redlock_hold *hold, void *arg)
{
    fly(hold, arg);
    pthread_exit(NULL);
}

static void *fly_and_end(void *arg)
{
    struct one *one = arg;
    one->worker.code = REDLOCK_OK;
    redlock_single_flight(one->worker.sync, "job", 3, -1, &one->worker.options, end_thread,
                          one->thing, &one->returned, NULL);
    one->worker.code = REDLOCK_SYSTEM; /* never */
    return NULL;
}

Test(single_flight, thread_ends_in_a_flight)
{
    struct sync_quorum c;
    struct one first = {0}, second;
    struct thing thing = {.waits = true};
    pthread_t thread;
    sync_quorum_open(&c, 3);
    sem_init(&thing.go, 0, 0);
    first.thing = &thing;
    first.worker.sync = c.sync;
    first.worker.options = sync_quorum_lock_options();
    cr_assert_eq(pthread_create(&thread, NULL, fly_and_end, &first), 0);
    SYNC_QUORUM_UNTIL(thing.flying == 1);
    start(&second, c.sync, &thing);
    worker_do(&second.worker, job_fly);
    SYNC_QUORUM_UNTIL(sync_quorum_followers(c.sync) == 1);
    sem_post(&thing.go);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(first.worker.code, REDLOCK_OK);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    cr_assert_eq(servers_with(&c.servers, "job", NULL), 0, "it is locked still");
    servers_do_first(&c.servers, 3, "DEL job");
    SYNC_QUORUM_UNTIL(thing.flown == 2);
    sem_post(&thing.go);
    cr_assert_eq(worker_await(&second.worker), REDLOCK_OK);
    cr_assert(second.flew);
    land_all(&second, 1, &thing);
    sync_quorum_close(&c);
}
