/* A held lock: the watchdog, the deadline, and locks that are adopted by token. */
#include "lease_fixture.h"

#define DRIFT(ttl) ((ttl) / 100 + RL_DRIFT_FLOOR)

static const rl_time start = RL_SECOND;
static const rl_time ttl = 30 * RL_SECOND;
static const rl_time valid = start + ttl - DRIFT(ttl);

static struct rl_lease_params watched(void)
{
    struct rl_lease_params params = fixture_params(5, 3);
    params.ttl = ttl;
    params.extend_every = ttl / 3;
    return params;
}

static void init_watched(struct lease_fixture *lease_fixture)
{
    struct rl_lease_params params = watched();
    fixture_init(lease_fixture, &params);
}

static void hold(struct lease_fixture *lease_fixture, const struct rl_lease_params *params,
                 rl_node_set granting)
{
    fixture_start_with(lease_fixture, params);
    fixture_votes(lease_fixture, granting, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture->lease.state, RL_LEASE_HELD);
}

/*
 * Ticks until something is sent or reported; the number of ticks is bounded, so that
 * nothing may spin.
 */
static struct rl_update next_deed(struct lease_fixture *lease_fixture)
{
    for (unsigned i = 0; i < 2 * RL_NODES_MAX; i++) {
        struct rl_update update = fixture_tick(lease_fixture);
        if (update.send || update.reports)
            return update;
    }
    cr_assert(false, "ticked in vain");
    return lease_fixture->update;
}

Test(watchdog, extends_at_a_third_of_the_ttl)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    hold(&lease_fixture, &params, 0x1f);
    for (unsigned i = 1; i <= 5; i++) {
        struct rl_update update = next_deed(&lease_fixture);
        cr_assert_eq(update.command, RL_CMD_EXTEND);
        cr_assert_eq(lease_fixture.view.now, start + i * ttl / 3);
        fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
        cr_assert_eq(lease_fixture.lease.valid, valid + i * ttl / 3);
    }
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 0, "nobody asked");
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_RENEWED), 5);
}

Test(watchdog, counts_from_when_the_round_was_sent)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    fixture_start_with(&lease_fixture, &params);
    fixture_wait(&lease_fixture, 30 * RL_MS);
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_next(&lease_fixture.lease), start + ttl / 3);
    fixture_tick(&lease_fixture);
    fixture_wait(&lease_fixture, 30 * RL_MS);
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_next(&lease_fixture.lease), start + 2 * ttl / 3);
}

Test(watchdog, is_early_by_up_to_the_spread)
{
    struct rl_lease_params params = watched();
    rl_time before = start + ttl / 3;
    for (unsigned spread = 0; spread < 256; spread++) {
        struct lease_fixture lease_fixture;
        fixture_init(&lease_fixture, &params);
        lease_fixture.lease.spread = (uint8_t)spread;
        fixture_event(&lease_fixture, RL_EVENT_START);
        fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
        rl_time due = rl_lease_next(&lease_fixture.lease);
        rl_time early = ttl / 3 / RL_SPREAD_SHARE * spread / 256;
        cr_assert_leq(due, before);
        cr_assert_leq(due, start + ttl / 3 - early);
        cr_assert_gt(due, start + ttl / 3 - early - RL_EXTEND_COARSE);
        before = due;
    }
}

Test(watchdog, of_consecutive_leases_are_far_apart)
{
    bool seen[256] = {false};
    for (uint64_t number = 1; number <= 256; number++) {
        uint8_t step = (uint8_t)(rl_lease_spread(number) - rl_lease_spread(number - 1));
        cr_assert(step >= 64 && step <= 256 - 64);
        cr_assert_not(seen[rl_lease_spread(number)]);
        seen[rl_lease_spread(number)] = true;
    }
}

