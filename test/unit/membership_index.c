/*
 * Assign, register, watch, lift: how a node that forgot gets its vote back, and which nodes
 * may get a member index.
 */
#include "membership_fixture.h"

/*
 * The length of a quarantine: the longest lock with its drift, or what fences need; and a
 * tenth.
 */
Test(membership_index, quarantine_is_as_long_as_the_longest_lock)
{
    static const struct {
        int64_t max_ttl_ms;
        rl_time least, most;
    } rows[] = {
        {1, 12100 * RL_MS, 12100 * RL_MS}, /* 2 * 5 s + 1 s, and a tenth */
        {10000, 12100 * RL_MS, 12100 * RL_MS},
        {10880, 12100 * RL_MS, 12100 * RL_MS},
        {11000, 12210 * RL_MS, 12230 * RL_MS},
        {60000, 66660 * RL_MS, 66670 * RL_MS},
        {86400000, 95990400 * RL_MS, 95990410 * RL_MS},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rl_membership membership;
        rl_membership_init(&membership,
                           &(struct rl_membership_params){.n = 3, .drift_ppm = 10000});
        membership.roster.max_ttl_ms = rows[i].max_ttl_ms;
        rl_time quarantine = rl_membership_quarantine(&membership);
        cr_assert(quarantine >= rows[i].least && quarantine <= rows[i].most, "%jd: %jd",
                  (intmax_t)rows[i].max_ttl_ms, (intmax_t)quarantine);
    }
}

/* Node 2 forgets, and the agent greets it again. */
static void open_forgotten(struct stores *stores, struct agent *agent, unsigned n)
{
    agent_open(agent, stores, n);
    agent_greet_forgotten(agent, 2);
}

Test(membership_index, is_given_back_step_by_step)
{
    struct stores stores;
    struct agent agent;
    open_forgotten(&stores, &agent, 3);
    struct rl_incarnation was = stores_marker(&stores, 0).roster.member[2];
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_UNMARKED);

    cr_assert_eq(agent_next_command(&agent), 4, "its index is assigned");
    agent_do(&agent, 2);
    struct rl_marker assigned = stores_marker(&stores, 2);
    cr_assert_not(assigned.active);
    cr_assert_eq(assigned.index, 2);
    cr_assert_eq(rl_marker_self(&assigned).generation, was.generation + 1);
    cr_assert_neq(rl_marker_self(&assigned).id, was.id);
    agent_reply(&agent, 2);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_QUARANTINED);
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 2, stores.now), RL_NEVER);

    struct rl_marker before[2] = {stores_marker(&stores, 0), stores_marker(&stores, 1)};
    cr_assert_eq(agent_next_command(&agent), 3, "it is registered");
    stores.now += RL_MS;
    for (unsigned i = 0; i < 2; i++) {
        agent_do(&agent, i);
        struct rl_marker after = stores_marker(&stores, i);
        cr_assert(after.active);
        cr_assert_eq(after.index, i);
        cr_assert_neq(after.nonce, before[i].nonce, "the old one may no longer vote");
        cr_assert(rl_incarnation_equal(after.roster.member[2], rl_marker_self(&assigned)));
        agent_reply(&agent, i);
        cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 2, stores.now),
                     RL_NEVER);
    }
    rl_time registered = stores.now;
    cr_assert_eq(agent_next_command(&agent), 3, "both are read once more");
    for (unsigned i = 0; i < 2; i++) {
        stores.now += RL_MS;
        cr_assert_not(agent.transit[i].command.write);
        agent_carry(&agent, i);
    }
    rl_time quarantine = rl_membership_quarantine(&agent.membership);
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 2, stores.now),
                 quarantine - (stores.now - registered));

    agent_run(&agent, registered + quarantine - 1 - stores.now);
    cr_assert_eq(stores_active(&stores), 3, "not a microsecond too early");
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 2, stores.now), 1);
    stores.now++;
    cr_assert_eq(agent_next_command(&agent), 4, "it is lifted");
    agent_do(&agent, 2);
    struct rl_marker lifted = stores_marker(&stores, 2);
    cr_assert(lifted.active);
    cr_assert_neq(lifted.nonce, assigned.nonce);
    cr_assert(rl_incarnation_equal(rl_marker_self(&lifted), rl_marker_self(&assigned)));
    agent_reply(&agent, 2);
    cr_assert_eq(agent_active(&agent), 7);
    agent_work(&agent);
    cr_assert_gt(rl_membership_next(&agent.membership), stores.now);
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 2, stores.now), RL_NEVER);
}

