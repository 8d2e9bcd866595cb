/* Locks of threads that are lost: who is told, once, and who goes on. */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "crew.h"

#define SHORT_MS 900
#define LONG_MS  2400

struct seen {
    atomic_uint begun, times;
    redlock_hold *hold;
    redlock_code why;
    int64_t valid_ms;
    pthread_t thread;
    bool was_lost;
    void (*more)(struct seen *seen, redlock_hold *hold);
    redlock_sync *sync;
    redlock_code code[8]; /* of what `more` did */
    sem_t go;
};

static void see(redlock_hold *hold, redlock_code why, int64_t valid_ms, void *arg)
{
    struct seen *seen = arg;
    atomic_fetch_add(&seen->begun, 1);
    seen->hold = hold;
    seen->why = why;
    seen->valid_ms = valid_ms;
    seen->thread = pthread_self();
    seen->was_lost = redlock_hold_lost(hold);
    if (seen->more)
        seen->more(seen, hold);
    atomic_fetch_add(&seen->times, 1); /* last: the test looks at the rest after that */
}

static redlock_lock_options short_options(struct seen *seen)
{
    redlock_lock_options options = crew_lock_options();
    options.ttl_ms = SHORT_MS;
    options.on_lost = see;
    options.lost_arg = seen;
    return options;
}

static void break_key(struct crew *c)
{
    for (unsigned i = 0; i < c->servers.n; i++)
        servers_do(&c->servers, i, "DEL job");
}

/* It is broken while others wait: its owner is told, once, and the next one gets it. */
Test(sync_loss, broken)
{
    struct crew c;
    struct hand hand[3];
    struct seen seen[3] = {0};
    crew_open(&c, 3);
    for (unsigned i = 0; i < 3; i++) {
        redlock_lock_options options = short_options(&seen[i]);
        hand_start(&hand[i], c.sync, "job", &options);
        hand_do(&hand[i], job_lock);
        CREW_UNTIL(i == 0 ? crew_held(c.sync, "job") : crew_waiting(c.sync, "job") == i);
    }
    cr_assert_eq(hand_await(&hand[0]), REDLOCK_OK);
    break_key(&c);
    CREW_UNTIL(seen[0].times > 0);
    cr_assert(seen[0].was_lost);
    cr_assert_eq(seen[0].why, REDLOCK_GONE);
    cr_assert_eq(seen[0].valid_ms, 0);
    cr_assert_eq(seen[0].hold, hand[0].hold);
    cr_assert_neq(seen[0].thread, hand[0].thread);
    cr_assert_eq(redlock_hold_valid_ms(hand[0].hold), 0);
    cr_assert_eq(hand_await(&hand[1]), REDLOCK_OK,
                 "it does not wait for the one that lost");
    cr_assert_not(redlock_hold_lost(hand[1].hold));
    cr_assert_eq(hand_done(&hand[0], job_extend), REDLOCK_GONE);
    cr_assert_eq(hand_done(&hand[0], job_unlock), REDLOCK_GONE);
    cr_assert_eq(hand_done(&hand[0], job_unlock), REDLOCK_NOT_HELD);
    cr_assert_not(redlock_hold_lost(hand[1].hold));
    cr_assert_eq(hand_done(&hand[1], job_extend), REDLOCK_OK);
    cr_assert_eq(hand_done(&hand[1], job_confirm), REDLOCK_OK);
    cr_assert_eq(hand_await(&hand[2]), REDLOCK_OK);
    cr_assert_eq(hand_done(&hand[2], job_confirm), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        hand_end(&hand[i]);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(seen[0].times, 1);
    cr_assert_eq(seen[1].times + seen[2].times, 0, "what they had they have given up");
    crew_close(&c);
}

/* Another has it by now: that is said, and its lock is let alone. */
Test(sync_loss, taken)
{
    struct crew c;
    struct hand hand;
    struct seen seen = {0};
    redlock_lock_options options = short_options(&seen);
    crew_open(&c, 3);
    hand_start(&hand, c.sync, "job", &options);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    CREW_UNTIL(servers_with(&c.servers, "job", redlock_hold_token(hand.hold)) == 3);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&c.servers, i, "SET job another");
    CREW_UNTIL(seen.times > 0);
    cr_assert_eq(seen.why, REDLOCK_TAKEN);
    cr_assert_eq(hand_done(&hand, job_confirm), REDLOCK_TAKEN);
    hand_end(&hand);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(servers_with(&c.servers, "job", "another"), 3);
    cr_assert_eq(seen.times, 1);
    crew_close(&c);
}

