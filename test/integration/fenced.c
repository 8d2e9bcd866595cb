/* Fenced locks on real servers: their fencing tokens rise in every case. */
#include <criterion/criterion.h>

#include "quorum.h"

/* --- operations --- */

Test(fenced, acquired_extended_and_released)
{
    struct quorum s;
    quorum_open_fenced(&s, 5, NULL);
    redlock_lease *lease = quorum_hold_fenced(&s, "job");
    int64_t fence = redlock_fence(lease), now = quorum_time_us(&s, 0);
    cr_assert(fence > now - QUORUM_SLACK_US && fence < now + QUORUM_SLACK_US,
              "it is the nodes' time");
    cr_assert_eq(strncmp(redlock_token(lease), "f:", 2), 0);
    cr_assert_gt(redlock_valid_ms(lease), 50000);
    quorum_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(quorum_stored_fence(&s, i, "job"), fence);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_eq(redlock_fence(lease), fence, "it is the same hold");
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_expect_fences(&s, 1);
    quorum_close(&s);
}

Test(fenced, excludes_as_any_lock_does)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = quorum_quiet_fenced_options();
    quorum_open_fenced(&s, 3, NULL);
    redlock_client *other = quorum_client(&s, NULL), *holder = s.client;
    redlock_lease *lease = quorum_hold_fenced(&s, "job");
    quorum_drain(&s);
    s.client = other;
    quorum_await_ready(&s);
    redlock_lease *refused = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_eq(redlock_fence(refused), 0);
    cr_assert_str_eq(quorum_node(refused, 0)->holder, "quorum");
    redlock_lease_free(refused);
    options.fenced = false; /* a plain lock of the same key */
    refused = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    redlock_lease_free(refused);
    s.client = holder;
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    redlock_client_free(other);
    quorum_close(&s);
}

Test(fenced, watchdog_extends)
{
    struct quorum s;
    struct reported extended = {0};
    redlock_lease_options options = quorum_fenced_options();
    options.ttl_ms = 1500;
    options.on_extended = reported_note;
    options.extended_arg = &extended;
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    int64_t fence = redlock_fence(lease);
    LOOP_UNTIL(s.base, extended.times >= 3);
    cr_assert_eq(redlock_fence(lease), fence);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    redlock_lease_free(lease);
    quorum_expect_fences(&s, 1);
    quorum_close(&s);
}

/* --- cost --- */

static long calls_of(struct quorum *s, unsigned i, const char *command)
{
    const char *stat = servers_info(&s->servers, i, "commandstats", command);
    long calls = 0;
    if (stat)
        sscanf(stat, "calls=%ld", &calls);
    return calls;
}

#define LOCKS 100

Test(fenced, costs_one_script_per_node_and_acquire)
{
    struct quorum s;
    redlock_lease *lease[LOCKS];
    quorum_open_fenced(&s, 5, NULL);
    servers_do_first(&s.servers, 5, "CONFIG RESETSTAT");
    for (int i = 0; i < LOCKS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key:%d", i);
        lease[i] = quorum_hold_fenced(&s, key);
    }
    quorum_drain(&s);
    for (unsigned i = 0; i < 5; i++) {
        long scripts = calls_of(&s, i, "cmdstat_eval") + calls_of(&s, i, "cmdstat_evalsha");
        cr_assert(scripts >= LOCKS && scripts <= LOCKS + LOCKS / 100, "%ld on server %u",
                  scripts, i);
        cr_assert_leq(calls_of(&s, i, "cmdstat_eval"), 1);
    }
    for (int i = 0; i < LOCKS; i++)
        redlock_lease_free(lease[i]);
    quorum_expect_fences(&s, LOCKS);
    quorum_close(&s);
}

/* --- scripts and late commands --- */

Test(fenced, scripts_may_be_flushed_at_any_time)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    int64_t last = 0;
    for (int i = 0; i < 5; i++) {
        servers_do_first(&s.servers, s.servers.n, "SCRIPT FLUSH");
        redlock_lease *lease = quorum_hold_fenced(&s, "job");
        quorum_drain(&s);
        cr_assert_gt(redlock_fence(lease), last);
        last = redlock_fence(lease);
        servers_do_first(&s.servers, s.servers.n, "SCRIPT FLUSH");
        cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
        quorum_drain(&s);
        cr_assert_eq(quorum_count_votes(lease, "granted"), 3);
        servers_do_first(&s.servers, s.servers.n, "SCRIPT FLUSH");
        cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
        quorum_expect_fences(&s, 1);
    }
    for (unsigned i = 0; i < 3; i++)
        cr_assert(quorum_is(s.client, i, "ready"), "NOSCRIPT is no fault of a node");
    quorum_close(&s);
}

/* --- plain locks --- */

/*
 * A client of plain locks works on nodes that are admitted, are not, or lost their marker.
 */
