/* Lost locks of threads: each loss is reported once, and the next thread continues. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#include "worker_threads.h"

#define SHORT_MS 3000 /* nothing expires because the machine is busy */
#define LONG_MS  4000

struct seen {
    atomic_uint begun, times;
    redlock_hold *hold;
    redlock_code why;
    redlock_reason reason;
    int64_t valid_ms;
    pthread_t thread;
    bool was_lost;
    void (*more)(struct seen *seen, redlock_hold *hold);
    redlock_sync *sync, *another;
    bool refused; /* all calls that wait, by try_to_wait() */
    redlock_code unlocked;
    sem_t go;
};

static void see(redlock_hold *hold, redlock_code why, redlock_reason reason,
                int64_t valid_ms, void *arg)
{
    struct seen *seen = arg;
    atomic_fetch_add(&seen->begun, 1);
    seen->hold = hold;
    seen->why = why;
    seen->reason = reason;
    seen->valid_ms = valid_ms;
    seen->thread = pthread_self();
    seen->was_lost = redlock_hold_lost(hold);
    if (seen->more)
        seen->more(seen, hold);
    atomic_fetch_add(&seen->times, 1); /* last: the test reads the rest after that */
}

static redlock_lock_options short_options(struct seen *seen)
{
    redlock_lock_options options = sync_quorum_lock_options();
    options.ttl_ms = SHORT_MS;
    options.on_lost = see;
    options.lost_arg = seen;
    return options;
}

static void break_key(struct sync_quorum *c)
{
    servers_do_first(&c->servers, c->servers.n, "DEL job");
}

/*
 * The lock is broken while others wait: the loss is reported to its owner, once, and the
 * next thread gets the lock.
 */
Test(sync_loss, broken)
{
    struct sync_quorum c;
    struct worker worker[3];
    struct seen seen[3] = {0};
    sync_quorum_open(&c, 3);
    for (unsigned i = 0; i < 3; i++) {
        redlock_lock_options options = short_options(&seen[i]);
        worker_start(&worker[i], c.sync, "job", &options);
        worker_do(&worker[i], job_lock);
        SYNC_QUORUM_UNTIL(i == 0 ? sync_quorum_held(c.sync, "job")
                                 : sync_quorum_waiting(c.sync, "job") == i);
    }
    cr_assert_eq(worker_await(&worker[0]), REDLOCK_OK);
    break_key(&c);
    SYNC_QUORUM_UNTIL(seen[0].times > 0);
    cr_assert(seen[0].was_lost);
    cr_assert_eq(seen[0].why, REDLOCK_GONE, "%s", redlock_code_name(seen[0].why));
    cr_assert_eq(seen[0].valid_ms, 0);
    cr_assert_eq(seen[0].hold, worker[0].hold);
    cr_assert_neq(seen[0].thread, worker[0].thread);
    cr_assert_eq(redlock_hold_valid_ms(worker[0].hold), 0);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_OK,
                 "it does not wait for the one that lost");
    cr_assert_not(redlock_hold_lost(worker[1].hold));
    cr_assert_eq(worker_done(&worker[0], job_extend), REDLOCK_GONE);
    cr_assert_eq(worker_done(&worker[0], job_unlock), REDLOCK_GONE);
    cr_assert_eq(worker_done(&worker[0], job_unlock), REDLOCK_NOT_HELD);
    cr_assert_not(redlock_hold_lost(worker[1].hold));
    cr_assert_eq(worker_done(&worker[1], job_extend), REDLOCK_OK);
    cr_assert_eq(worker_done(&worker[1], job_confirm), REDLOCK_OK);
    cr_assert_eq(worker_await(&worker[2]), REDLOCK_OK);
    cr_assert_eq(worker_done(&worker[2], job_confirm), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        worker_end(&worker[i]);
    sync_quorum_free_client(&c);
    cr_assert_eq(seen[0].times, 1);
    cr_assert_eq(seen[1].times + seen[2].times, 0, "their waits have ended");
    sync_quorum_close(&c);
}

