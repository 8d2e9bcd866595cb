/* Which nodes attest for a node in quarantine, and what restarts its quarantine. */
#include "membership_fixture.h"

/*
 * The last nodes forget, all others are active; the agent has assigned their indexes, and
 * no more.
 */
static void open_assigned(struct stores *stores, struct agent *agent, unsigned n,
                          unsigned forgotten)
{
    agent_open(agent, stores, n);
    for (unsigned i = n - forgotten; i < n; i++)
        agent_greet_forgotten(agent, i);
    agent_next_command(agent);
    for (unsigned i = n - forgotten; i < n; i++) {
        agent_carry(agent, i);
        cr_assert_eq(agent_state(agent, i), RL_MEMBER_QUARANTINED);
    }
}

static bool is_registered(const struct agent *agent, unsigned node)
{
    return rl_membership_quarantine_left(&agent->membership, node, agent->stores->now) !=
           RL_NEVER;
}

/* --- at one moment --- */

/*
 * One witness forgets soon after it knew; by the time that the other one knows, no majority
 * does.
 */
Test(membership_witnesses, must_know_at_one_moment)
{
    struct stores stores;
    struct agent agent;
    open_assigned(&stores, &agent, 3, 1);
    cr_assert_eq(agent_next_command(&agent), 3);
    agent_carry(&agent, 0);
    stores_forget(&stores, 0);
    stores.now += RL_MS;
    agent_carry(&agent, 1);
    cr_assert_not(is_registered(&agent, 2), "only one of them knows it");
    cr_assert_eq(agent_next_command(&agent), 3, "both are asked whether they still know");
    agent_carry(&agent, 1);
    cr_assert_not(is_registered(&agent, 2));
    agent_carry(&agent, 0);
    agent_run(&agent, 600 * RL_SECOND);
    cr_assert_eq(stores_active(&stores), 2, "no node was left to attest for the other");
}

/* The loss is noticed only at each possible moment afterwards. */
Test(membership_witnesses, do_not_count_if_they_forgot_before_the_second_poll)
{
    for (unsigned forgetful = 0; forgetful < 3; forgetful++)
        for (unsigned first = 0; first < 3; first++) {
            struct stores stores;
            struct agent agent;
            open_assigned(&stores, &agent, 5, 2);
            cr_assert_eq(agent_next_command(&agent) & 7, 7);
            for (unsigned i = 0; i < 3; i++)
                agent_carry(&agent, i);
            stores_forget(&stores, forgetful);
            stores.now += RL_MS;
            cr_assert_eq(agent_next_command(&agent) & 7, 7);
            for (unsigned i = 0; i < 3; i++)
                agent_carry(&agent, (first + i) % 3);
            cr_assert_not(is_registered(&agent, 3), "%u %u", forgetful, first);
            cr_assert_not(is_registered(&agent, 4), "%u %u", forgetful, first);
            agent_run(&agent, 600 * RL_SECOND);
            cr_assert_eq(stores_active(&stores), 7 & ~rl_bit(forgetful));
        }
}

/* Both other nodes of three know the new incarnation; returns since when. */
static rl_time open_known(struct stores *stores, struct agent *agent)
{
    open_assigned(stores, agent, 3, 1);
    cr_assert_eq(agent_next_command(agent), 3);
    rl_time known = stores->now;
    agent_carry(agent, 0);
    agent_carry(agent, 1);
    return known;
}

/* Which was first, the command or the reply that was the last to know? */
Test(membership_witnesses, do_not_count_if_they_were_asked_at_the_same_time)
{
    struct stores stores;
    struct agent agent;
    rl_time known = open_known(&stores, &agent);
    for (rl_time sent = known; sent <= stores.now; sent++)
        for (unsigned i = 0; i < 2; i++) {
            cr_assert_not(is_registered(&agent, 2));
            struct rl_word marker = {stores.store[i].text, stores.store[i].len};
            rl_membership_replied(&agent.membership, i, marker, sent, stores.now);
        }
    cr_assert(is_registered(&agent, 2));
    cr_assert_eq(stores.now, known + 1);
}

/* Their markers are read for another reason, at that time: so they are read once more. */
Test(membership_witnesses, are_asked_until_they_confirm)
{
    struct stores stores;
    struct agent agent;
    rl_time known = open_known(&stores, &agent);
    stores.now = known;
    rl_admission_look(&agent.membership, known);
    cr_assert_eq(agent_next_command(&agent), rl_all(3));
    stores.now += RL_MS;
    for (unsigned i = 0; i < 3; i++)
        agent_carry(&agent, i);
    cr_assert_not(is_registered(&agent, 2));
    cr_assert_eq(agent_next_command(&agent), 3);
    agent_carry(&agent, 0);
    agent_carry(&agent, 1);
    cr_assert(is_registered(&agent, 2));
}

