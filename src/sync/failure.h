/* Why a lock was not acquired: fills the caller's redlock_failure. */
#ifndef RL_FAILURE_H
#define RL_FAILURE_H

#include "hold.h"

/*
 * All accept no failure. Nothing is known yet. If it is not OK, the caller's struct cannot
 * be used, and `failure` is NULL.
 */
redlock_code rl_failure_begin(redlock_failure **failure);

/* The nodes refused the hold, as the lease explains. This and the next set the last error.
 */
void rl_failure_by_nodes(redlock_failure *failure, const redlock_hold *hold,
                         redlock_code code, redlock_reason reason,
                         const redlock_lease *lease, int64_t remaining_ms);

/* A thread of this process has the lock, or waits for it. */
redlock_code rl_failure_by_thread(redlock_failure *failure, redlock_code code,
                                  int64_t remaining_ms);

/* The call returns `code`: copies the last error, unless it is OK. */
redlock_code rl_failure_finish(redlock_failure *failure, redlock_code code);

#endif
