/* Acquiring: one round, its timeouts, its deadline, and giving it up. */
#include "desk.h"

#define DRIFT(ttl) ((ttl) / 100 + RL_DRIFT_FLOOR)

static const rl_time start = RL_SECOND;
static const rl_time ttl = 10 * RL_SECOND;
static const rl_time valid = start + ttl - DRIFT(ttl);

Test(acquire, asks_all_that_are_ready_at_once)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(5, 3);
    desk_init(&desk, &terms);
    desk.view.ready = 0xffffff15; /* bits beyond n mean nothing */
    desk_say(&desk, RL_EVENT_START);
    cr_assert_eq(desk.update.send, 0x15);
    cr_assert_eq(desk.update.text, RL_ACQUIRE);
    cr_assert_eq(desk.update.news, 0);
    cr_assert_eq(desk.ballot[1].vote, RL_VOTE_ABSENT, "who is missing refuses at once");
    cr_assert_eq(desk.ballot[0].vote, RL_VOTE_WAITING);
    desk_votes(&desk, 0x01, RL_VOTE_HELD);
    cr_assert_eq(desk.lease.state, RL_LEASE_BACKING_OUT, "1, 2 and 4 do not grant");
}

Test(acquire, asks_nobody_where_a_quorum_is_out_of_reach)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(5, 3);
    desk_init(&desk, &terms);
    desk.view.ready = 0xffffffe3;
    desk.view.ready &= ~UINT32_C(2);
    desk_say(&desk, RL_EVENT_START);
    cr_assert_eq(desk.update.send, 0);
    cr_assert_eq(desk.update.news, RL_NEWS_FAILED);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_NO_QUORUM);
    cr_assert_eq(desk.lease.state, RL_LEASE_OVER, "nothing was set, nothing is left");
    for (unsigned node = 0; node < 5; node++)
        cr_assert_eq(desk.ballot[node].vote, RL_VOTE_ABSENT);
}

Test(acquire, the_outcome_carries_how_many_granted)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x0d);
    cr_assert_eq(desk.update.news, RL_NEWS_HELD);
    cr_assert_eq(desk.lease.holding, 0x0d);
    cr_assert_eq(desk.lease.valid, valid);
    desk_vote(&desk, 1, RL_VOTE_GRANTED);
    desk_vote(&desk, 4, RL_VOTE_HELD);
    cr_assert_eq(desk.lease.holding, 0x0f, "stragglers are read in the background");
    cr_assert_eq(desk.lease.dirty, 0x0f);
    cr_assert_eq(desk_told(&desk, RL_NEWS_HELD), 1);
}

Test(acquire, a_node_has_its_own_patience)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(5, 3);
    desk_init(&desk, &terms);
    for (unsigned node = 0; node < 5; node++)
        desk.round_trip[node] = (node + 1) * 20 * RL_MS;
    desk_say(&desk, RL_EVENT_START);
    desk_tick(&desk);
    cr_assert_eq(desk.view.now, start + RL_PATIENCE_FLOOR, "the first look is early");
    cr_assert_eq(desk.lease.round.waiting, 0x1f);
    desk_tick(&desk);
    cr_assert_eq(desk.view.now, start + 80 * RL_MS);
    cr_assert_eq(desk.ballot[0].vote, RL_VOTE_SILENT);
    cr_assert_eq(desk.ballot[0].fault, RL_FAULT_TIMEOUT);
    desk_tick(&desk);
    cr_assert_eq(desk.lease.state, RL_LEASE_ACQUIRING);
    desk_tick(&desk);
    cr_assert_eq(desk.view.now, start + 240 * RL_MS);
    cr_assert_eq(desk.lease.state, RL_LEASE_BACKING_OUT, "three of five are silent");
}

Test(acquire, a_silent_node_may_still_grant_while_the_round_is_open)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(3, 2);
    desk_init(&desk, &terms);
    desk.round_trip[1] = RL_SECOND;
    desk.round_trip[2] = RL_SECOND;
    desk_say(&desk, RL_EVENT_START);
    desk_tick(&desk);
    desk_vote(&desk, 0, RL_VOTE_GRANTED);
    desk_vote(&desk, 1, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.news, RL_NEWS_HELD);
    cr_assert_eq(desk.lease.holding, 0x3);
}

