/* Waiting for what is under way, before a process ends. */
#include <stdlib.h>

#include "client.h"

struct drain {
    struct rl_task task;
    rl_time deadline;
    redlock_drain_fn *callback;
    void *arg;
};

static bool is_clean(const redlock_client *client)
{
    if (!rl_gate_is_open(&client->gate))
        return false; /* what waits for it is still to be said */
    for (struct rl_task *task = client->list.next; task != &client->list; task = task->next)
        if (task->owed > 0 ||
            (!task->dead && task->class->unsettled && task->class->unsettled(task)))
            return false;
    return true;
}

static void finish(struct drain *drain, bool clean)
{
    redlock_client *client = drain->task.client;
    client->drain = NULL;
    rl_task_end(&drain->task);
    drain->callback(client, clean, drain->arg);
}

void rl_drain_look(redlock_client *client)
{
    struct drain *drain = (struct drain *)client->drain;
    if (!drain || client->closing)
        return;
    bool clean = is_clean(client);
    if (clean || client->view.now >= drain->deadline)
        finish(drain, clean);
}

/* The end of the pass looks; only the clock has to be kept. */
static void tick(struct rl_task *task)
{
    struct drain *drain = (struct drain *)task;
    rl_heap_drop(&task->client->heap, &task->due);
    if (task->client->view.now < drain->deadline)
        rl_task_due(task, drain->deadline);
}

static void close_drain(struct rl_task *task)
{
    finish((struct drain *)task, false);
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

/* The longest per-node timeout of those that can be reached. */
static rl_time default_patience(const redlock_client *client)
{
    rl_time longest = 0;
    for (rl_nodes rest = client->view.open; rest; rest &= rest - 1)
        longest = rl_max(longest, rl_client_patience(client, rl_first(rest)));
    return longest;
}

static redlock_code start(redlock_client *client, int64_t timeout_ms,
                          redlock_drain_fn *callback, void *arg)
{
    if (client->drain)
        return REDLOCK_BUSY;
    struct drain *drain = calloc(1, sizeof(*drain));
    if (!drain || !rl_task_init(&drain->task, client, &drain_class)) {
        free(drain);
        return REDLOCK_NO_MEMORY;
    }
    rl_time patience = timeout_ms < 0 ? default_patience(client)
                                      : rl_min(timeout_ms, REDLOCK_TTL_MAX_MS) * RL_MS;
    drain->deadline = rl_later(client->view.now, patience);
    drain->callback = callback;
    drain->arg = arg;
    client->drain = &drain->task;
    rl_task_due(&drain->task, drain->deadline);
    return REDLOCK_OK;
}

redlock_code redlock_client_drain(redlock_client *client, int64_t timeout_ms,
                                  redlock_drain_fn *callback, void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = start(client, timeout_ms, callback, arg);
    rl_client_return(client);
    return code;
}
