/*
 * For a caller that hands one lease from owner to owner, as src/sync does: the only header
 * of this room that another room may use.
 */
#ifndef RL_HAND_OVER_H
#define RL_HAND_OVER_H

#include "redlock/redlock.h"

#define RL_FENCES_MAX 64 /* fencing tokens that one acquisition can reserve; lua/, too */

struct rl_hand_over {
    /* How many tokens to reserve, from 1. redlock_fence() is the first; no gaps follow. */
    unsigned fences;
    bool joins_tail; /* if it waits, it joins the wait queue before its first attempt */
};

/* redlock_acquire_many() for such a lease. */
redlock_code rl_hand_over_acquire(redlock_client *client, const redlock_key *keys,
                                  size_t count, const redlock_lease_options *options,
                                  const struct rl_hand_over *hand_over,
                                  redlock_lease_fn *callback, void *arg,
                                  redlock_lease **ret_lease);

/* The lock goes to another owner: spans and events are this user's from now on. */
void rl_hand_over_to(redlock_lease *lease, void *user);

/* Its release was requested and is not sent yet: the nodes have no room for it. */
bool rl_hand_over_is_queued(const redlock_lease *lease);

/* In the callback of a release: another client waits, or waited until just now. */
bool rl_hand_over_is_awaited(const redlock_lease *lease);

#endif
