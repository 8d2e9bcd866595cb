/* A server that hangs: no operation waits for it, and it works again afterwards. */
#include <criterion/criterion.h>

#include "quorum.h"

#define ROUNDS 1000
#define HUNG   3

struct count {
    unsigned slow;
};

/* Acquires and releases repeatedly, each time decided by the third-fastest reply. */
static struct count go_round(struct quorum *s, int rounds, int64_t timeout_ms)
{
    struct count count = {0};
    for (int i = 0; i < rounds; i++) {
        struct reported reported;
        redlock_lease *lease = quorum_acquire(s, "job", NULL, &reported);
        cr_assert_eq(reported.result.code, REDLOCK_OK, "round %d: %s", i,
                     redlock_code_name(reported.result.code));
        cr_assert_eq(reported.result.granted, 3);
        cr_assert_neq(quorum_node(lease, HUNG)->verdict, REDLOCK_VERDICT_GRANTED);
        count.slow += reported.result.took_ms >= timeout_ms;
        cr_assert_eq(quorum_release(s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
    }
    return count;
}

static bool votes(struct quorum *s)
{
    LOOP_UNTIL(s->base, quorum_is(s->client, HUNG, "ready"));
    redlock_lease *lease = quorum_hold(s, "vote", NULL);
    LOOP_UNTIL(s->base, quorum_node(lease, HUNG)->verdict != REDLOCK_VERDICT_WAITING);
    bool granted = quorum_node(lease, HUNG)->verdict == REDLOCK_VERDICT_GRANTED;
    if (granted)
        cr_assert(servers_text(&s->servers, HUNG, redlock_token(lease), "GET vote"));
    redlock_lease_free(lease);
    LOOP_UNTIL(s->base, servers_keys(&s->servers) == 0);
    return granted;
}

/* It may be suspect once more, if it was slow for a moment: then it gets no acquire. */
static void expect_a_vote(struct quorum *s)
{
    unsigned tries = 0;
    while (!votes(s))
        cr_assert_lt(++tries, 10);
}

static long long connections(struct quorum *s)
{
    return atoll(servers_info(&s->servers, HUNG, "stats", "total_connections_received"));
}

/*
 * It becomes suspect, but its connection survives, and it executes everything that was
 * sent, in order.
 */
Test(hang, short_stop)
{
    const int64_t timeout_ms = 1000;
    redlock_options options = quorum_options();
    options.node_timeout_ms = timeout_ms;
    struct quorum s;
    quorum_open_with(&s, 5, &options);
    long long before = connections(&s);
    servers_stop(&s.servers, HUNG);
    cr_assert_leq(go_round(&s, ROUNDS, timeout_ms).slow, 1);
    LOOP_UNTIL(s.base, quorum_is(s.client, HUNG, "suspect"));
    cr_assert_eq(quorum_link(s.client, HUNG)->fault, REDLOCK_FAULT_TIMEOUT);
    go_round(&s, 10, timeout_ms);
    servers_cont(&s.servers, HUNG);
    LOOP_UNTIL(s.base, quorum_is(s.client, HUNG, "ready"));
    cr_assert_eq(connections(&s), before, "it was reconnected");
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    expect_a_vote(&s);
    quorum_close(&s);
}

/* It is given up. What it may have stored is released after it was greeted again. */
Test(hang, long_stop)
{
    const int64_t timeout_ms = 400;
    redlock_options options = quorum_options();
    options.node_timeout_ms = timeout_ms;
    options.connect_timeout_ms = 1000;
    struct quorum s;
    quorum_open_with(&s, 5, &options);
    servers_stop(&s.servers, HUNG);
    cr_assert_leq(go_round(&s, ROUNDS, timeout_ms).slow, 1);
    LOOP_UNTIL(s.base, quorum_is(s.client, HUNG, "down") ||
                           quorum_is(s.client, HUNG, "connecting") ||
                           quorum_is(s.client, HUNG, "greeting"));
    cr_assert_eq(quorum_link(s.client, HUNG)->fault, REDLOCK_FAULT_TIMEOUT);
    go_round(&s, 10, timeout_ms);
    loop_run_for(s.base, 1500); /* greetings time out, too */
    go_round(&s, 10, timeout_ms);
    servers_cont(&s.servers, HUNG);
    LOOP_UNTIL(s.base, quorum_is(s.client, HUNG, "ready"));
    loop_run_for(s.base, 1000);
    cr_assert_eq(servers_keys(&s.servers), 0);
    expect_a_vote(&s);
    quorum_close(&s);
}

/*
 * Three nodes that hang leave no quorum: that is reported after one per-node timeout, and
 * the acquire is released.
 */
Test(hang, majority)
{
    redlock_options options = quorum_options();
    options.node_timeout_ms = 300;
    options.connect_timeout_ms = 1000;
    struct quorum s;
    struct reported reported;
    quorum_open_with(&s, 5, &options);
    servers_stop_first(&s.servers, 3);
    redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(reported.result.granted, 2);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(quorum_node(lease, i)->verdict, REDLOCK_VERDICT_SILENT);
        cr_assert_eq(quorum_node(lease, i)->fault, REDLOCK_FAULT_TIMEOUT);
        cr_assert_eq(quorum_node(lease, i)->latency_us, REDLOCK_UNKNOWN);
    }
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    servers_cont_first(&s.servers, 3);
    quorum_await_ready(&s);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    lease = quorum_hold(&s, "job", NULL);
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

/* With a wait, the lock is acquired as soon as enough of them reply again. */
Test(hang, a_waiting_acquire_outlives_it)
{
    redlock_options options = quorum_options();
    options.node_timeout_ms = 200;
    redlock_lease_options lease_options = quorum_lease_options();
    lease_options.wait_ms = LOOP_PATIENCE_MS;
    struct quorum s;
    struct reported reported = {0};
    quorum_open_with(&s, 3, &options);
    servers_stop(&s.servers, 0);
    servers_stop(&s.servers, 1);
    redlock_lease *lease = quorum_start(&s, "job", &lease_options, &reported);
    loop_run_for(s.base, 500);
    cr_assert_eq(reported.times, 0);
    servers_cont(&s.servers, 0);
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    cr_assert_gt(reported.result.attempts, 1);
    servers_cont(&s.servers, 1);
    redlock_lease_free(lease);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    quorum_close(&s);
}

/* A caller that acquires again in the callback, at once and without an end. */
struct stubborn {
    struct quorum s;
    int64_t end;
    unsigned failed;
    bool held;
};

static void try_again(redlock_lease *lease, const redlock_result *result, void *arg);

static void try(struct stubborn *self)
{
    redlock_lease *lease;
    redlock_lease_options options = quorum_lease_options();
    cr_assert_eq(
        redlock_acquire(self->s.client, "job", 3, &options, try_again, self, &lease),
        REDLOCK_OK);
}

static void try_again(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct stubborn *self = arg;
    self->held = result->code == REDLOCK_OK;
    redlock_lease_free(lease);
    if (self->held)
        return;
    if (self->failed++ == 0)
        for (unsigned i = 1; i < 3; i++)
            servers_cont(&self->s.servers, i);
    cr_assert_lt(loop_clock_ms(), self->end, "failed %u times", self->failed);
    try(self);
}

/*
 * Attempts fail without a wait while nodes are suspect; the loop still reads their replies.
 */
Test(hang, immediate_retries_do_not_stop_the_loop)
{
    struct stubborn self = {.end = loop_clock_ms() + LOOP_PATIENCE_MS};
    redlock_options options = quorum_options();
    options.node_timeout_ms = 50;
    quorum_open_with(&self.s, 3, &options);
    for (unsigned i = 1; i < 3; i++)
        servers_stop(&self.s.servers, i);
    try(&self);
    LOOP_UNTIL(self.s.base, self.held);
    cr_assert_gt(self.failed, 0, "no server was skipped");
    quorum_close(&self.s);
}
