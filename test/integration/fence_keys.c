/* The fence that each node stores: the next fencing token is above it. */
#include <criterion/criterion.h>
#include <inttypes.h>

#include "quorum.h"

/* One node stores a later fence, as after a round that was lost: a quorum must store it. */
Test(fence_keys, raise_fence_when_one_node_stores_a_later_one)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    int64_t later = quorum_time_us(&s, 0) + 2000000;
    servers_do(&s.servers, 0, "SET job!fence %" PRId64, later);
    servers_stop(&s.servers, 2); /* so that node 0 is needed */
    redlock_lease *lease = quorum_hold_fenced(&s, "job");
    cr_assert_eq(redlock_fence(lease), later + 1);
    cr_assert_eq(quorum_stored_fence(&s, 0, "job"), later + 1);
    cr_assert_eq(quorum_stored_fence(&s, 1, "job"), later + 1,
                 "held before a quorum stores it");
    servers_cont(&s.servers, 2);
    quorum_drain(&s);
    quorum_free_lease(&s, lease);
    lease = quorum_hold_fenced(&s, "job");
    cr_assert_gt(redlock_fence(lease), later + 1);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* Further ahead than any clock may be: that node has no vote on this key. */
Test(fence_keys, ahead_of_the_clock)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    int64_t later = quorum_time_us(&s, 1) + QUORUM_SLACK_US;
    servers_do(&s.servers, 1, "SET job!fence %" PRId64, later);
    redlock_lease *lease = quorum_hold_fenced(&s, "job");
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_eq(quorum_node(lease, 1)->verdict, REDLOCK_VERDICT_ERROR);
    cr_assert_eq(quorum_node(lease, 1)->fault, REDLOCK_FAULT_AHEAD);
    cr_assert_lt(redlock_fence(lease), later);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* It is kept for as long as the longest lock that was ever fenced with it. */
Test(fence_keys, fence_is_kept_for_a_day)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold_fenced(&s, "job");
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_gt(servers_number(&s.servers, i, "TTL job!fence"), 86400 - 60);
        servers_do(&s.servers, i, "PERSIST job!fence");
    }
    quorum_free_lease(&s, lease);
    quorum_free_lease(&s, quorum_hold_fenced(&s, "job"));
    for (unsigned i = 0; i < 3; i++)
        cr_assert_gt(servers_number(&s.servers, i, "TTL job!fence"), 86400 - 60);
    quorum_close(&s);
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

Test(fence_keys, fence_that_is_not_a_decimal)
{
    fence_that_is("abc");
}

/* Lua reads it as a number that is neither above nor below any other. */
Test(fence_keys, fence_that_is_nan)
{
    fence_that_is("nan");
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
Test(fence_keys, has_no_fencing_token_before_it_is_held)
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
