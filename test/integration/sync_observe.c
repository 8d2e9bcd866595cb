/* Observers of elections, for threads: redlock_sync_observe(). */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "worker_threads.h"

struct seen {
    _Atomic int64_t term; /* the last that was told */
    atomic_uint times;
    atomic_bool blocks, frees;
};

static void note(redlock_sync_observer *observer, const redlock_leader *leader, void *arg)
{
    struct seen *seen = arg;
    atomic_store(&seen->term, leader->code == REDLOCK_OK ? leader->term : -1);
    atomic_fetch_add(&seen->times, 1);
    while (atomic_load(&seen->blocks))
        sync_quorum_run_for(1);
    if (atomic_load(&seen->frees))
        redlock_sync_observer_free(observer);
}

static redlock_sync_observer *observe(redlock_sync *sync, struct seen *seen)
{
    redlock_sync_observer *observer = NULL;
    cr_assert_eq(redlock_sync_observe(sync, "job", 3, note, seen, &observer), REDLOCK_OK);
    return observer;
}

static redlock_hold *lead(redlock_sync *sync)
{
    redlock_lock_options options = sync_quorum_lock_options();
    redlock_hold *hold = NULL;
    options.kind = REDLOCK_KIND_ELECTION;
    cr_assert_eq(redlock_lock(sync, "job", 3, &options, &hold), REDLOCK_OK);
    return hold;
}

