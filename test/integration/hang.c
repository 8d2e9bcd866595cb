/* A server that hangs: nobody waits for it, and it returns as if nothing had been. */
#include <criterion/criterion.h>

#include "stage.h"

#define ROUNDS 1000
#define HUNG   3

struct count {
    unsigned slow;
};

/* Acquires and releases again and again, each time decided by the third-fastest answer. */
static struct count go_round(struct stage *s, int rounds, int64_t patience_ms)
{
    struct count count = {0};
    for (int i = 0; i < rounds; i++) {
        struct told told;
        redlock_lease *lease = stage_acquire(s, "job", NULL, &told);
        cr_assert_eq(told.result.code, REDLOCK_OK, "round %d: %s", i,
                     redlock_code_name(told.result.code));
        cr_assert_eq(told.result.granted, 3);
        cr_assert_str_neq(stage_node(lease, HUNG)->verdict, "granted");
        count.slow += told.result.took_us > patience_ms * 1000;
        cr_assert_eq(stage_release(s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
    }
    return count;
}

static bool votes(struct stage *s)
{
    LOOP_UNTIL(s->base, stage_is(s->client, HUNG, "ready"));
    redlock_lease *lease = stage_hold(s, "vote", NULL);
    LOOP_UNTIL(s->base, strcmp(stage_node(lease, HUNG)->verdict, "waiting") != 0);
    bool granted = strcmp(stage_node(lease, HUNG)->verdict, "granted") == 0;
    if (granted)
        cr_assert(servers_text(&s->servers, HUNG, redlock_token(lease), "GET vote"));
    redlock_lease_free(lease);
    LOOP_UNTIL(s->base, servers_keys(&s->servers) == 0);
    return granted;
}

/* It may be suspect once more, if it was too slow for a moment: then it is not asked. */
static void expect_a_vote(struct stage *s)
{
    unsigned tries = 0;
    while (!votes(s))
        cr_assert_lt(++tries, 10);
}

static long long connections(struct stage *s)
{
    return atoll(servers_info(&s->servers, HUNG, "stats", "total_connections_received"));
}

/* It is suspected, but its connection survives, and what it was told it does in order. */
Test(hang, short_stop)
{
    const int64_t patience_ms = 1000;
    redlock_options options = stage_options();
    options.node_timeout_ms = patience_ms;
    struct stage s;
    stage_open_with(&s, 5, &options);
    long long before = connections(&s);
    servers_stop(&s.servers, HUNG);
    cr_assert_leq(go_round(&s, ROUNDS, patience_ms).slow, 1);
    LOOP_UNTIL(s.base, stage_is(s.client, HUNG, "suspect"));
    cr_assert_str_eq(stage_link(s.client, HUNG)->fault, "TIMEOUT");
    go_round(&s, 10, patience_ms);
    servers_cont(&s.servers, HUNG);
    LOOP_UNTIL(s.base, stage_is(s.client, HUNG, "ready"));
    cr_assert_eq(connections(&s), before, "it was connected to anew");
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    expect_a_vote(&s);
    stage_close(&s);
}

/* It is given up. What it may have stored is released after it was greeted again. */
Test(hang, long_stop)
{
    const int64_t patience_ms = 400;
    redlock_options options = stage_options();
    options.node_timeout_ms = patience_ms;
    options.connect_timeout_ms = 1000;
    struct stage s;
    stage_open_with(&s, 5, &options);
    servers_stop(&s.servers, HUNG);
    cr_assert_leq(go_round(&s, ROUNDS, patience_ms).slow, 1);
    LOOP_UNTIL(s.base, stage_is(s.client, HUNG, "down") ||
                           stage_is(s.client, HUNG, "connecting") ||
                           stage_is(s.client, HUNG, "greeting"));
    cr_assert_str_eq(stage_link(s.client, HUNG)->fault, "TIMEOUT");
    go_round(&s, 10, patience_ms);
    loop_run_for(s.base, 1500); /* greetings time out, too */
    go_round(&s, 10, patience_ms);
    servers_cont(&s.servers, HUNG);
    LOOP_UNTIL(s.base, stage_is(s.client, HUNG, "ready"));
    loop_run_for(s.base, 1000);
    cr_assert_eq(servers_keys(&s.servers), 0);
    expect_a_vote(&s);
    stage_close(&s);
}

/* Three that hang are no quorum: that is told after one per-node timeout, and undone. */
Test(hang, majority)
{
    redlock_options options = stage_options();
    options.node_timeout_ms = 300;
    options.connect_timeout_ms = 1000;
    struct stage s;
    struct told told;
    stage_open_with(&s, 5, &options);
    for (unsigned i = 0; i < 3; i++)
        servers_stop(&s.servers, i);
    redlock_lease *lease = stage_acquire(&s, "job", NULL, &told);
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(told.result.granted, 2);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_str_eq(stage_node(lease, i)->verdict, "silent");
        cr_assert_str_eq(stage_node(lease, i)->fault, "TIMEOUT");
        cr_assert_eq(stage_node(lease, i)->latency_us, -1);
    }
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    for (unsigned i = 0; i < 3; i++)
        servers_cont(&s.servers, i);
    stage_settle(&s);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    lease = stage_hold(&s, "job", NULL);
    redlock_lease_free(lease);
    stage_drain(&s);
    stage_close(&s);
}

/* With a wait, the lock is got as soon as enough of them answer again. */
Test(hang, a_waiting_acquire_outlives_it)
{
    redlock_options options = stage_options();
    options.node_timeout_ms = 200;
    redlock_lease_options lease_options = stage_lease_options();
    lease_options.wait_ms = LOOP_PATIENCE_MS;
    struct stage s;
    struct told told = {0};
    redlock_lease *lease;
    stage_open_with(&s, 3, &options);
    servers_stop(&s.servers, 0);
    servers_stop(&s.servers, 1);
    cr_assert_eq(
        redlock_acquire(s.client, "job", 3, &lease_options, told_note, &told, &lease),
        REDLOCK_OK);
    loop_run_for(s.base, 500);
    cr_assert_eq(told.times, 0);
    servers_cont(&s.servers, 0);
    EXPECT_TOLD(&s, &told, REDLOCK_OK);
    cr_assert_gt(told.result.attempts, 1);
    servers_cont(&s.servers, 1);
    redlock_lease_free(lease);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    stage_close(&s);
}

/* Somebody who tries again in the callback, at once and for as long as it takes. */
struct stubborn {
    struct stage s;
    int64_t end;
    unsigned failed;
    bool held;
};

static void try_again(redlock_lease *lease, const redlock_result *result, void *arg);

static void try(struct stubborn *self)
{
    redlock_lease *lease;
    redlock_lease_options options = stage_lease_options();
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

/* Attempts fail without a wait while nodes are suspect; still the loop hears of their
 * return. */
Test(hang, who_tries_again_at_once_does_not_stop_the_loop)
{
    struct stubborn self = {.end = loop_clock_ms() + LOOP_PATIENCE_MS};
    redlock_options options = stage_options();
    options.node_timeout_ms = 50;
    stage_open_with(&self.s, 3, &options);
    for (unsigned i = 1; i < 3; i++)
        servers_stop(&self.s.servers, i);
    try(&self);
    LOOP_UNTIL(self.s.base, self.held);
    cr_assert_gt(self.failed, 0, "no server was missed");
    stage_close(&self.s);
}
