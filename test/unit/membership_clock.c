/*
 * Node clocks that are set: whether the node's or the client's clock stepped, and what the
 * node loses.
 */
#include "membership_fixture.h"

/* Gives the membership the time in a node's vote. */
static bool vote(struct agent *agent, unsigned node)
{
    rl_time now = agent->stores->now;
    return rl_membership_time(&agent->membership, node, now, now, now,
                              now + agent->stores->store[node].off);
}

static rl_node_set vote_all(struct agent *agent)
{
    rl_node_set good = 0;
    for (unsigned i = 0; i < agent->stores->n; i++)
        if (vote(agent, i))
            good |= rl_bit(i);
    return good;
}

/* All clocks are known. */
static void open_timed(struct stores *stores, struct agent *agent, unsigned n)
{
    agent_open(agent, stores, n);
    cr_assert_eq(vote_all(agent), rl_all(n));
    stores->now += RL_SECOND;
    cr_assert_eq(vote_all(agent), rl_all(n));
}

static void set_clock(struct stores *stores, unsigned i)
{
    stores->store[i].off += 100 * RL_SECOND;
    stores->store[i].forgot_at = stores->now; /* its keys may have ended */
}

Test(membership_clock, of_a_node_that_is_set_costs_its_vote_at_once)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    set_clock(&stores, 1);
    cr_assert_not(vote(&agent, 1));
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_CLOCK);
    cr_assert_eq(agent_active(&agent), 5);
    cr_assert_not(vote(&agent, 1), "it is known anew, but that gives no vote back");
    cr_assert_eq(agent_active(&agent), 5);
}

/* Its keys may have ended while no client was connected. */
Test(membership_clock, of_a_node_that_is_set_while_it_is_away_costs_its_vote)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_disconnected(&agent, 1);
    set_clock(&stores, 1);
    stores.now += RL_SECOND;
    agent_greet(&agent, 1);
    cr_assert_not(vote(&agent, 1), "by what it reported on the connection before");
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_CLOCK);
}

/* The server may run on another machine now. */
Test(membership_clock, of_another_process_is_measured_anew)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    stores_restart(&stores, 1, true);
    set_clock(&stores, 1);
    agent_greet_again(&agent, 1);
    cr_assert(vote(&agent, 1));
    agent_greet_again(&agent, 1);
    set_clock(&stores, 1);
    cr_assert_not(vote(&agent, 1));
}

Test(membership_clock, of_a_node_that_was_set_needs_a_new_incarnation)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    set_clock(&stores, 1);
    vote(&agent, 1);
    cr_assert_eq(agent_next_command(&agent), 7, "is it theirs, or ours?");
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_not(agent.transit[i].command.write);
        agent_carry(&agent, i);
    }
    agent_run(&agent, RL_CLOCK_PAUSE - 1);
    cr_assert_eq(agent.writes, 0);
    cr_assert_eq(stores_active(&stores), 7);
    stores.now++;
    cr_assert_eq(agent_next_command(&agent) & 2, 2);
    agent_do(&agent, 1);
    struct rl_marker assigned = stores_marker(&stores, 1);
    cr_assert_not(assigned.active);
    cr_assert_eq(rl_marker_self(&assigned).generation, 2);
    cr_assert_eq(assigned.index, 1);
    agent_reply(&agent, 1);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_QUARANTINED);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 7);
    cr_assert_eq(agent_active(&agent), 7);
}

Test(membership_clock, of_a_node_in_quarantine_restarts_the_quarantine)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_greet_forgotten(&agent, 2);
    rl_time quarantine = rl_membership_quarantine(&agent.membership);
    agent_run(&agent, quarantine / 2);
    set_clock(&stores, 2);
    agent_run(&agent, RL_SECOND); /* a poll finds it */
    rl_time left = rl_membership_quarantine_left(&agent.membership, 2, stores.now);
    cr_assert_gt(left, quarantine - RL_SECOND - 1);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_QUARANTINED);
    agent_run(&agent, left - 1);
    cr_assert_not(stores_is_active(&stores, 2));
    agent_run(&agent, RL_SECOND);
    cr_assert(stores_is_active(&stores, 2));
}

