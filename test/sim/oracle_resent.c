/*
 * The oracle on commands that are sent again, because a node did not know their script:
 * they are the same, and their client has learned of no newer incarnation meanwhile.
 */
#include "oracle_parts.h"
#include "world.h"

void oracle_note_unknown(const struct command *command, struct claim *claim)
{
    rl_node_set bit = rl_bit(command->node);
    if (command->ask == ASK_RELEASE)
        return;
    claim->to_resend |= bit;
    claim->resend_of[command->node] = command->said;
    claim->extended_again = 0;
    if (command->recreates)
        claim->to_recreate |= bit;
}

static void judge_knowledge(const struct client *client, const struct claim *claim,
                            unsigned node)
{
    if (client->learned_at > claim->resend_of[node] &&
        client->learned_in < client->process.iterations)
        oracle_accuse(INVARIANT_BARRED,
                      "client %u asks node %u again, and has learned of a newer "
                      "incarnation since",
                      client->index + 1, node + 1);
}

/* A new round goes to more nodes, and begins in the same iteration at the earliest. */
void oracle_resent_iterated(const struct client *client)
{
    for (unsigned i = 0; i < client->users; i++) {
        struct claim *claim = client->user[i].claim;
        if (!claim || claim->resent_in != client->process.iterations)
            continue;
        rl_node_set again = claim->extended_again & claim->to_resend;
        if (world.plan.n > 1 && rl_count(claim->extended_again) == 1 && again)
            judge_knowledge(client, claim, rl_first(again));
        claim->to_resend &= ~claim->extended_again;
        claim->extended_again = 0;
    }
}

static void judge_extension(const struct command *command, struct claim *claim)
{
    rl_node_set bit = rl_bit(command->node);
    bool is_again = claim->resent_in == command->iteration;
    if (is_again && claim->to_recreate & bit && !command->recreates)
        oracle_accuse(INVARIANT_LIVENESS,
                      "client %u extends %.8s at node %u again, and does not recreate it",
                      command->client + 1, claim->token, command->node + 1);
    claim->to_recreate &= ~bit;
    claim->extended_again |= is_again ? bit : 0;
}

void oracle_judge_again(const struct command *command, struct claim *claim)
{
    const struct client *client = &world.client[command->client];
    rl_node_set bit = rl_bit(command->node);
    if (claim_is_former(claim, command) || claim->is_handed ||
        world.plan.weight[FAULT_ROOM] > 0) /* it is not known when it wrote a command */
        return;
    if (command->ask == ASK_EXTEND)
        judge_extension(command, claim);
    if (command->ask != ASK_ACQUIRE && command->ask != ASK_RAISE)
        return;
    if (claim->to_resend & bit) /* both are sent once only */
        judge_knowledge(client, claim, command->node);
    claim->to_resend &= ~bit;
}

void oracle_learn(struct client *client, const struct command *command)
{
    bool is_ours = world.deployment != 0 && command->seal.deployment == world.deployment;
    for (unsigned i = 0; is_ours && !command->is_unsure && i < world.plan.n; i++) {
        if (command->generation[i] <= client->generation[i])
            continue;
        client->generation[i] = command->generation[i];
        client->learned_at = events_now();
        client->learned_in = client->process.iterations;
        client->learned_by = command->node;
    }
}
