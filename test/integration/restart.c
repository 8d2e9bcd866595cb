/*
 * Servers that restart: the client waits until every lock that they may have forgotten has
 * expired.
 */
#include <criterion/criterion.h>

#include "quorum.h"

#define MAX_TTL 1500

static redlock_options forgetful(void)
{
    redlock_options options = quorum_options();
    options.max_ttl_ms = MAX_TTL;
    return options;
}

static redlock_lease_options short_lease(void)
{
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = MAX_TTL;
    return options;
}

/* A refused caller gets the time until when; with a majority that is down it is unknown. */
Test(restart, of_a_majority_reports_the_rest_of_the_quarantine)
{
    enum { TTL = 60000 };
    struct quorum s;
    struct reported reported;
    quorum_open(&s, 3);
    quorum_await_ready(&s);
    servers_restart(&s.servers, 0);
    servers_restart(&s.servers, 1);
    servers_kill(&s.servers, 2);
    for (unsigned i = 0; i < 2; i++)
        LOOP_UNTIL(s.base, quorum_is(s.client, i, "quarantined"));
    LOOP_UNTIL(s.base, !quorum_is(s.client, 2, "ready"));
    cr_assert(quorum_link(s.client, 0)->remaining_us > TTL / 2 * 1000);
    redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    cr_assert(reported.result.remaining_ms > TTL / 2, "%d",
              (int)reported.result.remaining_ms);
    cr_assert_leq(reported.result.remaining_ms, 2 * TTL);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(quorum_node(lease, i)->fault, REDLOCK_FAULT_QUARANTINE);
        cr_assert(quorum_node(lease, i)->remaining_us > TTL / 2 * 1000);
        cr_assert_leq(quorum_node(lease, i)->remaining_us,
                      reported.result.remaining_ms * 1000);
    }
    cr_assert_eq(quorum_node(lease, 2)->remaining_us, REDLOCK_UNKNOWN);
    redlock_lease_free(lease);
    servers_kill(&s.servers, 1);
    LOOP_UNTIL(s.base, !quorum_is(s.client, 1, "quarantined"));
    lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(reported.result.remaining_ms, REDLOCK_UNKNOWN);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(restart, of_a_durable_server_counts_at_once)
{
    struct quorum s;
    redlock_options options = forgetful();
    options.durable = true;
    quorum_open_with(&s, 3, &options);
    servers_restart(&s.servers, 1);
    LOOP_UNTIL(s.base, !quorum_is(s.client, 1, "ready"));
    while (!quorum_is(s.client, 1, "ready")) {
        cr_assert_not(quorum_is(s.client, 1, "quarantined"));
        loop_pass(s.base);
    }
    redlock_lease_options lease_options = short_lease();
    redlock_lease *lease = quorum_hold(&s, "job", &lease_options);
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "granted") == 3);
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

/* A process on a new connection has forgotten nothing. */
Test(restart, of_a_connection_only)
{
    struct quorum s;
    redlock_options options = forgetful();
    quorum_open_with(&s, 3, &options);
    for (int i = 0; i < 5; i++) {
        servers_do(&s.servers, 1, "CLIENT KILL TYPE normal SKIPME yes");
        LOOP_UNTIL(s.base, !quorum_is(s.client, 1, "ready"));
        cr_assert_eq(quorum_link(s.client, 1)->fault, REDLOCK_FAULT_CLOSED);
        while (!quorum_is(s.client, 1, "ready")) {
            cr_assert_not(quorum_is(s.client, 1, "quarantined"));
            loop_pass(s.base);
        }
    }
    quorum_close(&s);
}

/* A connection that is cut under a holder does not change its lock. */
Test(restart, of_all_connections_while_held)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_lease_options options = quorum_lease_options();
    reported_on_lost(&options, &lost);
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    servers_do_first(&s.servers, 3, "CLIENT KILL TYPE normal SKIPME yes");
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, !quorum_is(s.client, i, "ready"));
    quorum_await_ready(&s);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    quorum_expect_empty(&s);
    cr_assert_eq(lost.times, 0);
    redlock_lease_free(lease);
    quorum_close(&s);
}
