/* One cycle of redlock bench: a lock is acquired and released. */
#ifndef CLI_CYCLE_H
#define CLI_CYCLE_H

#include <redlock/redlock.h>

/* The reply of one node to the acquire. */
enum cycle_answer {
    CYCLE_WAITING, /* no reply yet */
    CYCLE_GRANTED,
    CYCLE_REFUSED, /* an error, or another client's key */
    CYCLE_SILENT,  /* no reply within its time, or too late */
    CYCLE_BROKEN,  /* the connection ended first */
    CYCLE_ABSENT,  /* not asked: no connection, or no vote */
    CYCLE_READY,   /* ready but not asked: too few other nodes were ready */
};

#define CYCLE_CODES (REDLOCK_WOULD_DEADLOCK + 1)

struct cycle_node {
    enum cycle_answer answer;
    int64_t latency_us; /* from the request to the reply; -1: none */
    const char *fault;  /* text, for any answer but a grant; lives as long as the client */
};

struct cycle {
    unsigned worker;
    bool counted;            /* it began after the warm-up */
    int64_t begun_us;        /* of CLOCK_MONOTONIC */
    int64_t acquire_us;      /* from the call to its callback */
    int64_t release_us;      /* the same; -1: the lock was not held */
    redlock_result acquired; /* as reported to the callback */
    redlock_code released;
    struct cycle_node node[REDLOCK_NODES_MAX];
};

static inline bool cycle_is_held(const struct cycle *cycle)
{
    return cycle->acquired.code == REDLOCK_OK;
}

/*
 * ORDER_STATS_NEVER if the node did not grant, ORDER_STATS_UNKNOWN if it would have
 * granted.
 */
int64_t cycle_latency(const struct cycle_node *node);

/*
 * For a cycle that was not held: fewer than q nodes granted in time. So if q or more grants
 * are recorded, only the fastest q - 1 can have been in time; all later ones count as not
 * granted.
 */
void cycle_drop_late(struct cycle *cycle);

#endif
