#include "loop.h"

#include "base/error.h"
#include "base/system_clock.h"
#include "io/system.h"
#include "io/timer.h"

/* --- clock and random numbers --- */

static void read_boot(struct rl_loop *loop)
{
    loop->stale = false;
    loop->boot = rl_system_clock_ns(CLOCK_BOOTTIME) / 1000;
}

/* False: the process was stopped between two of the readings. */
static bool read_all(struct rl_loop *loop)
{
    int64_t later;
    loop->unslewed = rl_clock_unslewed_ns(&later) / 1000;
    return later / 1000 - loop->boot <= RL_CLOCK_APART;
}

/*
 * A stop between two readings puts the result ahead. That is safe for a lease. But a
 * command would seem to be sent later than it was: its reply seems too early, and the
 * node's clock too fast. So the clocks are read again.
 */
#define LOOKS_MAX 8

static rl_time read_other(struct rl_loop *loop)
{
    bool together = read_all(loop);
    for (unsigned looks = 1; !together && looks < LOOKS_MAX; looks++) {
        read_boot(loop);
        together = read_all(loop);
    }
    if (together)
        return rl_clock_advance(&loop->clock, loop->boot, loop->unslewed);
    return rl_clock_advance_apart(&loop->clock, loop->boot, loop->unslewed);
}

rl_time rl_loop_read_clock(struct rl_loop *loop)
{
    read_boot(loop);
    loop->now =
        rl_clock_glance(&loop->clock, loop->boot) ? loop->clock.now : read_other(loop);
    return loop->now;
}

void rl_loop_read_clocks(struct rl_loop *loop)
{
    read_boot(loop);
    loop->now = read_other(loop);
}

uint64_t rl_loop_random(struct rl_loop *loop)
{
    uint64_t bits = 0;
    if (!rl_system_random(&bits, sizeof(bits), false))
        bits = (uint64_t)loop->now * UINT64_C(0x9e3779b97f4a7c15);
    return bits;
}

/* --- entering and leaving --- */

bool rl_loop_is_ours(const struct rl_loop *loop)
{
    return loop->generation == rl_system_fork_generation();
}

void rl_loop_enter(struct rl_loop *loop)
{
    loop->depth++;
}

void rl_loop_leave(struct rl_loop *loop)
{
    if (--loop->depth > 0)
        return;
    if (loop->wants_end && !loop->ends) {
        loop->ends = true;
        rl_timer_want_end(loop->timer);
    }
    rl_task_free_deferred(loop);
    if (loop->closing)
        loop->class->close(loop);
}

redlock_code rl_loop_call_untimed(struct rl_loop *loop)
{
    if (!rl_loop_is_ours(loop))
        return rl_fail_by_code(REDLOCK_FORKED);
    if (loop->closing)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_CLIENT_FREED);
    rl_loop_enter(loop);
    loop->api++;
    loop->wants_end = true;
    return REDLOCK_OK;
}

redlock_code rl_loop_call(struct rl_loop *loop)
{
    redlock_code code = rl_loop_call_untimed(loop);
    if (code == REDLOCK_OK)
        rl_loop_read_clock(loop);
    return code;
}

void rl_loop_return(struct rl_loop *loop)
{
    loop->api--;
    rl_loop_leave(loop);
}

/* Reports expired deadlines. Runs before any reply is processed. */
RL_HOT static void expire(struct rl_loop *loop)
{
    rl_time now = rl_loop_read_clock(loop);
    if (rl_heap_first(&loop->heap) > now)
        return;
    struct rl_due *due = rl_heap_list(&loop->heap, now);
    for (; due; due = due->next) {
        struct rl_task *task = (struct rl_task *)due;
        if (!task->dead && task->class->expire)
            task->class->expire(task);
    }
}

void rl_loop_wake(struct rl_loop *loop)
{
    rl_loop_enter(loop);
    if (loop->depth > 1)
        return;
    expire(loop);
    loop->wants_end = true;
}

