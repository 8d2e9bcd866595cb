/* Which nodes may vote: the suspect, the restarted, the unfit; and the gate before all. */
#include "link_desk.h"

static const rl_time now = 100 * RL_SECOND;

static struct rl_link judged(struct rl_identity identity)
{
    struct rl_link link = link_in(RL_LINK_DOWN, now);
    link_greet(&link, now, &identity);
    return link;
}

Test(greeting, a_master_is_ready)
{
    struct rl_link link = judged(link_identity('a'));
    cr_assert_eq(link.state, RL_LINK_READY);
    cr_assert_eq(rl_link_next(&link), RL_NEVER);
}

Test(greeting, who_is_unfit_is_refused_with_the_reason)
{
    struct rl_identity identity = link_identity('a');
    identity.is_master = false;
    cr_assert_eq(judged(identity).fault, RL_FAULT_REPLICA);
    identity = link_identity('a');
    identity.is_cluster = true;
    cr_assert_eq(judged(identity).fault, RL_FAULT_CLUSTER);
    identity = link_identity('a');
    identity.is_loading = true;
    cr_assert_eq(judged(identity).fault, RL_FAULT_LOADING);
    identity = link_identity('a');
    identity.is_duplicate = true;
    cr_assert_eq(judged(identity).fault, RL_FAULT_DUPLICATE);
    identity = link_identity('a');
    identity.denied = RL_FAULT_WRONGPASS;
    cr_assert_eq(judged(identity).fault, RL_FAULT_WRONGPASS);
    identity = link_identity('a');
    identity.process.run_id[0] = '\0';
    cr_assert_eq(judged(identity).fault, RL_FAULT_PROTOCOL, "a node must say who it is");
    cr_assert_eq(judged(identity).state, RL_LINK_DOWN);
}

Test(suspect, owes_an_answer_for_too_long_and_returns)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_say(&link, RL_LINK_SENT, now);
    link_say(&link, RL_LINK_SENT, now + RL_MS); /* the oldest counts */
    cr_assert_eq(rl_link_next(&link), now + RL_SUSPECT_FLOOR);
    link_say(&link, RL_LINK_TICK, now + RL_SUSPECT_FLOOR - 1);
    cr_assert_eq(link.state, RL_LINK_READY);
    link_say(&link, RL_LINK_TICK, now + RL_SUSPECT_FLOOR);
    cr_assert_eq(link.state, RL_LINK_SUSPECT);
    cr_assert(rl_link_is_open(&link), "its stream keeps the order: a release may follow");
    cr_assert_eq(rl_link_next(&link), now + RL_GIVE_UP);
    rl_time late = now + 500 * RL_MS;
    link_answer(&link, late, now, now + RL_MS);
    cr_assert_eq(link.state, RL_LINK_SUSPECT, "it still owes another, for as long");
    link_answer(&link, late, now + RL_MS, late - RL_SUSPECT_FLOOR);
    cr_assert_eq(link.state, RL_LINK_SUSPECT);
    link_answer(&link, late, now + RL_MS, late - RL_SUSPECT_FLOOR + 1);
    cr_assert_eq(link.state, RL_LINK_READY, "what it owes now is young");
    cr_assert_eq(link.fault, RL_FAULT_NONE);
}

Test(suspect, is_given_up_after_a_second_or_four_timeouts)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_say(&link, RL_LINK_SENT, now);
    cr_assert_eq(link_say(&link, RL_LINK_TICK, now + RL_GIVE_UP), RL_LINK_ABORT,
                 "also when no tick came between");
    cr_assert_eq(link.fault, RL_FAULT_TIMEOUT);
    link = link_in(RL_LINK_READY, now);
    link.terms.node_timeout = 700 * RL_MS;
    link_say(&link, RL_LINK_SENT, now);
    link_say(&link, RL_LINK_TICK, now + 700 * RL_MS);
    cr_assert_eq(link.state, RL_LINK_SUSPECT);
    cr_assert_eq(rl_link_next(&link), now + 2800 * RL_MS);
}

Test(suspect, patience_follows_the_round_trip)
{
    struct rl_link link = link_in(RL_LINK_CONNECTING, now - RL_SECOND);
    struct rl_identity identity = link_identity('a');
    struct rl_link_event greeted = {
        .type = RL_LINK_GREETED, .now = now, .identity = &identity};
    link_say(&link, RL_LINK_CONNECTED, now - 20 * RL_MS);
    rl_link_step(&link, &greeted);
    cr_assert_eq(link.round_trip, 20 * RL_MS, "the greeting is the first to be measured");
    link_answer(&link, now + 100 * RL_MS, now, RL_NEVER);
    cr_assert_eq(link.round_trip, 30 * RL_MS, "then an eighth at a time");
    link_say(&link, RL_LINK_SENT, now);
    cr_assert_eq(rl_link_next(&link), now + 120 * RL_MS);
    link.round_trip = 10 * RL_SECOND;
    cr_assert_eq(rl_link_next(&link), now + RL_SUSPECT_CAP);
    link.round_trip = 1;
    cr_assert_eq(rl_link_next(&link), now + RL_SUSPECT_FLOOR);
    link_answer(&link, now, now, RL_NEVER);
    cr_assert_geq(link.round_trip, 1, "never 0 again: that means unknown");
}

