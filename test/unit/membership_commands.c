/*
 * When marker commands are sent, when they pause, and that every order of their execution
 * ends well.
 */
#include <string.h>

#include "membership_fixture.h"
#include "prng.h"

/* --- when --- */

Test(membership_commands, are_sent_by_an_active_membership_only)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init(&agent, &stores);
    agent.membership.active = false;
    agent_greet_all(&agent);
    agent_greet_forgotten(&agent, 1);
    agent_run(&agent, 60 * RL_SECOND);
    cr_assert_eq(agent.commands, 0);
    cr_assert_eq(rl_membership_next(&agent.membership), RL_NEVER);
    agent.membership.active = true;
    cr_assert_leq(rl_membership_next(&agent.membership), stores.now);
    agent_run(&agent, 60 * RL_SECOND);
    cr_assert_eq(stores_active(&stores), 7);
}

Test(membership_commands, are_sent_one_at_a_time)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init_greeted(&agent, &stores);
    agent_greet_forgotten(&agent, 1);
    cr_assert_eq(agent_next_command(&agent), 2);
    stores.now += 60 * RL_SECOND;
    cr_assert_not(agent_next_command(&agent) & 2, "the first is still under way");
    agent_carry(&agent, 1);
}

/* The reply to a command that a disconnection cut off is not awaited. */
Test(membership_commands, that_were_cut_off_are_sent_again)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init_greeted(&agent, &stores);
    agent_greet_forgotten(&agent, 1);
    cr_assert_eq(agent_next_command(&agent), 2);
    agent_disconnected(&agent, 1);
    cr_assert_eq(agent_next_command(&agent), 0);
    agent_greet(&agent, 1);
    cr_assert_eq(agent_next_command(&agent), 2);
    agent_do(&agent, 1);
    agent_disconnected(&agent, 1); /* executed, but the reply was lost */
    agent_greet(&agent, 1);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_QUARANTINED);
}

Test(membership_commands, that_failed_pause)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 3);
    agent_greet_forgotten(&agent, 1);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_eq(agent_next_command(&agent), 2);
        agent_refuse(&agent, 1);
        cr_assert_eq(agent_next_command(&agent), 0);
        cr_assert_eq(rl_membership_next(&agent.membership),
                     stores.now + RL_MEMBER_RETRY_DELAY);
        stores.now += RL_MEMBER_RETRY_DELAY - 1;
        cr_assert_eq(agent_next_command(&agent), 0);
        stores.now++;
    }
    cr_assert_eq(agent_next_command(&agent), 2);
    agent_refuse(&agent, 1);
    agent_greet_again(&agent, 1);
    cr_assert_eq(agent_next_command(&agent), 2, "a new connection is another prng");
}

/* The member index that one node refused may go to another node. */
Test(membership_commands, that_failed_reserve_no_index)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init_greeted(&agent, &stores);
    agent_greet_forgotten(&agent, 1);
    agent_next_command(&agent);
    cr_assert(agent.membership.member[1].claims);
    agent_refuse(&agent, 1);
    cr_assert_not(agent.membership.member[1].claims);
    stores.now += RL_MEMBER_RETRY_DELAY;
    agent_next_command(&agent);
    agent_disconnected(&agent, 1);
    cr_assert_not(agent.membership.member[1].claims);
}

/* A node that does not vote is polled: another client may have assigned its index. */
Test(membership_commands, poll_nodes_that_do_not_vote)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    struct rl_marker active = stores_marker(&stores, 1);
    stores_forget(&stores, 1);
    agent_init_greeted(&agent, &stores);
    agent_run(&agent, 10 * RL_SECOND);
    unsigned commands = agent.commands;
    agent_run(&agent, 100 * RL_MEMBER_RETRY_DELAY);
    unsigned probes =
        2 * (unsigned)(100 * RL_MEMBER_RETRY_DELAY / RL_MEMBER_PROBE_INTERVAL);
    cr_assert_eq(agent.commands, commands + 100 + probes);
    cr_assert_eq(agent.writes, 0);
    stores_put(&stores, 1, &active);
    agent_run(&agent, 2 * RL_MEMBER_RETRY_DELAY);
    cr_assert_eq(agent_active(&agent), 7);
    commands = agent.commands;
    agent_run(&agent, 6 * RL_MEMBER_PROBE_INTERVAL);
    cr_assert_leq(agent.commands, commands + 3 * 6, "a node that votes is polled rarely");
}

/* One command registers all waiting members: a node's marker is not rewritten for each. */
Test(membership_commands, to_register_are_as_few_as_possible)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 7);
    for (unsigned i = 4; i < 7; i++)
        agent_greet_forgotten(&agent, i);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 127);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(stores.store[i].writes, 1);
    for (unsigned i = 4; i < 7; i++)
        cr_assert_eq(stores.store[i].writes, 2, "assigned and lifted");
}

