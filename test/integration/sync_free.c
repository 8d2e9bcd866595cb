/* Clients for threads that are freed while threads use them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>

#include "worker_threads.h"

static void note_loss(redlock_hold *hold, redlock_code why, redlock_reason reason,
                      int64_t valid_ms, void *arg)
{
    (void)reason;
    atomic_uint *reported = arg;
    if (why == REDLOCK_CANCELLED && valid_ms > 0 && redlock_hold_lost(hold))
        atomic_fetch_add(reported, 1);
    else
        atomic_fetch_add(reported, 1000);
}

Test(sync_free, client_is_freed_while_threads_hold_and_wait)
{
    struct sync_quorum c;
    struct worker holder, waiting[2], remote;
    redlock_hold *theirs = NULL;
    redlock_stop *stop = NULL;
    atomic_uint reported = 0;
    redlock_lock_options options = sync_quorum_lock_options();
    options.on_lost = note_loss;
    options.lost_arg = &reported;
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    cr_assert_eq(redlock_lock(other, "theirs", 6, NULL, &theirs), REDLOCK_OK);
    worker_start_holding(&holder, c.sync, "job", &options);
    for (unsigned i = 0; i < 2; i++)
        worker_start_waiting(&waiting[i], c.sync, "job", NULL);
    worker_start_waiting(&remote, c.sync, "theirs", NULL);
    SYNC_QUORUM_UNTIL(servers_with(&c.servers, "job", redlock_hold_token(holder.hold)) ==
                      3);
    sync_quorum_free_client(&c);
    cr_assert_eq(reported, 1);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(worker_await(&waiting[i]), REDLOCK_CANCELLED);
        worker_end(&waiting[i]);
    }
    cr_assert_eq(worker_await(&remote), REDLOCK_CANCELLED);
    worker_end(&remote);
    cr_assert(redlock_hold_lost(holder.hold));
    cr_assert_eq(servers_with(&c.servers, "job", redlock_hold_token(holder.hold)), 3,
                 "it stays until its TTL ends");
    cr_assert_eq(worker_done(&holder, job_extend), REDLOCK_CLOSED);
    cr_assert_eq(worker_done(&holder, job_unlock), REDLOCK_CLOSED);
    cr_assert_eq(worker_done(&holder, job_unlock), REDLOCK_NOT_HELD);
    worker_end(&holder);
    redlock_stop_all(stop);
    redlock_stop_free(stop);
    redlock_hold_free(theirs);
    redlock_sync_free(other);
    sync_quorum_close(&c);
}

/* --- freeing the client, and what is held --- */

static void note_release(redlock_hold *hold, redlock_code why, redlock_reason reason,
                         int64_t valid_ms, void *arg)
{
    (void)reason;
    atomic_uint *reported = arg;
    bool right = why == REDLOCK_CANCELLED && valid_ms == 0 && redlock_hold_lost(hold);
    atomic_fetch_add(reported, right ? 1 : 1000);
}

static redlock_hold *hold_key(struct sync_quorum *c, const char *key,
                              const redlock_lock_options *options)
{
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock(c->sync, key, strlen(key), options, &hold), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(servers_with(&c->servers, key, redlock_hold_token(hold)) == 3);
    return hold;
}

Test(sync_free, client_is_freed_and_releases_what_is_held)
{
    struct sync_quorum c;
    atomic_uint reported = 0;
    redlock_lock_options options = sync_quorum_lock_options();
    options.release_on_free = true;
    options.on_lost = note_release;
    options.lost_arg = &reported;
    sync_quorum_open(&c, 3);
    redlock_hold *released = hold_key(&c, "released", &options);
    redlock_hold *kept = hold_key(&c, "kept", NULL);
    sync_quorum_free_client(&c);
    cr_assert_eq(servers_with(&c.servers, "released", NULL), 3);
    cr_assert_eq(servers_with(&c.servers, "kept", redlock_hold_token(kept)), 3);
    cr_assert_eq(reported, 1);
    cr_assert(redlock_hold_lost(released));
    cr_assert_eq(redlock_hold_valid_ms(released), 0);
    cr_assert_gt(redlock_hold_valid_ms(kept), 0, "it still excludes others");
    cr_assert_eq(redlock_unlock(released, 0), REDLOCK_CLOSED);
    redlock_hold_free(released);
    redlock_hold_free(kept);
    sync_quorum_close(&c);
}

/* It was lost by the clock, and its owner has not unlocked: the keys still exist. */
Test(sync_free, client_is_freed_and_releases_what_was_lost)
{
    struct sync_quorum c;
    redlock_hold *hold[2];
    redlock_lock_options options = sync_quorum_lock_options();
    options.max_hold_ms = 20;
    sync_quorum_open(&c, 3);
    for (unsigned i = 0; i < 2; i++) {
        options.release_on_free = i > 0;
        hold[i] = hold_key(&c, i > 0 ? "released" : "kept", &options);
        SYNC_QUORUM_UNTIL(redlock_hold_lost(hold[i]));
    }
    sync_quorum_free_client(&c);
    cr_assert_eq(servers_with(&c.servers, "released", NULL), 3);
    cr_assert_eq(servers_with(&c.servers, "kept", redlock_hold_token(hold[0])), 3);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(redlock_unlock(hold[i], 0), REDLOCK_MAX_HOLD);
        redlock_hold_free(hold[i]);
    }
    sync_quorum_close(&c);
}

