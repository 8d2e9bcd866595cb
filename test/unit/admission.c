/* The requests of an operator, how the progress is reported, and how a server replaces
   another. */
#include "membership_fixture.h"

static enum rl_admission_error admit(struct agent *agent, enum rl_admission_mode how,
                                     unsigned *node)
{
    const struct rl_admission_request request = {
        .mode = how, .newcomer = (uint8_t)*node, .max_ttl_ms = FIXTURE_TTL};
    return rl_admission_begin(&agent->membership, &request, node, 12345,
                              agent->stores->now);
}

/* The request must be refused because of this node, and nothing has changed. */
static void expect_refusal(struct agent *agent, enum rl_admission_mode how,
                           unsigned newcomer, enum rl_admission_error expected,
                           unsigned expected_node)
{
    struct rl_membership before = agent->membership;
    unsigned node = newcomer;
    enum rl_admission_error refusal = admit(agent, how, &node);
    cr_assert_eq(refusal, expected, "%d: %d, not %d", (int)how, (int)refusal,
                 (int)expected);
    cr_assert_eq(node, expected_node, "%u, not %u", node, expected_node);
    cr_assert_eq(agent->membership.admission.mode, before.admission.mode);
    cr_assert_eq(agent->membership.active, before.active);
    cr_assert_eq(agent->membership.bootstrapping, before.bootstrapping);
    cr_assert_eq(agent->membership.roster.deployment, before.roster.deployment);
}

static const enum rl_admission_mode ways[] = {RL_ADMIT_NEW, RL_ADMIT_AT_ONCE,
                                              RL_ADMIT_READMIT, RL_ADMIT_REPLACE};

/* What the client read before may be outdated: every node is asked first, and nothing is
   written meanwhile. */
Test(admission, reads_every_marker_before_it_begins)
{
    struct stores stores;
    struct agent agent;
    unsigned node = 0;
    stores_init_bootstrapped(&stores, 3);
    agent_open(&agent, &stores, 3);
    cr_assert_eq(agent_next_command(&agent), 0, "it has settled");
    stores_forget(&stores, 1);
    rl_time since = stores.now++;
    agent.membership.active = false;
    rl_admission_look(&agent.membership, since);
    cr_assert_eq(agent_next_command(&agent), rl_all(3));
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(rl_admission_is_looking(&agent.membership, since));
        agent_carry(&agent, i);
    }
    cr_assert_not(rl_admission_is_looking(&agent.membership, since));
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_UNMARKED);
    cr_assert_eq(agent_next_command(&agent), 0);
    cr_assert_eq(admit(&agent, RL_ADMIT_READMIT, &node), RL_ADMISSION_OK);
    cr_assert_eq(agent_next_command(&agent), rl_bit(1));
    cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_RUNNING);
}

/* A node that may vote soon is read often: there is always a command under way. */
Test(admission, waits_for_one_reply_of_each_node)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 3);
    stores.now += RL_MEMBER_PROBE_INTERVAL;
    cr_assert_eq(agent_next_command(&agent), rl_all(3));
    rl_time since = ++stores.now;
    rl_admission_look(&agent.membership, since);
    for (unsigned i = 0; i < 3; i++)
        agent_carry(&agent, i);
    cr_assert(rl_admission_is_looking(&agent.membership, since), "it asked before");
    cr_assert_eq(agent_next_command(&agent), rl_all(3));
    agent_carry(&agent, 0);
    stores.now += RL_MEMBER_PROBE_INTERVAL;
    cr_assert_eq(agent_next_command(&agent), rl_bit(0));
    agent_greet_again(&agent, 1);
    cr_assert(rl_admission_is_looking(&agent.membership, since));
    rl_membership_command_failed(&agent.membership, 2, false, stores.now);
    cr_assert_not(rl_admission_is_looking(&agent.membership, since));
}

/* --- refusals --- */

Test(admission, needs_every_node)
{
    for (unsigned missing = 0; missing < 3; missing++)
        for (unsigned i = 0; i < 4; i++) {
            struct stores stores;
            struct agent agent;
            stores_init(&stores, 3);
            agent_init(&agent, &stores);
            agent.membership.active = false;
            agent_greet_all(&agent);
            agent_disconnected(&agent, missing);
            expect_refusal(&agent, ways[i], 0, RL_ADMISSION_UNREACHED, missing);
        }
}

