#include "histogram.h"

#include <stdlib.h>
#include <string.h>

#define VALUE_BITS 37 /* of HISTOGRAM_MOST */

bool histogram_init(struct histogram *histogram, unsigned bits)
{
    *histogram = (struct histogram){.bits = bits, .least = HISTOGRAM_MOST, .most = -1};
    histogram->count = calloc(histogram_buckets(histogram), sizeof(*histogram->count));
    return histogram->count;
}

void histogram_free(struct histogram *histogram)
{
    free(histogram->count);
    histogram->count = NULL;
}

size_t histogram_buckets(const struct histogram *histogram)
{
    return (size_t)(VALUE_BITS - histogram->bits + 1) << histogram->bits;
}

/*
 * Each small value has a bucket of its own; larger values are grouped by their leading
 * bits.
 */
static size_t bucket_of(const struct histogram *histogram, int64_t value)
{
    unsigned bits = histogram->bits;
    if (value >> bits <= 1)
        return (size_t)value;
    unsigned shift = 63 - (unsigned)__builtin_clzll((uint64_t)value) - bits;
    return ((size_t)shift << bits) + (size_t)(value >> shift);
}

int64_t histogram_bound(const struct histogram *histogram, size_t bucket)
{
    size_t row = bucket >> histogram->bits;
    if (row <= 1)
        return (int64_t)bucket;
    size_t shift = row - 1, leading = bucket - (shift << histogram->bits);
    return ((int64_t)(leading + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, int64_t value, uint64_t weight)
{
    if (weight == 0)
        return;
    if (value > HISTOGRAM_MOST)
        value = HISTOGRAM_MOST;
    histogram->count[bucket_of(histogram, value)] += weight;
    histogram->total += weight;
    if (value < histogram->least)
        histogram->least = value;
    if (value > histogram->most)
        histogram->most = value;
}

void histogram_move(struct histogram *histogram, struct histogram *other)
{
    size_t buckets = histogram_buckets(other);
    if (other->total == 0)
        return; /* most often, and its memory is not touched */
    for (size_t i = 0; i < buckets; i++)
        histogram->count[i] += other->count[i];
    histogram->total += other->total;
    if (other->least < histogram->least)
        histogram->least = other->least;
    if (other->most > histogram->most)
        histogram->most = other->most;
    memset(other->count, 0, buckets * sizeof(*other->count));
    other->total = 0;
    other->least = HISTOGRAM_MOST;
    other->most = -1;
}

/* Computes in integers and without overflow: a rank that is off by one is another value. */
static uint64_t rank_of(uint64_t total, uint32_t parts)
{
    uint64_t whole = total / HISTOGRAM_ALL * parts;
    uint64_t rest = total % HISTOGRAM_ALL * parts;
    uint64_t rank = whole + (rest + HISTOGRAM_ALL - 1) / HISTOGRAM_ALL;
    return rank > 0 ? rank : 1;
}

int64_t histogram_at(const struct histogram *histogram, uint32_t parts)
{
    if (histogram->total == 0)
        return -1;
    uint64_t rank = rank_of(histogram->total, parts), seen = 0;
    size_t bucket = bucket_of(histogram, histogram->least);
    for (seen = histogram->count[bucket]; seen < rank; seen += histogram->count[bucket])
        bucket++;
    int64_t bound = histogram_bound(histogram, bucket);
    return bound < histogram->most ? bound : histogram->most;
}
