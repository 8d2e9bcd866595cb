/*
 * Waits that are stopped, threads that end, and clients that are freed while they are in
 * use.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "worker_threads.h"

/* --- stopping --- */

static void start_waiting(struct sync_quorum *c, struct worker *worker, redlock_stop *stop,
                          unsigned already)
{
    redlock_lock_options options = sync_quorum_lock_options();
    options.stop = stop;
    worker_start(worker, c->sync, "job", &options);
    worker_do(worker, job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c->sync, "job") == already + 1);
}

static void finish(struct worker *worker)
{
    cr_assert_eq(worker_await(worker), REDLOCK_OK, "%s", redlock_code_name(worker->code));
    cr_assert_eq(worker_done(worker, job_confirm), REDLOCK_OK);
    worker_end(worker);
}

/*
 * The first waiter sends to the nodes, the others wait for it: if one stops, the rest
 * continues.
 */
static void give_up(unsigned which)
{
    struct sync_quorum c;
    struct worker worker[3];
    redlock_stop *stop[3];
    redlock_hold *hold = NULL;
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    cr_assert_eq(redlock_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(redlock_stop_new(c.sync, &stop[i]), REDLOCK_OK);
        start_waiting(&c, &worker[i], stop[i], i);
    }
    redlock_stop_all(stop[which]);
    cr_assert_eq(worker_await(&worker[which]), REDLOCK_CANCELLED);
    cr_assert_eq(sync_quorum_waiting(c.sync, "job"), 2);
    cr_assert_eq(worker_done(&worker[which], job_lock), REDLOCK_CANCELLED, "from now on");
    cr_assert_eq(worker_done(&worker[which], job_try), REDLOCK_CANCELLED);
    redlock_hold_free(hold);
    for (unsigned i = 0; i < 3; i++)
        if (i != which)
            finish(&worker[i]);
    worker_end(&worker[which]);
    for (unsigned i = 0; i < 3; i++)
        redlock_stop_free(stop[i]);
    SYNC_QUORUM_UNTIL(sync_quorum_keys(c.sync) == 0);
    redlock_sync_free(other);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(servers_keys(&c.servers), 0);
    sync_quorum_close(&c);
}

Test(sync_end, first_waiter_stops)
{
    give_up(0);
}

Test(sync_end, middle_waiter_stops)
{
    give_up(1);
}

Test(sync_end, last_waiter_stops)
{
    give_up(2);
}

/* What is held stays held, and a wait without this stop continues. */
Test(sync_end, stop_is_for_waits)
{
    struct sync_quorum c;
    struct worker holder, waiting;
    redlock_stop *stop = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    options.stop = stop;
    worker_start(&holder, c.sync, "job", &options);
    cr_assert_eq(worker_done(&holder, job_lock), REDLOCK_OK);
    start_waiting(&c, &waiting, NULL, 0);
    redlock_stop_all(stop);
    cr_assert_not(redlock_hold_lost(holder.hold));
    cr_assert(worker_is_busy(&waiting));
    finish(&holder);
    finish(&waiting);
    redlock_stop_free(stop);
    sync_quorum_close(&c);
}

/* Stopped at many moments of an attempt: nothing remains on the nodes. */
Test(sync_end, stopped_at_any_moment)
{
    struct sync_quorum c;
    unsigned cancelled = 0;
    sync_quorum_open(&c, 5);
    for (unsigned i = 0; i < 100; i++) {
        struct worker worker;
        redlock_stop *stop = NULL;
        redlock_lock_options options = sync_quorum_lock_options();
        cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
        options.stop = stop;
        worker_start(&worker, c.sync, "job", &options);
        worker_do(&worker, job_lock);
        for (unsigned j = 0; j < i * 20; j++)
            (void)sync_quorum_waiting(c.sync, "job");
        redlock_stop_all(stop);
        redlock_code code = worker_await(&worker);
        cr_assert(code == REDLOCK_OK || code == REDLOCK_CANCELLED);
        cancelled += code == REDLOCK_CANCELLED;
        if (code == REDLOCK_OK)
            cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_OK);
        worker_end(&worker);
        redlock_stop_free(stop);
    }
    cr_assert_gt(cancelled, 0);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(servers_keys(&c.servers), 0);
    sync_quorum_close(&c);
}

