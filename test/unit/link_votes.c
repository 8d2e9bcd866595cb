/* Which nodes may vote: suspect, restarted and unfit ones; and the startup barrier. */
#include "link_fixture.h"

static const rl_time now = 100 * RL_SECOND;

static struct rl_link greeted_as(struct rl_identity identity)
{
    struct rl_link link = link_in(RL_LINK_DOWN, now);
    link_greet(&link, now, &identity);
    return link;
}

Test(greeting, a_master_is_ready)
{
    struct rl_link link = greeted_as(link_identity('a'));
    cr_assert_eq(link.state, RL_LINK_READY);
    cr_assert_eq(rl_link_next(&link), RL_NEVER);
}

Test(greeting, an_unfit_server_is_refused_with_the_reason)
{
    struct rl_identity identity = link_identity('a');
    identity.is_master = false;
    cr_assert_eq(greeted_as(identity).fault, RL_FAULT_REPLICA);
    identity = link_identity('a');
    identity.is_cluster = true;
    cr_assert_eq(greeted_as(identity).fault, RL_FAULT_CLUSTER);
    identity = link_identity('a');
    identity.is_loading = true;
    cr_assert_eq(greeted_as(identity).fault, RL_FAULT_LOADING);
    identity = link_identity('a');
    identity.is_duplicate = true;
    cr_assert_eq(greeted_as(identity).fault, RL_FAULT_DUPLICATE);
    identity = link_identity('a');
    identity.denied = RL_FAULT_WRONGPASS;
    cr_assert_eq(greeted_as(identity).fault, RL_FAULT_WRONGPASS);
    identity = link_identity('a');
    identity.process.run_id[0] = '\0';
    cr_assert_eq(greeted_as(identity).fault, RL_FAULT_NO_RUN_ID);
    memset(identity.process.replid, '0', RL_RUN_ID);
    cr_assert_eq(greeted_as(identity).fault, RL_FAULT_NO_RUN_ID);
    identity = link_identity('a');
    identity.has_role = identity.is_master = false;
    cr_assert_eq(greeted_as(identity).fault, RL_FAULT_NO_ROLE);
    identity = link_identity('a');
    identity.no_scripts = RL_FAULT_NO_EVAL;
    cr_assert_eq(greeted_as(identity).fault, RL_FAULT_NO_EVAL);
    cr_assert_eq(greeted_as(identity).state, RL_LINK_DOWN);
}

Test(suspect, a_node_is_suspect_after_its_timeout_and_returns_with_a_reply)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_event(&link, RL_LINK_SENT, now);
    link_event(&link, RL_LINK_SENT, now + RL_MS); /* the oldest counts */
    cr_assert_eq(rl_link_next(&link), now + RL_SUSPECT_FLOOR);
    link_event(&link, RL_LINK_TICK, now + RL_SUSPECT_FLOOR - 1);
    cr_assert_eq(link.state, RL_LINK_READY);
    link_event(&link, RL_LINK_TICK, now + RL_SUSPECT_FLOOR);
    cr_assert_eq(link.state, RL_LINK_SUSPECT);
    cr_assert(rl_link_is_open(&link), "its stream keeps the order: a release may follow");
    cr_assert_eq(rl_link_next(&link), now + RL_GIVE_UP);
    rl_time late = now + 500 * RL_MS;
    link_answer(&link, late, now, now + RL_MS);
    cr_assert_eq(link.state, RL_LINK_SUSPECT, "another reply is late by as much");
    link_answer(&link, late, now + RL_MS, late - RL_SUSPECT_FLOOR);
    cr_assert_eq(link.state, RL_LINK_SUSPECT);
    link_answer(&link, late, now + RL_MS, late - RL_SUSPECT_FLOOR + 1);
    cr_assert_eq(link.state, RL_LINK_READY, "its pending reply is recent");
    cr_assert_eq(link.fault, RL_FAULT_NONE);
}

