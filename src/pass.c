/* The passes of the loop: the clock, what has run out, what is due, and the one timer. */
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client.h"
#include "system_clock.h"

/* --- clock --- */

static rl_time read_clock(clockid_t id)
{
    return rl_clock_ns(id) / 1000;
}

static rl_time read_other(redlock_client *client)
{
    int64_t raw, unslewed = rl_clock_unslewed_ns(&raw);
    client->raw = raw / 1000;
    return rl_clock_advance(&client->clock, client->boot, unslewed / 1000);
}

rl_time rl_client_read_clock(redlock_client *client)
{
    client->stale = false;
    client->boot = read_clock(CLOCK_BOOTTIME);
    client->view.now = rl_clock_glance(&client->clock, client->boot) ? client->clock.now
                                                                     : read_other(client);
    return client->view.now;
}

void rl_client_read_clocks(redlock_client *client)
{
    client->stale = false;
    client->boot = read_clock(CLOCK_BOOTTIME);
    client->view.now = read_other(client);
}

/* For jitter. A token has bits of its own. */
uint64_t rl_client_random(redlock_client *client)
{
    uint64_t bits = 0;
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits))
        bits = (uint64_t)client->view.now * UINT64_C(0x9e3779b97f4a7c15);
    return bits;
}

/* --- entering and leaving --- */

void rl_client_enter(redlock_client *client)
{
    client->depth++;
}

void rl_client_leave(redlock_client *client)
{
    if (--client->depth > 0)
        return;
    rl_task_destroy_dead(client);
    if (client->closing)
        rl_client_close(client);
}

redlock_code rl_client_call_untimed(redlock_client *client)
{
    if (!client)
        return REDLOCK_CLOSED;
    if (!rl_client_is_ours(client))
        return REDLOCK_FORKED;
    if (client->closing)
        return REDLOCK_CLOSED;
    rl_client_enter(client);
    client->api++;
    rl_client_plan(client);
    return REDLOCK_OK;
}

redlock_code rl_client_call(redlock_client *client)
{
    redlock_code code = rl_client_call_untimed(client);
    if (code == REDLOCK_OK)
        rl_client_read_clock(client);
    return code;
}

void rl_client_return(redlock_client *client)
{
    client->api--;
    rl_client_leave(client);
}

/* Before any reply: whatever has run out is told. */
static void expire(redlock_client *client)
{
    rl_time now = rl_client_read_clock(client);
    if (rl_heap_first(&client->heap) > now)
        return;
    struct rl_due *due = rl_heap_list(&client->heap, now);
    for (; due; due = due->next) {
        struct rl_task *task = (struct rl_task *)due;
        if (!task->dead && task->class->expire)
            task->class->expire(task);
    }
}

void rl_client_wake(redlock_client *client)
{
    rl_client_enter(client);
    if (client->depth > 1)
        return;
    expire(client);
    rl_client_plan(client);
}

/* --- passes --- */

void rl_client_plan(redlock_client *client)
{
    if (client->pass_ends)
        return;
    client->pass_ends = true;
    event_active(client->end_of_pass, EV_TIMEOUT, 0);
}

static void tick_due(redlock_client *client)
{
    struct rl_due *due = rl_heap_list(&client->heap, client->view.now);
    for (; due; due = due->next) {
        struct rl_task *task = (struct rl_task *)due;
        if (!task->dead && rl_heap_when(&client->heap, due) <= client->view.now)
            task->class->tick(task);
    }
}

/* Not by a child that was forked in a callback: the streams are its parent's. */
static void write_queued(redlock_client *client)
{
    while (client->unwritten && rl_client_is_ours(client)) {
        unsigned i = rl_first(client->unwritten);
        struct rl_member *member = &client->member[i];
        client->unwritten &= ~rl_bit(i);
        enum rl_fault fault =
            member->node.fd >= 0 ? rl_node_flush(&member->node) : RL_FAULT_NONE;
        if (fault != RL_FAULT_NONE)
            rl_member_failed(member, fault);
    }
    if (!client->unwritten)
        rl_post_empty(&client->post);
}

/*
 * CLOCK_BOOTTIME, so that the end of a suspension wakes us. It is slewed and our clock is
 * not: a long sleep is cut short, and the rest is slept again.
 */
#define SLEEP_WHOLE (8 * RL_MS)

/*
 * Also for what is due already: an event that is made active while it runs is run again
 * before any socket is looked at, and who tries again at once would keep the loop from
 * hearing why to stop.
 */
static void set_timer(redlock_client *client)
{
    rl_time now = client->view.now;
    rl_time first = client->soon ? now : rl_heap_first(&client->heap);
    if (first == RL_NEVER || (client->armed_for > now && client->armed_for <= first))
        return;
    rl_time delay = rl_max(first - now, 1), latest = now + delay;
    if (delay > SLEEP_WHOLE)
        delay -= delay / 8;
    /* Not from now on: the process may have stood still since it looked at the clock. */
    rl_time at = client->boot + delay;
    struct itimerspec when = {
        .it_value = {.tv_sec = at / RL_SECOND, .tv_nsec = at % RL_SECOND * 1000}};
    if (timerfd_settime(client->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0)
        client->armed_for = latest;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    redlock_client *client = arg;
    uint64_t times;
    (void)what;
    (void)!read(fd, &times, sizeof(times));
    client->armed_for = RL_NEVER;
    rl_client_wake(client);
    rl_client_leave(client);
}

static void on_end_of_pass(evutil_socket_t fd, short what, void *arg)
{
    redlock_client *client = arg;
    (void)fd;
    (void)what;
    rl_client_enter(client);
    expire(client);
    tick_due(client);
    rl_task_tick_soon(client);
    rl_token_bits_drop(&client->token_bits);
    write_queued(client);
    client->pass_ends = false;
    rl_drain_look(client);
    set_timer(client);
    rl_client_leave(client);
}

/* --- the loop --- */

bool rl_client_open_loop(redlock_client *client)
{
    struct rl_clocks clocks = rl_clocks_begin();
    rl_clock_init(&client->clock, clocks.boot, clocks.unslewed);
    rl_client_read_clock(client);
    client->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (client->timer_fd < 0)
        return false;
    client->timer =
        event_new(client->base, client->timer_fd, EV_READ | EV_PERSIST, on_timer, client);
    client->end_of_pass = event_new(client->base, -1, 0, on_end_of_pass, client);
    return client->timer && client->end_of_pass && event_add(client->timer, NULL) == 0;
}

void rl_client_close_loop(redlock_client *client)
{
    if (client->timer)
        event_free(client->timer);
    if (client->end_of_pass)
        event_free(client->end_of_pass);
    if (client->timer_fd >= 0)
        close(client->timer_fd);
}
