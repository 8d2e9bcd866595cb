/* Single flight: one thread does it, for all who want it at that time. */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "crew.h"

#define HANDS 8

/* What is to be done: it waits until it may end. */
struct thing {
    atomic_uint flown, flying;
    sem_t go;
    bool waits, was_held;
    int returns;
    redlock_sync *sync;
    redlock_code inner;
};

struct one {
    struct hand hand;
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

static void job_fly(struct hand *hand)
{
    struct one *one = (struct one *)hand;
    one->returned = -1;
    hand->code =
        redlock_single_flight(hand->sync, hand->key, strlen(hand->key), hand->wait_ms,
                              &hand->options, fly, one->thing, &one->returned, &one->flew);
}

static void start(struct one *one, redlock_sync *sync, struct thing *thing)
{
    hand_start(&one->hand, sync, "job", NULL);
    one->thing = thing;
    one->hand.wait_ms = -1;
    one->flew = false;
}

/* One flies, and the others wait for it. */
static void board(struct crew *c, struct one *one, unsigned n, struct thing *thing)
{
    *thing = (struct thing){.waits = true, .returns = 42, .sync = c->sync};
    sem_init(&thing->go, 0, 0);
    for (unsigned i = 0; i < n; i++)
        start(&one[i], c->sync, thing);
    hand_do(&one[0].hand, job_fly);
    CREW_UNTIL(thing->flying == 1);
    for (unsigned i = 1; i < n; i++)
        hand_do(&one[i].hand, job_fly);
}

static void land_all(struct one *one, unsigned n, struct thing *thing)
{
    for (unsigned i = 0; i < n; i++)
        hand_end(&one[i].hand);
    sem_destroy(&thing->go);
}

Test(flight, flown_once_for_all)
{
    struct crew c;
    struct one one[HANDS];
    struct thing thing;
    crew_open(&c, 3);
    board(&c, one, HANDS, &thing);
    CREW_UNTIL(crew_passengers(c.sync) == HANDS - 1);
    cr_assert_eq(crew_waiting(c.sync, "job"), 0);
    sem_post(&thing.go);
    for (unsigned i = 0; i < HANDS; i++) {
        cr_assert_eq(hand_await(&one[i].hand), REDLOCK_OK);
        cr_assert_eq(one[i].returned, 42);
        cr_assert_eq(one[i].flew, i == 0);
    }
    cr_assert_eq(thing.flown, 1);
    cr_assert(thing.was_held);
    thing.waits = false;
    hand_done(&one[1].hand, job_fly); /* who comes after that begins anew */
    cr_assert(one[1].flew);
    cr_assert_eq(thing.flown, 2);
    CREW_UNTIL(servers_keys(&c.servers) == 0);
    land_all(one, HANDS, &thing);
    crew_close(&c);
}

/* Another process is another flight, and waits for the lock. */
Test(flight, other_process_flies_for_itself)
{
    struct crew c;
    struct one one, another;
    struct thing thing;
    crew_open(&c, 3);
    redlock_sync *other = crew_sync(&c);
    board(&c, &one, 1, &thing);
    start(&another, other, &thing);
    hand_do(&another.hand, job_fly);
    CREW_UNTIL(crew_waiting(other, "job") == 1);
    cr_assert_eq(thing.flown, 1);
    sem_post(&thing.go);
    CREW_UNTIL(thing.flown == 2);
    sem_post(&thing.go);
    cr_assert_eq(hand_await(&one.hand), REDLOCK_OK);
    cr_assert_eq(hand_await(&another.hand), REDLOCK_OK);
    cr_assert(one.flew && another.flew);
    hand_end(&another.hand);
    land_all(&one, 1, &thing);
    redlock_sync_free(other);
    crew_close(&c);
}

/* Who is in the air is not interrupted; who waits may give up, for itself. */
Test(flight, waiting_for_it_is_given_up)
{
    struct crew c;
    struct one one[4];
    struct thing thing;
    redlock_stop *stop = NULL;
    crew_open(&c, 3);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    board(&c, one, 2, &thing);
    start(&one[2], c.sync, &thing);
    start(&one[3], c.sync, &thing);
    one[2].hand.wait_ms = 20;
    one[3].hand.options.stop = stop;
    cr_assert_eq(hand_done(&one[2].hand, job_fly), REDLOCK_TIMEOUT);
    hand_do(&one[3].hand, job_fly);
    CREW_UNTIL(crew_passengers(c.sync) == 2);
    redlock_stop_all(stop);
    cr_assert_eq(hand_await(&one[3].hand), REDLOCK_CANCELLED);
    cr_assert_eq(hand_done(&one[3].hand, job_fly), REDLOCK_CANCELLED);
    cr_assert_eq(one[2].returned, -1);
    cr_assert_eq(one[3].returned, -1);
    sem_post(&thing.go);
    cr_assert_eq(hand_await(&one[0].hand), REDLOCK_OK);
    cr_assert_eq(hand_await(&one[1].hand), REDLOCK_OK);
    cr_assert_eq(thing.flown, 1);
    redlock_stop_free(stop);
    land_all(one, 4, &thing);
    crew_close(&c);
}

/* Who was to fly gives up, and only for itself: another one does it then. */
Test(flight, cannot_take_off)
{
    struct crew c;
    struct one one[2];
    struct thing thing = {.returns = 1};
    redlock_hold *hold = NULL;
    redlock_stop *stop = NULL;
    crew_open(&c, 3);
    redlock_sync *other = crew_sync(&c);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    cr_assert_eq(redlock_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    start(&one[0], c.sync, &thing);
    start(&one[1], c.sync, &thing);
    one[0].hand.options.stop = stop;
    hand_do(&one[0].hand, job_fly);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    hand_do(&one[1].hand, job_fly);
    CREW_UNTIL(crew_passengers(c.sync) == 1);
    redlock_stop_all(stop);
    cr_assert_eq(hand_await(&one[0].hand), REDLOCK_CANCELLED);
    cr_assert_eq(one[0].returned, -1);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    cr_assert_eq(crew_passengers(c.sync), 0);
    cr_assert(hand_is_busy(&one[1].hand));
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_OK);
    cr_assert_eq(hand_await(&one[1].hand), REDLOCK_OK);
    cr_assert(one[1].flew);
    cr_assert_eq(thing.flown, 1);
    redlock_hold_free(hold);
    cr_assert_eq(redlock_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    one[1].hand.wait_ms = 20;
    cr_assert_eq(hand_done(&one[1].hand, job_fly), REDLOCK_TIMEOUT);
    one[1].hand.options.ttl_ms = 0;
    cr_assert_eq(hand_done(&one[1].hand, job_fly), REDLOCK_BAD_TTL);
    one[1].hand.options.ttl_ms = 60000;
    one[1].hand.key = "";
    cr_assert_eq(hand_done(&one[1].hand, job_fly), REDLOCK_BAD_KEY);
    cr_assert_eq(thing.flown, 1);
    redlock_hold_free(hold);
    redlock_stop_free(stop);
    hand_end(&one[0].hand);
    hand_end(&one[1].hand);
    redlock_sync_free(other);
    crew_close(&c);
}

/* The client is freed: who waits is told so, and who flies lands when it is done. */
Test(flight, client_is_freed_in_the_air)
{
    struct crew c;
    struct one one[3];
    struct thing thing;
    crew_open(&c, 3);
    board(&c, one, 3, &thing);
    CREW_UNTIL(crew_passengers(c.sync) == 2);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(hand_await(&one[1].hand), REDLOCK_CANCELLED);
    cr_assert_eq(hand_await(&one[2].hand), REDLOCK_CANCELLED);
    cr_assert(hand_is_busy(&one[0].hand));
    sem_post(&thing.go);
    cr_assert_eq(hand_await(&one[0].hand), REDLOCK_OK);
    cr_assert_eq(one[0].returned, 42);
    land_all(one, 3, &thing);
    crew_close(&c);
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

Test(flight, inside_itself)
{
    struct crew c;
    struct thing thing = {.returns = 7};
    int returned = 0;
    bool flew = false;
    crew_open(&c, 3);
    thing.sync = c.sync;
    cr_assert_eq(redlock_single_flight(c.sync, "job", 3, -1, NULL, fly_twice, &thing,
                                       &returned, &flew),
                 REDLOCK_OK);
    cr_assert_eq(thing.inner, REDLOCK_BUSY, "it would wait for itself");
    cr_assert_eq(returned, 7);
    cr_assert(flew);
    cr_assert_eq(thing.flown, 1);
    crew_close(&c);
}

/* A thread that ends in the air takes nobody with it, and leaves the lock to its TTL. */
static int end_thread(redlock_hold *hold, void *arg)
{
    fly(hold, arg);
    pthread_exit(NULL);
}

static void *fly_and_end(void *arg)
{
    struct one *one = arg;
    one->hand.code = REDLOCK_OK;
    redlock_single_flight(one->hand.sync, "job", 3, -1, &one->hand.options, end_thread,
                          one->thing, &one->returned, NULL);
    one->hand.code = REDLOCK_SYSTEM; /* never */
    return NULL;
}

Test(flight, thread_ends_in_the_air)
{
    struct crew c;
    struct one first = {0}, second;
    struct thing thing = {.waits = true};
    pthread_t thread;
    crew_open(&c, 3);
    sem_init(&thing.go, 0, 0);
    first.thing = &thing;
    first.hand.sync = c.sync;
    first.hand.options = crew_lock_options();
    cr_assert_eq(pthread_create(&thread, NULL, fly_and_end, &first), 0);
    CREW_UNTIL(thing.flying == 1);
    start(&second, c.sync, &thing);
    hand_do(&second.hand, job_fly);
    CREW_UNTIL(crew_passengers(c.sync) == 1);
    sem_post(&thing.go);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(first.hand.code, REDLOCK_OK);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    cr_assert_eq(servers_with(&c.servers, "job", NULL), 0, "it is locked still");
    for (unsigned i = 0; i < 3; i++)
        servers_do(&c.servers, i, "DEL job");
    CREW_UNTIL(thing.flown == 2);
    sem_post(&thing.go);
    cr_assert_eq(hand_await(&second.hand), REDLOCK_OK);
    cr_assert(second.flew);
    land_all(&second, 1, &thing);
    crew_close(&c);
}
