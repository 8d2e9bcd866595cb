/*
 * redlock_last_error(): each function that returns a code fails with each code that it
 * returns at once, and the text names what is wrong.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

#include "alloc_faults.h"
#include "child.h"
#include "failing_call.h"
#include "quorum.h"

#define CALLBACK_IS_NULL "callback is NULL, and must be a function"

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

static void on_leader(redlock_observer *observer, const redlock_leader *leader, void *arg)
{
    (void)observer;
    (void)leader;
    (void)arg;
}

static redlock_code observe(void)
{
    redlock_observer *observer = NULL;
    redlock_code code = redlock_observe(alone.client, "job", 3, on_leader, NULL, &observer);
    redlock_observer_free(observer);
    return code;
}

static void on_hold_time(redlock_client *client, int64_t longest_ms, void *arg)
{
    (void)client;
    (void)longest_ms;
    (void)arg;
}

static redlock_code hold_time(void)
{
    return redlock_hold_time(alone.client, "job", 3, on_hold_time, NULL);
}

static redlock_code note_hold_time(void)
{
    return redlock_note_hold_time(alone.client, "job", 3, 1);
}

static void on_listed(redlock_client *client, const redlock_listed *listed, void *arg)
{
    (void)client;
    (void)listed;
    (void)arg;
}

static redlock_code list(void)
{
    return redlock_list(alone.client, "job", 3, 0, on_listed, NULL);
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

static redlock_code watch_members(void)
{
    return redlock_client_watch_members(alone.client);
}

static redlock_code extend(void)
{
    return redlock_extend(alone.lease, 0, NULL, NULL);
}

static redlock_code downgrade(void)
{
    return redlock_downgrade(alone.lease, NULL, NULL);
}

static redlock_code release(void)
{
    return redlock_release(alone.lease, NULL, NULL);
}

static const struct call of_client[] = {
    {"drain", drain},
    {"acquire", acquire},
    {"adopt", adopt},
    {"inspect", inspect},
    {"break", break_lock},
    {"check", check},
    {"admit", admit},
    {"observe", observe},
    {"list", list},
    {"hold_time", hold_time},
    {"note_hold_time", note_hold_time},
};
static const struct call without_memory[] = {{"watch_members", watch_members}};
static const struct call of_lease[] = {
    {"extend", extend}, {"downgrade", downgrade}, {"release", release}};

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

static redlock_code make_client(const char *first, const char *second)
{
    redlock_client *none = NULL;
    const char *const uris[] = {first, second};
    size_t count = first ? 1 + (second != NULL) : 0;
    return redlock_client_new(alone.base, uris, count, NULL, &none);
}

/* One cause each, and nothing of the URI: it may be a part of a password. */
static const struct {
    const char *uri, *why;
} malformed[] = {
    {"redis://a:b", "the port is not a number"},
    {"redis://a:99999", "the port is not from 1 to 65535"},
    {"redis://a:0", "the port is not from 1 to 65535"},
    {"redis://:p@ss@a", "\"@\" in a password is written %40"},
    {"redis://:p/ss@a",
     "\"/\", \"?\" and \"#\" in a password are written %2F, %3F and %23"},
    {"redis://:p%ss@a",
     "it has a character that must be written as % and two hexadecimal digits"},
    {"redis://:p%00s@a", "the password has a NUL byte, %00"},
    {"redis://a redis://b", "a list takes commas, not blanks"},
    {"redis://a b", "it has a blank"},
    {"redis://::1", "an IPv6 address takes brackets, as in redis://[::1]"},
    {"redis://a/x", "the database is not a number from 0 to 999999"},
    {"redis://", "the host is missing"},
    {"redis://a,b", "the host has a character that no host has"},
    {"http://a", "its scheme is neither redis, rediss nor unix"},
};

