/* Compares the nodes' times of day. */
#include "core/fence.h"
#include "health_rules.h"

/* The largest possible error of an offset that is measured over one round trip. */
static int64_t error_of(const struct rl_probe *probe)
{
    return (probe->answered - probe->asked + 1) / 2;
}

void rl_clock_offsets(const struct rl_probe *probe, redlock_node_health *nodes, unsigned n)
{
    struct rl_node_time time[RL_NODES_MAX] = {0};
    for (unsigned i = 0; i < n; i++)
        if (probe[i].time)
            rl_node_time_note(&time[i], probe[i].asked, probe[i].answered, probe[i].time);
    unsigned median = rl_node_time_middle(time, n);
    for (unsigned i = 0; i < n; i++) {
        nodes[i].timed = time[i].known;
        nodes[i].offset_us = nodes[i].offset_err_us = 0;
        if (!nodes[i].timed || i == median)
            continue;
        nodes[i].offset_us = time[i].ahead - time[median].ahead;
        nodes[i].offset_err_us = error_of(&probe[i]) + error_of(&probe[median]);
    }
}