/* --- every order of execution --- */

#define AGENTS 2

struct walk {
    struct prng prng;
    struct stores stores;
    struct agent agent[AGENTS];
    unsigned forgot; /* how often anything was lost */
};

static void lose_something(struct walk *walk)
{
    struct stores *stores = &walk->stores;
    unsigned i = prng_below(&walk->prng, stores->n);
    switch (prng_below(&walk->prng, 4)) {
    case 0: stores_forget(stores, i); break;
    case 1:
    case 2:
        stores_restart(stores, i, prng_below(&walk->prng, 2));
        for (unsigned j = 0; j < AGENTS; j++)
            agent_disconnected(&walk->agent[j], i);
        break;
    case 3:
        stores->store[i].off += 100 * RL_SECOND;
        if (stores_is_active(stores, i)) /* otherwise nothing could end early */
            stores->store[i].forgot_at = stores->now;
        break;
    }
    walk->forgot++;
}

/* One small event, of any client, that a network and a loop can cause. */
static void do_something(struct walk *walk, struct agent *agent)
{
    unsigned i = prng_below(&walk->prng, walk->stores.n);
    struct transit *transit = &agent->transit[i];
    switch (prng_below(&walk->prng, 8)) {
    case 0: agent_next_command(agent); break;
    case 1:
    case 2:
        if (transit->out && !transit->done)
            agent_do(agent, i);
        break;
    case 3:
    case 4:
        if (transit->out && transit->done)
            agent_reply(agent, i);
        break;
    case 5: walk->stores.now += 1 + prng_below(&walk->prng, 20000); break;
    case 6:
        if (!agent->membership.member[i].greeted)
            agent_greet(agent, i);
        else if (prng_below(&walk->prng, 20) == 0)
            agent_disconnected(agent, i);
        break;
    case 7:
        if (transit->out && !transit->done && prng_below(&walk->prng, 20) == 0)
            agent_refuse(agent, i);
        break;
    }
}

static void open_walk(struct walk *walk, unsigned seed)
{
    memset(walk, 0, sizeof(*walk));
    walk->prng.state = seed;
    stores_init_bootstrapped(&walk->stores, 3 + prng_below(&walk->prng, 5));
    for (unsigned i = 0; i < AGENTS; i++) {
        agent_init_greeted(&walk->agent[i], &walk->stores);
        agent_run(&walk->agent[i], RL_SECOND);
    }
}

/* Both work undisturbed, until a vote would have shown them every change. */
static void end_walk(struct walk *walk)
{
    struct agent *both[AGENTS] = {&walk->agent[0], &walk->agent[1]};
    for (unsigned turn = 0; turn < 4; turn++) {
        for (unsigned i = 0; i < AGENTS; i++)
            for (unsigned j = 0; j < walk->stores.n; j++)
                if (!walk->agent[i].transit[j].out && turn < 2)
                    agent_greet_again(&walk->agent[i], j);
        agents_run(both, AGENTS,
                   rl_membership_quarantine(&both[0]->membership) + 2 * RL_SECOND);
    }
}

/*
 * A minority forgets, again and again: in the end all vote, and none has voted too early.
 */
Test(membership_commands, end_well_in_any_order)
{
    unsigned forgot = 0;
    for (unsigned seed = 1; seed <= 1000; seed++) {
        struct walk walk;
        open_walk(&walk, seed);
        rl_node_set all = rl_all(walk.stores.n);
        for (unsigned step = 0; step < 1500; step++) {
            if (step % 500 == 100 && walk.forgot < (walk.stores.n - 1) / 2)
                lose_something(&walk);
            do_something(&walk, &walk.agent[prng_below(&walk.prng, AGENTS)]);
        }
        end_walk(&walk);
        CHECK(stores_active(&walk.stores) == all, "seed %u: %x", seed,
              stores_active(&walk.stores));
        for (unsigned i = 0; i < AGENTS; i++)
            CHECK(agent_active(&walk.agent[i]) == all, "seed %u", seed);
        forgot += walk.forgot;
    }
    cr_assert_gt(forgot, 1000);
}

/*
 * Without any limit: all memory may be lost, but no node votes too early or loses
 * knowledge.
 */
Test(membership_commands, do_no_harm_whatever_is_lost)
{
    for (unsigned seed = 1; seed <= 1000; seed++) {
        struct walk walk;
        open_walk(&walk, seed);
        for (unsigned step = 0; step < 3000; step++) {
            if (prng_below(&walk.prng, 200) == 0)
                lose_something(&walk);
            if (prng_below(&walk.prng, 500) == 0)
                walk.stores.now += prng_below(&walk.prng, 20) * RL_SECOND;
            do_something(&walk, &walk.agent[prng_below(&walk.prng, AGENTS)]);
        }
    }
}
