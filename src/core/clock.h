/*
 * The client's clock. It never goes back, it counts the time that the machine was
 * suspended, and a time daemon cannot slow it.
 *
 * At each reading it advances by the larger step of two clocks. `boot` is CLOCK_BOOTTIME,
 * which a time daemon slews. `raw` is CLOCK_MONOTONIC_RAW plus the suspended time, which it
 * does not slew. The larger step is safe: a clock that is too fast gives a lock up early, a
 * clock that is too slow keeps it too long.
 */
#ifndef RL_CLOCK_H
#define RL_CLOCK_H

#include "types.h"

struct rl_clock {
    rl_time now;
    rl_time base, boot, raw; /* steps count from these readings, taken at `base` */
    struct {
        rl_time at, boot; /* our time, and CLOCK_BOOTTIME */
    } last;               /* of the last reading of both clocks */
};

/* Steps of at least this length move `base` to the new readings. Were it moved at each
   reading, the rounding errors would add up. */
#define RL_CLOCK_FOLD (100 * RL_MS)

/*
 * Steps of the two clocks that differ by more than this, in us, also move `base`. Otherwise
 * a span that begins now would be counted too short by that difference, if the clock that
 * is ahead runs slower from now on.
 */
#define RL_CLOCK_SPREAD INT64_C(100)

/*
 * Within RL_CLOCK_GLANCE us of a reading of both clocks, CLOCK_BOOTTIME alone is enough.
 * Its step is lengthened by 1 / RL_CLOCK_SLEWED_PART, which is more than a time daemon can
 * slow it: the kernel slews by at most 10.05 % (tick and frequency). So the result is at
 * least the step of the other clock.
 */
#define RL_CLOCK_GLANCE      INT64_C(250)
#define RL_CLOCK_SLEWED_PART 8

void rl_clock_init(struct rl_clock *clock, rl_time boot, rl_time raw);

/* Advances the clock by these readings, and returns it. A reading that went back adds no
   step. */
rl_time rl_clock_advance(struct rl_clock *clock, rl_time boot, rl_time raw);

/*
 * The two readings of one look must be at most this far apart, in us. The time between them
 * counts twice if they become the base: once in the reading that was taken later, and once
 * more in the next step of the other clock.
 */
#define RL_CLOCK_APART INT64_C(100)

/* Readings that are further apart, because the process was stopped in between, advance only
   `now`. */
rl_time rl_clock_advance_apart(struct rl_clock *clock, rl_time boot, rl_time raw);

/* Advances `now` by this reading alone. False: read both clocks instead. */
bool rl_clock_glance(struct rl_clock *clock, rl_time boot);

#endif
