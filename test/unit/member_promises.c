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
    const struct rl_admission_request request = {.mode = RL_ADMIT_READMIT,
                                                 .forgotten = forgotten};
    unsigned node;
    cr_assert_eq(
        rl_admission_begin(&agent->membership, &request, &node, 1, agent->stores->now),
        expected);
}

static enum rl_admission_error promise(struct agent *agent, uint32_t promises)
{
    const struct rl_admission_request request = {
        .mode = RL_ADMIT_READMIT, .sets_promises = true, .promises = promises};
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

/* Server 3 gets the place of server 2. */
static void replace_2_by_3(struct agent *agent, struct stores *stores)
{
    const struct rl_admission_request request = {.mode = RL_ADMIT_REPLACE, .newcomer = 2};
    unsigned node;
    stores_start(stores, 3);
    agent_init(agent, stores);
    agent->at[2] = 3;
    agent_greet_all(agent);
    cr_assert_eq(rl_admission_begin(&agent->membership, &request, &node, 1, stores->now),
                 RL_ADMISSION_OK);
    agent_run(agent, rl_membership_quarantine(&agent->membership) + RL_SECOND);
    cr_assert_eq(agent_active(agent), 7);
}

static enum rl_admission_error retire(struct agent *agent, unsigned replaced)
{
    const struct rl_admission_request request = {.mode = RL_ADMIT_RETIRE,
                                                 .newcomer = (uint8_t)replaced};
    unsigned node;
    return rl_admission_begin(&agent->membership, &request, &node, 1, agent->stores->now);
}

/* An operator's client with the old list. */
Test(member_promises, a_retired_server_is_no_member_of_any_list)
{
    struct stores stores;
    struct agent agent, human, old;
    open_promised(&agent, &stores, 3, RL_PROMISE_SOLE);
    replace_2_by_3(&human, &stores);
    agent_init_greeted(&old, &stores);
    cr_assert_eq(retire(&old, 2), RL_ADMISSION_OK);
    agent_run(&old, RL_SECOND);
    cr_assert_eq(rl_admission_progress(&old.membership), RL_ADMISSION_DONE);
    for (unsigned i = 0; i < 2; i++) {
        stores_restart(&stores, i, false);
        agent_greet_again(&agent, i);
    }
    agent_greet_again(&agent, 2);
    agent_run(&agent, 2 * rl_membership_quarantine(&agent.membership));
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_REPLACED);
    cr_assert_eq(agent_active(&agent), 0);
}

/* The address of the replaced server may lead elsewhere. */
Test(member_promises, only_a_replaced_server_is_retired)
{
    struct stores stores;
    struct agent agent, human;
    open_promised(&agent, &stores, 3, 0);
    replace_2_by_3(&human, &stores);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(retire(&human, i), RL_ADMISSION_UNADMITTED);
    agent_disconnected(&human, 2);
    cr_assert_eq(retire(&human, 2), RL_ADMISSION_UNREACHED);
}

/* --- what a client remembers --- */

/* The nodes had several snapshots: each has its marker, and that of node 0 is older than
   what the others know. */
Test(member_promises, sole_nodes_come_back_by_older_markers)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, RL_PROMISE_SOLE);
    struct rl_marker older = stores_marker(&stores, 0);
    stores_restart(&stores, 0, true);
    agent_greet_again(&agent, 0);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 7);
    for (unsigned i = 0; i < 3; i++)
        stores_restart(&stores, i, true);
    stores_put(&stores, 0, &older);
    agent_init_greeted(&agent, &stores);
    agent_run(&agent, 4 * rl_membership_quarantine(&agent.membership));
    cr_assert_eq(agent_active(&agent), 7, "%x", agent_active(&agent));
}

/* A replaced server restarts with its marker; those that know the replacement vote. */
Test(member_promises, a_majority_gives_no_older_marker_its_index_back)
{
    struct stores stores;
    struct agent agent, human;
    open_promised(&agent, &stores, 3, RL_PROMISE_SOLE);
    replace_2_by_3(&human, &stores);
    stores_restart(&stores, 2, true);
    agent_init_greeted(&agent, &stores);
    agent_run(&agent, 4 * rl_membership_quarantine(&agent.membership));
    cr_assert_eq(agent_active(&agent), 3);
    agent_run(&human, RL_SECOND);
    cr_assert_eq(agent_active(&human), 7);
}

/* A client that gave the indexes back would spare the operator the question. */
Test(member_promises, no_client_gives_an_empty_durable_node_its_index_without_a_majority)
{
    struct stores stores;
    struct agent agent, human;
    open_promised(&agent, &stores, 3, RL_PROMISE_DURABLE);
    for (unsigned i = 0; i < 2; i++) {
        stores_restart(&stores, i, false);
        agent_greet_again(&agent, i);
    }
    agent_run(&agent, 4 * rl_membership_quarantine(&agent.membership));
    agent_init_greeted(&human, &stores);
    wait_for_all(&human, 0, RL_ADMISSION_EMPTY);
    wait_for_all(&human, 3, RL_ADMISSION_OK);
    struct agent *both[] = {&agent, &human};
    agents_run(both, 2, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 7);
}