Test(suspect, is_given_up_after_a_second_or_four_timeouts)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_event(&link, RL_LINK_SENT, now);
    cr_assert_eq(link_event(&link, RL_LINK_TICK, now + RL_GIVE_UP), RL_LINK_ABORT,
                 "also when no tick came between");
    cr_assert_eq(link.fault, RL_FAULT_TIMEOUT);
    link = link_in(RL_LINK_READY, now);
    link.params.node_timeout = 700 * RL_MS;
    link_event(&link, RL_LINK_SENT, now);
    link_event(&link, RL_LINK_TICK, now + 700 * RL_MS);
    cr_assert_eq(link.state, RL_LINK_SUSPECT);
    cr_assert_eq(rl_link_next(&link), now + 2800 * RL_MS);
}

Test(suspect, the_timeout_follows_the_round_trip)
{
    struct rl_link link = link_in(RL_LINK_CONNECTING, now - RL_SECOND);
    struct rl_identity identity = link_identity('a');
    struct rl_link_event greeted = {
        .type = RL_LINK_GREETED, .now = now, .identity = &identity};
    link_event(&link, RL_LINK_CONNECTED, now - 20 * RL_MS);
    rl_link_step(&link, &greeted);
    cr_assert_eq(link.round_trip, 20 * RL_MS, "the greeting is measured first");
    link_answer(&link, now + 100 * RL_MS, now, RL_NEVER);
    cr_assert_eq(link.round_trip, 30 * RL_MS, "then an eighth at a time");
    link_event(&link, RL_LINK_SENT, now);
    cr_assert_eq(rl_link_next(&link), now + 120 * RL_MS);
    link.round_trip = 10 * RL_SECOND;
    cr_assert_eq(rl_link_next(&link), now + RL_SUSPECT_CAP);
    link.round_trip = 1;
    cr_assert_eq(rl_link_next(&link), now + RL_SUSPECT_FLOOR);
    link_answer(&link, now, now, RL_NEVER);
    cr_assert_geq(link.round_trip, 1, "never 0 again: that means unknown");
}

/* A reply that the link does not need is not passed on. */
static void reply_at(struct rl_link *link, rl_time at, rl_time sent, rl_time oldest)
{
    if (rl_link_wants_reply(link, at, oldest))
        link_answer(link, at, sent, oldest);
}

Test(suspect, not_while_one_batch_is_answered_bit_by_bit)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link.round_trip = RL_MS / 10;
    link_event(&link, RL_LINK_SENT, now);
    rl_time end = now + 10 * RL_SUSPECT_FLOOR;
    for (rl_time at = now + RL_MS; at < end; at += RL_MS) {
        reply_at(&link, at, now, now);
        link_event(&link, RL_LINK_TICK, at);
        cr_assert_eq(link.state, RL_LINK_READY, "after %d us", (int)(at - now));
    }
    reply_at(&link, end, now, RL_NEVER);
    cr_assert_eq(rl_link_next(&link), RL_NEVER);
}

Test(suspect, in_a_batch_that_is_answered_soon_only_the_last_reply_counts)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_event(&link, RL_LINK_SENT, now);
    cr_assert(!rl_link_wants_reply(&link, now + RL_MS, now));
    cr_assert(!rl_link_wants_reply(&link, now + RL_MS, now + RL_LINK_GRAIN - 1));
    cr_assert(rl_link_wants_reply(&link, now + RL_MS, now + RL_LINK_GRAIN),
              "of another write");
    cr_assert(rl_link_wants_reply(&link, now + RL_MS, now - 1), "sent earlier");
    cr_assert(rl_link_wants_reply(&link, now + RL_MS, RL_NEVER));
    link_event(&link, RL_LINK_TICK, now + RL_SUSPECT_FLOOR);
    cr_assert(rl_link_wants_reply(&link, now + RL_SUSPECT_FLOOR, now), "it is suspect");
}

