#include "result.h"

#include "order_stats.h"

#include <string.h>

static bool init_fine(struct histogram *histogram)
{
    return histogram_init(histogram, HISTOGRAM_FINE);
}

bool bench_result_init(struct bench_result *bench_result, unsigned n, unsigned q)
{
    memset(bench_result, 0, sizeof(*bench_result));
    bench_result->n = n;
    bench_result->q = q;
    for (unsigned m = 1; m < n; m++)
        for (unsigned k = 0; k < n; k++)
            bench_result->share[m][k] = order_stats_share(n, m, order_stats_majority(m), k);
    bool fine = init_fine(&bench_result->acquire) && init_fine(&bench_result->release) &&
                init_fine(&bench_result->valid) && init_fine(&bench_result->all.latency) &&
                timeline_init(&bench_result->timeline, n);
    for (unsigned i = 0; fine && i < n; i++)
        fine = init_fine(&bench_result->node[i].latency) &&
               init_fine(&bench_result->node[i].without.latency) &&
               init_fine(&bench_result->fewer[i].latency);
    return fine;
}

void bench_result_free(struct bench_result *bench_result)
{
    histogram_free(&bench_result->acquire);
    histogram_free(&bench_result->release);
    histogram_free(&bench_result->valid);
    histogram_free(&bench_result->all.latency);
    for (unsigned i = 0; i < bench_result->n; i++) {
        histogram_free(&bench_result->node[i].latency);
        histogram_free(&bench_result->node[i].without.latency);
        histogram_free(&bench_result->fewer[i].latency);
    }
    timeline_free(&bench_result->timeline);
}

void bench_result_model_add(struct bench_result_model *model, int64_t latency,
                            uint64_t weight)
{
    if (latency == ORDER_STATS_NEVER)
        model->never += weight;
    else if (latency == ORDER_STATS_UNKNOWN)
        model->untimed += weight;
    else
        histogram_add(&model->latency, latency, weight);
}

static void take_node(struct bench_result_node *node, const struct cycle_node *answer,
                      struct timeline_slot *slot, unsigned index)
{
    node->failing = answer->answer != CYCLE_GRANTED && answer->answer != CYCLE_READY;
    node->asked += answer->answer != CYCLE_ABSENT && answer->answer != CYCLE_READY;
    switch (answer->answer) {
    case CYCLE_GRANTED:
        node->granted++;
        histogram_add(&node->latency, answer->latency_us, 1);
        histogram_add(&slot->grant[index], answer->latency_us, 1);
        return;
    case CYCLE_READY: node->ready++; return;
    case CYCLE_REFUSED: node->refused++; break;
    case CYCLE_WAITING: /* the lock's TTL ended before the node's timeout */
    case CYCLE_SILENT: node->silent++; break;
    case CYCLE_BROKEN: node->broken++; break;
    case CYCLE_ABSENT: node->absent++; break;
    }
    node->fault = answer->fault;
    if (answer->answer == CYCLE_SILENT || answer->answer == CYCLE_WAITING)
        slot->silent[index]++;
    else
        slot->other[index]++;
}

/* Computes what the same replies would have meant for other sets of nodes. */
static void take_models(struct bench_result *bench_result, const struct cycle *cycle,
                        struct timeline_slot *slot)
{
    int64_t latency[REDLOCK_NODES_MAX];
    struct order_stats order_stats;
    unsigned n = bench_result->n, q = bench_result->q;
    for (unsigned i = 0; i < n; i++)
        latency[i] = cycle_latency(&cycle->node[i]);
    order_stats_sort(&order_stats, latency, n);
    int64_t qth = order_stats_quorum(&order_stats, q);
    bench_result_model_add(&bench_result->all, qth, 1);
    if (qth < ORDER_STATS_UNKNOWN) {
        bench_result->node[order_stats.node[q - 1]].last++;
        histogram_add(&slot->qth, qth, 1);
    }
    for (unsigned i = 0; i < n; i++)
        bench_result_model_add(&bench_result->node[i].without,
                               order_stats_without(&order_stats, q, i), 1);
    for (unsigned m = 1; m < n; m++)
        for (unsigned k = 0; k < n; k++)
            bench_result_model_add(&bench_result->fewer[m], order_stats.latency[k],
                                   bench_result->share[m][k]);
}

static void take_outages(struct bench_result *bench_result, const struct cycle *cycle,
                         int64_t begun)
{
    int64_t ended = begun + cycle->acquire_us;
    for (unsigned i = 0; i < bench_result->n; i++) {
        const struct cycle_node *node = &cycle->node[i];
        if (node->answer == CYCLE_GRANTED)
            outage_success(&bench_result->node[i].outage, begun + node->latency_us);
        else if (node->answer != CYCLE_READY)
            outage_failure(&bench_result->node[i].outage, ended);
    }
    if (cycle_is_held(cycle))
        outage_success(&bench_result->outage, ended);
    else
        outage_failure(&bench_result->outage, ended);
}

void bench_result_end(struct bench_result *bench_result, int64_t elapsed_us)
{
    bench_result->elapsed_us = elapsed_us;
    outage_end(&bench_result->outage, elapsed_us);
    for (unsigned i = 0; i < bench_result->n; i++)
        outage_end(&bench_result->node[i].outage, elapsed_us);
}

static void take_held(struct bench_result *bench_result, const struct cycle *cycle,
                      struct timeline_slot *slot)
{
    int64_t valid = cycle->acquired.valid_ms;
    if (slot->acquire.total == 0 || valid < slot->valid_least)
        slot->valid_least = valid;
    bench_result->held++;
    histogram_add(&bench_result->acquire, cycle->acquire_us, 1);
    histogram_add(&bench_result->valid, valid, 1);
    histogram_add(&slot->acquire, cycle->acquire_us, 1);
    if (cycle->released == REDLOCK_OK) {
        histogram_add(&bench_result->release, cycle->release_us, 1);
        histogram_add(&slot->release, cycle->release_us, 1);
    } else {
        bench_result->not_released[cycle->released]++;
    }
}

void bench_result_take(struct bench_result *bench_result, const struct cycle *cycle)
{
    int64_t at = cycle->begun_us - bench_result->began_us;
    struct timeline_slot *slot = timeline_slot(&bench_result->timeline, at);
    bench_result->cycles++;
    for (unsigned i = 0; i < bench_result->n; i++)
        take_node(&bench_result->node[i], &cycle->node[i], slot, i);
    take_models(bench_result, cycle, slot);
    take_outages(bench_result, cycle, at);
    if (!cycle_is_held(cycle)) {
        bench_result->not_acquired[cycle->acquired.code]++;
        slot->failed++;
        slot->code[cycle->acquired.code]++;
    } else {
        take_held(bench_result, cycle, slot);
    }
}