/* As its owner steps it: an answer from which it learns nothing is not told. */
static void hear(struct rl_link *link, rl_time at, rl_time sent, rl_time oldest)
{
    if (rl_link_learns(link, at, oldest))
        link_answer(link, at, sent, oldest);
}

Test(suspect, not_while_what_was_written_at_once_is_answered_bit_by_bit)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link.round_trip = RL_MS / 10;
    link_say(&link, RL_LINK_SENT, now);
    rl_time end = now + 10 * RL_SUSPECT_FLOOR;
    for (rl_time at = now + RL_MS; at < end; at += RL_MS) {
        hear(&link, at, now, now);
        link_say(&link, RL_LINK_TICK, at);
        cr_assert_eq(link.state, RL_LINK_READY, "after %d us", (int)(at - now));
    }
    hear(&link, end, now, RL_NEVER);
    cr_assert_eq(rl_link_next(&link), RL_NEVER);
}

Test(suspect, of_one_write_that_is_answered_soon_only_the_last_answer_counts)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_say(&link, RL_LINK_SENT, now);
    cr_assert(!rl_link_learns(&link, now + RL_MS, now));
    cr_assert(!rl_link_learns(&link, now + RL_MS, now + RL_LINK_GRAIN - 1));
    cr_assert(rl_link_learns(&link, now + RL_MS, now + RL_LINK_GRAIN), "of another write");
    cr_assert(rl_link_learns(&link, now + RL_MS, now - 1), "sent earlier");
    cr_assert(rl_link_learns(&link, now + RL_MS, RL_NEVER));
    link_say(&link, RL_LINK_TICK, now + RL_SUSPECT_FLOOR);
    cr_assert(rl_link_learns(&link, now + RL_SUSPECT_FLOOR, now), "it is suspect");
}

Test(suspect, how_long_it_hung_is_at_most_twice_its_round_trip)
{
    struct rl_link link = link_in(RL_LINK_SUSPECT, now);
    rl_time before = link.round_trip;
    link_answer(&link, now + 900 * RL_MS, now, now);
    cr_assert_eq(link.state, RL_LINK_SUSPECT, "it owes another answer");
    cr_assert_eq(link.round_trip, before);
    link_answer(&link, now + 900 * RL_MS, now, RL_NEVER);
    cr_assert_eq(link.state, RL_LINK_READY);
    cr_assert_eq(link.round_trip, 2 * before);
}

/* What was measured first was too little: it is asked and late, until it is known better.
 */
Test(suspect, a_node_that_is_late_each_time_is_only_far)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    rl_time at = now, way = 200 * RL_MS;
    unsigned late = 0;
    for (unsigned i = 0; i < 20; i++) {
        link_say(&link, RL_LINK_SENT, at);
        link_say(&link, RL_LINK_TICK, rl_min(rl_link_next(&link), at + way));
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
    cr_assert(rl_link_is_open(&link), "but it takes releases");
    cr_assert(rl_link_is_settled(&link));
    cr_assert_eq(rl_link_next(&link), back + link_terms.quarantine);
    link_fail(&link, back + RL_SECOND, RL_FAULT_CLOSED, 0);
    link_greet(&link, back + 2 * RL_SECOND, &second);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED, "to reconnect changes nothing");
    cr_assert_eq(link.quarantine_until, back + link_terms.quarantine);
    link_fail(&link, back + 3 * RL_SECOND, RL_FAULT_CLOSED, 0);
    rl_time again = back + 4 * RL_SECOND;
    link_greet(&link, again, &first);
    cr_assert_eq(link.quarantine_until, again + link_terms.quarantine, "a second restart");
    link_say(&link, RL_LINK_TICK, again + link_terms.quarantine);
    cr_assert_eq(link.state, RL_LINK_READY);
}

Test(quarantine, lasts_through_suspicion)
{
    struct rl_link link = link_in(RL_LINK_QUARANTINED, now);
    link_say(&link, RL_LINK_SENT, now);
    cr_assert_eq(rl_link_next(&link), now + RL_SUSPECT_FLOOR);
    link_say(&link, RL_LINK_TICK, now + RL_SUSPECT_FLOOR);
    cr_assert_eq(link.state, RL_LINK_SUSPECT);
    link_answer(&link, now + 100 * RL_MS, now, RL_NEVER);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
    cr_assert_eq(link.fault, RL_FAULT_QUARANTINE);
}