Test(suspect, by_a_short_timeout_only_when_it_has_passed)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link.params.node_timeout = RL_MS;
    rl_time later = now + RL_MS / 2;
    link_event(&link, RL_LINK_SENT, now);
    link_event(&link, RL_LINK_SENT, later);
    reply_at(&link, later, now, later);
    link_event(&link, RL_LINK_TICK, now + RL_MS);
    cr_assert_eq(link.state, RL_LINK_READY);
    link_event(&link, RL_LINK_TICK, later + RL_MS);
    cr_assert_eq(link.state, RL_LINK_SUSPECT);
}

Test(suspect, the_measured_hang_is_at_most_twice_the_round_trip)
{
    struct rl_link link = link_in(RL_LINK_SUSPECT, now);
    rl_time before = link.round_trip;
    link_answer(&link, now + 900 * RL_MS, now, now);
    cr_assert_eq(link.state, RL_LINK_SUSPECT, "another reply is due");
    cr_assert_eq(link.round_trip, before);
    link_answer(&link, now + 900 * RL_MS, now, RL_NEVER);
    cr_assert_eq(link.state, RL_LINK_READY);
    cr_assert_eq(link.round_trip, 2 * before);
}

/* The first measurement was too short: the node is late until the estimate has grown. */
Test(suspect, a_node_that_is_late_each_time_is_only_far)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    rl_time at = now, way = 200 * RL_MS;
    unsigned late = 0;
    for (unsigned i = 0; i < 20; i++) {
        link_event(&link, RL_LINK_SENT, at);
        link_event(&link, RL_LINK_TICK, rl_min(rl_link_next(&link), at + way));
        late += link.state == RL_LINK_SUSPECT;
        link_answer(&link, at + way, at, RL_NEVER);
        at += RL_SECOND;
    }
    cr_assert_leq(late, 17, "from 1 us on it doubles each time");
    cr_assert_eq(link.state, RL_LINK_READY);
    cr_assert_geq(4 * link.round_trip, way);
}

Test(quarantine, a_node_that_restarted_does_not_vote_until_all_ttls_have_passed)
{
    struct rl_identity first = link_identity('a'), second = link_identity('b');
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_fail(&link, now, RL_FAULT_CLOSED, 0);
    rl_time back = now + RL_SECOND;
    link_greet(&link, back, &second);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
    cr_assert_eq(link.fault, RL_FAULT_QUARANTINE);
    cr_assert(rl_link_is_open(&link), "but it gets releases");
    cr_assert(rl_link_was_tried(&link));
    cr_assert_eq(rl_link_next(&link), back + link_params.quarantine);
    link_fail(&link, back + RL_SECOND, RL_FAULT_CLOSED, 0);
    link_greet(&link, back + 2 * RL_SECOND, &second);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED, "a new connection changes nothing");
    cr_assert_eq(link.quarantine_until, back + link_params.quarantine);
    link_fail(&link, back + 3 * RL_SECOND, RL_FAULT_CLOSED, 0);
    rl_time again = back + 4 * RL_SECOND;
    link_greet(&link, again, &first);
    cr_assert_eq(link.quarantine_until, again + link_params.quarantine, "a second restart");
    link_event(&link, RL_LINK_TICK, again + link_params.quarantine);
    cr_assert_eq(link.state, RL_LINK_READY);
}

Test(quarantine, grows_with_the_longest_ttl_also_when_it_was_over)
{
    struct rl_identity second = link_identity('b');
    struct rl_link link = link_in(RL_LINK_READY, now);
    rl_link_set_quarantine(&link, link_params.quarantine);
    link_event(&link, RL_LINK_TICK, now);
    cr_assert_eq(link.state, RL_LINK_READY, "no restart was seen");
    link_fail(&link, now, RL_FAULT_CLOSED, 0);
    rl_time back = now + RL_SECOND, over = back + link_params.quarantine;
    link_greet(&link, back, &second);
    link_event(&link, RL_LINK_TICK, over);
    cr_assert_eq(link.state, RL_LINK_READY);
    rl_link_set_quarantine(&link, 2 * link_params.quarantine);
    link_event(&link, RL_LINK_TICK, over);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
    cr_assert_eq(rl_link_next(&link), over + link_params.quarantine);
    link_event(&link, RL_LINK_TICK, over + link_params.quarantine);
    cr_assert_eq(link.state, RL_LINK_READY);
}

