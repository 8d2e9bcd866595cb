/* A task: a unit of work that the loop schedules, and that the client's parts call. */
#ifndef RL_TASK_H
#define RL_TASK_H

#include "base/heap.h"
#include "io/queue.h"

struct rl_lease_line;
struct rl_loop;
struct rl_op;
struct rl_reply;
struct rl_task;

/* Events for all tasks. */
enum rl_task_event {
    RL_TASK_STARTUP_OVER, /* the startup barrier opened; no node */
    RL_TASK_TRIED,        /* the node's greeting ended or failed */
    RL_TASK_READY,        /* the node's greeting succeeded, or its quarantine ended */
    RL_TASK_ACTIVE,       /* its marker is active: it votes on fenced locks again */
    RL_TASK_AWAKE,        /* it replies in time again; it restarted earlier */
    RL_TASK_RESTARTED, /* the node restarted; reported even if the client then refuses it */
    RL_TASK_SUBSCRIBED,   /* from now on notifications from the node arrive */
    RL_TASK_UNSUBSCRIBED, /* they no longer arrive */
};

/* The callbacks of a task. Only `tick` is required. */
struct rl_task_class {
    void (*tick)(struct rl_task *task);   /* the scheduled time has come */
    void (*expire)(struct rl_task *task); /* check hard deadlines; runs before replies */
    void (*event)(struct rl_task *task, enum rl_task_event event, unsigned node);
    /* A node replied, or its connection ended first (then `reply` is NULL). */
    void (*replied)(struct rl_task *task, unsigned node, const struct rl_op *op,
                    const struct rl_reply *reply);
    /* Replies after the end of the task; NULL: it does not matter then. */
    void (*replied_late)(struct rl_task *task, unsigned node, const struct rl_op *op,
                         const struct rl_reply *reply);
    /* A node notifies this waiter (core/waiter.h). False: its wait has ended. */
    bool (*notified)(struct rl_task *task, unsigned node, unsigned position, unsigned slot);
    bool (*is_releasing)(struct rl_task *task); /* true: a drain waits for this task */
    void (*close)(
        struct rl_task *task); /* the client is being freed: report, then detach */
    void (*destroy)(struct rl_task *task); /* NULL: the task is a part of the client */
    /* For the text of the flight recorder; NULL: the task is no lease of a caller. */
    void (*describe)(const struct rl_task *task, struct rl_lease_line *ret_line);
};

/* When a task ticks that has no time: the queues, the most urgent one first. */
enum rl_task_urgency {
    RL_TASK_SOON,      /* at the end of this iteration */
    RL_TASK_HELD,      /* when the nodes have room: it works on a held lock */
    RL_TASK_ACQUIRING, /* then, after all of these: it wants a lock */
    RL_TASK_URGENCIES, /* it is in no queue */
};

struct rl_task {
    struct rl_due due; /* must be first: the heap stores pointers to it */
    const struct rl_task_class *class;
    struct rl_loop *loop; /* NULL once the client is gone */
    TAILQ_ENTRY(rl_task) in_loop;
    TAILQ_ENTRY(rl_task) in_queue; /* of the loop; or the next deferred one */
    unsigned pending;              /* outstanding replies, plus 1 while it is in a queue */
    enum rl_task_urgency urgency : 8; /* in which queue it is */
    bool dead; /* destroyed once `pending` is 0 and no callback runs */
};

TAILQ_HEAD(rl_task_queue, rl_task);

/*
 * Allocates `size` bytes, which begin with the task, and zeroes the rest. The class must
 * free them: rl_task_free() is a `destroy` that does only that. NULL: no memory.
 */
void *rl_task_new(size_t size, struct rl_loop *loop, const struct rl_task_class *class);
void rl_task_free(struct rl_task *task);

/* For a task that is part of the client. False: no memory. */
bool rl_task_init(struct rl_task *task, struct rl_loop *loop,
                  const struct rl_task_class *class);

/* Ends the task: it gets no more calls, and is destroyed as soon as nothing is pending. */
void rl_task_end(struct rl_task *task);

void rl_task_replied(struct rl_task *task); /* `pending` goes down by one */

/* The task ticks at `at` or earlier. A time later than the scheduled one has no effect. */
void rl_task_schedule(struct rl_task *task, rl_time at);

/*
 * The task ticks at the end of this iteration, in FIFO order. If called there, it ticks at
 * the end of the next iteration.
 */
void rl_task_schedule_soon(struct rl_task *task);

/*
 * The task ticks at the end of the first iteration in which the nodes have room, in FIFO
 * order among those of the same urgency. A task that is in a queue moves only to a more
 * urgent one, also by rl_task_schedule_soon().
 */
void rl_task_queue(struct rl_task *task, enum rl_task_urgency urgency);

/* --- for the loop --- */

void rl_task_run_queued(struct rl_loop *loop);
void rl_task_run_soon(struct rl_loop *loop);
void rl_task_free_deferred(struct rl_loop *loop);

/* The client is being freed: reports that to all tasks, and ends them. */
void rl_task_close_all(struct rl_loop *loop);

/* For a forked child: destroys all tasks, without a report. */
void rl_task_destroy_all(struct rl_loop *loop);

#endif
