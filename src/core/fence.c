#include "fence.h"

void rl_node_time_note(struct rl_node_time *time, rl_time sent, rl_time heard, rl_time told)
{
    time->ahead = told - (sent + (heard - sent) / 2);
    time->known = true;
}

/* How many of the known ones are ahead by less than the i-th, or stand before it. */
static unsigned rank(const struct rl_node_time *time, unsigned n, unsigned i)
{
    unsigned below = 0;
    for (unsigned j = 0; j < n; j++)
        below += time[j].known && (time[j].ahead < time[i].ahead ||
                                   (time[j].ahead == time[i].ahead && j < i));
    return below;
}

rl_time rl_nodes_now(const struct rl_node_time *time, unsigned n, rl_time now)
{
    unsigned known = 0;
    for (unsigned i = 0; i < n; i++)
        known += time[i].known;
    for (unsigned i = 0; i < n; i++)
        if (time[i].known && rank(time, n, i) == (known - 1) / 2)
            return now + time[i].ahead;
    return 0;
}

int64_t rl_fence_last(int64_t first, unsigned fences)
{
    return first + (int64_t)fences - 1;
}

int64_t rl_fence_first(int64_t last, unsigned fences)
{
    return last - (int64_t)fences + 1;
}
