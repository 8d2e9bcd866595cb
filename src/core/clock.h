/*
 * The client's clock: it only goes forward, counts the time that a machine was suspended,
 * and is not slowed by a time daemon.
 *
 * It advances at each reading by the larger of CLOCK_BOOTTIME's and CLOCK_MONOTONIC_RAW's
 * step: the first counts suspension but is slewed, the second the other way round. Too fast
 * a clock gives a lock up early, too slow a one keeps it too long: hence the larger.
 */
#ifndef RL_CLOCK_H
#define RL_CLOCK_H

#include "types.h"

struct rl_clock {
    rl_time now;
    rl_time base, boot, raw; /* steps are counted from these readings, which were `base` */
};

/* From then on from newer ones: were it each time, the rounding would add up. */
#define RL_CLOCK_FOLD (100 * RL_MS)

void rl_clock_init(struct rl_clock *clock, rl_time boot, rl_time raw);

/* The time that these two readings stand for. A reading that went back counts as no step.
 */
rl_time rl_clock_advance(struct rl_clock *clock, rl_time boot, rl_time raw);

#endif
