/*
 * An operator's process, as src/admin/admit.c: it gives nodes their votes back, and
 * replaces one. There is at most one at a time.
 */
#ifndef RL_SIM_OPERATOR_H
#define RL_SIM_OPERATOR_H

/* For others to get their votes; then he begins anew, or leaves it. */
#define OPERATOR_PATIENCE (80 * RL_SECOND)

struct world;
struct client;

/* If fewer nodes than a quorum could vote: seats, and recovers. */
void operator_recovers(struct world *world);

/* The node at this place of the configuration becomes a fresh server. */
void operator_replaces(struct world *world, unsigned node);

/* Of servers that nobody has used yet, while clients wait already. */
void operator_founds(struct world *world);

/* At the end of a pass of it. */
void operator_pass(struct world *world, struct client *client);

#endif
