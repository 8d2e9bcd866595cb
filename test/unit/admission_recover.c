/*
 * Recovery after a majority has lost its memory: on the operator's request the nodes attest
 * for each other.
 */
#include "membership_fixture.h"

static void wait_for_all(struct agent *agent)
{
    const struct rl_admission_request request = {.mode = RL_ADMIT_READMIT};
    unsigned node = agent->stores->n;
    cr_assert_eq(
        rl_admission_begin(&agent->membership, &request, &node, 1, agent->stores->now),
        RL_ADMISSION_OK);
}

static void open_lost(struct stores *stores, struct agent *agent, unsigned n,
                      rl_node_set lost, bool restarts)
{
    agent_open(agent, stores, n);
    for (rl_node_set rest = lost; rest; rest &= rest - 1) {
        unsigned i = rl_first(rest);
        if (restarts)
            stores_restart(stores, i, true);
        else
            stores_forget(stores, i);
        agent_greet_again(agent, i);
    }
}

/*
 * Any set of lost nodes, lost in any way: without an operator a majority never comes back.
 */
Test(admission_recover, recovers_from_the_loss_of_any_nodes)
{
    for (unsigned n = 1; n <= 5; n++)
        for (rl_node_set lost = 1; lost <= rl_all(n); lost++)
            for (int restarts = 0; restarts < 2; restarts++) {
                struct stores stores;
                struct agent agent;
                open_lost(&stores, &agent, n, lost, restarts);
                rl_time quarantine = rl_membership_quarantine(&agent.membership);
                bool is_majority = n - rl_count(lost) < rl_majority(n);
                agent_run(&agent, quarantine + RL_SECOND);
                rl_node_set expected = rl_all(n) & ~(is_majority ? lost : 0);
                CHECK(agent_active(&agent) == expected, "%u: %x", n, lost);
                if (!is_majority)
                    continue;
                wait_for_all(&agent);
                agent_run(&agent, quarantine - 1);
                CHECK((agent_active(&agent) & lost) == 0, "%u: %x: too early", n, lost);
                agent_run(&agent, RL_SECOND);
                CHECK(agent_active(&agent) == rl_all(n), "%u: %x", n, lost);
                CHECK(rl_admission_progress(&agent.membership) == RL_ADMISSION_DONE,
                      "%u: %x", n, lost);
            }
}

/*
 * An operator's client that saw none of them before: after a restart it has at least the
 * markers.
 */
Test(admission_recover, works_from_a_client_that_has_just_started)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 5);
    for (unsigned i = 0; i < 5; i++)
        stores_restart(&stores, i, true);
    agent_init_greeted(&agent, &stores);
    agent_run(&agent, 60 * RL_SECOND);
    cr_assert_eq(agent.writes, 0);
    wait_for_all(&agent);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 31);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(stores_marker(&stores, i).index, i, "each its own index");
}

/* A minority is empty, and its member indexes are free. */
Test(admission_recover, assigns_indexes_to_nodes_that_were_never_seen)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 5);
    stores_forget(&stores, 1);
    stores_forget(&stores, 3);
    agent_init_greeted(&agent, &stores);
    wait_for_all(&agent);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 31);
    rl_node_set members = 0;
    for (unsigned i = 0; i < 5; i++)
        members |= rl_bit(stores_marker(&stores, i).index);
    cr_assert_eq(members, 31, "each index once");
}

/* An operator attests for nodes that reply, not for a node that may be another server. */
Test(admission_recover, assigns_no_index_while_a_node_is_missing)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 5);
    stores_forget(&stores, 1);
    agent_init_greeted(&agent, &stores);
    wait_for_all(&agent);
    agent_disconnected(&agent, 4);
    agent_run(&agent, 60 * RL_SECOND);
    cr_assert_eq(agent.writes, 0);
    agent_greet(&agent, 4);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 31);
}

/* Half of the nodes that attest for each other cannot do without the other half. */
Test(admission_recover, lifts_no_node_while_a_node_is_missing)
{
    for (unsigned missing = 0; missing < 5; missing++) {
        struct stores stores;
        struct agent agent;
        open_lost(&stores, &agent, 5, 7, false);
        agent_run(&agent, RL_SECOND);
        wait_for_all(&agent);
        agent_disconnected(&agent, missing);
        agent_run(&agent, 10 * rl_membership_quarantine(&agent.membership));
        cr_assert_eq(stores_active(&stores), 24, "without node %u", missing);
        agent_greet(&agent, missing);
        agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
        cr_assert_eq(stores_active(&stores), 31);
    }
}

/* Until all five nodes have attested the first member. */
static void attest_by_all(struct stores *stores, struct agent *agent)
{
    while (agent->membership.member[0].watch.witnesses != 31) {
        for (rl_node_set out = agent_next_command(agent); out; out &= out - 1)
            agent_carry(agent, rl_first(out));
        stores->now += RL_MS;
    }
}

/* A node that attested it, and is away before all have: it may be another server by then.
 */
