#include "cycle.h"

#include "orders.h"

int64_t cycle_latency(const struct cycle_node *node)
{
    if (node->answer == CYCLE_READY)
        return ORDERS_UNKNOWN;
    return node->answer == CYCLE_GRANTED ? node->latency_us : ORDERS_NEVER;
}

void cycle_drop_late(struct cycle *cycle)
{
    int64_t latency[REDLOCK_NODES_MAX];
    struct orders orders;
    for (unsigned i = 0; i < cycle->acquired.nodes; i++)
        latency[i] = cycle_latency(&cycle->node[i]);
    orders_sort(&orders, latency, cycle->acquired.nodes);
    for (unsigned i = cycle->acquired.quorum - 1; i < orders.n; i++)
        if (orders.latency[i] < ORDERS_UNKNOWN)
            cycle->node[orders.node[i]] =
                (struct cycle_node){CYCLE_SILENT, -1, "it granted too late"};
}
