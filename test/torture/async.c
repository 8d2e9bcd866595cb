/* One cycle on an event loop: torture-async KIND KEY URI... */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cycle.h"

struct cycle {
    struct kind kind;
    redlock_key keys[3];
    const char *const *uris;
    size_t count;
    struct event_base *base;
    redlock_client *client;
    redlock_lease *lease, *before; /* `before` has the lock first */
    redlock_result result;
    bool reported, clean;
};

static void on_result(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct cycle *cycle = arg;
    (void)lease;
    cycle->result = *result;
    cycle->reported = true;
}

static void on_drained(redlock_client *client, bool clean, void *arg)
{
    struct cycle *cycle = arg;
    (void)client;
    cycle->clean = clean;
    cycle->reported = true;
}

/* A loop that fails is run again: its program can do no better. */
static void iterate(const struct cycle *cycle)
{
    if (event_base_loop(cycle->base, EVLOOP_ONCE) < 0)
        puts("the loop failed");
}

/* Whether the operation has succeeded. */
static bool await(struct cycle *cycle, const char *step)
{
    redlock_node nodes[NODES_MAX];
    while (!cycle->reported)
        iterate(cycle);
    cycle->reported = false;
    if (cycle->result.code == REDLOCK_OK)
        return true;
    size_t count = redlock_explain(cycle->lease, nodes, NODES_MAX);
    cycle_failed(step, cycle->result.code, cycle->result.reason, nodes, count);
    return false;
}

static void await_ready(const struct cycle *cycle)
{
    redlock_node nodes[NODES_MAX];
    while (!cycle_are_ready(nodes, redlock_client_explain(cycle->client, nodes, NODES_MAX)))
        iterate(cycle);
}

static void open_client(struct cycle *cycle)
{
    redlock_options options = cycle_options();
    for (unsigned i = 0; i < TIMES && !(cycle->base = event_base_new()); i++)
        puts("no loop");
    if (!cycle->base)
        exit(1);
    for (unsigned i = 0; redlock_client_new(cycle->base, cycle->uris, cycle->count,
                                            &options, &cycle->client) != REDLOCK_OK;
         i++)
        cycle_again("new", i);
}

/* The lease before this one is freed once a node has told that it has the lock. */
static void end_before(struct cycle *cycle)
{
    redlock_node nodes[NODES_MAX];
    bool is_held = false;
    while (!is_held && !cycle->reported) {
        iterate(cycle);
        size_t count = redlock_explain(cycle->lease, nodes, NODES_MAX);
        for (size_t i = 0; i < count; i++)
            is_held |= nodes[i].verdict == REDLOCK_VERDICT_HELD;
    }
    redlock_lease_free(cycle->before);
    cycle->before = NULL;
}

/* A handle that did not get the lock is freed; its nodes may have to connect again. */
static void acquire(struct cycle *cycle, int64_t wait_ms)
{
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.kind = cycle->kind.kind;
    options.fenced = cycle->kind.fenced;
    options.slots = cycle->kind.slots;
    options.ttl_ms = TTL_MS;
    options.wait_ms = wait_ms;
    for (unsigned i = 0;; i++) {
        if (redlock_acquire_many(cycle->client, cycle->keys, cycle->kind.keys, &options,
                                 on_result, cycle, &cycle->lease) != REDLOCK_OK) {
            cycle_again("acquire", i);
            continue;
        }
        if (cycle->before)
            end_before(cycle);
        if (await(cycle, "acquire"))
            return;
        redlock_lease_free(cycle->lease);
        if (i + 1 == TIMES)
            exit(1);
        await_ready(cycle);
    }
}

static void extend(struct cycle *cycle)
{
    for (unsigned i = 0;; i++) {
        if (redlock_extend(cycle->lease, LONGER_MS, on_result, cycle) != REDLOCK_OK)
            cycle_again("extend", i);
        else if (await(cycle, "extend"))
            return;
        else if (i + 1 == TIMES)
            exit(1);
        else
            await_ready(cycle);
    }
}

static void release(struct cycle *cycle)
{
    for (unsigned i = 0; redlock_release(cycle->lease, on_result, cycle) != REDLOCK_OK; i++)
        cycle_again("release", i);
    (void)await(cycle, "release");
}

static void drain(struct cycle *cycle)
{
    for (unsigned i = 0; redlock_client_drain(cycle->client, REDLOCK_NODE_TIMEOUT,
                                              on_drained, cycle) != REDLOCK_OK;
         i++)
        cycle_again("drain", i);
    while (!cycle->reported)
        iterate(cycle);
    if (!cycle->clean)
        puts("not drained");
}

static void run(struct cycle *cycle)
{
    char token[REDLOCK_TOKEN_MAX + 1];
    open_client(cycle);
    acquire(cycle, REDLOCK_ONE_ATTEMPT);
    if (strcmp(cycle->kind.name, "waiting") == 0) {
        cycle->before = cycle->lease;
        acquire(cycle, TTL_MS);
    }
    strcpy(token, redlock_token(cycle->lease));
    cycle_tell("held", token);
    extend(cycle);
    cycle_tell("extended", token);
    release(cycle);
    cycle_tell("released", token);
    redlock_lease_free(cycle->lease);
    await_ready(cycle);
    drain(cycle);
    redlock_client_free(cycle->client);
    event_base_free(cycle->base);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 1;
    struct cycle cycle = {
        .kind = cycle_kind(argv[1]),
        .uris = (const char *const *)argv + 3,
        .count = (size_t)argc - 3,
    };
    cycle_keys(argv[2], cycle.kind.keys, cycle.keys);
    unsigned before = cycle_descriptors();
    run(&cycle);
    cycle_end(before);
    return 0;
}