Test(last_error, of_making_a_client)
{
    const char *const uris[REDLOCK_NODES_MAX + 1] = {NULL};
    redlock_client *none = NULL;
    open_alone();
    FAILS(make_client(NULL, NULL), BAD_NODES, "nodes are 0, and must be from 1 to 32");
    FAILS(redlock_client_new(alone.base, uris, REDLOCK_NODES_MAX + 1, NULL, &none),
          BAD_NODES, "nodes are 33, and must be from 1 to 32");
    FAILS(make_client("host:1", NULL), BAD_URI,
          "node 1: the URI has no scheme: did you mean redis://host:1?");
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        char text[REDLOCK_TEXT_MAX];
        snprintf(text, sizeof(text), "node 1: the URI is malformed: %s", malformed[i].why);
        FAILS(make_client(malformed[i].uri, NULL), BAD_URI, text);
    }
    const char *list =
        "node 1: the URI is malformed: it is a list: each URI is an element of its own";
    FAILS(make_client("redis://a,redis://b", NULL), BAD_URI, list);
    FAILS(make_client("unix:///a,unix:///b", NULL), BAD_URI, list);
    FAILS(make_client("redis://a", "redis://a:6379"), DUPLICATE_NODE,
          "nodes 1 and 2 are the same: redis://a:6379");
    close_alone();
}

static redlock_code make_client_with(redlock_options options)
{
    redlock_client *none = NULL;
    return redlock_client_new(alone.base, &(const char *){"redis://a"}, 1, &options, &none);
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
    FAILS_TO_MAKE("quorum is 2, and must be at most 1", options.quorum = 2);
    FAILS_TO_MAKE("node_timeout_ms is -1, and must be at least 0",
                  options.node_timeout_ms = -1);
    FAILS_TO_MAKE("connect_timeout_ms is 0, and must be at least 1",
                  options.connect_timeout_ms = 0);
    FAILS_TO_MAKE("drift_ppm is 500001, and must be at most 500000",
                  options.drift_ppm = 500001);
    FAILS_TO_MAKE("max_ttl_ms is 86400001, and must be at most 86400000",
                  options.max_ttl_ms = REDLOCK_TTL_MAX_MS + 1);
    FAILS_TO_MAKE("label must be one word of at most 64 bytes of printable ASCII",
                  options.label = "a b");
    FAILS_TO_MAKE("prefix has 512 bytes, and must have at most 511",
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
    FAILS(adopt_with(NULL, 0), BAD_TOKEN, "token is empty");
    memset(token, 't', REDLOCK_TOKEN_MAX + 1);
    FAILS(adopt_with(token, 0), BAD_TOKEN,
          "token has 129 bytes, and must have at most 128");
    FAILS(adopt_with("token", -2), BAD_OPTION, "valid_ms is -2, and must be at least 0");
    close_alone();
}

Test(last_error, of_extending_and_releasing)
{
    open_alone();
    FAILS(redlock_extend(alone.lease, -1, NULL, NULL), BAD_TTL,
          "ttl_ms is -1, and must be at least 1");
    FAILS(redlock_extend(alone.lease, 60001, NULL, NULL), BAD_TTL,
          "ttl_ms is 60001, and must be at most 60000: the TTL is longer than the "
          "client\'s longest TTL");
    SUCCEEDS(extend());
    FAILS(extend(), BUSY, "another extension of this lease is running");
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

Test(last_error, of_operators)
{
    open_alone();
    FAILS(redlock_inspect(alone.client, "job", 3, NULL, NULL), BAD_OPTION,
          CALLBACK_IS_NULL);
    FAILS(redlock_inspect(alone.client, "", 0, on_inspected, NULL), BAD_KEY,
          "key is empty");
    FAILS(redlock_break(alone.client, "a!fence", 7, NULL, NULL), BAD_KEY,
          "key ends in ! and small letters: such ends are reserved");
    FAILS(redlock_check(alone.client, 0, NULL, NULL), BAD_OPTION, CALLBACK_IS_NULL);
    FAILS(redlock_admit(alone.client, (redlock_admission)6, 0, NULL, NULL), BAD_OPTION,
          "how is 6, and must be at most 5");
    FAILS(redlock_admit(alone.client, REDLOCK_ADMIT_REPLACE, 1, NULL, NULL), BAD_OPTION,
          "node is 1, and must be at most 0");
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
