/*
 * redlock_last_error(): each function that returns a code fails with each code that it
 * returns at once, and the text names what is wrong.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "alloc_faults.h"
#include "child.h"
#include "quorum.h"
#include "redlock/sync.h"

#define CALLBACK_IS_NULL "callback is NULL, and must be a function"

/* Also for a child process and for callbacks, which have no test framework. */
static bool fails(const char *call, redlock_code code, redlock_code expected,
                  const char *text)
{
    const redlock_error *error = redlock_last_error();
    if (code == expected && error->code == expected && strcmp(error->text, text) == 0)
        return true;
    fprintf(stderr, "%s: %s, last error %s: %s\n", call, redlock_code_name(code),
            redlock_code_name(error->code), error->text);
    return false;
}

#define FAILS(call, code, text) cr_assert(fails(#call, call, REDLOCK_##code, text))
#define SUCCEEDS(call)          cr_assert_eq(call, REDLOCK_OK, "%s", redlock_last_error()->text)

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

static redlock_lease *hold_by_token(const char *key, int64_t valid_ms, bool *ret_lost)
{
    redlock_lease *lease = NULL;
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.on_lost = ret_lost ? note_lost : NULL;
    options.lost_arg = ret_lost;
    SUCCEEDS(
        redlock_adopt(alone.client, key, strlen(key), "token", valid_ms, &options, &lease));
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
    SUCCEEDS(redlock_client_new(alone.base, uri, 1, &options, &alone.client, NULL));
    alone.lease = hold_by_token("held", 60000, NULL);
}

static void close_alone(void)
{
    redlock_lease_free(alone.lease);
    redlock_client_free(alone.client);
    event_base_free(alone.base);
}

static void on_drained(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    (void)clean;
    (void)arg;
}

static void on_inspected(redlock_client *client, const redlock_inspection *inspection,
                         void *arg)
{
    (void)client;
    (void)inspection;
    (void)arg;
}

static void on_checked(redlock_client *client, const redlock_health_report *report,
                       void *arg)
{
    (void)client;
    (void)report;
    (void)arg;
}

/* --- codes that every function returns --- */

static redlock_lease *made;

static redlock_code drain(void)
{
    return redlock_client_drain(alone.client, 0, on_drained, NULL);
}

static redlock_code acquire(void)
{
    return redlock_acquire(alone.client, "job", 3, NULL, NULL, NULL, &made);
}

static redlock_code adopt(void)
{
    return redlock_adopt(alone.client, "job", 3, "token", 0, NULL, &made);
}

static redlock_code inspect(void)
{
    return redlock_inspect(alone.client, "job", 3, on_inspected, NULL);
}

static redlock_code break_lock(void)
{
    return redlock_break(alone.client, "job", 3, NULL, NULL);
}

static redlock_code check(void)
{
    return redlock_check(alone.client, 0, on_checked, NULL);
}

static redlock_code admit(void)
{
    return redlock_admit(alone.client, REDLOCK_ADMIT_WAIT, 0, NULL, NULL);
}

static redlock_code extend(void)
{
    return redlock_extend(alone.lease, 0, NULL, NULL);
}

static redlock_code release(void)
{
    return redlock_release(alone.lease, NULL, NULL);
}

struct call {
    const char *name;
    redlock_code (*call)(void);
};

static const struct call of_client[] = {
    {"drain", drain},      {"acquire", acquire}, {"adopt", adopt}, {"inspect", inspect},
    {"break", break_lock}, {"check", check},     {"admit", admit},
};
static const struct call of_lease[] = {{"extend", extend}, {"release", release}};

static bool all_fail(const struct call *call, size_t count, redlock_code code,
                     const char *text)
{
    bool all = true;
    for (size_t i = 0; i < count; i++)
        all &= fails(call[i].name, call[i].call(), code, text);
    return all;
}