static void expect_due_together(const struct rl_lease_params *params, rl_time grid)
{
    rl_time due = 0;
    for (rl_time late = 0; late < grid; late += RL_MS) {
        struct lease_fixture lease_fixture;
        fixture_init(&lease_fixture, params);
        fixture_at(&lease_fixture, start + late);
        fixture_event(&lease_fixture, RL_EVENT_START);
        fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
        due = due ? due : rl_lease_next(&lease_fixture.lease);
        cr_assert_eq(rl_lease_next(&lease_fixture.lease), due);
        cr_assert_eq(due % grid, 0);
        cr_assert_leq(due, start + params->extend_every, "never later than a third");
        cr_assert_gt(due, start + params->extend_every - grid);
    }
}

Test(watchdog, due_times_within_10_to_50_ms_are_joined)
{
    struct rl_lease_params params = watched();
    expect_due_together(&params, 50 * RL_MS);
    params.ttl = 300 * RL_SECOND;
    params.extend_every = params.ttl / 3;
    expect_due_together(&params, 50 * RL_MS);
    params.ttl = 12 * RL_SECOND;
    params.extend_every = params.ttl / 3;
    expect_due_together(&params, 20 * RL_MS);
    params.ttl = 3 * RL_SECOND;
    params.extend_every = params.ttl / 3;
    expect_due_together(&params, 10 * RL_MS);
}

Test(watchdog, is_exact_where_the_grid_would_be_too_coarse)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    params.ttl = 300 * RL_MS;
    params.extend_every = 10 * RL_EXTEND_GRID - 1;
    hold(&lease_fixture, &params, 0x1f);
    cr_assert_eq(rl_lease_next(&lease_fixture.lease), start + params.extend_every);
}

Test(watchdog, tries_again_until_the_old_deadline)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    hold(&lease_fixture, &params, 0x1f);
    unsigned tries = 0;
    rl_time last = 0;
    while (!(next_deed(&lease_fixture).reports & RL_REPORT_LOST)) {
        cr_assert_eq(lease_fixture.update.command, RL_CMD_EXTEND);
        cr_assert(last == 0 ||
                  lease_fixture.view.now - last <= ttl / RL_RETRY_SHARE + RL_SECOND);
        last = lease_fixture.view.now;
        tries++;
        fixture_votes(&lease_fixture, 0x1f, RL_VOTE_ERROR);
    }
    cr_assert_eq(lease_fixture.view.now, valid);
    cr_assert_eq(tries, 14, "from a third to the end, each twentieth");
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_EXPIRED);
}

Test(watchdog, tries_again_when_too_few_nodes_are_ready)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    hold(&lease_fixture, &params, 0x1f);
    lease_fixture.view.ready = 0x03;
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.update.send, 0);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
    lease_fixture.view.ready = 0x07;
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.update.send, 0x07);
    cr_assert_eq(lease_fixture.view.now, start + ttl / 3 + ttl / RL_RETRY_SHARE);
}

Test(watchdog, does_not_extend_a_lease_whose_release_waits_to_be_sent)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    hold(&lease_fixture, &params, 0x1f);
    lease_fixture.lease.leaving = true;
    fixture_wait(&lease_fixture, ttl / 2);
    cr_assert_eq(fixture_event(&lease_fixture, RL_EVENT_TICK).send, 0);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_LOST, "its deadline counts");
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0x1f);
}

/* With a node timeout longer than the TTL one silent node must not stop the watchdog. */
Test(watchdog, does_not_wait_for_a_silent_node)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    params.node_timeout = 2 * ttl;
    hold(&lease_fixture, &params, 0x0f);
    for (unsigned i = 1; i <= 3; i++) {
        next_deed(&lease_fixture);
        cr_assert_eq(lease_fixture.update.command, RL_CMD_EXTEND);
        cr_assert_eq(lease_fixture.view.now, start + i * ttl / 3);
        fixture_votes(&lease_fixture, 0x0f, RL_VOTE_GRANTED);
    }
}

Test(watchdog, waits_for_a_round_that_is_not_decided)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    params.node_timeout = 5 * RL_SECOND;
    hold(&lease_fixture, &params, 0x1f);
    next_deed(&lease_fixture);
    rl_time asked = lease_fixture.view.now;
    fixture_wait(&lease_fixture, 4 * RL_SECOND);
    cr_assert_eq(fixture_event(&lease_fixture, RL_EVENT_TICK).send, 0);
    next_deed(&lease_fixture);
    cr_assert_eq(lease_fixture.view.now, asked + 5 * RL_SECOND,
                 "all are silent: again at once");
}

