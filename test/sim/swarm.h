/*
 * What one run is like: drawn from its seed, so that runs differ in kind and not only in
 * detail. Each sort of mishap is left out of about half of them: what is calm in one
 * respect gets further in the others. Source: Groce and others, Swarm Testing, ISSTA 2012.
 */
#ifndef RL_SIM_SWARM_H
#define RL_SIM_SWARM_H

#include "core/types.h"
#include "prng.h"

#define NODES         5
#define SPARES        3 /* servers that are behind no address of the nodes at first */
#define SERVERS       (NODES + SPARES)
#define USING_MAX     6               /* clients that want locks */
#define CLIENTS_MAX   (USING_MAX + 1) /* and an operator's */
#define USERS_MAX     2               /* of a client: each wants one lock at a time */
#define RESOURCES_MAX 4

#define MISHAPS(X)                                                                         \
    X(PAUSE, "a client's process is stopped for a while")                                  \
    X(SUSPEND, "a client's machine is suspended")                                          \
    X(CRASH, "a client dies, and comes back as a fresh process")                           \
    X(BLOCK, "a path is blocked, one way or both")                                         \
    X(PARTITION, "some clients are parted from some servers")                              \
    X(CUT, "a connection is reset from outside")                                           \
    X(STOP, "a server hangs, and reads later what it was sent")                            \
    X(RESTART, "a server restarts and remembers all")                                      \
    X(FORGET, "a server restarts and forgets all, or the latest")                          \
    X(FLUSH, "FLUSHALL")                                                                   \
    X(BREAK, "somebody deletes a key")                                                     \
    X(FOREIGN, "somebody else's value, or a list, is in a key")                            \
    X(SCRIPTS, "SCRIPT FLUSH")                                                             \
    X(REFUSE, "a server answers with errors for a while")                                  \
    X(GARBAGE, "a server answers what cannot be an answer")                                \
    X(DEMOTE, "a server says for a while that it is a replica, or in a cluster")           \
    X(STEP, "a server's clock is stepped")                                                 \
    X(SLEW, "the rate of a clock changes")                                                 \
    X(FREEZE, "a server's clock stands still")                                             \
    X(SWAP, "another server appears behind an address, and the old one lives on")          \
    X(REPLACE, "an operator replaces a node by another server")                            \
    X(TYPO, "a client's configuration names a wrong server")

enum mishap {
#define X(name, text) MISHAP_##name,
    MISHAPS(X)
#undef X
        MISHAP_COUNT,
};

const char *mishap_text(enum mishap mishap);

struct swarm {
    unsigned clients, users, resources, q;
    unsigned events; /* that the first phase lasts */
    uint32_t drift_ppm;
    rl_time ttl_min, ttl_max;
    rl_time node_timeout; /* 0: follows the round trip */
    rl_time near, far;    /* the least way to a server, and the longest */
    rl_time gap;          /* between two mishaps, about */
    unsigned spike;       /* one message of so many is slow; 0: none */
    unsigned loss;        /* and one is lost and sent again */
    unsigned stall;       /* a client is interrupted in one pass of so many; 0: never */
    bool turns;           /* users take places in queues, and are called */
    unsigned muffle;      /* one call of so many is lost, and some come twice; 0: none */
    bool fenced;          /* the locks are */
    bool distant;         /* the clocks of two of its servers are set by hours */
    rl_node_set victims;  /* those two */
    bool hasty;     /* their clients' clocks run faster than servers' clocks may err */
    bool unfounded; /* the deployment is yet to be made */
    bool slow;      /* they last long, so that quarantines end and are gone through again */
    rl_time idle;   /* users rest for so long now and then; 0: they do not */
    bool durable;   /* the operator declared so: no quarantine */
    bool duplicate; /* two of the nodes are the same server */
    bool wild;      /* the clocks leave the bounds, by so much */
    int32_t beyond_ppm;
    bool each; /* healed, each of the clients is to acquire, not only one */
    unsigned weight[MISHAP_COUNT], weights;
};

/* Something may happen after which a node has to get its vote back. */
bool swarm_disturbs(const struct swarm *swarm);

void swarm_draw(struct swarm *swarm, struct prng *prng);

/* How much a client's clock may lose, and a server's may gain: both use up the drift. */
int32_t swarm_loss(const struct swarm *swarm);
int32_t swarm_gain(const struct swarm *swarm);

/* A number of [low, high]; and one whose magnitude is drawn first. */
rl_time draw_between(struct prng *prng, rl_time low, rl_time high);
rl_time draw_span(struct prng *prng, rl_time low, rl_time high);

/* True once in `times`; 0: never. */
bool draw_once_in(struct prng *prng, unsigned times);

#endif
