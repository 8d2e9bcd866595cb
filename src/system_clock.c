#include "system_clock.h"

#include "core/clock.h"

int64_t rl_clock_ns(clockid_t id)
{
    struct timespec at;
    clock_gettime(id, &at);
    return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

/* Time that passes between the last two readings seems to be a suspension, too. */
int64_t rl_clock_unslewed_ns(int64_t *ret_raw)
{
    *ret_raw = rl_clock_ns(CLOCK_MONOTONIC_RAW);
    int64_t monotonic = rl_clock_ns(CLOCK_MONOTONIC);
    return *ret_raw + rl_clock_ns(CLOCK_BOOTTIME) - monotonic;
}

/* The other way round: such time is taken off the time suspended. */
struct rl_clocks rl_clocks_begin(void)
{
    int64_t boot = rl_clock_ns(CLOCK_BOOTTIME), monotonic = rl_clock_ns(CLOCK_MONOTONIC);
    int64_t unslewed = rl_clock_ns(CLOCK_MONOTONIC_RAW) + boot - monotonic;
    return (struct rl_clocks){boot / 1000, unslewed / 1000};
}

/* As rl_clock_glance(), which says why this is enough. */
struct rl_clocks rl_clocks_end(void)
{
    static _Thread_local struct rl_clocks last;
    int64_t boot = rl_clock_ns(CLOCK_BOOTTIME) / 1000, step = boot - last.boot, raw;
    if (step >= 0 && step < RL_CLOCK_GLANCE) {
        step += step / RL_CLOCK_SLEWED_PART + 2;
        return (struct rl_clocks){boot, last.unslewed + step};
    }
    last = (struct rl_clocks){boot, rl_clock_unslewed_ns(&raw) / 1000};
    return last;
}
