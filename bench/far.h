/*
 * A client and distant nodes, in virtual time: the library on the simulated network and
 * servers of test/sim, and nodes that fail and return.
 */
#ifndef RL_BENCH_FAR_H
#define RL_BENCH_FAR_H

#include "core/types.h"
#include "redlock/redlock.h"
#include "sim/virtual/node.h"
#include "sim/virtual/process.h"

/* A message takes half of the round trip, plus an exponential time with this mean. */
#define FAR_JITTER_SHARE 20 /* a share of the delay */
#define FAR_JITTER_MORE  (50 * VIRTUAL_US)

/* A lost message is sent again so much later, plus a round trip. */
#define FAR_RETRANSMISSION (200 * VIRTUAL_MS)

#define FAR_HOLD      (500 * RL_MS) /* how long a lock is held */
#define FAR_LOCKS_GAP RL_SECOND

struct far_terms {
    unsigned n;
    rl_time round_trip[RL_NODES_MAX];
    unsigned loss;      /* one of this many messages is lost; 0: none */
    rl_time mtbf, mttr; /* the means of exponential times; 0: nodes never fail */
    rl_time ttl;
    bool durable; /* a node that returns may vote at once */
};

struct far_node {
    struct node node;
    const struct far_terms *terms;
    struct event turn; /* it fails or returns */
};

struct far {
    struct far_terms terms;
    struct far_node node[RL_NODES_MAX];
    struct process process;
    redlock_client *client;
    redlock_lease *lease;
    redlock_result result; /* of the last callback */
    bool is_told;          /* it has come */
};

/* The result of one lock. */
struct far_lock {
    bool held, released;
    rl_time acquire, release; /* until the report */
    rl_time left;             /* of the reported validity */
};

/* All nodes are up and greeted; far_end() ends it. */
void far_begin(struct far *far, const struct far_terms *terms, uint64_t seed);
void far_end(struct far *far);

/* These nodes are cut off, for ever and without a reset. */
void far_lose(rl_node_set nodes);

/* Lets time pass. */
void far_wait(rl_time span);

/* Acquires an uncontended key once, and releases it. */
struct far_lock far_lock(struct far *far);

#endif
