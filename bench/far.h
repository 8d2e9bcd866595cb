/*
 * A client and nodes that are far from it, in virtual time: the lease and the links are
 * those of the library, put together by the world of the stories; here are the ways between
 * them, and nodes that go and come back.
 */
#ifndef RL_BENCH_FAR_H
#define RL_BENCH_FAR_H

#include "chance.h"
#include "world.h"

/* A message takes half of the round trip, and some more: exponential, of this mean. */
#define FAR_JITTER_SHARE 20 /* a part of its way */
#define FAR_JITTER_MORE  50 /* and us */

/* One that is lost comes again so much later, and a round trip. */
#define FAR_RETRANSMISSION (200 * RL_MS)

#define FAR_HOLD      (500 * RL_MS) /* how long a lock is held */
#define FAR_LOCKS_GAP RL_SECOND

struct far_terms {
    unsigned n;
    rl_time round_trip[RL_NODES_MAX];
    unsigned loss;      /* one message of so many is lost; 0: none */
    rl_time mtbf, mttr; /* the means of exponential times; 0: nodes do not fail by chance */
    rl_time ttl, quarantine;
};

struct far_node {
    bool up;
    bool silent;                   /* while it is not up, nobody is told so */
    rl_time turns;                 /* when it goes or comes back; RL_NEVER: not by chance */
    rl_time cut;                   /* when the client sees that the connection is reset */
    rl_time step;                  /* when the next step of connecting is done */
    rl_time there, back;           /* what follows on the connection arrives no sooner */
    rl_time arrives[WORLD_ORDERS]; /* when the answers do that it owes */
    unsigned owed;
    bool stores; /* the token */
};

struct far {
    struct far_terms terms;
    struct chance chance;
    struct world world;
    struct far_node node[RL_NODES_MAX];
};

/* How one lock went. */
struct far_lock {
    bool held, released;
    rl_time acquire, release; /* until the caller is told */
    rl_time left;             /* of its validity, as it is told */
};

/* All nodes are up and greeted. */
void far_init(struct far *far, const struct far_terms *terms, uint64_t seed);

/* These nodes are cut off, for good and without a word. */
void far_lose(struct far *far, rl_nodes nodes);

/* Lets time pass. */
void far_wait(struct far *far, rl_time span);

/* Acquires a key that nobody else wants, once, and gives it back. */
struct far_lock far_lock(struct far *far);

#endif