Test(quarantine, lasts_through_suspicion)
{
    struct rl_link link = link_in(RL_LINK_QUARANTINED, now);
    link_event(&link, RL_LINK_SENT, now);
    cr_assert_eq(rl_link_next(&link), now + RL_SUSPECT_FLOOR);
    link_event(&link, RL_LINK_TICK, now + RL_SUSPECT_FLOOR);
    cr_assert_eq(link.state, RL_LINK_SUSPECT);
    link_answer(&link, now + 100 * RL_MS, now, RL_NEVER);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
    cr_assert_eq(link.fault, RL_FAULT_QUARANTINE);
}

Test(quarantine, survives_a_greeting_that_failed)
{
    struct rl_identity second = link_identity('b');
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_fail(&link, now, RL_FAULT_CLOSED, 0);
    second.is_loading = true;
    rl_time seen = now + RL_SECOND;
    link_greet(&link, seen, &second);
    cr_assert_eq(link.state, RL_LINK_DOWN);
    cr_assert(link.restarted);
    second.is_loading = false;
    link_greet(&link, now + 5 * RL_SECOND, &second);
    cr_assert_eq(link.quarantine_until, seen + link_params.quarantine);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
    cr_assert(link.restarted, "the leases must be notified");
    link_fail(&link, now + 6 * RL_SECOND, RL_FAULT_CLOSED, 0);
    link_greet(&link, now + 7 * RL_SECOND, &second);
    cr_assert_not(link.restarted, "once");
}

/* One server under two addresses: after its restart the other one may connect first. */
Test(quarantine, applies_to_a_server_that_was_only_refused_before)
{
    struct rl_identity first = link_identity('a'), second = link_identity('b');
    struct rl_link link;
    rl_link_init(&link, &link_params, now);
    first.is_duplicate = true;
    link_greet(&link, now, &first);
    cr_assert_eq(link.fault, RL_FAULT_DUPLICATE);
    cr_assert(link.duplicate);
    link_greet(&link, now + RL_SECOND, &second);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
    cr_assert_not(link.duplicate);
}

Test(quarantine, the_same_run_id_is_no_restart)
{
    struct rl_identity first = link_identity('a');
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_fail(&link, now, RL_FAULT_CLOSED, 0);
    rl_time round_trip = link.round_trip = 7 * RL_MS;
    link_greet(&link, now + RL_SECOND, &first);
    cr_assert_eq(link.state, RL_LINK_READY);
    cr_assert_eq(link.round_trip, round_trip, "the earlier measurement remains");
}

Test(quarantine, one_other_digit_is_a_restart)
{
    struct rl_identity other = link_identity('a');
    other.process.run_id[RL_RUN_ID - 1] = 'b';
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_fail(&link, now, RL_FAULT_CLOSED, 0);
    link_greet(&link, now + RL_SECOND, &other);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
}

/* A server without a run_id is known by its master_replid, but a replica is not. */
Test(quarantine, another_master_replid_without_a_run_id_is_a_restart)
{
    struct rl_identity first = link_identity('a'), second;
    struct rl_link link = link_in(RL_LINK_READY, now);
    first.process.run_id[0] = '\0';
    memset(first.process.replid, 'a', RL_RUN_ID);
    second = first;
    second.is_master = false;
    cr_assert_str_eq(rl_identity_server_id(&second), "");
    second.is_master = true;
    second.process.replid[RL_RUN_ID - 1] = 'b';
    link_fail(&link, now, RL_FAULT_CLOSED, 0);
    link_greet(&link, now + RL_SECOND, &first);
    cr_assert_eq(link.state, RL_LINK_READY, "the id is the one that it had");
    link_fail(&link, now + RL_SECOND, RL_FAULT_CLOSED, 0);
    link_greet(&link, now + 2 * RL_SECOND, &second);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
}