Test(patience, follows_the_round_trip_between_its_bounds)
{
    cr_assert_eq(rl_lease_patience(0, ttl, 0), 50 * RL_MS);
    cr_assert_eq(rl_lease_patience(0, ttl, 12 * RL_MS), 50 * RL_MS);
    cr_assert_eq(rl_lease_patience(0, ttl, 13 * RL_MS), 52 * RL_MS);
    cr_assert_eq(rl_lease_patience(0, ttl, 200 * RL_MS), 800 * RL_MS);
    cr_assert_eq(rl_lease_patience(0, ttl, 250 * RL_MS), ttl / 10);
    cr_assert_eq(rl_lease_patience(0, ttl, RL_SECOND), ttl / 10);
    cr_assert_eq(rl_lease_patience(7, ttl, RL_SECOND), 7);
}

Test(patience, never_passes_its_part_of_a_short_ttl)
{
    for (rl_time round_trip = 0; round_trip < 100 * RL_MS; round_trip += RL_MS)
        cr_assert_eq(rl_lease_patience(0, 100 * RL_MS, round_trip), 10 * RL_MS);
}

Test(acquire, what_is_won_too_late_is_lost)
{
    struct rl_terms terms = desk_terms(3, 2);
    terms.node_timeout = 2 * ttl;
    for (int early = 0; early < 2; early++) {
        struct desk desk;
        terms.min_validity = 3 * RL_SECOND;
        desk_init(&desk, &terms);
        desk_say(&desk, RL_EVENT_START);
        desk_vote(&desk, 0, RL_VOTE_GRANTED);
        cr_assert_eq(rl_lease_next(&desk.lease), valid - terms.min_validity);
        desk_at(&desk, valid - terms.min_validity - early);
        desk_vote(&desk, 1, RL_VOTE_GRANTED);
        if (early) {
            cr_assert_eq(desk.update.news, RL_NEWS_HELD);
            continue;
        }
        cr_assert_eq(desk.update.send, 0x7);
        cr_assert_eq(desk.update.text, RL_RELEASE);
        desk_votes(&desk, 0x7, RL_VOTE_GRANTED);
        cr_assert_eq(desk.update.news, RL_NEWS_FAILED);
        cr_assert_eq(desk.lease.cause, RL_CAUSE_EXPIRED);
    }
}

/* What comes with the end of the time cannot save the attempt, but it is not ignored. */
Test(acquire, an_answer_that_comes_too_late_is_still_explained)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(3, 2);
    terms.node_timeout = 2 * ttl;
    desk_init(&desk, &terms);
    desk_say(&desk, RL_EVENT_START);
    desk_at(&desk, valid);
    desk_answer(&desk, desk.sent, 1, RL_VOTE_HELD, 5000);
    cr_assert_eq(desk.update.text, RL_RELEASE);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_EXPIRED);
    cr_assert_eq(desk.ballot[1].vote, RL_VOTE_HELD);
    cr_assert_eq(desk.ballot[1].pttl, 5000);
}

Test(cancel, is_heard_also_when_the_time_is_over)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(3, 2);
    terms.node_timeout = 2 * ttl;
    desk_init(&desk, &terms);
    desk_say(&desk, RL_EVENT_START);
    desk_at(&desk, valid);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.news, RL_NEWS_FAILED);
    cr_assert_eq(desk.update.send, 0x7);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_CANCELLED);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.news, 0);
}

Test(acquire, is_not_won_where_lost_would_be_told_at_once)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(1, 1);
    terms.margin = 3 * RL_SECOND;
    desk_init(&desk, &terms);
    desk_say(&desk, RL_EVENT_START);
    desk_at(&desk, valid - terms.margin - 1);
    desk_vote(&desk, 0, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.text, RL_RELEASE);
    cr_assert_eq(desk_told(&desk, RL_NEWS_HELD), 0);
}

