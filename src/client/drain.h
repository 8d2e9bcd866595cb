/* A drain: waits until pending replies and releases are done. */
#ifndef RL_DRAIN_H
#define RL_DRAIN_H

#include "nodes.h"

/* The caller's request. */
struct rl_drain {
    struct rl_task task;
    struct rl_nodes *nodes;
    struct rl_drain **current; /* where the client keeps it; NULL there: none */
    rl_time deadline;
    redlock_client *client; /* for the callback */
    redlock_drain_fn *callback;
    void *arg;
};

/* Starts a drain and stores it in `*ret_drain` until it ends. BUSY: there is one already.
 */
redlock_code rl_drain_start(redlock_client *client, struct rl_nodes *nodes,
                            int64_t timeout_ms, redlock_drain_fn *callback, void *arg,
                            struct rl_drain **ret_drain);

/* Reports the drain if it is complete or its deadline has passed. NULL is fine. */
void rl_drain_recheck(struct rl_drain *drain);

#endif
