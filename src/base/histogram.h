/*
 * The histograms of stats.h. To add a value must cost only some ten instructions.
 */
#ifndef RL_HISTOGRAM_H
#define RL_HISTOGRAM_H

#include "core/types.h"
#include "redlock/stats.h"

#define RL_HISTOGRAM_BITS 2 /* 2^2 buckets in each power of two */
#define RL_HISTOGRAM_MOST ((INT64_C(1) << 37) - 1)

/* The last one is that of RL_HISTOGRAM_MOST. */
static inline unsigned rl_histogram_bucket(rl_time value)
{
    uint64_t least = (uint64_t)value | 1 << RL_HISTOGRAM_BITS;
    unsigned shift = 63 - (unsigned)__builtin_clzll(least) - RL_HISTOGRAM_BITS;
    return (shift << RL_HISTOGRAM_BITS) + (unsigned)(value >> shift);
}

/* `value`: at least 0; one below, by a mistake elsewhere, counts as the largest. */
static inline void rl_histogram_add(redlock_histogram *histogram, rl_time value)
{
    histogram->sum_us += (uint64_t)value;
    bool fits = (uint64_t)value < (uint64_t)RL_HISTOGRAM_MOST;
    rl_time counted = fits ? value : RL_HISTOGRAM_MOST;
    histogram->bucket[rl_histogram_bucket(counted)]++;
}

#endif
