/* What a run of redlock bench measured, and what follows from it for other sets of nodes.
 */
#ifndef CLI_TALLY_H
#define CLI_TALLY_H

#include "cycle.h"
#include "gap.h"
#include "histogram.h"
#include "timeline.h"

/*
 * How long acquires would take, in us; `never` of them would not be held, and of `untimed`
 * it is only known that they would. By weight.
 */
struct tally_model {
    struct histogram latency;
    uint64_t never, untimed;
};

struct tally_node {
    uint64_t asked, granted, refused, silent, broken, absent, ready;
    uint64_t last; /* how often its grant was the q-th: the one that the lock waited for */
    struct histogram latency;   /* of its grants, us */
    struct tally_model without; /* it is configured, but does not answer */
    const char *fault;          /* the last one, in words; NULL: it always granted */
    bool failing;               /* in the last cycle */
    struct gap gap;             /* in its grants */
};

#define TALLY_CODES (REDLOCK_LOOP + 1)

struct tally {
    unsigned n, q;
    uint64_t cycles, held;
    uint64_t not_acquired[TALLY_CODES]; /* by the code that was told */
    uint64_t not_released[TALLY_CODES];
    int64_t began_us; /* of CLOCK_MONOTONIC; set from outside */
    int64_t elapsed_us;
    struct histogram acquire, release, valid; /* us, us, ms */
    struct tally_node node[REDLOCK_NODES_MAX];
    struct tally_model all;                      /* of the nodes' own times alone */
    struct tally_model fewer[REDLOCK_NODES_MAX]; /* [m]: m of the nodes, any m as likely */
    uint64_t share[REDLOCK_NODES_MAX][REDLOCK_NODES_MAX]; /* orders_share() by m and k */
    struct timeline timeline;
    struct gap gap; /* in locks that are held */
};

/* False: no memory. */
bool tally_init(struct tally *tally, unsigned n, unsigned q);
void tally_free(struct tally *tally);

void tally_take(struct tally *tally, const struct cycle *cycle);

/* The last lane has ended; `elapsed_us` since the beginning. */
void tally_end(struct tally *tally, int64_t elapsed_us);

#endif