/* Two agents of the same stores, which do each step at once: the result is as with one. */
Test(membership_index, is_given_back_by_two_agents_at_once)
{
    struct stores stores;
    struct agent first, second;
    struct agent *both[] = {&first, &second};
    stores_init_bootstrapped(&stores, 5);
    agent_init_greeted(&first, &stores);
    agent_init_greeted(&second, &stores);
    agents_run(both, 2, RL_SECOND);
    stores_forget(&stores, 3);
    rl_time forgot = stores.now;
    agent_greet_again(&first, 3);
    agent_greet_again(&second, 3);
    cr_assert_eq(agent_next_command(&first), 8);
    cr_assert_eq(agent_next_command(&second), 8);
    agent_do(&second, 3);
    agent_do(&first, 3); /* it finds the other agent's marker, and leaves it there */
    struct rl_marker assigned = stores_marker(&stores, 3);
    agent_reply(&first, 3);
    agent_reply(&second, 3);
    cr_assert_eq(agent_state(&first, 3), RL_MEMBER_QUARANTINED);
    agents_run(both, 2, rl_membership_quarantine(&first.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 31);
    struct rl_marker lifted = stores_marker(&stores, 3);
    cr_assert(rl_incarnation_equal(rl_marker_self(&lifted), rl_marker_self(&assigned)));
    cr_assert_geq(stores.now - forgot, rl_membership_quarantine(&first.membership));
    agent_greet_again(&first, 3);
    agent_greet_again(&second, 3);
    cr_assert_eq(agent_active(&first), 31);
    cr_assert_eq(agent_active(&second), 31);
}

/* An agent disconnects halfway: any other continues, and watches for itself. */
Test(membership_index, is_given_back_by_another_agent)
{
    for (unsigned step = 1; step < 8; step++) {
        struct stores stores;
        struct agent agent, heir;
        open_forgotten(&stores, &agent, 3);
        for (unsigned i = 0; i < step; i++) {
            rl_node_set out = agent_next_command(&agent);
            if (!out) {
                agent_run(&agent, 3 * RL_SECOND);
                break;
            }
            agent_do(&agent, rl_first(out));
            agent_reply(&agent, rl_first(out));
            for (unsigned j = 0; j < 3; j++) /* the others are cut off */
                if (agent.transit[j].out)
                    agent_greet_again(&agent, j);
        }
        agent_init_greeted(&heir, &stores);
        rl_time quarantine = rl_membership_quarantine(&heir.membership);
        agent_run(&heir, quarantine - 1);
        cr_assert_eq(stores_active(&stores), 3, "step %u", step);
        agent_run(&heir, RL_SECOND);
        cr_assert_eq(stores_active(&stores), 7, "step %u", step);
    }
}

/* --- which nodes may get an index --- */

static void expect_never_assigned(struct agent *agent, unsigned node)
{
    unsigned writes = agent->stores->store[agent->at[node]].writes;
    agent_run(agent, 60 * RL_SECOND);
    cr_assert_eq(agent->stores->store[agent->at[node]].writes, writes);
    cr_assert_not(agent_active(agent) & rl_bit(node));
}

/* An agent that connects to an empty server for the first time may have a wrong address. */
Test(membership_index, is_not_assigned_to_an_address_that_never_had_one)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 5);
    stores_forget(&stores, 1);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_UNMARKED);
    expect_never_assigned(&agent, 1);
    stores_restart(&stores, 2, true);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_OTHER_PROCESS);
    expect_never_assigned(&agent, 2);
}

/*
 * The last member that had the index has another incarnation, wherever it is: it keeps the
 * index.
 */
