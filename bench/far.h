/*
 * A client and distant nodes, in virtual time: the lease and the links are those of the
 * library, put together by the world of the stories; this file adds network delays, and
 * nodes that fail and return.
 */
#ifndef RL_BENCH_FAR_H
#define RL_BENCH_FAR_H

#include "prng.h"
#include "world.h"

/* A message takes half of the round trip, plus an exponential time with this mean. */
#define FAR_JITTER_SHARE 20 /* a share of the delay */
#define FAR_JITTER_MORE  50 /* plus us */

/* A lost message is sent again so much later, plus a round trip. */
#define FAR_RETRANSMISSION (200 * RL_MS)

#define FAR_HOLD      (500 * RL_MS) /* how long a lock is held */
#define FAR_LOCKS_GAP RL_SECOND

struct far_terms {
    unsigned n;
    rl_time round_trip[RL_NODES_MAX];
    unsigned loss;      /* one of this many messages is lost; 0: none */
    rl_time mtbf, mttr; /* the means of exponential times; 0: nodes never fail */
    rl_time ttl, quarantine;
};

struct far_node {
    bool up;
    bool silent;   /* no reset reports a node that is down */
    rl_time turns; /* when it fails or returns; RL_NEVER: not at random */
    /* when the client notices that the connection is reset */
    rl_time cut;
    rl_time step;                   /* when the next step of connecting is done */
    rl_time there, back;            /* what follows on the connection arrives no sooner */
    rl_time arrives[WORLD_PENDING]; /* when its pending replies arrive */
    unsigned pending;
    bool stores; /* the token */
};

struct far {
    struct far_terms terms;
    struct prng prng;
    struct world world;
    struct far_node node[RL_NODES_MAX];
};

/* The result of one lock. */
struct far_lock {
    bool held, released;
    rl_time acquire, release; /* until the report */
    rl_time left;             /* of the reported validity */
};

/* All nodes are up and greeted. */
void far_init(struct far *far, const struct far_terms *terms, uint64_t seed);

/* These nodes are cut off, for ever and without a reset. */
void far_lose(struct far *far, rl_node_set nodes);

/* Lets time pass. */
void far_wait(struct far *far, rl_time span);

/* Acquires an uncontended key once, and releases it. */
struct far_lock far_lock(struct far *far);

#endif
