#include "client.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "options.h"

/* --- fork --- */

static unsigned generation;

static void forked(void)
{
    generation++;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forked);
}

unsigned rl_fork_generation(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return generation;
}

bool rl_client_is_ours(const redlock_client *client)
{
    return client->generation == rl_fork_generation();
}

/* --- clock --- */

static rl_time read_clock(clockid_t id)
{
    struct timespec at;
    clock_gettime(id, &at);
    return at.tv_sec * RL_SECOND + at.tv_nsec / 1000;
}

rl_time rl_client_read_clock(redlock_client *client)
{
    client->view.now = rl_clock_advance(&client->clock, read_clock(CLOCK_BOOTTIME),
                                        read_clock(CLOCK_MONOTONIC_RAW));
    return client->view.now;
}

/* For jitter. A token has bits of its own. */
uint64_t rl_client_random(redlock_client *client)
{
    uint64_t bits = 0;
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits))
        bits = (uint64_t)client->view.now * UINT64_C(0x9e3779b97f4a7c15);
    return bits;
}

/* --- tasks --- */

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
    task->next_zombie = task->client->zombie;
    task->client->zombie = task;
}

static void destroy_zombies(redlock_client *client)
{
    while (client->zombie) {
        struct rl_task *task = client->zombie;
        client->zombie = task->next_zombie;
        task->prev->next = task->next;
        task->next->prev = task->prev;
        client->tasks--;
        task->class->destroy(task);
    }
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

void rl_client_plan(redlock_client *client)
{
    if (client->pass_ends)
        return;
    client->pass_ends = true;
    event_active(client->end_of_pass, EV_TIMEOUT, 0);
}

void rl_task_due_exactly(struct rl_task *task, rl_time at)
{
    if (task->dead)
        return;
    rl_heap_set(&task->client->heap, &task->due, at);
    rl_client_plan(task->client);
}

void rl_task_due(struct rl_task *task, rl_time at)
{
    if (!task->due.place || at < task->due.at)
        rl_task_due_exactly(task, at);
}

/* --- entering and leaving --- */

static void finish_closing(redlock_client *client);

void rl_client_enter(redlock_client *client)
{
    client->depth++;
}

void rl_client_leave(redlock_client *client)
{
    if (--client->depth > 0)
        return;
    destroy_zombies(client);
    if (client->closing)
        finish_closing(client);
}

redlock_code rl_client_call(redlock_client *client)
{
    if (!client)
        return REDLOCK_CLOSED;
    if (!rl_client_is_ours(client))
        return REDLOCK_FORKED;
    if (client->closing)
        return REDLOCK_CLOSED;
    rl_client_enter(client);
    client->api++;
    rl_client_read_clock(client);
    rl_client_plan(client);
    return REDLOCK_OK;
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

static void tick_due(redlock_client *client)
{
    struct rl_due *due = rl_heap_list(&client->heap, client->view.now);
    for (; due; due = due->next) {
        struct rl_task *task = (struct rl_task *)due;
        if (!task->dead && due->place && due->at <= client->view.now)
            task->class->tick(task);
    }
}

static void write_queued(redlock_client *client)
{
    while (client->unwritten) {
        unsigned i = rl_first(client->unwritten);
        struct rl_member *member = &client->member[i];
        client->unwritten &= ~rl_bit(i);
        if (member->node.fd >= 0 && !rl_node_flush(&member->node))
            rl_member_failed(member, RL_FAULT_CLOSED);
    }
}

/*
 * CLOCK_BOOTTIME, so that the end of a suspension wakes us. It is slewed and our clock is
 * not: a long sleep is cut short, and the rest is slept again.
 */
#define SLEEP_WHOLE (8 * RL_MS)

static void set_timer(redlock_client *client)
{
    rl_time first = rl_heap_first(&client->heap);
    rl_time now = client->view.now;
    if (first == RL_NEVER || (client->armed_for > now && client->armed_for <= first))
        return;
    rl_time delay = rl_max(first - now, 1);
    if (delay > SLEEP_WHOLE)
        delay -= delay / 8;
    struct itimerspec in = {
        .it_value = {.tv_sec = delay / RL_SECOND, .tv_nsec = delay % RL_SECOND * 1000}};
    if (timerfd_settime(client->timer_fd, 0, &in, NULL) == 0)
        client->armed_for = now + delay;
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
    write_queued(client);
    client->pass_ends = false;
    rl_drain_look(client);
    rl_client_read_clock(client);
    if (rl_heap_first(&client->heap) <= client->view.now)
        rl_client_plan(client);
    else
        set_timer(client);
    rl_client_leave(client);
}

/* --- making and freeing --- */

static bool open_loop(redlock_client *client)
{
    client->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (client->timer_fd < 0)
        return false;
    client->timer =
        event_new(client->base, client->timer_fd, EV_READ | EV_PERSIST, on_timer, client);
    client->end_of_pass = event_new(client->base, -1, 0, on_end_of_pass, client);
    return client->timer && client->end_of_pass && event_add(client->timer, NULL) == 0;
}

static bool init_tasks(redlock_client *client)
{
    client->list.prev = client->list.next = &client->list;
    return rl_members_init(client);
}

static redlock_client *allocate(struct event_base *base, unsigned n)
{
    redlock_client *client = calloc(1, sizeof(*client));
    struct rl_member *member = calloc(n, sizeof(*member));
    if (!client || !member) {
        free(client);
        free(member);
        return NULL;
    }
    for (unsigned i = 0; i < n; i++)
        member[i].node.fd = -1;
    client->base = base;
    client->resolver.base = base;
    client->n = n;
    client->member = member;
    client->timer_fd = -1;
    client->armed_for = RL_NEVER;
    client->generation = rl_fork_generation();
    client->view.round_trip = client->round_trip;
    return client;
}

static void release_memory(redlock_client *client)
{
    rl_heap_free(&client->heap);
    rl_options_clear(&client->options);
    free(client->scratch[0]);
    free(client->scratch[1]);
    free(client->member);
    free(client);
}

static void finish_closing(redlock_client *client)
{
    for (unsigned i = 0; i < client->n; i++)
        rl_node_clear(&client->member[i].node);
    rl_resolver_clear(&client->resolver);
    if (client->timer)
        event_free(client->timer);
    if (client->end_of_pass)
        event_free(client->end_of_pass);
    if (client->timer_fd >= 0)
        close(client->timer_fd);
    release_memory(client);
}

redlock_code redlock_client_new(struct event_base *base, const char *const *uris,
                                size_t count, const redlock_options *options,
                                redlock_client **ret_client, redlock_error *ret_error)
{
    if (count < 1 || count > REDLOCK_NODES_MAX)
        return rl_fail(ret_error, REDLOCK_BAD_NODES,
                       count ? "%zu nodes are more than %d" : "no node is configured",
                       count, REDLOCK_NODES_MAX);
    redlock_client *client = allocate(base, (unsigned)count);
    if (!client)
        return rl_fail(ret_error, REDLOCK_NO_MEMORY, "out of memory");
    redlock_code code = rl_options_copy(options, count, &client->options, ret_error);
    if (code == REDLOCK_OK)
        code = rl_members_parse(client, uris, ret_error);
    if (code == REDLOCK_OK && !init_tasks(client))
        code = rl_fail(ret_error, REDLOCK_NO_MEMORY, "out of memory");
    if (code == REDLOCK_OK && !open_loop(client))
        code = rl_fail(ret_error, REDLOCK_SYSTEM, "the event loop takes no timer");
    if (code != REDLOCK_OK) {
        finish_closing(client);
        return code;
    }
    client->q = client->options.quorum ? client->options.quorum : rl_majority(client->n);
    client->max_ttl = (client->options.max_ttl_ms ? client->options.max_ttl_ms
                                                  : REDLOCK_QUARANTINE_FLOOR_MS) *
                      RL_MS;
    rl_clock_init(&client->clock, read_clock(CLOCK_BOOTTIME),
                  read_clock(CLOCK_MONOTONIC_RAW));
    rl_client_read_clock(client);
    rl_members_start(client);
    *ret_client = client;
    return REDLOCK_OK;
}

/* The child's copy of the loop shares the parent's epoll: it must not be touched. */
static void forget(redlock_client *client)
{
    for (unsigned i = 0; i < client->n; i++)
        rl_node_forget(&client->member[i].node);
    close(client->timer_fd);
    for (struct rl_task *task = client->list.next; task != &client->list;) {
        struct rl_task *next = task->next;
        task->class->destroy(task);
        task = next;
    }
    release_memory(client);
}

void redlock_client_free(redlock_client *client)
{
    if (!client)
        return;
    if (!rl_client_is_ours(client)) {
        forget(client);
        return;
    }
    if (client->closing)
        return;
    rl_client_enter(client);
    client->closing = true;
    for (struct rl_task *task = client->list.next; task != &client->list;
         task = task->next) {
        if (!task->dead && task->class->close)
            task->class->close(task);
        if (task->dead && task->owed > 0)
            rl_task_bury(task);
        task->owed = 0;
        rl_task_end(task);
    }
    rl_members_deafen(client);
    rl_client_leave(client);
}

size_t redlock_client_nodes(const redlock_client *client)
{
    return client->n;
}

unsigned redlock_client_quorum(const redlock_client *client)
{
    return client->q;
}
