/*
 * A client's estimate of the time of the nodes. Fences are microseconds of the nodes'
 * clocks, so the time of day of a client does not matter.
 */
#ifndef RL_FENCE_H
#define RL_FENCE_H

#include "types.h"

/* No node can report a later time, us: what is computed from it cannot overflow. */
#define RL_NODE_TIME_MAX (RL_NEVER / 2)

struct rl_node_time {
    rl_time ahead; /* how far it is ahead of our clock, if `known` */
    bool known;
};

/* A node reported its time in a reply; `sent` and `received` are times of our clock. */
void rl_node_time_note(struct rl_node_time *time, rl_time sent, rl_time received,
                       rl_time reported);

/*
 * The node with the median offset; for an even number, the lower of the two in the middle.
 * n: no offset is known.
 */
unsigned rl_node_time_middle(const struct rl_node_time *time, unsigned n);

/*
 * Our clock plus the median of the nodes' offsets. A single node whose clock was set ahead
 * must not determine the fences: if it forgot a fence, an older command would not be LATE
 * there. 0: no offset is known.
 */
rl_time rl_node_time_median(const struct rl_node_time *time, unsigned n, rl_time now);

/* A client that reserves several fences proposes the last one, and nodes store the last
   one. These convert between the first and the last. */
int64_t rl_fence_last(int64_t first, unsigned fences);
int64_t rl_fence_first(int64_t last, unsigned fences);

#endif
