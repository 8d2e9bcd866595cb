/*
 * Promises of the operator: nodes that lose nothing keep their vote over a restart, and
 * nodes of which no other server is alive attest for each other without an operator.
 */
#include "membership_fixture.h"

#define ALL rl_all(stores.n)

static void open_promised(struct agent *agent, struct stores *stores, unsigned n,
                          uint32_t promises)
{
    stores_init(stores, n);
    stores->promises = promises;
    stores_bootstrap(stores, 7);
    agent_init_greeted(agent, stores);
    agent_run(agent, RL_SECOND);
    cr_assert_eq(agent_active(agent), rl_all(n));
}

static void restart_all(struct agent *agent, bool keeps_data)
{
    for (unsigned i = 0; i < agent->stores->n; i++) {
        stores_restart(agent->stores, i, keeps_data);
        agent_greet_again(agent, i);
    }
}

static void wait_for_all(struct agent *agent, rl_node_set forgotten,
                         enum rl_admission_error expected)
{
    const struct rl_admission_request request = {.mode = RL_ADMIT_WAIT,
                                                 .forgotten = forgotten};
    unsigned node;
    cr_assert_eq(
        rl_admission_begin(&agent->membership, &request, &node, 1, agent->stores->now),
        expected);
}

static enum rl_admission_error promise(struct agent *agent, uint32_t promises)
{
    const struct rl_admission_request request = {
        .mode = RL_ADMIT_WAIT, .sets_promises = true, .promises = promises};
    unsigned node;
    return rl_admission_begin(&agent->membership, &request, &node, 1, agent->stores->now);
}

/* --- durable --- */

/* No marker is written: so no client can lose a race. */
Test(member_promises, durable_nodes_vote_after_a_restart_at_once)
{
    for (unsigned n = 1; n <= 5; n++) {
        struct stores stores;
        struct agent agent, fresh;
        open_promised(&agent, &stores, n, RL_PROMISE_DURABLE);
        restart_all(&agent, true);
        cr_assert_eq(agent_active(&agent), ALL);
        agent_init_greeted(&fresh, &stores);
        cr_assert_eq(agent_active(&fresh), ALL, "also for a client that has just started");
        agent_run(&agent, RL_SECOND);
        cr_assert_eq(agent.writes, 0);
    }
}

/* A replica that was promoted, an append-only file that is off or fails. */
Test(member_promises, a_greeting_refutes_that_a_node_is_durable)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, RL_PROMISE_DURABLE);
    stores.store[1].refuted = true;
    stores_restart(&stores, 1, true);
    agent_greet_again(&agent, 1);
    cr_assert_eq(agent_active(&agent), 5);
    cr_assert_not(agent.membership.member[1].kept);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 7);
    cr_assert_eq(agent.membership.roster.member[1].generation, 2);
}

/* Each node's own marker counts. */
Test(member_promises, a_node_without_the_promise_is_quarantined)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, RL_PROMISE_DURABLE);
    struct rl_marker marker = stores_marker(&stores, 2);
    marker.promises = 0;
    stores_put(&stores, 2, &marker);
    agent_greet_again(&agent, 2);
    restart_all(&agent, true);
    cr_assert_eq(agent_active(&agent), 3);
}

/* The data was copied: the two are one member. */
Test(member_promises, two_nodes_with_one_marker_do_not_both_vote)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, RL_PROMISE_DURABLE);
    struct rl_marker marker = stores_marker(&stores, 0);
    stores_put(&stores, 1, &marker);
    agent_greet_again(&agent, 1);
    cr_assert_eq(agent_active(&agent), 5, "%x", agent_active(&agent));
    restart_all(&agent, true);
    cr_assert_eq(agent_active(&agent), 4, "%x", agent_active(&agent));
}

/* What a lease counts on is there if the same incarnation is. */
Test(member_promises, a_durable_node_keeps_its_data_while_its_marker_stays)
{
    for (int promised = 0; promised < 2; promised++)
        for (int keeps = 0; keeps < 2; keeps++) {
            struct stores stores;
            struct agent agent;
            open_promised(&agent, &stores, 3, promised ? RL_PROMISE_DURABLE : 0);
            stores_restart(&stores, 1, keeps);
            agent_greet_again(&agent, 1);
            cr_assert_eq(agent.membership.member[1].kept, promised && keeps);
        }
}

/* Its clock is right before it serves: a step during the restart is seen. */
Test(member_promises, the_clock_of_a_durable_node_is_compared_over_a_restart)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, RL_PROMISE_DURABLE);
    agent_run(&agent, 2 * RL_MEMBER_PROBE_INTERVAL);
    stores_restart(&stores, 1, true);
    agent_greet_again(&agent, 1);
    cr_assert(agent.membership.member[1].pace.known);
    stores_restart(&stores, 1, false);
    agent_greet_again(&agent, 1);
    cr_assert_not(agent.membership.member[1].pace.known);
}

/* An empty server may be another one than that with the data, which may come back. */
Test(member_promises, an_empty_durable_node_gets_an_index_only_if_it_is_forgotten)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, RL_PROMISE_DURABLE);
    for (unsigned i = 0; i < 2; i++)
        stores_restart(&stores, i, false);
    agent_init_greeted(&agent, &stores);
    wait_for_all(&agent, 0, RL_ADMISSION_EMPTY);
    wait_for_all(&agent, 2, RL_ADMISSION_EMPTY);
    wait_for_all(&agent, 3, RL_ADMISSION_OK);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 7);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stores_marker(&stores, i).promises, RL_PROMISE_DURABLE);
}

/* --- sole --- */

