/* Acquiring: one round, its timeouts, its deadline, and its cancellation. */
#include "lease_fixture.h"

#define DRIFT(ttl) ((ttl) / 100 + RL_DRIFT_FLOOR)

static const rl_time start = RL_SECOND;
static const rl_time ttl = 10 * RL_SECOND;
static const rl_time valid = start + ttl - DRIFT(ttl);

Test(acquire, sends_to_all_ready_nodes_at_once)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(5, 3);
    fixture_init(&lease_fixture, &params);
    lease_fixture.view.ready = 0xffffff15; /* bits beyond n mean nothing */
    fixture_event(&lease_fixture, RL_EVENT_START);
    cr_assert_eq(lease_fixture.update.send, 0x15);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_ACQUIRE);
    cr_assert_eq(lease_fixture.update.reports, 0);
    cr_assert_eq(lease_fixture.ballot[1].vote, RL_VOTE_ABSENT,
                 "a missing node refuses at once");
    cr_assert_eq(lease_fixture.ballot[0].vote, RL_VOTE_WAITING);
    fixture_votes(&lease_fixture, 0x01, RL_VOTE_HELD);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ABORTING, "1, 2 and 4 do not grant");
}

Test(acquire, sends_nothing_when_a_quorum_is_out_of_reach)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(5, 3);
    fixture_init(&lease_fixture, &params);
    lease_fixture.view.ready = 0xffffffe3;
    lease_fixture.view.ready &= ~UINT32_C(2);
    fixture_event(&lease_fixture, RL_EVENT_START);
    cr_assert_eq(lease_fixture.update.send, 0);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_FAILED);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_NO_QUORUM);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER,
                 "nothing was set, nothing is left");
    for (unsigned node = 0; node < 5; node++)
        cr_assert_eq(lease_fixture.ballot[node].vote, RL_VOTE_ABSENT);
}

Test(acquire, joins_only_the_queues_of_nodes_that_may_vote)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(5, 3);
    fixture_init(&lease_fixture, &params);
    lease_fixture.view.ready = 0x15;
    lease_fixture.view.open = 0x1f;
    fixture_event(&lease_fixture, RL_EVENT_ENQUEUE);
    cr_assert_eq(lease_fixture.update.send, 0x15);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
    cr_assert_eq(lease_fixture.ballot[1].vote, RL_VOTE_ABSENT);
}

Test(acquire, the_outcome_has_the_number_of_grants)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x0d);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_HELD);
    cr_assert_eq(lease_fixture.lease.holding, 0x0d);
    cr_assert_eq(lease_fixture.lease.valid, valid);
    fixture_vote(&lease_fixture, 1, RL_VOTE_GRANTED);
    fixture_vote(&lease_fixture, 4, RL_VOTE_HELD);
    cr_assert_eq(lease_fixture.lease.holding, 0x0f,
                 "stragglers are read in the background");
    cr_assert_eq(lease_fixture.lease.dirty, 0x0f);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_HELD), 1);
}

Test(acquire, each_node_has_its_own_timeout)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(5, 3);
    fixture_init(&lease_fixture, &params);
    for (unsigned node = 0; node < 5; node++)
        lease_fixture.round_trip[node] = (node + 1) * 20 * RL_MS;
    fixture_event(&lease_fixture, RL_EVENT_START);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.view.now, start + RL_NODE_TIMEOUT_MIN,
                 "the first step is early");
    cr_assert_eq(lease_fixture.lease.round.waiting, 0x1f);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.view.now, start + 80 * RL_MS);
    cr_assert_eq(lease_fixture.ballot[0].vote, RL_VOTE_SILENT);
    cr_assert_eq(lease_fixture.ballot[0].fault, RL_FAULT_TIMEOUT);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ACQUIRING);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.view.now, start + 240 * RL_MS);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ABORTING, "three of five are silent");
}