/* The nodes are silent: it expires, as late as it may, and is waited for again. */
Test(sync_loss, expired)
{
    struct crew c;
    struct hand hand[2];
    struct seen seen = {0};
    redlock_lock_options options = short_options(&seen);
    options.ttl_ms = LONG_MS;
    options.margin_ms = 1000;
    crew_open(&c, 3);
    hand_start(&hand[0], c.sync, "job", &options);
    options = short_options(NULL);
    options.on_lost = NULL;
    hand_start(&hand[1], c.sync, "job", &options);
    cr_assert_eq(hand_done(&hand[0], job_lock), REDLOCK_OK);
    hand_do(&hand[1], job_lock);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    servers_stop(&c.servers, 0);
    servers_stop(&c.servers, 1);
    CREW_UNTIL(seen.times > 0);
    cr_assert_eq(seen.why, REDLOCK_EXPIRED);
    cr_assert_gt(seen.valid_ms, 0);
    cr_assert_leq(seen.valid_ms, LONG_MS);
    cr_assert(redlock_hold_lost(hand[0].hold));
    CREW_UNTIL(redlock_hold_valid_ms(hand[0].hold) == 0);
    cr_assert(hand_is_busy(&hand[1]));
    servers_cont(&c.servers, 0);
    servers_cont(&c.servers, 1);
    cr_assert_eq(hand_await(&hand[1]), REDLOCK_OK);
    cr_assert_eq(hand_done(&hand[0], job_unlock), REDLOCK_EXPIRED);
    cr_assert_not(redlock_hold_lost(hand[1].hold));
    cr_assert_eq(hand_done(&hand[1], job_unlock), REDLOCK_OK);
    hand_end(&hand[0]);
    hand_end(&hand[1]);
    cr_assert_eq(seen.times, 1);
    crew_close(&c);
}

Test(sync_loss, servers_die)
{
    struct crew c;
    struct hand hand;
    struct seen seen = {0};
    redlock_lock_options options = short_options(&seen);
    crew_open(&c, 3);
    hand_start(&hand, c.sync, "job", &options);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        servers_kill(&c.servers, i);
    CREW_UNTIL(seen.times > 0);
    cr_assert_eq(seen.why, REDLOCK_EXPIRED);
    cr_assert_eq(hand_done(&hand, job_unlock), REDLOCK_EXPIRED);
    redlock_hold *none = NULL;
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, &options, &none), REDLOCK_NO_QUORUM);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 20, &options, &none),
                 REDLOCK_NO_QUORUM);
    hand_end(&hand);
    crew_close(&c);
    cr_assert_eq(seen.times, 1);
}

Test(sync_loss, held_as_long_as_it_may_be)
{
    struct crew c;
    struct hand hand;
    struct seen seen = {0};
    redlock_lock_options options = short_options(&seen);
    options.max_hold_ms = 400;
    crew_open(&c, 3);
    hand_start(&hand, c.sync, "job", &options);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    CREW_UNTIL(seen.times > 0);
    cr_assert_eq(seen.why, REDLOCK_MAX_HOLD);
    cr_assert_eq(hand_done(&hand, job_unlock), REDLOCK_MAX_HOLD);
    hand_end(&hand);
    crew_close(&c);
}

/* The deadline is looked at when it is unlocked, should nobody have told of it yet. */
static void stay(struct seen *seen, redlock_hold *hold)
{
    (void)hold;
    while (sem_wait(&seen->go) != 0)
        ;
}

Test(sync_loss, noticed_by_the_owner_first)
{
    struct crew c;
    struct seen seen = {.more = stay};
    struct hand hand;
    redlock_hold *hold = NULL;
    redlock_lock_options options = short_options(&seen);
    sem_init(&seen.go, 0, 0);
    crew_open(&c, 3);
    options.watchdog = false;
    options.ttl_ms = 300;
    hand_start(&hand, c.sync, "stays", &options);
    options.ttl_ms = 600;
    options.on_lost = NULL;
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    hand_do(&hand, job_lock); /* its loss keeps the client's thread busy */
    cr_assert_eq(hand_await(&hand), REDLOCK_OK);
    CREW_UNTIL(redlock_hold_valid_ms(hold) == 0);
    if (!redlock_hold_lost(hold)) /* else the machine was slow, and it was told before */
        cr_assert_eq(seen.times, 0);
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_EXPIRED);
    sem_post(&seen.go);
    redlock_hold_free(hold);
    hand_end(&hand);
    crew_close(&c);
    sem_destroy(&seen.go);
}

/* --- inside the callback --- */

static int fly_nowhere(redlock_hold *hold, void *arg)
{
    (void)hold;
    (void)arg;
    return 1;
}

