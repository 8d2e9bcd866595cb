/* A client that has just been made: what waits for its nodes, and is not lost meanwhile. */
#include <criterion/criterion.h>

#include "stage.h"

/* The stage's client is fresh, and somebody's token is on every node. */
static redlock_lease *take_over(struct stage *s)
{
    redlock_lease_options options = stage_lease_options();
    redlock_lease *lease = NULL;
    options.watchdog = false;
    stage_open_fresh(s, 3);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s->servers, i, "SET job token PX 60000");
    redlock_client_free(s->client);
    s->client = stage_client(s, NULL);
    cr_assert_eq(redlock_adopt(s->client, "job", 3, "token", 0, &options, &lease),
                 REDLOCK_OK);
    return lease;
}

static void free_lease(redlock_lease *lease, const redlock_result *result, void *arg)
{
    told_note(lease, result, arg);
    redlock_lease_free(lease);
}

Test(fresh, an_extension_that_a_release_replaces_may_free_the_lease)
{
    struct stage s;
    struct told extended = {0}, released = {0};
    redlock_lease *lease = take_over(&s);
    cr_assert_eq(redlock_extend(lease, 0, free_lease, &extended), REDLOCK_OK);
    cr_assert_eq(redlock_release(lease, told_note, &released), REDLOCK_OK);
    EXPECT_TOLD(&s, &extended, REDLOCK_CANCELLED);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "job", NULL) == 3);
    cr_assert_eq(released.times, 0, "its lease was freed first");
    stage_close(&s);
}

static void drained(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    cr_assert(clean);
    *(bool *)arg = true;
}

Test(fresh, a_drain_waits_for_a_release_that_waits_for_the_nodes)
{
    struct stage s;
    bool done = false;
    redlock_lease *lease = take_over(&s);
    cr_assert_eq(redlock_release(lease, NULL, NULL), REDLOCK_OK);
    redlock_lease_free(lease);
    cr_assert_eq(redlock_client_drain(s.client, LOOP_PATIENCE_MS, drained, &done),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, done);
    cr_assert_geq(servers_with(&s.servers, "job", NULL), 2);
    stage_settle(&s); /* one that greets late is told late */
    stage_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "job", NULL), 3);
    stage_close(&s);
}

Test(fresh, time_counts_only_when_the_loop_runs)
{
    struct stage s;
    struct told told = {0};
    redlock_options options = stage_options();
    redlock_lease *lease = NULL;
    options.connect_timeout_ms = 3000; /* enough to connect, on any machine */
    stage_open_fresh_with(&s, 3, &options);
    /* A program that has much to do before it runs its loop. */
    loop_block(options.connect_timeout_ms + 100);
    cr_assert_eq(redlock_acquire(s.client, "job", 3, NULL, told_note, &told, &lease),
                 REDLOCK_OK);
    EXPECT_TOLD(&s, &told, REDLOCK_OK);
    redlock_lease_free(lease);
    stage_close(&s);
}