/* --- freeing the client --- */

static void note_loss(redlock_hold *hold, redlock_code why, int64_t valid_ms, void *arg)
{
    atomic_uint *reported = arg;
    if (why == REDLOCK_CANCELLED && valid_ms > 0 && redlock_hold_lost(hold))
        atomic_fetch_add(reported, 1);
    else
        atomic_fetch_add(reported, 1000);
}

Test(sync_end, client_is_freed_while_threads_hold_and_wait)
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
    worker_start(&holder, c.sync, "job", &options);
    cr_assert_eq(worker_done(&holder, job_lock), REDLOCK_OK);
    for (unsigned i = 0; i < 2; i++)
        start_waiting(&c, &waiting[i], NULL, i);
    worker_start(&remote, c.sync, "theirs", NULL);
    worker_do(&remote, job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "theirs") == 1);
    SYNC_QUORUM_UNTIL(servers_with(&c.servers, "job", redlock_hold_token(holder.hold)) ==
                      3);
    redlock_sync_free(c.sync);
    c.sync = NULL;
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

static void note_release(redlock_hold *hold, redlock_code why, int64_t valid_ms, void *arg)
{
    atomic_uint *reported = arg;
    bool right = why == REDLOCK_CANCELLED && valid_ms == 0 && redlock_hold_lost(hold);
    atomic_fetch_add(reported, right ? 1 : 1000);
}

/* As in a program of an older version: a field that it does not know is off. */
static redlock_lock_options older_options(void)
{
    redlock_lock_options options = sync_quorum_lock_options();
    options.release_on_free = true;
    options.size = offsetof(redlock_lock_options, release_on_free);
    return options;
}

static redlock_hold *hold_key(struct sync_quorum *c, const char *key,
                              const redlock_lock_options *options)
{
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock(c->sync, key, strlen(key), options, &hold), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(servers_with(&c->servers, key, redlock_hold_token(hold)) == 3);
    return hold;
}

Test(sync_end, client_is_freed_and_releases_what_is_held)
{
    struct sync_quorum c;
    atomic_uint reported = 0;
    redlock_lock_options options = sync_quorum_lock_options(), older = older_options();
    options.release_on_free = true;
    options.on_lost = note_release;
    options.lost_arg = &reported;
    sync_quorum_open(&c, 3);
    redlock_hold *released = hold_key(&c, "released", &options);
    redlock_hold *kept = hold_key(&c, "kept", NULL);
    redlock_hold *unknown = hold_key(&c, "unknown", &older);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(servers_with(&c.servers, "released", NULL), 3);
    cr_assert_eq(servers_with(&c.servers, "kept", redlock_hold_token(kept)), 3);
    cr_assert_eq(servers_with(&c.servers, "unknown", redlock_hold_token(unknown)), 3);
    cr_assert_eq(reported, 1);
    cr_assert(redlock_hold_lost(released));
    cr_assert_eq(redlock_hold_valid_ms(released), 0);
    cr_assert_gt(redlock_hold_valid_ms(kept), 0, "it still excludes others");
    cr_assert_eq(redlock_unlock(released, 0), REDLOCK_CLOSED);
    redlock_hold_free(released);
    redlock_hold_free(kept);
    redlock_hold_free(unknown);
    sync_quorum_close(&c);
}

/* It was lost by the clock, and its owner has not unlocked: the keys still exist. */
Test(sync_end, client_is_freed_and_releases_what_was_lost)
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
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(servers_with(&c.servers, "released", NULL), 3);
    cr_assert_eq(servers_with(&c.servers, "kept", redlock_hold_token(hold[0])), 3);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(redlock_unlock(hold[i], 0), REDLOCK_MAX_HOLD);
        redlock_hold_free(hold[i]);
    }
    sync_quorum_close(&c);
}

