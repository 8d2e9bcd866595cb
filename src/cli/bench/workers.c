#include "workers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PAUSE_MS 50 /* after a failed cycle, which may have taken no time at all */
#define KEY_MAX  160

enum worker_state {
    WORKER_IDLE,
    WORKER_ACQUIRING,
    WORKER_HOLDING,
    WORKER_RELEASING,
    WORKER_PAUSING
};

struct worker {
    struct workers *workers;
    unsigned index;
    char key[KEY_MAX];
    enum worker_state state;
    bool lost;
    redlock_lease *lease;
    int64_t release_began;
    struct cli_timer pause;
    struct cycle cycle;
};

/* --- the nodes' replies --- */

static bool has_fault(const redlock_node *node)
{
    return node->fault != REDLOCK_FAULT_NONE;
}

static enum cycle_answer answer_of(const redlock_node *node)
{
    switch (node->verdict) {
    case REDLOCK_VERDICT_GRANTED: return CYCLE_GRANTED;
    case REDLOCK_VERDICT_WAITING: return CYCLE_WAITING;
    case REDLOCK_VERDICT_SILENT: return CYCLE_SILENT;
    case REDLOCK_VERDICT_UNKNOWN: return CYCLE_BROKEN;
    case REDLOCK_VERDICT_ABSENT:
    case REDLOCK_VERDICT_UNASKED: return has_fault(node) ? CYCLE_ABSENT : CYCLE_READY;
    default: return CYCLE_REFUSED;
    }
}

/* Why the node did not grant. A node without a fault has the reason of the lock. */
static const char *fault_of(const redlock_node *node, enum cycle_answer answer)
{
    if (answer == CYCLE_GRANTED || answer == CYCLE_READY)
        return NULL;
    return has_fault(node) ? redlock_fault_text(node->fault) : "no answer within the TTL";
}

/* Every node has replied or never will. */
static bool read_replies(struct worker *worker)
{
    struct workers *workers = worker->workers;
    bool all = true;
    workers->node_count = redlock_explain(worker->lease, workers->nodes, REDLOCK_NODES_MAX);
    for (size_t i = 0; i < workers->node_count; i++) {
        const redlock_node *node = &workers->nodes[i];
        enum cycle_answer answer = answer_of(node);
        all = all && answer != CYCLE_WAITING;
        worker->cycle.node[i] = (struct cycle_node){
            .answer = answer,
            .latency_us = answer == CYCLE_GRANTED ? node->latency_us : -1,
            .fault = fault_of(node, answer),
        };
    }
    return all;
}

/* --- a cycle --- */

static void begin_cycle(void *arg);

static void end_cycle(struct worker *worker)
{
    redlock_lease_free(worker->lease);
    worker->lease = NULL;
    worker->workers->ended(worker->workers->arg, &worker->cycle);
}

static void workers_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct worker *worker = arg;
    struct workers *workers = worker->workers;
    if (result->code != REDLOCK_OK)
        workers->node_count = redlock_explain(lease, workers->nodes, REDLOCK_NODES_MAX);
    worker->cycle.release_us = cli_clock_us(CLOCK_MONOTONIC) - worker->release_began;
    worker->cycle.released = result->code;
    end_cycle(worker);
    begin_cycle(worker);
}

static void workers_release(struct worker *worker)
{
    worker->state = WORKER_RELEASING;
    worker->release_began = cli_clock_us(CLOCK_MONOTONIC);
    redlock_code code = redlock_release(worker->lease, workers_released, worker);
    cli_need_start(code, worker->key);
}

static void lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct worker *worker = arg;
    (void)lease;
    (void)result;
    worker->lost = true; /* no further reply is reported for it */
}

static void acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct worker *worker = arg;
    (void)lease;
    worker->cycle.acquire_us = cli_clock_us(CLOCK_MONOTONIC) - worker->cycle.begun_us;
    worker->cycle.acquired = *result;
    worker->state = WORKER_HOLDING;
    if (cycle_is_held(&worker->cycle))
        return;
    read_replies(worker);
    cycle_drop_late(&worker->cycle);
    worker->state = WORKER_PAUSING;
    end_cycle(worker);
    cli_timer_set(&worker->pause, PAUSE_MS);
}

static void begin_cycle(void *arg)
{
    struct worker *worker = arg;
    struct workers *workers = worker->workers;
    redlock_lease_options options = workers->cli->lease;
    worker->cycle = (struct cycle){.worker = worker->index, .release_us = -1};
    if (!workers->may_begin(workers->arg, &worker->cycle)) {
        worker->state = WORKER_IDLE;
        workers->busy--;
        return;
    }
    options.wait_ms = 0;
    options.retry = REDLOCK_RETRY_NONE;
    options.watchdog = false;
    options.on_lost = lost;
    options.lost_arg = worker;
    worker->state = WORKER_ACQUIRING;
    worker->lost = false;
    worker->cycle.begun_us = cli_clock_us(CLOCK_MONOTONIC);
    redlock_code code =
        redlock_acquire(workers->cli->client, worker->key, strlen(worker->key), &options,
                        acquired, worker, &worker->lease);
    cli_need_start(code, worker->key);
}

/* --- all workers --- */

void workers_init(struct workers *workers, unsigned count, const char *name)
{
    uint64_t random;
    workers->count = count;
    workers->worker = cli_need_memory(calloc(count, sizeof(*workers->worker)));
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        cli_fail(CLI_FAILED, "no random numbers");
    for (unsigned i = 0; i < count; i++) {
        struct worker *worker = &workers->worker[i];
        worker->workers = workers;
        worker->index = i;
        snprintf(worker->key, sizeof(worker->key), "%.120s:%016" PRIx64 ":%u", name, random,
                 i);
        cli_timer_begin(&worker->pause, workers->cli->base, 0, begin_cycle, worker);
    }
}

const char *workers_key(const struct workers *workers, unsigned index)
{
    return workers->worker[index].key;
}

void workers_begin(struct workers *workers, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        workers->busy++;
        begin_cycle(&workers->worker[i]);
    }
}

void workers_cancel(struct workers *workers)
{
    for (unsigned i = 0; i < workers->count; i++)
        if (workers->worker[i].state == WORKER_ACQUIRING)
            redlock_cancel(workers->worker[i].lease);
}

void workers_step(struct workers *workers)
{
    for (unsigned i = 0; i < workers->count; i++) {
        struct worker *worker = &workers->worker[i];
        if (worker->state == WORKER_HOLDING && (read_replies(worker) || worker->lost))
            workers_release(worker);
    }
}

void workers_run(struct workers *workers)
{
    while (workers->busy > 0) {
        if (event_base_loop(workers->cli->base, EVLOOP_ONCE) != 0)
            cli_fail(CLI_FAILED, "the event loop failed");
        workers_step(workers);
    }
}

void workers_free(struct workers *workers)
{
    for (unsigned i = 0; i < workers->count; i++)
        cli_timer_end(&workers->worker[i].pause);
    free(workers->worker);
    workers->worker = NULL;
}
