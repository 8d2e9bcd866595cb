/*
 * A marker that changes on a live connection: it is read again, and so is the node's
 * history.
 */
#include "membership_fixture.h"

static const struct rl_word untold = {"", 0};

/* Node 2 forgets, and another client registers that on nodes 0 and 1. */
static void open_registered(struct stores *stores, struct agent *agent)
{
    struct agent other;
    agent_open(agent, stores, 3);
    agent_init_greeted(&other, stores);
    agent_greet_forgotten(&other, 2);
    stores->now += RL_SECOND;
    agent_work(&other);
    cr_assert_gt(stores->store[0].writes, 0);
    cr_assert_not(agent_may_have_a_grant(agent, 0));
}

static void mismatch_marker(struct agent *agent, unsigned node)
{
    rl_membership_marker_mismatch(&agent->membership, node, agent->stores->now,
                                  agent->stores->now);
}

Test(membership_confirm, what_another_client_wrote_is_read_on_the_same_connection)
{
    struct stores stores;
    struct agent agent;
    open_registered(&stores, &agent);
    mismatch_marker(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNCONFIRMED);
    cr_assert_eq(agent_active(&agent), 6);
    cr_assert_eq(agent_next_command(&agent), 1);
    cr_assert_not(agent.transit[0].command.write);
    agent_do(&agent, 0);
    agent_reply_marker(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNCONFIRMED);
    cr_assert_not(agent_may_have_a_grant(&agent, 0), "before its history is confirmed");
    cr_assert_eq(agent_next_command(&agent) & 1, 0, "the reply is under way");
    cr_assert(agent_reply_history(&agent, 0));
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_ACTIVE);
    cr_assert(agent_may_have_a_grant(&agent, 0));
}

Test(membership_confirm, a_node_with_another_history_gets_no_vote_back)
{
    struct stores stores;
    struct agent agent;
    open_registered(&stores, &agent);
    mismatch_marker(&agent, 0);
    agent_next_command(&agent);
    stores.store[0].process.replid[0] ^= 1;
    agent_do(&agent, 0);
    agent_reply_marker(&agent, 0);
    cr_assert_not(agent_reply_history(&agent, 0), "the client must reconnect");
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNCONFIRMED);
    agent_greet_again(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_OTHER_PROCESS);
}

Test(membership_confirm, an_unknown_history_matters_only_while_it_is_needed)
{
    struct stores stores;
    struct agent agent;
    open_registered(&stores, &agent);
    cr_assert(rl_membership_history(&agent.membership, 0, 1, untold, stores.now));
    mismatch_marker(&agent, 0);
    agent_next_command(&agent);
    agent_do(&agent, 0);
    agent_reply_marker(&agent, 0);
    cr_assert_not(rl_membership_history(
        &agent.membership, 0, agent.transit[0].command.history, untold, stores.now));
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNCONFIRMED);
}

/* The history was read, but the marker was not. */
Test(membership_confirm, a_read_that_fails_confirms_nothing)
{
    struct stores stores;
    struct agent agent;
    open_registered(&stores, &agent);
    mismatch_marker(&agent, 0);
    agent_next_command(&agent);
    agent_do(&agent, 0);
    agent_refuse(&agent, 0);
    cr_assert(agent_reply_history(&agent, 0));
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNCONFIRMED);
    agent_run(&agent, 2 * RL_MEMBER_RETRY_DELAY);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_ACTIVE);
}

/* The reply to an earlier request comes while the marker is read again. */
Test(membership_confirm, a_history_from_before_the_last_read_confirms_nothing)
{
    struct stores stores;
    struct agent agent;
    open_registered(&stores, &agent);
    mismatch_marker(&agent, 0);
    agent_next_command(&agent);
    uint32_t earlier = agent.transit[0].command.history;
    struct rl_word replid = {stores.store[0].process.replid, RL_RUN_ID};
    agent_refuse(&agent, 0);
    stores.now += RL_MEMBER_RETRY_DELAY;
    cr_assert_eq(agent_next_command(&agent) & 1, 1);
    cr_assert(rl_membership_history(&agent.membership, 0, earlier, replid, stores.now));
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNCONFIRMED);
    agent_do(&agent, 0);
    agent_reply(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_ACTIVE);
}

