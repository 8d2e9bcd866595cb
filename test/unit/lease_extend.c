/* Extensions: which deadline a held lock may assume, and when. */
#include "lease_fixture.h"

#define DRIFT(ttl) ((ttl) / 100 + RL_DRIFT_FLOOR)

static const rl_time start = RL_SECOND;
static const rl_time ttl = 10 * RL_SECOND;

static rl_time valid_from(rl_time at)
{
    return at + ttl - DRIFT(ttl);
}

Test(extend, counts_at_a_majority_and_from_its_own_start)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x07);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(start));
    fixture_wait(&lease_fixture, 3 * RL_SECOND);
    rl_time asked = lease_fixture.view.now;
    fixture_extend(&lease_fixture, 0);
    cr_assert_eq(lease_fixture.update.send, 0x1f);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_EXTEND);
    cr_assert(lease_fixture.update.recreate);
    fixture_wait(&lease_fixture, 10 * RL_MS);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(start),
                 "two of five change nothing");
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 0);
    fixture_votes(&lease_fixture, 0x10, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(asked));
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 1);
    cr_assert_eq(lease_fixture.lease.holding, 0x13);
}

Test(extend, a_lost_round_leaves_the_old_deadline)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_wait(&lease_fixture, 3 * RL_SECOND);
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    fixture_votes(&lease_fixture, 0x1c, RL_VOTE_ERROR);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_NOT_EXTENDED), 1);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_NO_QUORUM);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(start));
}

Test(extend, without_a_quorum_of_nodes_nothing_is_sent)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    lease_fixture.view.ready = 0x03;
    fixture_extend(&lease_fixture, 0);
    cr_assert_eq(lease_fixture.update.send, 0);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_NOT_EXTENDED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(start));
    for (unsigned node = 0; node < 5; node++)
        cr_assert_eq(lease_fixture.ballot[node].vote,
                     node < 2 ? RL_VOTE_GRANTED : RL_VOTE_ABSENT, "node %u", node);
}

/*
 * The watchdog's round was sent with the old TTL: winning it proves nothing about the new
 * TTL.
 */
Test(extend, a_running_round_gives_the_ttl_that_it_was_sent_with)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_wait(&lease_fixture, RL_SECOND);
    rl_time asked = lease_fixture.view.now;
    fixture_extend(&lease_fixture, 0);
    struct rl_update first = lease_fixture.sent;
    fixture_extend(&lease_fixture, 6 * ttl);
    cr_assert_eq(lease_fixture.update.send, 0, "the first round is not decided yet");
    lease_fixture.view.ready = 0; /* so the round with the longer TTL cannot even be sent */
    for (unsigned node = 0; node < 3; node++)
        fixture_answer(&lease_fixture, first, node, RL_VOTE_GRANTED, -1);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(asked));
}

Test(extend, a_straggler_gives_the_ttl_that_it_was_sent_with)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    rl_time asked = lease_fixture.view.now;
    fixture_extend(&lease_fixture, 0);
    struct rl_update first = lease_fixture.sent;
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    lease_fixture.view.ready = 0;
    fixture_extend(&lease_fixture, 6 * ttl);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_NOT_EXTENDED);
    fixture_answer(&lease_fixture, first, 4, RL_VOTE_GRANTED, -1);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(asked));
    cr_assert_eq(lease_fixture.lease.ttl, ttl, "what was not sent is not the TTL");
}

Test(extend, a_second_request_waits_for_the_running_round)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_extend(&lease_fixture, 0);
    fixture_wait(&lease_fixture, RL_MS);
    fixture_extend(&lease_fixture, 2 * ttl);
    cr_assert_eq(lease_fixture.update.send, 0);
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.sent.command, RL_CMD_EXTEND);
    cr_assert_eq(lease_fixture.update.send, 0x1f,
                 "it is sent with the decision of the first");
    rl_time asked = lease_fixture.view.now;
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 2);
    cr_assert_eq(lease_fixture.lease.valid, asked + 2 * ttl - DRIFT(2 * ttl));
}

/* Where it arrives the key lives shorter, so the shorter deadline applies. */
Test(extend, a_shorter_ttl_counts_before_any_reply)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    rl_time brief = RL_SECOND;
    fixture_extend(&lease_fixture, brief);
    cr_assert_eq(lease_fixture.lease.valid, start + brief - DRIFT(brief));
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_ERROR);
    cr_assert_eq(lease_fixture.lease.valid, start + brief - DRIFT(brief));
}

Test(extend, a_silent_node_may_complete_a_round_that_was_reported_lost)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_wait(&lease_fixture, RL_SECOND);
    rl_time asked = lease_fixture.view.now;
    fixture_extend(&lease_fixture, 0);
    struct rl_update round = lease_fixture.sent;
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_NOT_EXTENDED, "three are silent");
    fixture_wait(&lease_fixture, RL_MS);
    fixture_answer(&lease_fixture, round, 2, RL_VOTE_GRANTED, -1);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(asked));
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 0,
                 "the result was reported already");
}

Test(extend, the_same_with_nodes_that_granted_the_round_before)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x07);
    fixture_wait(&lease_fixture, RL_SECOND);
    rl_time asked = lease_fixture.view.now;
    fixture_extend(&lease_fixture, 0);
    struct rl_update round = lease_fixture.sent;
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    fixture_tick(&lease_fixture);
    cr_assert(lease_fixture.lease.decided);
    fixture_answer(&lease_fixture, round, 2, RL_VOTE_GRANTED, -1);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(asked));
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_NONE);
}

