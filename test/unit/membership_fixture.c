#include "membership_fixture.h"

#include <stdlib.h>
#include <string.h>

static uint64_t fresh(struct stores *stores)
{
    return ++stores->random * UINT64_C(0x9e3779b97f4a7c15);
}

/* --- stores --- */

static void start_process(struct stores *stores, unsigned i)
{
    struct rl_process *process = &stores->store[i].process;
    memset(process, 0, sizeof(*process));
    for (unsigned j = 0; j < RL_RUN_ID; j += RL_NONCE) {
        char digits[RL_NONCE];
        rl_marker_nonce(fresh(stores), digits);
        memcpy(process->run_id + j, digits, j + RL_NONCE > RL_RUN_ID ? 8 : RL_NONCE);
    }
    memcpy(process->replid, process->run_id, RL_RUN_ID);
}

void stores_init(struct stores *stores, unsigned n)
{
    memset(stores, 0, sizeof(*stores));
    stores->n = n;
    stores->now = RL_SECOND;
    for (unsigned i = 0; i < n; i++)
        start_process(stores, i);
}

void stores_start(struct stores *stores, unsigned i)
{
    start_process(stores, i);
}

void stores_put(struct stores *stores, unsigned i, const struct rl_marker *marker)
{
    struct store *store = &stores->store[i];
    store->len = rl_marker_write(marker, store->text);
}

void stores_bootstrap(struct stores *stores, uint64_t deployment)
{
    struct rl_marker marker = {
        .active = true,
        .promises = stores->promises,
        .roster = {.deployment = deployment,
                   .max_ttl_ms = FIXTURE_TTL,
                   .n = (uint8_t)stores->n},
    };
    for (unsigned i = 0; i < stores->n; i++)
        marker.roster.member[i] = (struct rl_incarnation){1, fresh(stores)};
    for (unsigned i = 0; i < stores->n; i++) {
        marker.nonce = fresh(stores);
        marker.index = (uint8_t)i;
        marker.process = stores->store[i].process;
        stores_put(stores, i, &marker);
    }
}

void stores_init_bootstrapped(struct stores *stores, unsigned n)
{
    stores_init(stores, n);
    stores_bootstrap(stores, 7);
}

static bool read_marker(const struct store *store, struct rl_marker *marker)
{
    return rl_marker_read((struct rl_word){store->text, store->len}, marker);
}

struct rl_marker stores_marker(const struct stores *stores, unsigned i)
{
    struct rl_marker marker;
    cr_assert(read_marker(&stores->store[i], &marker), "store %u has no marker", i);
    return marker;
}

bool stores_is_active(const struct stores *stores, unsigned i)
{
    struct rl_marker marker;
    return read_marker(&stores->store[i], &marker) && marker.active;
}

rl_node_set stores_active(const struct stores *stores)
{
    rl_node_set active = 0;
    for (unsigned i = 0; i < stores->n; i++)
        if (stores_is_active(stores, i))
            active |= rl_bit(i);
    return active;
}

void stores_forget(struct stores *stores, unsigned i)
{
    stores->store[i].len = 0;
    stores->store[i].forgot_at = stores->now;
}

void stores_restart(struct stores *stores, unsigned i, bool keeps_its_data)
{
    start_process(stores, i);
    if (!keeps_its_data)
        stores_forget(stores, i);
    stores->store[i].forgot_at = stores->now; /* as far as any client can know */
}

/* --- agents --- */

void agent_init(struct agent *agent, struct stores *stores)
{
    struct rl_membership_params params = {.n = (uint8_t)stores->n, .drift_ppm = 10000};
    memset(agent, 0, sizeof(*agent));
    agent->stores = stores;
    rl_membership_init(&agent->membership, &params);
    agent->membership.active = true;
    for (unsigned i = 0; i < stores->n; i++)
        agent->at[i] = i;
}

static struct store *store_of(struct agent *agent, unsigned node)
{
    return &agent->stores->store[agent->at[node]];
}

/* The machine sends some commands at a later reading of the clock only. */
static void pass_a_moment(struct agent *agent)
{
    rl_time next = agent->stores->now + 1;
    for (unsigned i = 0; i < agent->stores->n; i++)
        if (agent->membership.member[i].look_at == next)
            agent->stores->now = next;
}

