/* The histograms of stats.h, compared with an exact sort. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/histogram.h"
#include "prng.h"

#define VALUES 2000
#define RUNS   200

static const double parts[] = {0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1};

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The least of the sorted values that this part of all do not exceed. */
static int64_t exact(const int64_t *sorted, size_t count, double part)
{
    double whole =
        part * (double)count; /* in this precision only, also where x87 has more */
    size_t rank = (size_t)whole;
    rank += (double)rank < whole;
    return sorted[rank > 0 ? rank - 1 : 0];
}

static void expect_quantiles(const redlock_histogram *histogram, int64_t *value,
                             size_t count)
{
    qsort(value, count, sizeof(*value), compare);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        int64_t wanted = exact(value, count, parts[i]);
        int64_t got = redlock_histogram_quantile(histogram, parts[i]);
        cr_assert(got >= wanted && (got <= wanted + 1 || 4 * got <= 5 * wanted),
                  "%lld instead of %lld at %g", (long long)got, (long long)wanted,
                  parts[i]);
    }
}

/* Small values as often as large ones. */
Test(client_histogram, quantiles_are_within_a_quarter_and_never_below)
{
    struct prng prng = {7};
    static int64_t value[VALUES];
    for (unsigned run = 0; run < RUNS; run++) {
        redlock_histogram histogram = {0};
        size_t count = 1 + prng_below(&prng, VALUES);
        unsigned bits = 1 + prng_below(&prng, 37);
        uint64_t sum = 0;
        for (size_t i = 0; i < count; i++) {
            value[i] = (int64_t)(prng_bits(&prng) >> (63 - prng_below(&prng, bits)));
            rl_histogram_add(&histogram, value[i]);
            sum += (uint64_t)value[i];
        }
        cr_assert_eq(redlock_histogram_count(&histogram), count);
        cr_assert_eq(histogram.sum_us, sum);
        expect_quantiles(&histogram, value, count);
    }
}

Test(client_histogram, each_bucket_ends_where_the_next_begins)
{
    int64_t from = 0;
    for (unsigned bucket = 0; bucket < REDLOCK_BUCKETS; bucket++) {
        int64_t end = redlock_histogram_bound(bucket);
        cr_assert_gt(end, from);
        cr_assert_eq(rl_histogram_bucket(from), bucket);
        cr_assert_eq(rl_histogram_bucket(end - 1), bucket);
        cr_assert(end - from == 1 || 4 * (end - from) <= from, "bucket %u", bucket);
        from = end;
    }
    cr_assert_eq(from, RL_HISTOGRAM_MOST + 1);
    cr_assert_eq(redlock_histogram_bound(REDLOCK_BUCKETS), REDLOCK_UNKNOWN);
}

Test(client_histogram, longer_values_count_as_the_longest)
{
    redlock_histogram histogram = {0};
    cr_assert_eq(redlock_histogram_quantile(&histogram, 0.5), REDLOCK_UNKNOWN, "no value");
    rl_histogram_add(&histogram, RL_HISTOGRAM_MOST + 1);
    rl_histogram_add(&histogram, INT64_MAX);
    rl_histogram_add(&histogram, -1);
    rl_histogram_add(&histogram, INT64_MIN);
    cr_assert_eq(histogram.bucket[REDLOCK_BUCKETS - 1], 4);
}
