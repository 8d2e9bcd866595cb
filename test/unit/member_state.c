/*
 * The state of a member: from its marker, its process and what else is known of its index.
 */
#include <string.h>

#include "membership_fixture.h"

#define DEPLOYMENT 7
#define OTHER      8

Test(member_state, all_members_of_a_healthy_deployment_are_active)
{
    for (unsigned n = 1; n <= STORES_MAX; n++) {
        struct stores stores;
        struct agent agent;
        stores_init_bootstrapped(&stores, n);
        agent_init_greeted(&agent, &stores);
        cr_assert_eq(agent_active(&agent), rl_all(n));
        agent_run(&agent, RL_SECOND); /* the first nodes to be greeted are read once more */
        cr_assert_lt(agent.commands, n);
        cr_assert_eq(agent.writes, 0, "there is nothing to be done");
        cr_assert_gt(rl_membership_next(&agent.membership), stores.now);
    }
}

Test(member_state, is_unseen_before_a_greeting_and_after_the_end)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init(&agent, &stores);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(agent_state(&agent, i), RL_MEMBER_UNSEEN);
    cr_assert_eq(rl_membership_next(&agent.membership), RL_NEVER);
    agent_greet_all(&agent);
    agent_disconnected(&agent, 1);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_UNSEEN);
    cr_assert_eq(agent_active(&agent), 5);
    agent_greet(&agent, 1);
    cr_assert_eq(agent_active(&agent), 7);
}

/* --- every state, and which one counts where several would apply --- */

/* Defects of node 0, one bit each. */
enum wrong {
    UNGREETED = 1,
    GARBLED = 2,
    TOO_MANY_SEATS = 4,
    UNMARKED = 8,
    NO_MAJORITY = 16, /* the others are not seen: no deployment is known */
    OTHER_DEPLOYMENT = 32,
    REPLACED = 64,
    OTHER_PROCESS = 128,
    QUARANTINED = 256,
    SET_CLOCK = 512,
    DISPUTED = 1024,
    WRONGS = 2048,
};

static void put_malformed_marker(struct stores *stores, unsigned i)
{
    stores->store[i].text[0] = 'x';
    stores->store[i].len = 1;
}

static void make_marker(struct stores *stores, unsigned wrong)
{
    struct rl_marker marker = stores_marker(stores, 0);
    if (wrong & TOO_MANY_SEATS) {
        marker.roster.member[marker.roster.n] = (struct rl_incarnation){1, 1};
        marker.roster.n++;
    }
    if (wrong & OTHER_DEPLOYMENT)
        marker.roster.deployment = OTHER;
    if (wrong & OTHER_PROCESS)
        stores_restart(stores, 0, true);
    marker.active = !(wrong & QUARANTINED);
    stores_put(stores, 0, &marker);
    if (wrong & UNMARKED)
        stores_forget(stores, 0);
    if (wrong & GARBLED)
        put_malformed_marker(stores, 0);
    for (unsigned i = 1; wrong & REPLACED && i < stores->n; i++) {
        marker = stores_marker(stores, i);
        marker.roster.member[0].generation = 2;
        stores_put(stores, i, &marker);
    }
}

static enum rl_member_state expected_of(unsigned wrong)
{
    if (wrong & UNGREETED)
        return RL_MEMBER_UNSEEN;
    if (wrong & GARBLED)
        return RL_MEMBER_OTHER_DEPLOYMENT;
    if (wrong & UNMARKED)
        return RL_MEMBER_UNMARKED;
    if (wrong & TOO_MANY_SEATS)
        return RL_MEMBER_OTHER_DEPLOYMENT;
    if (wrong & NO_MAJORITY)
        return RL_MEMBER_NO_MAJORITY;
    if (wrong & OTHER_DEPLOYMENT)
        return RL_MEMBER_OTHER_DEPLOYMENT;
    if (wrong & REPLACED)
        return RL_MEMBER_REPLACED;
    if (wrong & OTHER_PROCESS)
        return RL_MEMBER_OTHER_PROCESS;
    if (wrong & QUARANTINED)
        return RL_MEMBER_QUARANTINED;
    if (wrong & SET_CLOCK)
        return RL_MEMBER_CLOCK;
    return wrong & DISPUTED ? RL_MEMBER_UNCONFIRMED : RL_MEMBER_ACTIVE;
}