Test(fenced, plain_clients_are_not_affected)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_lease_options options = quorum_lease_options();
    reported_on_lost(&options, &lost);
    quorum_open(&s, 3);
    redlock_client *plain = s.client, *fenced = quorum_client(&s, NULL);
    redlock_lease *job = NULL;
    s.client = fenced;
    cr_assert_eq(quorum_admit(&s, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
    s.client = plain;
    redlock_lease *lease = quorum_hold(&s, "plain", &options);
    s.client = fenced;
    job = quorum_hold_fenced(&s, "job");
    quorum_drain(&s);
    servers_do(&s.servers, 0, "DEL !marker");
    cr_assert_eq(quorum_extend(&s, job, 0), REDLOCK_OK);
    LOOP_UNTIL(s.base, quorum_member_is(fenced, 0, "member_quarantine"));
    s.client = plain;
    quorum_drain(&s);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 3);
    cr_assert_eq(lost.times, 0);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(quorum_is(plain, i, "ready"));
    redlock_lease_free(job);
    redlock_client_free(fenced);
    servers_do_first(&s.servers, 3, "DEL !marker");
    redlock_lease_free(quorum_hold(&s, "another", &options));
    loop_run_for(s.base, 600);
    cr_assert_eq(servers_with(&s.servers, "!marker", NULL), 3, "it marks no node");
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* The nodes execute what was sent to them now; their replies are not read yet. */
static void answer_unread(struct quorum *s)
{
    servers_cont_first(&s->servers, s->servers.n);
    while (servers_with(&s->servers, "job", NULL) > 0)
        ;
    servers_settle(&s->servers);
    servers_stop_first(&s->servers, s->servers.n);
}

/*
 * The grants of the acquire have different fences: the lease is held once a quorum stores
 * the largest. During that round, and if it fails, there is no fencing token.
 */
Test(fenced, has_no_fencing_token_before_it_is_held)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_options client_options = quorum_options();
    redlock_lease_options options = quorum_quiet_fenced_options();
    client_options.node_timeout_ms = 1000;
    quorum_open_fenced(&s, 3, &client_options);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "SET job!fence %lld PX 60000",
                   (long long)quorum_time_us(&s, i) + 1000000 * (i + 1));
    servers_stop_first(&s.servers, 3);
    redlock_lease *lease = quorum_start(&s, "job", &options, &reported);
    cr_assert_eq(redlock_fence(lease), 0);
    event_base_loop(s.base, EVLOOP_NONBLOCK); /* the acquire is written */
    answer_unread(&s);
    LOOP_UNTIL(s.base, reported.times > 0 || redlock_fence(lease) > 0);
    cr_assert_eq(reported.times, 1, "it has a fence while the largest is being stored");
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(redlock_fence(lease), 0, "after that failed");
    servers_cont_first(&s.servers, 3);
    redlock_lease_free(lease);
    quorum_expect_fences(&s, 1);
    quorum_close(&s);
}

/* A server that hung during the acquire: a command that it reads late locks nothing. */
static void acquire_while_it_hangs(bool knows_the_script)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    quorum_free_lease(&s, quorum_hold_fenced(&s, "first"));
    if (!knows_the_script) /* then it is sent again when it is known to be late */
        servers_do(&s.servers, 2, "SCRIPT FLUSH");
    servers_stop(&s.servers, 2);
    redlock_lease *lease = quorum_hold_fenced(&s, "job");
    int64_t late = redlock_fence(lease) + 1100000;
    LOOP_UNTIL(s.base, quorum_time_us(&s, 0) > late);
    servers_cont(&s.servers, 2);
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "error") == 1);
    cr_assert_eq(quorum_node(lease, 2)->fault, REDLOCK_FAULT_LATE);
    cr_assert(servers_text(&s.servers, 2, NULL, "GET job"));
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 2);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(fenced, does_not_lock_on_a_node_that_hung_for_longer_than_a_second)
{
    acquire_while_it_hangs(true);
}

Test(fenced, does_not_lock_with_a_script_that_is_resent_after_a_second)
{
    acquire_while_it_hangs(false);
}

static void fence_that_is(const char *text)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = quorum_quiet_fenced_options();
    quorum_open_fenced(&s, 3, NULL);
    servers_do(&s.servers, 1, "SET job!fence %s", text);
    redlock_lease *lease = quorum_hold_fenced(&s, "job");
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_eq(quorum_node(lease, 1)->verdict, REDLOCK_VERDICT_ERROR, "%s", text);
    cr_assert_eq(quorum_node(lease, 1)->fault, REDLOCK_FAULT_FENCE, "%s", text);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 2);
    quorum_free_lease(&s, lease);
    servers_do(&s.servers, 2, "SET job!fence %s", text);
    lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM, "%s", text);
    quorum_free_lease(&s, lease);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(quorum_is(s.client, i, "ready"), "the others' locks are not its fault");
    redlock_lease_free(quorum_hold_fenced(&s, "other"));
    quorum_close(&s);
}

/* Lua reads it as a number that is neither above nor below any other. */
Test(fenced, fence_that_is_nan)
{
    fence_that_is("nan");
}
