#include "fence.h"

void rl_node_time_note(struct rl_node_time *time, rl_time sent, rl_time received,
                       rl_time reported)
{
    time->ahead = reported - (sent + (received - sent) / 2);
    time->known = true;
}

/* The position of known node i in the order of offsets; ties are ordered by index. */
static unsigned rank(const struct rl_node_time *time, unsigned n, unsigned i)
{
    unsigned below = 0;
    for (unsigned j = 0; j < n; j++)
        below += time[j].known && (time[j].ahead < time[i].ahead ||
                                   (time[j].ahead == time[i].ahead && j < i));
    return below;
}

unsigned rl_node_time_middle(const struct rl_node_time *time, unsigned n)
{
    unsigned known = 0;
    for (unsigned i = 0; i < n; i++)
        known += time[i].known;
    for (unsigned i = 0; i < n; i++)
        if (time[i].known && rank(time, n, i) == (known - 1) / 2)
            return i;
    return n;
}

/* (safety.md, The token) */
rl_time rl_node_time_median(const struct rl_node_time *time, unsigned n, rl_time now)
{
    unsigned middle = rl_node_time_middle(time, n);
    return middle < n ? now + time[middle].ahead : 0;
}

/* (safety.md, The token) */
int64_t rl_fence_last(int64_t first, unsigned fences)
{
    return first + (int64_t)fences - 1;
}

int64_t rl_fence_first(int64_t last, unsigned fences)
{
    return last - (int64_t)fences + 1;
}
