#include "retry.h"

#include <assert.h>

rl_time rl_backoff(rl_time base, rl_time cap, unsigned attempt)
{
    rl_time delay = base;
    while (attempt-- > 0 && delay < cap)
        delay = rl_time_add_sat(delay, delay);
    return rl_min(delay, cap);
}

rl_time rl_uniform(uint64_t random, rl_time span)
{
    assert(span >= 0);
    return (rl_time)(random % ((uint64_t)span + 1));
}

rl_time rl_retry_at(const struct rl_retry *retry, unsigned attempt, uint64_t random,
                    rl_time now, rl_time give_up)
{
    rl_time delay = -1;
    switch (retry->kind) {
    case RL_RETRY_NONE: break;
    case RL_RETRY_FIXED: delay = retry->base; break;
    case RL_RETRY_EXPONENTIAL:
        delay = rl_uniform(random, rl_backoff(retry->base, retry->cap, attempt));
        break;
    case RL_RETRY_CUSTOM: delay = retry->custom(attempt, random, retry->arg); break;
    }
    if (delay < 0 || now >= give_up)
        return RL_NEVER;
    return rl_min(rl_time_add_sat(now, delay), give_up);
}
