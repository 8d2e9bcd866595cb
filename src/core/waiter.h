/*
 * A waiter: the state machine that decides when a client that waits for a lock tries again.
 *
 * A client that did not get the lock is queued on each node, ordered by the time since when
 * it waits. A release notifies the first waiter of each queue, and the second. A
 * notification is only a hint: the queues of the nodes differ, notifications get lost,
 * and other clients may be faster. Therefore:
 *
 * - A waiter that q nodes notify as the first tries at once.
 * - A waiter that q nodes notify as the first or second tries after `grace`, so that the
 *   first waiter can go first.
 * - A waiter that fewer nodes notify tries after twice `grace`: there may be no waiter that
 *   q nodes notify.
 * - A waiter without a notification tries again when the lock that it saw has ended.
 * - If fewer than q nodes can notify the waiter, the retry policy (retry.h) applies.
 */
#ifndef RL_WAITER_H
#define RL_WAITER_H

#include "quorum.h"

struct rl_waiter {
    rl_node_set queued; /* it is queued there, and receives notifications */
    rl_node_set first;  /* notified it as the first, since its last attempt */
    rl_node_set second; /* notified it as the first or second */
};

#define RL_WAITER_FIRST  0
#define RL_WAITER_SECOND 1

/* An attempt begins: resets the waiter. */
void rl_waiter_attempt(struct rl_waiter *waiter);

/* The node queued it; or notifications from the node cannot arrive any more. */
void rl_waiter_queued(struct rl_waiter *waiter, unsigned node);
void rl_waiter_dequeued(struct rl_waiter *waiter, unsigned node);

/* The node notified it. Returns when to try: now, after `grace` or after twice `grace`. */
rl_time rl_waiter_notified(struct rl_waiter *waiter, unsigned q, unsigned node,
                           unsigned position, rl_time now, rl_time grace);

/* q nodes can notify it. False: the retry policy applies. */
bool rl_waiter_is_queued(const struct rl_waiter *waiter, unsigned q);

#endif
