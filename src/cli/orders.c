#include "orders.h"

void orders_sort(struct orders *orders, const int64_t *latency, unsigned n)
{
    orders->n = n;
    for (unsigned i = 0; i < n; i++) {
        unsigned at = i;
        for (; at > 0 && orders->latency[at - 1] > latency[i]; at--) {
            orders->latency[at] = orders->latency[at - 1];
            orders->node[at] = orders->node[at - 1];
        }
        orders->latency[at] = latency[i];
        orders->node[at] = i;
    }
}

int64_t orders_quorum(const struct orders *orders, unsigned q)
{
    return q <= orders->n ? orders->latency[q - 1] : ORDERS_NEVER;
}

int64_t orders_without(const struct orders *orders, unsigned q, unsigned gone)
{
    for (unsigned i = 0; i < q && i < orders->n; i++)
        if (orders->node[i] == gone)
            return orders_quorum(orders, q + 1);
    return orders_quorum(orders, q);
}

unsigned orders_majority(unsigned n)
{
    return n / 2 + 1;
}

/* Each product is divided as soon as it can be, so it stays small up to ORDERS_MAX. */
uint64_t orders_sets(unsigned n, unsigned m)
{
    uint64_t sets = m <= n;
    for (unsigned i = 0; i < m && m <= n; i++)
        sets = sets * (n - i) / (i + 1);
    return sets;
}

/* One less than the majority are faster, and the rest of the m is slower. */
uint64_t orders_share(unsigned n, unsigned m, unsigned k)
{
    unsigned q = orders_majority(m);
    return orders_sets(k, q - 1) * orders_sets(n - 1 - k, m - q);
}
