/* redlock_last_error() of the functions for threads: as last_error.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "alloc_faults.h"
#include "child.h"
#include "failing_call.h"
#include "quorum.h"
#include "refusal.h"

static struct {
    struct quorum quorum;
    redlock_sync *sync;
    redlock_hold *hold, *none;
    redlock_stop *stop;
    bool as_expected;
} threads;

static int do_nothing(redlock_hold *hold, void *arg)
{
    (void)hold;
    (void)arg;
    return 0;
}

static redlock_code observe(void)
{
    redlock_sync_observer *observer = NULL;
    redlock_code code =
        redlock_sync_observe(threads.sync, "job", 3, on_sync_leader, NULL, &observer);
    redlock_sync_observer_free(observer);
    return code;
}

#define OF_THREADS(X)                                                                      \
    X(lock, redlock_lock(threads.sync, "job", 3, NULL, &threads.none))                     \
    X(try_lock, redlock_try_lock(threads.sync, "job", 3, NULL, &threads.none))             \
    X(lock_for, redlock_lock_for(threads.sync, "job", 3, 10, NULL, &threads.none))         \
    X(lock_adopt,                                                                          \
      redlock_lock_adopt(threads.sync, "job", 3, "token", 0, NULL, &threads.none))         \
    X(lock_release, redlock_lock_release(threads.sync, "job", 3, "token"))                 \
    X(single_flight, redlock_single_flight(threads.sync, "job", 3, 10, NULL, do_nothing,   \
                                           NULL, NULL, NULL))
#define OF_HOLD(X)                                                                         \
    X(hold_extend, redlock_hold_extend(threads.hold, 0))                                   \
    X(hold_downgrade, redlock_hold_downgrade(threads.hold))                                \
    X(unlock, redlock_unlock(threads.hold, REDLOCK_CONFIRM))
#define OF_STOP(X) X(stop_new, redlock_stop_new(threads.sync, &threads.stop))

OF_THREADS(CALL)
OF_HOLD(CALL)
OF_STOP(CALL)
static const struct call of_threads[] = {OF_THREADS(CALL_ROW){"observe", observe}};
static const struct call of_hold[] = {OF_HOLD(CALL_ROW)};
static const struct call of_stop[] = {OF_STOP(CALL_ROW)};

static void fail_in_callback(redlock_hold *hold, redlock_code why, redlock_reason reason,
                             int64_t valid_ms, void *arg)
{
    (void)reason;
    (void)hold;
    (void)why;
    (void)valid_ms;
    (void)arg;
    threads.as_expected = ALL_FAIL_FOR(of_threads, WOULD_DEADLOCK, IN_CALLBACK) &&
                          ALL_FAIL_FOR(of_hold, WOULD_DEADLOCK, IN_CALLBACK) &&
                          ALL_FAIL_FOR(of_stop, CLOSED, CLIENT_FREED);
}

static void open_threads(redlock_lost_fn *on_lost)
{
    redlock_options options = quorum_options();
    redlock_lock_options lock_options;
    redlock_lock_options_init(&lock_options);
    lock_options.ttl_ms = 60000;
    lock_options.on_lost = on_lost;
    options.max_ttl_ms = 60000;
    quorum_open(&threads.quorum, 1);
    SUCCEEDS(redlock_sync_new(threads.quorum.servers.uri, 1, &options, &threads.sync));
    SUCCEEDS(redlock_lock(threads.sync, "held", 4, &lock_options, &threads.hold));
}

static void close_threads(void)
{
    redlock_hold_free(threads.hold);
    redlock_sync_free(threads.sync);
    quorum_close(&threads.quorum);
}

Test(last_error_sync, in_a_forked_child)
{
    open_threads(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(!ALL_FAIL_BY_CODE(of_threads, FORKED) || !ALL_FAIL_BY_CODE(of_hold, FORKED) ||
              !ALL_FAIL_BY_CODE(of_stop, FORKED));
    child_expect(child);
    close_threads();
}

Test(last_error_sync, in_a_callback_and_after)
{
    open_threads(fail_in_callback);
    redlock_sync_free(threads.sync);
    threads.sync = NULL;
    cr_assert(threads.as_expected);
    cr_assert(ALL_FAIL_FOR(of_hold, CLOSED, CLIENT_FREED));
    cr_assert(ALL_FAIL_FOR(of_hold, NOT_HELD, RELEASED));
    close_threads();
}

/* Without memory a lock is refused, by the calling thread or by the loop owner. */
Test(last_error_sync, without_memory)
{
    const char *const uri[] = {"unix:///tmp/redlock-test-nothing.sock"};
    redlock_sync *none;
    open_threads(NULL);
    alloc_faults_begin(0, SIZE_MAX);
    alloc_faults_enter();
    bool as_expected =
        ALL_FAIL_BY_CODE(of_threads, NO_MEMORY) && ALL_FAIL_BY_CODE(of_stop, NO_MEMORY);
    redlock_code code = redlock_sync_new(uri, 1, NULL, &none);
    alloc_faults_leave();
    alloc_faults_end();
    cr_assert(as_expected);
    cr_assert_eq(code, REDLOCK_NO_MEMORY);
    close_threads();
}

