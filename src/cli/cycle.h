/* One cycle of redlock bench: a lock is acquired and released. */
#ifndef CLI_CYCLE_H
#define CLI_CYCLE_H

#include <redlock/redlock.h>

/* How one node answered the acquire. */
enum cycle_answer {
    CYCLE_WAITING, /* it has not yet */
    CYCLE_GRANTED,
    CYCLE_REFUSED, /* an error, or another's key */
    CYCLE_SILENT,  /* not within its time, or too late */
    CYCLE_BROKEN,  /* the connection ended first */
    CYCLE_ABSENT,  /* it could not be asked: no connection, or no vote */
    CYCLE_READY,   /* it could, but was not: too few others could */
};

struct cycle_node {
    enum cycle_answer answer;
    int64_t latency_us; /* from asking to the answer; -1: none */
    const char *fault;  /* in words, as long as the client lives; of any but a grant */
};

struct cycle {
    unsigned lane;
    bool counted;            /* it began after the warm-up */
    int64_t begun_us;        /* of CLOCK_MONOTONIC */
    int64_t acquire_us;      /* from the call to its callback */
    int64_t release_us;      /* the same; -1: it was not held */
    redlock_result acquired; /* as it was told */
    redlock_code released;
    struct cycle_node node[REDLOCK_NODES_MAX];
};

static inline bool cycle_is_held(const struct cycle *cycle)
{
    return cycle->acquired.code == REDLOCK_OK;
}

/* ORDERS_NEVER where it was not granted, ORDERS_UNKNOWN where it would have been. */
int64_t cycle_latency(const struct cycle_node *node);

/*
 * Of a cycle that was not held: less than q nodes granted in time, so of more than those
 * only the fastest can have been that. What others granted later is as if they had not.
 */
void cycle_drop_late(struct cycle *cycle);

#endif
