#include "task.h"

#include <assert.h>
#include <stdlib.h>

#include "loop.h"

bool rl_task_init(struct rl_task *task, struct rl_loop *loop,
                  const struct rl_task_class *class)
{
    if (!rl_heap_reserve(&loop->heap, loop->tasks + 1))
        return false;
    loop->tasks++;
    *task = (struct rl_task){.class = class, .loop = loop, .urgency = RL_TASK_URGENCIES};
    TAILQ_INSERT_TAIL(&loop->list, task, in_loop);
    return true;
}

void *rl_task_new(size_t size, struct rl_loop *loop, const struct rl_task_class *class)
{
    struct rl_task *task = calloc(1, size);
    if (task && !rl_task_init(task, loop, class)) {
        free(task);
        return NULL;
    }
    return task;
}

void rl_task_free(struct rl_task *task)
{
    free(task);
}

/* The task stays in the loop's list until no walk over that list can be running. */
static void defer_free(struct rl_task *task)
{
    task->in_queue.next = task->loop->deferred;
    task->loop->deferred = task;
}

static void task_destroy(struct rl_task *task)
{
    if (task->class->destroy)
        task->class->destroy(task);
}

void rl_task_free_deferred(struct rl_loop *loop)
{
    while (loop->deferred) {
        struct rl_task *task = loop->deferred;
        loop->deferred = task->in_queue.next;
        TAILQ_REMOVE(&loop->list, task, in_loop);
        loop->tasks--;
        task_destroy(task);
    }
}

void rl_task_replied(struct rl_task *task)
{
    assert(task->pending > 0);
    if (--task->pending == 0 && task->dead)
        defer_free(task);
}

void rl_task_end(struct rl_task *task)
{
    if (task->dead)
        return;
    task->dead = true;
    rl_heap_drop(&task->loop->heap, &task->due);
    if (task->pending == 0)
        defer_free(task);
}

void rl_task_schedule(struct rl_task *task, rl_time at)
{
    if (task->dead || at >= rl_heap_when(&task->loop->heap, &task->due))
        return;
    rl_heap_set(&task->loop->heap, &task->due, at);
    task->loop->wants_end = true;
}

/* Takes it out of a less urgent queue. False: it stays where it is. */
RL_RARE static bool leaves_queue(struct rl_task *task, enum rl_task_urgency urgency)
{
    if (task->dead || task->urgency <= urgency)
        return false;
    TAILQ_REMOVE(&task->loop->queue[task->urgency], task, in_queue);
    task->loop->queued--;
    task->pending--;
    return true;
}

/* The tick counts as pending, so the task is not destroyed before it. */
void rl_task_queue(struct rl_task *task, enum rl_task_urgency urgency)
{
    struct rl_loop *loop = task->loop;
    bool is_idle = task->urgency == RL_TASK_URGENCIES && !task->dead;
    if (!is_idle && !leaves_queue(task, urgency))
        return;
    task->pending++;
    task->urgency = urgency;
    loop->queued += urgency != RL_TASK_SOON;
    TAILQ_INSERT_TAIL(&loop->queue[urgency], task, in_queue);
    loop->wants_end = true;
}

void rl_task_schedule_soon(struct rl_task *task)
{
    rl_task_queue(task, RL_TASK_SOON);
}

/* No queue has the task any more. */
static inline void tick(struct rl_loop *loop, struct rl_task *task)
{
    task->urgency = RL_TASK_URGENCIES;
    if (!task->dead)
        task->class->tick(task);
    if (!loop->closing) /* else rl_task_close_all() has set `pending` to 0 */
        rl_task_replied(task);
}

RL_RARE void rl_task_run_queued(struct rl_loop *loop)
{
    loop->token_bits.wanted += RL_TOKEN_BATCH; /* each acquire that begins needs a token */
    for (unsigned urgency = RL_TASK_HELD; urgency < RL_TASK_URGENCIES; urgency++)
        while (!TAILQ_EMPTY(&loop->queue[urgency]) && !loop->closing &&
               loop->class->has_room(loop)) {
            loop->served = TAILQ_FIRST(&loop->queue[urgency]);
            TAILQ_REMOVE(&loop->queue[urgency], loop->served, in_queue);
            loop->queued--;
            tick(loop, loop->served);
        }
    loop->served = NULL;
}

void rl_task_run_soon(struct rl_loop *loop)
{
    struct rl_task *task = TAILQ_FIRST(&loop->queue[RL_TASK_SOON]);
    TAILQ_INIT(&loop->queue[RL_TASK_SOON]); /* none of them moves */
    while (task && !loop->closing) {
        struct rl_task *next = TAILQ_NEXT(task, in_queue);
        tick(loop, task);
        task = next;
    }
}

void rl_task_close_all(struct rl_loop *loop)
{
    struct rl_task *task;
    TAILQ_FOREACH (task, &loop->list, in_loop) {
        if (!task->dead && task->class->close)
            task->class->close(task);
        if (task->dead && task->pending > 0)
            defer_free(task);
        task->pending = 0;
        rl_task_end(task);
    }
}

void rl_task_destroy_all(struct rl_loop *loop)
{
    struct rl_task *task = TAILQ_FIRST(&loop->list), *next;
    for (; task; task = next) {
        next = TAILQ_NEXT(task, in_loop);
        task_destroy(task);
    }
}
