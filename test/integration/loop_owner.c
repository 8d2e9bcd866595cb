/* Which thread runs the loop of a client for threads: its own thread, or one that waits. */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "child.h"
#include "worker_threads.h"

/* --- keeping the client's thread busy --- */

/*
 * The client's thread stays in a callback while the loop is free. So it can neither run the
 * loop nor relieve another thread, and a waiting thread runs the loop for that time.
 */
struct away {
    struct sync_quorum sync_quorum;
    redlock_hold *lost;
    sem_t back;
    atomic_uint gone;
    pthread_t thread;
    enum sync_quorum_loop_owner driver; /* at the callback */
    bool frees;                         /* the client, in the callback */
};

static void stay_away(redlock_hold *hold, redlock_code why, int64_t valid_ms, void *arg)
{
    struct away *away = arg;
    (void)hold;
    (void)why;
    (void)valid_ms;
    away->thread = pthread_self();
    away->driver = sync_quorum_loop_owner(away->sync_quorum.sync);
    atomic_fetch_add(&away->gone, 1);
    while (sem_wait(&away->back) != 0)
        ;
    if (away->frees)
        redlock_sync_free(away->sync_quorum.sync);
}

/* One wait after the other: the loop is left free for them. */
static atomic_bool enough;

static void job_cycle(struct worker *worker)
{
    while (!enough) {
        job_lock(worker);
        job_confirm(worker);
    }
}

static void call_back(struct away *away)
{
    sem_post(&away->back);
    redlock_hold_free(away->lost);
    away->lost = NULL;
}

/* A lock is lost meanwhile. False: the client's thread ran the loop just then. */
static bool goes_away(struct away *away)
{
    struct worker worker;
    redlock_lock_options options = sync_quorum_lock_options();
    unsigned gone = away->gone;
    options.max_hold_ms = 20;
    options.on_lost = stay_away;
    options.lost_arg = away;
    cr_assert_eq(redlock_lock(away->sync_quorum.sync, "lost", 4, &options, &away->lost),
                 REDLOCK_OK);
    enough = false;
    worker_start(&worker, away->sync_quorum.sync, "cycle", NULL);
    worker_do(&worker, job_cycle);
    SYNC_QUORUM_UNTIL(away->gone > gone);
    cr_assert(!pthread_equal(away->thread, worker.thread));
    bool free = away->driver != SYNC_QUORUM_CLIENT;
    enough = true;
    if (!free)
        call_back(away);
    cr_assert_eq(worker_await(&worker), REDLOCK_OK);
    worker_end(&worker);
    return free;
}

static void send_away(struct away *away)
{
    *away = (struct away){.thread = pthread_self()};
    sem_init(&away->back, 0, 0);
    sync_quorum_open(&away->sync_quorum, 3);
    SYNC_QUORUM_UNTIL(goes_away(away));
    cr_assert_eq(sync_quorum_loop_owner(away->sync_quorum.sync), SYNC_QUORUM_NOBODY);
}

static void finish(struct away *away)
{
    if (away->lost)
        call_back(away);
    sync_quorum_close(&away->sync_quorum);
    sem_destroy(&away->back);
}

/* --- a waiting thread runs the loop --- */

Test(loop_owner, runs_the_loop_alone)
{
    struct away away;
    struct worker worker;
    send_away(&away);
    worker_start(&worker, away.sync_quorum.sync, "job", NULL);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
        cr_assert_eq(worker_done(&worker, job_extend), REDLOCK_OK);
        cr_assert_eq(worker_done(&worker, job_confirm), REDLOCK_OK);
        cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_NOBODY);
    }
    worker_end(&worker);
    finish(&away);
}

/* Another thread does what it waits for. */
Test(loop_owner, is_handed_a_lock)
{
    struct away away;
    struct worker worker[2];
    send_away(&away);
    for (unsigned i = 0; i < 2; i++)
        worker_start(&worker[i], away.sync_quorum.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    worker_do(&worker[1], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(away.sync_quorum.sync) == SYNC_QUORUM_CALLER);
    cr_assert_eq(worker_done(&worker[0], job_unlock), REDLOCK_OK);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_OK);
    cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_NOBODY);
    cr_assert_eq(worker_done(&worker[1], job_confirm), REDLOCK_OK);
    worker_end(&worker[0]);
    worker_end(&worker[1]);
    finish(&away);
}

