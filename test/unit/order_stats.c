/* Order statistics, against looking at each set of nodes. */
#include <criterion/criterion.h>

#include "cli/bench/order_stats.h"
#include "prng.h"

#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition))                                                                  \
            cr_assert(condition, __VA_ARGS__);                                             \
    } while (0)

/* By definition: at most q - 1 of the set are faster, and at least q are as fast. */
static int64_t quorum_of(const int64_t *latency, unsigned n, uint32_t set, unsigned q)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned faster = 0, as_fast = 0;
        for (unsigned k = 0; k < n; k++) {
            faster += (set >> k & 1) && latency[k] < latency[i];
            as_fast += (set >> k & 1) && latency[k] <= latency[i];
        }
        if ((set >> i & 1) && faster < q && as_fast >= q)
            return latency[i];
    }
    return ORDER_STATS_NEVER;
}

/* Some never grant, and some are as fast as others. */
static void draw(struct prng *prng, int64_t *ret_latency, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        ret_latency[i] =
            prng_below(prng, 5) ? (int64_t)prng_below(prng, 8) : ORDER_STATS_NEVER;
}

Test(order_stats, sorting_keeps_the_nodes_and_puts_the_fastest_first)
{
    struct prng prng = {1};
    for (unsigned run = 0; run < 20000; run++) {
        int64_t latency[ORDER_STATS_MAX];
        struct order_stats order_stats;
        unsigned n = 1 + prng_below(&prng, ORDER_STATS_MAX);
        uint32_t seen = 0;
        draw(&prng, latency, n);
        order_stats_sort(&order_stats, latency, n);
        for (unsigned i = 0; i < n; i++) {
            seen |= UINT32_C(1) << order_stats.node[i];
            CHECK(order_stats.latency[i] == latency[order_stats.node[i]], "run %u", run);
            CHECK(i == 0 || order_stats.latency[i - 1] <= order_stats.latency[i], "run %u",
                  run);
        }
        CHECK(__builtin_popcount(seen) == (int)n, "run %u", run);
    }
}

Test(order_stats, the_quorum_of_all_and_without_each)
{
    struct prng prng = {2};
    for (unsigned run = 0; run < 20000; run++) {
        int64_t latency[ORDER_STATS_MAX];
        struct order_stats order_stats;
        unsigned n = 1 + prng_below(&prng, 9), q = 1 + prng_below(&prng, n);
        uint32_t all = (UINT32_C(1) << n) - 1;
        draw(&prng, latency, n);
        order_stats_sort(&order_stats, latency, n);
        CHECK(order_stats_quorum(&order_stats, q) == quorum_of(latency, n, all, q),
              "run %u", run);
        for (unsigned gone = 0; gone < n; gone++)
            CHECK(order_stats_without(&order_stats, q, gone) ==
                      quorum_of(latency, n, all & ~(UINT32_C(1) << gone), q),
                  "run %u, without %u", run, gone);
    }
}

/* Which of the n, sorted by their speed, completes the majority of the set. */
static unsigned completes(unsigned n, uint32_t set, unsigned q)
{
    unsigned seen = 0;
    for (unsigned k = 0; k < n; k++)
        if ((set >> k & 1) && ++seen == q)
            return k;
    return n;
}

Test(order_stats, shares_equal_an_enumeration_of_all_sets_of_up_to_12_nodes)
{
    for (unsigned n = 1; n <= 12; n++) {
        uint64_t share[13][13] = {{0}}, sets[13] = {0};
        for (uint32_t set = 1; set < UINT32_C(1) << n; set++) {
            unsigned m = (unsigned)__builtin_popcount(set);
            sets[m]++;
            share[m][completes(n, set, order_stats_majority(m))]++;
        }
        for (unsigned m = 1; m <= n; m++) {
            CHECK(order_stats_sets(n, m) == sets[m], "%u of %u", m, n);
            for (unsigned k = 0; k < n; k++)
                CHECK(order_stats_share(n, m, order_stats_majority(m), k) == share[m][k],
                      "%u of %u, %u", m, n, k);
        }
    }
}

Test(order_stats, shares_add_up_to_all_sets_with_the_most_nodes)
{
    for (unsigned n = 1; n <= ORDER_STATS_MAX; n++) {
        cr_assert_eq(order_stats_sets(n, n), 1);
        cr_assert_eq(order_stats_sets(n, n + 1), 0);
        for (unsigned m = 1; m <= n; m++) {
            uint64_t sum = 0;
            for (unsigned k = 0; k < n; k++)
                sum += order_stats_share(n, m, order_stats_majority(m), k);
            cr_assert_eq(sum, order_stats_sets(n, m), "%u of %u", m, n);
        }
    }
    cr_assert_eq(order_stats_sets(32, 16), 601080390);
}
