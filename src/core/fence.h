/*
 * The time of the nodes, as a client estimates it: fences are microseconds of their clocks,
 * so that no client's time of day matters.
 */
#ifndef RL_FENCE_H
#define RL_FENCE_H

#include "types.h"

struct rl_node_time {
    rl_time ahead; /* of our clock; meaningful if `known` */
    bool known;
};

/* A node told its time in an answer that we heard at `heard` to what we sent at `sent`. */
void rl_node_time_note(struct rl_node_time *time, rl_time sent, rl_time heard,
                       rl_time told);

/*
 * Our clock plus the median of what the nodes are ahead, the lower one of two: one that was
 * set ahead must not make the fences, or what it forgot would not be LATE there. 0: none is
 * known.
 */
rl_time rl_nodes_now(const struct rl_node_time *time, unsigned n, rl_time now);

/* Of so many fences that are reserved, nodes are proposed and store the last. */
int64_t rl_fence_last(int64_t first, unsigned fences);
int64_t rl_fence_first(int64_t last, unsigned fences);

#endif
