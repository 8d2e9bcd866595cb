/* Which nodes failed and why, in one line: nodes with the same fault together. */
#ifndef RL_FAILED_NODES_H
#define RL_FAILED_NODES_H

#include "redlock/redlock.h"

/*
 * Sets the last error to "2 of 3 nodes failed: redis://b, redis://c: cannot connect". What
 * has no room in its text is counted, not cut. Uses the reason if no node failed.
 */
redlock_code rl_fail_by_nodes(redlock_code code, redlock_reason reason,
                              const redlock_node *nodes, size_t count);

#endif
