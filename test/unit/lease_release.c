/* Giving back: who is told, who confirmed, and what lingers where nobody answered. */
#include "desk.h"

static const rl_time start = RL_SECOND;
static const rl_time ttl = 10 * RL_SECOND;

static struct rl_update ready_again(struct desk *desk, unsigned node)
{
    desk->view.open |= rl_bit(node);
    desk->view.ready |= rl_bit(node);
    return desk_step(
        desk, (struct rl_lease_event){.type = RL_EVENT_READY, .node = (uint8_t)node});
}

static void cut(struct desk *desk, unsigned node)
{
    desk->view.open &= ~rl_bit(node);
    desk->view.ready &= ~rl_bit(node);
}

/* Holds with all of five, then releases; the nodes answer as the letters say:
 * d deleted, g gone, h another's, e error, s silent, and r deleted, but not open: absent.
 */
static enum rl_cause outcome(const char *answers)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    for (unsigned node = 0; node < 5; node++)
        if (answers[node] == 'r')
            cut(&desk, node);
    desk_say(&desk, RL_EVENT_RELEASE);
    struct rl_update round = desk.sent;
    for (unsigned node = 0; node < 5; node++) {
        switch (answers[node]) {
        case 'd': desk_answer(&desk, round, node, RL_VOTE_GRANTED, -1); break;
        case 'g': desk_answer(&desk, round, node, RL_VOTE_GONE, -1); break;
        case 'h': desk_answer(&desk, round, node, RL_VOTE_HELD, 10); break;
        case 'e': desk_answer(&desk, round, node, RL_VOTE_ERROR, -1); break;
        default: break;
        }
    }
    if (desk.lease.state == RL_LEASE_RELEASING)
        desk_tick(&desk);
    cr_assert_eq(desk_told(&desk, RL_NEWS_RELEASED), 1, "%s", answers);
    return desk.lease.cause;
}

Test(release, is_judged_by_what_the_nodes_confirm)
{
    cr_assert_eq(outcome("ddddd"), RL_CAUSE_NONE);
    cr_assert_eq(outcome("dddss"), RL_CAUSE_NONE);
    cr_assert_eq(outcome("dddrr"), RL_CAUSE_NONE);
    cr_assert_eq(outcome("ggddg"), RL_CAUSE_NONE, "some had expired");
    cr_assert_eq(outcome("ddhhs"), RL_CAUSE_NONE, "others have a minority");
    cr_assert_eq(outcome("ddsss"), RL_CAUSE_UNCONFIRMED);
    cr_assert_eq(outcome("sssss"), RL_CAUSE_UNCONFIRMED);
    cr_assert_eq(outcome("rrrrr"), RL_CAUSE_UNCONFIRMED);
    cr_assert_eq(outcome("ddeee"), RL_CAUSE_UNCONFIRMED);
    cr_assert_eq(outcome("ggggg"), RL_CAUSE_GONE);
    cr_assert_eq(outcome("gggss"), RL_CAUSE_GONE);
    cr_assert_eq(outcome("hhhhh"), RL_CAUSE_TAKEN);
    cr_assert_eq(outcome("hhhdd"), RL_CAUSE_TAKEN);
    cr_assert_eq(outcome("ggghg"), RL_CAUSE_TAKEN);
}

Test(release, is_told_at_q_confirmations)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.send, 0x1f);
    cr_assert_eq(desk.update.text, RL_RELEASE);
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.news, 0);
    desk_votes(&desk, 0x04, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.news, RL_NEWS_RELEASED);
    cr_assert_eq(desk.lease.state, RL_LEASE_LINGERING, "two have not answered");
    desk_votes(&desk, 0x18, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.state, RL_LEASE_OVER);
}

Test(release, goes_to_all_that_were_asked_and_to_no_others)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(5, 3);
    desk_init(&desk, &terms);
    desk.view.ready = 0x0f;
    desk_say(&desk, RL_EVENT_START);
    desk_votes(&desk, 0x07, RL_VOTE_GRANTED);
    desk_vote(&desk, 3, RL_VOTE_HELD);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.send, 0x0f);
    cr_assert_eq(desk.ballot[4].vote, RL_VOTE_UNASKED);
}

