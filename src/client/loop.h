/*
 * The loop: the client's clock, its one timer, and its iterations of the caller's event
 * loop.
 *
 * All work happens in iterations. Each event that enters the client first reads the clock
 * and reports expired deadlines, then processes what arrived. At the end of the iteration
 * the loop runs the tasks that are due, lets its owner write the queued commands, and sets
 * its one timer.
 */
#ifndef RL_LOOP_H
#define RL_LOOP_H

#include "base/token.h"
#include "core/clock.h"
#include "events.h"
#include "recorder.h"
#include "redlock/redlock.h"
#include "task.h"

/* Calls of the loop to its owner. */
struct rl_loop_class {
    bool (*has_room)(struct rl_loop *loop); /* the nodes take more work */
    void (*write)(struct rl_loop *loop); /* an iteration ends: write the queued commands */
    void (*ended)(struct rl_loop *loop); /* after that; may begin new work */
    void (*close)(struct rl_loop *loop); /* the client is freed, and no call is inside */
};

struct rl_loop {
    const struct rl_loop_class *class;
    struct event_base *base;
    struct rl_timer *timer;
    rl_time now;            /* the client's time: the last reading of its clock */
    rl_time boot, unslewed; /* last readings of CLOCK_BOOTTIME and the unslewed clock */
    rl_time armed_for;  /* the timer fires no later than this; RL_NEVER: it is not set */
    bool wants_end;     /* any part sets it: there is work for the end of this iteration */
    bool ends;          /* that end is scheduled or running */
    bool reads_replies; /* the client is parsing a node's replies */
    bool stale;         /* a callback has run since the clock was last read */
    bool closing;
    unsigned depth;      /* nested calls that run inside this client */
    unsigned api;        /* how many of them the caller made: inside, nothing is reported */
    unsigned generation; /* rl_system_fork_generation() when the client was made */
    struct rl_clock clock;

    struct rl_token_bits token_bits; /* of this iteration */

    struct rl_heap heap;
    size_t tasks;               /* how many exist; the heap has room for all of them */
    TAILQ_HEAD(, rl_task) list; /* leases, inspections, checks, ... */
    struct rl_task *deferred;   /* dead tasks that wait to be destroyed */
    struct rl_task_queue queue[RL_TASK_URGENCIES];
    unsigned queued;        /* how many wait for room, in the queues after SOON */
    struct rl_task *served; /* its turn in its queue has come; NULL: none */

    struct rl_recorder recorder;
    struct rl_events events;
};

void rl_loop_init(struct rl_loop *loop, struct event_base *base,
                  const struct rl_loop_class *class);

/*
 * Make and free the loop's events. False: libevent or the system refused; the caller must
 * still call rl_loop_close().
 */
bool rl_loop_open(struct rl_loop *loop);
void rl_loop_close(struct rl_loop *loop);

/* --- entering and leaving the client --- */

/* Bracket all work inside a client. The outermost leave destroys the dead tasks. */
void rl_loop_enter(struct rl_loop *loop);
void rl_loop_leave(struct rl_loop *loop);

/*
 * Bracket a call of the public interface. What happens inside is reported at the end of the
 * iteration. rl_loop_call() reads the clock. rl_loop_call_untimed() does not: it is for
 * calls that only request work that begins at the end of the iteration. If the result is
 * not OK, the call must not continue and must not call rl_loop_return().
 */
redlock_code rl_loop_call(struct rl_loop *loop);
redlock_code rl_loop_call_untimed(struct rl_loop *loop);
void rl_loop_return(struct rl_loop *loop);

/* Enters from the event loop: reads the clock, and reports expired deadlines first. */
void rl_loop_wake(struct rl_loop *loop);

/* What the task would do now takes no room from tasks that are queued before it. */
static inline bool rl_loop_is_next(const struct rl_loop *loop, const struct rl_task *task,
                                   enum rl_task_urgency urgency)
{
    return !loop->queued || loop->served == task ||
           (urgency == RL_TASK_HELD && TAILQ_EMPTY(&loop->queue[RL_TASK_HELD]));
}

/* Tells all tasks, each with a current clock. */
void rl_loop_broadcast(struct rl_loop *loop, enum rl_task_event event, unsigned node);

/* --- clock and random numbers --- */

/*
 * Read the clock. rl_loop_read_clocks() always reads both underlying clocks, so that
 * `unslewed` is current, too.
 */
rl_time rl_loop_read_clock(struct rl_loop *loop);
void rl_loop_read_clocks(struct rl_loop *loop);

/*
 * A callback may take long, so later work must not use the time that was read before it.
 * While the client parses several replies from one read, it reads the clock again only when
 * the next step needs the time.
 */
static inline void rl_loop_refresh_clock(struct rl_loop *loop)
{
    if (loop->stale)
        rl_loop_read_clock(loop);
}

static inline void rl_loop_called_back(struct rl_loop *loop)
{
    loop->stale = true;
    if (!loop->reads_replies)
        rl_loop_refresh_clock(loop);
}

/* Records an event, at the time that was read last; see rl_recorder_add(). */
static inline struct rl_record *rl_loop_record(struct rl_loop *loop,
                                               enum rl_record_type type, uint32_t lease)
{
    return rl_recorder_add(&loop->recorder, loop->now, type, lease);
}

/* For jitter and the like, not for names: without entropy it can be predicted. */
uint64_t rl_loop_random(struct rl_loop *loop);

/* True in the process that made the client; false in a child that it forked. */
bool rl_loop_is_ours(const struct rl_loop *loop);

#endif
