/* A server that hangs: no operation waits for it, and it works again afterwards. */
#include <criterion/criterion.h>

#include "quorum.h"

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
