#include "system_clock.h"

#include "core/clock.h"
#include "io/system.h"

/*
 * Time that passes between the last two readings counts as suspended time: never too low.
 */
int64_t rl_clock_unslewed_ns(int64_t *ret_boot)
{
    int64_t raw = rl_system_clock_ns(CLOCK_MONOTONIC_RAW);
    int64_t monotonic = rl_system_clock_ns(CLOCK_MONOTONIC);
    *ret_boot = rl_system_clock_ns(CLOCK_BOOTTIME);
    return raw + *ret_boot - monotonic;
}

/* The order is reversed here: such time is subtracted, so the result is never too high. */
struct rl_clocks rl_clocks_begin(void)
{
    int64_t boot = rl_system_clock_ns(CLOCK_BOOTTIME),
            monotonic = rl_system_clock_ns(CLOCK_MONOTONIC);
    int64_t unslewed = rl_system_clock_ns(CLOCK_MONOTONIC_RAW) + boot - monotonic;
    return (struct rl_clocks){boot / 1000, unslewed / 1000};
}

/* Uses the method of rl_clock_glance(). See RL_CLOCK_GLANCE for why it suffices. */
struct rl_clocks rl_clocks_end(void)
{
    static _Thread_local struct rl_clocks last;
    int64_t boot = rl_system_clock_ns(CLOCK_BOOTTIME) / 1000, step = boot - last.boot;
    int64_t later;
    if (step >= 0 && step < RL_CLOCK_GLANCE) {
        step += step / RL_CLOCK_SLEWED_PART + 2;
        return (struct rl_clocks){boot, last.unslewed + step};
    }
    last = (struct rl_clocks){boot, rl_clock_unslewed_ns(&later) / 1000};
    return last;
}