/* One that is wiped while the others vote comes back by itself. */
Test(member_promises, a_majority_gives_an_empty_durable_node_its_index_back)
{
    struct stores stores;
    struct agent agent;
    open_promised(&agent, &stores, 3, RL_PROMISE_DURABLE);
    stores_restart(&stores, 1, false);
    agent_greet_again(&agent, 1);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 7);
    cr_assert_eq(stores_marker(&stores, 1).promises, RL_PROMISE_DURABLE);
}

/* This client read node 1 last before the operator took the promise back. */
Test(member_promises, a_promise_that_was_taken_back_does_not_come_back)
{
    struct stores stores;
    struct agent agent, human;
    open_promised(&agent, &stores, 3, RL_PROMISE_DURABLE);
    agent_disconnected(&agent, 1);
    agent_init_greeted(&human, &stores);
    cr_assert_eq(promise(&human, 0), RL_ADMISSION_OK);
    agent_run(&human, RL_SECOND);
    cr_assert_eq(rl_admission_progress(&human.membership), RL_ADMISSION_DONE);
    agent_run(&agent, 2 * RL_MEMBER_PROBE_INTERVAL);
    stores_restart(&stores, 1, false);
    agent_greet_again(&agent, 1);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&agent), 7);
    cr_assert_eq(stores_marker(&stores, 1).promises, 0);
}

/* --- limits, which the words of the promises exclude --- */

static rl_node_set may_grant(const struct agent *agent)
{
    rl_node_set stores = 0;
    for (unsigned i = 0; i < agent->membership.params.n; i++)
        if (agent_may_have_a_grant(agent, i))
            stores |= rl_bit(agent->at[i]);
    return stores;
}

/*
 * Server 2 was replaced by server 3, and is stopped for good. Then another, empty server
 * (4) gets its address. A client with the old list that did not hear of the replacement
 * gives it the index of server 3, which is alive: {0, 4} and {1, 3} are two majorities.
 */
Test(member_promises, sole_excludes_an_empty_server_at_the_address_of_a_replaced_one)
{
    struct stores stores;
    struct agent old, other;
    open_promised(&old, &stores, 3, RL_PROMISE_SOLE);
    for (unsigned i = 0; i < 3; i++)
        agent_disconnected(&old, i);
    stores_start(&stores, 4);
    replace_2_by_3(&other, &stores);
    /* It restarts once: a later incarnation. */
    stores_restart(&stores, 3, false);
    agent_greet_again(&other, 2);
    agent_run(&other, rl_membership_quarantine(&other.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&other), 7);
    /* Servers 0 and 1 lose their memory; server 3 lives, without a client. */
    stores_restart(&stores, 0, false);
    stores_restart(&stores, 1, false);
    old.at[2] = 4;
    agent_greet_all(&old);
    agent_run(&old, rl_membership_quarantine(&old.membership) + 2 * RL_SECOND);
    cr_assert_eq(may_grant(&old), 0x13);
    agent_init(&other, &stores);
    other.at[2] = 3;
    agent_greet_all(&other);
    cr_assert_eq(may_grant(&other), 0x0b);
}

/* This client was not connected when node 0 got its last incarnation. */
Test(member_promises, sole_needs_a_client_that_saw_the_last_incarnation)
{
    struct stores stores;
    struct agent agent, other;
    open_promised(&agent, &stores, 3, RL_PROMISE_SOLE);
    agent_init_greeted(&other, &stores);
    agent_disconnected(&agent, 0);
    stores_restart(&stores, 0, false);
    agent_greet_again(&other, 0);
    struct agent *both[] = {&agent, &other};
    agents_run(both, 2, rl_membership_quarantine(&other.membership) + RL_SECOND);
    cr_assert_eq(agent_active(&other), 7);
    restart_all(&agent, false);
    agent_run(&agent, 4 * rl_membership_quarantine(&agent.membership));
    cr_assert_eq(agent_active(&agent), 0);
}

/* A copy of the data may have served at that address. */
Test(member_promises, sole_needs_a_client_that_saw_the_node_in_the_process_of_its_marker)
{
    for (int in_another = 0; in_another < 2; in_another++) {
        struct stores stores;
        struct agent agent;
        open_promised(&agent, &stores, 3, RL_PROMISE_SOLE);
        if (in_another)
            stores_restart(&stores, 2, true);
        agent_init(&agent, &stores);
        agent_greet(&agent, 2);
        agent_greet(&agent, 1); /* a majority: the deployment is known */
        cr_assert_eq(agent_state(&agent, 2),
                     in_another ? RL_MEMBER_OTHER_PROCESS : RL_MEMBER_ACTIVE);
        for (unsigned i = 0; i < 2; i++)
            stores_restart(&stores, i, true);
        stores_restart(&stores, 2, false);
        agent_greet_all(&agent);
        agent_run(&agent, 4 * rl_membership_quarantine(&agent.membership));
        cr_assert_eq(agent_active(&agent), in_another ? 0 : 7);
    }
}