Test(acquire, a_silent_node_may_still_grant_while_the_round_is_open)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(3, 2);
    fixture_init(&lease_fixture, &params);
    lease_fixture.round_trip[1] = RL_SECOND;
    lease_fixture.round_trip[2] = RL_SECOND;
    fixture_event(&lease_fixture, RL_EVENT_START);
    fixture_tick(&lease_fixture);
    fixture_vote(&lease_fixture, 0, RL_VOTE_GRANTED);
    fixture_vote(&lease_fixture, 1, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_HELD);
    cr_assert_eq(lease_fixture.lease.holding, 0x3);
}

Test(timeout, follows_the_round_trip_between_its_bounds)
{
    cr_assert_eq(rl_lease_node_timeout(0, ttl, 0), 50 * RL_MS);
    cr_assert_eq(rl_lease_node_timeout(0, ttl, 12 * RL_MS), 50 * RL_MS);
    cr_assert_eq(rl_lease_node_timeout(0, ttl, 13 * RL_MS), 52 * RL_MS);
    cr_assert_eq(rl_lease_node_timeout(0, ttl, 200 * RL_MS), 800 * RL_MS);
    cr_assert_eq(rl_lease_node_timeout(0, ttl, 250 * RL_MS), ttl / 10);
    cr_assert_eq(rl_lease_node_timeout(0, ttl, RL_SECOND), ttl / 10);
    cr_assert_eq(rl_lease_node_timeout(7, ttl, RL_SECOND), 7);
}

Test(timeout, never_exceeds_its_share_of_a_short_ttl)
{
    for (rl_time round_trip = 0; round_trip < 100 * RL_MS; round_trip += RL_MS)
        cr_assert_eq(rl_lease_node_timeout(0, 100 * RL_MS, round_trip), 10 * RL_MS);
}

Test(acquire, a_round_that_is_won_too_late_is_lost)
{
    struct rl_lease_params params = fixture_params(3, 2);
    params.node_timeout = 2 * ttl;
    for (int early = 0; early < 2; early++) {
        struct lease_fixture lease_fixture;
        params.min_validity = 3 * RL_SECOND;
        fixture_start_with(&lease_fixture, &params);
        fixture_vote(&lease_fixture, 0, RL_VOTE_GRANTED);
        cr_assert_eq(rl_lease_next(&lease_fixture.lease), valid - params.min_validity);
        fixture_at(&lease_fixture, valid - params.min_validity - early);
        fixture_vote(&lease_fixture, 1, RL_VOTE_GRANTED);
        if (early) {
            cr_assert_eq(lease_fixture.update.reports, RL_REPORT_HELD);
            continue;
        }
        cr_assert_eq(lease_fixture.update.send, 0x7);
        cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
        fixture_votes(&lease_fixture, 0x7, RL_VOTE_GRANTED);
        cr_assert_eq(lease_fixture.update.reports, RL_REPORT_FAILED);
        cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_EXPIRED);
    }
}

/* Votes that arrive with the deadline cannot save the attempt, but they are recorded. */
Test(acquire, a_reply_that_comes_too_late_is_still_explained)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(3, 2);
    params.node_timeout = 2 * ttl;
    fixture_start_with(&lease_fixture, &params);
    fixture_at(&lease_fixture, valid);
    fixture_answer(&lease_fixture, lease_fixture.sent, 1, RL_VOTE_HELD, 5000);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_EXPIRED);
    cr_assert_eq(lease_fixture.ballot[1].vote, RL_VOTE_HELD);
    cr_assert_eq(lease_fixture.ballot[1].pttl, 5000);
}

Test(cancel, is_reported_also_when_the_time_is_over)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(3, 2);
    params.node_timeout = 2 * ttl;
    fixture_start_with(&lease_fixture, &params);
    fixture_at(&lease_fixture, valid);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_FAILED);
    cr_assert_eq(lease_fixture.update.send, 0x7);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_CANCELLED);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.reports, 0);
}