Test(admission_recover, waits_for_a_node_that_is_away)
{
    for (unsigned away = 0; away < 5; away++) {
        struct stores stores;
        struct agent agent;
        open_lost(&stores, &agent, 5, 7, false);
        agent_run(&agent, RL_SECOND);
        wait_for_all(&agent);
        attest_by_all(&stores, &agent);
        rl_node_set out = agent_next_command(&agent);
        if (out & rl_bit(away))
            agent_carry(&agent, away);
        cr_assert(agent.membership.member[0].watch.confirmed & rl_bit(away));
        agent_disconnected(&agent, away);
        for (out &= ~rl_bit(away); out; out &= out - 1)
            agent_carry(&agent, rl_first(out));
        agent_run(&agent, 2 * rl_membership_quarantine(&agent.membership));
        cr_assert_eq(stores_active(&stores), 24, "without node %u", away);
        agent_greet(&agent, away);
        agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
        cr_assert_eq(stores_active(&stores), 31, "with node %u", away);
    }
}

/* Whichever node has yet to learn of the others: no quarantine begins before it knows all.
 */
Test(admission_recover, begins_no_quarantine_before_all_nodes_know)
{
    for (unsigned last = 0; last < 5; last++) {
        struct stores stores;
        struct agent agent;
        open_lost(&stores, &agent, 5, 7, false);
        agent_run(&agent, RL_SECOND);
        wait_for_all(&agent);
        for (unsigned turn = 0; turn < 10; turn++) {
            rl_node_set out = agent_next_command(&agent) & ~rl_bit(last);
            for (; out; out &= out - 1)
                agent_carry(&agent, rl_first(out));
            stores.now += RL_MEMBER_POLL_INTERVAL;
        }
        for (unsigned i = 0; i < 3; i++)
            cr_assert_eq(rl_membership_quarantine_left(&agent.membership, i, stores.now),
                         RL_NEVER, "node %u, without node %u", i, last);
        agent_carry(&agent, last);
        agent_run(&agent, RL_SECOND);
        for (unsigned i = 0; i < 3; i++)
            cr_assert_neq(rl_membership_quarantine_left(&agent.membership, i, stores.now),
                          RL_NEVER, "node %u, with node %u", i, last);
    }
}

/* All nodes know it before and after, but not at one moment. */
Test(admission_recover, does_not_count_a_node_that_forgets_between_two_reads)
{
    struct stores stores;
    struct agent agent;
    open_lost(&stores, &agent, 5, 7, false);
    agent_run(&agent, RL_SECOND);
    wait_for_all(&agent);
    attest_by_all(&stores, &agent);
    struct rl_marker marker = stores_marker(&stores, 1);
    marker.roster.member[1] = (struct rl_incarnation){9, 9};
    marker.nonce++;
    stores_put(&stores, 1, &marker); /* another client's: it has forgotten since */
    for (rl_node_set out = agent_next_command(&agent); out; out &= out - 1)
        agent_carry(&agent, rl_first(out));
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 0, stores.now), RL_NEVER);
    agent_run(&agent, RL_SECOND);
    cr_assert_neq(rl_membership_quarantine_left(&agent.membership, 0, stores.now),
                  RL_NEVER);
}

/*
 * One node forgets again meanwhile: only its own quarantine begins anew, but all nodes must
 * know it.
 */
Test(admission_recover, restarts_for_one_node_that_forgets_meanwhile)
{
    struct stores stores;
    struct agent agent;
    open_lost(&stores, &agent, 3, 7, false);
    wait_for_all(&agent);
    rl_time quarantine = rl_membership_quarantine(&agent.membership);
    agent_run(&agent, quarantine / 2);
    stores_forget(&stores, 1);
    agent_run(&agent, quarantine / 2 + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 5);
    agent_run(&agent, quarantine / 2);
    cr_assert_eq(stores_active(&stores), 7);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned index = 0; index < 3; index++)
            cr_assert_eq(stores_marker(&stores, i).roster.member[index].generation,
                         index == 1 ? 3 : 2);
}

/* Two operators, and a client without an operator: they do not hinder each other. */
Test(admission_recover, by_two_operators_at_once_succeeds)
{
    struct stores stores;
    struct agent agent, second, other;
    struct agent *all[] = {&agent, &second, &other};
    stores_init_bootstrapped(&stores, 5);
    for (unsigned j = 0; j < 3; j++)
        agent_init_greeted(all[j], &stores);
    for (unsigned i = 0; i < 4; i++) {
        stores_forget(&stores, i);
        for (unsigned j = 0; j < 3; j++)
            agent_greet_again(all[j], i);
    }
    wait_for_all(&agent);
    wait_for_all(&second);
    agents_run(all, 3, 2 * rl_membership_quarantine(&agent.membership));
    cr_assert_eq(stores_active(&stores), 31);
    for (unsigned j = 0; j < 3; j++)
        cr_assert_eq(agent_active(all[j]), 31);
}

/* A request for recovery holds once: it does not apply to a later loss. */
Test(admission_recover, is_over_when_all_vote)
{
    struct stores stores;
    struct agent agent;
    open_lost(&stores, &agent, 3, 3, false);
    wait_for_all(&agent);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_DONE);
    rl_admission_end(&agent.membership);
    for (unsigned i = 0; i < 2; i++)
        agent_greet_forgotten(&agent, i);
    agent_run(&agent, 600 * RL_SECOND);
    cr_assert_eq(stores_active(&stores), 4);
}