/* Another client has it by now: that is reported, and its lock is not touched. */
Test(sync_loss, taken)
{
    struct sync_quorum c;
    struct worker worker;
    struct seen seen = {0};
    redlock_lock_options options = short_options(&seen);
    sync_quorum_open(&c, 3);
    worker_start_holding(&worker, c.sync, "job", &options);
    SYNC_QUORUM_UNTIL(servers_with(&c.servers, "job", redlock_hold_token(worker.hold)) ==
                      3);
    servers_do_first(&c.servers, 3, "SET job another");
    SYNC_QUORUM_UNTIL(seen.times > 0);
    cr_assert_eq(seen.why, REDLOCK_TAKEN);
    cr_assert_eq(worker_done(&worker, job_extend), REDLOCK_TAKEN);
    cr_assert_eq(worker_done(&worker, job_confirm), REDLOCK_TAKEN);
    worker_end(&worker);
    sync_quorum_free_client(&c);
    cr_assert_eq(servers_with(&c.servers, "job", "another"), 3);
    cr_assert_eq(seen.times, 1);
    sync_quorum_close(&c);
}

static void record_in_callback(struct seen *seen, redlock_hold *hold)
{
    char text[2] = "-";
    (void)hold;
    seen->refused =
        redlock_sync_record(seen->sync, text, sizeof(text)) == 0 && text[0] == '-';
}

/* Any thread can read why, but for a callback, which must not wait. */
Test(sync_loss, recorded)
{
    struct sync_quorum c;
    struct worker worker;
    struct seen seen = {.more = record_in_callback};
    redlock_lock_options options = short_options(&seen);
    sync_quorum_open(&c, 3);
    seen.sync = c.sync;
    worker_start_holding(&worker, c.sync, "job", &options);
    break_key(&c);
    SYNC_QUORUM_UNTIL(seen.times > 0);
    cr_assert(seen.refused);
    size_t len = redlock_sync_record(c.sync, NULL, 0);
    cr_assert_gt(len, 0);
    static char text[100000];
    cr_assert_lt(redlock_sync_record(c.sync, text, sizeof(text)), sizeof(text));
    cr_assert_not_null(strstr(text, " result lease=1 attempt=1 of=loss cause=GONE "));
    worker_end(&worker);
    sync_quorum_close(&c);
}

/*
 * The nodes are silent: it expires, as late as possible, and the next thread waits again.
 */
Test(sync_loss, expired)
{
    struct sync_quorum c;
    struct worker worker[2];
    struct seen seen = {0};
    redlock_lock_options options = short_options(&seen);
    options.ttl_ms = LONG_MS;
    options.margin_ms = 1000;
    sync_quorum_open(&c, 3);
    worker_start(&worker[0], c.sync, "job", &options);
    options = short_options(NULL);
    options.on_lost = NULL;
    worker_start(&worker[1], c.sync, "job", &options);
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    worker_do(&worker[1], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    servers_stop(&c.servers, 0);
    servers_stop(&c.servers, 1);
    SYNC_QUORUM_UNTIL(seen.times > 0);
    cr_assert_eq(seen.why, REDLOCK_EXPIRED);
    cr_assert_gt(seen.valid_ms, 0);
    cr_assert_leq(seen.valid_ms, LONG_MS);
    cr_assert(redlock_hold_lost(worker[0].hold));
    SYNC_QUORUM_UNTIL(redlock_hold_valid_ms(worker[0].hold) == 0);
    cr_assert(worker_is_busy(&worker[1]));
    servers_cont(&c.servers, 0);
    servers_cont(&c.servers, 1);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_OK);
    cr_assert_eq(worker_done(&worker[0], job_extend), REDLOCK_EXPIRED);
    cr_assert_eq(worker_done(&worker[0], job_unlock), REDLOCK_EXPIRED);
    cr_assert_not(redlock_hold_lost(worker[1].hold));
    cr_assert_eq(worker_done(&worker[1], job_unlock), REDLOCK_OK);
    worker_end(&worker[0]);
    worker_end(&worker[1]);
    cr_assert_eq(seen.times, 1);
    sync_quorum_close(&c);
}

