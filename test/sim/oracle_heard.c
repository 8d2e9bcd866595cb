/* The oracle on the replies that clients read. */
#include <stdio.h>

#include "core/quorum.h"
#include "oracle_parts.h"
#include "world.h"

/* The client may disbelieve the replies for their times. */
static bool is_doubtful(const struct claim *claim, unsigned node)
{
    return world.client[claim->client].node[node].sample.is_doubted;
}

static void hear_marker(struct client *client, const struct command *command)
{
    struct acquainted *node = &client->node[command->node];
    unsigned marked = 0;
    bool is_later = command->said > node->sample.fault_at; /* asked for after the doubt */
    if (command->truth != TRUTH_GRANTED)
        return;
    if (!command->seal.is_active)
        node->sample.doubted_until = events_now();
    if (command->seal.is_active && is_later && events_now() >= node->sample.doubted_until)
        node->sample.is_doubted = false;
    client->new_nonce |= node->nonce != command->nonce ? rl_bit(command->node) : 0;
    node->nonce = command->nonce;
    node->refused = 0;
    node->was_marked |= command->nonce != 0;
    node->is_greeted = node->refused_until == 0; /* else the client does not use it */
    for (unsigned i = 0; i < world.plan.n; i++)
        marked += client->node[i].is_greeted && client->node[i].nonce != 0;
    client->knows_deployment |= marked > world.plan.n / 2;
    if (node->is_greeted)
        oracle_learn(client, command);
    oracle_hear_marker(client, command);
}

static void hear_mismatch(struct client *client, const struct command *command)
{
    struct acquainted *node = &client->node[command->node];
    node->refused = command->said_nonce;
    node->refused_in = client->process.iterations;
}

static void miss(struct claim *claim, unsigned node, uint64_t iteration)
{
    claim->missing |= rl_bit(node);
    if (rl_count(claim->missing) >= rl_majority(world.plan.n))
        claim->gone_in = world.client[claim->client].process.iterations;
    if (iteration >= claim->asked_last && world.plan.weight[FAULT_ROOM] == 0 &&
        !is_doubtful(claim, node))
        claim->surely_missing |= rl_bit(node);
}

static void forget(struct claim *claim, unsigned node, uint64_t iteration)
{
    miss(claim, node, iteration);
    claim->granted &= ~rl_bit(node);
}

static void forget_all(const struct client *client, unsigned node)
{
    for (size_t i = 0; i < claims_count(); i++) {
        struct claim *claim = claim_at(i);
        if (claim->user && claim->user->client == client)
            forget(claim, node, client->process.iterations);
    }
}

/* A durable node that restarted, with the marker that the client knows. */
static bool keeps_data(const struct acquainted *node, const struct command *command)
{
    const struct seal *now = &command->seal, *then = &node->seal;
    return world.plan.promises & RL_PROMISE_DURABLE &&
           !world.server[command->server].node.redis->config.was_promoted &&
           now->generation > 0 && now->generation == then->generation &&
           now->id == then->id;
}

/* The client may find another marker there a moment later. */
static void doubt_all(const struct client *client, unsigned node)
{
    for (size_t i = 0; i < claims_count(); i++) {
        struct claim *claim = claim_at(i);
        if (claim->user && claim->user->client == client)
            claim->missing |= rl_bit(node);
    }
}

/* The node that was known first counts; where that is in doubt, either may. */
static bool is_duplicate(const struct client *client, const struct command *command)
{
    bool found = false;
    for (unsigned i = 0; i < world.plan.n; i++) {
        const struct acquainted *other = &client->node[i];
        if (i == command->node || other->told_server != command->server ||
            other->told_process != command->process)
            continue;
        if (other->is_doubtful)
            return false;
        found |= !other->is_duplicate && other->process > 0 &&
                 other->server == command->server && other->process == command->process;
    }
    return found && !client->node[command->node].is_doubtful;
}

/*
 * A client that greets another process than the last time must not ask it for a while:
 * since it read its clock last, in this iteration.
 */
static void hear_process(struct client *client, const struct command *command)
{
    struct acquainted *node = &client->node[command->node];
    bool another =
        node->told_process != command->process || node->told_server != command->server;
    if (node->process != 0 && another && !world.plan.durable) {
        node->quarantined_until = client->process.entered + plan_known_ttl(&world.plan);
        if (keeps_data(node, command))
            doubt_all(client, command->node);
        else
            node->has_forgotten = true;
    }
    node->told_process = command->process;
    node->told_server = command->server;
}

static void hear_greeting(struct client *client, const struct command *command)
{
    struct acquainted *node = &client->node[command->node];
    node->is_doubtful |= command->is_known && command->is_unsure;
    if (command->is_known && !command->is_unsure) {
        node->is_duplicate = is_duplicate(client, command);
        node->process = command->process;
        node->server = command->server;
    }
    bool accepted = command->is_known && command->is_master && !command->is_cluster &&
                    !command->is_loading && !node->is_duplicate && command->runs_scripts;
    node->barred_until = accepted ? node->quarantined_until : CLOCK_NEVER;
    node->refused_until = accepted ? 0 : CLOCK_NEVER;
    node->accepted_at = accepted ? events_now() : node->accepted_at;
    /* What a durable node has is known when it has loaded its data. */
    if (node->has_forgotten && command->is_loading &&
        world.plan.promises & RL_PROMISE_DURABLE)
        doubt_all(client, command->node);
    else if (node->has_forgotten && command->is_known)
        forget_all(client, command->node);
    node->has_forgotten &=
        !accepted; /* until then a lease may come that does not know it */
}

