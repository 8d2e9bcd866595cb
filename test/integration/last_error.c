/*
 * redlock_last_error(): each function that returns a code fails with each code that it
 * returns at once, whatever its arguments. Arguments: refused.c.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

#include "alloc_faults.h"
#include "child.h"
#include "failing_call.h"
#include "quorum.h"
#include "refusal.h"

static struct {
    struct event_base *base;
    redlock_client *client;
    redlock_lease *lease; /* held */
} alone;

static void note_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)lease;
    (void)result;
    *(bool *)arg = true;
}

#define TOKEN "pabcdefghijklmnopqrstuvwxyz234567"

static redlock_lease *hold_by_token(const char *key, const char *token, int64_t valid_ms,
                                    bool *ret_lost)
{
    redlock_lease *lease = NULL;
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.on_lost = ret_lost ? note_lost : NULL;
    options.lost_arg = ret_lost;
    SUCCEEDS(
        redlock_adopt(alone.client, key, strlen(key), token, valid_ms, &options, &lease));
    return lease;
}

/* The node is down. */
static void open_alone(void)
{
    static const char *const uri[] = {"unix:///tmp/redlock-test-nothing.sock"};
    redlock_options options;
    redlock_options_init(&options);
    options.max_ttl_ms = 60000;
    alone.base = event_base_new();
    SUCCEEDS(redlock_client_new(alone.base, uri, 1, &options, &alone.client));
    alone.lease = hold_by_token("held", TOKEN, 60000, NULL);
}

static void close_alone(void)
{
    redlock_lease_free(alone.lease);
    redlock_client_free(alone.client);
    event_base_free(alone.base);
}

/* --- codes that every function returns --- */

static redlock_lease *made;

static redlock_code observe(void)
{
    redlock_observer *observer = NULL;
    redlock_code code = redlock_observe(alone.client, "job", 3, on_leader, NULL, &observer);
    redlock_observer_free(observer);
    return code;
}

#define OF_CLIENT(X)                                                                       \
    X(drain, redlock_client_drain(alone.client, 0, on_drained, NULL))                      \
    X(acquire, redlock_acquire(alone.client, "job", 3, NULL, NULL, NULL, &made))           \
    X(adopt, redlock_adopt(alone.client, "job", 3, "token", 0, NULL, &made))               \
    X(inspect, redlock_inspect(alone.client, "job", 3, on_inspected, NULL))                \
    X(break_lock, redlock_break(alone.client, "job", 3, NULL, NULL))                       \
    X(check, redlock_check(alone.client, 0, on_checked, NULL))                             \
    X(admit, redlock_admit(alone.client, REDLOCK_ADMIT_READMIT, 0, NULL, NULL))            \
    X(list, redlock_list(alone.client, "job", 3, 0, on_listed, NULL))                      \
    X(hold_time, redlock_hold_time(alone.client, "job", 3, on_hold_time, NULL))            \
    X(note_hold_time, redlock_note_hold_time(alone.client, "job", 3, 1))
#define WITHOUT_MEMORY(X) X(watch_members, redlock_client_watch_members(alone.client))
#define OF_LEASE(X)                                                                        \
    X(extend, redlock_extend(alone.lease, 0, NULL, NULL))                                  \
    X(downgrade, redlock_downgrade(alone.lease, NULL, NULL))                               \
    X(release, redlock_release(alone.lease, NULL, NULL))

OF_CLIENT(CALL)
WITHOUT_MEMORY(CALL)
OF_LEASE(CALL)
static const struct call of_client[] = {OF_CLIENT(CALL_ROW){"observe", observe}};
static const struct call without_memory[] = {WITHOUT_MEMORY(CALL_ROW)};
static const struct call of_lease[] = {OF_LEASE(CALL_ROW)};

Test(last_error, of_a_null_handle)
{
    cr_assert(ALL_FAIL_FOR(of_client, CLOSED, NULL_HANDLE));
    cr_assert(ALL_FAIL_FOR(without_memory, CLOSED, NULL_HANDLE));
    cr_assert(ALL_FAIL_FOR(of_lease, CLOSED, NULL_HANDLE));
}

static void on_freed(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    (void)clean;
    *(bool *)arg = ALL_FAIL_FOR(of_client, CLOSED, CLIENT_FREED) &&
                   ALL_FAIL_FOR(without_memory, CLOSED, CLIENT_FREED) &&
                   ALL_FAIL_FOR(of_lease, CLOSED, CLIENT_FREED);
}