Test(admission, of_new_nodes_refuses_a_node_with_a_marker)
{
    for (unsigned used = 0; used < 3; used++) {
        struct stores stores;
        struct agent agent;
        stores_init_bootstrapped(&stores, 3);
        for (unsigned i = 0; i < 3; i++)
            if (i != used)
                stores_forget(&stores, i);
        agent_init_greeted(&agent, &stores);
        expect_refusal(&agent, RL_ADMIT_NEW, 3, RL_ADMISSION_NOT_EMPTY, used);
        expect_refusal(&agent, RL_ADMIT_AT_ONCE, 3, RL_ADMISSION_NOT_EMPTY, used);
    }
}

/* A value that is no valid marker must not be overwritten. */
Test(admission, of_new_nodes_refuses_a_malformed_marker)
{
    struct stores stores;
    struct agent agent;
    stores_init(&stores, 3);
    stores.store[1].text[0] = 'x';
    stores.store[1].len = 1;
    agent_init_greeted(&agent, &stores);
    expect_refusal(&agent, RL_ADMIT_NEW, 3, RL_ADMISSION_NOT_EMPTY, 1);
}

Test(admission, wait_needs_a_deployment)
{
    struct stores stores;
    struct agent agent;
    stores_init(&stores, 3);
    agent_init_greeted(&agent, &stores);
    expect_refusal(&agent, RL_ADMIT_READMIT, 3, RL_ADMISSION_UNADMITTED, 0);
    stores_bootstrap(&stores, 7);
    stores_forget(&stores, 0);
    stores_forget(&stores, 1);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_NO_MAJORITY);
    expect_refusal(&agent, RL_ADMIT_REPLACE, 1, RL_ADMISSION_UNADMITTED, 1);
    struct rl_marker other = stores_marker(&stores, 2);
    other.roster.deployment++;
    stores_put(&stores, 1, &other);
    agent_greet_again(&agent, 1);
    expect_refusal(&agent, RL_ADMIT_READMIT, 3, RL_ADMISSION_UNADMITTED, 0);
}

/* One marker that is left names the deployment: the operator need not delete it by hand. */
Test(admission, wait_takes_the_deployment_from_the_last_marker)
{
    struct stores stores;
    struct agent agent;
    unsigned node = 3;
    stores_init_bootstrapped(&stores, 3);
    stores_forget(&stores, 1);
    stores_forget(&stores, 2);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(admit(&agent, RL_ADMIT_READMIT, &node), RL_ADMISSION_OK);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) / 2);
    cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_RUNNING);
    cr_assert_eq(stores_active(&stores), 1, "it takes a quarantine");
    agent_run(&agent, rl_membership_quarantine(&agent.membership));
    cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_DONE);
    cr_assert_eq(stores_active(&stores), 7);
    struct rl_marker last = stores_marker(&stores, 0);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stores_marker(&stores, i).roster.deployment, last.roster.deployment);
    cr_assert_eq(rl_marker_self(&last).generation, 1, "no other node had its index");
}

Test(admission, wait_refuses_another_deployment)
{
    for (unsigned i = 0; i < 3; i++) {
        struct stores stores;
        struct agent agent;
        stores_init_bootstrapped(&stores, 3);
        struct rl_marker marker = stores_marker(&stores, i);
        marker.roster.deployment++;
        stores_put(&stores, i, &marker);
        agent_init_greeted(&agent, &stores);
        expect_refusal(&agent, RL_ADMIT_READMIT, 3, RL_ADMISSION_WRONG_DEPLOYMENT, i);
        marker.roster.deployment--;
        stores_put(&stores, i, &marker);
        struct rl_marker other = stores_marker(&stores, (i + 1) % 3);
        other.roster.member[i].generation++;
        stores_put(&stores, (i + 1) % 3, &other);
        agent_init_greeted(&agent, &stores);
        cr_assert_eq(agent_state(&agent, i), RL_MEMBER_REPLACED);
        expect_refusal(&agent, RL_ADMIT_READMIT, 3, RL_ADMISSION_WRONG_DEPLOYMENT, i);
    }
}

Test(admission, of_a_replacement_needs_an_empty_node_and_active_others)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init_greeted(&agent, &stores);
    expect_refusal(&agent, RL_ADMIT_REPLACE, 1, RL_ADMISSION_NOT_EMPTY, 1);
    stores_forget(&stores, 1);
    struct rl_marker marker = stores_marker(&stores, 2);
    marker.active = false;
    stores_put(&stores, 2, &marker);
    agent_init_greeted(&agent, &stores);
    expect_refusal(&agent, RL_ADMIT_REPLACE, 1, RL_ADMISSION_MEMBER_INACTIVE, 2);
    marker.active = true;
    stores_put(&stores, 2, &marker);
    agent_init_greeted(&agent, &stores);
    unsigned node = 1;
    cr_assert_eq(admit(&agent, RL_ADMIT_REPLACE, &node), RL_ADMISSION_OK);
    cr_assert(agent.membership.active);
}

