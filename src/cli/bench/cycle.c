#include "cycle.h"

#include "order_stats.h"

int64_t cycle_latency(const struct cycle_node *node)
{
    if (node->answer == CYCLE_READY)
        return ORDER_STATS_UNKNOWN;
    return node->answer == CYCLE_GRANTED ? node->latency_us : ORDER_STATS_NEVER;
}

void cycle_drop_late(struct cycle *cycle)
{
    int64_t latency[REDLOCK_NODES_MAX];
    struct order_stats order_stats;
    for (unsigned i = 0; i < cycle->acquired.nodes; i++)
        latency[i] = cycle_latency(&cycle->node[i]);
    order_stats_sort(&order_stats, latency, cycle->acquired.nodes);
    for (unsigned i = cycle->acquired.quorum - 1; i < order_stats.n; i++)
        if (order_stats.latency[i] < ORDER_STATS_UNKNOWN)
            cycle->node[order_stats.node[i]] =
                (struct cycle_node){CYCLE_SILENT, -1, "it granted too late"};
}
