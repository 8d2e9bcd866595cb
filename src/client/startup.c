/* Steps the startup barrier of a client's nodes, and reports its end. */
#include "nodes.h"

rl_node_set rl_startup_tried(const struct rl_nodes *nodes)
{
    rl_node_set set = 0;
    for (unsigned i = 0; i < nodes->n; i++)
        if (rl_link_was_tried(&nodes->node[i].link))
            set |= rl_bit(i);
    return set;
}

void rl_startup_check(struct rl_nodes *nodes)
{
    if (rl_startup_barrier_is_open(&nodes->startup))
        return;
    rl_loop_refresh_clock(nodes->loop);
    if (nodes->startup.deadline == 0) /* the loop starts: time counts from here */
        rl_startup_barrier_init(&nodes->startup, nodes->loop->now,
                                nodes->options->node_timeout_ms * RL_MS,
                                nodes->options->connect_timeout_ms * RL_MS);
    if (!rl_startup_barrier_step(&nodes->startup, nodes->n, nodes->q, nodes->view.ready,
                                 rl_startup_tried(nodes), nodes->loop->now)) {
        rl_task_schedule(&nodes->startup_task, nodes->startup.deadline);
        return;
    }
    rl_task_end(&nodes->startup_task);
    rl_loop_record(nodes->loop, RL_RECORD_STARTUP, 0)->nodes = nodes->view.ready;
    rl_loop_broadcast(nodes->loop, RL_TASK_STARTUP_OVER, 0);
}

void rl_startup_event(struct rl_task *task, enum rl_task_event event, unsigned node)
{
    (void)node;
    if (event == RL_TASK_STARTUP_OVER)
        rl_task_schedule(task, task->loop->now);
}

static void tick_startup(struct rl_task *task)
{
    rl_startup_check((struct rl_nodes *)task);
}

static const struct rl_task_class startup_class = {
    .tick = tick_startup,
};

bool rl_startup_init(struct rl_nodes *nodes)
{
    return rl_task_init(&nodes->startup_task, nodes->loop, &startup_class);
}