Test(acquire, is_not_won_if_lost_would_follow_at_once)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(1, 1);
    params.margin = 3 * RL_SECOND;
    fixture_start_with(&lease_fixture, &params);
    fixture_at(&lease_fixture, valid - params.margin - 1);
    fixture_vote(&lease_fixture, 0, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_HELD), 0);
}

/* A TTL that is not above its own drift can never be held. */
Test(acquire, a_tiny_ttl_expires_before_it_is_held)
{
    static const rl_time tiny[] = {0, 1, RL_MS, 2 * RL_MS};
    for (size_t i = 0; i < sizeof(tiny) / sizeof(tiny[0]); i++) {
        struct lease_fixture lease_fixture;
        struct rl_lease_params params = fixture_params(1, 1);
        params.ttl = tiny[i];
        fixture_start_with(&lease_fixture, &params);
        fixture_vote(&lease_fixture, 0, RL_VOTE_GRANTED);
        cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_HELD), 0);
        cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_EXPIRED);
    }
}

Test(acquire, the_longest_hold_also_bounds_the_first_deadline)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(3, 2);
    params.max_hold = 4 * RL_SECOND;
    fixture_start_with(&lease_fixture, &params);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.valid, start + 4 * RL_SECOND);
    fixture_tick(&lease_fixture);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_LOST);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_MAX_HOLD);
}

Test(cancel, is_reported_at_once_and_released_in_the_background)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 5);
    struct rl_update asked = lease_fixture.sent;
    fixture_vote(&lease_fixture, 0, RL_VOTE_GRANTED);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_FAILED);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_CANCELLED);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0x1f, "the silent ones too");
    for (unsigned node = 1; node < 5; node++)
        fixture_answer(&lease_fixture, asked, node, RL_VOTE_GRANTED, -1);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_HELD), 0,
                 "a cancelled attempt stays cancelled");
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
}

Test(cancel, while_aborting_reports_without_waiting)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 3);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_HELD);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ABORTING);
    cr_assert_eq(lease_fixture.update.reports, 0);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_FAILED);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_CANCELLED);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.reports, 0);
}

Test(cancel, before_the_start_sends_nothing)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(3, 2);
    fixture_init(&lease_fixture, &params);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
}

Test(disown, leaves_the_keys_on_the_nodes)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x7);
    fixture_event(&lease_fixture, RL_EVENT_DISOWN);
    cr_assert_eq(lease_fixture.update.send, 0);
    cr_assert_eq(lease_fixture.update.reports, 0);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
    fixture_at(&lease_fixture, start + 2 * ttl);
    cr_assert_eq(fixture_event(&lease_fixture, RL_EVENT_TICK).send, 0);
}

Test(ballots, explain_which_node_replied_what_and_when)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 3);
    fixture_answer(&lease_fixture, lease_fixture.sent, 0, RL_VOTE_HELD, 1234);
    struct rl_lease_event event = {.type = RL_EVENT_VOTE,
                                   .took = 7,
                                   .node = 1,
                                   .seq = lease_fixture.sent.seq,
                                   .command = RL_CMD_ACQUIRE,
                                   .vote = RL_VOTE_ERROR,
                                   .fault = RL_FAULT_OOM,
                                   .pttl = -1};
    fixture_step(&lease_fixture, event);
    cr_assert_eq(lease_fixture.ballot[0].vote, RL_VOTE_HELD);
    cr_assert_eq(lease_fixture.ballot[0].pttl, 1234);
    cr_assert_eq(lease_fixture.ballot[1].vote, RL_VOTE_ERROR);
    cr_assert_eq(lease_fixture.ballot[1].latency, 7);
    cr_assert_eq(lease_fixture.ballot[1].fault, RL_FAULT_OOM);
    cr_assert_eq(lease_fixture.ballot[1].pttl, -1);
}
