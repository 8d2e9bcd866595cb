/* A held lock on its own: the watchdog, the deadline, and locks taken over by token. */
#include "desk.h"

#define DRIFT(ttl) ((ttl) / 100 + RL_DRIFT_FLOOR)

static const rl_time start = RL_SECOND;
static const rl_time ttl = 30 * RL_SECOND;
static const rl_time valid = start + ttl - DRIFT(ttl);

static struct rl_terms watched(void)
{
    struct rl_terms terms = desk_terms(5, 3);
    terms.ttl = ttl;
    terms.extend_every = ttl / 3;
    return terms;
}

static void hold(struct desk *desk, const struct rl_terms *terms, rl_nodes granting)
{
    desk_init(desk, terms);
    desk_say(desk, RL_EVENT_START);
    desk_votes(desk, granting, RL_VOTE_GRANTED);
    cr_assert_eq(desk->lease.state, RL_LEASE_HELD);
}

/* Ticks until something is sent or told; how often is bounded, so nothing may spin. */
static struct rl_update next_deed(struct desk *desk)
{
    for (unsigned i = 0; i < 2 * RL_NODES_MAX; i++) {
        struct rl_update update = desk_tick(desk);
        if (update.send || update.news)
            return update;
    }
    cr_assert(false, "ticked in vain");
    return desk->update;
}

Test(watchdog, extends_at_a_third_of_the_ttl)
{
    struct desk desk;
    struct rl_terms terms = watched();
    hold(&desk, &terms, 0x1f);
    for (unsigned i = 1; i <= 5; i++) {
        struct rl_update update = next_deed(&desk);
        cr_assert_eq(update.text, RL_EXTEND);
        cr_assert_eq(desk.view.now, start + i * ttl / 3);
        desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
        cr_assert_eq(desk.lease.valid, valid + i * ttl / 3);
    }
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 0, "nobody asked");
    cr_assert_eq(desk_told(&desk, RL_NEWS_RENEWED), 5);
}

Test(watchdog, counts_from_when_the_round_was_sent)
{
    struct desk desk;
    struct rl_terms terms = watched();
    desk_init(&desk, &terms);
    desk_say(&desk, RL_EVENT_START);
    desk_wait(&desk, 30 * RL_MS);
    desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_next(&desk.lease), start + ttl / 3);
    desk_tick(&desk);
    desk_wait(&desk, 30 * RL_MS);
    desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_next(&desk.lease), start + 2 * ttl / 3);
}

Test(watchdog, is_early_by_up_to_a_part_where_leases_are_spread)
{
    struct rl_terms terms = watched();
    rl_time before = start + ttl / 3;
    for (unsigned spread = 0; spread < 256; spread++) {
        struct desk desk;
        desk_init(&desk, &terms);
        desk.lease.spread = (uint8_t)spread;
        desk_say(&desk, RL_EVENT_START);
        desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
        rl_time due = rl_lease_next(&desk.lease);
        rl_time early = ttl / 3 / RL_SPREAD_SHARE * spread / 256;
        cr_assert_leq(due, before);
        cr_assert_leq(due, start + ttl / 3 - early);
        cr_assert_gt(due, start + ttl / 3 - early - RL_EXTEND_COARSE);
        before = due;
    }
}

Test(watchdog, of_leases_that_follow_each_other_are_far_apart)
{
    bool seen[256] = {false};
    for (uint64_t number = 1; number <= 256; number++) {
        uint8_t step = (uint8_t)(rl_lease_spread(number) - rl_lease_spread(number - 1));
        cr_assert(step >= 64 && step <= 256 - 64);
        cr_assert_not(seen[rl_lease_spread(number)]);
        seen[rl_lease_spread(number)] = true;
    }
}

static void expect_due_together(const struct rl_terms *terms, rl_time grid)
{
    rl_time due = 0;
    for (rl_time late = 0; late < grid; late += RL_MS) {
        struct desk desk;
        desk_init(&desk, terms);
        desk_at(&desk, start + late);
        desk_say(&desk, RL_EVENT_START);
        desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
        due = due ? due : rl_lease_next(&desk.lease);
        cr_assert_eq(rl_lease_next(&desk.lease), due);
        cr_assert_eq(due % grid, 0);
        cr_assert_leq(due, start + terms->extend_every, "never later than asked for");
        cr_assert_gt(due, start + terms->extend_every - grid);
    }
}

Test(watchdog, what_is_due_within_10_to_50_ms_is_due_together)
{
    struct rl_terms terms = watched();
    expect_due_together(&terms, 50 * RL_MS);
    terms.ttl = 300 * RL_SECOND;
    terms.extend_every = terms.ttl / 3;
    expect_due_together(&terms, 50 * RL_MS);
    terms.ttl = 12 * RL_SECOND;
    terms.extend_every = terms.ttl / 3;
    expect_due_together(&terms, 20 * RL_MS);
    terms.ttl = 3 * RL_SECOND;
    terms.extend_every = terms.ttl / 3;
    expect_due_together(&terms, 10 * RL_MS);
}