/* Another process holds the lock: a thread that needs it waits. */
struct theirs {
    redlock_sync *sync;
    redlock_hold *hold;
};

static struct theirs take(struct away *away, const char *key)
{
    struct theirs theirs = {.sync = sync_quorum_sync(&away->sync_quorum)};
    cr_assert_eq(redlock_lock(theirs.sync, key, strlen(key), NULL, &theirs.hold),
                 REDLOCK_OK);
    return theirs;
}

static void give_back(struct theirs *theirs)
{
    redlock_hold_free(theirs->hold);
    redlock_sync_free(theirs->sync);
}

/* A thread that waited for it has it, and releases it. */
static void serve_at_last(struct theirs *theirs, struct worker *waiting)
{
    give_back(theirs);
    cr_assert_eq(worker_await(waiting), REDLOCK_OK);
    cr_assert_eq(worker_done(waiting, job_confirm), REDLOCK_OK);
    worker_end(waiting);
}

static void wait_and_drive(struct away *away, struct worker *worker,
                           const redlock_lock_options *options, worker_job *job)
{
    worker_start(worker, away->sync_quorum.sync, "theirs", options);
    worker->wait_ms = 50;
    worker_do(worker, job);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(away->sync_quorum.sync) == SYNC_QUORUM_CALLER);
}

Test(loop_owner, is_stopped)
{
    struct away away;
    struct worker worker;
    redlock_stop *stop = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    cr_assert_eq(redlock_stop_new(away.sync_quorum.sync, &stop), REDLOCK_OK);
    options.stop = stop;
    wait_and_drive(&away, &worker, &options, job_lock);
    redlock_stop_all(stop);
    cr_assert_eq(worker_await(&worker), REDLOCK_CANCELLED);
    worker_end(&worker);
    redlock_stop_free(stop);
    give_back(&theirs);
    finish(&away);
}

/* A thread of its own process holds the lock: only the deadline ends its wait. */
Test(loop_owner, has_a_deadline)
{
    struct away away;
    struct worker worker[2];
    send_away(&away);
    for (unsigned i = 0; i < 2; i++)
        worker_start(&worker[i], away.sync_quorum.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    worker[1].wait_ms = 300;
    worker_do(&worker[1], job_lock_for);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(away.sync_quorum.sync) == SYNC_QUORUM_CALLER);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_TIMEOUT);
    worker_end(&worker[0]);
    worker_end(&worker[1]);
    finish(&away);
}

/* It also serves other threads, for as long as it runs the loop. */
Test(loop_owner, serves_other_threads)
{
    struct away away;
    struct worker waiting, other;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &waiting, NULL, job_lock);
    worker_start(&other, away.sync_quorum.sync, "other", NULL);
    cr_assert_eq(worker_done(&other, job_lock), REDLOCK_OK);
    cr_assert_eq(worker_done(&other, job_unlock), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(servers_number(&away.sync_quorum.servers, 0, "EXISTS other") == 0);
    cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_CALLER);
    redlock_hold_free(theirs.hold);
    theirs.hold = NULL;
    cr_assert_eq(worker_await(&waiting), REDLOCK_OK);
    cr_assert_eq(worker_done(&waiting, job_confirm), REDLOCK_OK);
    worker_end(&waiting);
    worker_end(&other);
    give_back(&theirs);
    finish(&away);
}

/*
 * Other threads' locks are extended, and their loss is detected, while no callback can run.
 */
static void note_loss(redlock_hold *hold, redlock_code why, int64_t valid_ms, void *arg)
{
    atomic_uint *reported = arg;
    (void)why;
    (void)valid_ms;
    atomic_fetch_add(reported, redlock_hold_lost(hold) ? 1 : 1000);
}

