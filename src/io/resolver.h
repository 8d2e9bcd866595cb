/* Resolves host names to addresses without blocking the loop. */
#ifndef RL_RESOLVER_H
#define RL_RESOLVER_H

#include "stream.h"

struct event_base;
struct rl_names;

struct rl_resolver {
    struct event_base *base;
    struct rl_names *names; /* created when the first name is resolved */
};

struct rl_resolve;

/* `address` is NULL if the name does not resolve. */
typedef void rl_resolve_fn(const struct rl_address *address, void *arg);

/*
 * Resolves a name or a numeric address. If a name has several addresses, `address_turn`
 * modulo their number selects one. /etc/hosts and /etc/resolv.conf are read again if they
 * have changed. Returns a request that can be cancelled, or NULL: `done` was called
 * already. There is no timeout here: the link has one.
 */
struct rl_resolve *rl_resolve_start(struct rl_resolver *resolver, const char *host,
                                    int port, unsigned address_turn, rl_resolve_fn *done,
                                    void *arg);

/* After this, `done` is not called. */
void rl_resolve_cancel(struct rl_resolve *request);

/* Call it when all requests were cancelled. The loop may go on after it. */
void rl_resolver_clear(struct rl_resolver *resolver);

#endif