void agent_greet(struct agent *agent, unsigned node)
{
    struct store *store = store_of(agent, node);
    rl_membership_greeted(&agent->membership, node, &store->process, !store->refuted,
                          (struct rl_word){store->text, store->len}, agent->stores->now);
    pass_a_moment(agent);
}

void agent_greet_all(struct agent *agent)
{
    for (unsigned i = 0; i < agent->stores->n; i++)
        agent_greet(agent, i);
}

void agent_init_greeted(struct agent *agent, struct stores *stores)
{
    agent_init(agent, stores);
    agent_greet_all(agent);
}

void agent_open(struct agent *agent, struct stores *stores, unsigned n)
{
    stores_init_bootstrapped(stores, n);
    agent_init_greeted(agent, stores);
    agent_run(agent, RL_SECOND);
}

void agent_disconnected(struct agent *agent, unsigned node)
{
    agent->transit[node].out = false;
    rl_membership_disconnected(&agent->membership, node, agent->stores->now);
}

void agent_greet_again(struct agent *agent, unsigned node)
{
    agent_disconnected(agent, node);
    agent_greet(agent, node);
}

void agent_greet_forgotten(struct agent *agent, unsigned node)
{
    stores_forget(agent->stores, node);
    agent_greet_again(agent, node);
}

/* No agent drops an incarnation, and none lifts a member that it has not watched. */
static void check_order(const struct agent *agent, const struct rl_member_command *command)
{
    const struct rl_membership *membership = &agent->membership;
    const struct rl_member *member = &membership->member[command->node];
    const struct rl_marker *wanted = &command->wanted;
    CHECK(command->node < membership->params.n, "there is no such node");
    CHECK(member->greeted && !agent->transit[command->node].out,
          "a command that cannot be executed");
    CHECK(command->write ? membership->active : rl_membership_is_active(membership),
          "it has no reason to send anything");
    CHECK(!command->erase || command->write, "a read erases nothing");
    if (!command->write)
        return;
    if (wanted->retired)
        return;
    CHECK(!member->marked ||
              member->marker.roster.deployment == membership->roster.deployment,
          "it replaces another deployment's marker");
    if (command->erase)
        return;
    CHECK(rl_process_equal(&wanted->process, &member->process),
          "it is for another process");
    CHECK(wanted->roster.deployment == membership->roster.deployment,
          "it is of no deployment");
    if (!member->marked) {
        CHECK(!wanted->active, "it comes before all are bootstrapped");
        return;
    }
    CHECK(wanted->nonce != member->marker.nonce, "the nonce is an old one");
    for (unsigned i = 0; i < membership->params.n; i++)
        CHECK(!rl_incarnation_is_newer(member->marker.roster.member[i],
                                       wanted->roster.member[i]),
              "node %u would lose index %u", command->node, i);
    bool founded = agent->stores->at_once &&
                   rl_marker_self(&member->marker).generation == 1 &&
                   !membership->bootstrapping;
    CHECK(!wanted->active || member->marker.active || founded ||
              agent->stores->now >= rl_time_add_sat(member->watch.since,
                                                    rl_membership_quarantine(membership)),
          "lifted too early");
}

static void keep_transit(struct agent *agent, const struct rl_member_command *command)
{
    const struct rl_member *member = &agent->membership.member[command->node];
    struct transit *transit = &agent->transit[command->node];
    *transit =
        (struct transit){.out = true, .command = *command, .sent = agent->stores->now};
    if (member->marked)
        transit->expected_len = rl_marker_write(&member->marker, transit->expected);
    agent->commands++;
    agent->writes += command->write;
}

rl_node_set agent_next_command(struct agent *agent)
{
    struct rl_member_command command;
    rl_node_set nodes = 0;
    for (;;) {
        uint64_t random[2] = {fresh(agent->stores), fresh(agent->stores)};
        if (!rl_membership_next_command(&agent->membership, agent->stores->now, random,
                                        &command))
            break;
        check_order(agent, &command);
        keep_transit(agent, &command);
        nodes |= rl_bit(command.node);
    }
    CHECK(rl_membership_next(&agent->membership) > agent->stores->now,
          "it requests the same step at once");
    return nodes;
}

/* No member gets its vote back less than a quarantine after it forgot. */
static void check_store(struct stores *stores, const struct store *store, bool was_active,
                        rl_time enough)
{
    struct rl_marker marker;
    if (store->len == 0 || stores->at_once || store->forgot_at == 0 || was_active)
        return;
    CHECK(read_marker(store, &marker), "garbage was written");
    CHECK(!marker.active || stores->now >= store->forgot_at + enough,
          "it votes %jd us after it forgot", (intmax_t)(stores->now - store->forgot_at));
}

