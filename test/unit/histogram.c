/* Reports of histograms, compared with an exact sort. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/histogram.h"
#include "prng.h"

#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition))                                                                  \
            cr_assert(condition, __VA_ARGS__);                                             \
    } while (0)

#define VALUES 3000

static const unsigned precisions[] = {HISTOGRAM_COARSE, 7, HISTOGRAM_FINE};
static const uint32_t percentiles[] = {0,      1,      1000,   100000, 250000, 500000,
                                       900000, 990000, 999000, 999999, 1000000};

#define EACH(index, array)                                                                 \
    size_t index = 0;                                                                      \
    index < sizeof(array) / sizeof((array)[0]);                                            \
    index++

/* A value up to 2^bits; small values as often as large ones. */
static int64_t draw(struct prng *prng, unsigned bits)
{
    return (int64_t)(prng_bits(prng) >> (63 - prng_below(prng, bits)));
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The least of the sorted values that is not below this part of all. */
static int64_t exact(const int64_t *sorted, size_t count, uint32_t parts)
{
    size_t rank = (count * parts + HISTOGRAM_ALL - 1) / HISTOGRAM_ALL;
    return sorted[rank > 0 ? rank - 1 : 0];
}

static void compare_all(const struct histogram *histogram, int64_t *value, size_t count)
{
    qsort(value, count, sizeof(*value), compare);
    cr_assert_eq(histogram->total, count);
    cr_assert_eq(histogram->least, value[0]);
    cr_assert_eq(histogram->most, value[count - 1]);
    for (EACH(i, percentiles)) {
        int64_t wanted = exact(value, count, percentiles[i]);
        int64_t got = histogram_at(histogram, percentiles[i]);
        CHECK(got >= wanted, "below: %lld of %lld", (long long)got, (long long)wanted);
        CHECK(got == wanted || (got - wanted) << histogram->bits < wanted,
              "%lld instead of %lld at %u bits", (long long)got, (long long)wanted,
              histogram->bits);
    }
    cr_assert_eq(histogram_at(histogram, HISTOGRAM_ALL), value[count - 1]);
}

Test(histogram, percentiles_are_within_their_error_and_never_below)
{
    struct prng prng = {1};
    int64_t value[VALUES];
    for (EACH(i, precisions)) {
        for (unsigned run = 0; run < 200; run++) {
            struct histogram histogram;
            size_t count = 1 + prng_below(&prng, VALUES);
            unsigned bits = 1 + prng_below(&prng, 37);
            cr_assert(histogram_init(&histogram, precisions[i]));
            for (size_t k = 0; k < count; k++) {
                value[k] = draw(&prng, bits);
                histogram_add(&histogram, value[k], 1);
            }
            compare_all(&histogram, value, count);
            histogram_free(&histogram);
        }
    }
}

Test(histogram, each_bucket_ends_where_the_next_begins)
{
    for (EACH(i, precisions)) {
        struct histogram histogram;
        cr_assert(histogram_init(&histogram, precisions[i]));
        size_t buckets = histogram_buckets(&histogram);
        int64_t before = -1;
        for (size_t bucket = 0; bucket < buckets; bucket++) {
            int64_t bound = histogram_bound(&histogram, bucket);
            CHECK(bound > before, "bucket %zu ends at %lld", bucket, (long long)bound);
            histogram_add(&histogram, before + 1, 1);
            histogram_add(&histogram, bound, 1);
            CHECK(histogram.count[bucket] == 2, "bucket %zu", bucket);
            before = bound;
        }
        cr_assert_eq(before, HISTOGRAM_MOST, "the last one");
        histogram_free(&histogram);
    }
}

Test(histogram, an_empty_one_has_no_percentile)
{
    struct histogram histogram;
    cr_assert(histogram_init(&histogram, HISTOGRAM_FINE));
    cr_assert_eq(histogram_at(&histogram, 500000), -1);
    histogram_add(&histogram, 5, 0);
    cr_assert_eq(histogram_at(&histogram, 500000), -1, "a weight of 0 counts nothing");
    cr_assert_eq(histogram.most, -1);
    histogram_free(&histogram);
}

Test(histogram, a_weight_counts_as_that_many_values)
{
    struct prng prng = {2};
    for (unsigned run = 0; run < 200; run++) {
        struct histogram one, many;
        cr_assert(histogram_init(&one, HISTOGRAM_FINE) &&
                  histogram_init(&many, HISTOGRAM_FINE));
        for (unsigned i = 0; i < 20; i++) {
            int64_t value = draw(&prng, 20);
            unsigned weight = prng_below(&prng, 9);
            histogram_add(&one, value, weight);
            for (unsigned k = 0; k < weight; k++)
                histogram_add(&many, value, 1);
        }
        for (EACH(i, percentiles))
            cr_assert_eq(histogram_at(&one, percentiles[i]),
                         histogram_at(&many, percentiles[i]));
        histogram_free(&one);
        histogram_free(&many);
    }
}

Test(histogram, huge_weights_do_not_overflow)
{
    struct histogram histogram;
    const uint64_t huge = UINT64_C(6000000000000000000);
    cr_assert(histogram_init(&histogram, HISTOGRAM_FINE));
    histogram_add(&histogram, 10, huge);
    histogram_add(&histogram, 20, huge);
    histogram_add(&histogram, 30, huge);
    cr_assert_eq(histogram_at(&histogram, 333333), 10);
    cr_assert_eq(histogram_at(&histogram, 333334), 20);
    cr_assert_eq(histogram_at(&histogram, 666667), 30);
    histogram_free(&histogram);
}

Test(histogram, values_above_the_maximum_count_as_the_maximum)
{
    struct histogram histogram;
    cr_assert(histogram_init(&histogram, HISTOGRAM_FINE));
    histogram_add(&histogram, INT64_MAX, 1);
    cr_assert_eq(histogram_at(&histogram, 500000), HISTOGRAM_MOST);
    histogram_free(&histogram);
}

Test(histogram, moved_values_count_as_if_seen_in_the_target)
{
    struct prng prng = {3};
    int64_t value[VALUES];
    struct histogram to, from;
    cr_assert(histogram_init(&to, HISTOGRAM_COARSE) &&
              histogram_init(&from, HISTOGRAM_COARSE));
    for (size_t i = 0; i < VALUES; i++) {
        value[i] = draw(&prng, 30);
        histogram_add(i % 3 ? &from : &to, value[i], 1);
    }
    histogram_move(&to, &from);
    compare_all(&to, value, VALUES);
    cr_assert_eq(from.total, 0);
    cr_assert_eq(histogram_at(&from, 500000), -1);
    histogram_move(&to, &from); /* nothing */
    compare_all(&to, value, VALUES);
    histogram_add(&from, 7, 1);
    cr_assert_eq(histogram_at(&from, HISTOGRAM_ALL), 7, "it is empty again");
    histogram_free(&to);
    histogram_free(&from);
}
