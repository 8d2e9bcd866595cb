/* After a fork the child's handles are inert, whatever the parent's threads were doing. */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "worker_threads.h"

/*
 * The child has no test framework: the number of its first failed check is its exit code.
 */
#define CHECK(number, condition)                                                           \
    if (!(condition))                                                                      \
    _exit(number)

static int do_not_fly(redlock_hold *hold, void *arg)
{
    (void)hold;
    (void)arg;
    _exit(99);
}

static void be_inert(redlock_sync *sync, redlock_hold *hold, redlock_stop *stop)
{
    redlock_hold *none = NULL;
    redlock_stop *nothing = NULL;
    redlock_node node[3];
    int returned = 0;
    CHECK(1, redlock_lock(sync, "job", 3, NULL, &none) == REDLOCK_FORKED);
    CHECK(2, redlock_try_lock(sync, "new", 3, NULL, &none) == REDLOCK_FORKED);
    CHECK(3, redlock_lock_for(sync, "job", 3, 10, NULL, &none) == REDLOCK_FORKED);
    CHECK(4, redlock_single_flight(sync, "job", 3, -1, NULL, do_not_fly, NULL, &returned,
                                   NULL) == REDLOCK_FORKED);
    CHECK(5, redlock_hold_lost(hold));
    CHECK(6, redlock_hold_valid_ms(hold) == 0);
    CHECK(7, redlock_hold_extend(hold, 0) == REDLOCK_FORKED);
    CHECK(8, redlock_unlock(hold, 0) == REDLOCK_FORKED);
    CHECK(9, redlock_unlock(hold, REDLOCK_CONFIRM) == REDLOCK_FORKED);
    CHECK(10, redlock_sync_explain(sync, node, 3) == 0);
    CHECK(11, redlock_stop_new(sync, &nothing) == REDLOCK_FORKED);
    CHECK(12, none == NULL && nothing == NULL);
    CHECK(13, redlock_sync_nodes(sync) == 3);
    redlock_stop_all(stop);
}

/* Locks with its own client. */
static void lock_in_the_child(struct sync_quorum *c)
{
    redlock_sync *sync = NULL;
    redlock_hold *hold = NULL;
    redlock_options options = sync_quorum_options();
    CHECK(21, redlock_sync_new(c->servers.uri, 3, &options, &sync) == REDLOCK_OK);
    CHECK(22, redlock_try_lock(sync, "job", 3, NULL, &hold) == REDLOCK_TAKEN);
    CHECK(23, redlock_lock(sync, "own", 3, NULL, &hold) == REDLOCK_OK);
    CHECK(24, !redlock_hold_lost(hold));
    CHECK(25, redlock_unlock(hold, REDLOCK_CONFIRM) == REDLOCK_OK);
    redlock_hold_free(hold);
    redlock_sync_free(sync);
}

enum order { NOTHING, HOLDS_FIRST, CLIENT_FIRST };

static void be_a_child(struct sync_quorum *c, redlock_hold *hold, redlock_stop *stop,
                       enum order order)
{
    be_inert(c->sync, hold, stop);
    if (order == CLIENT_FIRST)
        redlock_sync_free(c->sync);
    if (order != NOTHING) {
        redlock_stop_free(stop);
        redlock_hold_free(hold);
    }
    if (order == HOLDS_FIRST)
        redlock_sync_free(c->sync);
    lock_in_the_child(c);
    _exit(0);
}

static void fork_with(enum order order)
{
    struct sync_quorum c;
    struct worker holder, waiting;
    redlock_stop *stop = NULL;
    redlock_hold *hold = NULL;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    cr_assert_eq(redlock_lock(c.sync, "mine", 4, NULL, &hold), REDLOCK_OK);
    worker_start_holding(&holder, c.sync, "job", NULL);
    worker_start(&waiting, c.sync, "job", NULL);
    waiting.options.stop = stop;
    worker_do(&waiting, job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    SYNC_QUORUM_UNTIL(servers_with(&c.servers, "mine", redlock_hold_token(hold)) == 3);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0)
        be_a_child(&c, hold, stop, order);
    child_expect(child);
    cr_assert_not(redlock_hold_lost(hold));
    cr_assert_eq(servers_with(&c.servers, "mine", redlock_hold_token(hold)), 3);
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    cr_assert_eq(worker_done(&holder, job_unlock), REDLOCK_OK);
    cr_assert_eq(worker_await(&waiting), REDLOCK_OK);
    cr_assert_eq(worker_done(&waiting, job_confirm), REDLOCK_OK);
    worker_end(&holder);
    worker_end(&waiting);
    redlock_hold_free(hold);
    redlock_stop_free(stop);
    sync_quorum_close(&c);
}

