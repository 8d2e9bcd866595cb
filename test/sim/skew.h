/* A clock that runs fast, slow or not at all against the true time, and can be stepped. */
#ifndef RL_SIM_SKEW_H
#define RL_SIM_SKEW_H

#include "core/types.h"

#define SKEW_FROZEN (-1000000) /* the rate, in ppm, of a clock that stands still */

struct skew {
    rl_time from, local; /* it read `local` at the true time `from` */
    int32_t ppm;         /* what it gains from then on, in millionths */
};

rl_time skew_read(const struct skew *skew, rl_time now);

/* From now on it gains `ppm`, or reads `by` more. */
void skew_set_rate(struct skew *skew, rl_time now, int32_t ppm);
void skew_step(struct skew *skew, rl_time now, rl_time by);

/* The true time at which it will have advanced by `span` from now; never if frozen. */
rl_time skew_after(const struct skew *skew, rl_time now, rl_time span);

#endif