void agent_do(struct agent *agent, unsigned node)
{
    struct transit *transit = &agent->transit[node];
    struct store *store = store_of(agent, node);
    cr_assert(transit->out && !transit->done, "node %u has no command", node);
    transit->done = true;
    if (transit->command.write && store->len == transit->expected_len &&
        memcmp(store->text, transit->expected, store->len) == 0) {
        bool was_active = stores_is_active(agent->stores, agent->at[node]);
        store->len = transit->command.erase
                         ? 0
                         : rl_marker_write(&transit->command.wanted, store->text);
        store->writes++;
        check_store(agent->stores, store, was_active,
                    rl_membership_quarantine(&agent->membership));
    }
    transit->len = store->len;
    memcpy(transit->text, store->text, store->len);
    transit->reported = agent->stores->now + store->off;
    transit->process = store->process;
}

void agent_reply_marker(struct agent *agent, unsigned node)
{
    struct transit *transit = &agent->transit[node];
    rl_time now = agent->stores->now;
    cr_assert(transit->out && transit->done, "node %u has no reply", node);
    transit->out = false;
    rl_membership_time(&agent->membership, node, transit->sent, now, now,
                       transit->reported);
    rl_membership_replied(&agent->membership, node,
                          (struct rl_word){transit->text, transit->len}, transit->sent,
                          now);
    pass_a_moment(agent);
}

bool agent_reply_history(struct agent *agent, unsigned node)
{
    const struct transit *transit = &agent->transit[node];
    cr_assert(transit->command.history, "node %u got no history query", node);
    return rl_membership_history(&agent->membership, node, transit->command.history,
                                 (struct rl_word){transit->process.replid, RL_RUN_ID},
                                 agent->stores->now);
}

void agent_reply(struct agent *agent, unsigned node)
{
    agent_reply_marker(agent, node);
    if (agent->transit[node].command.history)
        agent_reply_history(agent, node);
}

void agent_carry(struct agent *agent, unsigned node)
{
    agent_do(agent, node);
    agent_reply(agent, node);
}

bool agent_may_have_a_grant(const struct agent *agent, unsigned node)
{
    char nonce[RL_NONCE];
    rl_membership_nonce(&agent->membership, node, nonce);
    const struct store *store = &agent->stores->store[agent->at[node]];
    return store->len >= RL_NONCE && memcmp(store->text, nonce, RL_NONCE) == 0;
}

void agent_refuse(struct agent *agent, unsigned node)
{
    cr_assert(agent->transit[node].out);
    agent->transit[node].out = false;
    rl_membership_command_failed(&agent->membership, node, false, agent->stores->now);
}

static bool work_once(struct agent *agent)
{
    agent_next_command(agent);
    rl_node_set out = 0;
    for (unsigned i = 0; i < agent->stores->n; i++)
        if (agent->transit[i].out)
            out |= rl_bit(i);
    for (rl_node_set rest = out; rest; rest &= rest - 1)
        if (!agent->transit[rl_first(rest)].done)
            agent_do(agent, rl_first(rest));
    for (rl_node_set rest = out; rest; rest &= rest - 1)
        agent_reply(agent, rl_first(rest));
    return out != 0;
}

void agent_work(struct agent *agent)
{
    unsigned turns = 0;
    while (work_once(agent))
        cr_assert_lt(++turns, 100, "commands without end");
}

void agents_run(struct agent *const *agent, unsigned count, rl_time span)
{
    struct stores *stores = agent[0]->stores;
    rl_time end = stores->now + span;
    for (;;) {
        rl_time next = end;
        for (unsigned i = 0; i < count; i++)
            agent_work(agent[i]);
        if (stores->now >= end)
            return;
        for (unsigned i = 0; i < count; i++)
            next = rl_min(next, rl_membership_next(&agent[i]->membership));
        stores->now = next;
    }
}

void agent_run(struct agent *agent, rl_time span)
{
    agents_run(&agent, 1, span);
}

enum rl_member_state agent_state(const struct agent *agent, unsigned node)
{
    return agent->membership.member[node].state;
}

rl_node_set agent_active(const struct agent *agent)
{
    return rl_membership_active(&agent->membership);
}