Test(watchdog, is_exact_where_the_grid_would_be_too_coarse)
{
    struct desk desk;
    struct rl_terms terms = watched();
    terms.ttl = 300 * RL_MS;
    terms.extend_every = 10 * RL_EXTEND_GRID - 1;
    hold(&desk, &terms, 0x1f);
    cr_assert_eq(rl_lease_next(&desk.lease), start + terms.extend_every);
}

Test(watchdog, tries_again_until_the_old_deadline)
{
    struct desk desk;
    struct rl_terms terms = watched();
    hold(&desk, &terms, 0x1f);
    unsigned tries = 0;
    rl_time last = 0;
    while (!(next_deed(&desk).news & RL_NEWS_LOST)) {
        cr_assert_eq(desk.update.text, RL_EXTEND);
        cr_assert(last == 0 || desk.view.now - last <= ttl / RL_RETRY_SHARE + RL_SECOND);
        last = desk.view.now;
        tries++;
        desk_votes(&desk, 0x1f, RL_VOTE_ERROR);
    }
    cr_assert_eq(desk.view.now, valid);
    cr_assert_eq(tries, 14, "from a third to the end, each twentieth");
    cr_assert_eq(desk.lease.cause, RL_CAUSE_EXPIRED);
}

Test(watchdog, tries_again_where_too_few_nodes_are_ready)
{
    struct desk desk;
    struct rl_terms terms = watched();
    hold(&desk, &terms, 0x1f);
    desk.view.ready = 0x03;
    desk_tick(&desk);
    cr_assert_eq(desk.update.send, 0);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
    desk.view.ready = 0x07;
    desk_tick(&desk);
    cr_assert_eq(desk.update.send, 0x07);
    cr_assert_eq(desk.view.now, start + ttl / 3 + ttl / RL_RETRY_SHARE);
}

/* A timeout that was set longer than the TTL must not let one node stop the watchdog. */
Test(watchdog, does_not_wait_for_a_silent_node)
{
    struct desk desk;
    struct rl_terms terms = watched();
    terms.node_timeout = 2 * ttl;
    hold(&desk, &terms, 0x0f);
    for (unsigned i = 1; i <= 3; i++) {
        next_deed(&desk);
        cr_assert_eq(desk.update.text, RL_EXTEND);
        cr_assert_eq(desk.view.now, start + i * ttl / 3);
        desk_votes(&desk, 0x0f, RL_VOTE_GRANTED);
    }
}

Test(watchdog, waits_for_a_round_that_is_not_decided)
{
    struct desk desk;
    struct rl_terms terms = watched();
    terms.node_timeout = 5 * RL_SECOND;
    hold(&desk, &terms, 0x1f);
    next_deed(&desk);
    rl_time asked = desk.view.now;
    desk_wait(&desk, 4 * RL_SECOND);
    cr_assert_eq(desk_say(&desk, RL_EVENT_TICK).send, 0);
    next_deed(&desk);
    cr_assert_eq(desk.view.now, asked + 5 * RL_SECOND, "all are silent: again at once");
}

Test(watchdog, follows_a_ttl_that_was_replaced)
{
    struct desk desk;
    struct rl_terms terms = watched();
    hold(&desk, &terms, 0x1f);
    desk_extend(&desk, 3 * RL_SECOND);
    desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
    next_deed(&desk);
    cr_assert_eq(desk.update.text, RL_EXTEND, "it was lost before the watchdog came");
    cr_assert_eq(desk.view.now, start + RL_SECOND);
    desk_extend(&desk, ttl);
    desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
    desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
    next_deed(&desk);
    cr_assert_eq(desk.view.now, start + RL_SECOND + ttl / 3);
}

Test(watchdog, tries_again_within_a_ttl_that_was_replaced)
{
    struct desk desk;
    struct rl_terms terms = watched();
    hold(&desk, &terms, 0x1f);
    desk_extend(&desk, RL_SECOND);
    desk_votes(&desk, 0x1f, RL_VOTE_ERROR);
    desk_tick(&desk);
    cr_assert_eq(desk.update.text, RL_EXTEND);
    cr_assert_eq(desk.view.now, start + RL_SECOND / RL_RETRY_SHARE);
}

Test(watchdog, stops_at_the_longest_hold)
{
    struct desk desk;
    struct rl_terms terms = watched();
    terms.max_hold = 35 * RL_SECOND;
    hold(&desk, &terms, 0x1f);
    next_deed(&desk);
    desk_votes(&desk, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.valid, start + 35 * RL_SECOND);
    next_deed(&desk);
    cr_assert_eq(desk.update.news, RL_NEWS_LOST);
    cr_assert_eq(desk.view.now, start + 35 * RL_SECOND);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_MAX_HOLD);
}

