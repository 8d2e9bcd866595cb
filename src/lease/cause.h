/* The public code for the cause of a lease machine. */
#ifndef RL_CAUSE_H
#define RL_CAUSE_H

#include "attempt.h"
#include "client/explain.h"

static inline redlock_code rl_code_of(enum rl_cause cause)
{
    static const redlock_code codes[] = {
        [RL_CAUSE_NONE] = REDLOCK_OK,
        [RL_CAUSE_TAKEN] = REDLOCK_TAKEN,
        [RL_CAUSE_NO_QUORUM] = REDLOCK_NO_QUORUM,
        [RL_CAUSE_EXPIRED] = REDLOCK_EXPIRED,
        [RL_CAUSE_CANCELLED] = REDLOCK_CANCELLED,
        [RL_CAUSE_GONE] = REDLOCK_GONE,
        [RL_CAUSE_MAX_HOLD] = REDLOCK_MAX_HOLD,
        [RL_CAUSE_UNCONFIRMED] = REDLOCK_UNCONFIRMED,
    };
    return codes[cause];
}

/* That of an attempt that failed: DENIED if so many nodes denied that no quorum is left. */
static inline redlock_code rl_code_of_failure(const struct rl_attempt *attempt)
{
    const struct rl_lease *lease = &attempt->lease;
    bool is_denied = lease->cause == RL_CAUSE_NO_QUORUM &&
                     rl_client_is_denied(rl_client_of(&attempt->task), lease->ballot);
    return is_denied ? REDLOCK_DENIED : rl_code_of(lease->cause);
}

#endif