Test(sync_loss, servers_die)
{
    struct sync_quorum c;
    struct worker worker;
    struct seen seen = {0};
    redlock_lock_options options = short_options(&seen);
    options.any_thread = true;
    sync_quorum_open(&c, 3);
    worker_start_holding(&worker, c.sync, "job", &options);
    servers_kill_first(&c.servers, 3);
    SYNC_QUORUM_UNTIL(seen.times > 0);
    cr_assert_eq(seen.why, REDLOCK_EXPIRED);
    cr_assert_eq(seen.reason, REDLOCK_REASON_NOT_CONNECTED);
    cr_assert_eq(redlock_unlock(worker.hold, 0), REDLOCK_EXPIRED);
    cr_assert(strstr(redlock_last_error()->text, ": 3 of 3 nodes failed: "), "%s",
              redlock_last_error()->text);
    redlock_hold *none = NULL;
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, &options, &none), REDLOCK_NO_QUORUM);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 20, &options, &none),
                 REDLOCK_NO_QUORUM);
    worker_end(&worker);
    sync_quorum_close(&c);
    cr_assert_eq(seen.times, 1);
}

Test(sync_loss, held_for_the_longest_hold)
{
    struct sync_quorum c;
    struct worker worker;
    struct seen seen = {0};
    redlock_lock_options options = short_options(&seen);
    options.max_hold_ms = 400;
    sync_quorum_open(&c, 3);
    worker_start_holding(&worker, c.sync, "job", &options);
    SYNC_QUORUM_UNTIL(seen.times > 0);
    cr_assert_eq(seen.why, REDLOCK_MAX_HOLD);
    cr_assert_eq(worker_done(&worker, job_extend), REDLOCK_MAX_HOLD);
    cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_MAX_HOLD);
    worker_end(&worker);
    sync_quorum_close(&c);
}

/* Unlocking checks the deadline, in case its end was not reported yet. */
static void stay(struct seen *seen, redlock_hold *hold)
{
    (void)hold;
    while (sem_wait(&seen->go) != 0)
        ;
}

Test(sync_loss, noticed_by_the_owner_first)
{
    struct sync_quorum c;
    struct seen seen = {.more = stay};
    struct worker worker;
    redlock_hold *hold = NULL;
    redlock_lock_options options = short_options(&seen);
    sem_init(&seen.go, 0, 0);
    sync_quorum_open(&c, 3);
    options.watchdog = false;
    options.ttl_ms = 300;
    worker_start(&worker, c.sync, "stays", &options);
    options.ttl_ms = 600;
    options.on_lost = NULL;
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    /* the callback of its loss keeps the client's thread busy */
    worker_do(&worker, job_lock);
    cr_assert_eq(worker_await(&worker), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(redlock_hold_valid_ms(hold) == 0);
    if (!redlock_hold_lost(
            hold)) /* otherwise the machine was slow, and it was reported before */
        cr_assert_eq(seen.times, 0);
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_EXPIRED);
    cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_DEADLINE);
    sem_post(&seen.go);
    redlock_hold_free(hold);
    worker_end(&worker);
    sync_quorum_close(&c);
    sem_destroy(&seen.go);
}

/* --- inside the callback --- */

static redlock_node node[3];

static void expect_two_dead(redlock_hold *hold)
{
    cr_assert_eq(redlock_hold_explain(hold, node, 3), 3);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(node[i].verdict,
                     i < 2 ? REDLOCK_VERDICT_ABSENT : REDLOCK_VERDICT_GRANTED, "%s: %s",
                     node[i].uri, redlock_verdict_name(node[i].verdict));
    cr_assert_eq(node[0].fault, REDLOCK_FAULT_CONNECT);
}

static void note_nodes(struct seen *seen, redlock_hold *hold)
{
    (void)seen;
    expect_two_dead(hold);
}

/* In on_lost, after it, and after the unlock; not if the client is closed. */
Test(sync_loss, names_the_nodes_that_failed)
{
    struct sync_quorum c;
    struct worker worker;
    struct seen seen = {.more = note_nodes};
    redlock_lock_options options = short_options(&seen);
    sync_quorum_open(&c, 3);
    worker_start_holding(&worker, c.sync, "job", &options);
    SYNC_QUORUM_UNTIL(servers_with(&c.servers, "job", redlock_hold_token(worker.hold)) ==
                      3);
    servers_kill_first(&c.servers, 2);
    SYNC_QUORUM_UNTIL(seen.times > 0);
    expect_two_dead(worker.hold);
    cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_EXPIRED);
    expect_two_dead(worker.hold);
    sync_quorum_free_client(&c);
    cr_assert_eq(redlock_hold_explain(worker.hold, node, 3), 0);
    worker_end(&worker);
    sync_quorum_close(&c);
}

