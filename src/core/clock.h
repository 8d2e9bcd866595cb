/*
 * The client's clock: it only goes forward, counts the time that a machine was suspended,
 * and is not slowed by a time daemon.
 *
 * It advances at each reading by the larger step of two clocks. `boot` is CLOCK_BOOTTIME,
 * which a time daemon slews. `raw` is CLOCK_MONOTONIC_RAW plus the time suspended, which it
 * does not slew. Too fast a clock gives a lock up early, too slow a one keeps it too long:
 * hence the larger step.
 */
#ifndef RL_CLOCK_H
#define RL_CLOCK_H

#include "types.h"

struct rl_clock {
    rl_time now;
    rl_time base, boot, raw; /* steps are counted from these readings, which were `base` */
    struct {
        rl_time at, boot;
    } last; /* reading of both, and what it stood for */
};

/* From then on from newer ones: were it each time, the rounding would add up. */
#define RL_CLOCK_FOLD (100 * RL_MS)

/*
 * So soon after a reading of both CLOCK_BOOTTIME alone will do: if its step is taken for
 * longer by a part that no time daemon can slew it by, it is not the slower one. (The
 * kernel slews by 10.05 % at most: tick, and frequency.)
 */
#define RL_CLOCK_GLANCE      INT64_C(250)
#define RL_CLOCK_SLEWED_PART 8

void rl_clock_init(struct rl_clock *clock, rl_time boot, rl_time raw);

/* The time that these two readings stand for. A reading that went back counts as no step.
 */
rl_time rl_clock_advance(struct rl_clock *clock, rl_time boot, rl_time raw);

/* The time that this reading alone stands for, as `now`. False: both have to be read. */
bool rl_clock_glance(struct rl_clock *clock, rl_time boot);

#endif