Test(sync_observe, each_term_and_each_resignation)
{
    struct sync_quorum c;
    struct seen seen = {.term = -2};
    sync_quorum_open_fenced(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    redlock_sync_observer *observer = observe(other, &seen);
    SYNC_QUORUM_UNTIL(seen.term == 0);
    for (int i = 0; i < 3; i++) {
        redlock_hold *hold = lead(c.sync);
        SYNC_QUORUM_UNTIL(seen.term == redlock_hold_fence(hold));
        redlock_hold_free(hold);
        SYNC_QUORUM_UNTIL(seen.term == 0);
    }
    redlock_sync_observer_free(observer);
    unsigned times = seen.times;
    redlock_hold *hold = lead(c.sync);
    sync_quorum_run_for(200);
    cr_assert_eq(seen.times, times, "it is told after its end");
    redlock_hold_free(hold);
    redlock_sync_free(other);
    sync_quorum_close(&c);
}

static void *free_it(void *observer)
{
    redlock_sync_observer_free(observer);
    return NULL;
}

Test(sync_observe, the_end_waits_for_a_running_callback)
{
    struct sync_quorum c;
    struct seen seen = {.blocks = true};
    pthread_t thread;
    sync_quorum_open_fenced(&c, 3);
    redlock_sync_observer *observer = observe(c.sync, &seen);
    SYNC_QUORUM_UNTIL(seen.times == 1);
    pthread_create(&thread, NULL, free_it, observer);
    sync_quorum_run_for(100);
    cr_assert_eq(pthread_tryjoin_np(thread, NULL), EBUSY);
    atomic_store(&seen.blocks, false);
    pthread_join(thread, NULL);
    cr_assert_eq(seen.times, 1);
    sync_quorum_close(&c);
}

/* Two observers of one election: the one that is told a change first ends the other. */
struct pair {
    redlock_sync_observer *observer[2];
    atomic_bool is_armed, is_over[2];
    atomic_uint told, told_after_end;
};

static void end_other(redlock_sync_observer *observer, const redlock_leader *leader,
                      void *arg)
{
    struct pair *pair = arg;
    (void)leader;
    if (atomic_load(&pair->is_armed)) {
        unsigned mine = pair->observer[1] == observer;
        if (atomic_load(&pair->is_over[mine])) {
            atomic_fetch_add(&pair->told_after_end, 1);
        } else if (!atomic_exchange(&pair->is_over[!mine], true)) {
            redlock_sync_observer_free(pair->observer[!mine]);
        }
    }
    atomic_fetch_add(&pair->told, 1);
}

Test(sync_observe, nothing_is_told_after_the_end)
{
    struct sync_quorum c;
    sync_quorum_open_fenced(&c, 3);
    for (int i = 0; i < 20; i++) {
        struct pair pair = {.told = 0};
        for (int j = 0; j < 2; j++)
            cr_assert_eq(
                redlock_sync_observe(c.sync, "job", 3, end_other, &pair, &pair.observer[j]),
                REDLOCK_OK);
        SYNC_QUORUM_UNTIL(pair.told >= 2);
        atomic_store(&pair.is_armed, true);
        redlock_hold *hold = lead(c.sync);
        SYNC_QUORUM_UNTIL(pair.is_over[0] || pair.is_over[1]);
        unsigned told = pair.told;
        redlock_hold_free(hold);
        SYNC_QUORUM_UNTIL(pair.told > told);
        cr_assert_eq(pair.told_after_end, 0);
        redlock_sync_observer_free(pair.observer[pair.is_over[0] ? 1 : 0]);
    }
    sync_quorum_close(&c);
}

struct canceller {
    redlock_sync_observer *observer;
    atomic_bool freed;
};

/* The cancellation takes effect at the first cancellation point. */
static void *free_it_cancelled(void *arg)
{
    struct canceller *canceller = arg;
    pthread_cancel(pthread_self());
    redlock_sync_observer_free(canceller->observer);
    atomic_store(&canceller->freed, true);
    pthread_testcancel();
    return NULL;
}

Test(sync_observe, the_end_in_a_cancelled_thread_waits_for_a_running_callback)
{
    struct sync_quorum c;
    struct seen seen = {.blocks = true};
    struct canceller canceller = {.freed = false};
    pthread_t thread;
    void *returned = NULL;
    sync_quorum_open_fenced(&c, 3);
    canceller.observer = observe(c.sync, &seen);
    SYNC_QUORUM_UNTIL(seen.times == 1);
    pthread_create(&thread, NULL, free_it_cancelled, &canceller);
    sync_quorum_run_for(100);
    cr_assert_eq(pthread_tryjoin_np(thread, NULL), EBUSY);
    atomic_store(&seen.blocks, false);
    pthread_join(thread, &returned);
    cr_assert(canceller.freed);
    cr_assert_eq(returned, PTHREAD_CANCELED);
    sync_quorum_close(&c);
}

Test(sync_observe, it_ends_in_its_callback)
{
    struct sync_quorum c;
    struct seen seen = {.frees = true};
    sync_quorum_open_fenced(&c, 3);
    observe(c.sync, &seen);
    SYNC_QUORUM_UNTIL(seen.times == 1);
    redlock_hold *hold = lead(c.sync);
    redlock_hold_free(hold);
    sync_quorum_run_for(100);
    cr_assert_eq(seen.times, 1);
    sync_quorum_close(&c);
}

/* In another thread than the caller's, which may wake up after that. */
Test(sync_observe, it_ends_before_the_call_returns)
{
    struct sync_quorum c;
    struct seen seen = {.frees = true};
    sync_quorum_open_fenced(&c, 3);
    for (unsigned i = 1; i <= 300; i++) {
        observe(c.sync, &seen);
        SYNC_QUORUM_UNTIL(seen.times == i);
    }
    sync_quorum_close(&c);
}

Test(sync_observe, the_client_ends_first)
{
    struct sync_quorum c;
    struct seen seen[2] = {{.term = 0}};
    sync_quorum_open_fenced(&c, 3);
    redlock_sync_observer *first = observe(c.sync, &seen[0]);
    redlock_sync_observer *second = observe(c.sync, &seen[1]);
    SYNC_QUORUM_UNTIL(seen[0].times > 0 && seen[1].times > 0);
    redlock_sync_observer_free(first); /* may still be under way */
    sync_quorum_free_client(&c);
    redlock_sync_observer_free(second);
    redlock_sync_observer_free(NULL);
    sync_quorum_close(&c);
}
