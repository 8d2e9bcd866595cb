/*
 * redlock run: the release of a lock whose redlock has ended. It runs in the keeper, which
 * was forked before redlock had connections, so it makes a client of its own.
 */
#include "run.h"

#include <string.h>

#define TIMEOUT_MAX_MS                                                                     \
    500 /* a node that hangs delays the release on the others by that                      \
         */

/* If too few nodes confirm the release, the lock ends with its TTL. */
void run_release_orphan(void *arg, const struct keeper_lock *lock)
{
    struct cli *cli = arg;
    struct cli_outcome outcome = {.done = false};
    redlock_lease_options options;
    redlock_lease *lease;
    redlock_lease_options_init(&options);
    options.ttl_ms = cli->lease.ttl_ms;
    options.slots = cli->lease.slots;
    options.fence = lock->fence;
    if (lock->slot > 0) { /* the key by which redlock_adopt() knows a slot */
        redlock_key *key = &cli->keys.of[0];
        key->bytes = cli_format("%s!%u", (const char *)key->bytes, lock->slot);
        key->len = strlen(key->bytes);
    }
    cli->options.log = NULL;
    if (cli->options.node_timeout_ms > TIMEOUT_MAX_MS)
        cli->options.node_timeout_ms = TIMEOUT_MAX_MS;
    cli_connect(cli);
    redlock_code code =
        redlock_adopt_many(cli->client, cli->keys.of, cli_keys_count(&cli->keys),
                           lock->token, 0, &options, &lease);
    if (code == REDLOCK_OK)
        code = redlock_release(lease, cli_note_outcome, &outcome);
    if (code != REDLOCK_OK)
        return;
    cli_wait(cli->base, &outcome.done);
    cli_drain(cli);
}