Test(membership_index, is_not_given_back_to_one_that_was_replaced)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 5);
    for (unsigned i = 0; i < 5;
         i++) { /* an operator replaced node 1 by a server elsewhere */
        struct rl_marker marker = stores_marker(&stores, i);
        marker.roster.member[1].generation++;
        if (i != 1)
            stores_put(&stores, i, &marker);
        agent_greet_again(&agent, i);
    }
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_REPLACED);
    expect_never_assigned(&agent, 1);
    agent_greet_forgotten(&agent, 1);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_UNMARKED);
    expect_never_assigned(&agent, 1);
}

/* Emptied, restarted with or without its data, failed over: each at the same address. */
Test(membership_index, is_given_back_to_the_address_that_had_it_last)
{
    for (unsigned way = 0; way < 4; way++) {
        struct stores stores;
        struct agent agent;
        agent_open(&agent, &stores, 5);
        struct rl_incarnation was = agent.membership.roster.member[4];
        stores.store[4].forgot_at = stores.now;
        if (way == 0)
            stores_forget(&stores, 4);
        else if (way < 3)
            stores_restart(&stores, 4, way == 1);
        else
            stores.store[4].process.replid[0] ^= 1;
        agent_greet_again(&agent, 4);
        cr_assert_eq(agent_state(&agent, 4),
                     way % 2 ? RL_MEMBER_OTHER_PROCESS : RL_MEMBER_UNMARKED);
        agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
        struct rl_marker marker = stores_marker(&stores, 4);
        cr_assert(marker.active);
        cr_assert_eq(marker.index, 4);
        cr_assert(rl_incarnation_is_newer(rl_marker_self(&marker), was));
        cr_assert(rl_process_equal(&marker.process, &stores.store[4].process));
    }
}

/* Also while it is in quarantine: it had the index, if not the vote. */
Test(membership_index, is_given_back_to_one_that_forgets_in_quarantine)
{
    struct stores stores;
    struct agent agent;
    open_forgotten(&stores, &agent, 3);
    for (unsigned generation = 2; generation < 8; generation++) {
        agent_run(&agent, rl_membership_quarantine(&agent.membership) / 2);
        struct rl_marker marker = stores_marker(&stores, 2);
        cr_assert_eq(rl_marker_self(&marker).generation, generation);
        cr_assert_not(marker.active);
        agent_greet_forgotten(&agent, 2);
    }
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 7);
}

/* With a marker from before its quarantine, which no other node knows yet. */
Test(membership_index, is_given_back_to_one_that_returns_to_older_data)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 5);
    struct rl_marker older = stores_marker(&stores, 4);
    agent_greet_forgotten(&agent, 4);
    cr_assert_eq(agent_next_command(&agent), 16);
    agent_carry(&agent, 4);
    stores_put(&stores, 4, &older);
    stores_restart(&stores, 4, true);
    agent_greet_again(&agent, 4);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 31);
}

/* A server that only this client cannot reach: its address now leads to another server. */
Test(membership_index, that_another_node_has_is_not_assigned_twice)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 5);
    struct rl_marker marker = stores_marker(&stores, 1);
    marker.index = 0; /* two addresses were swapped, and one of them lost its data */
    marker.roster.member[0] = stores_marker(&stores, 0).roster.member[0];
    stores_put(&stores, 1, &marker);
    stores_forget(&stores, 0);
    agent_greet_again(&agent, 1);
    agent_greet_again(&agent, 0);
    expect_never_assigned(&agent, 0);
}

Test(membership_index, of_two_that_forget_at_once_are_both_given_back)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 5);
    stores_forget(&stores, 0);
    stores_restart(&stores, 1, true);
    agent_greet_again(&agent, 0);
    agent_greet_again(&agent, 1);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 31);
}

/* Three of five: no node can attest for another, until an operator recovers them. */
Test(membership_index, of_a_majority_is_assigned_but_gives_no_vote)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 5);
    for (unsigned i = 0; i < 3; i++)
        agent_greet_forgotten(&agent, i);
    agent_run(&agent, 600 * RL_SECOND);
    cr_assert_eq(stores_active(&stores), 24);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(agent_state(&agent, i), RL_MEMBER_QUARANTINED);
}
