/*
 * Release: when it is reported, which nodes confirmed it, and the cleanup of silent nodes.
 */
#include "lease_fixture.h"

static const rl_time start = RL_SECOND;
static const rl_time ttl = 10 * RL_SECOND;

static struct rl_update ready_again(struct lease_fixture *lease_fixture, unsigned node)
{
    lease_fixture->view.open |= rl_bit(node);
    lease_fixture->view.ready |= rl_bit(node);
    return fixture_step(lease_fixture, (struct rl_lease_event){.type = RL_EVENT_READY,
                                                               .node = (uint8_t)node});
}

static void cut(struct lease_fixture *lease_fixture, unsigned node)
{
    lease_fixture->view.open &= ~rl_bit(node);
    lease_fixture->view.ready &= ~rl_bit(node);
}

/*
 * Holds with all of five, then releases; each letter is a node's reply: d deleted, g gone,
 * h held by another, e error, s silent, and r deleted, but not open: absent.
 */
static enum rl_cause outcome(const char *answers)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    for (unsigned node = 0; node < 5; node++)
        if (answers[node] == 'r')
            cut(&lease_fixture, node);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    struct rl_update round = lease_fixture.sent;
    for (unsigned node = 0; node < 5; node++) {
        switch (answers[node]) {
        case 'd': fixture_answer(&lease_fixture, round, node, RL_VOTE_GRANTED, -1); break;
        case 'g': fixture_answer(&lease_fixture, round, node, RL_VOTE_GONE, -1); break;
        case 'h': fixture_answer(&lease_fixture, round, node, RL_VOTE_HELD, 10); break;
        case 'e': fixture_answer(&lease_fixture, round, node, RL_VOTE_ERROR, -1); break;
        default: break;
        }
    }
    if (lease_fixture.lease.state == RL_LEASE_RELEASING)
        fixture_tick(&lease_fixture);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_RELEASED), 1, "%s", answers);
    return lease_fixture.lease.cause;
}

Test(release, is_decided_by_the_nodes_confirmations)
{
    cr_assert_eq(outcome("ddddd"), RL_CAUSE_NONE);
    cr_assert_eq(outcome("dddss"), RL_CAUSE_NONE);
    cr_assert_eq(outcome("dddrr"), RL_CAUSE_NONE);
    cr_assert_eq(outcome("ggddg"), RL_CAUSE_NONE, "some had expired");
    cr_assert_eq(outcome("ddhhs"), RL_CAUSE_NONE, "other clients have a majority");
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

Test(release, is_reported_at_q_confirmations)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0x1f);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, 0);
    fixture_votes(&lease_fixture, 0x04, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_RELEASED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_CLEANUP, "two have not replied");
    fixture_votes(&lease_fixture, 0x18, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
}

Test(release, goes_to_all_that_got_an_acquire_and_to_no_others)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(5, 3);
    fixture_init(&lease_fixture, &params);
    lease_fixture.view.ready = 0x0f;
    fixture_event(&lease_fixture, RL_EVENT_START);
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    fixture_vote(&lease_fixture, 3, RL_VOTE_HELD);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0x0f);
    cr_assert_eq(lease_fixture.ballot[4].vote, RL_VOTE_UNASKED);
}

Test(release, a_suspect_node_gets_it_on_the_same_stream)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    /* three are suspect: they get no requests for a vote, but are open */
    lease_fixture.view.ready = 0x03;
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0x1f);
}

Test(release, after_a_loss_still_goes_to_all)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_LOST);
    cr_assert_eq(lease_fixture.update.send, 0, "the holder has not stopped yet");
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0x1f);
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GONE);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_GONE);
}

Test(release, ends_an_extension_that_is_under_way)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 5, 0x1f);
    fixture_extend(&lease_fixture, 0);
    struct rl_update extension = lease_fixture.sent;
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_NOT_EXTENDED);
    for (unsigned node = 0; node < 5; node++)
        fixture_answer(&lease_fixture, extension, node, RL_VOTE_GRANTED, -1);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 0);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_RELEASED), 0,
                 "an older reply confirms nothing");
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_NONE);
}

