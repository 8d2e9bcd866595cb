/*
 * The plan of one run, drawn from its seed, so that runs differ in kind and not only in
 * detail. Each fault is left out of about half of them: what is calm in one respect gets
 * further in the others. Source: Groce and others, Swarm Testing, ISSTA 2012.
 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include "core/types.h"
#include "virtual/events.h"

#define NODES_MAX     7
#define SPARES        3 /* servers that are behind no address of the nodes at first */
#define SERVERS_MAX   (NODES_MAX + SPARES)
#define USING_MAX     6               /* clients that want locks */
#define CLIENTS_MAX   (USING_MAX + 1) /* and an operator's */
#define USERS_MAX     2               /* of a client: each wants one lock at a time */
#define RESOURCES_MAX 4

#define FAULTS(X)                                                                          \
    X(PAUSE, "a client's process is stopped for a while")                                  \
    X(SUSPEND, "a client's machine is suspended")                                          \
    X(CRASH, "a client dies, and comes back as a new process")                             \
    X(STALL, "a client is stopped in the middle of a call")                                \
    X(TIMER, "a client's timers fire too early")                                           \
    X(MEMORY, "a client's allocations fail")                                               \
    X(RANDOM, "a client gets no random numbers")                                           \
    X(BLOCK, "a path is blocked, one way or both")                                         \
    X(PARTITION, "some clients are separated from some servers")                           \
    X(CUT, "a connection is reset from outside")                                           \
    X(HALF, "a connection is half-closed: its server goes on reading")                     \
    X(VANISH, "a subscription's connection is lost, and neither side is told")             \
    X(SPIKE, "a message is slow")                                                          \
    X(LOSS, "a message is lost, and sent again")                                           \
    X(SPLIT, "a message arrives in two parts")                                             \
    X(ROOM, "sockets accept only a few bytes at a time")                                   \
    X(NAME, "names resolve late, to dead addresses, too, or not at all")                   \
    X(STOP, "a server hangs, and reads later what it was sent")                            \
    X(RESTART, "a server restarts with all its data")                                      \
    X(FORGET, "a server restarts without its data, or without the latest")                 \
    X(FLUSH, "FLUSHALL")                                                                   \
    X(BREAK, "a key is deleted by hand")                                                   \
    X(FOREIGN, "another program's value, or a list, is in a key")                          \
    X(SCRIPTS, "SCRIPT FLUSH")                                                             \
    X(UNLOAD, "SCRIPT FLUSH and slow replies, and another server forgets")                 \
    X(REFUSE, "a server replies with errors for a while")                                  \
    X(RIGHT, "a script ends in the middle, because a right is missing")                    \
    X(GARBAGE, "a server replies what cannot be a reply")                                  \
    X(DEMOTE, "a server is a replica for a while, or in a cluster")                        \
    X(STEP, "a server's clock is stepped")                                                 \
    X(SLEW, "the rate of a clock changes")                                                 \
    X(FREEZE, "a server's clock stands still")                                             \
    X(SWAP, "another server takes over an address, and the old one lives on")              \
    X(REPLACE, "an operator replaces a node by another server")                            \
    X(TYPO, "a client's list of nodes names a wrong server")                               \
    X(RECOVERY, "a majority forgets, and an operator recovers")                            \
    X(AWAY, "an operator replaces a node while another one is away")                       \
    X(ABSENT, "a server's clock is set while a client is disconnected")

enum fault {
#define X(name, text) FAULT_##name,
    FAULTS(X)
#undef X
        FAULT_COUNT,
    FAULT_COMMON = FAULT_RECOVERY, /* runs of KIND_MEMBERS only have the rest */
};

const char *fault_name(enum fault fault);
const char *fault_text(enum fault fault);

/* A run that does no more than a model of docs/model has: test/traces plays it there. */
enum model { MODEL_NONE, MODEL_ROUND, MODEL_MARKER };

/* Parts left out of a run, to make it shorter. */
struct cut {
    enum model model;
    uint64_t events;  /* the storm has no more; 0: as drawn */
    uint64_t without; /* a set of faults */
};

_Static_assert(FAULT_COUNT <= 64, "a bit of `without` for each");

/* Kinds of locks, or of events, of a run: each seed has one. */
#define KINDS(X)                                                                           \
    X(SINGLE, "single")                                                                    \
    X(SET, "set")                                                                          \
    X(REDISSON, "redisson")                                                                \
    X(SHARED, "shared")                                                                    \
    X(SLOT, "slot")                                                                        \
    X(MEMBERS, "members") /* fenced ones, whose members change: see draw_changes() */

enum kind {
#define X(name, text) KIND_##name,
    KINDS(X)
#undef X
        KIND_COUNT,
};

/* All times in ns. */
struct plan {
    enum kind kind;
    unsigned semaphores; /* of slots: the resources are shared out among so many */
    unsigned clients, users, resources, n, q;
    unsigned spares;
    unsigned events; /* of the storm */
    uint32_t drift_ppm;
    int64_t ttl_min, ttl_max;
    int64_t node_timeout; /* 0: it follows the round trip */
    int64_t near, far;    /* the shortest way to a server, and the longest */
    int64_t gap;          /* between two faults, about */
    int64_t service;      /* that a server works on a command; 0: none */
    size_t window;        /* of a client at a node; 0: the library's */
    bool queues;          /* users wait in queues, and are notified */
    bool fenced;          /* the locks are */
    bool elects;          /* they are elections */
    bool records;         /* locks become records, which outlast ttl_max */
    bool distant;         /* the clocks of one or two of its servers are set by hours */
    rl_node_set victims;  /* those */
    bool hasty;           /* time daemons slew their clients' clocks */
    bool unadmitted;      /* the deployment is yet to be admitted */
    bool slow;            /* it lasts long, so that quarantines end and begin again */
    int64_t idle;         /* users rest for so long now and then; 0: they do not */
    bool recovers;        /* it has RECOVERY, AWAY and ABSENT, and users rest in between */
    bool durable;         /* the nodes are declared so: no quarantine */
    bool automatic;       /* their clients know no max_ttl_ms but from the TTLs they use */
    uint32_t promises;    /* of the operator, in the first markers */
    bool duplicate;       /* two of the nodes are the same server */
    bool wild;            /* the clocks leave the bounds, by so much */
    int32_t beyond_ppm;
    enum model model;
    bool each;          /* in the calm each of the clients must acquire, not only one */
    bool named;         /* clients know the nodes by names */
    bool notify_faults; /* notifications are lost, late and come twice */
    unsigned weight[FAULT_COUNT], weights;
};

/* Something may happen after which a node has to get its vote back. */
bool plan_disturbs(const struct plan *plan);

enum kind plan_kind(uint64_t seed);
bool plan_find_kind(const char *name, enum kind *ret_kind); /* false: there is none */

bool plan_find_model(const char *name, enum model *ret_model); /* name may be NULL */

void plan_draw(struct plan *plan, uint64_t seed);
void plan_cut(struct plan *plan, const struct cut *cut);

/* The loss of a client's clock, and the gain of a server's: both use up the drift. */
int32_t plan_loss(const struct plan *plan);
int32_t plan_gain(const struct plan *plan);

/* The longest TTL that a client counts on when a node has restarted. */
int64_t plan_known_ttl(const struct plan *plan);

#endif