/* The reply that reads "active" has the clock's time, too. */
Test(membership_clock, that_is_set_just_before_the_lift_costs_the_vote_again)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_greet_forgotten(&agent, 2);
    agent_work(&agent);
    agent_run(&agent, rl_membership_quarantine_left(&agent.membership, 2, stores.now) - 1);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_QUARANTINED);
    stores.store[2].off += 100 * RL_SECOND;
    stores.now++;
    agent_work(&agent);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_CLOCK);
    agent_run(&agent, RL_SECOND);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_QUARANTINED);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 7);
}

/* Whose clock is wrong is asked now and then, not again at each reply. */
Test(membership_clock, that_is_wrong_at_every_reply_costs_few_commands)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 5);
    unsigned before = agent.commands;
    for (rl_time end = stores.now + RL_SECOND; stores.now < end; stores.now += RL_MS) {
        stores.store[1].off += RL_SECOND;
        cr_assert_not(vote(&agent, 1));
        agent_work(&agent);
    }
    cr_assert_leq(agent.commands - before,
                  2 * stores.n * RL_SECOND / RL_MEMBER_POLL_INTERVAL);
}

/* Its registration is not complete: nothing has to restart, and nothing is lost. */
Test(membership_clock, of_a_node_that_is_not_registered_changes_nothing)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_greet_forgotten(&agent, 2);
    agent_next_command(&agent);
    agent_carry(&agent, 2);
    set_clock(&stores, 2);
    cr_assert_not(vote(&agent, 2));
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 2, stores.now), RL_NEVER);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 7);
}

/*
 * If all clocks seem to be set at once, it was the client's clock; the new readings are
 * used from then on.
 */
Test(membership_clock, of_a_majority_at_once_means_the_clients_clock)
{
    for (unsigned n = 3; n <= 7; n++)
        for (unsigned off = 1; off <= n; off++) {
            struct stores stores;
            struct agent agent;
            open_timed(&stores, &agent, n);
            for (unsigned i = 0; i < off; i++)
                set_clock(&stores, i);
            vote(&agent, 0);
            agent_run(&agent, 2 * RL_CLOCK_PAUSE); /* the others are polled */
            bool is_ours = off > n / 2;
            for (unsigned i = 0; i < n; i++) {
                struct rl_marker marker = stores_marker(&stores, i);
                bool assigned = rl_marker_self(&marker).generation == 2;
                CHECK((i < off && !is_ours) == assigned, "%u of %u: %u", off, n, i);
            }
            CHECK(!is_ours || agent_active(&agent) == rl_all(n), "%u of %u", off, n);
            CHECK(!is_ours || agent.writes == 0, "%u of %u", off, n);
        }
}

/* The replies come one by one, and the membership's next commands are taken after each. */
Test(membership_clock, of_all_nodes_one_after_the_other_means_the_clients_clock)
{
    for (unsigned n = 2; n <= 7; n++) {
        struct stores stores;
        struct agent agent;
        open_timed(&stores, &agent, n);
        for (unsigned i = 0; i < n; i++)
            set_clock(&stores, i);
        for (unsigned i = 0; i < n; i++) {
            stores.now += RL_MS;
            cr_assert_not(vote(&agent, i));
            agent_next_command(&agent);
        }
        agent_run(&agent, 10 * RL_SECOND);
        cr_assert_eq(agent_active(&agent), rl_all(n), "n %u", n);
        cr_assert_eq(agent.writes, 0, "n %u", n);
        set_clock(&stores, 0);
        cr_assert_not(vote(&agent, 0));
        cr_assert_eq(agent_active(&agent), rl_all(n) & ~rl_bit(0), "now it is theirs");
    }
}

/*
 * A node's command fails, so that its state remains: a step long ago does not count as
 * simultaneous.
 */
static void find_two(rl_time apart, bool expect_ours)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    set_clock(&stores, 0);
    vote(&agent, 0);
    rl_time second = stores.now + apart;
    while (stores.now < second) {
        rl_node_set out = agent_next_command(&agent);
        for (; out; out &= out - 1)
            agent_refuse(&agent, rl_first(out));
        stores.now = rl_min(second, rl_membership_next(&agent.membership));
    }
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_CLOCK);
    set_clock(&stores, 1);
    vote(&agent, 1);
    agent_run(&agent, RL_CLOCK_PAUSE + 2 * RL_MEMBER_RETRY_DELAY);
    cr_assert_eq(agent_active(&agent), expect_ours ? 7 : 4);
}

