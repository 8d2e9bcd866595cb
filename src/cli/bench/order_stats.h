/*
 * Order statistics: computes the time of a quorum from the time of each node. A lock is
 * held when the q-th fastest node has granted it; later grants do not matter. Pure.
 */
#ifndef CLI_ORDER_STATS_H
#define CLI_ORDER_STATS_H

#include <stdint.h>

#define ORDER_STATS_MAX     32
#define ORDER_STATS_NEVER   INT64_MAX       /* the node did not grant */
#define ORDER_STATS_UNKNOWN (INT64_MAX - 1) /* it would have granted, but was not asked */

/* The nodes of one cycle, the fastest first. */
struct order_stats {
    unsigned n;
    unsigned node[ORDER_STATS_MAX];
    int64_t latency[ORDER_STATS_MAX]; /* of node[i] */
};

void order_stats_sort(struct order_stats *order_stats, const int64_t *latency, unsigned n);

/*
 * The time at which the q-th node granted: of all nodes, and of all but `gone` with the
 * same q.
 */
int64_t order_stats_quorum(const struct order_stats *order_stats, unsigned q);
int64_t order_stats_without(const struct order_stats *order_stats, unsigned q,
                            unsigned gone);

unsigned order_stats_majority(unsigned n);

/*
 * order_stats_sets(): the number of sets of m nodes among n. order_stats_share(): in how
 * many of them the k-th fastest of the n, counted from 0, is the q-th fastest. So the time
 * of m of n nodes, with equal weight for all sets, is known without enumerating the sets.
 */
uint64_t order_stats_sets(unsigned n, unsigned m);
uint64_t order_stats_share(unsigned n, unsigned m, unsigned q, unsigned k);

#endif
