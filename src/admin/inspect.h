/* Inspects many keys together. */
#ifndef RL_INSPECT_H
#define RL_INSPECT_H

#include "core/kind.h"
#include "redlock/admin.h"

/*
 * As redlock_inspect(), of up to RL_INSPECT_MAX keys, each with the client's prefix. Calls
 * back once for each key, in this order. NO_MEMORY, or OK.
 */
redlock_code rl_inspect_keys(redlock_client *client, const struct rl_word *key,
                             unsigned keys, redlock_inspect_fn *callback, void *arg);

#endif