/* No node replies: everything ends all the same. */
Test(sync_end, client_is_freed_while_nodes_are_silent)
{
    struct sync_quorum c;
    struct worker worker[3];
    sync_quorum_open(&c, 3);
    for (unsigned i = 0; i < 3; i++)
        worker_start(&worker[i], c.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        servers_stop(&c.servers, i);
    worker[1].key = "other";
    worker_do(&worker[1], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "other") == 1);
    worker_do(&worker[0], job_confirm);
    SYNC_QUORUM_UNTIL(!sync_quorum_held(c.sync, "job"));
    worker_do(&worker[2], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(worker_await(&worker[0]), REDLOCK_UNCONFIRMED);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_CANCELLED);
    cr_assert_eq(worker_await(&worker[2]), REDLOCK_CANCELLED);
    for (unsigned i = 0; i < 3; i++) {
        servers_cont(&c.servers, i);
        worker_end(&worker[i]);
    }
    sync_quorum_close(&c);
}

/* The same while a lock is extended for the next waiter. */
Test(sync_end, client_is_freed_while_a_lock_is_handed_over)
{
    struct sync_quorum c;
    struct worker worker[2];
    redlock_lock_options options = sync_quorum_lock_options();
    options.watchdog = false;
    sync_quorum_open(&c, 3);
    worker_start(&worker[0], c.sync, "job", &options);
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    options.min_validity_ms = 59300;
    worker_start(&worker[1], c.sync, "job", &options);
    SYNC_QUORUM_UNTIL(redlock_hold_valid_ms(worker[0].hold) < options.min_validity_ms);
    worker_do(&worker[1], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    for (unsigned i = 0; i < 3; i++)
        servers_stop(&c.servers, i);
    worker_do(&worker[0], job_confirm);
    SYNC_QUORUM_UNTIL(!sync_quorum_held(c.sync, "job"));
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(worker_await(&worker[0]), REDLOCK_UNCONFIRMED);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_CANCELLED);
    for (unsigned i = 0; i < 3; i++)
        servers_cont(&c.servers, i);
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

Test(sync_end, client_is_freed_while_threads_work)
{
    struct sync_quorum c;
    static const char *const key[BUSY] = {"a", "b", "c", "d"};
    sync_quorum_open(&c, 3);
    for (unsigned round = 0; round < 10; round++) {
        struct worker worker[BUSY];
        for (unsigned i = 0; i < BUSY; i++) {
            worker_start(&worker[i], c.sync, key[i], NULL);
            cr_assert_eq(worker_done(&worker[i], job_lock), REDLOCK_OK);
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
        for (unsigned i = 0; i < c.servers.n; i++)
            servers_do(&c.servers, i, "FLUSHALL");
        c.sync = sync_quorum_sync(&c);
    }
    sync_quorum_close(&c);
}

/* --- threads that end --- */

/* The state of its work is unknown: the lock stays until its TTL ends. */
Test(sync_end, thread_ends_with_a_lock)
{
    struct sync_quorum c;
    struct worker holder, waiting;
    redlock_hold *none = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    options.ttl_ms = 1000;
    sync_quorum_open(&c, 3);
    worker_start(&holder, c.sync, "job", &options);
    cr_assert_eq(worker_done(&holder, job_lock), REDLOCK_OK);
    redlock_hold *hold = holder.hold;
    worker_start(&waiting, c.sync, "job", &options);
    worker_do(&waiting, job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    SYNC_QUORUM_UNTIL(servers_with(&c.servers, "job", redlock_hold_token(hold)) == 3);
    holder.hold = NULL;
    worker_end(&holder);
    cr_assert(redlock_hold_lost(hold));
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_NOT_HELD, "it does not release it");
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, &options, &none), REDLOCK_TAKEN);
    cr_assert_eq(servers_with(&c.servers, "job", redlock_hold_token(hold)), 3);
    cr_assert_eq(worker_await(&waiting), REDLOCK_OK);
    cr_assert_str_neq(redlock_hold_token(waiting.hold), redlock_hold_token(hold));
    finish(&waiting);
    redlock_hold_free(hold);
    sync_quorum_close(&c);
}

