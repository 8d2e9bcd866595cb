/* A drain: waits until pending replies and releases are done. */
#ifndef RL_DRAIN_H
#define RL_DRAIN_H

#include "loop.h"

/* The caller's request. */
struct rl_drain {
    struct rl_task task;
    struct rl_nodes *nodes;
    struct rl_drain **current; /* the client's pointer to this drain; NULL after the end */
    rl_time deadline;
    redlock_client *client; /* for the callback */
    redlock_drain_fn *callback;
    void *arg;
};

/* Starts a drain and stores it in `*ret_drain` until it ends. BUSY: there is one already.
 */
void rl_drain_recheck(struct rl_loop *loop);

#endif
