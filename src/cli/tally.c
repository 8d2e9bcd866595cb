#include "tally.h"

#include "orders.h"

#include <string.h>

static bool init_fine(struct histogram *histogram)
{
    return histogram_init(histogram, HISTOGRAM_FINE);
}

bool tally_init(struct tally *tally, unsigned n, unsigned q)
{
    memset(tally, 0, sizeof(*tally));
    tally->n = n;
    tally->q = q;
    for (unsigned m = 1; m < n; m++)
        for (unsigned k = 0; k < n; k++)
            tally->share[m][k] = orders_share(n, m, k);
    bool fine = init_fine(&tally->acquire) && init_fine(&tally->release) &&
                init_fine(&tally->valid) && init_fine(&tally->all.latency) &&
                timeline_init(&tally->timeline);
    for (unsigned i = 0; fine && i < n; i++)
        fine = init_fine(&tally->node[i].latency) &&
               init_fine(&tally->node[i].without.latency) &&
               init_fine(&tally->fewer[i].latency);
    return fine;
}

void tally_free(struct tally *tally)
{
    histogram_free(&tally->acquire);
    histogram_free(&tally->release);
    histogram_free(&tally->valid);
    histogram_free(&tally->all.latency);
    for (unsigned i = 0; i < tally->n; i++) {
        histogram_free(&tally->node[i].latency);
        histogram_free(&tally->node[i].without.latency);
        histogram_free(&tally->fewer[i].latency);
    }
    timeline_free(&tally->timeline);
}

static void add(struct tally_model *model, int64_t latency, uint64_t weight)
{
    if (latency == ORDERS_NEVER)
        model->never += weight;
    else if (latency == ORDERS_UNKNOWN)
        model->untimed += weight;
    else
        histogram_add(&model->latency, latency, weight);
}

static void take_node(struct tally_node *node, const struct cycle_node *answer,
                      struct timeline_slot *slot, unsigned index)
{
    node->failing = answer->answer != CYCLE_GRANTED && answer->answer != CYCLE_READY;
    node->asked += answer->answer != CYCLE_ABSENT && answer->answer != CYCLE_READY;
    switch (answer->answer) {
    case CYCLE_GRANTED:
        node->granted++;
        histogram_add(&node->latency, answer->latency_us, 1);
        return;
    case CYCLE_READY: node->ready++; return;
    case CYCLE_REFUSED: node->refused++; break;
    case CYCLE_WAITING: /* the lock's own time was over before that of the answer */
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

/* What the same answers would have made of it, had other nodes been there. */
static void take_models(struct tally *tally, const struct cycle *cycle)
{
    int64_t latency[REDLOCK_NODES_MAX];
    struct orders orders;
    unsigned n = tally->n, q = tally->q;
    for (unsigned i = 0; i < n; i++)
        latency[i] = cycle_latency(&cycle->node[i]);
    orders_sort(&orders, latency, n);
    add(&tally->all, orders_quorum(&orders, q), 1);
    if (orders_quorum(&orders, q) < ORDERS_UNKNOWN)
        tally->node[orders.node[q - 1]].last++;
    for (unsigned i = 0; i < n; i++)
        add(&tally->node[i].without, orders_without(&orders, q, i), 1);
    for (unsigned m = 1; m < n; m++)
        for (unsigned k = 0; k < n; k++)
            add(&tally->fewer[m], orders.latency[k], tally->share[m][k]);
}

static void take_gaps(struct tally *tally, const struct cycle *cycle, int64_t begun)
{
    int64_t ended = begun + cycle->acquire_us;
    for (unsigned i = 0; i < tally->n; i++) {
        const struct cycle_node *node = &cycle->node[i];
        if (node->answer == CYCLE_GRANTED)
            gap_came(&tally->node[i].gap, begun + node->latency_us);
        else if (node->answer != CYCLE_READY)
            gap_failed(&tally->node[i].gap, ended);
    }
    if (cycle_is_held(cycle))
        gap_came(&tally->gap, ended);
    else
        gap_failed(&tally->gap, ended);
}

void tally_end(struct tally *tally, int64_t elapsed_us)
{
    tally->elapsed_us = elapsed_us;
    gap_end(&tally->gap, elapsed_us);
    for (unsigned i = 0; i < tally->n; i++)
        gap_end(&tally->node[i].gap, elapsed_us);
}

void tally_take(struct tally *tally, const struct cycle *cycle)
{
    int64_t at = cycle->begun_us - tally->began_us;
    struct timeline_slot *slot = timeline_slot(&tally->timeline, at);
    tally->cycles++;
    for (unsigned i = 0; i < tally->n; i++)
        take_node(&tally->node[i], &cycle->node[i], slot, i);
    take_models(tally, cycle);
    take_gaps(tally, cycle, at);
    if (!cycle_is_held(cycle)) {
        tally->not_acquired[cycle->acquired.code]++;
        slot->failed++;
        return;
    }
    tally->held++;
    histogram_add(&tally->acquire, cycle->acquire_us, 1);
    histogram_add(&tally->valid, cycle->acquired.valid_ms, 1);
    histogram_add(&slot->acquire, cycle->acquire_us, 1);
    if (cycle->released == REDLOCK_OK)
        histogram_add(&tally->release, cycle->release_us, 1);
    else
        tally->not_released[cycle->released]++;
}