Test(loop_owner, extends_the_locks_of_other_threads)
{
    struct away away;
    struct worker waiting, other;
    atomic_uint reported = 0;
    redlock_lock_options options = sync_quorum_lock_options();
    options.ttl_ms = 3000;
    options.on_lost = note_loss;
    options.lost_arg = &reported;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &waiting, NULL, job_lock);
    worker_start(&other, away.sync_quorum.sync, "other", &options);
    cr_assert_eq(worker_done(&other, job_lock), REDLOCK_OK);
    int64_t end = sync_quorum_clock_ms() + redlock_hold_valid_ms(other.hold);
    SYNC_QUORUM_UNTIL(sync_quorum_clock_ms() + redlock_hold_valid_ms(other.hold) >
                      end + options.ttl_ms / 6);
    for (unsigned i = 0; i < away.sync_quorum.servers.n; i++)
        servers_do(&away.sync_quorum.servers, i, "DEL other");
    SYNC_QUORUM_UNTIL(redlock_hold_lost(other.hold));
    cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_CALLER);
    cr_assert_eq(reported, 0);
    call_back(&away);
    SYNC_QUORUM_UNTIL(reported > 0);
    give_back(&theirs);
    cr_assert_eq(worker_await(&waiting), REDLOCK_OK);
    worker_end(&waiting);
    worker_end(&other);
    finish(&away);
    cr_assert_eq(reported, 1);
}

/*
 * The client's thread needs the loop, but the next callback keeps it busy before it gets
 * the loop: the loop owner continues, because no other thread can take over.
 */
Test(loop_owner, is_not_relieved_by_a_thread_in_a_callback)
{
    struct away away;
    struct worker waiting, other;
    redlock_lock_options options = sync_quorum_lock_options();
    options.max_hold_ms = 20;
    options.on_lost = stay_away;
    options.lost_arg = &away;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &waiting, NULL, job_lock);
    worker_start(&other, away.sync_quorum.sync, "other", &options);
    cr_assert_eq(worker_done(&other, job_lock), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(redlock_hold_lost(other.hold));
    unsigned gone = away.gone;
    sync_quorum_relieve(away.sync_quorum.sync);
    sem_post(&away.back);
    SYNC_QUORUM_UNTIL(away.gone > gone);
    cr_assert_eq(worker_done(&other, job_unlock), REDLOCK_MAX_HOLD, "the owner has a job");
    serve_at_last(&theirs, &waiting);
    sem_post(&away.back);
    worker_end(&other);
    redlock_hold_free(away.lost);
    away.lost = NULL;
    finish(&away);
}

/* Lost, but freed, or left by its thread, before the report. */
Test(loop_owner, withdraws_reports_of_freed_holds)
{
    struct away away;
    struct worker waiting, other[2];
    static const char *const key[] = {"freed", "left"};
    atomic_uint reported = 0;
    redlock_lock_options options = sync_quorum_lock_options();
    options.max_hold_ms = 20;
    options.on_lost = note_loss;
    options.lost_arg = &reported;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &waiting, NULL, job_lock);
    for (unsigned i = 0; i < 2; i++) {
        worker_start(&other[i], away.sync_quorum.sync, key[i], &options);
        cr_assert_eq(worker_done(&other[i], job_lock), REDLOCK_OK);
        SYNC_QUORUM_UNTIL(redlock_hold_lost(other[i].hold));
    }
    redlock_hold_free(other[0].hold);
    other[0].hold = NULL;
    redlock_hold *left = other[1].hold;
    other[1].hold = NULL;
    worker_end(&other[1]);
    call_back(&away);
    give_back(&theirs);
    cr_assert_eq(worker_await(&waiting), REDLOCK_OK);
    worker_end(&other[0]);
    worker_end(&waiting);
    finish(&away);
    cr_assert_eq(reported, 0);
    redlock_hold_free(left);
}

static atomic_uint signals;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

/* Neither a signal nor a cancellation ends a wait, and both take effect. */
static void *lock_and_end(void *arg)
{
    job_lock(arg);
    pthread_testcancel();
    return arg;
}