Test(release, twice_counts_once)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x7);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(fixture_event(&lease_fixture, RL_EVENT_RELEASE).send, 0);
    fixture_votes(&lease_fixture, 0x7, RL_VOTE_GRANTED);
    cr_assert_eq(fixture_event(&lease_fixture, RL_EVENT_RELEASE).send, 0);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_RELEASED), 1);
}

Test(cleanup, a_node_that_returns_is_released_again)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 3);
    struct rl_update asked = lease_fixture.sent;
    cut(&lease_fixture, 2);
    fixture_answer(&lease_fixture, asked, 2, RL_VOTE_UNKNOWN, -1);
    fixture_answer(&lease_fixture, asked, 0, RL_VOTE_HELD, 500);
    cr_assert_eq(lease_fixture.sent.command, RL_CMD_RELEASE);
    cr_assert_eq(lease_fixture.sent.send, 0x3, "the third cannot be reached yet");
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_GONE);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_FAILED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_CLEANUP);
    ready_again(&lease_fixture, 2);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0x4);
    fixture_vote(&lease_fixture, 2, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
}

Test(cleanup, a_pending_release_is_not_sent_twice)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x7);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    struct rl_update first = lease_fixture.sent;
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_GRANTED);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(fixture_tick(&lease_fixture).send, 0,
                     "its stream still owes the reply");
    fixture_answer(&lease_fixture, first, 2, RL_VOTE_UNKNOWN, -1);
    cr_assert_eq(lease_fixture.lease.dirty, 0x4);
    cr_assert_eq(fixture_tick(&lease_fixture).send, 0x4, "now it was cut");
}

Test(cleanup, an_error_makes_it_send_again)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x7);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_GRANTED);
    fixture_vote(&lease_fixture, 2, RL_VOTE_ERROR);
    rl_time before = lease_fixture.view.now;
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.update.send, 0x4);
    cr_assert_eq(lease_fixture.view.now, before + RL_CLEANUP_INTERVAL);
    fixture_vote(&lease_fixture, 2, RL_VOTE_GONE);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
}

Test(cleanup, ends_when_the_token_has_expired_everywhere)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x7);
    lease_fixture.view.open = lease_fixture.view.ready = 0;
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_RELEASED);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_UNCONFIRMED);
    while (lease_fixture.lease.state != RL_LEASE_OVER)
        cr_assert_eq(fixture_tick(&lease_fixture).send, 0);
    cr_assert_geq(lease_fixture.view.now, start + ttl, "not before");
    cr_assert_leq(lease_fixture.view.now, start + 2 * ttl);
}

/* The silent nodes store the longer TTL; the shorter one may never have arrived. */
Test(cleanup, lasts_as_long_as_the_longest_ttl_that_was_sent)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x7);
    fixture_extend(&lease_fixture, RL_SECOND);
    lease_fixture.view.open = lease_fixture.view.ready = 0;
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    fixture_at(&lease_fixture, start + ttl - 1);
    fixture_event(&lease_fixture, RL_EVENT_TICK);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_CLEANUP);
    ready_again(&lease_fixture, 0);
    cr_assert_eq(lease_fixture.update.send, 0x1);
    fixture_at(&lease_fixture, start + 2 * ttl);
    fixture_event(&lease_fixture, RL_EVENT_TICK);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
}

/* By then the first TTL has passed more than twice. */
Test(cleanup, lasts_for_two_ttls_from_the_last_extension_on)
{
    for (unsigned longer = 1; longer <= 6; longer += 5) {
        struct lease_fixture lease_fixture;
        fixture_hold(&lease_fixture, 5, 0x1f);
        for (unsigned i = 0; i < 5; i++) {
            fixture_wait(&lease_fixture, ttl / 2);
            fixture_extend(&lease_fixture, longer * ttl);
            fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
        }
        cut(&lease_fixture, 4);
        fixture_wait(&lease_fixture, longer * ttl / 2);
        fixture_event(&lease_fixture, RL_EVENT_RELEASE);
        fixture_votes(&lease_fixture, 0x0f, RL_VOTE_GRANTED);
        cr_assert_eq(lease_fixture.lease.state, RL_LEASE_CLEANUP);
        fixture_wait(&lease_fixture, longer * ttl);
        ready_again(&lease_fixture, 4);
        cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
        cr_assert_eq(lease_fixture.update.send, 0x10, "%u TTLs", longer);
        fixture_vote(&lease_fixture, 4, RL_VOTE_GRANTED);
        cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
    }
}

