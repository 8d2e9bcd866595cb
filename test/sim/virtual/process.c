#include "process.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/system.h"
#include "io/timer.h"

#define WAKE_MAX (50 * VIRTUAL_US) /* from what becomes ready to the iteration */
#define BOOTED   (1000 * VIRTUAL_S)

struct rl_timer {
    struct process *process;
    const struct rl_timer_handler *owner;
    void *arg;
    int64_t boot; /* when it fires, by CLOCK_BOOTTIME; ns */
    struct event due;
    struct ready fired, ended;
    struct rl_timer *next;
};

static struct process *running;

struct process *process_now(void)
{
    return running;
}

struct event_base *process_loop(struct process *process)
{
    return (struct event_base *)process;
}

struct process *process_of(struct event_base *base)
{
    return (struct process *)base;
}

/* --- clocks --- */

static int64_t read_clock(const struct virtual_clock *clock)
{
    int64_t passed = events_now() - clock->since;
    return clock->value + passed + passed / 1000 * clock->ppm / 1000;
}

/* The first true time at which the clock says at least `value`. */
static int64_t when_it_says(const struct virtual_clock *clock, int64_t value)
{
    int64_t missing = value - read_clock(clock);
    if (missing <= 0)
        return events_now();
    return events_now() + missing -
           missing / 1000 * clock->ppm / (1000 + clock->ppm / 1000) + VIRTUAL_US;
}

static void set_clock(struct virtual_clock *clock, int64_t ppm)
{
    *clock = (struct virtual_clock){events_now(), read_clock(clock), ppm};
}

static void schedule(struct rl_timer *timer)
{
    event_at(&timer->due, when_it_says(&timer->process->slewed,
                                       timer->boot - timer->process->suspended));
}

void process_set_clocks(struct process *process, int64_t raw_ppm, int64_t slewed_ppm)
{
    set_clock(&process->raw, raw_ppm);
    set_clock(&process->slewed, slewed_ppm);
    for (struct rl_timer *timer = process->timer; timer; timer = timer->next)
        if (event_is_scheduled(&timer->due))
            schedule(timer);
}

/* --- iterations --- */

static void take(struct ready *ready)
{
    *ready->link = ready->next;
    if (ready->next)
        ready->next->link = ready->link;
    ready->link = NULL;
}

void ready_forget(struct process *process, struct ready *ready)
{
    if (!ready->link)
        return;
    if (process->last == &ready->next)
        process->last = ready->link;
    take(ready);
}

void process_make_ready(struct process *process, struct ready *ready)
{
    if (ready->link)
        return;
    ready->next = NULL;
    ready->link = process->last;
    *process->last = ready;
    process->last = &ready->next;
    if (process != running && !event_is_scheduled(&process->wake)) {
        int64_t at = events_now() + (int64_t)events_random(WAKE_MAX);
        event_at(&process->wake, at > process->stopped_until ? at : process->stopped_until);
    }
}

static void run_one(struct process *process)
{
    struct ready *ready = process->first;
    ready_forget(process, ready);
    ready->run(ready->arg);
}

static void iterate(void *arg)
{
    struct process *process = arg;
    if (events_now() < process->stopped_until) {
        event_at(&process->wake, process->stopped_until);
        return;
    }
    assert(!running);
    running = process;
    process->iterations++;
    while (process->first)
        run_one(process);
    running = NULL;
}

void process_call(struct process *process, void (*run)(void *arg), void *arg)
{
    struct process *before = running;
    running = process;
    run(arg);
    running = before;
    if (!before && process->first && !event_is_scheduled(&process->wake))
        event_at(&process->wake, events_now());
}

void process_stop(struct process *process, int64_t until)
{
    process->stopped_until = until;
}

void process_begin(struct process *process, const char *host, long pid)
{
    struct virtual_clock clock = {.since = events_now(), .value = BOOTED};
    *process = (struct process){.host = host, .pid = pid, .raw = clock, .slewed = clock};
    process->last = &process->first;
    process->wake = (struct event){.happen = iterate, .arg = process};
}

void process_end(struct process *process)
{
    event_cancel(&process->wake);
    while (process->first)
        ready_forget(process, process->first);
    for (struct rl_timer *timer = process->timer; timer; timer = timer->next)
        event_cancel(&timer->due);
}

/* --- io/system.h --- */

int64_t rl_system_clock_ns(clockid_t id)
{
    switch (id) {
    case CLOCK_MONOTONIC_RAW: return read_clock(&running->raw);
    case CLOCK_MONOTONIC: return read_clock(&running->slewed);
    default: return read_clock(&running->slewed) + running->suspended;
    }
}

bool rl_system_random(void *bytes, size_t len, bool wait)
{
    uint8_t *byte = bytes;
    (void)wait;
    for (size_t i = 0; i < len; i++)
        byte[i] = (uint8_t)events_random(256);
    return true;
}

unsigned rl_system_fork_generation(void)
{
    return running->forks;
}

bool rl_system_host_name(char *ret_name, size_t room)
{
    strncpy(ret_name, running->host, room);
    return strlen(running->host) < room;
}

long rl_system_pid(void)
{
    return running->pid;
}

bool rl_system_read_file(const char *path, char *ret_text, size_t room)
{
    (void)path;
    if (!running->password)
        return false;
    strncpy(ret_text, running->password, room);
    return strlen(running->password) < room;
}

/* --- io/timer.h --- */

static void on_due(void *arg)
{
    struct rl_timer *timer = arg;
    process_make_ready(timer->process, &timer->fired);
}

static void on_fired(void *arg)
{
    struct rl_timer *timer = arg;
    timer->owner->fired(timer->arg);
}

static void on_ended(void *arg)
{
    struct rl_timer *timer = arg;
    timer->owner->ended(timer->arg);
}

struct rl_timer *rl_timer_new(struct event_base *base, const struct rl_timer_handler *owner,
                              void *arg)
{
    struct process *process = process_of(base);
    struct rl_timer *timer = malloc(sizeof(*timer));
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

void rl_timer_free(struct rl_timer *timer, bool forked)
{
    struct rl_timer **link = &timer->process->timer;
    (void)forked;
    while (*link != timer)
        link = &(*link)->next;
    *link = timer->next;
    event_cancel(&timer->due);
    ready_forget(timer->process, &timer->fired);
    ready_forget(timer->process, &timer->ended);
    free(timer);
}
