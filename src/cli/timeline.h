/*
 * A run over its time, in so many intervals of one length: when they are used up, each two
 * become one. Pure.
 */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "histogram.h"

#include <redlock/redlock.h>

#define TIMELINE_SLOTS    256 /* even */
#define TIMELINE_FIRST_MS 10  /* how long an interval is at first */

struct timeline_slot {
    struct histogram acquire;           /* us, coarse; of the cycles that were held */
    uint64_t failed;                    /* cycles that were not */
    uint32_t silent[REDLOCK_NODES_MAX]; /* per node: no answer in time */
    uint32_t other[REDLOCK_NODES_MAX];  /* per node: no grant, for another reason */
};

struct timeline {
    int64_t interval_ms;
    size_t used; /* up to the last one that has something */
    struct timeline_slot slot[TIMELINE_SLOTS];
};

/* False: no memory. */
bool timeline_init(struct timeline *timeline);
void timeline_free(struct timeline *timeline);

/* The slot of this time since the beginning, for whoever has something to note. */
struct timeline_slot *timeline_slot(struct timeline *timeline, int64_t at_us);

#endif
