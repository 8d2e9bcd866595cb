/* Extensions: what a held lock may believe, and when. */
#include "desk.h"

#define DRIFT(ttl) ((ttl) / 100 + RL_DRIFT_FLOOR)

static const rl_time start = RL_SECOND;
static const rl_time ttl = 10 * RL_SECOND;

static rl_time valid_from(rl_time at)
{
    return at + ttl - DRIFT(ttl);
}

Test(extend, counts_at_a_majority_and_from_its_own_start)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x07);
    cr_assert_eq(desk.lease.valid, valid_from(start));
    desk_wait(&desk, 3 * RL_SECOND);
    rl_time asked = desk.view.now;
    desk_extend(&desk, 0);
    cr_assert_eq(desk.update.send, 0x1f);
    cr_assert_eq(desk.update.text, RL_EXTEND);
    cr_assert(desk.update.plant);
    desk_wait(&desk, 10 * RL_MS);
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.valid, valid_from(start), "two of five change nothing");
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 0);
    desk_votes(&desk, 0x10, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.valid, valid_from(asked));
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 1);
    cr_assert_eq(desk.lease.holding, 0x13);
}

Test(extend, a_lost_round_leaves_the_old_deadline)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_wait(&desk, 3 * RL_SECOND);
    desk_extend(&desk, 0);
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    desk_votes(&desk, 0x1c, RL_VOTE_ERROR);
    cr_assert_eq(desk_told(&desk, RL_NEWS_NOT_EXTENDED), 1);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_NO_QUORUM);
    cr_assert_eq(desk.lease.valid, valid_from(start));
}

Test(extend, without_a_quorum_of_nodes_nothing_is_sent)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk.view.ready = 0x03;
    desk_extend(&desk, 0);
    cr_assert_eq(desk.update.send, 0);
    cr_assert_eq(desk.update.news, RL_NEWS_NOT_EXTENDED);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
    cr_assert_eq(desk.lease.valid, valid_from(start));
}

/* The watchdog's round was sent with the old TTL: to win it says nothing about the new. */
Test(extend, a_round_under_way_is_worth_the_ttl_that_it_was_sent_with)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_wait(&desk, RL_SECOND);
    rl_time asked = desk.view.now;
    desk_extend(&desk, 0);
    struct rl_update first = desk.sent;
    desk_extend(&desk, 6 * ttl);
    cr_assert_eq(desk.update.send, 0, "the first round is not decided yet");
    desk.view.ready = 0; /* so the round with the longer TTL cannot even be sent */
    for (unsigned node = 0; node < 3; node++)
        desk_answer(&desk, first, node, RL_VOTE_GRANTED, -1);
    cr_assert_eq(desk.lease.valid, valid_from(asked));
}

Test(extend, a_straggler_is_worth_the_ttl_that_it_was_sent)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    rl_time asked = desk.view.now;
    desk_extend(&desk, 0);
    struct rl_update first = desk.sent;
    desk_votes(&desk, 0x07, RL_VOTE_GRANTED);
    desk.view.ready = 0;
    desk_extend(&desk, 6 * ttl);
    cr_assert_eq(desk.update.news, RL_NEWS_NOT_EXTENDED);
    desk_answer(&desk, first, 4, RL_VOTE_GRANTED, -1);
    cr_assert_eq(desk.lease.valid, valid_from(asked));
    cr_assert_eq(desk.lease.ttl, ttl, "what was not sent is not the TTL");
}

Test(extend, a_second_wish_waits_for_the_round_under_way)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_extend(&desk, 0);
    desk_wait(&desk, RL_MS);
    desk_extend(&desk, 2 * ttl);
    cr_assert_eq(desk.update.send, 0);
    desk_votes(&desk, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(desk.sent.text, RL_EXTEND);
    cr_assert_eq(desk.update.send, 0x1f, "it is said with the decision of the first");
    rl_time asked = desk.view.now;
    desk_votes(&desk, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 2);
    cr_assert_eq(desk.lease.valid, asked + 2 * ttl - DRIFT(2 * ttl));
}

/* Wherever it arrives the key lives shorter, so the shorter deadline is the one to keep. */
Test(extend, a_shorter_ttl_counts_before_any_answer)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    rl_time brief = RL_SECOND;
    desk_extend(&desk, brief);
    cr_assert_eq(desk.lease.valid, start + brief - DRIFT(brief));
    desk_votes(&desk, 0x1f, RL_VOTE_ERROR);
    cr_assert_eq(desk.lease.valid, start + brief - DRIFT(brief));
}

Test(extend, a_silent_node_may_complete_a_round_that_was_thought_lost)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_wait(&desk, RL_SECOND);
    rl_time asked = desk.view.now;
    desk_extend(&desk, 0);
    struct rl_update round = desk.sent;
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    desk_tick(&desk);
    cr_assert_eq(desk.update.news, RL_NEWS_NOT_EXTENDED, "three are silent");
    desk_wait(&desk, RL_MS);
    desk_answer(&desk, round, 2, RL_VOTE_GRANTED, -1);
    cr_assert_eq(desk.lease.valid, valid_from(asked));
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 0, "the caller was answered already");
}