static void try_to_wait(struct seen *seen, redlock_hold *hold)
{
    redlock_hold *none = NULL;
    redlock_node node[3];
    int returned;
    seen->code[0] = redlock_lock(seen->sync, "other", 5, NULL, &none);
    seen->code[1] = redlock_try_lock(seen->sync, "other", 5, NULL, &none);
    seen->code[2] = redlock_lock_for(seen->sync, "other", 5, 1, NULL, &none);
    seen->code[3] = redlock_hold_extend(hold, 0);
    seen->code[4] = redlock_unlock(hold, REDLOCK_CONFIRM);
    seen->code[5] = redlock_single_flight(seen->sync, "other", 5, 1, NULL, fly_nowhere,
                                          NULL, &returned, NULL);
    seen->code[6] = redlock_sync_explain(seen->sync, node, 3) == 0 ? REDLOCK_LOOP : 0;
    seen->code[7] = redlock_unlock(hold, 0);
}

Test(sync_loss, callbacks_do_not_wait)
{
    struct crew c;
    struct hand hand;
    struct seen seen = {.more = try_to_wait};
    redlock_lock_options options = short_options(&seen);
    crew_open(&c, 3);
    seen.sync = c.sync;
    hand_start(&hand, c.sync, "job", &options);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    break_key(&c);
    CREW_UNTIL(seen.times > 0);
    for (unsigned i = 0; i < 7; i++)
        cr_assert_eq(seen.code[i], REDLOCK_LOOP, "%u", i);
    cr_assert_eq(seen.code[7], REDLOCK_GONE);
    cr_assert_eq(hand_done(&hand, job_unlock), REDLOCK_NOT_HELD);
    hand_end(&hand);
    crew_close(&c);
}

static void free_it(struct seen *seen, redlock_hold *hold)
{
    (void)seen;
    redlock_hold_free(hold);
}

Test(sync_loss, callback_frees_the_hold)
{
    struct crew c;
    struct seen seen = {.more = free_it};
    redlock_lock_options options = short_options(&seen);
    redlock_hold *hold = NULL;
    crew_open(&c, 3);
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    break_key(&c);
    CREW_UNTIL(seen.times > 0);
    crew_close(&c);
}

static void free_client(struct seen *seen, redlock_hold *hold)
{
    (void)hold;
    redlock_sync_free(seen->sync);
}

/* The client goes when its callback has returned; the holds stay. */
Test(sync_loss, callback_frees_the_client)
{
    struct crew c;
    struct hand waiting;
    struct seen seen = {.more = free_client};
    redlock_lock_options options = short_options(&seen);
    redlock_hold *hold = NULL, *other = NULL;
    crew_open(&c, 3);
    seen.sync = c.sync;
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    cr_assert_eq(redlock_lock(c.sync, "other", 5, NULL, &other), REDLOCK_OK);
    hand_start(&waiting, c.sync, "other", NULL);
    hand_do(&waiting, job_lock);
    CREW_UNTIL(crew_waiting(c.sync, "other") == 1);
    break_key(&c);
    cr_assert_eq(hand_await(&waiting), REDLOCK_CANCELLED);
    CREW_UNTIL(redlock_hold_lost(other));
    cr_assert_eq(redlock_unlock(other, 0), REDLOCK_CLOSED);
    redlock_hold_free(other);
    redlock_hold_free(hold);
    hand_end(&waiting);
    cr_assert_eq(seen.times, 1);
    c.sync = NULL;
    crew_close(&c);
}

/* Who frees the hold waits for its callback: what that uses may go right after. */
static void job_free(struct hand *hand)
{
    redlock_hold_free(hand->hold);
    hand->hold = NULL;
}

Test(sync_loss, freed_while_it_is_told)
{
    struct crew c;
    struct hand hand;
    struct seen seen = {.more = stay};
    redlock_lock_options options = short_options(&seen);
    sem_init(&seen.go, 0, 0);
    crew_open(&c, 3);
    hand_start(&hand, c.sync, "job", &options);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    redlock_hold *hold = hand.hold;
    break_key(&c);
    CREW_UNTIL(seen.begun > 0);
    cr_assert(redlock_hold_lost(hold));
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_GONE);
    hand_do(&hand, job_free);
    crew_run_for(50);
    cr_assert_eq(seen.times, 0);
    cr_assert(hand_is_busy(&hand));
    sem_post(&seen.go);
    hand_await(&hand);
    cr_assert_eq(seen.times, 1);
    hand_end(&hand);
    crew_close(&c);
    sem_destroy(&seen.go);
}