#define ALL_FAIL(calls, code, text)                                                        \
    all_fail(calls, sizeof(calls) / sizeof((calls)[0]), REDLOCK_##code, text)
#define ALL_FAIL_BY_CODE(calls, code)                                                      \
    ALL_FAIL(calls, code, redlock_code_text(REDLOCK_##code))

Test(last_error, of_a_null_handle)
{
    cr_assert(ALL_FAIL(of_client, CLOSED, "the client is NULL"));
    cr_assert(ALL_FAIL(of_lease, CLOSED, "the lease is NULL"));
}

static void on_freed(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    (void)clean;
    *(bool *)arg =
        ALL_FAIL_BY_CODE(of_client, CLOSED) && ALL_FAIL_BY_CODE(of_lease, CLOSED);
}

Test(last_error, of_a_freed_client)
{
    bool as_expected = false;
    open_alone();
    SUCCEEDS(redlock_client_drain(alone.client, REDLOCK_FOREVER, on_freed, &as_expected));
    redlock_client_free(alone.client);
    alone.client = NULL;
    cr_assert(as_expected);
    cr_assert(ALL_FAIL_BY_CODE(of_lease, CLOSED));
    close_alone();
}

Test(last_error, of_a_forked_child)
{
    open_alone();
    pid_t child = fork();
    if (child == 0)
        _exit(!ALL_FAIL_BY_CODE(of_client, FORKED) || !ALL_FAIL_BY_CODE(of_lease, FORKED));
    child_expect(child);
    close_alone();
}

Test(last_error, of_no_memory)
{
    redlock_error error;
    redlock_client *none;
    const char *const uri[] = {"unix:///tmp/redlock-test-nothing.sock"};
    open_alone();
    alloc_faults_begin(0, SIZE_MAX);
    alloc_faults_enter();
    bool as_expected = ALL_FAIL_BY_CODE(of_client, NO_MEMORY);
    redlock_code code = redlock_client_new(alone.base, uri, 1, NULL, &none, &error);
    alloc_faults_leave();
    alloc_faults_end();
    cr_assert(as_expected);
    FAILS(code, NO_MEMORY, redlock_code_text(REDLOCK_NO_MEMORY));
    cr_assert_str_eq(error.text, redlock_last_error()->text);
    close_alone();
}

/* One allocation after the other fails; ends when the call needed no further one. */
static void fail_each_allocation(const char *name, redlock_code (*call)(void),
                                 void (*undo)(void))
{
    bool failed = true;
    for (size_t after = 0; failed; after++) {
        alloc_faults_begin(after, 1);
        alloc_faults_enter();
        redlock_code code = call();
        alloc_faults_leave();
        failed = alloc_faults_end();
        if (code == REDLOCK_OK)
            undo();
        else if (code == REDLOCK_SYSTEM) /* libevent had no memory for the timer */
            cr_assert(strstr(redlock_last_error()->text, strerror(ENOMEM)));
        else
            cr_assert(
                fails(name, code, REDLOCK_NO_MEMORY, redlock_code_text(REDLOCK_NO_MEMORY)));
    }
}

static redlock_client *another;

static redlock_code make_another(void)
{
    return redlock_client_new(alone.base, &(const char *){"unix:///tmp/nothing.sock"}, 1,
                              NULL, &another, NULL);
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
        fail_each_allocation(of_client[i].name, of_client[i].call, free_made);
    fail_each_allocation("client_new", make_another, free_another);
    close_alone();
}

/* --- codes of one function --- */

static redlock_code make_client(const char *first, const char *second)
{
    redlock_client *none = NULL;
    const char *const uris[] = {first, second};
    size_t count = first ? 1 + (second != NULL) : 0;
    return redlock_client_new(alone.base, uris, count, NULL, &none, NULL);
}

Test(last_error, of_making_a_client)
{
    const char *const uris[REDLOCK_NODES_MAX + 1] = {NULL};
    redlock_client *none = NULL;
    open_alone();
    FAILS(make_client(NULL, NULL), BAD_NODES, "no node is configured");
    FAILS(redlock_client_new(alone.base, uris, REDLOCK_NODES_MAX + 1, NULL, &none, NULL),
          BAD_NODES, "33 nodes are more than 32");
    FAILS(make_client("host:1", NULL), BAD_URI,
          "node 1: the URI has no scheme: did you mean redis://host:1?");
    FAILS(make_client("redis://a:b", NULL), BAD_URI,
          "node 1: the URI is malformed: it is not redis://host[:port] or unix:///path");
    FAILS(make_client("redis://a", "redis://a:6379"), DUPLICATE_NODE,
          "nodes 1 and 2 are the same: redis://a:6379");
    FAILS(make_client("rediss://a", NULL), UNSUPPORTED,
          "node 1: rediss:// is not built in yet");
    close_alone();
}

static redlock_code make_client_with(redlock_options options)
{
    redlock_client *none = NULL;
    return redlock_client_new(alone.base, &(const char *){"redis://a"}, 1, &options, &none,
                              NULL);
}

#define FAILS_TO_MAKE(text, ...)                                                           \
    do {                                                                                   \
        redlock_options options;                                                           \
        redlock_options_init(&options);                                                    \
        __VA_ARGS__;                                                                       \
        FAILS(make_client_with(options), BAD_OPTION, text);                                \
    } while (0)

Test(last_error, of_client_options)
{
    static char prefix[REDLOCK_KEY_MAX + 1];
    memset(prefix, 'p', REDLOCK_KEY_MAX);
    open_alone();
    FAILS_TO_MAKE("size is not set: make the options by redlock_options_init()",
                  options.size = 0);
    FAILS_TO_MAKE("quorum is 2, and must be from 1 to 1", options.quorum = 2);
    FAILS_TO_MAKE("node_timeout_ms is -1, and must be from 0 to 31622400000",
                  options.node_timeout_ms = -1);
    FAILS_TO_MAKE("connect_timeout_ms is 0, and must be from 1 to 31622400000",
                  options.connect_timeout_ms = 0);
    FAILS_TO_MAKE("drift_ppm is 500001, and must be from 0 to 500000",
                  options.drift_ppm = 500001);
    FAILS_TO_MAKE("max_ttl_ms is 86400001, and must be from 0 to 86400000",
                  options.max_ttl_ms = REDLOCK_TTL_MAX_MS + 1);
    FAILS_TO_MAKE(
        "label has 3 bytes, and must be one word of at most 64 bytes of "
        "printable ASCII",
        options.label = "a b");
    FAILS_TO_MAKE("prefix has 512 bytes, and must have less than 512",
                  options.prefix = prefix);
    close_alone();
}

Test(last_error, of_a_drain)
{
    open_alone();
    FAILS(redlock_client_drain(alone.client, 0, NULL, NULL), BAD_OPTION, CALLBACK_IS_NULL);
    FAILS(redlock_client_drain(alone.client, -3, on_drained, NULL), BAD_OPTION,
          "timeout_ms is -3, and must be at least -2");
    SUCCEEDS(redlock_client_drain(alone.client, REDLOCK_FOREVER, on_drained, NULL));
    FAILS(drain(), BUSY, "another drain of this client is running");
    close_alone();
}

static redlock_code adopt_with(const char *token, int64_t valid_ms)
{
    return redlock_adopt(alone.client, "job", 3, token, valid_ms, NULL, &made);
}

/* Keys and options: test/integration/lease_input.c. */
Test(last_error, of_adopting)
{
    char token[REDLOCK_TOKEN_MAX + 2] = "";
    open_alone();
    FAILS(adopt_with(NULL, 0), BAD_TOKEN,
          "the token has 0 bytes, and must have from 1 to 128");
    memset(token, 't', REDLOCK_TOKEN_MAX + 1);
    FAILS(adopt_with(token, 0), BAD_TOKEN,
          "the token has 129 bytes, and must have from 1 to 128");
    FAILS(adopt_with("token", -2), BAD_OPTION, "valid_ms is -2, and must be at least -1");
    close_alone();
}

Test(last_error, of_extending_and_releasing)
{
    open_alone();
    FAILS(redlock_extend(alone.lease, -1, NULL, NULL), BAD_TTL,
          "the TTL is -1 ms, and must be from 1 to 86400000 ms (24 h)");
    FAILS(redlock_extend(alone.lease, 60001, NULL, NULL), BAD_TTL,
          "the TTL is 60001 ms, and max_ttl_ms is 60000");
    SUCCEEDS(extend());
    FAILS(extend(), BUSY, "another extension of this lease is running");
    SUCCEEDS(release());
    cr_assert(ALL_FAIL(of_lease, NOT_HELD, "the lease is not held: its release has begun"));
    close_alone();
}

Test(last_error, of_a_lease_that_is_not_held)
{
    bool lost = false;
    open_alone();
    redlock_lease_free(alone.lease);
    SUCCEEDS(redlock_acquire(alone.client, "job", 3, NULL, NULL, NULL, &alone.lease));
    cr_assert(
        ALL_FAIL(of_lease, NOT_HELD, "the lease is not held: its acquire has not ended"));
    redlock_lease_free(alone.lease);
    alone.lease = hold_by_token("job", 60000, NULL);
    redlock_disown(alone.lease);
    cr_assert(ALL_FAIL(of_lease, NOT_HELD,
                       "the lease is not held: it was released or disowned, or its acquire "
                       "failed"));
    redlock_lease_free(alone.lease);
    alone.lease = hold_by_token("job", 1, &lost);
    LOOP_UNTIL(alone.base, lost);
    FAILS(extend(), NOT_HELD, "the lease is not held: it was lost");
    close_alone();
}

Test(last_error, of_operators)
{
    open_alone();
    FAILS(redlock_inspect(alone.client, "job", 3, NULL, NULL), BAD_OPTION,
          CALLBACK_IS_NULL);
    FAILS(redlock_inspect(alone.client, "", 0, on_inspected, NULL), BAD_KEY,
          "the key is empty");
    FAILS(redlock_break(alone.client, "a!fence", 7, NULL, NULL), BAD_KEY,
          "the key ends as those of this library do: !fence, !marker, !queue");
    FAILS(redlock_check(alone.client, 0, NULL, NULL), BAD_OPTION, CALLBACK_IS_NULL);
    FAILS(redlock_admit(alone.client, (redlock_admission)5, 0, NULL, NULL), BAD_OPTION,
          "how is 5, and must be from 1 to 4");
    FAILS(redlock_admit(alone.client, REDLOCK_ADMIT_REPLACE, 1, NULL, NULL), BAD_OPTION,
          "node is 1, and must be from 0 to 0");
    SUCCEEDS(admit());
    FAILS(admit(), BUSY, "another admission of this client is running");
    close_alone();
}

static void *fail_otherwise(void *arg)
{
    (void)arg;
    bool was_empty = redlock_last_error()->code == REDLOCK_OK;
    return was_empty && ALL_FAIL(of_lease, CLOSED, "the lease is NULL") ? &made : NULL;
}

Test(last_error, of_each_thread)
{
    pthread_t thread;
    void *as_expected;
    cr_assert_eq(redlock_last_error()->code, REDLOCK_OK);
    FAILS(drain(), CLOSED, "the client is NULL");
    pthread_create(&thread, NULL, fail_otherwise, NULL);
    pthread_join(thread, &as_expected);
    cr_assert_not_null(as_expected);
    cr_assert_str_eq(redlock_last_error()->text, "the client is NULL");
}

/* --- threads --- */

static struct {
    struct quorum quorum;
    redlock_sync *sync;
    redlock_hold *hold, *none;
    redlock_stop *stop;
    bool as_expected;
} threads;

static redlock_code lock(void)
{
    return redlock_lock(threads.sync, "job", 3, NULL, &threads.none);
}

static redlock_code try_lock(void)
{
    return redlock_try_lock(threads.sync, "job", 3, NULL, &threads.none);
}

static redlock_code lock_for(void)
{
    return redlock_lock_for(threads.sync, "job", 3, 10, NULL, &threads.none);
}

static redlock_code lock_adopt(void)
{
    return redlock_lock_adopt(threads.sync, "job", 3, "token", 0, NULL, &threads.none);
}

static redlock_code lock_release(void)
{
    return redlock_lock_release(threads.sync, "job", 3, "token");
}

static int do_nothing(redlock_hold *hold, void *arg)
{
    (void)hold;
    (void)arg;
    return 0;
}

static redlock_code single_flight(void)
{
    return redlock_single_flight(threads.sync, "job", 3, 10, NULL, do_nothing, NULL, NULL,
                                 NULL);
}

static redlock_code hold_extend(void)
{
    return redlock_hold_extend(threads.hold, 0);
}

static redlock_code unlock(void)
{
    return redlock_unlock(threads.hold, REDLOCK_CONFIRM);
}

static redlock_code stop_new(void)
{
    return redlock_stop_new(threads.sync, &threads.stop);
}

static const struct call of_threads[] = {
    {"lock", lock},
    {"try_lock", try_lock},
    {"lock_for", lock_for},
    {"lock_adopt", lock_adopt},
    {"lock_release", lock_release},
    {"single_flight", single_flight},
};
static const struct call of_hold[] = {{"hold_extend", hold_extend}, {"unlock", unlock}};
static const struct call of_stop[] = {{"stop_new", stop_new}};

static void fail_in_callback(redlock_hold *hold, redlock_code why, int64_t valid_ms,
                             void *arg)
{
    (void)hold;
    (void)why;
    (void)valid_ms;
    (void)arg;
    threads.as_expected = ALL_FAIL_BY_CODE(of_threads, WOULD_DEADLOCK) &&
                          ALL_FAIL_BY_CODE(of_hold, WOULD_DEADLOCK) &&
                          ALL_FAIL_BY_CODE(of_stop, CLOSED);
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
    SUCCEEDS(
        redlock_sync_new(threads.quorum.servers.uri, 1, &options, &threads.sync, NULL));
    SUCCEEDS(redlock_lock(threads.sync, "held", 4, &lock_options, &threads.hold));
}

static void close_threads(void)
{
    redlock_hold_free(threads.hold);
    redlock_sync_free(threads.sync);
    quorum_close(&threads.quorum);
}

Test(last_error, of_threads_in_a_forked_child)
{
    open_threads(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(!ALL_FAIL_BY_CODE(of_threads, FORKED) || !ALL_FAIL_BY_CODE(of_hold, FORKED) ||
              !ALL_FAIL_BY_CODE(of_stop, FORKED));
    child_expect(child);
    close_threads();
}

Test(last_error, of_threads_in_a_callback_and_after)
{
    open_threads(fail_in_callback);
    redlock_sync_free(threads.sync);
    threads.sync = NULL;
    cr_assert(threads.as_expected);
    cr_assert(ALL_FAIL_BY_CODE(of_hold, CLOSED));
    cr_assert(ALL_FAIL(of_hold, NOT_HELD,
                       "the hold has no lock: it was unlocked, or its thread has ended"));
    close_threads();
}

/* Without memory a lock is refused, by the calling thread or by the loop owner. */
Test(last_error, of_threads_without_memory)
{
    const char *const uri[] = {"unix:///tmp/redlock-test-nothing.sock"};
    redlock_sync *none;
    open_threads(NULL);
    alloc_faults_begin(0, SIZE_MAX);
    alloc_faults_enter();
    bool as_expected =
        ALL_FAIL_BY_CODE(of_threads, NO_MEMORY) && ALL_FAIL_BY_CODE(of_stop, NO_MEMORY);
    redlock_code code = redlock_sync_new(uri, 1, NULL, &none, NULL);
    alloc_faults_leave();
    alloc_faults_end();
    cr_assert(as_expected);
    cr_assert_eq(code, REDLOCK_NO_MEMORY);
    close_threads();
}

static redlock_code lock_with(redlock_lock_options options)
{
    redlock_failure failure;
    redlock_failure_init(&failure);
    options.failure = &failure;
    redlock_code code = redlock_lock(threads.sync, "job", 3, &options, &threads.none);
    cr_assert_eq(failure.error.code, code);
    cr_assert_str_eq(failure.error.text, redlock_last_error()->text);
    return code;
}

#define FAILS_WITH(code, text, ...)                                                        \
    do {                                                                                   \
        redlock_lock_options options;                                                      \
        redlock_lock_options_init(&options);                                               \
        __VA_ARGS__;                                                                       \
        FAILS(lock_with(options), code, text);                                             \
    } while (0)

Test(last_error, of_lock_options)
{
    open_threads(NULL);
    FAILS_WITH(BAD_TTL, "the TTL is 0 ms, and must be from 1 to 86400000 ms (24 h)",
               options.ttl_ms = 0);
    FAILS_WITH(BAD_TTL, "the TTL is 60001 ms, and max_ttl_ms is 60000",
               options.ttl_ms = 60001);
    FAILS_WITH(BAD_TTL,
               "the TTL is 1000 ms, of which 988 ms are left after the drift: margin_ms "
               "and min_validity_ms want more than 1000 ms",
               options.ttl_ms = 1000;
               options.margin_ms = 1000);
    FAILS_WITH(BAD_OPTION, "margin_ms is -1, and must be from 0 to 31622400000",
               options.margin_ms = -1);
    FAILS_WITH(BAD_OPTION, "fence is -1, and must be at least 0", options.fence = -1);
    FAILS_WITH(BAD_OPTION, "handoffs is 64, and must be from 0 to 63",
               options.handoffs = 64);
    redlock_sync *other;
    const char *const uri[] = {"unix:///tmp/redlock-test-nothing.sock"};
    SUCCEEDS(redlock_sync_new(uri, 1, NULL, &other, NULL));
    SUCCEEDS(redlock_stop_new(other, &threads.stop));
    FAILS_WITH(BAD_OPTION, "stop belongs to another client", options.stop = threads.stop);
    redlock_stop_free(threads.stop);
    redlock_sync_free(other);
    SUCCEEDS(stop_new());
    redlock_stop_all(threads.stop);
    FAILS_WITH(CANCELLED, redlock_code_text(REDLOCK_CANCELLED),
               options.stop = threads.stop);
    redlock_stop_free(threads.stop);
    redlock_lock_options options = {.size = 0};
    FAILS(redlock_lock(threads.sync, "job", 3, &options, &threads.none), BAD_OPTION,
          "size is not set: make the options by redlock_lock_options_init()");
    close_threads();
}

static redlock_code lock_key(const char *key, size_t len)
{
    return redlock_lock(threads.sync, key, len, NULL, &threads.none);
}

static redlock_code lock_adopt_with(const char *token, int64_t valid_ms)
{
    return redlock_lock_adopt(threads.sync, "job", 3, token, valid_ms, NULL, &threads.none);
}

static redlock_code single_flight_for(int64_t wait_ms)
{
    return redlock_single_flight(threads.sync, "job", 3, wait_ms, NULL, do_nothing, NULL,
                                 NULL, NULL);
}

Test(last_error, of_arguments_of_threads)
{
    static const char long_key[REDLOCK_KEY_MAX + 1];
    const char *no_token = "the token has 0 bytes, and must have from 1 to 128";
    open_threads(NULL);
    FAILS(lock_key("", 0), BAD_KEY, "the key is empty");
    FAILS(lock_key(long_key, sizeof(long_key)), BAD_KEY,
          "the key has 513 bytes, and must have at most 512");
    FAILS(lock_key("a!queue", 7), BAD_KEY,
          "the key ends as those of this library do: !fence, !marker, !queue");
    FAILS(redlock_lock_for(threads.sync, "job", 3, -1, NULL, &threads.none), BAD_OPTION,
          "wait_ms is -1, and must be at least 0");
    FAILS(single_flight_for(-2), BAD_OPTION, "wait_ms is -2, and must be at least -1");
    FAILS(lock_adopt_with("", 0), BAD_TOKEN, no_token);
    FAILS(lock_adopt_with(NULL, 0), BAD_TOKEN, no_token);
    FAILS(lock_adopt_with("token", -2), BAD_OPTION,
          "valid_ms is -2, and must be at least -1");
    FAILS(redlock_lock_release(threads.sync, "job", 3, NULL), BAD_TOKEN, no_token);
    FAILS(redlock_lock_release(threads.sync, "", 0, "token"), BAD_KEY, "the key is empty");
    FAILS(redlock_unlock(threads.hold, 3), BAD_OPTION, "how is 3, and must be from 0 to 2");
    FAILS(redlock_hold_extend(threads.hold, -1), BAD_TTL,
          "the TTL is -1 ms, and must be from 1 to 86400000 ms (24 h)");
    FAILS(redlock_hold_extend(threads.hold, 60001), BAD_TTL,
          "the TTL is 60001 ms, and max_ttl_ms is 60000");
    close_threads();
}

static int fly_again(redlock_hold *hold, void *arg)
{
    (void)hold;
    *(bool *)arg = fails("single_flight", single_flight(), REDLOCK_BUSY,
                         "this thread does the work of the key already");
    return 0;
}

Test(last_error, of_a_flight_inside_itself)
{
    bool as_expected = false;
    open_threads(NULL);
    SUCCEEDS(redlock_single_flight(threads.sync, "job", 3, -1, NULL, fly_again,
                                   &as_expected, NULL, NULL));
    cr_assert(as_expected);
    close_threads();
}

/* The owner is named, also to a caller that passes no redlock_failure. */
Test(last_error, of_a_lock_that_is_taken)
{
    open_threads(NULL);
    cr_assert_eq(redlock_try_lock(threads.sync, "held", 4, NULL, &threads.none),
                 REDLOCK_TAKEN);
    cr_assert(strstr(redlock_last_error()->text,
                     "another thread of this process has the lock for another "));
    cr_assert_eq(redlock_lock_for(threads.sync, "held", 4, 1, NULL, &threads.none),
                 REDLOCK_TIMEOUT);
    cr_assert(strstr(redlock_last_error()->text,
                     "another thread of this process has the lock for another "));
    servers_do(&threads.quorum.servers, 0, "SET job other");
    FAILS(try_lock(), TAKEN, "other has the lock");
    FAILS(lock_for(), TIMEOUT, "other has the lock");
    servers_do(&threads.quorum.servers, 0, "SET held other");
    const char *taken = redlock_code_text(REDLOCK_TAKEN);
    FAILS(hold_extend(), TAKEN, taken);
    FAILS(hold_extend(), TAKEN, taken);
    FAILS(unlock(), TAKEN, taken);
    close_threads();
}

static void *wait_for_job(void *arg)
{
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.stop = threads.stop;
    (void)arg;
    FAILS(redlock_lock(threads.sync, "job", 3, &options, &threads.none), CANCELLED,
          redlock_code_text(REDLOCK_CANCELLED));
    return NULL;
}

Test(last_error, of_a_lock_that_a_thread_waits_for)
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
                     "another thread of this process waits for the lock");
    redlock_stop_all(threads.stop);
    pthread_join(thread, NULL);
    redlock_stop_free(threads.stop);
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
Test(last_error, of_two_extensions_at_once)
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

Test(last_error, of_each_allocation_of_threads)
{
    open_threads(NULL);
    fail_each_allocation("try_lock", try_lock, free_none);
    fail_each_allocation("stop_new", stop_new, free_stop);
    close_threads();
}
