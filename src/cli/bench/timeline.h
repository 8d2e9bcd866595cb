/*
 * A run over time, in a fixed number of intervals of equal length. When all intervals are
 * used, each two are merged into one. Pure.
 */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "cycle.h"
#include "histogram.h"

#define TIMELINE_SLOTS    256 /* must be even */
#define TIMELINE_FIRST_MS 10  /* the length of an interval at first */

struct timeline_slot {
    struct histogram acquire, release; /* us, coarse; of the cycles that were held */
    struct histogram qth;              /* the time of the node that completed the quorum */
    struct histogram grant[REDLOCK_NODES_MAX]; /* per node */
    int64_t valid_least;                       /* ms; of the cycles that were held */
    uint64_t failed;                           /* cycles that were not held */
    uint64_t code[CYCLE_CODES];                /* why */
    uint32_t silent[REDLOCK_NODES_MAX];        /* per node: no answer in time */
    uint32_t other[REDLOCK_NODES_MAX];         /* per node: no grant, for another reason */
};

struct timeline {
    unsigned n; /* nodes */
    int64_t interval_ms;
    size_t used; /* up to the last slot that has data */
    struct timeline_slot slot[TIMELINE_SLOTS];
};

/* False: no memory. */
bool timeline_init(struct timeline *timeline, unsigned n);
void timeline_free(struct timeline *timeline);

/* The slot for this time since the beginning; the caller adds its data to it. */
struct timeline_slot *timeline_slot(struct timeline *timeline, int64_t at_us);

#endif
