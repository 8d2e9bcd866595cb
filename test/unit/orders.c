/* Order statistics, against looking at each set of nodes. */
#include <criterion/criterion.h>

#include "chance.h"
#include "cli/orders.h"

#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition))                                                                  \
            cr_assert(condition, __VA_ARGS__);                                             \
    } while (0)

/* By definition: no more than q - 1 of the set are faster, and no less than q as fast. */
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
    return ORDERS_NEVER;
}

/* Some never grant, and some are as fast as others. */
static void draw(struct chance *chance, int64_t *ret_latency, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        ret_latency[i] =
            chance_below(chance, 5) ? (int64_t)chance_below(chance, 8) : ORDERS_NEVER;
}

Test(orders, sorted_are_the_same_nodes_the_fastest_first)
{
    struct chance chance = {1};
    for (unsigned run = 0; run < 20000; run++) {
        int64_t latency[ORDERS_MAX];
        struct orders orders;
        unsigned n = 1 + chance_below(&chance, ORDERS_MAX);
        uint32_t seen = 0;
        draw(&chance, latency, n);
        orders_sort(&orders, latency, n);
        for (unsigned i = 0; i < n; i++) {
            seen |= UINT32_C(1) << orders.node[i];
            CHECK(orders.latency[i] == latency[orders.node[i]], "run %u", run);
            CHECK(i == 0 || orders.latency[i - 1] <= orders.latency[i], "run %u", run);
        }
        CHECK(__builtin_popcount(seen) == (int)n, "run %u", run);
    }
}

Test(orders, the_quorum_of_all_and_without_each)
{
    struct chance chance = {2};
    for (unsigned run = 0; run < 20000; run++) {
        int64_t latency[ORDERS_MAX];
        struct orders orders;
        unsigned n = 1 + chance_below(&chance, 9), q = 1 + chance_below(&chance, n);
        uint32_t all = (UINT32_C(1) << n) - 1;
        draw(&chance, latency, n);
        orders_sort(&orders, latency, n);
        CHECK(orders_quorum(&orders, q) == quorum_of(latency, n, all, q), "run %u", run);
        for (unsigned gone = 0; gone < n; gone++)
            CHECK(orders_without(&orders, q, gone) ==
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

Test(orders, shares_are_what_each_set_of_up_to_12_nodes_says)
{
    for (unsigned n = 1; n <= 12; n++) {
        uint64_t share[13][13] = {{0}}, sets[13] = {0};
        for (uint32_t set = 1; set < UINT32_C(1) << n; set++) {
            unsigned m = (unsigned)__builtin_popcount(set);
            sets[m]++;
            share[m][completes(n, set, orders_majority(m))]++;
        }
        for (unsigned m = 1; m <= n; m++) {
            CHECK(orders_sets(n, m) == sets[m], "%u of %u", m, n);
            for (unsigned k = 0; k < n; k++)
                CHECK(orders_share(n, m, k) == share[m][k], "%u of %u, %u", m, n, k);
        }
    }
}

Test(orders, shares_make_up_all_sets_up_to_the_most_nodes)
{
    for (unsigned n = 1; n <= ORDERS_MAX; n++) {
        cr_assert_eq(orders_sets(n, n), 1);
        cr_assert_eq(orders_sets(n, n + 1), 0);
        for (unsigned m = 1; m <= n; m++) {
            uint64_t sum = 0;
            for (unsigned k = 0; k < n; k++)
                sum += orders_share(n, m, k);
            cr_assert_eq(sum, orders_sets(n, m), "%u of %u", m, n);
        }
    }
    cr_assert_eq(orders_sets(32, 16), 601080390);
}
