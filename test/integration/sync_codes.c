/* The codes of each function that locks. A call that fails leaves its outputs unchanged. */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "refusal.h"
#include "worker_threads.h"

static struct sync_quorum c;
static redlock_lock_options options;

static unsigned connected(redlock_sync *sync)
{
    redlock_node node[SERVERS_MAX];
    size_t n = redlock_sync_explain(sync, node, SERVERS_MAX);
    unsigned count = 0;
    for (size_t i = 0; i < n; i++)
        count += node[i].verdict == REDLOCK_VERDICT_READY;
    return count;
}

static void open_quorum(void)
{
    sync_quorum_open(&c, 3);
    options = sync_quorum_lock_options();
    SYNC_QUORUM_UNTIL(connected(c.sync) == 3);
}

static void close_quorum(void)
{
    sync_quorum_close(&c);
}

TestSuite(sync_codes, .init = open_quorum, .fini = close_quorum);

static void expect_from(redlock_sync *sync, const char *key, enum sync_quorum_call first,
                        enum sync_quorum_call last, redlock_code expected)
{
    EACH_CALL (call, first, last) {
        redlock_code code = sync_quorum_fail(call, sync, key, &options);
        cr_assert_eq(code, expected, "call %d: %s, not %s", (int)call,
                     redlock_code_name(code), redlock_code_name(expected));
    }
}

static redlock_hold *hold_key(redlock_sync *sync, const char *key)
{
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock(sync, key, strlen(key), &options, &hold), REDLOCK_OK);
    return hold;
}

static bool names_a_quarantine(void)
{
    static const char words[] = "quarantined, for another ";
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, &options, &hold), REDLOCK_NO_QUORUM);
    const char *found = strstr(redlock_last_error()->text, words);
    cr_assert(!found || redlock_last_error()->reason == REDLOCK_REASON_QUARANTINED);
    return found && found[sizeof(words) - 1] >= '1' && found[sizeof(words) - 1] <= '9';
}

/* The text says that they are quarantined, and for how long. */
Test(sync_codes, of_nodes_that_restarted)
{
    redlock_hold *hold = hold_key(c.sync, "job");
    for (unsigned i = 0; i < 2; i++)
        servers_restart(&c.servers, i);
    SYNC_QUORUM_UNTIL(connected(c.sync) == 1 && redlock_hold_lost(hold));
    redlock_hold_free(hold);
    SYNC_QUORUM_UNTIL(names_a_quarantine());
}

Test(sync_codes, without_a_client)
{
    redlock_stop *stop = NULL;
    redlock_sync_observer *observer = NULL;
    expect_from(NULL, "job", CALL_LOCK, CALL_RELEASE, REDLOCK_CLOSED);
    cr_assert_eq(redlock_stop_new(NULL, &stop), REDLOCK_CLOSED);
    cr_assert_null(stop);
    cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_NULL_HANDLE);
    cr_assert_eq(redlock_sync_observe(NULL, "job", 3, on_sync_leader, NULL, &observer),
                 REDLOCK_CLOSED);
    cr_assert_null(observer);
}

/* A user that may use the key "job" only, and then none. */
Test(sync_codes, of_nodes_that_refuse)
{
    redlock_sync *sync = NULL;
    redlock_options client_options = sync_quorum_options();
    client_options.username = "app";
    client_options.password = "secret";
    servers_do_first(&c.servers, 3, "ACL SETUSER app on >secret ~job &* +@all");
    cr_assert_eq(redlock_sync_new(c.servers.uri, 3, &client_options, &sync), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(connected(sync) == 3);
    expect_from(sync, "other", CALL_LOCK, CALL_ADOPT, REDLOCK_DENIED);
    expect_from(sync, "other", CALL_RELEASE_MANY, CALL_RELEASE, REDLOCK_UNCONFIRMED);
    redlock_hold *hold = hold_key(sync, "job");
    servers_do_first(&c.servers, 3, "ACL SETUSER app resetkeys ~other");
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_DENIED);
    cr_assert_eq(redlock_hold_downgrade(hold), REDLOCK_DENIED);
    cr_assert_not(redlock_hold_lost(hold));
    redlock_hold_free(hold);
    redlock_sync_free(sync);
}

