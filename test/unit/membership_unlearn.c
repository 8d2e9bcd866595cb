/* Incarnations that only one client knows, and no node any more: the client drops them. */
#include "membership_fixture.h"

/*
 * Node 4 gets an incarnation that only this agent knows, and loses its marker; then other
 * clients, which do not know that, swap the indexes of nodes 3 and 4. An incarnation with
 * the same generation and a smaller id is all that node 3 knows, and it may get its vote
 * back all the same.
 */
Test(membership_unlearn, drops_what_no_node_knows)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 5);
    agent_greet_forgotten(&agent, 0);
    agent_run(&agent, RL_SECOND);
    cr_assert_neq(rl_membership_quarantine_left(&agent.membership, 0, stores.now),
                  RL_NEVER);
    agent_greet_forgotten(&agent, 4);
    cr_assert_eq(agent_next_command(&agent), 16);
    agent_carry(&agent, 4);
    struct rl_incarnation lost = agent.membership.roster.member[4];
    cr_assert_eq(lost.generation, 2);
    stores_forget(&stores, 4);

    for (unsigned i = 1; i < 5; i++) {
        struct rl_marker marker = stores_marker(&stores, i == 4 ? 3 : i);
        marker.index = (uint8_t)(i < 3 ? i : 7 - i);
        marker.process = stores.store[i].process;
        marker.roster.member[3].generation = 2;
        marker.roster.member[4] = (struct rl_incarnation){2, lost.id - 1};
        stores_put(&stores, i, &marker);
    }
    struct store known = stores.store[1];
    stores_forget(&stores, 1);
    for (unsigned i = 1; i < 5; i++)
        agent_greet_again(&agent, i);
    agent_greet_again(&agent, 4);
    cr_assert_eq(agent_active(&agent), 20, "node 1 may know it, and has not been read");
    stores.store[1] = known;
    agent_greet_again(&agent, 1);
    cr_assert_eq(agent_active(&agent), 30);
    rl_time quarantine = rl_membership_quarantine(&agent.membership);
    agent_run(&agent, quarantine - 1);
    cr_assert_eq(stores_active(&stores), 30,
                 "an agent that knows no more has watched no more");
    agent_run(&agent, RL_SECOND);
    cr_assert_eq(stores_active(&stores), 31);
}

/* Five bootstrapped stores and an empty one, and an agent that has watched for a while. */
static void open_with_a_spare(struct stores *stores, struct agent *agent)
{
    stores_init(stores, 6);
    stores->n = 5;
    stores_bootstrap(stores, 7);
    agent_init_greeted(agent, stores);
    agent_run(agent, RL_SECOND);
}

/*
 * The address of node 4 leads to the empty store, which gets an index; only this agent
 * knows that.
 */
static void assign_the_spare(struct agent *agent)
{
    agent->at[4] = 5;
    agent_greet_again(agent, 4);
    cr_assert(agent_next_command(agent) & 16);
    agent_carry(agent, 4);
    cr_assert_eq(agent->membership.roster.member[4].generation, 2);
}

/* Then addresses 3 and 4 lead to the old servers of indexes 4 and 3. */
static void swap_addresses(struct agent *agent)
{
    agent_disconnected(agent, 3);
    agent_disconnected(agent, 4);
    agent->at[3] = 4;
    agent->at[4] = 3;
    agent_greet(agent, 3);
    agent_greet(agent, 4);
    agent_greet_again(agent, 3);
}

Test(membership_unlearn, drops_an_index_that_was_assigned_to_another_server)
{
    struct stores stores;
    struct agent agent;
    open_with_a_spare(&stores, &agent);
    assign_the_spare(&agent);
    swap_addresses(&agent);
    cr_assert_eq(agent.membership.roster.member[4].generation, 1);
    cr_assert_eq(agent_active(&agent), 31);
}

/* A majority knows it already, by commands of ours whose replies are under way. */
Test(membership_unlearn, keeps_what_is_being_registered)
{
    struct stores stores;
    struct agent agent;
    open_with_a_spare(&stores, &agent);
    assign_the_spare(&agent);
    cr_assert_eq(agent_next_command(&agent), 15);
    for (unsigned i = 0; i < 3; i++)
        agent_do(&agent, i);
    swap_addresses(&agent);
    cr_assert_eq(agent.membership.roster.member[4].generation, 2);
    cr_assert_eq(agent_state(&agent, 3), RL_MEMBER_REPLACED);
    cr_assert_eq(agent_active(&agent), 23);
}

/* Older data may have brought the marker back: what this node knew may be known again. */
Test(membership_unlearn, keeps_what_an_unconfirmed_marker_lacks)
{
    struct stores stores;
    struct agent agent;
    open_with_a_spare(&stores, &agent);
    struct rl_marker older = stores_marker(&stores, 0);
    assign_the_spare(&agent);
    cr_assert_eq(agent_next_command(&agent), 15);
    agent_carry(&agent, 0);
    for (unsigned i = 1; i < 4; i++)
        agent_refuse(&agent, i);
    struct store known = stores.store[0];
    stores_put(&stores, 0, &older);
    rl_membership_marker_mismatch(&agent.membership, 0, stores.now, stores.now);
    cr_assert_eq(agent_next_command(&agent) & 1, 1);
    agent_do(&agent, 0);
    agent_reply_marker(&agent, 0);
    swap_addresses(&agent);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNCONFIRMED);
    cr_assert_eq(agent.membership.roster.member[4].generation, 2);
    stores.store[0] = known;
    agent_greet_again(&agent, 0);
    cr_assert_eq(agent.membership.roster.member[4].generation, 2);
    cr_assert_eq(agent_state(&agent, 3), RL_MEMBER_REPLACED);
}

/* A server that returns to older data at the address that had the index gets it back. */
Test(membership_unlearn, keeps_other_indexes)
{
    struct stores stores;
    struct agent agent;
    open_with_a_spare(&stores, &agent);
    struct rl_marker older = stores_marker(&stores, 2);
    agent_greet_forgotten(&agent, 2);
    cr_assert_eq(agent_next_command(&agent), 4);
    agent_carry(&agent, 2);
    assign_the_spare(&agent);
    for (unsigned i = 0; i < 4; i++)
        if (agent.transit[i].out)
            agent_refuse(&agent, i);
    stores_put(&stores, 2, &older);
    stores_restart(&stores, 2, true);
    agent_greet_again(&agent, 2);
    swap_addresses(&agent);
    cr_assert_eq(agent.membership.roster.member[2].generation, 2);
    cr_assert_eq(agent.membership.roster.member[4].generation, 1);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + 2 * RL_SECOND);
    cr_assert_eq(agent_active(&agent), 31);
}