static enum rl_member_state state_with(unsigned wrong)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init(&agent, &stores);
    /* its clock is detected first, and everything else is seen then */
    if (wrong & SET_CLOCK) {
        agent_greet_all(&agent);
        rl_membership_time(&agent.membership, 0, stores.now, stores.now, stores.now,
                           RL_SECOND);
        rl_membership_time(&agent.membership, 0, stores.now, stores.now, stores.now,
                           2 * RL_SECOND);
        cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_CLOCK);
        for (unsigned i = 0; i < 3; i++)
            agent_disconnected(&agent, i);
    }
    make_marker(&stores, wrong);
    for (unsigned i = 0; i < 3; i++)
        if (!(wrong & (i == 0 ? UNGREETED : NO_MAJORITY)))
            agent_greet(&agent, i);
    if (wrong & DISPUTED)
        rl_membership_marker_mismatch(&agent.membership, 0, stores.now, stores.now);
    return agent_state(&agent, 0);
}

/* A wrong clock means nothing on a node that has lost its marker since. */
Test(member_state, is_the_first_that_applies)
{
    unsigned seen[RL_MEMBER_ACTIVE + 1] = {0};
    for (unsigned wrong = 0; wrong < WRONGS; wrong++) {
        if (wrong & NO_MAJORITY && wrong & SET_CLOCK)
            continue; /* then the deployment is known */
        enum rl_member_state expected = expected_of(wrong), state = state_with(wrong);
        seen[expected]++;
        CHECK(state == expected, "%x: %d, not %d", wrong, (int)state, (int)expected);
    }
    for (unsigned i = 0; i <= RL_MEMBER_ACTIVE; i++)
        cr_assert_gt(seen[i], 0, "state %u was never reached", i);
}

Test(member_state, a_new_incarnation_clears_a_set_clock)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init_greeted(&agent, &stores);
    struct rl_marker quarantined = stores_marker(&stores, 0), active = quarantined;
    quarantined.active = false;
    rl_membership_time(&agent.membership, 0, stores.now, stores.now, stores.now, RL_SECOND);
    rl_membership_time(&agent.membership, 0, stores.now, stores.now, stores.now,
                       2 * RL_SECOND);
    stores_put(&stores, 0, &quarantined);
    agent_greet_again(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_QUARANTINED);
    stores_put(&stores, 0, &active);
    agent_greet_again(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_ACTIVE);
}

/* A later incarnation of its index that only a third node knows. */
Test(member_state, depends_on_what_any_node_knows)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 5);
    struct rl_marker marker = stores_marker(&stores, 4);
    marker.roster.member[2].id++;
    stores_put(&stores, 4, &marker);
    agent_init(&agent, &stores);
    for (unsigned i = 0; i < 4; i++)
        agent_greet(&agent, i);
    cr_assert_eq(agent_active(&agent), 15);
    agent_greet(&agent, 4);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_REPLACED);
    cr_assert_eq(agent_active(&agent), 27);
    agent_disconnected(&agent, 4);
    cr_assert_eq(agent_active(&agent), 11, "what was learned is kept");
}

/*
 * A node with the earlier incarnation of an index does not vote: so no two nodes ever vote
 * for one index.
 */
Test(member_state, of_two_nodes_with_one_index_only_the_later_is_active)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    struct rl_marker marker = stores_marker(&stores, 1);
    marker.index = 0;
    marker.roster.member[0].generation++;
    stores_put(&stores, 1, &marker);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_REPLACED);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_ACTIVE);
}

