/* Resolves host names to addresses without blocking the loop. */
#ifndef RL_RESOLVER_H
#define RL_RESOLVER_H

#include "lookup.h"
#include "loop_fd.h"

struct event;
struct event_base;
struct rl_resolve;

struct rl_resolver {
    struct event_base *base;
    struct rl_loop_fd wake;     /* these are created when the first name is resolved */
    struct event *woken, *late; /* NULL: not yet */
    LIST_HEAD(, rl_resolve) waiting;
};

/*
 * With no address, `reason` says why, in the resolver's own words. The addresses are valid
 * until the request is started again or freed, the reason until this returns.
 */
typedef void rl_resolve_fn(const struct rl_address *addresses, unsigned count,
                           const char *reason, void *arg);

/* Prepares to resolve a name or a numeric address. Returns NULL if there is no memory. */
struct rl_resolve *rl_resolve_new(struct rl_resolver *resolver, const char *host, int port,
                                  rl_resolve_fn *done, void *arg);

/*
 * Calls `done`, possibly before it returns. As soon as there are addresses of one family,
 * or some from an earlier lookup, it waits for the rest for at most 50 ms (the resolution
 * delay of RFC 8305). There is no other timeout here: the link has one.
 */
void rl_resolve_start(struct rl_resolve *request);

/* Of a request that waits: for what, in the resolver's own words. */
const char *rl_resolve_silence(const struct rl_resolve *request);

/* After this, `done` is not called. It can be started again. */
void rl_resolve_cancel(struct rl_resolve *request);

void rl_resolve_free(struct rl_resolve *request);

/* Call it when all requests are freed. The loop may go on after it. */
void rl_resolver_clear(struct rl_resolver *resolver);

#endif
