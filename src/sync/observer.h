/* Observers of elections, for threads. Only observer.c changes them. */
#ifndef RL_SYNC_OBSERVER_H
#define RL_SYNC_OBSERVER_H

#include "io/queue.h"
#include "loop_owner.h"
#include "redlock/sync.h"

LIST_HEAD(rl_sync_observers, redlock_sync_observer);

/* The loop owner, with the mutex held: the client ends and notifies no observer any more.
 */
void rl_sync_observers_end(struct rl_sync_observers *observers);

#endif
