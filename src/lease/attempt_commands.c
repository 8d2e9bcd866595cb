#include "attempt_commands.h"

#include "client/commands.h"
#include "telemetry.h"

static const char unmarked[] = "----------------";
_Static_assert(sizeof(unmarked) - 1 == RL_NONCE, "as long as a nonce");

/* An acquire proposes the same fence to all nodes, also when it is sent again to a node. */
static void add_fence(const struct rl_attempt *attempt, enum rl_command command,
                      struct rl_command_args *args)
{
    const redlock_client *client = rl_client_of(&attempt->task);
    bool proposes = command == RL_CMD_ACQUIRE;
    args->fence_key = rl_attempt_fence_key(attempt);
    args->marker_key =
        (struct rl_word){client->members.marker_key, client->members.marker_key_len};
    args->nonce = (struct rl_word){unmarked, RL_NONCE};
    args->max_ttl_ms = client->members.membership.roster.max_ttl_ms;
    args->fences = attempt->config->fences;
    args->fence = proposes
                      ? rl_fence_last(rl_attempt_proposed(attempt), attempt->config->fences)
                      : attempt->lease.fence;
    args->sent_at = proposes ? rl_attempt_proposed(attempt)
                             : rl_node_time_median(client->members.time, client->nodes.n,
                                                   client->loop.now);
}

RL_HOT rl_node_set rl_attempt_send(struct rl_attempt *attempt,
                                   const struct rl_update *update)
{
    const struct rl_lease_config *config = attempt->config;
    struct rl_message message = {
        .kind = config->kind,
        .command = update->command,
        .seq = update->seq,
        .args.key = rl_attempt_key(attempt),
        .args.token = {attempt->token, attempt->token_len},
        .args.ttl_ms = attempt->lease.ttl / RL_MS,
        .args.recreate = update->recreate,
    };
    if (attempt->set) {
        message.args.set = attempt->set->word;
        message.args.set_size = attempt->set->count;
    }
    if (config->kind->type == REDLOCK_KIND_SLOT) {
        message.args.base = rl_attempt_base(attempt);
        message.args.slots = config->options.slots;
    }
    if (config->kind->is_fenced)
        add_fence(attempt, update->command, &message.args);
    if (update->seq ==
        RL_NO_ROUND) { /* with the NUL no node stores it: the lock may stay */
        message.args.token.len++;
        message.args.fence = 0;
    }
    if (attempt->owner &&
        (update->command == RL_CMD_RELEASE || config->kind->type == REDLOCK_KIND_SHARED))
        rl_attempt_class_of(attempt->owner)
            ->set_waiting(attempt->owner, update->command, &message.args);
    return rl_nodes_send(&rl_client_of(&attempt->task)->nodes, &attempt->task, &message,
                         update->send);
}

/* A command that no step has asked for. False: there was no memory for a node. */
RL_RARE static bool send_besides(struct rl_attempt *attempt, const struct rl_update *update)
{
    rl_telemetry_sent(attempt, update);
    return rl_attempt_send(attempt, update) == 0;
}

/*
 * True if the client has learned of a newer incarnation of any member since this command
 * was sent. A command that is sent again would be granted under the new marker, and would
 * count in the same round as votes of the old incarnation.
 */
static bool is_outdated(const struct rl_attempt *attempt, const struct rl_op *op)
{
    return attempt->config->kind->is_fenced && op->command != RL_CMD_RELEASE &&
           op->sent <= rl_client_of(&attempt->task)->members.membership.learned_at;
}

/* Sends a command again, with the script's source. False: it must not or could not be. */
RL_RARE bool rl_attempt_resend(struct rl_attempt *attempt, unsigned node,
                               const struct rl_op *op)
{
    if (!rl_lease_resend_is_safe(&attempt->lease, op->command, op->seq) ||
        is_outdated(attempt, op))
        return false;
    rl_loop_refresh_clock(attempt->task.loop);
    return send_besides(attempt, &(struct rl_update){
                                     .send = rl_bit(node),
                                     .command = op->command,
                                     .recreate = op->recreate,
                                     .seq = op->seq,
                                 });
}

void rl_attempt_withdraw(struct rl_attempt *attempt, rl_node_set nodes)
{
    nodes &= rl_client_of(&attempt->task)->nodes.view.open;
    if (nodes)
        (void)send_besides(attempt, &(struct rl_update){
                                        .send = nodes,
                                        .command = RL_CMD_RELEASE,
                                        .seq = RL_NO_ROUND,
                                    });
}