Test(loop_owner, is_interrupted)
{
    struct away away;
    struct worker worker = {.key = "theirs", .options = sync_quorum_lock_options()};
    pthread_t thread;
    void *ended = NULL;
    struct sigaction action = {.sa_handler = on_signal}; /* calls are not restarted */
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    send_away(&away);
    worker.sync = away.sync_quorum.sync;
    worker.options.any_thread = true;
    struct theirs theirs = take(&away, "theirs");
    cr_assert_eq(pthread_create(&thread, NULL, lock_and_end, &worker), 0);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(away.sync_quorum.sync) == SYNC_QUORUM_CALLER);
    for (unsigned i = 1; i <= 10; i++) {
        cr_assert_eq(pthread_kill(thread, SIGUSR1), 0);
        SYNC_QUORUM_UNTIL(signals == i);
    }
    cr_assert_eq(pthread_cancel(thread), 0);
    sync_quorum_run_for(20);
    cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_CALLER);
    give_back(&theirs);
    cr_assert_eq(pthread_join(thread, &ended), 0);
    cr_assert_eq(ended, PTHREAD_CANCELED);
    cr_assert_eq(worker.code, REDLOCK_OK);
    cr_assert_not(redlock_hold_lost(worker.hold));
    cr_assert_eq(redlock_unlock(worker.hold, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(worker.hold);
    finish(&away);
}

/* The child shares the sockets with a thread that is inside the loop. */
Test(loop_owner, process_forks)
{
    struct away away;
    struct worker worker;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &worker, NULL, job_lock);
    for (unsigned i = 0; i < 10; i++) {
        pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) {
            redlock_hold *none;
            alarm(20);
            bool right = redlock_lock(away.sync_quorum.sync, "job", 3, NULL, &none) ==
                         REDLOCK_FORKED;
            redlock_hold_free(away.lost);
            redlock_sync_free(away.sync_quorum.sync);
            _exit(!right);
        }
        child_expect(child);
    }
    serve_at_last(&theirs, &worker);
    finish(&away);
}

/* --- the client's thread runs the loop after that --- */

Test(loop_owner, client_relieves_a_thread_that_waits_for_long)
{
    struct away away;
    struct worker worker;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &worker, NULL, job_lock);
    call_back(&away);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(away.sync_quorum.sync) == SYNC_QUORUM_CLIENT);
    cr_assert(worker_is_busy(&worker));
    serve_at_last(&theirs, &worker);
    finish(&away);
}

/* A thread whose wait has ended gives the loop to the client's thread, if others wait. */
Test(loop_owner, client_follows_a_thread_that_ran_the_loop)
{
    struct away away;
    struct worker worker[2], other;
    send_away(&away);
    for (unsigned i = 0; i < 2; i++)
        worker_start(&worker[i], away.sync_quorum.sync, "job", NULL);
    struct theirs theirs = take(&away, "theirs");
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    worker_do(&worker[1], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(away.sync_quorum.sync) == SYNC_QUORUM_CALLER);
    worker_start(&other, away.sync_quorum.sync, "theirs", NULL);
    worker_do(&other, job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(away.sync_quorum.sync, "theirs") == 1);
    cr_assert_eq(worker_done(&worker[0], job_unlock), REDLOCK_OK);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_OK);
    cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_CLIENT);
    call_back(&away);
    give_back(&theirs);
    cr_assert_eq(worker_await(&other), REDLOCK_OK);
    worker_end(&worker[0]);
    worker_end(&worker[1]);
    worker_end(&other);
    finish(&away);
}

/* What a thread left when it ended: no thread waits for that. */
Test(loop_owner, client_does_work_that_no_thread_waits_for)
{
    struct away away;
    struct worker worker;
    send_away(&away);
    worker_start(&worker, away.sync_quorum.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
    cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_NOBODY);
    redlock_hold *hold = worker.hold;
    worker.hold = NULL;
    worker_end(&worker);
    cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_CLIENT);
    call_back(&away);
    SYNC_QUORUM_UNTIL(sync_quorum_keys(away.sync_quorum.sync) == 0);
    redlock_hold_free(hold);
    finish(&away);
}

/* --- a thread that unlocks --- */

