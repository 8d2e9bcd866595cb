/* Compares the nodes' times of day. */
#include "health_rules.h"

/*
 * The node's time of day minus the client's clock at the middle of the round trip; and the
 * largest possible error of that.
 */
static int64_t offset_of(const struct rl_probe *probe)
{
    return probe->time - probe->asked - (probe->answered - probe->asked) / 2;
}

static int64_t error_of(const struct rl_probe *probe)
{
    return (probe->answered - probe->asked + 1) / 2;
}

/* The node with the median time, the lower of two; n: no node reported its time. */
static unsigned find_median(const struct rl_probe *probe, unsigned n)
{
    unsigned timed = 0;
    for (unsigned i = 0; i < n; i++)
        timed += probe[i].time != 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned below = 0;
        if (!probe[i].time)
            continue;
        for (unsigned j = 0; j < n; j++)
            below +=
                probe[j].time && (offset_of(&probe[j]) < offset_of(&probe[i]) ||
                                  (offset_of(&probe[j]) == offset_of(&probe[i]) && j < i));
        if (below == (timed - 1) / 2)
            return i;
    }
    return n;
}

void rl_clock_offsets(const struct rl_probe *probe, redlock_node_health *nodes, unsigned n)
{
    unsigned median = find_median(probe, n);
    for (unsigned i = 0; i < n; i++) {
        nodes[i].timed = probe[i].time != 0;
        nodes[i].offset_us = nodes[i].offset_err_us = 0;
        if (!nodes[i].timed || i == median)
            continue;
        nodes[i].offset_us = offset_of(&probe[i]) - offset_of(&probe[median]);
        nodes[i].offset_err_us = error_of(&probe[i]) + error_of(&probe[median]);
    }
}