void rl_loop_broadcast(struct rl_loop *loop, enum rl_task_event event, unsigned node)
{
    struct rl_task *task;
    TAILQ_FOREACH (task, &loop->list, in_loop) {
        rl_loop_refresh_clock(loop);
        if (!task->dead && task->class->event)
            task->class->event(task, event, node);
    }
}

/* --- iterations --- */

static void tick_due(struct rl_loop *loop)
{
    struct rl_due *due = rl_heap_list(&loop->heap, loop->now);
    for (; due; due = due->next) {
        struct rl_task *task = (struct rl_task *)due;
        if (task->dead || rl_heap_when(&loop->heap, due) > loop->now)
            continue;
        rl_heap_drop(&loop->heap, due);
        task->class->tick(task);
    }
}

/*
 * The timer uses CLOCK_BOOTTIME, so that it fires when a suspension ends. A time daemon
 * slews that clock, but not the client's clock. So a delay above SLEEP_WHOLE is shortened
 * by an eighth, and the timer is set again for the rest.
 */
#define SLEEP_WHOLE (8 * RL_MS)

/*
 * Uses the timer even for a task that is already due, and for what the last callbacks of
 * the iteration began. If the end-of-iteration event made itself active, libevent would run
 * it again before it polls any socket. A task or a callback that retries at once could then
 * keep the loop from reading any reply or signal.
 */
static void set_timer(struct rl_loop *loop)
{
    rl_time now = loop->now;
    rl_time first = !TAILQ_EMPTY(&loop->queue[RL_TASK_SOON]) || loop->wants_end
                        ? now
                        : rl_heap_first(&loop->heap);
    if (first == RL_NEVER || (loop->armed_for > now && loop->armed_for <= first))
        return;
    rl_time delay = rl_max(first - now, 1), latest = now + delay;
    if (delay > SLEEP_WHOLE)
        delay -= delay / 8;
    /* Absolute, not relative: the process may have paused since it read the clock. */
    if (rl_timer_set(loop->timer, loop->boot + delay))
        loop->armed_for = latest;
}

static void loop_on_timer(void *arg)
{
    struct rl_loop *loop = arg;
    loop->armed_for = RL_NEVER;
    rl_loop_wake(loop);
    rl_loop_leave(loop);
}

RL_HOT static void on_end(void *arg)
{
    struct rl_loop *loop = arg;
    rl_loop_enter(loop);
    expire(loop);
    tick_due(loop);
    if (loop->queued)
        rl_task_run_queued(loop);
    if (!TAILQ_EMPTY(&loop->queue[RL_TASK_SOON]))
        rl_task_run_soon(loop);
    rl_token_bits_drop(&loop->token_bits);
    loop->class->write(loop);
    loop->wants_end = false;
    loop->class->ended(loop);
    if (loop->events.len > 0)
        rl_events_pass_on(&loop->events);
    set_timer(loop);
    loop->wants_end = loop->ends = false;
    rl_loop_leave(loop);
}

static const struct rl_timer_handler handler = {.fired = loop_on_timer, .ended = on_end};

/* --- init --- */

void rl_loop_init(struct rl_loop *loop, struct event_base *base,
                  const struct rl_loop_class *class)
{
    loop->class = class;
    loop->base = base;
    loop->armed_for = RL_NEVER;
    loop->generation = rl_system_fork_generation();
    TAILQ_INIT(&loop->list);
    for (unsigned urgency = 0; urgency < RL_TASK_URGENCIES; urgency++)
        TAILQ_INIT(&loop->queue[urgency]);
}

bool rl_loop_open(struct rl_loop *loop)
{
    struct rl_clocks clocks = rl_clocks_begin();
    rl_clock_init(&loop->clock, clocks.boot, clocks.unslewed);
    rl_recorder_init(&loop->recorder, rl_loop_read_clock(loop));
    loop->timer = rl_timer_new(loop->base, &handler, loop);
    return loop->timer != NULL;
}

void rl_loop_close(struct rl_loop *loop)
{
    if (loop->timer)
        rl_timer_free(loop->timer);
    rl_heap_free(&loop->heap);
    rl_events_free(&loop->events);
}