/* It writes the release itself if the loop is free, and waits for no reply. */
Test(loop_owner, unlocking_thread_writes_the_release)
{
    struct away away;
    struct worker worker;
    send_away(&away);
    worker_start(&worker, away.sync_quorum.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
    for (unsigned i = 0; i < away.sync_quorum.servers.n; i++)
        servers_stop(&away.sync_quorum.servers, i);
    cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_OK);
    cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_NOBODY);
    for (unsigned i = 0; i < away.sync_quorum.servers.n; i++)
        servers_cont(&away.sync_quorum.servers, i);
    SYNC_QUORUM_UNTIL(servers_with(&away.sync_quorum.servers, "job", NULL) == 3);
    worker_end(&worker);
    finish(&away);
}

/*
 * The client's thread owns the loop and waits, in a callback, for the thread that unlocks.
 */
Test(loop_owner, callback_waits_for_an_unlocking_thread)
{
    struct away away = {.thread = pthread_self()};
    struct worker worker;
    redlock_lock_options options = sync_quorum_lock_options();
    options.max_hold_ms = 20;
    options.on_lost = stay_away;
    options.lost_arg = &away;
    sem_init(&away.back, 0, 0);
    sync_quorum_open(&away.sync_quorum, 3);
    worker_start(&worker, away.sync_quorum.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
    cr_assert_eq(redlock_lock(away.sync_quorum.sync, "lost", 4, &options, &away.lost),
                 REDLOCK_OK);
    SYNC_QUORUM_UNTIL(away.gone > 0);
    cr_assert_eq(away.driver, SYNC_QUORUM_CLIENT);
    cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_OK);
    call_back(&away);
    SYNC_QUORUM_UNTIL(servers_with(&away.sync_quorum.servers, "job", NULL) == 3);
    worker_end(&worker);
    finish(&away);
}

/*
 * The client's thread takes a free loop over, and extends what is held while no thread
 * makes calls.
 */
Test(loop_owner, client_extends_while_no_thread_calls)
{
    struct away away;
    struct worker worker;
    redlock_lock_options options = sync_quorum_lock_options();
    options.ttl_ms = 3000;
    send_away(&away);
    worker_start(&worker, away.sync_quorum.sync, "job", &options);
    cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
    cr_assert_eq(sync_quorum_loop_owner(away.sync_quorum.sync), SYNC_QUORUM_NOBODY);
    int64_t end = sync_quorum_clock_ms() + redlock_hold_valid_ms(worker.hold);
    sem_post(&away.back);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(away.sync_quorum.sync) == SYNC_QUORUM_CLIENT);
    SYNC_QUORUM_UNTIL(sync_quorum_clock_ms() + redlock_hold_valid_ms(worker.hold) >
                      end + options.ttl_ms / 6);
    cr_assert_not(redlock_hold_lost(worker.hold));
    worker_end(&worker);
    redlock_hold_free(away.lost);
    away.lost = NULL;
    finish(&away);
}

static void *free_client(void *arg)
{
    redlock_sync_free(arg);
    return NULL;
}

Test(loop_owner, client_is_freed)
{
    struct away away;
    struct worker worker;
    pthread_t thread;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &worker, NULL, job_lock);
    cr_assert_eq(pthread_create(&thread, NULL, free_client, away.sync_quorum.sync), 0);
    cr_assert_eq(worker_await(&worker), REDLOCK_CANCELLED);
    call_back(&away);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    away.sync_quorum.sync = NULL;
    worker_end(&worker);
    give_back(&theirs);
    for (unsigned i = 0; i < away.sync_quorum.servers.n; i++)
        cr_assert_eq(servers_number(&away.sync_quorum.servers, i, "EXISTS theirs"), 0);
    finish(&away);
}

/* In the callback itself: the client ends on its own afterwards. */
Test(loop_owner, client_is_freed_in_a_callback)
{
    struct away away;
    struct worker worker;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &worker, NULL, job_lock);
    away.frees = true;
    call_back(&away);
    cr_assert_eq(worker_await(&worker), REDLOCK_CANCELLED);
    away.sync_quorum.sync = NULL;
    worker_end(&worker);
    give_back(&theirs);
    finish(&away);
}
