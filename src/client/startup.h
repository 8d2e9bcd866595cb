/* The startup barrier of a client's nodes (core/link.h): steps it, and reports its end. */
#ifndef RL_STARTUP_H
#define RL_STARTUP_H

#include "nodes.h"

bool rl_startup_init(struct rl_nodes *nodes); /* false: no memory */
void rl_startup_begin(struct rl_nodes *nodes);

/* The nodes whose links are open, or have failed at least once. */
rl_node_set rl_startup_tried(const struct rl_nodes *nodes);

/* Call it when a node was greeted or failed. */
void rl_startup_check(struct rl_nodes *nodes);

#endif
