/* Tasks: who is woken when, and who is gone. */
#include "client.h"

#include <assert.h>

bool rl_task_init(struct rl_task *task, redlock_client *client,
                  const struct rl_task_class *class)
{
    if (!rl_heap_reserve(&client->heap, client->tasks + 1))
        return false;
    client->tasks++;
    *task = (struct rl_task){.class = class, .client = client};
    task->next = &client->list;
    task->prev = client->list.prev;
    task->prev->next = task;
    client->list.prev = task;
    return true;
}

/* Its links stay as they are until no loop over the tasks can be running. */
void rl_task_bury(struct rl_task *task)
{
    task->chain = task->client->zombie;
    task->client->zombie = task;
}

void rl_task_destroy_dead(redlock_client *client)
{
    while (client->zombie) {
        struct rl_task *task = client->zombie;
        client->zombie = task->chain;
        task->prev->next = task->next;
        task->next->prev = task->prev;
        client->tasks--;
        task->class->destroy(task);
    }
}

void rl_task_repaid(struct rl_task *task)
{
    assert(task->owed > 0);
    if (--task->owed == 0 && task->dead)
        rl_task_bury(task);
}

void rl_task_end(struct rl_task *task)
{
    if (task->dead)
        return;
    task->dead = true;
    rl_heap_drop(&task->client->heap, &task->due);
    if (task->owed == 0)
        rl_task_bury(task);
}

void rl_task_due(struct rl_task *task, rl_time at)
{
    if (task->dead || at >= rl_heap_when(&task->client->heap, &task->due))
        return;
    rl_heap_set(&task->client->heap, &task->due, at);
    rl_client_plan(task->client);
}

/* It is owed that tick, so that it stays in the list until then. */
void rl_task_soon(struct rl_task *task)
{
    redlock_client *client = task->client;
    if (task->dead || task->soon)
        return;
    task->soon = true;
    task->owed++;
    task->chain = NULL;
    *(client->soon ? client->soon_end : &client->soon) = task;
    client->soon_end = &task->chain;
    rl_client_plan(client);
}

void rl_task_tick_soon(redlock_client *client)
{
    struct rl_task *task = client->soon;
    client->soon = NULL;
    while (task && !client->closing) {
        struct rl_task *next = task->chain;
        task->soon = false;
        if (!task->dead)
            task->class->tick(task);
        if (!client->closing) /* else nothing is owed any more */
            rl_task_repaid(task);
        task = next;
    }
}
