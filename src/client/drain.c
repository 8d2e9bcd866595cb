#include "drain.h"

#include "client.h"

struct drain {
    struct rl_task task;
    rl_time deadline;
    redlock_drain_fn *callback;
    void *arg;
};

static bool is_clean(const struct rl_nodes *nodes)
{
    if (!rl_startup_barrier_is_open(&nodes->startup))
        return false; /* commands that wait for the startup barrier are not yet sent */
    struct rl_task *task;
    TAILQ_FOREACH (task, &nodes->loop->list, in_loop)
        if (task->pending > 0 ||
            (!task->dead && task->class->is_releasing && task->class->is_releasing(task)))
            return false;
    return true;
}

static void drain_finish(struct rl_task *task, bool clean)
{
    const struct drain *drain = (struct drain *)task;
    redlock_client *client = rl_client_of(task);
    client->drain = NULL;
    rl_task_end(task);
    drain->callback(client, clean, drain->arg);
}

void rl_drain_recheck(struct rl_loop *loop)
{
    const redlock_client *client = (redlock_client *)loop;
    if (!client->drain || loop->closing)
        return;
    bool clean = is_clean(&client->nodes);
    if (clean || loop->now >= ((struct drain *)client->drain)->deadline)
        drain_finish(client->drain, clean);
}

/*
 * rl_drain_recheck() runs at the end of each iteration. The tick only makes sure that an
 * iteration ends at the deadline.
 */
static void drain_tick(struct rl_task *task)
{
    rl_time deadline = ((struct drain *)task)->deadline;
    if (task->loop->now < deadline)
        rl_task_schedule(task, deadline);
}

static void close_drain(struct rl_task *task)
{
    drain_finish(task, false);
}

static const struct rl_task_class drain_class = {
    .tick = drain_tick,
    .close = close_drain,
    .destroy = rl_task_free,
};

/*
 * The longest reply timeout of the nodes with an open connection. Before the startup
 * barrier opens, of all nodes: they may still take connect_timeout to be connected.
 */
static rl_time default_timeout(const struct rl_nodes *nodes)
{
    bool starts = !rl_startup_barrier_is_open(&nodes->startup);
    return starts ? rl_nodes_reply_timeout(nodes, nodes->all) +
                        nodes->options->connect_timeout_ms * RL_MS
                  : rl_nodes_reply_timeout(nodes, nodes->view.open);
}

static redlock_code start(redlock_client *client, int64_t timeout_ms,
                          redlock_drain_fn *callback, void *arg)
{
    if (!callback)
        return rl_fail_no_callback();
    if (client->drain)
        return rl_fail(REDLOCK_BUSY, REDLOCK_REASON_RUNNING,
                       "another drain of this client is running");
    redlock_code code =
        rl_check_range("timeout_ms", timeout_ms, REDLOCK_NODE_TIMEOUT, INT64_MAX);
    if (code != REDLOCK_OK)
        return code;
    struct drain *drain = rl_task_new(sizeof(*drain), &client->loop, &drain_class);
    if (!drain)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    rl_time timeout = timeout_ms == REDLOCK_NODE_TIMEOUT ? default_timeout(&client->nodes)
                      : timeout_ms == REDLOCK_FOREVER
                          ? RL_NEVER
                          : rl_min(timeout_ms, REDLOCK_TTL_MAX_MS) * RL_MS;
    drain->deadline = rl_time_add_sat(client->loop.now, timeout);
    drain->callback = callback;
    drain->arg = arg;
    client->drain = &drain->task;
    rl_task_schedule(&drain->task, drain->deadline);
    return REDLOCK_OK;
}

redlock_code redlock_client_drain(redlock_client *client, int64_t timeout_ms,
                                  redlock_drain_fn *callback, void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = start(client, timeout_ms, callback, arg);
    rl_loop_return(&client->loop);
    return code;
}
