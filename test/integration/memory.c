/*
 * Every allocation fails in turn: no crash, no leak, no missing callback, no wrong success.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "alloc_faults.h"
#include "quorum.h"

#define FOREVER SIZE_MAX
#define ENOUGH  2000 /* allocations; a run needs far fewer */

struct seen {
    unsigned times;
    redlock_code code;
};

static void note_inspection(redlock_client *client, const redlock_inspection *inspection,
                            void *arg)
{
    struct seen *seen = arg;
    (void)client;
    seen->times++;
    seen->code = inspection->code;
}

static void note_drain(redlock_client *client, bool clean, void *arg)
{
    struct seen *seen = arg;
    (void)client;
    (void)clean;
    seen->times++;
}

/* Wakes the loop so that a test can check its condition; created while there is memory. */
static void do_nothing(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

#define UNTIL(s, condition)                                                                \
    for (int64_t end = loop_clock_ms() + LOOP_PATIENCE_MS; !(condition);)                  \
    pass(s, end, #condition)

static void pass(struct quorum *s, int64_t end, const char *condition)
{
    cr_assert_lt(loop_clock_ms(), end, "never so: %s", condition);
    alloc_faults_enter();
    event_base_loop(s->base, EVLOOP_ONCE);
    alloc_faults_leave();
}

#define SCARCELY(code, call)                                                               \
    do {                                                                                   \
        alloc_faults_enter();                                                              \
        code = call;                                                                       \
        alloc_faults_leave();                                                              \
    } while (0)

static bool is_held(struct quorum *s, const redlock_lease *lease)
{
    return servers_with(&s->servers, "job", redlock_token(lease)) >= 2;
}

static void note_check(redlock_client *client, const redlock_health_report *report,
                       void *arg)
{
    struct seen *seen = arg;
    (void)client;
    seen->times++;
    seen->code = report->code;
}

static void use(struct quorum *s, redlock_lease *lease)
{
    struct reported extended = {0}, released = {0};
    struct seen seen = {0}, checked = {0};
    redlock_code code;
    SCARCELY(code, redlock_inspect(s->client, "job", 3, note_inspection, &seen));
    cr_assert(code == REDLOCK_OK || code == REDLOCK_NO_MEMORY);
    if (code == REDLOCK_OK)
        UNTIL(s, seen.times > 0);
    SCARCELY(code, redlock_check(s->client, REDLOCK_CHECK_CLIENTS, note_check, &checked));
    cr_assert(code == REDLOCK_OK || code == REDLOCK_NO_MEMORY);
    if (code == REDLOCK_OK)
        UNTIL(s, checked.times > 0);
    SCARCELY(code, redlock_extend(lease, 0, reported_note, &extended));
    if (code == REDLOCK_OK) {
        UNTIL(s, extended.times > 0);
        cr_assert(extended.result.code != REDLOCK_OK || is_held(s, lease));
    }
    SCARCELY(code, redlock_release(lease, reported_note, &released));
    if (code == REDLOCK_OK) {
        UNTIL(s, released.times > 0);
        cr_assert_eq(redlock_valid_ms(lease), 0);
    }
    cr_assert_leq(seen.times, 1);
    cr_assert_leq(checked.times, 1);
    cr_assert_leq(extended.times, 1);
    cr_assert_leq(released.times, 1);
}

/* Memory stays unavailable: then no node can be reached, and nothing is reported. */
#define HOPELESS_MS 300

static void admit(struct quorum *s, size_t count, struct admitted *admitted)
{
    redlock_code code;
    SCARCELY(code,
             redlock_admit(s->client, REDLOCK_ADMIT_AT_ONCE, 0, admitted_note, admitted));
    cr_assert(code == REDLOCK_OK || code == REDLOCK_NO_MEMORY);
    int64_t hopeless = loop_clock_ms() + HOPELESS_MS;
    if (code == REDLOCK_OK)
        UNTIL(s, admitted->times > 0 || (count == FOREVER && loop_clock_ms() > hopeless));
    cr_assert_leq(admitted->times, 1);
    if (admitted->times > 0 && admitted->result.code == REDLOCK_OK)
        cr_assert_eq(servers_with(&s->servers, "!marker", NULL), 0);
}

static void lock(struct quorum *s, bool fenced)
{
    redlock_lease_options lease_options = quorum_lease_options();
    redlock_lease *lease = NULL;
    struct reported reported = {0};
    struct seen drained = {0};
    redlock_code code;
    lease_options.fenced = fenced;
    SCARCELY(code, redlock_acquire(s->client, "job", 3, &lease_options, reported_note,
                                   &reported, &lease));
    if (code != REDLOCK_OK) {
        cr_assert_eq(code, REDLOCK_NO_MEMORY);
        cr_assert_null(lease);
        return;
    }
    UNTIL(s, reported.times > 0);
    if (reported.result.code == REDLOCK_OK) {
        cr_assert(is_held(s, lease), "it is not held");
        cr_assert_eq(redlock_fence(lease) > 0, fenced);
        use(s, lease);
    }
    alloc_faults_enter();
    redlock_lease_free(lease);
    alloc_faults_leave();
    SCARCELY(code, redlock_client_drain(s->client, 200, note_drain, &drained));
    if (code == REDLOCK_OK)
        UNTIL(s, drained.times > 0);
    cr_assert_eq(reported.times, 1);
}

static void tell_story(struct quorum *s, const redlock_options *options, bool fenced,
                       size_t count, struct admitted *admitted)
{
    redlock_code code;
    s->client = NULL;
    SCARCELY(code, redlock_client_new(s->base, s->servers.uri, 3, options, &s->client));
    if (code != REDLOCK_OK) {
        cr_assert(code == REDLOCK_NO_MEMORY || code == REDLOCK_SYSTEM, "%s",
                  redlock_code_name(code));
        cr_assert_null(s->client);
        return;
    }
    if (fenced)
        admit(s, count, admitted);
    lock(s, fenced);
}

/* Only the markers and fences of fenced locks may remain. */
static void expect_no_lock(struct quorum *s, bool fenced)
{
    cr_assert_eq(servers_with(&s->servers, "job", NULL), 3);
    for (unsigned i = 0; fenced && i < 3; i++)
        servers_do(&s->servers, i, "DEL !marker job!fence");
    cr_assert_eq(servers_keys(&s->servers), 0);
}

/* One run on its own loop; returns whether memory ran out. */
static bool run_story(struct quorum *s, size_t after, size_t count, bool fenced)
{
    struct admitted admitted = {0};
    redlock_options options = quorum_options();
    options.connect_timeout_ms = 300;
    options.node_timeout_ms = 100;
    struct timeval soon = {.tv_usec = 2000};
    s->base = event_base_new();
    struct event *waker = event_new(s->base, -1, EV_PERSIST, do_nothing, NULL);
    event_add(waker, &soon);
    alloc_faults_begin(after, count);
    tell_story(s, &options, fenced, count, &admitted);
    bool ran_out = alloc_faults_end();
    if (s->client) { /* there is memory again: what is left is released now */
        quorum_await_ready(s);
        quorum_drain(s);
    }
    redlock_client_free(s->client);
    s->client = NULL;
    event_free(waker);
    event_base_free(s->base);
    s->base = NULL;
    cr_assert_leq(admitted.times, 1);
    cr_assert(count > 0 || !fenced || admitted.result.code == REDLOCK_OK);
    expect_no_lock(s, fenced);
    return ran_out;
}

static void say_nothing(int severity, const char *text)
{
    (void)severity;
    (void)text;
}

static void fail_in_turn(size_t count, bool fenced)
{
    struct quorum s = {0};
    event_set_log_callback(say_nothing);
    servers_start(&s.servers, 3, NULL);
    run_story(&s, ENOUGH, 0, fenced);
    long before = alloc_faults_live();
    size_t after = 0;
    while (run_story(&s, after, count, fenced)) {
        cr_assert_eq(alloc_faults_live(), before, "%ld blocks leaked after %zu",
                     alloc_faults_live() - before, after);
        cr_assert_lt(++after, ENOUGH);
    }
    cr_assert_gt(after, 20, "nothing was tried");
    servers_end(&s.servers);
}

/* From the end of the first attempt on. */
static int64_t use_up_memory(unsigned attempt, uint64_t random, void *arg)
{
    (void)attempt;
    (void)random;
    (void)arg;
    alloc_faults_enter();
    return 0;
}

static void note_with_memory(redlock_lease *lease, const redlock_result *result, void *arg)
{
    alloc_faults_leave();
    reported_note(lease, result, arg);
}

/* The acquire of a key that another client holds. */
static void expect_no_second_attempt(struct quorum *s)
{
    struct reported reported = {0};
    redlock_lease *lease;
    redlock_lease_options options = quorum_lease_options();
    options.wait_ms = REDLOCK_FOREVER;
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = use_up_memory;
    alloc_faults_begin(0, FOREVER);
    cr_assert_eq(
        redlock_acquire(s->client, "job", 3, &options, note_with_memory, &reported, &lease),
        REDLOCK_OK);
    EXPECT_REPORTED(s, &reported, REDLOCK_NO_MEMORY);
    cr_assert(alloc_faults_end());
    redlock_lease_free(lease);
}

Test(memory, a_second_attempt_reports_it)
{
    struct quorum s;
    event_set_log_callback(say_nothing);
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 3, "SET job other");
    expect_no_second_attempt(&s);
    quorum_close(&s);
}

static bool are_queued(struct quorum *s, int64_t count)
{
    for (unsigned i = 0; i < 3; i++)
        if (!servers_int(&s->servers, i, count, "ZCARD job!queue"))
            return false;
    return true;
}

/* The first waiter makes its client subscribe, so that the second one is queued, too. */
Test(memory, a_waiter_without_a_second_attempt_leaves_the_queues)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_lease_options options = quorum_lease_options();
    options.wait_ms = REDLOCK_FOREVER;
    event_set_log_callback(say_nothing);
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 3, "SET job other");
    redlock_lease *waiter = quorum_start(&s, "job", &options, &reported);
    LOOP_UNTIL(s.base, are_queued(&s, 1));
    expect_no_second_attempt(&s);
    LOOP_UNTIL(s.base, are_queued(&s, 1));
    redlock_lease_free(waiter);
    quorum_close(&s);
}

