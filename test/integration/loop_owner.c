/* A waiting thread runs the loop of a client for threads, while the client's own cannot. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "busy_client.h"
#include "child.h"
#include "client/client.h"
#include "sync/sync.h"

Test(loop_owner, runs_the_loop_alone)
{
    struct busy_client client;
    struct worker worker;
    busy_client_open(&client);
    worker_start(&worker, client.c.sync, "job", NULL);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
        cr_assert_eq(worker_done(&worker, job_extend), REDLOCK_OK);
        cr_assert_eq(worker_done(&worker, job_confirm), REDLOCK_OK);
        cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_NOBODY);
    }
    worker_end(&worker);
    busy_client_close(&client);
}

/* Another thread does what it waits for. */
Test(loop_owner, is_handed_a_lock)
{
    struct busy_client client;
    struct worker worker[2];
    busy_client_open(&client);
    for (unsigned i = 0; i < 2; i++)
        worker_start(&worker[i], client.c.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    worker_do(&worker[1], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(client.c.sync) == SYNC_QUORUM_CALLER);
    cr_assert_eq(worker_done(&worker[0], job_unlock), REDLOCK_OK);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_OK);
    cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_NOBODY);
    cr_assert_eq(worker_done(&worker[1], job_confirm), REDLOCK_OK);
    worker_end(&worker[0]);
    worker_end(&worker[1]);
    busy_client_close(&client);
}

Test(loop_owner, is_stopped)
{
    struct busy_client client;
    struct worker worker;
    redlock_stop *stop = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    busy_client_open(&client);
    cr_assert_eq(redlock_stop_new(client.c.sync, &stop), REDLOCK_OK);
    options.stop = stop;
    struct rival rival = rival_block(&client, &worker, &options);
    redlock_stop_all(stop);
    cr_assert_eq(worker_await(&worker), REDLOCK_CANCELLED);
    worker_end(&worker);
    redlock_stop_free(stop);
    rival_free(&rival);
    busy_client_close(&client);
}

static atomic_long naps;

static void job_wait(struct worker *worker)
{
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    job_lock_for(worker);
    getrusage(RUSAGE_THREAD, &after);
    naps = after.ru_nvcsw - before.ru_nvcsw;
}

#define WAIT_MS  300
#define NAPS_MAX 100 /* it needs 4 */

/*
 * A thread of its own process holds the lock: only the deadline ends its wait, and it
 * sleeps until then.
 */
Test(loop_owner, has_a_deadline)
{
    struct busy_client client;
    struct worker worker[2];
    busy_client_open(&client);
    for (unsigned i = 0; i < 2; i++)
        worker_start(&worker[i], client.c.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    worker[1].wait_ms = WAIT_MS;
    int64_t begun = sync_quorum_clock_ms();
    worker_do(&worker[1], job_wait);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(client.c.sync) == SYNC_QUORUM_CALLER);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_TIMEOUT);
    cr_assert_geq(sync_quorum_clock_ms() - begun, WAIT_MS);
    cr_assert_leq(naps, NAPS_MAX);
    worker_end(&worker[0]);
    worker_end(&worker[1]);
    busy_client_close(&client);
}

/* It also serves other threads, for as long as it runs the loop. */
Test(loop_owner, serves_other_threads)
{
    struct busy_client client;
    struct worker waiting, other;
    busy_client_open(&client);
    struct rival rival = rival_block(&client, &waiting, NULL);
    worker_start_holding(&other, client.c.sync, "other", NULL);
    cr_assert_eq(worker_done(&other, job_unlock), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(servers_number(&client.c.servers, 0, "EXISTS other") == 0);
    cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_CALLER);
    redlock_hold_free(rival.hold);
    rival.hold = NULL;
    worker_finish(&waiting);
    worker_end(&other);
    rival_free(&rival);
    busy_client_close(&client);
}

/*
 * Other threads' locks are extended, and their loss is detected, while no callback can run.
 */
static void note_loss(redlock_hold *hold, redlock_code why, redlock_reason reason,
                      int64_t valid_ms, void *arg)
{
    (void)reason;
    atomic_uint *reported = arg;
    (void)why;
    (void)valid_ms;
    atomic_fetch_add(reported, redlock_hold_lost(hold) ? 1 : 1000);
}

Test(loop_owner, extends_the_locks_of_other_threads)
{
    struct busy_client client;
    struct worker waiting, other;
    atomic_uint reported = 0;
    redlock_lock_options options = sync_quorum_lock_options();
    options.ttl_ms = 3000;
    options.on_lost = note_loss;
    options.lost_arg = &reported;
    busy_client_open(&client);
    struct rival rival = rival_block(&client, &waiting, NULL);
    worker_start_holding(&other, client.c.sync, "other", &options);
    int64_t end = sync_quorum_clock_ms() + redlock_hold_valid_ms(other.hold);
    SYNC_QUORUM_UNTIL(sync_quorum_clock_ms() + redlock_hold_valid_ms(other.hold) >
                      end + options.ttl_ms / 6);
    servers_do_first(&client.c.servers, client.c.servers.n, "DEL other");
    SYNC_QUORUM_UNTIL(redlock_hold_lost(other.hold));
    cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_CALLER);
    cr_assert_eq(reported, 0);
    busy_client_return(&client);
    SYNC_QUORUM_UNTIL(reported > 0);
    rival_free(&rival);
    cr_assert_eq(worker_await(&waiting), REDLOCK_OK);
    worker_end(&waiting);
    worker_end(&other);
    busy_client_close(&client);
    cr_assert_eq(reported, 1);
}

/*
 * The client's thread needs the loop, but the next callback keeps it busy before it gets
 * the loop: the loop owner continues, because no other thread can take over.
 */