Test(watchdog, follows_a_ttl_that_was_replaced)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    hold(&lease_fixture, &params, 0x1f);
    fixture_extend(&lease_fixture, 3 * RL_SECOND);
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
    next_deed(&lease_fixture);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_EXTEND,
                 "it was lost before the watchdog's time");
    cr_assert_eq(lease_fixture.view.now, start + RL_SECOND);
    fixture_extend(&lease_fixture, ttl);
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
    next_deed(&lease_fixture);
    cr_assert_eq(lease_fixture.view.now, start + RL_SECOND + ttl / 3);
}

Test(watchdog, tries_again_within_a_ttl_that_was_replaced)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    hold(&lease_fixture, &params, 0x1f);
    fixture_extend(&lease_fixture, RL_SECOND);
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_ERROR);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_EXTEND);
    cr_assert_eq(lease_fixture.view.now, start + RL_SECOND / RL_RETRY_SHARE);
}

Test(watchdog, stops_at_the_longest_hold)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    params.max_hold = 35 * RL_SECOND;
    hold(&lease_fixture, &params, 0x1f);
    next_deed(&lease_fixture);
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.valid, start + 35 * RL_SECOND);
    next_deed(&lease_fixture);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_LOST);
    cr_assert_eq(lease_fixture.view.now, start + 35 * RL_SECOND);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_MAX_HOLD);
}

Test(deadline, lost_is_reported_a_margin_early_and_once)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    params.extend_every = 0;
    params.margin = 2 * RL_SECOND;
    hold(&lease_fixture, &params, 0x1f);
    fixture_at(&lease_fixture, valid - params.margin - 1);
    cr_assert_eq(fixture_event(&lease_fixture, RL_EVENT_EXPIRE).reports, 0);
    fixture_wait(&lease_fixture, 1);
    cr_assert_eq(fixture_event(&lease_fixture, RL_EVENT_EXPIRE).reports, RL_REPORT_LOST);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, lease_fixture.view.now), params.margin,
                 "until then it still excludes others");
    cr_assert_eq(rl_lease_next(&lease_fixture.lease), RL_NEVER);
    fixture_at(&lease_fixture, valid);
    cr_assert_eq(fixture_event(&lease_fixture, RL_EVENT_EXPIRE).reports, 0);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, lease_fixture.view.now), 0);
}

Test(deadline, is_checked_before_the_replies_that_arrived)
{
    static const enum rl_lease_event_type late[] = {RL_EVENT_TICK, RL_EVENT_EXTEND,
                                                    RL_EVENT_RELEASE, RL_EVENT_EXPIRE};
    for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
        struct lease_fixture lease_fixture;
        struct rl_lease_params params = watched();
        hold(&lease_fixture, &params, 0x1f);
        fixture_at(&lease_fixture, valid);
        fixture_event(&lease_fixture, late[i]);
        cr_assert(lease_fixture.update.reports & RL_REPORT_LOST);
        cr_assert_neq(lease_fixture.update.command, RL_CMD_EXTEND);
    }
}

Test(deadline, time_left)
{
    struct lease_fixture lease_fixture;
    init_watched(&lease_fixture);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, start), 0);
    fixture_event(&lease_fixture, RL_EVENT_START);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, start), 0, "not held yet");
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, start), valid - start);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, valid - 1), 1);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, valid), 0);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, valid + ttl), 0);
    fixture_event(&lease_fixture, RL_EVENT_RELEASE);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, start), 0, "given back");
}

Test(adopt, with_a_deadline_it_is_held_until_then)
{
    struct lease_fixture lease_fixture;
    init_watched(&lease_fixture);
    fixture_adopt(&lease_fixture, start + 5 * RL_SECOND);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, start), 5 * RL_SECOND);
    next_deed(&lease_fixture);
    cr_assert_eq(lease_fixture.view.now, start, "its watchdog does not wait");
    cr_assert(lease_fixture.update.recreate);
    fixture_votes(&lease_fixture, 0x1f, RL_VOTE_ERROR);
    while (!next_deed(&lease_fixture).reports)
        fixture_votes(&lease_fixture, 0x1f, RL_VOTE_ERROR);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_LOST);
    cr_assert_eq(lease_fixture.view.now, start + 5 * RL_SECOND);
}