/* Refused until the next greeting. */
static void hear_refusal(struct acquainted *node)
{
    node->barred_until = node->refused_until = CLOCK_NEVER;
}

static void hear_grant(const struct client *client, const struct command *command,
                       struct claim *claim)
{
    rl_node_set bit = rl_bit(command->node);
    (void)client;
    claim->vote[command->node] = (struct vote){
        .server = command->server,
        .memory = command->memory,
        .nth = command->nth,
        .iteration = command->iteration,
        .ran = command->ran,
        .heard = events_now(),
        .expires = command->expires,
        .fence = command->fence,
        .seal = command->seal,
    };
    claim->granted |= bit;
    claim->voted |= bit;
    if (!is_doubtful(claim, command->node))
        claim->missing &= ~bit;
    claim->surely_missing &= ~bit;
    if (claim->user && claim->user->is_held && command->iteration >= claim->round)
        oracle_judge_late_grant(claim, command->node);
}

static void hear_vote(const struct client *client, const struct command *command,
                      struct claim *claim)
{
    switch (command->truth) {
    case TRUTH_GRANTED: hear_grant(client, command, claim); break;
    case TRUTH_ERROR:
        if (command->ask == ASK_ACQUIRE && !command->is_no_script)
            miss(claim, command->node, command->iteration);
        else if (command->ask == ASK_ACQUIRE) /* until it is sent again */
            claim->missing |= rl_bit(command->node);
        break;
    case TRUTH_HELD:
    case TRUTH_GONE:
    case TRUTH_RECREATED: forget(claim, command->node, command->iteration); break;
    case TRUTH_UNKNOWN: /* nonsense may read like another's value */
        claim->missing |= command->is_unsure ? rl_bit(command->node) : 0;
        break;
    }
}

static void hear_holder(const struct command *command, struct claim *claim)
{
    rl_node_set bit = rl_bit(command->node);
    claim->held &= ~bit;
    claim->gone &= ~bit;
    if (command->truth == TRUTH_HELD)
        claim->held |= bit;
    claim->was_held |= claim->held;
    if (command->truth == TRUTH_GONE || command->truth == TRUTH_GRANTED)
        claim->gone |= bit;
    int64_t *pttl = &claim->pttl[command->node]; /* the least that was heard */
    bool expires = command->truth == TRUTH_HELD && command->pttl >= 0;
    if (expires && (*pttl < 0 || command->pttl < *pttl))
        *pttl = command->pttl;
    snprintf(claim->value[command->node], sizeof(claim->value[0]), "%s", command->value);
    claim->taken[command->node] = command->taken;
}

static void hear_release(struct client *client, const struct command *command,
                         struct claim *claim)
{
    if (command->is_no_script) /* it is sent again */
        return;
    claim->answered |= rl_bit(command->node);
    if (command->truth == TRUTH_GRANTED)
        claim->released |= rl_bit(command->node);
    bool tells = world.plan.weight[FAULT_ROOM] == 0; /* else more may be written later */
    bool all = tells && claim->answered == (claim->asked | claim->told);
    for (unsigned i = 0; all && i < client->users; i++)
        if (client->user[i].claim == claim)
            client->user[i].trying_until = events_now();
}

void oracle_heard(const struct command *command, bool of_subscriber)
{
    struct client *client = &world.client[command->client];
    struct claim *claim = command->claim;
    if (of_subscriber || command->node >= world.plan.n)
        return;
    client->node[command->node].awaits_since = client->node[command->node].suspect_in = 0;
    if (command->tells_process)
        hear_process(client, command);
    if (command->ask == ASK_GREETING)
        hear_greeting(client, command);
    else if (command->is_garbled && world.plan.fenced)
        oracle_garbled(client, command->node);
    else if (command->told_us > 0 && world.plan.fenced)
        oracle_sample(client, command);
    if (command->ask == ASK_MARKER)
        oracle_members_looked(&client->node[command->node]);
    if (command->ask == ASK_GREETING || command->ask == ASK_MARKER)
        hear_marker(client, command);
    if (command->is_refusal && !command->is_unsure)
        hear_refusal(&client->node[command->node]);
    if (command->is_mismatch && !command->is_unsure)
        hear_mismatch(client, command);
    if (!claim || claim_is_former(claim, command))
        return;
    client->node[command->node].heard_at = events_now();
    if (command->is_unsure)
        claim->garbled |= rl_bit(command->node);
    if (command->ask == ASK_RELEASE)
        hear_release(client, command, claim);
    if (command->ask == ASK_RAISE && command->truth == TRUTH_GRANTED)
        claim->vote[command->node].fence = command->fence;
    if (command->ask == ASK_EXTEND) {
        oracle_hear_repair(command, claim);
        oracle_hear_extension(command, claim);
    }
    if (command->is_no_script)
        oracle_note_unknown(command, claim);
    hear_holder(command, claim);
    if (command->is_locking)
        hear_vote(client, command, claim);
}

/* Replies behind one that made the client close the connection are not parsed. */
void oracle_left(struct client *client, unsigned node)
{
    if (node >= world.plan.n)
        return;
    client->node[node].is_greeted = false;
    if (client->node[node].accepted_at == events_now())
        oracle_repairs_left(client);
    if (client->learned_by == node && client->learned_in == client->process.iterations)
        client->learned_at = 0;
    if (client->node[node].heard_at != events_now())
        return;
    for (unsigned i = 0; i < client->users; i++) {
        struct claim *claim = client->user[i].claim;
        if (!claim)
            continue;
        claim->garbled |= rl_bit(node);
        claim->surely_missing &= ~rl_bit(node);
    }
}
