/*
 * A wish: what a caller said of a lease, read and found good. Most leases of a program are
 * wished for in the same words: they share one.
 */
#ifndef RL_WISH_H
#define RL_WISH_H

#include "client.h"
#include "core/kind.h"
#include "core/retry.h"

struct rl_wish {
    redlock_lease_options options; /* to the byte as they were said, so that they compare */
    struct rl_terms terms;
    struct rl_retry retry;
    const struct rl_kind *kind;
    unsigned fences; /* to be reserved */
    bool waits;
    size_t sharers;
};

/* The client's last one, if it is the same. Whoever gets it drops it, once. */
redlock_code rl_wish_read(redlock_client *client, const redlock_lease_options *options,
                          struct rl_wish **ret_wish);

struct rl_wish *rl_wish_share(struct rl_wish *wish);
void rl_wish_drop(struct rl_wish *wish); /* NULL is fine */

/* Of an extension (options.h); the client heeds it from then on. */
redlock_code rl_wish_check_ttl(const struct rl_wish *wish, redlock_client *client,
                               rl_time ttl);

#endif
