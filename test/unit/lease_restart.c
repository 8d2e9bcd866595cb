/* Nodes that were seen to restart while a lease depended on them. */
#include "lease_fixture.h"

static void forget(struct lease_fixture *lease_fixture, unsigned node)
{
    fixture_step(lease_fixture, (struct rl_lease_event){.type = RL_EVENT_RESTARTED,
                                                        .node = (uint8_t)node});
}

Test(restarts, of_a_majority_lose_the_lease_at_once)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    forget(&lease_fixture, 0);
    forget(&lease_fixture, 0);
    forget(&lease_fixture, 1);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD,
                 "another client can have two of five");
    forget(&lease_fixture, 2);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_LOST);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_GONE);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, lease_fixture.view.now), 0);
}

Test(restarts, count_with_the_nodes_that_never_granted)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x7);
    fixture_vote(&lease_fixture, 3, RL_VOTE_HELD);
    fixture_vote(&lease_fixture, 4, RL_VOTE_ERROR);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
    forget(&lease_fixture, 0);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_LOST);
}

Test(restarts, of_a_node_whose_grant_is_not_used_yet_revoke_it)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 3);
    fixture_vote(&lease_fixture, 0, RL_VOTE_GRANTED);
    forget(&lease_fixture, 0);
    fixture_vote(&lease_fixture, 1, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ACQUIRING);
    fixture_vote(&lease_fixture, 2, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_HELD);
}

/* A new client could have node 3, which did not reply to us before, and two others. */
Test(restarts, before_a_node_has_replied_count_later)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 5);
    forget(&lease_fixture, 3);
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
    forget(&lease_fixture, 0);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
    forget(&lease_fixture, 1);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_LOST);
}

Test(restarts, are_repaired_by_an_extension_that_the_node_grants)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    forget(&lease_fixture, 0);
    forget(&lease_fixture, 1);
    fixture_event(&lease_fixture, RL_EVENT_EXTEND);
    for (unsigned node = 0; node < 5; node++)
        fixture_vote(&lease_fixture, node, RL_VOTE_GRANTED);
    forget(&lease_fixture, 2);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
}

/* The node granted before it forgot: with two others that is no majority of three. */
Test(restarts, revoke_the_grant_of_an_extension_that_is_not_decided)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x07);
    rl_time before = lease_fixture.lease.valid;
    fixture_wait(&lease_fixture, RL_SECOND);
    fixture_extend(&lease_fixture, 0);
    fixture_vote(&lease_fixture, 2, RL_VOTE_GRANTED);
    forget(&lease_fixture, 2);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 0);
    cr_assert_eq(lease_fixture.lease.valid, before);
    fixture_vote(&lease_fixture, 3, RL_VOTE_GRANTED);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 1);
    cr_assert_eq(lease_fixture.lease.holding, 0x0b);
}

Test(restarts, may_decide_an_extension)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x07);
    fixture_extend(&lease_fixture, 0);
    fixture_vote(&lease_fixture, 0, RL_VOTE_ERROR);
    fixture_vote(&lease_fixture, 1, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, 0);
    forget(&lease_fixture, 1);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_NOT_EXTENDED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
}

Test(restarts, are_not_undone_by_a_straggler)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x07);
    forget(&lease_fixture, 2);
    fixture_vote(&lease_fixture, 3, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.holding, 0x0b);
}

Test(restarts, count_with_the_stragglers_that_refuse_later)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x07);
    forget(&lease_fixture, 0);
    fixture_vote(&lease_fixture, 3, RL_VOTE_HELD);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
    fixture_vote(&lease_fixture, 4, RL_VOTE_HELD);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_LOST,
                 "another client holds three of five");
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_GONE);
}

Test(restarts, after_an_extension_was_won_leave_its_deadline)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    rl_time valid = lease_fixture.lease.valid;
    forget(&lease_fixture, 0);
    fixture_vote(&lease_fixture, 3, RL_VOTE_ERROR);
    fixture_vote(&lease_fixture, 4, RL_VOTE_ERROR);
    cr_assert_eq(lease_fixture.lease.valid, valid);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_NONE,
                 "it was won, and is not lost afterwards");
    cr_assert_eq(lease_fixture.lease.holding, 0x06);
}