/* Only the locks that it still holds; and those of other clients, too. */
Test(sync_end, thread_ends_with_some_locks)
{
    struct sync_quorum c;
    struct worker worker;
    redlock_hold *hold[4];
    static const char *const key[] = {"a", "b", "c", "d"};
    redlock_lock_options options = sync_quorum_lock_options();
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    worker_start(&worker, c.sync, NULL, NULL);
    for (unsigned i = 0; i < 4; i++) {
        worker.key = key[i];
        worker.sync = i < 2 ? c.sync : other;
        worker.options.any_thread = i == 3;
        cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
        hold[i] = worker.hold;
        worker.hold = NULL;
    }
    cr_assert_eq(redlock_unlock(hold[1], REDLOCK_CONFIRM), REDLOCK_OK, "here, not there");
    worker_end(&worker);
    cr_assert(redlock_hold_lost(hold[0]));
    cr_assert(redlock_hold_lost(hold[2]));
    cr_assert_not(redlock_hold_lost(hold[3]), "it belongs to no thread in particular");
    cr_assert_eq(redlock_unlock(hold[3], REDLOCK_CONFIRM), REDLOCK_OK);
    worker_start(&worker, c.sync, "b", &options);
    cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
    finish(&worker);
    for (unsigned i = 0; i < 4; i++)
        redlock_hold_free(hold[i]);
    redlock_sync_free(other);
    sync_quorum_close(&c);
}

/* A thread that is cancelled in a wait continues to wait, and ends after that. */
static void job_lock_and_end(struct worker *worker)
{
    job_lock(worker);
    pthread_testcancel();
}

static void *lock_and_end(void *arg)
{
    job_lock_and_end(arg);
    return NULL;
}

Test(sync_end, thread_is_cancelled_while_it_waits)
{
    struct sync_quorum c;
    struct worker holder;
    struct worker cancelled = {.key = "job", .options = sync_quorum_lock_options()};
    pthread_t thread;
    void *returned;
    sync_quorum_open(&c, 3);
    cancelled.sync = c.sync;
    cancelled.options.ttl_ms = 1000;
    worker_start(&holder, c.sync, "job", NULL);
    cr_assert_eq(worker_done(&holder, job_lock), REDLOCK_OK);
    cr_assert_eq(pthread_create(&thread, NULL, lock_and_end, &cancelled), 0);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    cr_assert_eq(pthread_cancel(thread), 0);
    cr_assert_eq(sync_quorum_waiting(c.sync, "job"), 1);
    cr_assert_eq(worker_done(&holder, job_unlock), REDLOCK_OK);
    cr_assert_eq(pthread_join(thread, &returned), 0);
    cr_assert_eq(returned, PTHREAD_CANCELED);
    cr_assert_eq(cancelled.code, REDLOCK_OK);
    cr_assert(redlock_hold_lost(cancelled.hold));
    redlock_hold_free(cancelled.hold);
    worker_end(&holder);
    sync_quorum_close(&c);
}

/* --- signals --- */

static atomic_uint signals;
static pthread_t signalled;

static void on_signal(int number)
{
    (void)number;
    signalled = pthread_self();
    atomic_fetch_add(&signals, 1);
}

Test(sync_end, signals_end_no_wait)
{
    struct sync_quorum c;
    struct worker holder, waiting;
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    sigaction(SIGUSR1, &action, NULL);
    sync_quorum_open(&c, 3);
    worker_start(&holder, c.sync, "job", NULL);
    cr_assert_eq(worker_done(&holder, job_lock), REDLOCK_OK);
    worker_start(&waiting, c.sync, "job", NULL);
    waiting.wait_ms = 3600000;
    worker_do(&waiting, job_lock_for);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    for (unsigned i = 1; i <= 20; i++) {
        cr_assert_eq(pthread_kill(waiting.thread, SIGUSR1), 0);
        SYNC_QUORUM_UNTIL(signals == i);
    }
    cr_assert(worker_is_busy(&waiting));
    finish(&holder);
    finish(&waiting);
    sync_quorum_close(&c);
}

/* The client's thread takes no signals: only it does not block this one. */
Test(sync_end, client_takes_no_signals)
{
    struct sync_quorum c;
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t usr1, pending;
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sync_quorum_open(&c, 3);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    cr_assert_eq(kill(getpid(), SIGUSR1), 0);
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
    sigpending(&pending);
    cr_assert(sigismember(&pending, SIGUSR1));
    cr_assert_eq(signals, 0);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    cr_assert_eq(signals, 1);
    cr_assert(pthread_equal(signalled, pthread_self()));
    redlock_hold_free(hold);
    sync_quorum_close(&c);
}
