#include "whatif.h"

#include "bench/order_stats.h"

#include <assert.h>
#include <string.h>

void whatif_init(struct whatif *whatif, unsigned n, unsigned quorum)
{
    *whatif = (struct whatif){.nodes = n, .quorum = quorum};
}

bool whatif_move(struct whatif *whatif, const struct history *history, size_t first,
                 unsigned node, int64_t rtt_us)
{
    struct histogram latency;
    struct cycle cycle;
    bool has_memory = histogram_init(&latency, HISTOGRAM_FINE);
    for (size_t i = first; has_memory && i < history->count; i++) {
        history_get(history, i, &cycle);
        if (cycle.node[node].answer == CYCLE_GRANTED)
            histogram_add(&latency, cycle.node[node].latency_us, 1);
    }
    if (has_memory && latency.total > 0)
        whatif->shift_us[node] = rtt_us - histogram_at(&latency, HISTOGRAM_ALL / 2);
    histogram_free(&latency);
    return has_memory;
}

static int64_t shifted(const struct whatif *whatif, const struct cycle *cycle,
                       unsigned node)
{
    int64_t latency = cycle_latency(&cycle->node[node]);
    if (latency >= ORDER_STATS_UNKNOWN)
        return latency;
    latency += whatif->shift_us[node];
    return latency > 0 ? latency : 0;
}

/*
 * The times of the added nodes: of the measured ones half the history later, or if each is
 * needed several times, at as many times of equal distance.
 */
static void add_nodes(const struct whatif *whatif, const struct history *history,
                      size_t first, size_t at, int64_t *latency)
{
    unsigned n = history->n;
    assert(n > 0); /* a client has nodes */
    unsigned rounds = (whatif->nodes - n + n - 1) / n;
    size_t count = history->count - first;
    struct cycle cycle;
    for (unsigned round = 1; round <= rounds; round++) {
        history_get(history, first + (at - first + count * round / (rounds + 1)) % count,
                    &cycle);
        for (unsigned i = 0; i < n && round * n + i < whatif->nodes; i++)
            latency[round * n + i] = shifted(whatif, &cycle, i);
    }
}

static void add_cycle(const struct whatif *whatif, unsigned n, const int64_t *latency,
                      struct bench_result_model *model)
{
    struct order_stats order_stats;
    unsigned m = whatif->nodes, q = whatif->quorum;
    order_stats_sort(&order_stats, latency, m > n ? m : n);
    if (m >= n) {
        bench_result_model_add(model, order_stats_quorum(&order_stats, q), 1);
        return;
    }
    for (unsigned k = 0; k < n; k++)
        bench_result_model_add(model, order_stats.latency[k],
                               order_stats_share(n, m, q, k));
}

bool whatif_compute(const struct whatif *whatif, const struct history *history,
                    size_t first, struct bench_result_model *model)
{
    int64_t latency[ORDER_STATS_MAX];
    struct cycle cycle;
    memset(model, 0, sizeof(*model));
    if (!histogram_init(&model->latency, HISTOGRAM_FINE))
        return false;
    for (size_t at = first; at < history->count; at++) {
        history_get(history, at, &cycle);
        for (unsigned i = 0; i < history->n; i++)
            latency[i] =
                whatif->without[i] ? ORDER_STATS_NEVER : shifted(whatif, &cycle, i);
        if (whatif->nodes > history->n)
            add_nodes(whatif, history, first, at, latency);
        add_cycle(whatif, history->n, latency, model);
    }
    return true;
}
