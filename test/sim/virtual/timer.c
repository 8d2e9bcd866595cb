#include "io/timer.h"

#include <stdlib.h>

#include "memory.h"
#include "process.h"

struct rl_timer {
    struct process *process;
    const struct rl_timer_handler *owner;
    void *arg;
    int64_t boot; /* when it fires, by CLOCK_BOOTTIME; ns */
    struct event due;
    struct ready fired, ended;
    struct rl_timer *next;
};

static void schedule(struct rl_timer *timer)
{
    struct process *process = timer->process;
    int64_t now = events_now();
    int64_t at =
        virtual_clock_when(&process->slewed, now, timer->boot - process->suspended);
    if (at > now && process_may_fail(process, process->faults.early_timer)) {
        at = now + (int64_t)events_random((uint64_t)(at - now));
        process->early_timers++;
    }
    event_cancel(&timer->due);
    if (at != CLOCK_NEVER)
        event_at(&timer->due, at);
}

void process_reschedule(struct process *process)
{
    for (struct rl_timer *timer = process->timer; timer; timer = timer->next)
        if (event_is_scheduled(&timer->due))
            schedule(timer);
}

static void on_due(void *arg)
{
    struct rl_timer *timer = arg;
    process_make_ready(timer->process, &timer->fired);
}

static void on_fired(void *arg)
{
    const struct rl_timer *timer = arg;
    timer->owner->fired(timer->arg);
}

static void on_ended(void *arg)
{
    const struct rl_timer *timer = arg;
    timer->owner->ended(timer->arg);
}

struct rl_timer *rl_timer_new(struct event_base *base, const struct rl_timer_handler *owner,
                              void *arg)
{
    struct process *process = process_of(base);
    struct rl_timer *timer = sim_malloc(sizeof(*timer));
    if (!timer)
        return NULL;
    *timer = (struct rl_timer){.process = process, .owner = owner, .arg = arg};
    timer->due = (struct event){.happen = on_due, .arg = timer};
    timer->fired = (struct ready){.run = on_fired, .arg = timer};
    timer->ended = (struct ready){.run = on_ended, .arg = timer};
    timer->next = process->timer;
    process->timer = timer;
    return timer;
}

bool rl_timer_set(struct rl_timer *timer, int64_t at)
{
    timer->boot = at * VIRTUAL_US;
    schedule(timer);
    return true;
}

void rl_timer_want_end(struct rl_timer *timer)
{
    process_make_ready(timer->process, &timer->ended);
}

void rl_timer_free(struct rl_timer *timer)
{
    struct rl_timer **link = &timer->process->timer;
    while (*link != timer)
        link = &(*link)->next;
    *link = timer->next;
    event_cancel(&timer->due);
    ready_forget(timer->process, &timer->fired);
    ready_forget(timer->process, &timer->ended);
    sim_free(timer);
}