/* --- a server that replaces another --- */

Test(admission, of_a_replacement_assigns_the_free_index)
{
    for (unsigned index = 0; index < 5; index++)
        for (unsigned at = 0; at < 5; at++) { /* the clients may list them in any order */
            struct stores stores;
            struct agent agent;
            stores_init_bootstrapped(&stores, 5);
            stores_restart(&stores, index, false);
            agent_init(&agent, &stores);
            agent.at[at] = index;
            agent.at[index] = at;
            agent_greet_all(&agent);
            unsigned node = at;
            cr_assert_eq(admit(&agent, RL_ADMIT_REPLACE, &node), RL_ADMISSION_OK);
            cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_RUNNING);
            rl_time quarantine = rl_membership_quarantine(&agent.membership);
            agent_run(&agent, quarantine - 1);
            cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_RUNNING);
            agent_run(&agent, RL_SECOND);
            cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_DONE);
            struct rl_marker marker = stores_marker(&stores, index);
            cr_assert_eq(marker.index, index);
            cr_assert_eq(rl_marker_self(&marker).generation, 2);
        }
}

/* The old server returns, for clients that still know it: it has no vote. */
Test(admission, of_a_replacement_ends_the_vote_of_the_replaced_server)
{
    struct stores stores;
    struct agent agent, old;
    unsigned node = 2;
    stores_init_bootstrapped(&stores, 4);
    struct stores three = stores;
    three.n = 3; /* the fourth node is to replace the third */
    for (unsigned i = 0; i < 3; i++) {
        struct rl_marker marker = stores_marker(&stores, i);
        marker.roster.n = 3;
        stores_put(&three, i, &marker);
    }
    stores_forget(&three, 3);
    agent_init(&old, &three);
    agent_greet_all(&old);
    cr_assert_eq(agent_active(&old), 7);
    agent_init(&agent, &three);
    agent.at[2] = 3;
    agent_greet_all(&agent);
    cr_assert_eq(admit(&agent, RL_ADMIT_REPLACE, &node), RL_ADMISSION_OK);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(rl_admission_progress(&agent.membership), RL_ADMISSION_DONE);
    agent_greet_again(&old, 0);
    cr_assert_eq(agent_state(&old, 2), RL_MEMBER_REPLACED);
    agent_run(&old, 60 * RL_SECOND);
    cr_assert_eq(agent_state(&old, 2), RL_MEMBER_REPLACED);
    cr_assert_eq(agent_active(&agent), 7);
}

/* Only the named node: another node that becomes empty meanwhile gets no index. */
Test(admission, of_a_replacement_assigns_no_other_node)
{
    struct stores stores;
    struct agent agent;
    unsigned node = 1;
    stores_init_bootstrapped(&stores, 5);
    stores_forget(&stores, 1);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(admit(&agent, RL_ADMIT_REPLACE, &node), RL_ADMISSION_OK);
    agent.membership.member[2].last.generation =
        0; /* as if it had never been seen before */
    agent_disconnected(&agent, 2);
    stores_restart(&stores, 2, false);
    agent_greet(&agent, 2);
    agent_run(&agent, 60 * RL_SECOND);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_UNMARKED);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_ACTIVE);
}

/* --- progress --- */

Test(admission, is_done_only_when_all_vote)
{
    for (unsigned active = 0; active < 8; active++) {
        struct stores stores;
        struct agent agent;
        stores_init_bootstrapped(&stores, 3);
        for (unsigned i = 0; i < 3; i++) {
            struct rl_marker marker = stores_marker(&stores, i);
            marker.active = active & rl_bit(i);
            stores_put(&stores, i, &marker);
        }
        agent_init_greeted(&agent, &stores);
        cr_assert_eq(rl_admission_progress(&agent.membership),
                     active == 7 ? RL_ADMISSION_DONE : RL_ADMISSION_RUNNING);
    }
}

Test(admission, reports_the_rest_of_a_quarantine)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    struct rl_marker marker = stores_marker(&stores, 1);
    marker.active = false;
    stores_put(&stores, 1, &marker);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 0, stores.now), RL_NEVER,
                 "it votes");
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 1, stores.now), RL_NEVER);
    agent_work(&agent);
    rl_time quarantine = rl_membership_quarantine(&agent.membership);
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 1, stores.now),
                 quarantine);
    cr_assert_eq(
        rl_membership_quarantine_left(&agent.membership, 1, stores.now + quarantine - 1),
        1);
    cr_assert_eq(
        rl_membership_quarantine_left(&agent.membership, 1, stores.now + 2 * quarantine),
        0);
    agent_disconnected(&agent, 1);
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 1, stores.now), RL_NEVER);
}