/* The commands that scan for keys with a long prefix do not fit into the send batch. */
Test(memory, an_admission_reports_it)
{
    struct quorum s;
    char prefix[REDLOCK_KEY_MAX];
    struct admitted admitted = {0};
    redlock_options options = quorum_options();
    memset(prefix, '*', sizeof(prefix) - 1);
    prefix[sizeof(prefix) - 1] = '\0';
    options.prefix = prefix;
    event_set_log_callback(say_nothing);
    quorum_open_with(&s, SERVERS_MAX, &options);
    cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_NEW, 0, admitted_note, &admitted),
                 REDLOCK_OK);
    alloc_faults_begin(0, FOREVER);
    UNTIL(&s, admitted.times > 0);
    cr_assert(alloc_faults_end());
    cr_assert_eq(admitted.result.code, REDLOCK_NO_MEMORY, "%s",
                 redlock_code_name(admitted.result.code));
    cr_assert_geq(admitted.result.node, 0);
    quorum_close(&s);
}

static void note_end(redlock_client *client, const redlock_listed *listed, void *arg)
{
    struct seen *seen = arg;
    (void)client;
    cr_assert_null(listed->inspection);
    cr_assert_eq(listed->code, REDLOCK_NO_MEMORY, "%s", redlock_code_name(listed->code));
    seen->times++;
}

Test(memory, a_list_reports_it)
{
    struct quorum s;
    struct seen seen = {0};
    event_set_log_callback(say_nothing);
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 3, "SET job paaaaaaaabbbbbbbbccccccccdddddddd");
    cr_assert_eq(redlock_list(s.client, "", 0, 0, note_end, &seen), REDLOCK_OK);
    alloc_faults_begin(0, FOREVER);
    UNTIL(&s, seen.times > 0);
    cr_assert(alloc_faults_end());
    quorum_close(&s);
}

Test(memory, one_allocation_fails)
{
    fail_in_turn(1, false);
}

Test(memory, three_allocations_fail)
{
    fail_in_turn(3, false);
}

Test(memory, no_allocation_succeeds_any_more)
{
    fail_in_turn(FOREVER, false);
}

Test(memory, one_allocation_fails_of_fenced_locks)
{
    fail_in_turn(1, true);
}

Test(memory, three_allocations_fail_of_fenced_locks)
{
    fail_in_turn(3, true);
}

Test(memory, no_allocation_succeeds_any_more_of_fenced_locks)
{
    fail_in_turn(FOREVER, true);
}