/* A client that knew them before, whatever they have lost. */
Test(member_promises, sole_nodes_come_back_without_an_operator)
{
    for (unsigned n = 1; n <= 5; n++)
        for (int keeps = 0; keeps < 2; keeps++) {
            struct stores stores;
            struct agent agent;
            open_promised(&agent, &stores, n, RL_PROMISE_SOLE);
            restart_all(&agent, keeps);
            rl_time quarantine = rl_membership_quarantine(&agent.membership);
            agent_run(&agent, quarantine - RL_MS);
            cr_assert_eq(agent_active(&agent), 0, "too early");
            agent_run(&agent, 1500 * RL_MS);
            cr_assert_eq(agent_active(&agent), ALL, "%u nodes, %d", n, keeps);
            for (unsigned i = 0; i < n; i++) {
                cr_assert_eq(stores_marker(&stores, i).index, i);
                cr_assert_eq(stores_marker(&stores, i).promises, RL_PROMISE_SOLE);
            }
        }
}

/* Without the markers it knows neither the promise nor which index a node had. */
Test(member_promises, a_new_client_brings_sole_nodes_back_by_their_markers_only)
{
    for (int keeps = 0; keeps < 2; keeps++) {
        struct stores stores;
        struct agent agent;
        open_promised(&agent, &stores, 3, RL_PROMISE_SOLE);
        restart_all(&agent, keeps);
        agent_init_greeted(&agent, &stores);
        agent_run(&agent, 2 * rl_membership_quarantine(&agent.membership));
        cr_assert_eq(agent_active(&agent), keeps ? 7 : 0);
    }
}

Test(member_promises, sole_nodes_need_all_nodes)
{
    for (unsigned missing = 0; missing < 3; missing++) {
        struct stores stores;
        struct agent agent;
        open_promised(&agent, &stores, 3, RL_PROMISE_SOLE);
        restart_all(&agent, true);
        agent_disconnected(&agent, missing);
        agent_run(&agent, 4 * rl_membership_quarantine(&agent.membership));
        cr_assert_eq(agent_active(&agent), 0, "without node %u", missing);
    }
}

/* An empty server at an address at which this client saw no member is none. */
Test(member_promises, sole_nodes_give_no_free_index_away)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, RL_PROMISE_SOLE);
    stores_restart(&stores, 0, false);
    stores_restart(&stores, 1, true);
    stores_restart(&stores, 2, true);
    agent_init_greeted(&agent, &stores);
    agent_run(&agent, 4 * rl_membership_quarantine(&agent.membership));
    cr_assert_eq(agent_active(&agent), 0);
    cr_assert_eq(stores.store[0].len, 0);
}

/* While markers differ, a majority decides. */
Test(member_promises, sole_counts_where_a_majority_has_it)
{
    for (rl_node_set with = 0; with < 8; with++) {
        struct stores stores;
        struct agent agent;
        open_promised(&agent, &stores, 3, 0);
        for (unsigned i = 0; i < 3; i++) {
            struct rl_marker marker = stores_marker(&stores, i);
            marker.promises = with & rl_bit(i) ? RL_PROMISE_SOLE : 0;
            stores_put(&stores, i, &marker);
            agent_greet_again(&agent, i);
        }
        restart_all(&agent, false);
        agent_run(&agent, 2 * rl_membership_quarantine(&agent.membership));
        cr_assert_eq(agent_active(&agent), rl_count(with) >= 2 ? 7 : 0, "%x", with);
    }
}

/* --- setting promises --- */

Test(member_promises, are_set_and_taken_back_while_all_vote)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, RL_PROMISE('q'));
    cr_assert_eq(promise(&agent, RL_PROMISES), RL_ADMISSION_OK);
    cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_RUNNING);
    agent_run(&agent, RL_SECOND);
    cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_DONE);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stores_marker(&stores, i).promises, RL_PROMISES | RL_PROMISE('q'),
                     "a letter of a later release stays");
    rl_admission_end(&agent.membership);
    cr_assert_eq(promise(&agent, 0), RL_ADMISSION_OK);
    agent_run(&agent, RL_SECOND);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stores_marker(&stores, i).promises, RL_PROMISE('q'));
}

Test(member_promises, are_not_set_while_a_node_does_not_vote)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, 0);
    agent_greet_forgotten(&agent, 1);
    cr_assert_eq(promise(&agent, RL_PROMISE_SOLE), RL_ADMISSION_MEMBER_INACTIVE);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stores_marker(&stores, i).promises, 0);
}

/* --- retired servers --- */

/* An operator's client of the replaced server alone, whose deployment has more nodes. */
Test(member_promises, a_retired_server_is_no_member_of_any_list)
{
    const struct rl_admission_request request = {.mode = RL_ADMIT_RETIRE};
    struct stores stores;
    struct agent agent, alone;
    unsigned node;
    open_promised(&agent, &stores, 3, RL_PROMISE_SOLE);
    stores.n = 1;
    agent_init_greeted(&alone, &stores);
    stores.n = 3;
    cr_assert_eq(rl_admission_begin(&alone.membership, &request, &node, 1, stores.now),
                 RL_ADMISSION_OK);
    agent_run(&alone, RL_SECOND);
    cr_assert_eq(rl_admission_progress(&alone.membership), RL_ADMISSION_DONE);
    for (unsigned i = 1; i < 3; i++) {
        stores_restart(&stores, i, false);
        agent_greet_again(&agent, i);
    }
    agent_greet_again(&agent, 0);
    agent_run(&agent, 2 * rl_membership_quarantine(&agent.membership));
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_REPLACED);
    cr_assert_eq(agent_active(&agent), 0);
}
