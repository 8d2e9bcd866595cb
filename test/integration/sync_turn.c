/* Threads of one process among others: fencing tokens, and whose turn it is. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "crew.h"

static atomic_bool over;

/* --- fencing tokens --- */

#define HANDS 5

/* On how many servers the key's fence is at least this. */
static unsigned with_fence(struct crew *c, int64_t fence)
{
    unsigned count = 0;
    for (unsigned i = 0; i < c->servers.n; i++) {
        redisReply *reply = servers_run(&c->servers, i, "GET job!fence");
        count +=
            reply->type == REDIS_REPLY_STRING && strtoll(reply->str, NULL, 10) >= fence;
        freeReplyObject(reply);
    }
    return count;
}

Test(sync_turn, each_owner_has_a_fencing_token_of_its_own)
{
    struct crew c;
    struct hand hand[HANDS];
    redlock_lock_options options = crew_lock_options();
    int64_t last = 0;
    options.fenced = true;
    options.handoffs = 2;
    crew_open_fenced(&c, 3);
    for (unsigned i = 0; i < HANDS; i++) {
        hand_start(&hand[i], c.sync, "job", &options);
        hand_do(&hand[i], job_lock);
        CREW_UNTIL(i == 0 ? crew_held(c.sync, "job") : crew_waiting(c.sync, "job") == i);
    }
    for (unsigned i = 0; i < HANDS; i++) {
        cr_assert_eq(hand_await(&hand[i]), REDLOCK_OK);
        int64_t fence = redlock_hold_fence(hand[i].hold);
        bool handed = i > 0 && strcmp(redlock_hold_token(hand[i].hold),
                                      redlock_hold_token(hand[i - 1].hold)) == 0;
        cr_assert_eq(handed, i % 3 != 0);
        cr_assert_gt(fence, last);
        if (handed)
            cr_assert_eq(fence, last + 1);
        last = fence;
        cr_assert_geq(with_fence(&c, fence), 2, "nobody else can get it");
        cr_assert_eq(hand_done(&hand[i], job_unlock), REDLOCK_OK);
        cr_assert_eq(redlock_hold_fence(hand[i].hold), fence, "that stays");
    }
    for (unsigned i = 0; i < HANDS; i++)
        hand_end(&hand[i]);
    crew_close(&c);
}

/* In many threads of two processes: every owner's token is larger than the one before. */
struct ledger {
    _Atomic int64_t last;
    atomic_uint owners, wrong;
    redlock_sync *sync[2];
};

#define TURNS 400

static void *own_in_turn(void *arg)
{
    static atomic_uint number;
    struct ledger *ledger = arg;
    redlock_sync *sync = ledger->sync[atomic_fetch_add(&number, 1) % 2];
    redlock_lock_options options = crew_lock_options();
    options.fenced = true;
    options.handoffs = 3;
    while (ledger->owners < TURNS) {
        redlock_hold *hold = NULL;
        if (redlock_lock(sync, "job", 3, &options, &hold) != REDLOCK_OK) {
            ledger->wrong += 1000;
            return NULL;
        }
        int64_t fence = redlock_hold_fence(hold);
        ledger->wrong += atomic_exchange(&ledger->last, fence) >= fence;
        ledger->owners++;
        redlock_hold_free(hold);
    }
    return NULL;
}

Test(sync_turn, fencing_tokens_rise_from_owner_to_owner)
{
    struct crew c;
    struct ledger ledger = {0};
    pthread_t thread[6];
    crew_open_fenced(&c, 3);
    ledger.sync[0] = c.sync;
    ledger.sync[1] = crew_sync(&c);
    for (unsigned i = 0; i < 6; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, own_in_turn, &ledger), 0);
    for (unsigned i = 0; i < 6; i++)
        cr_assert_eq(pthread_join(thread[i], NULL), 0);
    cr_assert_eq(ledger.wrong, 0);
    cr_assert_geq(ledger.owners, TURNS);
    redlock_sync_free(ledger.sync[1]);
    crew_close(&c);
}

/* --- hand-over --- */

/*
 * A lease with less than a third of its TTL left is extended before the next thread gets
 * it: a watchdog that is late would leave that thread next to nothing.
 */
Test(sync_turn, a_lease_is_extended_before_the_hand_over_if_little_is_left)
{
    struct crew c;
    struct hand first, next;
    redlock_lock_options options = crew_lock_options();
    const int64_t third = options.ttl_ms / 3, slack = third / 2;
    options.watchdog = false;
    crew_open(&c, 3);
    for (int round = 0; round < 2; round++) {
        int64_t left = round ? third - 1 : third + slack;
        hand_start(&first, c.sync, "job", &options);
        hand_start(&next, c.sync, "job", &options);
        cr_assert_eq(hand_done(&first, job_lock), REDLOCK_OK);
        hand_do(&next, job_lock);
        CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
        crew_age(c.sync, "job", left);
        cr_assert_eq(hand_done(&first, job_unlock), REDLOCK_OK);
        cr_assert_eq(hand_await(&next), REDLOCK_OK);
        cr_assert_str_eq(redlock_hold_token(next.hold), redlock_hold_token(first.hold));
        if (round)
            cr_assert_gt(redlock_hold_valid_ms(next.hold), left, "it is not extended");
        else
            cr_assert_leq(redlock_hold_valid_ms(next.hold), left, "it cost a round");
        cr_assert_eq(hand_done(&next, job_confirm), REDLOCK_OK);
        hand_end(&first);
        hand_end(&next);
    }
    crew_close(&c);
}

