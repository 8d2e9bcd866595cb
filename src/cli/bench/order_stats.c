#include "order_stats.h"

void order_stats_sort(struct order_stats *order_stats, const int64_t *latency, unsigned n)
{
    order_stats->n = n;
    for (unsigned i = 0; i < n; i++) {
        unsigned at = i;
        for (; at > 0 && order_stats->latency[at - 1] > latency[i]; at--) {
            order_stats->latency[at] = order_stats->latency[at - 1];
            order_stats->node[at] = order_stats->node[at - 1];
        }
        order_stats->latency[at] = latency[i];
        order_stats->node[at] = i;
    }
}

int64_t order_stats_quorum(const struct order_stats *order_stats, unsigned q)
{
    return q <= order_stats->n ? order_stats->latency[q - 1] : ORDER_STATS_NEVER;
}

int64_t order_stats_without(const struct order_stats *order_stats, unsigned q,
                            unsigned gone)
{
    for (unsigned i = 0; i < q && i < order_stats->n; i++)
        if (order_stats->node[i] == gone)
            return order_stats_quorum(order_stats, q + 1);
    return order_stats_quorum(order_stats, q);
}

unsigned order_stats_majority(unsigned n)
{
    return n / 2 + 1;
}

/* Divides each product at once, so that it stays small up to ORDER_STATS_MAX. */
uint64_t order_stats_sets(unsigned n, unsigned m)
{
    uint64_t sets = m <= n;
    for (unsigned i = 0; i < m && m <= n; i++)
        sets = sets * (n - i) / (i + 1);
    return sets;
}

/* q - 1 of the m nodes are faster than k, and the others are slower. */
uint64_t order_stats_share(unsigned n, unsigned m, unsigned q, unsigned k)
{
    return order_stats_sets(k, q - 1) * order_stats_sets(n - 1 - k, m - q);
}