Test(release, a_suspect_node_gets_it_on_the_same_stream)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk.view.ready = 0x03; /* three are suspect: not asked for votes, but open */
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.send, 0x1f);
}

Test(release, after_a_loss_still_goes_to_all)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_tick(&desk);
    cr_assert_eq(desk.lease.state, RL_LEASE_LOST);
    cr_assert_eq(desk.update.send, 0, "the holder has not stopped yet");
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.send, 0x1f);
    desk_votes(&desk, 0x1f, RL_VOTE_GONE);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_GONE);
}

Test(release, ends_an_extension_that_is_under_way)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_extend(&desk, 0);
    struct rl_update extension = desk.sent;
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.news, RL_NEWS_NOT_EXTENDED);
    for (unsigned node = 0; node < 5; node++)
        desk_answer(&desk, extension, node, RL_VOTE_GRANTED, -1);
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 0);
    cr_assert_eq(desk_told(&desk, RL_NEWS_RELEASED), 0, "an older answer confirms nothing");
    desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_NONE);
}

Test(release, twice_is_once)
{
    struct desk desk;
    desk_hold(&desk, 3, 0x7);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk_say(&desk, RL_EVENT_RELEASE).send, 0);
    desk_votes(&desk, 0x7, RL_VOTE_GRANTED);
    cr_assert_eq(desk_say(&desk, RL_EVENT_RELEASE).send, 0);
    cr_assert_eq(desk_told(&desk, RL_NEWS_RELEASED), 1);
}

Test(linger, a_node_that_returns_is_released_again)
{
    struct desk desk;
    desk_start(&desk, 3);
    struct rl_update asked = desk.sent;
    cut(&desk, 2);
    desk_answer(&desk, asked, 2, RL_VOTE_UNKNOWN, -1);
    desk_answer(&desk, asked, 0, RL_VOTE_HELD, 500);
    cr_assert_eq(desk.sent.text, RL_RELEASE);
    cr_assert_eq(desk.sent.send, 0x3, "the third cannot be told yet");
    desk_votes(&desk, 0x3, RL_VOTE_GONE);
    cr_assert_eq(desk.update.news, RL_NEWS_FAILED);
    cr_assert_eq(desk.lease.state, RL_LEASE_LINGERING);
    ready_again(&desk, 2);
    cr_assert_eq(desk.update.text, RL_RELEASE);
    cr_assert_eq(desk.update.send, 0x4);
    desk_vote(&desk, 2, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.state, RL_LEASE_OVER);
}

Test(linger, what_is_under_way_is_not_said_twice)
{
    struct desk desk;
    desk_hold(&desk, 3, 0x7);
    desk_say(&desk, RL_EVENT_RELEASE);
    struct rl_update first = desk.sent;
    desk_votes(&desk, 0x3, RL_VOTE_GRANTED);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(desk_tick(&desk).send, 0, "its stream still owes the answer");
    desk_answer(&desk, first, 2, RL_VOTE_UNKNOWN, -1);
    cr_assert_eq(desk.lease.dirty, 0x4);
    cr_assert_eq(desk_tick(&desk).send, 0x4, "now it was cut");
}

Test(linger, an_error_is_answered_by_saying_it_again)
{
    struct desk desk;
    desk_hold(&desk, 3, 0x7);
    desk_say(&desk, RL_EVENT_RELEASE);
    desk_votes(&desk, 0x3, RL_VOTE_GRANTED);
    desk_vote(&desk, 2, RL_VOTE_ERROR);
    rl_time before = desk.view.now;
    desk_tick(&desk);
    cr_assert_eq(desk.update.send, 0x4);
    cr_assert_eq(desk.view.now, before + RL_LINGER_GAP);
    desk_vote(&desk, 2, RL_VOTE_GONE);
    cr_assert_eq(desk.lease.state, RL_LEASE_OVER);
}