Test(membership_confirm, an_error_for_a_command_sent_before_the_change_was_read_is_ignored)
{
    struct stores stores;
    struct agent agent;
    open_registered(&stores, &agent);
    rl_time sent = stores.now;
    mismatch_marker(&agent, 0);
    stores.now += RL_MS;
    agent_work(&agent);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_ACTIVE);
    rl_membership_marker_mismatch(&agent.membership, 0, sent, stores.now);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_ACTIVE);
    rl_membership_marker_mismatch(&agent.membership, 0, stores.now, stores.now);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNCONFIRMED);
}

/* A regular poll finds another marker: it may come with older data. */
Test(membership_confirm, a_change_that_a_poll_finds_is_confirmed_first)
{
    struct stores stores;
    struct agent agent;
    open_registered(&stores, &agent);
    stores.now += RL_MEMBER_PROBE_INTERVAL;
    cr_assert_eq(agent_next_command(&agent) & 1, 1);
    agent_do(&agent, 0);
    agent_reply_marker(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNCONFIRMED);
    agent_reply_history(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_ACTIVE);
}

/*
 * A marker for the process of the greeting would be wrong on a node with another history.
 */
Test(membership_confirm, nothing_is_written_to_a_node_before_its_history_is_confirmed)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 3);
    stores_forget(&stores, 0);
    mismatch_marker(&agent, 0);
    agent_next_command(&agent);
    agent_do(&agent, 0);
    agent_reply_marker(&agent, 0);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_UNMARKED);
    stores.now += RL_MEMBER_RETRY_DELAY;
    agent_next_command(&agent);
    cr_assert_eq(agent.writes, 0);
    agent_carry(&agent, 0);
    cr_assert_eq(agent_next_command(&agent) & 1, 1);
    cr_assert_eq(agent.writes, 1, "its index is assigned");
}

Test(membership_confirm, the_clients_own_write_needs_no_confirmation)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 3);
    agent_greet_forgotten(&agent, 2);
    agent_next_command(&agent);
    agent_carry(&agent, 2);
    rl_node_set asked = agent_next_command(&agent);
    cr_assert_eq(asked & 3, 3);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert(agent.transit[i].command.write);
        cr_assert_eq(agent_state(&agent, i), RL_MEMBER_ACTIVE);
        agent_do(&agent, i);
        cr_assert(agent_may_have_a_grant(&agent, i), "what is sent now comes behind it");
        agent_reply(&agent, i);
        cr_assert_eq(agent_state(&agent, i), RL_MEMBER_ACTIVE);
    }
}

Test(membership_confirm, a_grant_that_arrives_meanwhile_counts_as_unknown)
{
    struct stores stores;
    struct agent agent;
    open_registered(&stores, &agent);
    struct rl_answer grant = {.vote = RL_VOTE_GRANTED}, held = {.vote = RL_VOTE_HELD};
    rl_membership_check_grant(&agent.membership, 0, RL_CMD_EXTEND, &grant);
    cr_assert_eq(grant.vote, RL_VOTE_GRANTED);
    mismatch_marker(&agent, 0);
    rl_membership_check_grant(&agent.membership, 0, RL_CMD_EXTEND, &held);
    cr_assert_eq(held.vote, RL_VOTE_HELD);
    rl_membership_check_grant(&agent.membership, 0, RL_CMD_RELEASE, &grant);
    cr_assert_eq(grant.vote, RL_VOTE_GRANTED);
    rl_membership_check_grant(&agent.membership, 0, RL_CMD_EXTEND, &grant);
    cr_assert_eq(grant.vote, RL_VOTE_UNKNOWN);
    cr_assert_eq(grant.fault, RL_FAULT_MARKER);
}
