#include "process.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/system.h"

#define WAKE_MAX    (50 * VIRTUAL_US)
#define BOOTED      (1000 * VIRTUAL_S)
#define STALL_MIN   (10 * VIRTUAL_US)
#define STALL_DEPTH 3 /* processes that are stopped in the middle of a call at one time */

static struct process *running;
static unsigned stalled;

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

static void wake_at(struct process *process, int64_t at)
{
    event_at(&process->wake, at > process->stopped_until ? at : process->stopped_until);
}

void process_make_ready(struct process *process, struct ready *ready)
{
    if (ready->link)
        return;
    ready->next = NULL;
    ready->link = process->last;
    *process->last = ready;
    process->last = &ready->next;
    if (process->inside > 0 || event_is_scheduled(&process->wake))
        return;
    int64_t max = process->wake_max;
    wake_at(process, events_now() + (max > 0 ? (int64_t)events_random((uint64_t)max) : 0));
}

static struct process *enter(struct process *process)
{
    struct process *before = running;
    running = process;
    if (process->inside++ == 0)
        process->entered = events_now();
    return before;
}

static void leave(struct process *process, struct process *before)
{
    running = before;
    process->inside--;
    if (process->inside == 0 && process->first && !event_is_scheduled(&process->wake))
        wake_at(process, events_now());
}

static void iterate(void *arg)
{
    struct process *process = arg;
    if (process->inside > 0) /* stopped in the middle of a call, which comes first */
        return;
    if (events_now() < process->stopped_until) {
        wake_at(process, events_now());
        return;
    }
    struct process *before = enter(process);
    process->iterations++;
    while (process->first) {
        struct ready *ready = process->first;
        ready_forget(process, ready);
        ready->run(ready->arg);
    }
    if (process->iterated)
        process->iterated(process->arg);
    leave(process, before);
}

void process_call(struct process *process, void (*run)(void *arg), void *arg)
{
    struct process *before = enter(process);
    run(arg);
    leave(process, before);
}

void process_ask(struct process *process, void (*run)(void *arg), void *arg)
{
    struct process *before = running;
    bool was_asked = process->is_asked;
    running = process;
    process->is_asked = true;
    run(arg);
    process->is_asked = was_asked;
    running = before;
}

/* --- standing still --- */

void process_stop(struct process *process, int64_t until)
{
    if (until <= process->stopped_until)
        return;
    process->stopped_until = process->resumed = until;
    if (event_is_scheduled(&process->wake))
        wake_at(process, events_now());
}

void process_suspend(struct process *process, int64_t until, bool unnoticed)
{
    int64_t now = events_now(), span = until - now;
    process_stop(process, until);
    process->suspended_until = until;
    virtual_clock_hold(&process->raw, now, until);
    virtual_clock_hold(&process->slewed, now, until);
    if (!unnoticed)
        process->suspended += span;
    process_reschedule(process);
}

bool process_may_fail(const struct process *process, unsigned once_in)
{
    return once_in > 0 && !process->is_asked && events_random(once_in) == 0;
}

void process_may_stall(struct process *process)
{
    if (stalled >= STALL_DEPTH || !process_may_fail(process, process->faults.stall))
        return;
    int64_t span = STALL_MIN;
    while (span < process->faults.stall_max && events_random(4) > 0)
        span *= 2;
    process->stalls++;
    process_stop(process, events_now() + span);
    stalled++;
    running = NULL;
    while (events_step(process->stopped_until)) /* it may be stopped for longer meanwhile */
        ;
    process->resumed = events_now(); /* later, if another one was stopped inside */
    running = process;
    stalled--;
}

void process_set_clocks(struct process *process, int64_t raw_ppm, int64_t slewed_ppm)
{
    bool is_suspended = events_now() < process->suspended_until;
    int64_t from = is_suspended ? process->suspended_until : events_now();
    virtual_clock_set_rate(&process->raw, from, raw_ppm);
    virtual_clock_set_rate(&process->slewed, from, slewed_ppm);
    process_reschedule(process);
}

void process_begin(struct process *process, const char *host, long pid)
{
    struct virtual_clock clock = {.since = events_now(), .value = BOOTED};
    *process = (struct process){.host = host, .pid = pid, .raw = clock, .slewed = clock};
    process->wake_max = WAKE_MAX;
    process->last = &process->first;
    process->wake = (struct event){.happen = iterate, .arg = process};
}

void process_end(struct process *process)
{
    event_cancel(&process->wake);
    while (process->first)
        ready_forget(process, process->first);
    process_forget_lookups(process);
}

/* --- io/system.h --- */

static int64_t read_clock(clockid_t id)
{
    int64_t now = events_now();
    switch (id) {
    case CLOCK_MONOTONIC_RAW: return virtual_clock_read(&running->raw, now);
    case CLOCK_MONOTONIC: return virtual_clock_read(&running->slewed, now);
    default: return virtual_clock_read(&running->slewed, now) + running->suspended;
    }
}

int64_t rl_system_clock_ns(clockid_t id)
{
    int64_t value = read_clock(id);
    if (id != CLOCK_REALTIME) /* it is only shown, and read once a second */
        process_may_stall(running);
    return value;
}

bool rl_system_random(void *bytes, size_t len, bool wait)
{
    uint8_t *byte = bytes;
    if (running->jitter && !wait) {
        uint64_t number = running->jitter();
        memset(bytes, 0, len);
        memcpy(bytes, &number, len < sizeof(number) ? len : sizeof(number));
        return true;
    }
    if (process_may_fail(running, running->faults.no_random)) {
        running->failed_randoms++;
        return false;
    }
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
    if (!running->password || process_may_fail(running, running->faults.no_file))
        return false;
    strncpy(ret_text, running->password, room);
    return strlen(running->password) < room;
}
