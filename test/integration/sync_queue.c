/*
 * Threads of one process beside other processes: fencing tokens, and the queue on the
 * nodes.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "worker_threads.h"

static atomic_bool over;

/* --- fencing tokens --- */

#define HANDS 5

/* On how many servers the key's fence is at least this. */
static unsigned with_fence(struct sync_quorum *c, int64_t fence)
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

Test(sync_queue, each_owner_has_a_fencing_token_of_its_own)
{
    struct sync_quorum c;
    struct worker worker[HANDS];
    redlock_lock_options options = sync_quorum_lock_options();
    int64_t last = 0;
    options.fenced = true;
    options.handoffs = 2;
    sync_quorum_open_fenced(&c, 3);
    for (unsigned i = 0; i < HANDS; i++) {
        worker_start(&worker[i], c.sync, "job", &options);
        worker_do(&worker[i], job_lock);
        SYNC_QUORUM_UNTIL(i == 0 ? sync_quorum_held(c.sync, "job")
                                 : sync_quorum_waiting(c.sync, "job") == i);
    }
    for (unsigned i = 0; i < HANDS; i++) {
        cr_assert_eq(worker_await(&worker[i]), REDLOCK_OK);
        int64_t fence = redlock_hold_fence(worker[i].hold);
        bool handed = i > 0 && strcmp(redlock_hold_token(worker[i].hold),
                                      redlock_hold_token(worker[i - 1].hold)) == 0;
        cr_assert_eq(handed, i % 3 != 0);
        cr_assert_gt(fence, last);
        if (handed)
            cr_assert_eq(fence, last + 1);
        last = fence;
        cr_assert_geq(with_fence(&c, fence), 2, "no other client can get it");
        cr_assert_eq(worker_done(&worker[i], job_unlock), REDLOCK_OK);
        cr_assert_eq(redlock_hold_fence(worker[i].hold), fence, "that stays");
    }
    for (unsigned i = 0; i < HANDS; i++)
        worker_end(&worker[i]);
    sync_quorum_close(&c);
}

/* Each is elected on the nodes, with a term of its own. */
Test(sync_queue, a_lead_is_not_handed_to_another_thread)
{
    struct sync_quorum c;
    struct worker worker[2];
    redlock_lock_options options = sync_quorum_lock_options();
    char term[2][REDLOCK_TOKEN_MAX + 32];
    options.kind = REDLOCK_KIND_ELECTION;
    sync_quorum_open_fenced(&c, 3);
    for (unsigned i = 0; i < 2; i++) {
        worker_start(&worker[i], c.sync, "job", &options);
        worker_do(&worker[i], job_lock);
        SYNC_QUORUM_UNTIL(i == 0 ? sync_quorum_held(c.sync, "job")
                                 : sync_quorum_waiting(c.sync, "job") == 1);
    }
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(worker_await(&worker[i]), REDLOCK_OK);
        redlock_hold *hold = worker[i].hold;
        snprintf(term[i], sizeof(term[i]), "%lld %s", (long long)redlock_hold_fence(hold),
                 redlock_hold_token(hold));
        unsigned nodes = 0;
        for (unsigned node = 0; node < 3; node++)
            nodes += servers_text(&c.servers, node, term[i], "GET job!term");
        cr_assert_geq(nodes, 2);
        cr_assert_eq(worker_done(&worker[i], job_unlock), REDLOCK_OK);
    }
    cr_assert_str_neq(strchr(term[0], ' '), strchr(term[1], ' '), "two tokens");
    for (unsigned i = 0; i < 2; i++)
        worker_end(&worker[i]);
    SYNC_QUORUM_UNTIL(servers_with(&c.servers, "job!term", term[1]) == 0);
    sync_quorum_close(&c);
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
    redlock_lock_options options = sync_quorum_lock_options();
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

Test(sync_queue, fencing_tokens_rise_from_owner_to_owner)
{
    struct sync_quorum c;
    struct ledger ledger = {0};
    pthread_t thread[6];
    sync_quorum_open_fenced(&c, 3);
    ledger.sync[0] = c.sync;
    ledger.sync[1] = sync_quorum_sync(&c);
    for (unsigned i = 0; i < 6; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, own_in_turn, &ledger), 0);
    for (unsigned i = 0; i < 6; i++)
        cr_assert_eq(pthread_join(thread[i], NULL), 0);
    cr_assert_eq(ledger.wrong, 0);
    cr_assert_geq(ledger.owners, TURNS);
    redlock_sync_free(ledger.sync[1]);
    sync_quorum_close(&c);
}

/* --- the queue --- */

static atomic_uint locks; /* of all greedy workers */

