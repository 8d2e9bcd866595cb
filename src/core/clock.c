#include "clock.h"

void rl_clock_init(struct rl_clock *clock, rl_time boot, rl_time raw)
{
    *clock = (struct rl_clock){
        .now = boot,
        .base = boot,
        .boot = boot,
        .raw = raw,
        .last = {boot, boot},
    };
}

/* The larger step (safety.md, The validity and the clock). */
static rl_time time_at(const struct rl_clock *clock, rl_time boot, rl_time raw)
{
    rl_time step = rl_max(boot - clock->boot, raw - clock->raw);
    return rl_time_add_sat(clock->base, rl_max(step, 0));
}

rl_time rl_clock_advance_apart(struct rl_clock *clock, rl_time boot, rl_time raw)
{
    clock->now = rl_max(clock->now, time_at(clock, boot, raw));
    return clock->now;
}

/* (safety.md, The validity and the clock) */
rl_time rl_clock_advance(struct rl_clock *clock, rl_time boot, rl_time raw)
{
    bool back = boot < clock->boot || raw < clock->raw;
    rl_time ahead = (boot - clock->boot) - (raw - clock->raw);
    rl_time spread = rl_max(ahead, -ahead);
    rl_time at = time_at(clock, boot, raw);
    clock->now = rl_max(clock->now, at);
    clock->last.at = back ? clock->now : at;
    clock->last.boot = boot;
    if (at - clock->base >= RL_CLOCK_FOLD || back || spread > RL_CLOCK_SPREAD) {
        clock->base = clock->last.at;
        clock->boot = boot;
        clock->raw = raw;
    }
    return clock->now;
}

/*
 * Adds 2 us for rounding. The time between two rounded readings may exceed their difference
 * by almost 1 us. The difference of the other clock's rounded readings may exceed that time
 * by almost 1 us (safety.md, The validity and the clock).
 */
bool rl_clock_glance(struct rl_clock *clock, rl_time boot)
{
    rl_time step = boot - clock->last.boot;
    if (step < 0 || step >= RL_CLOCK_GLANCE)
        return false;
    step += step / RL_CLOCK_SLEWED_PART + 2;
    clock->now = rl_max(clock->now, rl_time_add_sat(clock->last.at, step));
    return true;
}