Test(sync_codes, of_too_few_nodes)
{
    redlock_hold *hold = hold_key(c.sync, "held");
    servers_kill_first(&c.servers, 2);
    SYNC_QUORUM_UNTIL(connected(c.sync) == 1);
    expect_from(c.sync, "job", CALL_TRY, CALL_ADOPT, REDLOCK_NO_QUORUM);
    expect_from(c.sync, "job", CALL_RELEASE_MANY, CALL_RELEASE, REDLOCK_UNCONFIRMED);
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_NO_QUORUM);
    cr_assert_eq(redlock_hold_downgrade(hold), REDLOCK_NO_QUORUM);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_UNCONFIRMED);
    redlock_hold_free(hold);
}

Test(sync_codes, of_a_stop)
{
    redlock_stop *stop = NULL;
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    redlock_stop_all(stop);
    options.stop = stop;
    expect_from(c.sync, "job", CALL_LOCK, CALL_ADOPT, REDLOCK_CANCELLED);
    redlock_stop_free(stop);
}

/* --- no random bits for a token --- */

static atomic_bool nothing_is_random;

/* Also for the library. */
ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    if (nothing_is_random) {
        errno = ENOSYS;
        return -1;
    }
    return syscall(SYS_getrandom, bytes, len, flags);
}

Test(sync_codes, of_a_system_without_random_bits)
{
    nothing_is_random = true;
    expect_from(c.sync, "job", CALL_LOCK, CALL_FLIGHT, REDLOCK_SYSTEM);
    nothing_is_random = false;
}

/* --- calls in other threads --- */

static void fail_to_try(struct worker *worker)
{
    worker->code = sync_quorum_fail(CALL_TRY, worker->sync, worker->key, &worker->options);
}

static void fail_to_lock(struct worker *worker)
{
    worker->code = sync_quorum_fail(CALL_FOR, worker->sync, worker->key, &worker->options);
}

static void fail_to_fly(struct worker *worker)
{
    worker->code =
        sync_quorum_fail(CALL_FLIGHT, worker->sync, worker->key, &worker->options);
}

#define LATE_MS 1000 /* beyond the last useful time: threads may begin late, too */

/* The nodes grant when less than min_validity_ms is left. */
Test(sync_codes, of_late_grants)
{
    static const char *const key[] = {"a", "b", "c"};
    static worker_job *const jobs[] = {fail_to_try, fail_to_lock, fail_to_fly};
    struct worker worker[3];
    options.ttl_ms = 3000;
    options.min_validity_ms = 2900;
    servers_stop_first(&c.servers, 3);
    for (unsigned i = 0; i < 3; i++) {
        worker_start(&worker[i], c.sync, key[i], &options);
        worker_do(&worker[i], jobs[i]);
        SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, key[i]) == 1);
    }
    sync_quorum_run_for(options.ttl_ms - options.min_validity_ms + LATE_MS);
    servers_cont_first(&c.servers, 3);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(worker_await(&worker[i]), REDLOCK_EXPIRED, "%u: %s", i,
                     redlock_code_name(worker[i].code));
        worker_end(&worker[i]);
    }
}

static sem_t began, go;

static void stay(redlock_hold *hold, redlock_code why, redlock_reason reason,
                 int64_t valid_ms, void *arg)
{
    (void)reason;
    (void)hold;
    (void)why;
    (void)valid_ms;
    (void)arg;
    sem_post(&began);
    while (sem_wait(&go) != 0)
        ;
}

static sem_t flying, land;

static int fly(redlock_hold *hold, void *arg)
{
    (void)hold;
    (void)arg;
    sem_post(&flying);
    while (sem_wait(&land) != 0)
        ;
    return 0;
}

static void lead(struct worker *worker)
{
    worker->code = redlock_single_flight(worker->sync, "flown", 5, REDLOCK_FOREVER, NULL,
                                         fly, NULL, NULL, NULL);
}

