#include "drain.h"

#include <stdlib.h>

#include "base/error.h"

static bool is_clean(const struct rl_nodes *nodes)
{
    if (!rl_startup_barrier_is_open(&nodes->startup))
        return false; /* commands that wait for the startup barrier are not yet sent */
    for (struct rl_task *task = nodes->loop->list.next; task != &nodes->loop->list;
         task = task->next)
        if (task->pending > 0 ||
            (!task->dead && task->class->is_releasing && task->class->is_releasing(task)))
            return false;
    return true;
}

static void finish(struct rl_drain *drain, bool clean)
{
    *drain->current = NULL;
    rl_task_end(&drain->task);
    drain->callback(drain->client, clean, drain->arg);
}

void rl_drain_recheck(struct rl_drain *drain)
{
    if (!drain || drain->task.loop->closing)
        return;
    bool clean = is_clean(drain->nodes);
    if (clean || drain->task.loop->now >= drain->deadline)
        finish(drain, clean);
}

/*
 * rl_drain_recheck() runs at the end of each iteration. The tick only makes sure that an
 * iteration ends at the deadline.
 */
static void tick(struct rl_task *task)
{
    struct rl_drain *drain = (struct rl_drain *)task;
    rl_heap_drop(&task->loop->heap, &task->due);
    if (task->loop->now < drain->deadline)
        rl_task_schedule(task, drain->deadline);
}

static void close_drain(struct rl_task *task)
{
    finish((struct rl_drain *)task, false);
}

static void destroy(struct rl_task *task)
{
    free(task);
}

static const struct rl_task_class drain_class = {
    .tick = tick,
    .close = close_drain,
    .destroy = destroy,
};

/* The longest reply timeout of the nodes with an open connection. */
static rl_time default_timeout(const struct rl_nodes *nodes)
{
    rl_time longest = 0;
    for (rl_node_set rest = nodes->view.open; rest; rest &= rest - 1)
        longest = rl_max(longest, rl_nodes_reply_timeout(nodes, rl_first(rest)));
    return longest;
}

redlock_code rl_drain_start(redlock_client *client, struct rl_nodes *nodes,
                            int64_t timeout_ms, redlock_drain_fn *callback, void *arg,
                            struct rl_drain **ret_drain)
{
    if (!callback)
        return rl_fail(REDLOCK_BAD_OPTION, "callback is NULL, and must be a function");
    if (*ret_drain)
        return rl_fail(REDLOCK_BUSY, "another drain of this client is running");
    redlock_code code =
        rl_check_range("timeout_ms", timeout_ms, REDLOCK_NODE_TIMEOUT, INT64_MAX);
    if (code != REDLOCK_OK)
        return code;
    struct rl_drain *drain = calloc(1, sizeof(*drain));
    if (!drain || !rl_task_init(&drain->task, nodes->loop, &drain_class)) {
        free(drain);
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    }
    rl_time timeout = timeout_ms == REDLOCK_NODE_TIMEOUT ? default_timeout(nodes)
                      : timeout_ms == REDLOCK_FOREVER
                          ? RL_NEVER
                          : rl_min(timeout_ms, REDLOCK_TTL_MAX_MS) * RL_MS;
    drain->nodes = nodes;
    drain->current = ret_drain;
    drain->deadline = rl_time_add_sat(nodes->loop->now, timeout);
    drain->client = client;
    drain->callback = callback;
    drain->arg = arg;
    *ret_drain = drain;
    rl_task_schedule(&drain->task, drain->deadline);
    return REDLOCK_OK;
}