Test(last_error_sync, of_a_hold)
{
    open_threads(NULL);
    FAILS_FOR(redlock_unlock(NULL, 0), NOT_HELD, NULL_HANDLE);
    FAILS_FOR(redlock_hold_extend(NULL, 0), NOT_HELD, NULL_HANDLE);
    FAILS(redlock_unlock(threads.hold, 3), BAD_OPTION, "how is 3, and must be at most 2");
    FAILS(redlock_hold_extend(threads.hold, -1), BAD_TTL,
          "ttl_ms is -1, and must be at least 1");
    FAILS(redlock_hold_extend(threads.hold, 60001), BAD_TTL,
          "ttl_ms is 60001, and must be at most 60000: the TTL is longer than the "
          "client's longest TTL");
    cr_assert_not(redlock_hold_lost(threads.hold));
    close_threads();
}

static int fly_again(redlock_hold *hold, void *arg)
{
    (void)hold;
    *(bool *)arg = fails("single_flight", single_flight(), REDLOCK_BUSY,
                         "this thread does the work of the key already") &&
                   redlock_last_error()->reason == REDLOCK_REASON_RECURSION;
    return 0;
}

Test(last_error_sync, of_a_flight_inside_itself)
{
    bool as_expected = false;
    open_threads(NULL);
    SUCCEEDS(redlock_single_flight(threads.sync, "job", 3, -1, NULL, fly_again,
                                   &as_expected, NULL, NULL));
    cr_assert(as_expected);
    close_threads();
}

/* The owner is named, also to a caller that passes no redlock_failure. */
Test(last_error_sync, of_a_lock_that_is_taken)
{
    open_threads(NULL);
    cr_assert_eq(redlock_try_lock(threads.sync, "held", 4, NULL, &threads.none),
                 REDLOCK_TAKEN);
    cr_assert(strstr(redlock_last_error()->text,
                     "a thread of this process has the lock for another "));
    cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_THREAD);
    cr_assert_eq(redlock_lock_for(threads.sync, "held", 4, 1, NULL, &threads.none),
                 REDLOCK_TIMEOUT);
    cr_assert(strstr(redlock_last_error()->text,
                     "a thread of this process has the lock for another "));
    servers_do(&threads.quorum.servers, 0, "SET job other");
    FAILS(try_lock(), TAKEN, "other has the lock");
    FAILS(lock_for(), TIMEOUT, "other has the lock");
    servers_do(&threads.quorum.servers, 0, "SET held other");
    const char *taken = redlock_code_text(REDLOCK_TAKEN);
    FAILS(hold_extend(), TAKEN, "other has the lock");
    FAILS(hold_extend(), TAKEN, taken);
    FAILS(unlock(), TAKEN, taken);
    close_threads();
}