Test(sync_fork, child_that_frees_nothing)
{
    fork_with(NOTHING);
}

Test(sync_fork, child_that_frees_its_holds_first)
{
    fork_with(HOLDS_FIRST);
}

Test(sync_fork, child_that_frees_its_client_first)
{
    fork_with(CLIENT_FIRST);
}

/* Threads lock and unlock all the time, so every internal state occurs at the fork. */
#define BUSY 3

static atomic_bool over;

static void job_work(struct worker *worker)
{
    do {
        job_lock(worker);
        if (worker->code == REDLOCK_OK)
            job_unlock(worker);
    } while (worker->code == REDLOCK_OK && !over);
}

Test(sync_fork, while_threads_lock_and_unlock)
{
    struct sync_quorum c;
    struct worker worker[BUSY];
    redlock_hold *hold = NULL;
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("a thread may be in malloc() at the fork, and the sanitizer's then hangs");
#endif
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_lock(c.sync, "mine", 4, NULL, &hold), REDLOCK_OK);
    for (unsigned i = 0; i < BUSY; i++) {
        worker_start(&worker[i], c.sync, "busy", NULL);
        worker_do(&worker[i], job_work);
    }
    for (unsigned i = 0; i < 40; i++) {
        pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) {
            alarm(20); /* a child that waits for a mutex that is never unlocked */
            be_inert(c.sync, hold, NULL);
            redlock_hold_free(hold);
            redlock_sync_free(c.sync);
            if (i % 8 == 0) {
                redlock_sync *sync = NULL;
                CHECK(21, redlock_sync_new(c.servers.uri, 3, NULL, &sync) == REDLOCK_OK);
                CHECK(22, redlock_lock(sync, "own", 3, NULL, &hold) == REDLOCK_OK);
                CHECK(23, redlock_unlock(hold, REDLOCK_CONFIRM) == REDLOCK_OK);
                redlock_hold_free(hold);
                redlock_sync_free(sync);
            }
            _exit(0);
        }
        child_expect(child);
    }
    over = true;
    for (unsigned i = 0; i < BUSY; i++) {
        cr_assert_eq(worker_await(&worker[i]), REDLOCK_OK);
        worker_end(&worker[i]);
    }
    cr_assert_not(redlock_hold_lost(hold));
    redlock_hold_free(hold);
    sync_quorum_close(&c);
}

/*
 * A thread ends, and its list of holds is locked, when another one forks: the child's copy
 * of that list must not stay locked. The list is locked for as long as the client is busy.
 */
static sem_t locked, go;

static void *lock_and_end(void *arg)
{
    job_lock(arg);
    sem_post(&locked);
    sem_wait(&go);
    return NULL;
}

