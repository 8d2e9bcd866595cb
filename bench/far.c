#include "far.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- random times --- */

static int64_t exponential(int64_t mean)
{
    double unit = (double)(1 + events_random(UINT64_C(1) << 53)) / 9007199254740992.0;
    return (int64_t)(-log(unit) * (double)mean);
}

static unsigned loss; /* of the terms */

static int64_t draw_delay(int64_t latency)
{
    int64_t delay = latency + exponential(latency / FAR_JITTER_SHARE + FAR_JITTER_MORE);
    return draw_once_in(loss) ? delay + FAR_RETRANSMISSION + 2 * latency : delay;
}

/* --- nodes --- */

/* Its process ends, and its kernel resets the connections; or one begins without memory. */
static void on_turn(void *arg)
{
    struct far_node *node = arg;
    const struct far_terms *terms = node->terms;
    bool returns = node->node.state == NODE_DOWN;
    if (returns) {
        node_resume(&node->node);
    } else {
        node_stop(&node->node);
        redis_lose_memory(node->node.redis);
    }
    event_at(&node->turn,
             events_now() + exponential(returns ? terms->mtbf : terms->mttr) * VIRTUAL_US);
}

static void begin_node(struct far *far, unsigned i)
{
    struct far_node *node = &far->node[i];
    const struct far_terms *terms = &far->terms;
    node->terms = terms;
    node->turn = (struct event){.happen = on_turn, .arg = node};
    node_begin(&node->node, i + 1);
    network.path[0][i + 1].latency = terms->round_trip[i] / 2 * VIRTUAL_US;
    if (terms->mtbf)
        event_at(&node->turn, exponential(terms->mtbf) * VIRTUAL_US);
}

void far_lose(rl_node_set nodes)
{
    for (; nodes; nodes &= nodes - 1)
        network_block(rl_first(nodes) + 1, NETWORK_NEVER);
}

/* --- the client --- */

static void check(redlock_code code)
{
    if (code == REDLOCK_OK)
        return;
    fprintf(stderr, "wan: %s\n", redlock_last_error()->text);
    exit(EXIT_FAILURE);
}

static void make_client(void *arg)
{
    struct far *far = arg;
    char text[RL_NODES_MAX][32];
    const char *uris[RL_NODES_MAX];
    redlock_options options;
    redlock_options_init(&options);
    options.durable = far->terms.durable;
    for (unsigned i = 0; i < far->terms.n; i++) {
        snprintf(text[i], sizeof(text[i]), "redis://10.0.0.%u", i + 1);
        uris[i] = text[i];
    }
    check(redlock_client_new(process_loop(&far->process), uris, far->terms.n, &options,
                             &far->client));
}

static void on_told(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct far *far = arg;
    (void)lease;
    far->result = *result;
    far->is_told = true;
}

static void acquire(void *arg)
{
    struct far *far = arg;
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.ttl_ms = far->terms.ttl / RL_MS;
    options.watchdog = false;
    check(redlock_acquire(far->client, "job", 3, &options, on_told, far, &far->lease));
}

static void release(void *arg)
{
    struct far *far = arg;
    check(redlock_release(far->lease, on_told, far));
}

static void free_lease(void *arg)
{
    redlock_lease_free(((struct far *)arg)->lease);
}

static void free_client(void *arg)
{
    redlock_client_free(((struct far *)arg)->client);
}

/* --- time --- */

void far_wait(rl_time span)
{
    int64_t until = events_now() + span * VIRTUAL_US;
    while (events_step(until))
        ;
}

/* Runs until the operation has called back; returns how long that took. */
static rl_time finish(struct far *far, void (*operation)(void *arg))
{
    int64_t from = events_now();
    far->is_told = false;
    process_call(&far->process, operation, far);
    while (!far->is_told)
        if (!events_step(NETWORK_NEVER))
            abort();
    return (events_now() - from) / VIRTUAL_US;
}

struct far_lock far_lock(struct far *far)
{
    struct far_lock lock = {.acquire = finish(far, acquire)};
    lock.held = far->result.code == REDLOCK_OK;
    lock.left = far->result.valid_ms * RL_MS;
    if (lock.held) {
        far_wait(FAR_HOLD);
        lock.release = finish(far, release);
        lock.released = far->result.code == REDLOCK_OK;
    }
    process_call(&far->process, free_lease, far);
    return lock;
}

/* --- the beginning and the end --- */

void far_begin(struct far *far, const struct far_terms *terms, uint64_t seed)
{
    *far = (struct far){.terms = *terms};
    events_begin(seed);
    network_begin();
    network.draw_delay = draw_delay;
    loss = terms->loss;
    for (unsigned i = 0; i < terms->n; i++)
        begin_node(far, i);
    process_begin(&far->process, "host", 1);
    far->process.wake_max = 0;
    process_call(&far->process, make_client, far);
    far_wait(FAR_LOCKS_GAP);
}

void far_end(struct far *far)
{
    process_call(&far->process, free_client, far);
    process_end(&far->process);
    for (unsigned i = 0; i < far->terms.n; i++)
        node_end(&far->node[i].node);
    network_end();
    events_end();
}
