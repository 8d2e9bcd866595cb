/* Waits that are stopped, cancelled or interrupted by signals. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "worker_threads.h"

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
    redlock_lock_options options = sync_quorum_lock_options();
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    cr_assert_eq(redlock_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(redlock_stop_new(c.sync, &stop[i]), REDLOCK_OK);
        options.stop = stop[i];
        worker_start_waiting(&worker[i], c.sync, "job", &options);
    }
    redlock_stop_all(stop[which]);
    cr_assert_eq(worker_await(&worker[which]), REDLOCK_CANCELLED);
    cr_assert_eq(sync_quorum_waiting(c.sync, "job"), 2);
    cr_assert_eq(worker_done(&worker[which], job_lock), REDLOCK_CANCELLED, "from now on");
    cr_assert_eq(worker_done(&worker[which], job_try), REDLOCK_CANCELLED);
    redlock_hold_free(hold);
    for (unsigned i = 0; i < 3; i++)
        if (i != which)
            worker_finish(&worker[i]);
    worker_end(&worker[which]);
    for (unsigned i = 0; i < 3; i++)
        redlock_stop_free(stop[i]);
    SYNC_QUORUM_UNTIL(sync_quorum_keys(c.sync) == 0);
    redlock_sync_free(other);
    sync_quorum_free_client(&c);
    cr_assert_eq(servers_keys(&c.servers), 0);
    sync_quorum_close(&c);
}

Test(sync_stop, first_waiter_stops)
{
    give_up(0);
}

Test(sync_stop, middle_waiter_stops)
{
    give_up(1);
}

Test(sync_stop, last_waiter_stops)
{
    give_up(2);
}

/* A held lock stays held, and a wait without this stop continues. */
Test(sync_stop, stop_is_for_waits)
{
    struct sync_quorum c;
    struct worker holder, waiting;
    redlock_stop *stop = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    options.stop = stop;
    worker_start_holding(&holder, c.sync, "job", &options);
    worker_start_waiting(&waiting, c.sync, "job", NULL);
    redlock_stop_all(stop);
    cr_assert_not(redlock_hold_lost(holder.hold));
    cr_assert(worker_is_busy(&waiting));
    worker_finish(&holder);
    worker_finish(&waiting);
    redlock_stop_free(stop);
    sync_quorum_close(&c);
}

/* Stopped at many moments of an attempt: nothing remains on the nodes. */
Test(sync_stop, stopped_at_any_moment)
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
    sync_quorum_free_client(&c);
    cr_assert_eq(servers_keys(&c.servers), 0);
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

Test(sync_stop, thread_is_cancelled_while_it_waits)
{
    struct sync_quorum c;
    struct worker holder;
    struct worker cancelled = {.key = "job", .options = sync_quorum_lock_options()};
    pthread_t thread;
    void *returned;
    sync_quorum_open(&c, 3);
    cancelled.sync = c.sync;
    cancelled.options.ttl_ms = 1000;
    worker_start_holding(&holder, c.sync, "job", NULL);
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

Test(sync_stop, signals_end_no_wait)
{
    struct sync_quorum c;
    struct worker holder, waiting;
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    sigaction(SIGUSR1, &action, NULL);
    sync_quorum_open(&c, 3);
    worker_start_holding(&holder, c.sync, "job", NULL);
    worker_start(&waiting, c.sync, "job", NULL);
    waiting.wait_ms = 3600000;
    worker_do(&waiting, job_lock_for);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    for (unsigned i = 1; i <= 20; i++) {
        cr_assert_eq(pthread_kill(waiting.thread, SIGUSR1), 0);
        SYNC_QUORUM_UNTIL(signals == i);
    }
    cr_assert(worker_is_busy(&waiting));
    worker_finish(&holder);
    worker_finish(&waiting);
    sync_quorum_close(&c);
}

/* The client's thread takes no signals: only it does not block this one. */
Test(sync_stop, client_takes_no_signals)
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