Test(quarantine, a_durable_node_has_none)
{
    struct rl_identity second = link_identity('b');
    struct rl_link link = link_in(RL_LINK_READY, now);
    link.params.quarantine = 0;
    link_fail(&link, now, RL_FAULT_CLOSED, 0);
    link_greet(&link, now + RL_SECOND, &second);
    cr_assert_eq(link.state, RL_LINK_READY);
}

/* --- the startup barrier --- */

static struct rl_startup_barrier closed_barrier(void)
{
    struct rl_startup_barrier gate;
    rl_startup_barrier_init(&gate, now, 0, RL_SECOND);
    return gate;
}

Test(startup_barrier, opens_when_every_node_was_tried)
{
    struct rl_startup_barrier gate = closed_barrier();
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x00, 0x00, now));
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x0f, 0x0f, now + RL_MS));
    cr_assert(rl_startup_barrier_step(&gate, 5, 3, 0x0f, 0x1f, now + 2 * RL_MS));
    cr_assert_eq(gate.over_at, now + 2 * RL_MS);
}

Test(startup_barrier, opens_when_a_majority_is_out_of_reach)
{
    struct rl_startup_barrier gate = closed_barrier();
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x00, 0x03, now),
                  "two of five are lost");
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x03, 0x0f, now));
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x00, 0x07, now),
                  "the others get a short grace");
    cr_assert_not(
        rl_startup_barrier_step(&gate, 5, 3, 0x00, 0x07, now + RL_STARTUP_GRACE - 1));
    cr_assert(rl_startup_barrier_step(&gate, 5, 3, 0x00, 0x07, now + RL_STARTUP_GRACE));
    gate = closed_barrier();
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 4, 0x00, 0x03, now));
    cr_assert(rl_startup_barrier_step(&gate, 5, 4, 0x00, 0x03, now + RL_STARTUP_GRACE),
              "with a larger quorum, sooner");
}

Test(startup_barrier, a_majority_waits_as_long_again_for_the_others)
{
    struct rl_startup_barrier gate = closed_barrier();
    rl_time first = now + 300 * RL_MS;
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, first));
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, first + 200 * RL_MS));
    cr_assert_not(
        rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, first + 300 * RL_MS - 1));
    cr_assert(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, first + 300 * RL_MS));
}

Test(startup_barrier, the_grace_has_a_minimum)
{
    struct rl_startup_barrier gate = closed_barrier();
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, now));
    cr_assert_not(
        rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, now + RL_STARTUP_GRACE - 1));
    cr_assert(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, now + RL_STARTUP_GRACE));
}

Test(startup_barrier, a_fixed_node_timeout_is_the_grace)
{
    struct rl_startup_barrier gate;
    rl_startup_barrier_init(&gate, now, 400 * RL_MS, RL_SECOND);
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, now));
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, now + 400 * RL_MS - 1));
    cr_assert(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, now + 400 * RL_MS));
    rl_startup_barrier_init(&gate, now, 5 * RL_SECOND, RL_SECOND);
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, now + RL_SECOND - 1));
    cr_assert(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, now + RL_SECOND),
              "and no longer");
}

Test(startup_barrier, opens_at_the_timeout_in_any_case_and_stays_open)
{
    struct rl_startup_barrier gate = closed_barrier();
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x07, 0x07, now + 800 * RL_MS));
    cr_assert_eq(gate.deadline, now + RL_SECOND, "the grace does not exceed it");
    gate = closed_barrier();
    cr_assert_not(rl_startup_barrier_step(&gate, 5, 3, 0x00, 0x00, now + RL_SECOND - 1));
    cr_assert(rl_startup_barrier_step(&gate, 5, 3, 0x00, 0x00, now + RL_SECOND));
    cr_assert(rl_startup_barrier_step(&gate, 5, 3, 0x00, 0x00, now),
              "now and from then on");
    cr_assert_eq(gate.over_at, now + RL_SECOND);
}
