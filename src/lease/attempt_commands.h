/* The commands that an attempt sends to the nodes. */
#ifndef RL_ATTEMPT_COMMANDS_H
#define RL_ATTEMPT_COMMANDS_H

#include "attempt.h"

/* The round of a command that only leaves the wait queues: no vote. */
#define RL_NO_ROUND 0

/* Returns the nodes for which there was no memory. */
rl_node_set rl_attempt_send(struct rl_attempt *attempt, const struct rl_update *update);

/* Sends a command again, with the script's source. False: it must not or could not be. */
bool rl_attempt_resend(struct rl_attempt *attempt, unsigned node, const struct rl_op *op);

/* The owner does not wait any more: removes its entries from the wait queues of these
   nodes, and leaves the lock as it is. */
void rl_attempt_withdraw(struct rl_attempt *attempt, rl_node_set nodes);

#endif
