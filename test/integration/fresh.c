/*
 * A client that was just created: operations that wait for its nodes are not lost
 * meanwhile.
 */
#include <criterion/criterion.h>

#include "quorum.h"

/* The fixture's client is new, and another owner's token is on every node. */
static redlock_lease *take_over(struct quorum *s)
{
    redlock_lease_options options = quorum_quiet_options();
    redlock_lease *lease = NULL;
    quorum_open_fresh(s, 3);
    servers_do_first(&s->servers, 3, "SET job token PX 60000");
    redlock_client_free(s->client);
    s->client = quorum_client(s, NULL);
    cr_assert_eq(redlock_adopt(s->client, "job", 3, "token", 0, &options, &lease),
                 REDLOCK_OK);
    return lease;
}

static void free_lease(redlock_lease *lease, const redlock_result *result, void *arg)
{
    reported_note(lease, result, arg);
    redlock_lease_free(lease);
}

Test(fresh, an_extension_that_a_release_replaces_may_free_the_lease)
{
    struct quorum s;
    struct reported extended = {0}, released = {0};
    redlock_lease *lease = take_over(&s);
    cr_assert_eq(redlock_extend(lease, 0, free_lease, &extended), REDLOCK_OK);
    cr_assert_eq(redlock_release(lease, reported_note, &released), REDLOCK_OK);
    EXPECT_REPORTED(&s, &extended, REDLOCK_CANCELLED);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "job", NULL) == 3);
    cr_assert_eq(released.times, 0, "its lease was freed first");
    quorum_close(&s);
}

static void drained(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    cr_assert(clean);
    *(bool *)arg = true;
}

static void drain_new_client(int64_t timeout_ms)
{
    struct quorum s;
    bool done = false;
    redlock_lease *lease = take_over(&s);
    cr_assert_eq(redlock_release(lease, NULL, NULL), REDLOCK_OK);
    redlock_lease_free(lease);
    cr_assert_eq(redlock_client_drain(s.client, timeout_ms, drained, &done), REDLOCK_OK);
    LOOP_UNTIL(s.base, done);
    cr_assert_geq(servers_with(&s.servers, "job", NULL), 2);
    quorum_await_ready(&s); /* a node that greets late is reported late */
    quorum_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "job", NULL), 3);
    quorum_close(&s);
}

Test(fresh, a_drain_waits_for_a_release_that_waits_for_the_nodes)
{
    drain_new_client(LOOP_PATIENCE_MS);
}

/* No node has a connection yet, so none has a reply timeout. */
Test(fresh, a_drain_of_a_node_timeout_waits_for_the_nodes_to_connect)
{
    drain_new_client(REDLOCK_NODE_TIMEOUT);
}

Test(fresh, time_counts_only_when_the_loop_runs)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_options options = quorum_options();
    redlock_lease *lease = NULL;
    options.connect_timeout_ms = 3000; /* enough to connect, on any machine */
    quorum_open_fresh_with(&s, 3, &options);
    /* A program that does much work before it runs its loop. */
    loop_block(options.connect_timeout_ms + 100);
    cr_assert_eq(
        redlock_acquire(s.client, "job", 3, NULL, reported_note, &reported, &lease),
        REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_close(&s);
}