Test(quarantine, is_not_forgotten_by_a_greeting_that_failed)
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
    cr_assert_eq(link.quarantine_until, seen + link_terms.quarantine);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
    cr_assert(link.restarted, "those who rely on it are to be told");
    link_fail(&link, now + 6 * RL_SECOND, RL_FAULT_CLOSED, 0);
    link_greet(&link, now + 7 * RL_SECOND, &second);
    cr_assert_not(link.restarted, "once");
}

/* The same server under two addresses: after its restart the other may come first. */
Test(quarantine, counts_for_who_was_only_refused_before)
{
    struct rl_identity first = link_identity('a'), second = link_identity('b');
    struct rl_link link;
    rl_link_init(&link, &link_terms, now);
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
    cr_assert_eq(link.round_trip, round_trip, "what was measured before is not forgotten");
}

Test(quarantine, one_digit_is_enough_to_be_another)
{
    struct rl_identity other = link_identity('a');
    other.process.run_id[RL_RUN_ID - 1] = 'b';
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_fail(&link, now, RL_FAULT_CLOSED, 0);
    link_greet(&link, now + RL_SECOND, &other);
    cr_assert_eq(link.state, RL_LINK_QUARANTINED);
}

Test(quarantine, a_durable_node_has_none)
{
    struct rl_identity second = link_identity('b');
    struct rl_link link = link_in(RL_LINK_READY, now);
    link.terms.quarantine = 0;
    link_fail(&link, now, RL_FAULT_CLOSED, 0);
    link_greet(&link, now + RL_SECOND, &second);
    cr_assert_eq(link.state, RL_LINK_READY);
}

/* --- the gate --- */

static struct rl_gate shut(void)
{
    struct rl_gate gate;
    rl_gate_init(&gate, now, RL_SECOND);
    return gate;
}

Test(gate, opens_when_every_node_was_tried)
{
    struct rl_gate gate = shut();
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x00, 0x00, now));
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x0f, 0x0f, now + RL_MS));
    cr_assert(rl_gate_step(&gate, 5, 3, 0x0f, 0x1f, now + 2 * RL_MS));
    cr_assert_eq(gate.opened_at, now + 2 * RL_MS);
}

Test(gate, opens_when_a_majority_is_out_of_reach)
{
    struct rl_gate gate = shut();
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x00, 0x03, now), "two of five are lost");
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x03, 0x0f, now));
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x00, 0x07, now), "the others get a moment");
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x00, 0x07, now + RL_GATE_GRACE - 1));
    cr_assert(rl_gate_step(&gate, 5, 3, 0x00, 0x07, now + RL_GATE_GRACE));
    gate = shut();
    cr_assert_not(rl_gate_step(&gate, 5, 4, 0x00, 0x03, now));
    cr_assert(rl_gate_step(&gate, 5, 4, 0x00, 0x03, now + RL_GATE_GRACE),
              "with a larger quorum, sooner");
}

Test(gate, a_majority_waits_as_long_again_for_the_others)
{
    struct rl_gate gate = shut();
    rl_time first = now + 300 * RL_MS;
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x07, 0x07, first));
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x07, 0x07, first + 200 * RL_MS));
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x07, 0x07, first + 300 * RL_MS - 1));
    cr_assert(rl_gate_step(&gate, 5, 3, 0x07, 0x07, first + 300 * RL_MS));
}

Test(gate, but_at_least_a_moment)
{
    struct rl_gate gate = shut();
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x07, 0x07, now));
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x07, 0x07, now + RL_GATE_GRACE - 1));
    cr_assert(rl_gate_step(&gate, 5, 3, 0x07, 0x07, now + RL_GATE_GRACE));
}

Test(gate, opens_at_the_timeout_in_any_case_and_stays_open)
{
    struct rl_gate gate = shut();
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x07, 0x07, now + 800 * RL_MS));
    cr_assert_eq(gate.deadline, now + RL_SECOND, "the grace does not pass it");
    gate = shut();
    cr_assert_not(rl_gate_step(&gate, 5, 3, 0x00, 0x00, now + RL_SECOND - 1));
    cr_assert(rl_gate_step(&gate, 5, 3, 0x00, 0x00, now + RL_SECOND));
    cr_assert(rl_gate_step(&gate, 5, 3, 0x00, 0x00, now), "now and from then on");
    cr_assert_eq(gate.opened_at, now + RL_SECOND);
}