/* An extension may store the token where the acquire did not: by then it was refused, or
 * the node was away. */
Test(cleanup, includes_nodes_that_only_an_extension_was_sent_to)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(5, 3);
    fixture_init(&lease_fixture, &params);
    lease_fixture.view.ready = 0x0f;
    fixture_event(&lease_fixture, RL_EVENT_START);
    struct rl_update acquire = lease_fixture.sent;
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    lease_fixture.view.ready = 0x1f;
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    fixture_answer(&lease_fixture, acquire, 3, RL_VOTE_HELD, 10);
    cut(&lease_fixture, 3);
    cut(&lease_fixture, 4);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    for (unsigned node = 3; node < 5; node++) {
        ready_again(&lease_fixture, node);
        cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
        cr_assert_eq(lease_fixture.update.send, rl_bit(node));
        fixture_vote(&lease_fixture, node, RL_VOTE_GRANTED);
    }
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
}

Test(cleanup, an_adopted_token_may_be_on_every_node)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(5, 3);
    fixture_init(&lease_fixture, &params);
    fixture_adopt(&lease_fixture, 0);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0x1f);
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_RELEASED);
}

/* Its former holder had a longer TTL than the one that adopts it. */
Test(cleanup, of_an_adopted_token_lasts_until_after_its_deadline)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(3, 2);
    fixture_init(&lease_fixture, &params);
    fixture_adopt(&lease_fixture, start + 60 * ttl);
    fixture_at(&lease_fixture, start + 59 * ttl);
    lease_fixture.view.open = lease_fixture.view.ready = 0x3;
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_CLEANUP);
    fixture_wait(&lease_fixture, ttl / 2);
    ready_again(&lease_fixture, 2);
    cr_assert_eq(lease_fixture.update.send, 0x4);
    fixture_vote(&lease_fixture, 2, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_OVER);
}

Test(aborting, waits_one_timeout_at_most_for_its_releases)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 3);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_HELD);
    rl_time lost = lease_fixture.view.now;
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_FAILED);
    cr_assert_eq(lease_fixture.view.now, lost + RL_NODE_TIMEOUT_MIN);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_CLEANUP);
}

Test(aborting, reads_the_holders_remaining_time)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 3);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_HELD);
    struct rl_update round = lease_fixture.sent;
    cr_assert_eq(lease_fixture.ballot[0].pttl, -1);
    fixture_answer(&lease_fixture, round, 0, RL_VOTE_HELD, 4321);
    fixture_answer(&lease_fixture, round, 1, RL_VOTE_GONE, -1);
    cr_assert_eq(lease_fixture.ballot[0].pttl, 4321);
    cr_assert_eq(lease_fixture.ballot[1].vote, RL_VOTE_HELD,
                 "the result of the acquire does not change");
    fixture_answer(&lease_fixture, round, 2, RL_VOTE_UNKNOWN, -1);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_FAILED);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_TAKEN);
    cr_assert_eq(lease_fixture.lease.dirty, 0x4);
}

Test(aborting, counts_refusals_that_came_after_the_decision)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, 5);
    struct rl_update asked = lease_fixture.sent;
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_ERROR);
    struct rl_update round = lease_fixture.sent;
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ABORTING);
    fixture_answer(&lease_fixture, asked, 0, RL_VOTE_HELD, 5);
    fixture_answer(&lease_fixture, asked, 3, RL_VOTE_HELD, 5);
    fixture_answer(&lease_fixture, asked, 4, RL_VOTE_GRANTED, -1);
    for (unsigned node = 0; node < 5; node++)
        fixture_answer(&lease_fixture, round, node, RL_VOTE_GONE, -1);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_TAKEN,
                 "two held and one grant of three");
}
