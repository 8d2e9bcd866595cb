#include "waiter.h"

#include <assert.h>

void rl_waiter_attempt(struct rl_waiter *waiter)
{
    *waiter = (struct rl_waiter){0};
}

void rl_waiter_queued(struct rl_waiter *waiter, unsigned node)
{
    waiter->queued |= rl_bit(node);
}

void rl_waiter_dequeued(struct rl_waiter *waiter, unsigned node)
{
    waiter->queued &= ~rl_bit(node);
}

rl_time rl_waiter_notified(struct rl_waiter *waiter, unsigned q, unsigned node,
                           unsigned position, rl_time now, rl_time grace)
{
    assert(position <= RL_WAITER_SECOND);
    waiter->second |= rl_bit(node);
    if (position == RL_WAITER_FIRST)
        waiter->first |= rl_bit(node);
    /* (safety.md, Waiting) */
    if (rl_count(waiter->first) >= q)
        return now;
    bool is_second = rl_count(waiter->second) >= q;
    return rl_time_add_sat(now, is_second ? grace : rl_time_add_sat(grace, grace));
}

bool rl_waiter_is_queued(const struct rl_waiter *waiter, unsigned q)
{
    return rl_count(waiter->queued) >= q;
}