/* A node that knew, forgot, and knows again: what it knew in between is unknown. */
Test(membership_witnesses, do_not_count_with_a_new_incarnation)
{
    struct stores stores;
    struct agent agent;
    open_assigned(&stores, &agent, 3, 1);
    agent_next_command(&agent);
    agent_carry(&agent, 0);
    agent_carry(&agent, 1);
    struct rl_marker marker = stores_marker(&stores, 0);
    marker.roster.member[0] = (struct rl_incarnation){2, 99};
    marker.nonce++;
    stores_put(&stores, 0, &marker); /* another client has done all of it */
    stores.now += RL_MS;
    agent_next_command(&agent);
    agent_carry(&agent, 0);
    agent_carry(&agent, 1);
    cr_assert_not(is_registered(&agent, 2));
    agent_work(&agent); /* and now they know it at one moment */
    cr_assert(is_registered(&agent, 2));
}

/* A witness that forgets later does not matter any more: what it knew had spread. */
Test(membership_witnesses, may_forget_after_the_second_poll)
{
    struct stores stores;
    struct agent agent;
    open_assigned(&stores, &agent, 5, 1);
    agent_work(&agent);
    cr_assert(is_registered(&agent, 4));
    stores_forget(&stores, 0);
    stores_forget(&stores, 1);
    agent_greet_again(&agent, 0);
    agent_disconnected(&agent, 1);
    agent_run(&agent, rl_membership_quarantine(&agent.membership));
    cr_assert(stores_is_active(&stores, 4));
}

/*
 * The node was read before the others knew, and has forgotten since: the old reply does not
 * count.
 */
Test(membership_witnesses, do_not_count_by_an_older_reply)
{
    struct stores stores;
    struct agent agent, late;
    open_assigned(&stores, &agent, 3, 1);
    agent_work(&agent);
    agent_init(&late, &stores);
    agent_greet(&late, 0);
    agent_greet(&late, 1);
    stores.now += RL_MEMBER_RETRY_DELAY;
    cr_assert_eq(agent_next_command(&late), 1);
    agent_do(&late, 0);
    stores_forget(&stores, 0);
    stores.now += RL_MS;
    agent_greet(&late, 2);
    stores.now += RL_MS;
    agent_reply(&late, 0);
    agent_next_command(&late);
    agent_carry(&late, 1);
    cr_assert_not(is_registered(&late, 2));
    agent_work(&late);
    cr_assert_not(is_registered(&late, 2));
}

/*
 * An earlier reply that arrives when the second poll is due must not count as the second.
 */
Test(membership_witnesses, are_polled_again_while_an_earlier_poll_is_under_way)
{
    struct stores stores;
    struct agent agent, late;
    open_assigned(&stores, &agent, 3, 1);
    agent_work(&agent);
    agent_init(&late, &stores);
    agent_greet(&late, 0);
    agent_greet(&late, 1);
    stores.now += RL_MEMBER_RETRY_DELAY;
    cr_assert_eq(agent_next_command(&late), 1, "it was alone at first");
    stores.now += RL_MS;
    agent_greet(&late, 2);
    stores.now += RL_MS;
    agent_carry(&late, 0);
    agent_work(&late);
    cr_assert(is_registered(&late, 2));
}

/* --- what restarts the quarantine --- */

static void open_halfway(struct stores *stores, struct agent *agent)
{
    open_assigned(stores, agent, 3, 1);
    agent_work(agent);
    agent_run(agent, rl_membership_quarantine(&agent->membership) / 2);
    cr_assert(is_registered(agent, 2));
}

/* From now on the whole quarantine passes. */
static void expect_whole_quarantine(struct agent *agent)
{
    rl_time quarantine = rl_membership_quarantine(&agent->membership);
    agent_run(agent, quarantine - 1);
    cr_assert_not(stores_is_active(agent->stores, 2), "too early");
    agent_run(agent, RL_SECOND);
    cr_assert(stores_is_active(agent->stores, 2));
}

Test(membership_witnesses, quarantine_restarts_over_another_connection)
{
    struct stores stores;
    struct agent agent;
    open_halfway(&stores, &agent);
    agent_greet_again(&agent, 2);
    expect_whole_quarantine(&agent);
}