/* --- the client's own deployment --- */

/*
 * Greets nodes of these deployments, 0: of none, and returns the one that the client is
 * bound to.
 */
static uint64_t bound(unsigned n, const uint64_t *deployment, unsigned greeted)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, n);
    agent_init(&agent, &stores);
    for (unsigned i = 0; i < n; i++) {
        struct rl_marker marker = stores_marker(&stores, i);
        marker.roster.deployment = deployment[i];
        if (deployment[i])
            stores_put(&stores, i, &marker);
        else
            stores_forget(&stores, i);
    }
    for (unsigned i = 0; i < n; i++)
        if (greeted & rl_bit(i))
            agent_greet(&agent, i);
    return agent.membership.roster.deployment;
}

/* Each way in which five nodes can be of two deployments, or of none, or unseen. */
Test(member_state, the_client_binds_to_the_deployment_of_a_majority)
{
    for (unsigned n = 1; n <= 5; n++) {
        unsigned ways = 1;
        for (unsigned i = 0; i < n; i++)
            ways *= 4;
        for (unsigned way = 0; way < ways; way++) {
            uint64_t deployment[5];
            unsigned greeted = 0, votes[2] = {0, 0};
            for (unsigned i = 0, rest = way; i < n; i++, rest /= 4) {
                unsigned kind = rest % 4;
                deployment[i] = kind == 0 ? 0 : kind == 1 ? OTHER : DEPLOYMENT;
                if (kind == 3)
                    continue;
                greeted |= rl_bit(i);
                votes[0] += kind == 2;
                votes[1] += kind == 1;
            }
            uint64_t expected = votes[0] > n / 2   ? DEPLOYMENT
                                : votes[1] > n / 2 ? OTHER
                                                   : 0;
            CHECK(bound(n, deployment, greeted) == expected, "n %u, way %u", n, way);
        }
    }
}

/* A deployment that is created after a loss of all replaces the old one. */
Test(member_state, the_client_stays_bound_until_a_majority_is_of_another)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init_greeted(&agent, &stores);
    stores_bootstrap(&stores, OTHER);
    agent_greet_again(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_OTHER_DEPLOYMENT);
    cr_assert_eq(agent.membership.roster.deployment, DEPLOYMENT);
    agent_run(&agent, RL_MEMBER_PROBE_INTERVAL / 2);
    cr_assert_eq(agent.writes, 0, "nothing is written to nodes of another deployment");
    agent_greet_again(&agent, 1);
    cr_assert_eq(agent.membership.roster.deployment, OTHER);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_ACTIVE);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_OTHER_DEPLOYMENT,
                 "as it was greeted last");
}

/* A deployment of five is invalid for a client of three, even if it sees three of them. */
Test(member_state, the_client_does_not_bind_to_a_deployment_of_more_nodes)
{
    struct stores stores, few;
    struct agent agent;
    stores_init_bootstrapped(&stores, 5);
    stores_init(&few, 3);
    memcpy(few.store, stores.store, sizeof(few.store));
    agent_init_greeted(&agent, &few);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(agent_state(&agent, i), RL_MEMBER_OTHER_DEPLOYMENT);
    cr_assert_eq(agent.membership.roster.deployment, 0);
    agent_run(&agent, 60 * RL_SECOND);
    cr_assert_eq(agent.writes, 0);
}

Test(member_state, the_client_merges_the_rosters_of_its_own_deployment_only)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    struct rl_marker marker = stores_marker(&stores, 2);
    marker.roster.deployment = OTHER;
    marker.roster.member[0].generation = 99;
    stores_put(&stores, 2, &marker);
    marker = stores_marker(&stores, 1);
    marker.roster.member[2].generation = 5;
    stores_put(&stores, 1, &marker);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(agent.membership.roster.member[0].generation, 1);
    cr_assert_eq(agent.membership.roster.member[2].generation, 5);
}
