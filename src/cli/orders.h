/*
 * Order statistics: how long a quorum takes, from how long each node took. A lock is held
 * when the q-th fastest node has granted it, whoever comes later. Pure.
 */
#ifndef CLI_ORDERS_H
#define CLI_ORDERS_H

#include <stdint.h>

#define ORDERS_MAX     32
#define ORDERS_NEVER   INT64_MAX       /* the node did not grant */
#define ORDERS_UNKNOWN (INT64_MAX - 1) /* it would have, but was not asked */

/* One cycle's nodes, the fastest first. */
struct orders {
    unsigned n;
    unsigned node[ORDERS_MAX];
    int64_t latency[ORDERS_MAX]; /* of node[i] */
};

void orders_sort(struct orders *orders, const int64_t *latency, unsigned n);

/* When the q-th node granted, of all; and of all but `gone`, where q stays as it is. */
int64_t orders_quorum(const struct orders *orders, unsigned q);
int64_t orders_without(const struct orders *orders, unsigned q, unsigned gone);

unsigned orders_majority(unsigned n);

/*
 * How many sets of m nodes there are among n, and in how many of them the k-th fastest of
 * the n, from 0 on, is the one that completes the majority of m. So what m of n nodes take,
 * all sets of them being as likely, is known without looking at each set.
 */
uint64_t orders_sets(unsigned n, unsigned m);
uint64_t orders_share(unsigned n, unsigned m, unsigned k);

#endif