Test(membership_witnesses, quarantine_restarts_with_another_incarnation)
{
    struct stores stores;
    struct agent agent;
    open_halfway(&stores, &agent);
    struct rl_marker marker = stores_marker(&stores, 2);
    marker.roster.member[2] = (struct rl_incarnation){5, 5};
    stores_put(&stores, 2, &marker);
    stores.store[2].forgot_at = stores.now;
    expect_whole_quarantine(&agent);
}

/* It forgets, and the agent notices that only by polling. */
Test(membership_witnesses, quarantine_restarts_where_all_was_forgotten)
{
    struct stores stores;
    struct agent agent;
    open_halfway(&stores, &agent);
    stores_forget(&stores, 2);
    expect_whole_quarantine(&agent);
}

Test(membership_witnesses, quarantine_continues_though_the_others_come_and_go)
{
    struct stores stores;
    struct agent agent;
    open_halfway(&stores, &agent);
    agent_disconnected(&agent, 0);
    agent_disconnected(&agent, 1);
    rl_time left = rl_membership_quarantine_left(&agent.membership, 2, stores.now);
    agent_run(&agent, left - 1);
    cr_assert_not(stores_is_active(&stores, 2));
    agent_run(&agent, 1);
    cr_assert(stores_is_active(&stores, 2));
}

/* A node that is disconnected does not attest, whatever it knew. */
Test(membership_witnesses, quarantined_node_has_to_be_connected)
{
    struct stores stores;
    struct agent agent;
    open_assigned(&stores, &agent, 3, 1);
    agent_next_command(&agent);
    agent_carry(&agent, 0);
    agent_carry(&agent, 1);
    agent_next_command(&agent);
    agent_carry(&agent, 0);
    agent_disconnected(&agent, 1);
    agent_run(&agent, 60 * RL_SECOND);
    cr_assert_not(is_registered(&agent, 2));
    agent_greet(&agent, 1);
    expect_whole_quarantine(&agent);
}

/* --- all of them --- */

enum other {
    ACTIVE,
    QUARANTINED,
    UNMARKED,
    OTHER_PROCESS,
    REPLACED,
    OTHER_DEPLOYMENT,
    UNSEEN,
    OTHERS
};

static void make_other(struct stores *stores, unsigned i, enum other other)
{
    struct rl_marker marker = stores_marker(stores, i);
    switch (other) {
    case QUARANTINED: marker.active = false; break;
    case OTHER_DEPLOYMENT: marker.roster.deployment++; break;
    case OTHER_PROCESS: stores_restart(stores, i, true); break;
    default: break;
    }
    stores_put(stores, i, &marker);
    if (other == UNMARKED)
        stores_forget(stores, i);
}

/* The last node, in quarantine, is lifted when the others are in these states. */
static bool is_lifted(unsigned n, const enum other *other)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, n);
    struct rl_marker last = stores_marker(&stores, n - 1);
    last.active = false;
    for (unsigned i = 0; i < n - 1; i++) {
        make_other(&stores, i, other[i]);
        last.roster.member[i].generation += other[i] == REPLACED;
    }
    stores_put(&stores, n - 1, &last);
    agent_init(&agent, &stores);
    for (unsigned i = 0; i < n; i++)
        if (i == n - 1 || other[i] != UNSEEN)
            agent_greet(&agent, i);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) - 1);
    CHECK(!stores_is_active(&stores, n - 1), "too early");
    agent_run(&agent, RL_SECOND);
    return stores_is_active(&stores, n - 1);
}

/* In every combination: a majority of all N that is active, without the node itself. */
Test(membership_witnesses, are_a_majority_of_other_active_nodes)
{
    unsigned lifted = 0;
    for (unsigned n = 2; n <= 5; n++) {
        unsigned ways = 1;
        for (unsigned i = 0; i < n - 1; i++)
            ways *= OTHERS;
        for (unsigned way = 0; way < ways; way++) {
            enum other other[STORES_MAX];
            unsigned active = 0;
            for (unsigned i = 0, rest = way; i < n - 1; i++, rest /= OTHERS) {
                other[i] = (enum other)(rest % OTHERS);
                active += other[i] == ACTIVE;
            }
            bool expected = active > n / 2;
            CHECK(is_lifted(n, other) == expected, "n %u, way %u", n, way);
            lifted += expected;
        }
    }
    cr_assert_gt(lifted, 20);
}