Test(linger, ends_when_the_token_has_expired_everywhere)
{
    struct desk desk;
    desk_hold(&desk, 3, 0x7);
    desk.view.open = desk.view.ready = 0;
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.news, RL_NEWS_RELEASED);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_UNCONFIRMED);
    while (desk.lease.state != RL_LEASE_OVER)
        cr_assert_eq(desk_tick(&desk).send, 0);
    cr_assert_geq(desk.view.now, start + ttl, "not before");
    cr_assert_leq(desk.view.now, start + 2 * ttl);
}

/* The longer TTL is what the silent nodes store; the shorter one may never have arrived. */
Test(linger, lasts_as_long_as_the_longest_ttl_that_was_sent)
{
    struct desk desk;
    desk_hold(&desk, 3, 0x7);
    desk_extend(&desk, RL_SECOND);
    desk.view.open = desk.view.ready = 0;
    desk_say(&desk, RL_EVENT_RELEASE);
    desk_at(&desk, start + ttl - 1);
    desk_say(&desk, RL_EVENT_TICK);
    cr_assert_eq(desk.lease.state, RL_LEASE_LINGERING);
    ready_again(&desk, 0);
    cr_assert_eq(desk.update.send, 0x1);
    desk_at(&desk, start + 2 * ttl);
    desk_say(&desk, RL_EVENT_TICK);
    cr_assert_eq(desk.lease.state, RL_LEASE_OVER);
}

Test(linger, an_adopted_token_may_be_on_every_node)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(5, 3);
    desk_init(&desk, &terms);
    desk_adopt(&desk, 0);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(desk.update.send, 0x1f);
    desk_votes(&desk, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.news, RL_NEWS_RELEASED);
}

Test(backing_out, waits_one_timeout_at_most_for_its_releases)
{
    struct desk desk;
    desk_start(&desk, 3);
    desk_votes(&desk, 0x3, RL_VOTE_HELD);
    rl_time lost = desk.view.now;
    desk_tick(&desk);
    cr_assert_eq(desk.update.news, RL_NEWS_FAILED);
    cr_assert_eq(desk.view.now, lost + RL_PATIENCE_FLOOR);
    cr_assert_eq(desk.lease.state, RL_LEASE_LINGERING);
}

Test(backing_out, learns_what_remains_of_the_holders_time)
{
    struct desk desk;
    desk_start(&desk, 3);
    desk_votes(&desk, 0x3, RL_VOTE_HELD);
    struct rl_update round = desk.sent;
    cr_assert_eq(desk.ballot[0].pttl, -1);
    desk_answer(&desk, round, 0, RL_VOTE_HELD, 4321);
    desk_answer(&desk, round, 1, RL_VOTE_GONE, -1);
    cr_assert_eq(desk.ballot[0].pttl, 4321);
    cr_assert_eq(desk.ballot[1].vote, RL_VOTE_HELD, "what the acquire was told stays");
    desk_answer(&desk, round, 2, RL_VOTE_UNKNOWN, -1);
    cr_assert_eq(desk.update.news, RL_NEWS_FAILED);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_TAKEN);
    cr_assert_eq(desk.lease.dirty, 0x4);
}

Test(backing_out, counts_the_refusals_that_came_after_the_verdict)
{
    struct desk desk;
    desk_start(&desk, 5);
    struct rl_update asked = desk.sent;
    desk_votes(&desk, 0x07, RL_VOTE_ERROR);
    struct rl_update round = desk.sent;
    cr_assert_eq(desk.lease.state, RL_LEASE_BACKING_OUT);
    desk_answer(&desk, asked, 0, RL_VOTE_HELD, 5);
    desk_answer(&desk, asked, 3, RL_VOTE_HELD, 5);
    desk_answer(&desk, asked, 4, RL_VOTE_GRANTED, -1);
    for (unsigned node = 0; node < 5; node++)
        desk_answer(&desk, round, node, RL_VOTE_GONE, -1);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_TAKEN, "two held and one grant of three");
}
