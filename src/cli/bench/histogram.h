/*
 * Counts values in bounded memory: logarithmic buckets, each divided evenly. Pure. A value
 * read from it is never below the true value, and above it by less than one part in 2^bits.
 */
#ifndef CLI_HISTOGRAM_H
#define CLI_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_FINE   10 /* bits: an error below 0.1 % */
#define HISTOGRAM_COARSE 5  /* bits: an error below 3.2 % */
/*
 * 38 hours in microseconds, longer than the longest TTL; larger values count as this one.
 */
#define HISTOGRAM_MOST ((INT64_C(1) << 37) - 1)
#define HISTOGRAM_ALL  1000000 /* parts in a whole, for percentiles */

struct histogram {
    unsigned bits;
    uint64_t total;      /* of the weights */
    int64_t least, most; /* exact; most is -1 if there is no value */
    uint64_t *count;     /* per bucket */
};

/* False: no memory. */
bool histogram_init(struct histogram *histogram, unsigned bits);
void histogram_free(struct histogram *histogram);

/* Adds the value `weight` times; the value is not negative. */
void histogram_add(struct histogram *histogram, int64_t value, uint64_t weight);

/* Adds all values of `other`, which has the same number of bits, and empties it. */
void histogram_move(struct histogram *histogram, struct histogram *other);

/* A percentile: `parts` of HISTOGRAM_ALL of the values are at most this; -1: no value. */
int64_t histogram_at(const struct histogram *histogram, uint32_t parts);

/* The number of buckets, and the largest value that counts in each. */
size_t histogram_buckets(const struct histogram *histogram);
int64_t histogram_bound(const struct histogram *histogram, size_t bucket);

#endif
