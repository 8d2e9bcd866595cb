#include "skew.h"

#define MILLION INT64_C(1000000)

rl_time skew_read(const struct skew *skew, rl_time now)
{
    return skew->local + (now - skew->from) * (MILLION + skew->ppm) / MILLION;
}

void skew_set_rate(struct skew *skew, rl_time now, int32_t ppm)
{
    skew->local = skew_read(skew, now);
    skew->from = now;
    skew->ppm = ppm;
}

void skew_step(struct skew *skew, rl_time now, rl_time by)
{
    skew_set_rate(skew, now, skew->ppm);
    skew->local += by;
}

rl_time skew_after(const struct skew *skew, rl_time now, rl_time span)
{
    rl_time rate = MILLION + skew->ppm;
    if (rate <= 0 || span >= RL_NEVER / MILLION)
        return RL_NEVER;
    return rl_time_add_sat(now, (span * MILLION + rate - 1) / rate);
}