static void try_to_wait(struct seen *seen, redlock_hold *hold)
{
    redlock_node node[3];
    bool refused = redlock_hold_extend(hold, 0) == REDLOCK_WOULD_DEADLOCK &&
                   redlock_unlock(hold, REDLOCK_CONFIRM) == REDLOCK_WOULD_DEADLOCK &&
                   redlock_sync_explain(seen->sync, node, 3) == 0;
    EACH_CALL (call, CALL_LOCK, CALL_RELEASE)
        refused &=
            sync_quorum_fail(call, seen->sync, "other", NULL) == REDLOCK_WOULD_DEADLOCK &&
            sync_quorum_fail(call, seen->another, "other", NULL) == REDLOCK_WOULD_DEADLOCK;
    seen->refused = refused;
    seen->unlocked = redlock_unlock(hold, 0);
}

/* Neither for this client nor for another one. */
Test(sync_loss, callbacks_do_not_wait)
{
    struct sync_quorum c;
    struct worker worker;
    struct seen seen = {.more = try_to_wait};
    redlock_lock_options options = short_options(&seen);
    sync_quorum_open(&c, 3);
    seen.sync = c.sync;
    seen.another = sync_quorum_sync(&c);
    worker_start_holding(&worker, c.sync, "job", &options);
    break_key(&c);
    SYNC_QUORUM_UNTIL(seen.times > 0);
    cr_assert(seen.refused);
    cr_assert_eq(seen.unlocked, REDLOCK_GONE);
    cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_NOT_HELD);
    worker_end(&worker);
    redlock_sync_free(seen.another);
    sync_quorum_close(&c);
}

static void free_it(struct seen *seen, redlock_hold *hold)
{
    (void)seen;
    redlock_hold_free(hold);
}

Test(sync_loss, callback_frees_the_hold)
{
    struct sync_quorum c;
    struct seen seen = {.more = free_it};
    redlock_lock_options options = short_options(&seen);
    redlock_hold *hold = NULL;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    break_key(&c);
    SYNC_QUORUM_UNTIL(seen.times > 0);
    sync_quorum_close(&c);
}

static atomic_uint signals;
static atomic_bool blocks;

static void block_in_handler(int number)
{
    int error = errno;
    (void)number;
    atomic_fetch_add(&signals, 1);
    while (atomic_load(&blocks))
        sched_yield();
    errno = error;
}

/*
 * The lock is handed off to a thread that does not run, and lost before that thread's call
 * has returned. After that the library uses no memory of the hold.
 */
Test(sync_loss, callback_frees_the_hold_before_its_call_returns)
{
    struct sync_quorum c;
    struct worker holder, waiting;
    struct seen seen = {.more = free_it};
    redlock_lock_options options = short_options(NULL);
    struct sigaction action = {.sa_handler = block_in_handler};
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    options.on_lost = NULL;
    sync_quorum_open(&c, 3);
    worker_start_holding(&holder, c.sync, "job", &options);
    options = short_options(&seen);
    worker_start_waiting(&waiting, c.sync, "job", &options);
    cr_assert_eq(sync_quorum_loop_owner(c.sync), SYNC_QUORUM_CLIENT);
    atomic_store(&blocks, true);
    cr_assert_eq(pthread_kill(waiting.thread, SIGUSR1), 0);
    SYNC_QUORUM_UNTIL(signals == 1);
    cr_assert_eq(worker_done(&holder, job_unlock), REDLOCK_OK);
    break_key(&c);
    SYNC_QUORUM_UNTIL(seen.times > 0);
    cr_assert(worker_is_busy(&waiting));
    atomic_store(&blocks, false);
    cr_assert_eq(worker_await(&waiting), REDLOCK_OK);
    waiting.hold = NULL; /* the callback has freed it */
    worker_end(&waiting);
    worker_end(&holder);
    sync_quorum_close(&c);
    cr_assert_eq(seen.times, 1);
}

static void free_client(struct seen *seen, redlock_hold *hold)
{
    (void)hold;
    redlock_sync_free(seen->sync);
}