Test(membership_clock, of_a_majority_one_by_one_means_the_nodes_clocks)
{
    find_two(RL_CLOCK_RECENT - 1, true);
    find_two(RL_CLOCK_RECENT, false);
    find_two(10 * RL_CLOCK_RECENT, false);
}

/* Half of the drift that is allowed for the longest lock, and the rounding. */
Test(membership_clock, may_be_off_by_half_the_drift_of_the_longest_lock)
{
    rl_time slack = FIXTURE_TTL * RL_MS / 100 / 2; /* 50 ms of 10 s */
    for (int way = -1; way <= 1; way += 2) {
        struct stores stores;
        struct agent agent;
        open_timed(&stores, &agent, 3);
        stores.store[0].off = way * slack;
        cr_assert(vote(&agent, 0));
        open_timed(&stores, &agent, 3);
        stores.store[0].off = way * (slack + slack / 10);
        cr_assert_not(vote(&agent, 0));
    }
}

/* Half of the drift belongs to the rate, and at least what clocks may have anyway. */
static rl_time time_until_found(uint32_t drift_ppm, int64_t ppm)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init(&agent, &stores);
    agent.membership.params.drift_ppm = drift_ppm;
    agent_greet_all(&agent);
    rl_time begin = stores.now;
    for (unsigned i = 0; i < 100000; i++) {
        stores.now += RL_SECOND;
        stores.store[0].off = (stores.now - begin) / 1000000 * ppm;
        if (!vote(&agent, 0))
            return stores.now - begin;
    }
    return 0;
}

Test(membership_clock, may_drift_by_the_configured_bound)
{
    cr_assert_eq(time_until_found(10000, 9900), 0);
    cr_assert_gt(time_until_found(10000, 11000), 0);
    cr_assert_eq(time_until_found(0, RL_CLOCK_PPM - 10), 0);
    cr_assert_gt(time_until_found(0, 2 * RL_CLOCK_PPM), 0);
    cr_assert_eq(time_until_found(500000, 400000), 0);
}

Test(membership_clock, of_nodes_of_no_deployment_does_not_matter)
{
    struct stores stores;
    struct agent agent;
    stores_init(&stores, 3);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(vote_all(&agent), 7);
    set_clock(&stores, 0);
    cr_assert_eq(vote_all(&agent), 7);
}

/*
 * --- a node that is being quarantined when the client's own clock turns out to have
 * stepped ---
 */

/*
 * The command that quarantines node 1 is under way; then node 0 seems off, too: two of
 * three.
 */
static void open_quarantining(struct stores *stores, struct agent *agent)
{
    open_timed(stores, agent, 3);
    set_clock(stores, 1);
    vote(agent, 1);
    agent_run(agent, RL_CLOCK_PAUSE - 1);
    stores->now++;
    cr_assert_eq(agent_next_command(agent) & 2, 2);
    cr_assert(agent->transit[1].command.write);
    cr_assert_not(agent->transit[1].command.wanted.active);
    set_clock(stores, 0);
    vote(agent, 0);
    agent_next_command(agent);
    cr_assert_not(agent->membership.member[1].clock_off, "it was our clock");
    cr_assert_eq(agent_active(agent), 5);
}

Test(membership_clock, step_of_the_client_gives_no_vote_to_a_node_that_is_being_quarantined)
{
    struct stores stores;
    struct agent agent;
    open_quarantining(&stores, &agent);
    cr_assert_not(agent_may_have_a_grant(&agent, 1), "before the command was executed");
    agent_do(&agent, 1);
    cr_assert_not(agent_may_have_a_grant(&agent, 1), "after it was executed");
    agent_reply(&agent, 1);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_QUARANTINED);
    cr_assert_not(agent_may_have_a_grant(&agent, 1), "after its reply");
}

Test(membership_clock, step_of_the_client_gives_the_vote_back_if_the_command_failed)
{
    struct stores stores;
    struct agent agent;
    open_quarantining(&stores, &agent);
    agent_refuse(&agent, 1);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_ACTIVE);
    cr_assert(agent_may_have_a_grant(&agent, 1));
}