Test(last_error, of_a_freed_client)
{
    bool as_expected = false;
    open_alone();
    SUCCEEDS(redlock_client_drain(alone.client, REDLOCK_FOREVER, on_freed, &as_expected));
    redlock_client_free(alone.client);
    alone.client = NULL;
    cr_assert(as_expected);
    cr_assert(ALL_FAIL_FOR(of_lease, CLOSED, CLIENT_FREED));
    close_alone();
}

Test(last_error, of_a_forked_child)
{
    open_alone();
    pid_t child = fork();
    if (child == 0)
        _exit(!ALL_FAIL_BY_CODE(of_client, FORKED) || !ALL_FAIL_BY_CODE(of_lease, FORKED) ||
              !ALL_FAIL_BY_CODE(without_memory, FORKED));
    child_expect(child);
    close_alone();
}

Test(last_error, of_no_memory)
{
    redlock_client *none;
    const char *const uri[] = {"unix:///tmp/redlock-test-nothing.sock"};
    open_alone();
    alloc_faults_begin(0, SIZE_MAX);
    alloc_faults_enter();
    bool as_expected =
        ALL_FAIL_BY_CODE(of_client, NO_MEMORY) && downgrade() == REDLOCK_NO_MEMORY;
    redlock_code code = redlock_client_new(alone.base, uri, 1, NULL, &none);
    alloc_faults_leave();
    alloc_faults_end();
    cr_assert(as_expected);
    FAILS(code, NO_MEMORY, redlock_code_text(REDLOCK_NO_MEMORY));
    close_alone();
}

static redlock_client *another;

static redlock_code make_another(void)
{
    return redlock_client_new(alone.base, &(const char *){"unix:///tmp/nothing.sock"}, 1,
                              NULL, &another);
}

static void free_another(void)
{
    redlock_client_free(another);
}

static void free_made(void)
{
    redlock_lease_free(made);
    made = NULL;
}

Test(last_error, of_each_allocation)
{
    open_alone();
    for (size_t i = 0; i < sizeof(of_client) / sizeof(of_client[0]); i++)
        fail_each_allocation(&of_client[i], free_made);
    fail_each_allocation(&(struct call){"client_new", make_another}, free_another);
    close_alone();
}

/* --- codes of one function --- */

Test(last_error, of_a_drain)
{
    open_alone();
    SUCCEEDS(redlock_client_drain(alone.client, REDLOCK_FOREVER, on_drained, NULL));
    FAILS(drain(), BUSY, "another drain of this client is running");
    close_alone();
}

Test(last_error, of_extending_and_releasing)
{
    open_alone();
    SUCCEEDS(extend());
    FAILS(extend(), BUSY, "another extension of this lease is running");
    cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_RUNNING);
    SUCCEEDS(release());
    cr_assert(ALL_FAIL_FOR(of_lease, NOT_HELD, RELEASED));
    close_alone();
}

Test(last_error, of_a_lease_that_is_not_held)
{
    bool lost = false;
    open_alone();
    redlock_lease_free(alone.lease);
    SUCCEEDS(redlock_acquire(alone.client, "job", 3, NULL, NULL, NULL, &alone.lease));
    cr_assert(ALL_FAIL_FOR(of_lease, NOT_HELD, ACQUIRING));
    redlock_lease_free(alone.lease);
    alone.lease = hold_by_token("job", TOKEN, 60000, NULL);
    redlock_disown(alone.lease);
    cr_assert(ALL_FAIL_FOR(of_lease, NOT_HELD, DISOWNED));
    redlock_lease_free(alone.lease);
    alone.lease = hold_by_token("job", TOKEN, 1, &lost);
    LOOP_UNTIL(alone.base, lost);
    FAILS_FOR(extend(), NOT_HELD, LOST);
    close_alone();
}

Test(last_error, of_an_admission)
{
    open_alone();
    SUCCEEDS(admit());
    FAILS(admit(), BUSY, "another admission of this client is running");
    close_alone();
}

static void *fail_otherwise(void *arg)
{
    (void)arg;
    bool was_empty = redlock_last_error()->code == REDLOCK_OK;
    return was_empty && ALL_FAIL_FOR(of_lease, CLOSED, NULL_HANDLE) ? &made : NULL;
}

Test(last_error, of_each_thread)
{
    pthread_t thread;
    void *as_expected;
    cr_assert_eq(redlock_last_error()->code, REDLOCK_OK);
    FAILS_FOR(drain(), CLOSED, NULL_HANDLE);
    pthread_create(&thread, NULL, fail_otherwise, NULL);
    pthread_join(thread, &as_expected);
    cr_assert_not_null(as_expected);
    cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_NULL_HANDLE);
}
