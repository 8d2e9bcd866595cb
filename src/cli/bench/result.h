/* The results of a run of redlock bench, and what they imply for other sets of nodes. */
#ifndef CLI_RESULT_H
#define CLI_RESULT_H

#include "cycle.h"
#include "histogram.h"
#include "outage.h"
#include "timeline.h"

/*
 * The modelled time of acquires, in us. `never`: acquires that would not be held.
 * `untimed`: acquires that would be held after an unknown time. All are weights.
 */
struct bench_result_model {
    struct histogram latency;
    uint64_t never, untimed;
};

struct bench_result_node {
    uint64_t asked, granted, refused, silent, broken, absent, ready;
    uint64_t last; /* how often its grant was the q-th, which completed the quorum */
    struct histogram latency; /* of its grants, us */
    struct bench_result_model
        without;          /* the model if this node is configured but does not reply */
    const char *fault;    /* the last fault, in words; NULL: it always granted */
    bool failing;         /* it did not grant in the last cycle */
    struct outage outage; /* the time without its grants */
};

struct bench_result {
    unsigned n, q;
    uint64_t cycles, held;
    uint64_t not_acquired[CYCLE_CODES]; /* by result code */
    uint64_t not_released[CYCLE_CODES];
    int64_t began_us; /* of CLOCK_MONOTONIC; set by the caller */
    int64_t elapsed_us;
    struct histogram acquire, release, valid; /* us, us, ms */
    struct bench_result_node node[REDLOCK_NODES_MAX];
    struct bench_result_model all; /* from the nodes' times only */
    struct bench_result_model
        fewer[REDLOCK_NODES_MAX]; /* [m]: any m of the nodes, all sets with equal weight */
    uint64_t share[REDLOCK_NODES_MAX]
                  [REDLOCK_NODES_MAX]; /* order_stats_share() of a majority by m and k */
    struct timeline timeline;
    struct outage outage; /* the time in which no lock was held */
};

/* False: no memory. */
bool bench_result_init(struct bench_result *bench_result, unsigned n, unsigned q);
void bench_result_free(struct bench_result *bench_result);

/* Adds an acquire: its time, or ORDER_STATS_NEVER or ORDER_STATS_UNKNOWN. */
void bench_result_model_add(struct bench_result_model *model, int64_t latency,
                            uint64_t weight);

void bench_result_take(struct bench_result *bench_result, const struct cycle *cycle);

/* Call it when the last worker has ended; `elapsed_us` is the time since the beginning. */
void bench_result_end(struct bench_result *bench_result, int64_t elapsed_us);

#endif
