/*
 * The oracle on commands that are sent again, because a node did not know their script:
 * they are the same, and their client has learned of no newer incarnation meanwhile.
 */
#include "oracle_parts.h"
#include "world.h"

/* Others can be told from a new round. */
static bool is_sent_once(const struct command *command)
{
    return command->ask == ASK_ACQUIRE || command->ask == ASK_RAISE;
}

void oracle_note_unknown(const struct command *command, struct claim *claim)
{
    if (is_sent_once(command))
        claim->to_resend |= rl_bit(command->node);
    if (command->recreates)
        claim->to_recreate |= rl_bit(command->node);
}

static void judge_extension(const struct command *command, const struct claim *claim)
{
    if (claim->to_recreate & rl_bit(command->node) && !command->recreates &&
        claim->resent_in == command->iteration)
        oracle_accuse(INVARIANT_LIVENESS,
                      "client %u extends %.8s at node %u again, and does not recreate it",
                      command->client + 1, claim->token, command->node + 1);
}

void oracle_judge_again(const struct command *command, struct claim *claim)
{
    const struct client *client = &world.client[command->client];
    rl_node_set bit = rl_bit(command->node);
    if (claim_is_former(claim, command) || claim->is_handed ||
        world.plan.weight[FAULT_ROOM] > 0) /* it is not known when it wrote a command */
        return;
    if (command->ask == ASK_EXTEND) {
        judge_extension(command, claim);
        claim->to_recreate &= ~bit;
    }
    if (!is_sent_once(command))
        return;
    if (claim->to_resend & bit && client->learned_at > claim->asked_at[command->node] &&
        client->learned_in < command->iteration)
        oracle_accuse(INVARIANT_BARRED,
                      "client %u asks node %u again, and has learned of a newer "
                      "incarnation since",
                      command->client + 1, command->node + 1);
    claim->to_resend &= ~bit;
    claim->asked_at[command->node] = events_now();
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