static void *fork_and_free(void *arg)
{
    struct worker *worker = arg;
    pid_t child = fork();
    if (child == 0) {
        alarm(5);
        redlock_hold_free(worker->hold);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    worker->turn = status == 0;
    return NULL;
}

Test(sync_fork, while_a_thread_ends)
{
    struct sync_quorum c;
    struct worker worker = {.key = "mine", .options = sync_quorum_lock_options()},
                  ending = worker;
    pthread_t thread[2];
    sync_quorum_open(&c, 3);
    worker.sync = ending.sync = c.sync;
    ending.key = "other";
    job_lock(&worker);
    cr_assert_eq(worker.code, REDLOCK_OK);
    sem_init(&locked, 0, 0);
    sem_init(&go, 0, 0);
    cr_assert_eq(pthread_create(&thread[0], NULL, lock_and_end, &ending), 0);
    sem_wait(&locked);
    sync_quorum_enter(c.sync);
    sem_post(&go);
    sync_quorum_run_for(20);
    cr_assert_eq(pthread_create(&thread[1], NULL, fork_and_free, &worker), 0);
    sync_quorum_run_for(20);
    sync_quorum_leave(c.sync);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(pthread_join(thread[i], NULL), 0);
    cr_assert_eq(worker.turn, 1, "the child hung");
    redlock_hold_free(worker.hold);
    redlock_hold_free(ending.hold);
    sync_quorum_close(&c);
}

/* The child of a leader returns from the flight, with the code of a fork. */
static int fly_and_fork(redlock_hold *hold, void *arg)
{
    pid_t *child = arg;
    *child = fork();
    if (*child == 0)
        CHECK(31, redlock_hold_lost(hold));
    return 5;
}

Test(sync_fork, in_single_flight)
{
    struct sync_quorum c;
    pid_t child = -1;
    int returned = 0;
    sync_quorum_open(&c, 3);
    redlock_code code = redlock_single_flight(c.sync, "job", 3, -1, NULL, fly_and_fork,
                                              &child, &returned, NULL);
    if (child == 0) {
        CHECK(32, code == REDLOCK_FORKED);
        CHECK(33, returned == 0);
        _exit(0);
    }
    cr_assert_gt(child, 0);
    child_expect(child);
    cr_assert_eq(code, REDLOCK_OK);
    cr_assert_eq(returned, 5);
    sync_quorum_close(&c);
}

/*
 * Forked by the client's own thread, in a callback: the child may free what it does not
 * own, and create a client there.
 */
struct forked {
    struct sync_quorum *sync_quorum;
    pid_t child;
    atomic_bool reported;
};

static void fork_there(redlock_hold *hold, redlock_code why, redlock_reason reason,
                       int64_t valid_ms, void *arg)
{
    (void)reason;
    struct forked *forked = arg;
    (void)why;
    (void)valid_ms;
    forked->child = fork();
    if (forked->child == 0) {
        redlock_sync *sync = NULL;
        redlock_hold *own = NULL;
        CHECK(41, redlock_unlock(hold, 0) == REDLOCK_FORKED);
        redlock_hold_free(hold);
        redlock_sync_free(forked->sync_quorum->sync);
        CHECK(42, redlock_sync_new(forked->sync_quorum->servers.uri, 3, NULL, &sync) ==
                      REDLOCK_OK);
        CHECK(43, redlock_lock(sync, "own", 3, NULL, &own) == REDLOCK_OK);
        CHECK(44, redlock_unlock(own, REDLOCK_CONFIRM) == REDLOCK_OK);
        redlock_hold_free(own);
        redlock_sync_free(sync);
        _exit(0);
    }
    forked->reported = true;
}

Test(sync_fork, in_a_callback)
{
    struct sync_quorum c;
    struct forked forked = {.sync_quorum = &c, .child = -1};
    redlock_hold *hold = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    options.on_lost = fork_there;
    options.lost_arg = &forked;
    options.max_hold_ms = 50;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(forked.reported);
    cr_assert_gt(forked.child, 0);
    child_expect(forked.child);
    redlock_hold_free(hold);
    sync_quorum_close(&c);
}

/*
 * A thread of the child that ends does not touch the holds that it had as a thread of the
 * parent. The kernel hands over the mutex when that thread has ended. Joining it would do,
 * but in glibc 2.43 a thread that has forked can no longer be joined in the child.
 */
static void *end_the_child(void *arg)
{
    _exit(pthread_mutex_lock(arg) == EOWNERDEAD ? 0 : 52);
}

static void *fork_and_end(void *arg)
{
    static pthread_t other;
    static pthread_mutex_t mine;
    struct worker *worker = arg;
    job_lock(worker);
    pid_t child = fork();
    if (child == 0) {
        pthread_mutexattr_t robust;
        pthread_mutexattr_init(&robust);
        pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&mine, &robust);
        pthread_mutex_lock(&mine);
        CHECK(51, pthread_create(&other, NULL, end_the_child, &mine) == 0);
        pthread_exit(NULL);
    }
    int status;
    worker->turn = waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                   WEXITSTATUS(status) == 0;
    job_unlock(worker);
    return NULL;
}

Test(sync_fork, thread_of_the_child_ends)
{
    struct sync_quorum c;
    struct worker worker = {.key = "job", .options = sync_quorum_lock_options()};
    pthread_t thread;
    sync_quorum_open(&c, 3);
    worker.sync = c.sync;
    cr_assert_eq(pthread_create(&thread, NULL, fork_and_end, &worker), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(worker.turn, 1);
    cr_assert_eq(worker.code, REDLOCK_OK);
    redlock_hold_free(worker.hold);
    sync_quorum_close(&c);
}