/* --- turns --- */

static atomic_uint locks; /* of all greedy hands */

static void job_be_greedy(struct hand *hand)
{
    do {
        job_lock(hand);
        if (hand->code != REDLOCK_OK)
            return;
        atomic_fetch_add(&locks, 1);
        job_unlock(hand);
    } while (!over);
}

#define ROUNDS 21

static int smaller(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/*
 * Threads of one process never let the key alone. Another process waits, and gets its turn
 * when the hand-overs in a row are used up: now and then a round later, as calls are hints.
 */
Test(sync_turn, other_processes_get_their_turn)
{
    struct crew c;
    struct hand greedy[3], other;
    unsigned waited[ROUNDS];
    redlock_lock_options options = crew_lock_options();
    options.handoffs = 4;
    over = false;
    crew_open(&c, 3);
    redlock_sync *theirs = crew_sync(&c);
    hand_start(&other, theirs, "job", &options);
    for (unsigned i = 0; i < 3; i++) {
        hand_start(&greedy[i], c.sync, "job", &options);
        hand_do(&greedy[i], job_be_greedy);
    }
    CREW_UNTIL(locks > 100);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned before = locks;
        cr_assert_eq(hand_done(&other, job_lock), REDLOCK_OK);
        waited[i] = locks - before;
        cr_assert_eq(hand_done(&other, job_unlock), REDLOCK_OK);
    }
    over = true;
    for (unsigned i = 0; i < 3; i++)
        hand_end(&greedy[i]);
    qsort(waited, ROUNDS, sizeof(*waited), smaller);
    cr_assert_leq(waited[ROUNDS / 2], 2 * (options.handoffs + 1));
    hand_end(&other);
    redlock_sync_free(theirs);
    crew_close(&c);
}

/* On how many servers so many have a place in the key's queue. */
static unsigned with_places(struct crew *c, long long places)
{
    unsigned count = 0;
    for (unsigned i = 0; i < c->servers.n; i++)
        count += servers_number(&c->servers, i, "ZCARD job!queue") == places;
    return count;
}

/* The thread that comes next takes a place behind the process that was called. */
Test(sync_turn, next_thread_waits_behind_the_process_that_was_called)
{
    struct crew c;
    struct hand first, next, other;
    redlock_lock_options options = crew_lock_options();
    unsigned behind = 0;
    options.handoffs = 0;
    crew_open(&c, 3);
    redlock_sync *theirs = crew_sync(&c);
    hand_start(&first, c.sync, "job", &options);
    hand_start(&next, c.sync, "job", &options);
    hand_start(&other, theirs, "job", &options);
    cr_assert_eq(hand_done(&other, job_lock), REDLOCK_OK);
    hand_do(&first, job_lock); /* so that it listens from then on */
    CREW_UNTIL(with_places(&c, 1) >= 2);
    cr_assert_eq(hand_done(&other, job_unlock), REDLOCK_OK);
    cr_assert_eq(hand_await(&first), REDLOCK_OK);
    for (unsigned i = 0; i < ROUNDS; i++) {
        hand_do(&other, job_lock);
        CREW_UNTIL(with_places(&c, 1) >= 2);
        hand_do(&next, job_lock);
        CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
        cr_assert_eq(hand_done(&first, job_unlock), REDLOCK_OK);
        CREW_UNTIL(!hand_is_busy(&other) || !hand_is_busy(&next));
        if (!hand_is_busy(&next))
            cr_assert_eq(hand_done(&next, job_unlock), REDLOCK_OK);
        else
            behind++;
        cr_assert_eq(hand_await(&other), REDLOCK_OK);
        cr_assert_eq(hand_done(&other, job_unlock), REDLOCK_OK);
        cr_assert_eq(hand_await(&next), REDLOCK_OK);
        job_unlock(&next);
        cr_assert_eq(hand_done(&first, job_lock), REDLOCK_OK);
    }
    cr_assert_eq(hand_done(&first, job_unlock), REDLOCK_OK);
    cr_assert_gt(behind, ROUNDS * 3 / 4, "%u of %d", behind, ROUNDS);
    hand_end(&first);
    hand_end(&next);
    hand_end(&other);
    redlock_sync_free(theirs);
    crew_close(&c);
}
