/*
 * What acquires would have taken with other nodes, computed from the cycles of a history.
 * Pure.
 */
#ifndef CLI_WHATIF_H
#define CLI_WHATIF_H

#include "bench/result.h"
#include "history.h"

struct whatif {
    unsigned nodes, quorum;              /* up to ORDER_STATS_MAX */
    bool without[REDLOCK_NODES_MAX];     /* the node is configured, and never replies */
    int64_t shift_us[REDLOCK_NODES_MAX]; /* is added to each time of the node */
};

/* What was measured: `n` nodes. */
void whatif_init(struct whatif *whatif, unsigned n, unsigned quorum);

/*
 * Sets the shift of a node so that its median from cycle `first` on becomes `rtt_us`. It
 * stays 0 if the node has never granted. False: no memory.
 */
bool whatif_move(struct whatif *whatif, const struct history *history, size_t first,
                 unsigned node, int64_t rtt_us);

/*
 * Computes the acquires of the cycles from `first` on. With fewer nodes than were measured:
 * all sets of so many nodes, with equal weight. With more: each added node replies as a
 * measured one did at another time. The caller frees model->latency. False: no memory.
 */
bool whatif_compute(const struct whatif *whatif, const struct history *history,
                    size_t first, struct bench_result_model *model);

#endif
