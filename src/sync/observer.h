/* Observers of elections, for threads. Only observer.c changes them. */
#ifndef RL_SYNC_OBSERVER_H
#define RL_SYNC_OBSERVER_H

#include "loop_owner.h"
#include "queue.h"
#include "redlock/sync.h"

LIST_HEAD(rl_sync_observers, redlock_sync_observer);

/* With the mutex held, by the loop owner: the client ends, and nobody is told any more. */
void rl_sync_observers_end(struct rl_sync_observers *observers);

#endif