Test(deadline, lost_is_told_a_margin_early_and_once)
{
    struct desk desk;
    struct rl_terms terms = watched();
    terms.extend_every = 0;
    terms.margin = 2 * RL_SECOND;
    hold(&desk, &terms, 0x1f);
    desk_at(&desk, valid - terms.margin - 1);
    cr_assert_eq(desk_say(&desk, RL_EVENT_EXPIRE).news, 0);
    desk_wait(&desk, 1);
    cr_assert_eq(desk_say(&desk, RL_EVENT_EXPIRE).news, RL_NEWS_LOST);
    cr_assert_eq(rl_lease_left(&desk.lease, desk.view.now), terms.margin,
                 "so long does it still exclude others");
    cr_assert_eq(rl_lease_next(&desk.lease), RL_NEVER);
    desk_at(&desk, valid);
    cr_assert_eq(desk_say(&desk, RL_EVENT_EXPIRE).news, 0);
    cr_assert_eq(rl_lease_left(&desk.lease, desk.view.now), 0);
}

Test(deadline, is_looked_at_before_whatever_arrived)
{
    static const enum rl_lease_event_type late[] = {RL_EVENT_TICK, RL_EVENT_EXTEND,
                                                    RL_EVENT_RELEASE, RL_EVENT_EXPIRE};
    for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
        struct desk desk;
        struct rl_terms terms = watched();
        hold(&desk, &terms, 0x1f);
        desk_at(&desk, valid);
        desk_say(&desk, late[i]);
        cr_assert(desk.update.news & RL_NEWS_LOST);
        cr_assert_neq(desk.update.text, RL_EXTEND);
    }
}

Test(deadline, time_left)
{
    struct desk desk;
    struct rl_terms terms = watched();
    desk_init(&desk, &terms);
    cr_assert_eq(rl_lease_left(&desk.lease, start), 0);
    desk_say(&desk, RL_EVENT_START);
    cr_assert_eq(rl_lease_left(&desk.lease, start), 0, "not held yet");
    desk_votes(&desk, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_left(&desk.lease, start), valid - start);
    cr_assert_eq(rl_lease_left(&desk.lease, valid - 1), 1);
    cr_assert_eq(rl_lease_left(&desk.lease, valid), 0);
    cr_assert_eq(rl_lease_left(&desk.lease, valid + ttl), 0);
    desk_say(&desk, RL_EVENT_RELEASE);
    cr_assert_eq(rl_lease_left(&desk.lease, start), 0, "given back");
}

Test(adopt, with_a_deadline_it_is_held_until_then)
{
    struct desk desk;
    struct rl_terms terms = watched();
    desk_init(&desk, &terms);
    desk_adopt(&desk, start + 5 * RL_SECOND);
    cr_assert_eq(rl_lease_left(&desk.lease, start), 5 * RL_SECOND);
    next_deed(&desk);
    cr_assert_eq(desk.view.now, start, "its watchdog does not wait");
    cr_assert(desk.update.plant);
    desk_votes(&desk, 0x1f, RL_VOTE_ERROR);
    while (!next_deed(&desk).news)
        desk_votes(&desk, 0x1f, RL_VOTE_ERROR);
    cr_assert_eq(desk.update.news, RL_NEWS_LOST);
    cr_assert_eq(desk.view.now, start + 5 * RL_SECOND);
}

Test(adopt, the_longest_hold_begins_with_the_adoption)
{
    struct desk desk;
    struct rl_terms terms = watched();
    terms.max_hold = 4 * RL_SECOND;
    desk_init(&desk, &terms);
    desk_adopt(&desk, start + 9 * RL_SECOND);
    cr_assert_eq(rl_lease_left(&desk.lease, start), 4 * RL_SECOND);
}

Test(adopt, a_bare_token_is_held_by_nobody_until_a_quorum_says_so)
{
    struct desk desk;
    struct rl_terms terms = watched();
    desk_init(&desk, &terms);
    desk_adopt(&desk, 0);
    cr_assert_eq(rl_lease_next(&desk.lease), RL_NEVER, "no deadline, no watchdog");
    cr_assert_eq(rl_lease_left(&desk.lease, start), 0);
    desk_extend(&desk, 0);
    cr_assert_not(desk.update.plant);
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_left(&desk.lease, start), 0);
    desk_votes(&desk, 0x04, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.news, RL_NEWS_EXTENDED);
    cr_assert_eq(desk.lease.valid, valid);
}

Test(adopt, a_bare_token_that_is_gone_was_never_lost)
{
    struct desk desk;
    struct rl_terms terms = watched();
    desk_init(&desk, &terms);
    desk_adopt(&desk, 0);
    desk_extend(&desk, 0);
    desk_votes(&desk, 0x07, RL_VOTE_GONE);
    cr_assert_eq(desk.update.news, RL_NEWS_NOT_EXTENDED);
    cr_assert_eq(desk.lease.state, RL_LEASE_LOST);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_GONE);
}

/* It has no old deadline that would have been looked at before the grants. */
Test(adopt, grants_that_come_after_what_they_grant_are_worth_nothing)
{
    struct desk desk;
    struct rl_terms terms = watched();
    desk_init(&desk, &terms);
    desk_adopt(&desk, 0);
    desk_extend(&desk, 0);
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    desk_at(&desk, valid);
    desk_votes(&desk, 0x04, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.news, RL_NEWS_NOT_EXTENDED);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_EXPIRED);
    cr_assert_eq(rl_lease_left(&desk.lease, desk.view.now), 0);
    desk_votes(&desk, 0x18, RL_VOTE_GRANTED);
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 0);
}