/* No node replies: everything ends all the same. */
Test(sync_free, client_is_freed_while_nodes_are_silent)
{
    struct sync_quorum c;
    struct worker worker[3];
    sync_quorum_open(&c, 3);
    for (unsigned i = 0; i < 3; i++)
        worker_start(&worker[i], c.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    servers_stop_first(&c.servers, 3);
    worker[1].key = "other";
    worker_do(&worker[1], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "other") == 1);
    worker_do(&worker[0], job_confirm);
    SYNC_QUORUM_UNTIL(!sync_quorum_held(c.sync, "job"));
    worker_do(&worker[2], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    sync_quorum_free_client(&c);
    cr_assert_eq(worker_await(&worker[0]), REDLOCK_UNCONFIRMED);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_CANCELLED);
    cr_assert_eq(worker_await(&worker[2]), REDLOCK_CANCELLED);
    for (unsigned i = 0; i < 3; i++) {
        servers_cont(&c.servers, i);
        worker_end(&worker[i]);
    }
    sync_quorum_close(&c);
}

/* A lock is extended for the next waiter meanwhile. */
Test(sync_free, client_is_freed_while_a_lock_is_handed_over)
{
    struct sync_quorum c;
    struct worker worker[2];
    redlock_lock_options options = sync_quorum_lock_options();
    options.watchdog = false;
    sync_quorum_open(&c, 3);
    worker_start_holding(&worker[0], c.sync, "job", &options);
    options.min_validity_ms = 59300;
    worker_start(&worker[1], c.sync, "job", &options);
    SYNC_QUORUM_UNTIL(redlock_hold_valid_ms(worker[0].hold) < options.min_validity_ms);
    worker_do(&worker[1], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    servers_stop_first(&c.servers, 3);
    worker_do(&worker[0], job_confirm);
    SYNC_QUORUM_UNTIL(!sync_quorum_held(c.sync, "job"));
    sync_quorum_free_client(&c);
    cr_assert_eq(worker_await(&worker[0]), REDLOCK_UNCONFIRMED);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_CANCELLED);
    servers_cont_first(&c.servers, 3);
    worker_end(&worker[0]);
    worker_end(&worker[1]);
    sync_quorum_close(&c);
}

/* Threads extend and unlock their locks while the client is freed: each call ends. */
#define BUSY 4

static void job_extend_on(struct worker *worker)
{
    do
        job_extend(worker);
    while (worker->code == REDLOCK_OK);
}

Test(sync_free, client_is_freed_while_threads_work)
{
    struct sync_quorum c;
    static const char *const key[BUSY] = {"a", "b", "c", "d"};
    sync_quorum_open(&c, 3);
    for (unsigned round = 0; round < 10; round++) {
        struct worker worker[BUSY];
        for (unsigned i = 0; i < BUSY; i++) {
            worker_start_holding(&worker[i], c.sync, key[i], NULL);
        }
        for (unsigned i = 0; i < BUSY; i++)
            worker_do(&worker[i], i % 2 ? job_extend_on : job_confirm);
        redlock_sync_free(c.sync);
        for (unsigned i = 0; i < BUSY; i++) {
            redlock_code code = worker_await(&worker[i]);
            if (i % 2)
                cr_assert_eq(code, REDLOCK_CLOSED, "%s", redlock_code_name(code));
            else
                cr_assert(code == REDLOCK_CLOSED || code == REDLOCK_OK ||
                          code == REDLOCK_UNCONFIRMED);
            cr_assert_eq(worker_done(&worker[i], job_unlock),
                         i % 2 ? REDLOCK_CLOSED : REDLOCK_NOT_HELD);
            worker_end(&worker[i]);
        }
        servers_do_first(&c.servers, c.servers.n, "FLUSHALL");
        c.sync = sync_quorum_sync(&c);
    }
    sync_quorum_close(&c);
}

/* --- a thread that is cancelled --- */

struct canceller {
    redlock_sync *sync;
    atomic_bool blocks, in_callback, freed;
};

static void block(redlock_hold *hold, redlock_code why, redlock_reason reason,
                  int64_t valid_ms, void *arg)
{
    (void)reason;
    struct canceller *canceller = arg;
    (void)hold;
    (void)why;
    (void)valid_ms;
    atomic_store(&canceller->in_callback, true);
    while (atomic_load(&canceller->blocks))
        sync_quorum_run_for(1);
}

/* The cancellation takes effect at the first cancellation point. */
static void *free_cancelled(void *arg)
{
    struct canceller *canceller = arg;
    pthread_cancel(pthread_self());
    redlock_sync_free(canceller->sync);
    atomic_store(&canceller->freed, true);
    pthread_testcancel();
    return NULL;
}

Test(sync_free, cancelled_thread_frees_the_client)
{
    struct sync_quorum c;
    struct canceller canceller = {.blocks = true};
    pthread_t thread;
    void *returned = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    options.on_lost = block;
    options.lost_arg = &canceller;
    sync_quorum_open(&c, 3);
    redlock_hold *hold = hold_key(&c, "job", &options);
    canceller.sync = c.sync;
    c.sync = NULL;
    cr_assert_eq(pthread_create(&thread, NULL, free_cancelled, &canceller), 0);
    SYNC_QUORUM_UNTIL(canceller.in_callback);
    sync_quorum_run_for(50);
    cr_assert_eq(pthread_tryjoin_np(thread, NULL), EBUSY);
    atomic_store(&canceller.blocks, false);
    cr_assert_eq(pthread_join(thread, &returned), 0);
    cr_assert(canceller.freed);
    cr_assert_eq(returned, PTHREAD_CANCELED);
    redlock_hold_free(hold);
    sync_quorum_close(&c);
}
