/* Takes a lock by both interfaces of the library: hold URI... */
#include <event2/event.h>
#include <redlock/admin.h>
#include <redlock/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 8

static void need(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static void on_released(redlock_lease *lease, const redlock_result *result, void *client)
{
    need(result->code == REDLOCK_OK, redlock_code_text(result->code));
    redlock_lease_free(lease);
    redlock_client_free(client);
}

static void on_held(redlock_lease *lease, const redlock_result *result, void *client)
{
    redlock_node nodes[NODES_MAX];
    unsigned granted = 0;
    need(result->code == REDLOCK_OK, redlock_code_text(result->code));
    size_t count = redlock_explain(lease, nodes, NODES_MAX);
    need(count == redlock_client_nodes(client) && count <= NODES_MAX, "every node is told");
    for (size_t i = 0; i < count; i++)
        granted += nodes[i].verdict == REDLOCK_VERDICT_GRANTED;
    need(granted >= redlock_client_quorum(client), "a majority granted");
    need(redlock_valid_ms(lease) > 0, "the lock is valid");
    printf("held by the event loop, on %zu nodes\n", count);
    redlock_release(lease, on_released, client);
}

static void by_event_loop(const char *const *uris, size_t count)
{
    struct event_base *base = event_base_new();
    redlock_options options;
    redlock_lease_options lease_options;
    redlock_client *client;
    redlock_lease *lease;
    redlock_options_init(&options);
    options.label = "hold";
    redlock_lease_options_init(&lease_options);
    lease_options.ttl_ms = 20000;
    need(!redlock_client_new(base, uris, count, &options, &client), "a client");
    need(!redlock_acquire(client, "k", 1, &lease_options, on_held, client, &lease),
         "an acquire");
    event_base_dispatch(base);
    event_base_free(base);
}

static void by_thread(const char *const *uris, size_t count)
{
    redlock_lock_options options;
    redlock_failure failure;
    redlock_sync *sync;
    redlock_hold *mine, *other;
    redlock_lock_options_init(&options);
    redlock_failure_init(&failure);
    options.failure = &failure;
    need(!redlock_sync_new(uris, count, NULL, &sync), "a client for threads");
    need(!redlock_lock(sync, "k", 1, &options, &mine), "a lock");
    need(redlock_try_lock(sync, "k", 1, &options, &other) == REDLOCK_TAKEN &&
             failure.error->code == REDLOCK_TAKEN,
         "nobody else gets it");
    printf("held by a thread, on %zu nodes\n", redlock_sync_nodes(sync));
    need(!redlock_unlock(mine, REDLOCK_CONFIRM), "an unlock");
    redlock_hold_free(mine);
    redlock_sync_free(sync);
}

int main(int argc, char **argv)
{
    const char *const *uris = (const char *const *)argv + 1;
    size_t count = (size_t)argc - 1;
    by_event_loop(uris, count);
    by_thread(uris, count);
    return 0;
}
