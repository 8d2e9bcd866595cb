#include "time.h"

#include "io/system.h"
#include "redlock/redlock.h"

#define LONG_MS (INT64_C(366) * 24 * 3600 * 1000) /* a longer wait counts as endless */

int64_t rl_now_ms(void)
{
    return rl_system_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* Adds 1 ms: a part of the present millisecond is over, and no wait may be too short. */
int64_t rl_in_ms(int64_t wait_ms)
{
    if (wait_ms < 0 || wait_ms >= LONG_MS)
        return RL_FOREVER;
    return rl_now_ms() + wait_ms + (wait_ms > 0);
}

int64_t rl_left_ms(int64_t deadline)
{
    if (deadline == RL_FOREVER)
        return -1;
    int64_t left = deadline - rl_now_ms();
    return left > 0 ? left : 0;
}

struct rl_until rl_until_after(struct rl_clocks now, int64_t valid_ms)
{
    if (valid_ms <= 0)
        return (struct rl_until){0};
    if (valid_ms > REDLOCK_TTL_MAX_MS)
        valid_ms = REDLOCK_TTL_MAX_MS;
    return (struct rl_until){now.boot + valid_ms * 1000, now.unslewed + valid_ms * 1000};
}

/* Less 1 us: readings are rounded down. */
int64_t rl_until_left_ms(struct rl_until until)
{
    struct rl_clocks now = rl_clocks_end();
    int64_t boot = until.boot - now.boot, unslewed = until.unslewed - now.unslewed;
    int64_t left = boot < unslewed ? boot : unslewed;
    return left > 0 ? (left - 1) / 1000 : 0;
}