static void job_be_greedy(struct worker *worker)
{
    do {
        job_lock(worker);
        if (worker->code != REDLOCK_OK)
            return;
        atomic_fetch_add(&locks, 1);
        job_unlock(worker);
    } while (!over);
}

#define ROUNDS 21

static int smaller(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/*
 * Threads of one process never leave the key free. Another process waits, and gets the lock
 * when the hand-overs in a row are used up; sometimes a round later, because notifications
 * are hints.
 */
Test(sync_queue, other_processes_get_the_lock)
{
    struct sync_quorum c;
    struct worker greedy[3], other;
    unsigned waited[ROUNDS];
    redlock_lock_options options = sync_quorum_lock_options();
    options.handoffs = 4;
    over = false;
    sync_quorum_open(&c, 3);
    redlock_sync *theirs = sync_quorum_sync(&c);
    worker_start(&other, theirs, "job", &options);
    for (unsigned i = 0; i < 3; i++) {
        worker_start(&greedy[i], c.sync, "job", &options);
        worker_do(&greedy[i], job_be_greedy);
    }
    SYNC_QUORUM_UNTIL(locks > 100);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned before = locks;
        cr_assert_eq(worker_done(&other, job_lock), REDLOCK_OK);
        waited[i] = locks - before;
        cr_assert_eq(worker_done(&other, job_unlock), REDLOCK_OK);
    }
    over = true;
    for (unsigned i = 0; i < 3; i++)
        worker_end(&greedy[i]);
    qsort(waited, ROUNDS, sizeof(*waited), smaller);
    cr_assert_leq(waited[ROUNDS / 2], 2 * (options.handoffs + 1));
    worker_end(&other);
    redlock_sync_free(theirs);
    sync_quorum_close(&c);
}

/* The entries of the key's queue, on each server. */
struct places {
    long long entries[SERVERS_MAX];
};

static struct places count_places(struct sync_quorum *c)
{
    struct places places = {0};
    for (unsigned i = 0; i < c->servers.n; i++)
        places.entries[i] = servers_number(&c->servers, i, "ZCARD job!queue");
    return places;
}

/* On how many servers the queue has one entry more than before. */
static unsigned with_another(struct sync_quorum *c, const struct places *before)
{
    struct places now = count_places(c);
    unsigned count = 0;
    for (unsigned i = 0; i < c->servers.n; i++)
        count += now.entries[i] == before->entries[i] + 1;
    return count;
}

/* The thread that waits next gets an entry behind the process that was notified. */
Test(sync_queue, next_thread_waits_behind_the_process_that_was_notified)
{
    struct sync_quorum c;
    struct worker first, next, other;
    redlock_lock_options options = sync_quorum_lock_options();
    unsigned behind = 0;
    options.handoffs = 0;
    sync_quorum_open(&c, 3);
    redlock_sync *theirs = sync_quorum_sync(&c);
    worker_start(&first, c.sync, "job", &options);
    worker_start(&next, c.sync, "job", &options);
    worker_start_holding(&other, theirs, "job", &options);
    struct places places = count_places(&c);
    worker_do(&first, job_lock); /* so that it is subscribed from then on */
    SYNC_QUORUM_UNTIL(with_another(&c, &places) >= 2);
    cr_assert_eq(worker_done(&other, job_unlock), REDLOCK_OK);
    cr_assert_eq(worker_await(&first), REDLOCK_OK);
    for (unsigned i = 0; i < ROUNDS; i++) {
        places = count_places(&c); /* its holder may have left an entry until its release */
        worker_do(&other, job_lock);
        SYNC_QUORUM_UNTIL(with_another(&c, &places) >= 2);
        worker_do(&next, job_lock);
        SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
        cr_assert_eq(worker_done(&first, job_unlock), REDLOCK_OK);
        SYNC_QUORUM_UNTIL(!worker_is_busy(&other) || !worker_is_busy(&next));
        if (!worker_is_busy(&next))
            cr_assert_eq(worker_done(&next, job_unlock), REDLOCK_OK);
        else
            behind++;
        cr_assert_eq(worker_await(&other), REDLOCK_OK);
        cr_assert_eq(worker_done(&other, job_unlock), REDLOCK_OK);
        cr_assert_eq(worker_await(&next), REDLOCK_OK);
        job_unlock(&next);
        cr_assert_eq(worker_done(&first, job_lock), REDLOCK_OK);
    }
    cr_assert_eq(worker_done(&first, job_unlock), REDLOCK_OK);
    cr_assert_gt(behind, ROUNDS * 3 / 4, "%u of %d", behind, ROUNDS);
    worker_end(&first);
    worker_end(&next);
    worker_end(&other);
    redlock_sync_free(theirs);
    sync_quorum_close(&c);
}