Test(extend, a_straggler_after_the_deadline_changes_nothing)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_extend(&lease_fixture, 0);
    struct rl_update round = lease_fixture.sent;
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    fixture_at(&lease_fixture, valid_from(start));
    fixture_answer(&lease_fixture, round, 2, RL_VOTE_GRANTED, -1);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_LOST | RL_REPORT_NOT_EXTENDED);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_EXPIRED);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, lease_fixture.view.now), 0);
}

Test(extend, a_late_reply_to_an_older_round_is_no_vote_in_this_one)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x07);
    fixture_extend(&lease_fixture, 0);
    struct rl_update older = lease_fixture.sent;
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    fixture_wait(&lease_fixture, RL_SECOND);
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x01, RL_VOTE_GRANTED);
    fixture_answer(&lease_fixture, older, 2, RL_VOTE_GRANTED, -1);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 1);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(start));
}

/* Two rounds, and the reply of node 3 to the first one comes during the second one. */
static void check_late(enum rl_vote before, enum rl_vote late, enum rl_lease_state state)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x07);
    fixture_vote(&lease_fixture, 3, before);
    fixture_extend(&lease_fixture, 0);
    struct rl_update older = lease_fixture.sent;
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    fixture_wait(&lease_fixture, RL_SECOND);
    fixture_extend(&lease_fixture, 0);
    fixture_answer(&lease_fixture, older, 3, late, -1);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GONE);
    cr_assert_eq(lease_fixture.lease.state, state);
}

Test(extend, a_late_reply_to_an_older_round_tells_where_the_key_is)
{
    check_late(RL_VOTE_GRANTED, RL_VOTE_GONE, RL_LEASE_LOST);
    check_late(RL_VOTE_GRANTED, RL_VOTE_GRANTED, RL_LEASE_HELD);
    check_late(RL_VOTE_HELD, RL_VOTE_GRANTED, RL_LEASE_HELD);
    check_late(RL_VOTE_HELD, RL_VOTE_UNKNOWN, RL_LEASE_LOST);
}

/*
 * One node hangs while the others reply in hundreds of rounds: round numbers must not
 * repeat.
 */
Test(extend, however_many_rounds_lie_between)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x07);
    fixture_extend(&lease_fixture, 0);
    struct rl_update oldest = lease_fixture.sent;
    for (unsigned i = 0; i < 70000; i++) {
        fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
        fixture_extend(&lease_fixture, 0);
        fixture_answer(&lease_fixture, oldest, 2, RL_VOTE_GRANTED, -1);
        CHECK(lease_fixture.lease.round.granted == 0, "round %u", i);
    }
}

Test(extend, recreated_keys_never_count_in_the_round_that_recreated_them)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x07);
    fixture_wait(&lease_fixture, RL_SECOND);
    rl_time first = lease_fixture.view.now;
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x18, RL_VOTE_RECREATED);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 0);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(start));
    fixture_votes(&lease_fixture, 0x04, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(first));
    fixture_wait(&lease_fixture, RL_SECOND);
    rl_time second = lease_fixture.view.now;
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x19, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.valid, valid_from(second),
                 "in the next round they do");
}

/* If n - q + 1 nodes lack the key, another client may have a majority by now. */
static void check_loss(enum rl_vote vote, enum rl_cause cause)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x03, vote);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD, "three may still have it");
    fixture_votes(&lease_fixture, 0x04, vote);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_LOST | RL_REPORT_NOT_EXTENDED);
    cr_assert_eq(lease_fixture.lease.cause, cause);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, lease_fixture.view.now), 0);
    fixture_votes(&lease_fixture, 0x18, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_LOST);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 0);
}

Test(extend, a_majority_that_is_gone_is_lost_at_once)
{
    check_loss(RL_VOTE_GONE, RL_CAUSE_GONE);
    check_loss(RL_VOTE_RECREATED, RL_CAUSE_GONE);
    check_loss(RL_VOTE_HELD, RL_CAUSE_TAKEN);
}

Test(extend, a_lost_round_with_late_gone_replies_is_lost)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_extend(&lease_fixture, 0);
    struct rl_update round = lease_fixture.sent;
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
    for (unsigned node = 0; node < 3; node++)
        fixture_answer(&lease_fixture, round, node, RL_VOTE_GONE, -1);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_LOST);
}

Test(extend, no_reply_is_no_proof_that_a_key_is_gone)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_UNKNOWN);
    fixture_votes(&lease_fixture, 0x0c, RL_VOTE_ERROR);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
}

/* --- sending a command again: the node did not know its script --- */

Test(resend, goes_on_with_the_round_and_no_longer)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 5);
    const struct rl_lease *lease = &lease_fixture.lease;
    uint32_t acquire = lease_fixture.sent.seq;
    cr_assert(rl_lease_resend_is_safe(lease, RL_CMD_ACQUIRE, acquire));
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    cr_assert(rl_lease_resend_is_safe(lease, RL_CMD_ACQUIRE, acquire));
    fixture_extend(&lease_fixture, 0);
    uint32_t first = lease_fixture.sent.seq;
    cr_assert_not(rl_lease_resend_is_safe(lease, RL_CMD_ACQUIRE, acquire),
                  "an extension has been sent since");
    cr_assert(rl_lease_resend_is_safe(lease, RL_CMD_EXTEND, first));
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    fixture_extend(&lease_fixture, 2 * ttl);
    uint32_t second = lease_fixture.sent.seq;
    cr_assert_not(rl_lease_resend_is_safe(lease, RL_CMD_EXTEND, first), "an earlier round");
    cr_assert(rl_lease_resend_is_safe(lease, RL_CMD_EXTEND, second));
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_not(rl_lease_resend_is_safe(lease, RL_CMD_EXTEND, second),
                  "the node would store the token after its release");
    cr_assert(rl_lease_resend_is_safe(lease, RL_CMD_RELEASE, lease_fixture.sent.seq));
}