/* The deadline of a bare token is that of its first round: this must not end before it is
 * won. */
Test(adopt, without_a_deadline_a_round_that_is_late_by_the_margin_is_lost)
{
    for (int late = 0; late < 2; late++) {
        struct lease_fixture lease_fixture;
        struct rl_lease_params params = watched();
        params.margin = 2 * RL_SECOND;
        params.node_timeout = 2 * ttl;
        fixture_init(&lease_fixture, &params);
        fixture_adopt(&lease_fixture, 0);
        fixture_extend(&lease_fixture, 0);
        fixture_at(&lease_fixture, valid - params.margin - 1 + late);
        fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
        cr_assert_eq(lease_fixture.update.reports,
                     late ? RL_REPORT_NOT_EXTENDED : RL_REPORT_EXTENDED);
        cr_assert_eq(rl_lease_left(&lease_fixture.lease, lease_fixture.view.now),
                     late ? 0 : params.margin + 1);
    }
}

Test(adopt, the_longest_hold_begins_with_the_adoption)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = watched();
    params.max_hold = 4 * RL_SECOND;
    fixture_init(&lease_fixture, &params);
    fixture_adopt(&lease_fixture, start + 9 * RL_SECOND);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, start), 4 * RL_SECOND);
}

Test(adopt, a_bare_token_is_not_held_until_a_quorum_confirms_it)
{
    struct lease_fixture lease_fixture;
    init_watched(&lease_fixture);
    fixture_adopt(&lease_fixture, 0);
    cr_assert_eq(rl_lease_next(&lease_fixture.lease), RL_NEVER, "no deadline, no watchdog");
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, start), 0);
    fixture_extend(&lease_fixture, 0);
    cr_assert_not(lease_fixture.update.recreate);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, start), 0);
    fixture_votes(&lease_fixture, 0x04, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_EXTENDED);
    cr_assert_eq(lease_fixture.lease.valid, valid);
}

/* The won extension gives it a deadline: from then on it extends as any holder does. */
Test(adopt, a_bare_token_recreates_keys_only_after_a_won_extension)
{
    struct lease_fixture lease_fixture;
    init_watched(&lease_fixture);
    fixture_adopt(&lease_fixture, 0);
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x18, RL_VOTE_GONE);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    fixture_votes(&lease_fixture, 0x04, RL_VOTE_ERROR);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_NOT_EXTENDED);
    fixture_extend(&lease_fixture, 0);
    cr_assert_not(lease_fixture.update.recreate, "a lost round shows nothing");
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GRANTED);
    fixture_extend(&lease_fixture, 0);
    cr_assert(lease_fixture.update.recreate);
    fixture_votes(&lease_fixture, 0x18, RL_VOTE_RECREATED);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, 0, "recreated keys do not count");
}

Test(adopt, a_bare_token_that_is_gone_is_not_reported_lost)
{
    struct lease_fixture lease_fixture;
    init_watched(&lease_fixture);
    fixture_adopt(&lease_fixture, 0);
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x07, RL_VOTE_GONE);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_NOT_EXTENDED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_LOST);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_GONE);
}

/* There is no old deadline that is checked before the grants. */
Test(adopt, grants_that_come_after_their_own_deadline_do_not_count)
{
    struct lease_fixture lease_fixture;
    init_watched(&lease_fixture);
    fixture_adopt(&lease_fixture, 0);
    fixture_extend(&lease_fixture, 0);
    fixture_votes(&lease_fixture, 0x03, RL_VOTE_GRANTED);
    fixture_at(&lease_fixture, valid);
    fixture_votes(&lease_fixture, 0x04, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_NOT_EXTENDED);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_EXPIRED);
    cr_assert_eq(rl_lease_left(&lease_fixture.lease, lease_fixture.view.now), 0);
    fixture_votes(&lease_fixture, 0x18, RL_VOTE_GRANTED);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_EXTENDED), 0);
}
