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

Test(restart, does_not_count_for_the_longest_ttl)
{
    struct quorum s;
    redlock_options options = forgetful();
    redlock_lease_options lease_options = short_lease();
    quorum_open_with(&s, 3, &options);
    int64_t before = loop_clock_ms();
    servers_restart(&s.servers, 1);
    LOOP_UNTIL(s.base, quorum_is(s.client, 1, "quarantined"));
    cr_assert_eq(quorum_link(s.client, 1)->fault, REDLOCK_FAULT_QUARANTINE);
    redlock_lease *lease = quorum_hold(&s, "job", &lease_options);
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "granted") == 2);
    if (loop_clock_ms() - before < MAX_TTL) { /* or this machine is very slow */
        cr_assert_eq(quorum_node(lease, 1)->verdict, REDLOCK_VERDICT_ABSENT);
        cr_assert_eq(quorum_node(lease, 1)->fault, REDLOCK_FAULT_QUARANTINE);
    }
    LOOP_UNTIL(s.base, quorum_is(s.client, 1, "ready"));
    cr_assert_geq(loop_clock_ms() - before, MAX_TTL);
    quorum_free_lease(&s, lease);
    lease = quorum_hold(&s, "again", &lease_options);
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "granted") == 3);
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}

/* Two of three that forgot at once would grant a held lock: no client gets it meanwhile. */
Test(restart, of_a_majority_grants_no_lock_twice)
{
    struct quorum s;
    struct reported reported;
    redlock_options options = forgetful();
    redlock_lease_options lease_options = short_lease();
    lease_options.watchdog = false;
    quorum_open_with(&s, 3, &options);
    redlock_client *other = s.client;
    quorum_await_ready(&s);
    s.client = quorum_client(&s, &options);
    redlock_lease *held = quorum_hold(&s, "job", &lease_options);
    redlock_client *holder = s.client;
    s.client = other;
    int64_t before = loop_clock_ms();
    servers_restart(&s.servers, 0);
    servers_restart(&s.servers, 1);
    lease_options.wait_ms = LOOP_PATIENCE_MS;
    redlock_lease *lease = quorum_acquire(&s, "job", &lease_options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_OK);
    cr_assert_eq(redlock_valid_ms(held), 0, "two hold it");
    cr_assert_geq(loop_clock_ms() - before, MAX_TTL);
    redlock_lease_free(held);
    redlock_lease_free(lease);
    redlock_client_free(holder);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    quorum_close(&s);
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

/*
 * A minority forgets under a holder: its next extension recreates the keys, and the lock
 * goes on.
 */
Test(restart, of_a_minority_while_held)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_options client_options = quorum_options();
    client_options.durable = true;
    redlock_lease_options options = quorum_quiet_options();
    reported_on_lost(&options, &lost);
    quorum_open_with(&s, 5, &client_options);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    servers_restart(&s.servers, 1);
    servers_restart(&s.servers, 3);
    LOOP_UNTIL(s.base,
               !quorum_is(s.client, 1, "ready") && !quorum_is(s.client, 3, "ready"));
    quorum_await_ready(&s);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 3);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 3);
    cr_assert_eq(quorum_count_votes(lease, "recreated"), 2);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 5);
    cr_assert_eq(lost.times, 0);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    quorum_expect_empty(&s);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/*
 * A recreated key is no grant: with three nodes that forgot, the lock is lost, whatever is
 * recreated.
 */
Test(restart, of_a_majority_while_held)
{
    struct quorum s;
    struct reported lost = {0}, reported = {0};
    redlock_options client_options = quorum_options();
    client_options.durable = true;
    redlock_lease_options options = quorum_quiet_options();
    reported_on_lost(&options, &lost);
    quorum_open_with(&s, 5, &client_options);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    servers_do_first(&s.servers, 3, "FLUSHALL");
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_GONE);
    cr_assert_eq(lost.times, 1);
    cr_assert_eq(lost.result.code, REDLOCK_GONE);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}

/*
 * Three of five restart with these words on their command lines, and are refused for this
 * fault from then on. The lease is lost because of their greetings, not at its deadline.
 */
static void expect_lost_to_refused(const char *const *word, const char *fault)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 60000;
    reported_on_lost(&options, &lost);
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++) {
        servers_do(&s.servers, i, "CONFIG SET rdbcompression no");
        servers_do(&s.servers, i, "DEBUG POPULATE 1000 filler 2000");
        servers_do(&s.servers, i, "SAVE");
        servers_kill(&s.servers, i);
        for (size_t j = 0; word[j]; j++)
            s.servers.server[i].word[j] = word[j];
        servers_launch(&s.servers, i);
    }
    LOOP_UNTIL(s.base, lost.times > 0);
    cr_assert_eq(lost.times, 1);
    cr_assert_eq(lost.result.code, REDLOCK_GONE, "told %s",
                 redlock_code_name(lost.result.code));
    cr_assert_eq(redlock_valid_ms(lease), 0);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base,
                   strcmp(redlock_fault_name(quorum_link(s.client, i)->fault), fault) == 0);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(restart, of_a_majority_as_replicas_while_held)
{
    static const char *const word[] = {"--replicaof", "127.0.0.1 1", NULL};
    expect_lost_to_refused(word, "replica");
}

/* Each key takes 100 ms to load, and INFO is executed between two. */
Test(restart, of_a_majority_that_loads_while_held)
{
    static const char *const word[] = {"--key-load-delay", "100000",
                                       "--loading-process-events-interval-bytes", "1024",
                                       NULL};
    expect_lost_to_refused(word, "loading");
}

/* The watchdog repairs a node by itself once its quarantine has passed. */
Test(restart, is_repaired_by_the_watchdog)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_options client_options = forgetful();
    redlock_lease_options options = short_lease();
    reported_on_lost(&options, &lost);
    quorum_open_with(&s, 3, &client_options);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    servers_restart(&s.servers, 2);
    LOOP_UNTIL(s.base, servers_text(&s.servers, 2, redlock_token(lease), "GET job"));
    cr_assert_eq(lost.times, 0);
    redlock_lease_free(lease);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    quorum_close(&s);
}

/* Not durable: the restart alone proves the loss, long before any extension or deadline. */
Test(restart, of_a_majority_is_reported_to_the_holder_at_once)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 20 * LOOP_PATIENCE_MS;
    reported_on_lost(&options, &lost);
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    servers_restart(&s.servers, 0);
    servers_restart(&s.servers, 1);
    LOOP_UNTIL(s.base, quorum_is(s.client, 0, "quarantined"));
    LOOP_UNTIL(s.base, quorum_is(s.client, 1, "quarantined"));
    cr_assert_eq(lost.times, 0, "three of five still store the token");
    cr_assert_gt(redlock_valid_ms(lease), 0);
    servers_restart(&s.servers, 4);
    EXPECT_REPORTED(&s, &lost, REDLOCK_GONE);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}
