/* One cycle of a thread: torture-sync KIND KEY URI... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cycle.h"
#include "redlock/sync.h"

static void await_ready(redlock_sync *sync)
{
    redlock_node nodes[NODES_MAX];
    while (!cycle_are_ready(nodes, redlock_sync_explain(sync, nodes, NODES_MAX)))
        usleep(1000);
}

static redlock_sync *open_client(const char *const *uris, size_t count)
{
    redlock_options options = cycle_options();
    redlock_sync *sync;
    for (unsigned i = 0; redlock_sync_new(uris, count, &options, &sync) != REDLOCK_OK; i++)
        cycle_again("new", i);
    return sync;
}

static redlock_hold *lock(redlock_sync *sync, const struct kind *kind,
                          const redlock_key *keys)
{
    redlock_lock_options options;
    redlock_failure failure;
    redlock_node nodes[NODES_MAX];
    redlock_hold *hold;
    redlock_lock_options_init(&options);
    redlock_failure_init(&failure);
    failure.nodes = nodes;
    failure.room = NODES_MAX;
    options.failure = &failure;
    options.kind = kind->kind;
    options.fenced = kind->fenced;
    options.slots = kind->slots;
    options.ttl_ms = TTL_MS;
    for (unsigned i = 0;
         redlock_lock_many(sync, keys, kind->keys, 0, &options, &hold) != REDLOCK_OK; i++) {
        if (failure.count > 0)
            cycle_failed("lock", failure.error->code, failure.error->reason, nodes,
                         failure.count);
        cycle_again("lock", i);
        await_ready(sync);
    }
    return hold;
}

static void extend(redlock_sync *sync, redlock_hold *hold)
{
    redlock_node nodes[NODES_MAX];
    redlock_code code;
    for (unsigned i = 0; (code = redlock_hold_extend(hold, LONGER_MS)) != REDLOCK_OK; i++) {
        redlock_reason reason = redlock_last_error()->reason;
        cycle_again("extend", i);
        cycle_failed("extend", code, reason, nodes,
                     redlock_hold_explain(hold, nodes, NODES_MAX));
        await_ready(sync);
    }
}

static void run(const struct kind *kind, const redlock_key *keys, const char *const *uris,
                size_t count)
{
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_sync *sync = open_client(uris, count);
    redlock_hold *hold = lock(sync, kind, keys);
    strcpy(token, redlock_hold_token(hold));
    cycle_tell("held", token);
    extend(sync, hold);
    cycle_tell("extended", token);
    if (redlock_unlock(hold, REDLOCK_CONFIRM) != REDLOCK_OK)
        cycle_again("unlock", 0);
    cycle_tell("released", token);
    redlock_hold_free(hold);
    await_ready(sync);
    redlock_sync_free(sync);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 1;
    struct kind kind = cycle_kind(argv[1]);
    redlock_key keys[3];
    cycle_keys(argv[2], kind.keys, keys);
    unsigned before = cycle_descriptors();
    run(&kind, keys, (const char *const *)argv + 3, (size_t)argc - 3);
    cycle_end(before);
    return 0;
}
