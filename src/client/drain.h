/* A drain: waits until pending replies and releases are done. */
#ifndef RL_DRAIN_H
#define RL_DRAIN_H

#include "loop.h"

/*
 * For the end of each iteration: reports the client's drain if it is complete or its
 * deadline has passed.
 */
void rl_drain_recheck(struct rl_loop *loop);

#endif
