/* A node that may vote again lacks the lease: when the watchdog extends, and how often. */
#include "lease_fixture.h"

static const rl_time within = 10 * RL_SECOND / RL_RETRY_SHARE;

static struct rl_update ready(struct lease_fixture *lease_fixture, unsigned node)
{
    lease_fixture->view.ready |= rl_bit(node);
    return fixture_step(lease_fixture, (struct rl_lease_event){.type = RL_EVENT_READY,
                                                               .node = (uint8_t)node});
}

/* With a watchdog, and extended once by all nodes but `without`, which may not vote. */
static void hold_without(struct lease_fixture *lease_fixture, unsigned n,
                         rl_node_set without)
{
    struct rl_lease_params params = fixture_params(n, rl_majority(n));
    params.extend_every = params.ttl / RL_WATCHDOG_SHARE;
    fixture_start_with(lease_fixture, &params);
    fixture_votes(lease_fixture, rl_all(n), RL_VOTE_GRANTED);
    lease_fixture->view.ready = rl_all(n) & ~without;
    fixture_tick(lease_fixture);
    fixture_votes(lease_fixture, lease_fixture->sent.send, RL_VOTE_GRANTED);
}

static rl_time next_after(const struct lease_fixture *lease_fixture)
{
    return rl_lease_next(&lease_fixture->lease) - lease_fixture->view.now;
}

static void expect_repair(struct lease_fixture *lease_fixture, rl_node_set asked)
{
    rl_time before = lease_fixture->view.now;
    fixture_tick(lease_fixture);
    cr_assert_eq(lease_fixture->update.command, RL_CMD_EXTEND);
    cr_assert_eq(lease_fixture->update.send, asked);
    cr_assert_leq(lease_fixture->view.now, before + within);
}

static void expect_none(const struct lease_fixture *lease_fixture)
{
    cr_assert_gt(next_after(lease_fixture), within);
}

Test(repair, extends_within_a_twentieth_where_a_node_lacks_the_lease)
{
    struct lease_fixture lease_fixture;
    hold_without(&lease_fixture, 3, 0x4);
    expect_none(&lease_fixture);
    ready(&lease_fixture, 2);
    cr_assert(lease_fixture.update.changed, "so that it is scheduled anew");
    cr_assert_eq(lease_fixture.update.send, 0, "not inside the event");
    expect_repair(&lease_fixture, 0x7);
    fixture_votes(&lease_fixture, 0x7, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.holding, 0x7);
    expect_none(&lease_fixture);
}

Test(repair, extends_once_more_if_the_key_was_recreated)
{
    for (unsigned order = 0; order < 3; order++) {
        struct lease_fixture lease_fixture;
        hold_without(&lease_fixture, 3, 0x4);
        ready(&lease_fixture, 2);
        expect_repair(&lease_fixture, 0x7);
        for (unsigned i = 0; i < 3; i++) { /* before the round is won, and after it */
            unsigned node = (i + order) % 3;
            fixture_vote(&lease_fixture, node,
                         node == 2 ? RL_VOTE_RECREATED : RL_VOTE_GRANTED);
        }
        cr_assert_eq(lease_fixture.lease.holding, 0x3, "a recreated key is no vote");
        expect_repair(&lease_fixture, 0x7);
        fixture_votes(&lease_fixture, 0x3, RL_VOTE_GRANTED);
        fixture_vote(&lease_fixture, 2, RL_VOTE_RECREATED);
        expect_none(&lease_fixture);
    }
}

Test(repair, is_not_for_a_key_that_an_ordinary_extension_recreates)
{
    struct lease_fixture lease_fixture;
    hold_without(&lease_fixture, 3, 0);
    fixture_tick(&lease_fixture);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_GRANTED);
    fixture_vote(&lease_fixture, 2, RL_VOTE_RECREATED);
    expect_none(&lease_fixture);
}

Test(repair, is_not_for_a_node_that_has_the_lease_or_may_not_vote)
{
    struct lease_fixture lease_fixture;
    hold_without(&lease_fixture, 3, 0x4);
    ready(&lease_fixture, 0);
    expect_none(&lease_fixture);
    fixture_step(&lease_fixture,
                 (struct rl_lease_event){.type = RL_EVENT_READY, .node = 2});
    expect_none(&lease_fixture);
}

Test(repair, follows_the_round_that_is_under_way)
{
    struct lease_fixture lease_fixture;
    hold_without(&lease_fixture, 3, 0x4);
    fixture_tick(&lease_fixture);
    cr_assert_eq(lease_fixture.sent.send, 0x3);
    ready(&lease_fixture, 2);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_GRANTED);
    expect_repair(&lease_fixture, 0x7);
}

Test(repair, goes_on_after_a_round_that_is_lost)
{
    struct lease_fixture lease_fixture;
    hold_without(&lease_fixture, 3, 0x4);
    ready(&lease_fixture, 2);
    expect_repair(&lease_fixture, 0x7);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_ERROR);
    fixture_tick(&lease_fixture); /* node 3 is silent */
    expect_repair(&lease_fixture, 0x7);
    fixture_votes(&lease_fixture, 0x3, RL_VOTE_GRANTED);
    fixture_vote(&lease_fixture, 2, RL_VOTE_RECREATED);
    expect_repair(&lease_fixture, 0x7);
}

/* Leases with all values of `spread`: spread over the whole span, which has its limits. */
Test(repair, spreads_the_leases_of_a_client)
{
    static const struct {
        size_t leases;
        rl_time within;
    } cases[] = {
        {0, 10 * RL_SECOND / RL_RETRY_SHARE},
        {40000, RL_SECOND},
        {1000000, 10 * RL_SECOND / RL_REPAIR_SHARE},
    };
    for (unsigned i = 0; i < 3; i++) {
        unsigned late = 0;
        for (unsigned spread = 0; spread < 256; spread++) {
            struct lease_fixture lease_fixture;
            hold_without(&lease_fixture, 3, 0x4);
            lease_fixture.lease.spread = (uint8_t)spread;
            lease_fixture.view.leases = cases[i].leases;
            ready(&lease_fixture, 2);
            cr_assert_leq(next_after(&lease_fixture), cases[i].within);
            late += next_after(&lease_fixture) > cases[i].within / 2;
        }
        cr_assert_geq(late, 120);
        cr_assert_leq(late, 136);
    }
}

Test(repair, needs_a_watchdog)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, 3, 0x3);
    ready(&lease_fixture, 2);
    cr_assert_eq(rl_lease_next(&lease_fixture.lease), lease_fixture.lease.round.due);
    fixture_vote(&lease_fixture, 2, RL_VOTE_ERROR);
    cr_assert_eq(rl_lease_next(&lease_fixture.lease), lease_fixture.lease.valid);
}