Test(loop_owner, is_not_relieved_by_a_thread_in_a_callback)
{
    struct busy_client client;
    struct worker waiting, other;
    redlock_lock_options options = sync_quorum_lock_options();
    options.max_hold_ms = 20;
    options.on_lost = busy_client_stay;
    options.lost_arg = &client;
    busy_client_open(&client);
    struct rival rival = rival_block(&client, &waiting, NULL);
    worker_start_holding(&other, client.c.sync, "other", &options);
    SYNC_QUORUM_UNTIL(redlock_hold_lost(other.hold));
    unsigned gone = client.gone;
    sync_quorum_relieve(client.c.sync);
    sem_post(&client.back);
    SYNC_QUORUM_UNTIL(client.gone > gone);
    cr_assert_eq(worker_done(&other, job_unlock), REDLOCK_MAX_HOLD, "the owner has a job");
    rival_yield(&rival, &waiting);
    sem_post(&client.back);
    worker_end(&other);
    redlock_hold_free(client.lost);
    client.lost = NULL;
    busy_client_close(&client);
}

/* Lost, but freed, or left by its thread, before the report. */
Test(loop_owner, withdraws_reports_of_freed_holds)
{
    struct busy_client client;
    struct worker waiting, other[2];
    static const char *const key[] = {"freed", "left"};
    atomic_uint reported = 0;
    redlock_lock_options options = sync_quorum_lock_options();
    options.max_hold_ms = 20;
    options.on_lost = note_loss;
    options.lost_arg = &reported;
    busy_client_open(&client);
    struct rival rival = rival_block(&client, &waiting, NULL);
    for (unsigned i = 0; i < 2; i++) {
        worker_start_holding(&other[i], client.c.sync, key[i], &options);
        SYNC_QUORUM_UNTIL(redlock_hold_lost(other[i].hold));
    }
    redlock_hold_free(other[0].hold);
    other[0].hold = NULL;
    redlock_hold *left = other[1].hold;
    other[1].hold = NULL;
    worker_end(&other[1]);
    busy_client_return(&client);
    rival_free(&rival);
    cr_assert_eq(worker_await(&waiting), REDLOCK_OK);
    worker_end(&other[0]);
    worker_end(&waiting);
    busy_client_close(&client);
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
    struct busy_client client;
    struct worker worker = {.key = "theirs", .options = sync_quorum_lock_options()};
    pthread_t thread;
    void *ended = NULL;
    struct sigaction action = {.sa_handler = on_signal}; /* calls are not restarted */
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    busy_client_open(&client);
    worker.sync = client.c.sync;
    worker.options.any_thread = true;
    struct rival rival = rival_lock(&client);
    cr_assert_eq(pthread_create(&thread, NULL, lock_and_end, &worker), 0);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(client.c.sync) == SYNC_QUORUM_CALLER);
    for (unsigned i = 1; i <= 10; i++) {
        cr_assert_eq(pthread_kill(thread, SIGUSR1), 0);
        SYNC_QUORUM_UNTIL(signals == i);
    }
    cr_assert_eq(pthread_cancel(thread), 0);
    sync_quorum_run_for(20);
    cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_CALLER);
    rival_free(&rival);
    cr_assert_eq(pthread_join(thread, &ended), 0);
    cr_assert_eq(ended, PTHREAD_CANCELED);
    cr_assert_eq(worker.code, REDLOCK_OK);
    cr_assert_not(redlock_hold_lost(worker.hold));
    cr_assert_eq(redlock_unlock(worker.hold, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(worker.hold);
    busy_client_close(&client);
}

/* The child shares the sockets with a thread that is inside the loop. */
Test(loop_owner, process_forks)
{
    struct busy_client client;
    struct worker worker;
    busy_client_open(&client);
    struct rival rival = rival_block(&client, &worker, NULL);
    for (unsigned i = 0; i < 10; i++) {
        pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) {
            redlock_hold *none;
            alarm(20);
            bool right =
                redlock_lock(client.c.sync, "job", 3, NULL, &none) == REDLOCK_FORKED;
            redlock_hold_free(client.lost);
            redlock_sync_free(client.c.sync);
            _exit(!right);
        }
        child_expect(child);
    }
    rival_yield(&rival, &worker);
    busy_client_close(&client);
}

/* --- a full window --- */

#define LOCKERS 8

/* Their acquires fill the window: the nodes reply to none of them. */
Test(loop_owner, unlock_waits_until_its_release_is_written)
{
    struct sync_quorum c;
    struct worker holder, locker[LOCKERS];
    char key[LOCKERS][8];
    sync_quorum_open(&c, 3);
    worker_start_holding(&holder, c.sync, "job", NULL);
    c.sync->leases.client->nodes.window = 1;
    servers_stop_first(&c.servers, 3);
    for (unsigned i = 0; i < LOCKERS; i++) {
        snprintf(key[i], sizeof(key[i]), "%u", i);
        worker_start_waiting(&locker[i], c.sync, key[i], NULL);
    }
    worker_do(&holder, job_unlock);
    SYNC_QUORUM_UNTIL(redlock_hold_valid_ms(holder.hold) == 0);
    sync_quorum_run_for(50);
    cr_assert(worker_is_busy(&holder), "nothing can be written");
    servers_cont_first(&c.servers, 3);
    cr_assert_eq(worker_await(&holder), REDLOCK_OK);
    cr_assert_geq(servers_with(&c.servers, "job", NULL), 2);
    for (unsigned i = 0; i < LOCKERS; i++)
        worker_finish(&locker[i]);
    worker_end(&holder);
    sync_quorum_close(&c);
}
