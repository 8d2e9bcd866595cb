/* Names to addresses, without blocking the loop. */
#ifndef RL_RESOLVE_H
#define RL_RESOLVE_H

#include <event2/event.h>

#include "stream.h"

struct rl_resolver {
    struct event_base *base;
    struct evdns_base *dns; /* made when the first name needs it */
};

struct rl_resolve;

/* `address` is NULL if the name does not resolve. */
typedef void rl_resolve_fn(const struct rl_address *address, void *arg);

/*
 * Resolves a name or a numeric address. A name with several addresses gives another one at
 * each turn. Returns a request that can be cancelled, or NULL: `done` was called already.
 * There is no deadline here: the link has one.
 */
struct rl_resolve *rl_resolve_start(struct rl_resolver *resolver, const char *host,
                                    int port, unsigned turn, rl_resolve_fn *done,
                                    void *arg);

/* `done` will not be called. */
void rl_resolve_cancel(struct rl_resolve *request);

void rl_resolver_clear(struct rl_resolver *resolver);

#endif