Test(extend, also_when_the_same_nodes_granted_the_round_before)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x07);
    desk_wait(&desk, RL_SECOND);
    rl_time asked = desk.view.now;
    desk_extend(&desk, 0);
    struct rl_update round = desk.sent;
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    desk_tick(&desk);
    cr_assert(desk.lease.decided);
    desk_answer(&desk, round, 2, RL_VOTE_GRANTED, -1);
    cr_assert_eq(desk.lease.valid, valid_from(asked));
    cr_assert_eq(desk.lease.cause, RL_CAUSE_NONE);
}

Test(extend, a_straggler_after_the_deadline_saves_nothing)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_extend(&desk, 0);
    struct rl_update round = desk.sent;
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    desk_at(&desk, valid_from(start));
    desk_answer(&desk, round, 2, RL_VOTE_GRANTED, -1);
    cr_assert_eq(desk.update.news, RL_NEWS_LOST | RL_NEWS_NOT_EXTENDED);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_EXPIRED);
    cr_assert_eq(rl_lease_left(&desk.lease, desk.view.now), 0);
}

Test(extend, a_late_answer_to_an_older_round_is_no_vote_in_this_one)
{
    struct desk desk;
    desk_hold(&desk, 3, 0x07);
    desk_extend(&desk, 0);
    struct rl_update older = desk.sent;
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    desk_wait(&desk, RL_SECOND);
    desk_extend(&desk, 0);
    desk_votes(&desk, 0x01, RL_VOTE_GRANTED);
    desk_answer(&desk, older, 2, RL_VOTE_GRANTED, -1);
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 1);
    cr_assert_eq(desk.lease.valid, valid_from(start));
}

/* One node hangs while the others answer hundreds of rounds: numbers must not come again.
 */
Test(extend, however_many_rounds_lie_between)
{
    struct desk desk;
    desk_hold(&desk, 3, 0x07);
    desk_extend(&desk, 0);
    struct rl_update oldest = desk.sent;
    for (unsigned i = 0; i < 70000; i++) {
        desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
        desk_extend(&desk, 0);
        desk_answer(&desk, oldest, 2, RL_VOTE_GRANTED, -1);
        CHECK(desk.lease.round.granted == 0, "round %u", i);
    }
}

Test(extend, planted_keys_never_count_in_the_round_that_planted_them)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x07);
    desk_wait(&desk, RL_SECOND);
    rl_time first = desk.view.now;
    desk_extend(&desk, 0);
    desk_votes(&desk, 0x18, RL_VOTE_PLANTED);
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 0);
    cr_assert_eq(desk.lease.valid, valid_from(start));
    desk_votes(&desk, 0x04, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.valid, valid_from(first));
    desk_wait(&desk, RL_SECOND);
    rl_time second = desk.view.now;
    desk_extend(&desk, 0);
    desk_votes(&desk, 0x19, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.valid, valid_from(second), "in the next round they do");
}

/* What n - q + 1 nodes do not have, another may have by now on a majority. */
static void check_loss(enum rl_vote vote, enum rl_cause cause)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_extend(&desk, 0);
    desk_votes(&desk, 0x03, vote);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD, "three may still have it");
    desk_votes(&desk, 0x04, vote);
    cr_assert_eq(desk.update.news, RL_NEWS_LOST | RL_NEWS_NOT_EXTENDED);
    cr_assert_eq(desk.lease.cause, cause);
    cr_assert_eq(rl_lease_left(&desk.lease, desk.view.now), 0);
    desk_votes(&desk, 0x18, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.state, RL_LEASE_LOST);
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 0);
}

Test(extend, a_majority_that_is_gone_is_lost_at_once)
{
    check_loss(RL_VOTE_GONE, RL_CAUSE_GONE);
    check_loss(RL_VOTE_PLANTED, RL_CAUSE_GONE);
    check_loss(RL_VOTE_HELD, RL_CAUSE_TAKEN);
}

Test(extend, a_lost_round_that_turns_out_gone_is_lost_late)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_extend(&desk, 0);
    struct rl_update round = desk.sent;
    desk_tick(&desk);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
    for (unsigned node = 0; node < 3; node++)
        desk_answer(&desk, round, node, RL_VOTE_GONE, -1);
    cr_assert_eq(desk.lease.state, RL_LEASE_LOST);
}

Test(extend, no_answer_is_no_proof_that_a_key_is_gone)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_extend(&desk, 0);
    desk_votes(&desk, 0x03, RL_VOTE_UNKNOWN);
    desk_votes(&desk, 0x0c, RL_VOTE_ERROR);
    desk_tick(&desk);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
}
