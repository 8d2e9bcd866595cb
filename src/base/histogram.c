#include "histogram.h"

_Static_assert(((37 - 1 - RL_HISTOGRAM_BITS) << RL_HISTOGRAM_BITS) +
                       (2 << RL_HISTOGRAM_BITS) ==
                   REDLOCK_BUCKETS,
               "the last bucket is that of RL_HISTOGRAM_MOST");

uint64_t redlock_histogram_count(const redlock_histogram *histogram)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < REDLOCK_BUCKETS; i++)
        count += histogram->bucket[i];
    return count;
}

int64_t redlock_histogram_bound(unsigned bucket)
{
    unsigned row = bucket >> RL_HISTOGRAM_BITS;
    if (bucket >= REDLOCK_BUCKETS)
        return REDLOCK_UNKNOWN;
    if (row <= 1)
        return bucket + 1;
    unsigned shift = row - 1, leading = bucket - (shift << RL_HISTOGRAM_BITS);
    return (int64_t)(leading + 1) << shift;
}

/* The rank from the smallest; at least 1. */
static uint64_t rank_of(uint64_t count, double part)
{
    double exact = part * (double)count;
    uint64_t rank = exact >= (double)count ? count : exact > 0 ? (uint64_t)exact : 0;
    rank += (double)rank < exact && rank < count;
    return rank > 0 ? rank : 1;
}

int64_t redlock_histogram_quantile(const redlock_histogram *histogram, double part)
{
    uint64_t count = redlock_histogram_count(histogram), seen = 0;
    if (count == 0)
        return REDLOCK_UNKNOWN;
    uint64_t rank = rank_of(count, part);
    unsigned bucket = 0;
    for (seen = histogram->bucket[0]; seen < rank; seen += histogram->bucket[bucket])
        bucket++;
    return redlock_histogram_bound(bucket);
}