static void *free_client(void *sync)
{
    redlock_sync_free(sync);
    return NULL;
}

/* Also a single flight that another thread leads. */
Test(sync_codes, of_a_client_that_is_being_freed)
{
    pthread_t thread;
    struct worker leader;
    redlock_stop *stop = NULL;
    redlock_code code[CALL_RELEASE + 5];
    sem_init(&began, 0, 0);
    sem_init(&go, 0, 0);
    sem_init(&flying, 0, 0);
    sem_init(&land, 0, 0);
    worker_start(&leader, c.sync, "flown", NULL);
    worker_do(&leader, lead);
    while (sem_wait(&flying) != 0)
        ;
    options.on_lost = stay;
    redlock_hold *hold = hold_key(c.sync, "held");
    cr_assert_eq(pthread_create(&thread, NULL, free_client, c.sync), 0);
    while (sem_wait(&began) != 0)
        ;
    EACH_CALL (call, CALL_LOCK, CALL_RELEASE)
        code[call] = sync_quorum_fail(call, c.sync, "job", &options);
    code[CALL_RELEASE + 1] = sync_quorum_fail(CALL_FLIGHT, c.sync, "flown", &options);
    code[CALL_RELEASE + 2] = redlock_stop_new(c.sync, &stop);
    code[CALL_RELEASE + 3] = redlock_hold_extend(hold, 0);
    code[CALL_RELEASE + 4] = redlock_hold_downgrade(hold);
    sem_post(&land);
    worker_end(&leader);
    sem_post(&go);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    c.sync = NULL;
    for (size_t i = 0; i < CALL_RELEASE + 5; i++)
        cr_assert_eq(code[i], REDLOCK_CLOSED, "%zu: %s", i, redlock_code_name(code[i]));
    cr_assert_null(stop);
    cr_assert_eq(leader.code, REDLOCK_OK);
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_CLOSED);
    redlock_hold_free(hold);
}

/* --- the stack of a call --- */

#define STACK       (1 << 20)
#define STACK_USED  (64 << 10)
#define STACK_PAINT 0xa5

static void *use_stack(void *arg)
{
    redlock_hold *hold = NULL;
    (void)arg;
    for (unsigned i = 0; i < 50; i++) { /* soon the thread runs the loop by itself */
        if (redlock_lock(c.sync, "job", 3, &options, &hold) != REDLOCK_OK ||
            redlock_hold_extend(hold, 0) != REDLOCK_OK ||
            redlock_unlock(hold, i % 2 ? REDLOCK_CONFIRM : 0) != REDLOCK_OK)
            return arg;
        redlock_hold_free(hold);
    }
    EACH_CALL (call, CALL_ADOPT_MANY, CALL_RELEASE)
        if (sync_quorum_fail(call, c.sync, "job", &options) != REDLOCK_GONE)
            return arg;
    return NULL;
}

/* The header's bound. Sanitizers use more. */
Test(sync_codes, calls_use_little_stack)
{
    pthread_attr_t attr;
    pthread_t thread;
    void *failed;
    redlock_failure failure;
    redlock_failure_init(&failure);
    options.failure = &failure;
    unsigned char *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(stack, MAP_FAILED);
    memset(stack, STACK_PAINT, STACK);
    pthread_attr_init(&attr);
    cr_assert_eq(pthread_attr_setstack(&attr, stack, STACK), 0);
    cr_assert_eq(pthread_create(&thread, &attr, use_stack, &c), 0);
    cr_assert_eq(pthread_join(thread, &failed), 0);
    cr_assert_null(failed);
    /* Nobody writes there any more; valgrind lets us read there only now. */
    cr_assert_eq(mprotect(stack, STACK, PROT_READ), 0);
    size_t unused = 0;
    while (unused < STACK && stack[unused] == STACK_PAINT)
        unused++;
#ifndef __SANITIZE_ADDRESS__
    cr_assert_leq(STACK - unused, STACK_USED, "%zu bytes", STACK - unused);
#endif
    pthread_attr_destroy(&attr);
    munmap(stack, STACK);
}