#define FAILS_WITH_NODE(call, want, start)                                                 \
    do {                                                                                   \
        cr_assert_eq(call, REDLOCK_##want);                                                \
        const char *text = redlock_last_error()->text;                                     \
        cr_assert_eq(redlock_last_error()->code, REDLOCK_##want);                          \
        cr_assert_eq(strncmp(text, start, strlen(start)), 0, "%s", text);                  \
        text += strlen(start);                                                             \
        cr_assert_eq(strncmp(text, uri, strlen(uri)), 0, "%s", text);                      \
        cr_assert_eq(strncmp(text + strlen(uri), ": ", 2), 0, "%s", text);                 \
    } while (0)

/* Each node that failed is named, and why: of an acquire, an extension and a release. */
Test(last_error_sync, of_too_few_nodes)
{
    open_threads(NULL);
    const char *uri = threads.quorum.servers.uri[0];
    servers_kill(&threads.quorum.servers, 0);
    FAILS_WITH_NODE(try_lock(), NO_QUORUM, "1 of 1 nodes failed: ");
    FAILS_WITH_NODE(hold_extend(), NO_QUORUM, "1 of 1 nodes failed: ");
    const char *unconfirmed = "too few nodes confirmed the release: 1 of 1 nodes failed: ";
    FAILS_WITH_NODE(lock_release(), UNCONFIRMED, unconfirmed);
    FAILS_WITH_NODE(redlock_unlock(threads.hold, REDLOCK_CONFIRM), UNCONFIRMED,
                    unconfirmed);
    close_threads();
}

static void *wait_for_job(void *arg)
{
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.stop = threads.stop;
    (void)arg;
    FAILS_FOR(redlock_lock(threads.sync, "job", 3, &options, &threads.none), CANCELLED,
              BY_CALLER);
    return NULL;
}

Test(last_error_sync, of_a_lock_that_a_thread_waits_for)
{
    pthread_t thread;
    open_threads(NULL);
    servers_do(&threads.quorum.servers, 0, "SET job other");
    SUCCEEDS(stop_new());
    pthread_create(&thread, NULL, wait_for_job, NULL);
    do
        cr_assert_eq(try_lock(), REDLOCK_TAKEN);
    while (strcmp(redlock_last_error()->text, "other has the lock") == 0);
    cr_assert_str_eq(redlock_last_error()->text,
                     "a thread of this process waits for the lock");
    redlock_stop_all(threads.stop);
    pthread_join(thread, NULL);
    redlock_stop_free(threads.stop);
    close_threads();
}

static void *lock_and_end(void *arg)
{
    SUCCEEDS(redlock_lock(threads.sync, "job", 3, NULL, (redlock_hold **)arg));
    return NULL;
}

Test(last_error_sync, of_a_thread_that_has_ended)
{
    pthread_t thread;
    redlock_hold *hold = NULL;
    open_threads(NULL);
    pthread_create(&thread, NULL, lock_and_end, &hold);
    pthread_join(thread, NULL);
    FAILS_FOR(redlock_hold_extend(hold, 0), NOT_HELD, THREAD_ENDED);
    FAILS_FOR(redlock_unlock(hold, 0), NOT_HELD, THREAD_ENDED);
    redlock_hold_free(hold);
    close_threads();
}

static atomic_int extended;

static void *extend_held(void *arg)
{
    *(bool *)arg = fails("hold_extend", hold_extend(), REDLOCK_BUSY,
                         "another thread is extending this lock");
    extended++;
    return NULL;
}

/* The node is stopped: of two threads, the second is refused while the first waits. */
Test(last_error_sync, of_two_extensions_at_once)
{
    pthread_t thread[2];
    bool busy[2];
    open_threads(NULL);
    servers_stop(&threads.quorum.servers, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, extend_held, &busy[i]);
    LOOP_UNTIL(threads.quorum.base, extended == 1);
    servers_cont(&threads.quorum.servers, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    cr_assert_neq(busy[0], busy[1]);
    close_threads();
}

static void free_none(void)
{
    redlock_hold_free(threads.none);
}

static void free_stop(void)
{
    redlock_stop_free(threads.stop);
}

Test(last_error_sync, of_each_allocation)
{
    open_threads(NULL);
    fail_each_allocation(&(struct call){"try_lock", try_lock}, free_none);
    fail_each_allocation(&of_stop[0], free_stop);
    close_threads();
}
