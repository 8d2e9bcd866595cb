/* The reason of a result: which of the causes of a code is told. */
#ifndef RL_REASON_H
#define RL_REASON_H

#include "lease.h"
#include "redlock/reasons.h"

/* One node's reason not to grant; NONE: nothing, or it was not needed. */
redlock_reason rl_reason_of_node(const struct rl_ballot *ballot);

/* The most important reason of several nodes (reason.c has the order). If none has one, the
   replies are late or have not come: SILENT. */
redlock_reason rl_reason_of_nodes(const struct rl_ballot *ballot, unsigned n);

/* For the lease's cause. */
redlock_reason rl_reason_of_lease(const struct rl_lease *lease, rl_time now);

#endif