/* A TTL that its own drift eats up can never be held. */
Test(acquire, a_tiny_ttl_expires_before_it_is_held)
{
    static const rl_time tiny[] = {0, 1, RL_MS, 2 * RL_MS};
    for (size_t i = 0; i < sizeof(tiny) / sizeof(tiny[0]); i++) {
        struct desk desk;
        struct rl_terms terms = desk_terms(1, 1);
        terms.ttl = tiny[i];
        desk_init(&desk, &terms);
        desk_say(&desk, RL_EVENT_START);
        desk_vote(&desk, 0, RL_VOTE_GRANTED);
        cr_assert_eq(desk_told(&desk, RL_NEWS_HELD), 0);
        cr_assert_eq(desk.lease.cause, RL_CAUSE_EXPIRED);
    }
}

Test(acquire, the_longest_hold_also_bounds_the_first_deadline)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(3, 2);
    terms.max_hold = 4 * RL_SECOND;
    desk_init(&desk, &terms);
    desk_say(&desk, RL_EVENT_START);
    desk_votes(&desk, 0x3, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.valid, start + 4 * RL_SECOND);
    desk_tick(&desk);
    desk_tick(&desk);
    cr_assert_eq(desk.update.news, RL_NEWS_LOST);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_MAX_HOLD);
}

Test(cancel, is_told_at_once_and_released_in_the_background)
{
    struct desk desk;
    desk_start(&desk, 5);
    struct rl_update asked = desk.sent;
    desk_vote(&desk, 0, RL_VOTE_GRANTED);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.news, RL_NEWS_FAILED);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_CANCELLED);
    cr_assert_eq(desk.update.text, RL_RELEASE);
    cr_assert_eq(desk.update.send, 0x1f, "the silent ones too");
    for (unsigned node = 1; node < 5; node++)
        desk_answer(&desk, asked, node, RL_VOTE_GRANTED, -1);
    cr_assert_eq(desk_told(&desk, RL_NEWS_HELD), 0, "given up is given up");
    desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.state, RL_LEASE_OVER);
}

Test(cancel, while_backing_out_tells_without_waiting)
{
    struct desk desk;
    desk_start(&desk, 3);
    desk_votes(&desk, 0x3, RL_VOTE_HELD);
    cr_assert_eq(desk.lease.state, RL_LEASE_BACKING_OUT);
    cr_assert_eq(desk.update.news, 0);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.news, RL_NEWS_FAILED);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_CANCELLED);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.news, 0);
}

Test(cancel, before_the_start_sends_nothing)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(3, 2);
    desk_init(&desk, &terms);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.send, 0);
    cr_assert_eq(desk.lease.state, RL_LEASE_OVER);
}

Test(disown, leaves_everything_where_it_is)
{
    struct desk desk;
    desk_hold(&desk, 3, 0x7);
    desk_say(&desk, RL_EVENT_DISOWN);
    cr_assert_eq(desk.update.send, 0);
    cr_assert_eq(desk.update.news, 0);
    cr_assert_eq(desk.lease.state, RL_LEASE_OVER);
    desk_at(&desk, start + 2 * ttl);
    cr_assert_eq(desk_say(&desk, RL_EVENT_TICK).send, 0);
}

Test(ballots, explain_who_answered_what_and_when)
{
    struct desk desk;
    desk_start(&desk, 3);
    desk_answer(&desk, desk.sent, 0, RL_VOTE_HELD, 1234);
    struct rl_lease_event event = {.type = RL_EVENT_VOTE,
                                   .took = 7,
                                   .node = 1,
                                   .seq = desk.sent.seq,
                                   .text = RL_ACQUIRE,
                                   .vote = RL_VOTE_ERROR,
                                   .fault = RL_FAULT_OOM,
                                   .pttl = -1};
    desk_step(&desk, event);
    cr_assert_eq(desk.ballot[0].vote, RL_VOTE_HELD);
    cr_assert_eq(desk.ballot[0].pttl, 1234);
    cr_assert_eq(desk.ballot[1].vote, RL_VOTE_ERROR);
    cr_assert_eq(desk.ballot[1].latency, 7);
    cr_assert_eq(desk.ballot[1].fault, RL_FAULT_OOM);
    cr_assert_eq(desk.ballot[1].pttl, -1);
}
