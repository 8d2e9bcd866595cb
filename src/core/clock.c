#include "clock.h"

void rl_clock_init(struct rl_clock *clock, rl_time boot, rl_time raw)
{
    *clock = (struct rl_clock){.now = boot, .base = boot, .boot = boot, .raw = raw};
}

rl_time rl_clock_advance(struct rl_clock *clock, rl_time boot, rl_time raw)
{
    rl_time step = rl_max(boot - clock->boot, raw - clock->raw);
    bool back = boot < clock->boot || raw < clock->raw;
    clock->now = rl_max(clock->now, rl_later(clock->base, rl_max(step, 0)));
    if (step >= RL_CLOCK_FOLD || back) {
        clock->base = clock->now;
        clock->boot = boot;
        clock->raw = raw;
    }
    return clock->now;
}
