/* Inspects many keys together. */
#ifndef RL_INSPECT_H
#define RL_INSPECT_H

#include "core/kind.h"
#include "redlock/admin.h"

/* All nodes reply so soon that it does not matter to ask one after the other, or often. */
bool rl_nodes_are_near(const redlock_client *client);

/*
 * As redlock_inspect(), of up to RL_INSPECT_MAX keys, each with the client's prefix. Calls
 * back once for each key, in this order. `in_turn`: reads nodes that are near one after the
 * other, so that most of them are free for others. NO_MEMORY, or OK.
 */
redlock_code rl_inspect_keys(redlock_client *client, const struct rl_word *key,
                             unsigned keys, bool in_turn, redlock_inspect_fn *callback,
                             void *arg);

#endif
