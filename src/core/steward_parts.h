/* What the parts of the steward share: steward.c knows, steward_orders.c acts. */
#ifndef RL_STEWARD_PARTS_H
#define RL_STEWARD_PARTS_H

#include "steward.h"

/* Where a majority has lost its memory, those in quarantine have to vouch for each other.
 */
bool rl_steward_is_recovering(const struct rl_steward *steward);

/*
 * Whoever may vouch, and knows this node's incarnation. Where all have to vouch for each
 * other, a node does for itself, too: there may be no other.
 */
rl_nodes rl_steward_knowing(const struct rl_steward *steward, unsigned node);

/* Everything that follows from what is known. */
void rl_steward_review(struct rl_steward *steward, rl_time now);

/* If the clocks of a majority seem to have been set at once, ours was. */
void rl_steward_doubt(struct rl_steward *steward, rl_time now);

#endif