/* The client is freed when its callback has returned; the holds stay. */
Test(sync_loss, callback_frees_the_client)
{
    struct sync_quorum c;
    struct worker waiting;
    struct seen seen = {.more = free_client};
    redlock_lock_options options = short_options(&seen);
    redlock_hold *hold = NULL, *other = NULL;
    sync_quorum_open(&c, 3);
    seen.sync = c.sync;
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    cr_assert_eq(redlock_lock(c.sync, "other", 5, NULL, &other), REDLOCK_OK);
    worker_start_waiting(&waiting, c.sync, "other", NULL);
    break_key(&c);
    cr_assert_eq(worker_await(&waiting), REDLOCK_CANCELLED);
    SYNC_QUORUM_UNTIL(redlock_hold_lost(other));
    cr_assert_eq(redlock_unlock(other, 0), REDLOCK_CLOSED);
    redlock_hold_free(other);
    redlock_hold_free(hold);
    worker_end(&waiting);
    cr_assert_eq(seen.times, 1);
    c.sync = NULL;
    sync_quorum_close(&c);
}

static void free_when_both_run(struct seen *seen, redlock_hold *hold)
{
    while (sem_wait(&seen->go) != 0)
        ;
    free_client(seen, hold);
}

/* Neither waits for the other one. */
Test(sync_loss, callbacks_free_the_client_of_each_other)
{
    struct sync_quorum c;
    struct seen seen[2] = {{.more = free_when_both_run}, {.more = free_when_both_run}};
    redlock_sync *sync[2];
    redlock_hold *hold[2] = {NULL, NULL}, *other[2] = {NULL, NULL};
    sync_quorum_open(&c, 3);
    sync[0] = c.sync;
    sync[1] = sync_quorum_sync(&c);
    c.sync = NULL;
    for (unsigned i = 0; i < 2; i++) {
        const char *key = i > 0 ? "another" : "job", *more = i > 0 ? "fourth" : "third";
        redlock_lock_options options = short_options(&seen[i]);
        sem_init(&seen[i].go, 0, 0);
        seen[i].sync = sync[1 - i];
        cr_assert_eq(redlock_lock(sync[i], key, strlen(key), &options, &hold[i]),
                     REDLOCK_OK);
        cr_assert_eq(redlock_lock(sync[i], more, strlen(more), NULL, &other[i]),
                     REDLOCK_OK);
    }
    servers_do_first(&c.servers, c.servers.n, "DEL job another");
    SYNC_QUORUM_UNTIL(seen[0].begun > 0 && seen[1].begun > 0);
    sem_post(&seen[0].go);
    sem_post(&seen[1].go);
    SYNC_QUORUM_UNTIL(seen[0].times > 0 && seen[1].times > 0);
    for (unsigned i = 0; i < 2; i++) {
        SYNC_QUORUM_UNTIL(redlock_hold_lost(other[i]));
        cr_assert_eq(redlock_unlock(other[i], 0), REDLOCK_CLOSED);
        redlock_hold_free(other[i]);
        redlock_hold_free(hold[i]);
        sem_destroy(&seen[i].go);
    }
    sync_quorum_close(&c);
}

/*
 * The thread that frees the hold waits for its callback: the callback's data may be freed
 * right after.
 */
static void job_free(struct worker *worker)
{
    redlock_hold_free(worker->hold);
    worker->hold = NULL;
}

Test(sync_loss, freed_while_its_callback_runs)
{
    struct sync_quorum c;
    struct worker worker;
    struct seen seen = {.more = stay};
    redlock_lock_options options = short_options(&seen);
    sem_init(&seen.go, 0, 0);
    sync_quorum_open(&c, 3);
    worker_start_holding(&worker, c.sync, "job", &options);
    redlock_hold *hold = worker.hold;
    break_key(&c);
    SYNC_QUORUM_UNTIL(seen.begun > 0);
    cr_assert(redlock_hold_lost(hold));
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_GONE);
    worker_do(&worker, job_free);
    sync_quorum_run_for(50);
    cr_assert_eq(seen.times, 0);
    cr_assert(worker_is_busy(&worker));
    sem_post(&seen.go);
    worker_await(&worker);
    cr_assert_eq(seen.times, 1);
    worker_end(&worker);
    sync_quorum_close(&c);
    sem_destroy(&seen.go);
}
