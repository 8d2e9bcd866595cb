/* The public code for the cause of a lease machine. */
#ifndef RL_CAUSE_H
#define RL_CAUSE_H

#include "core/lease.h"
#include "redlock/redlock.h"

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

#endif
