/* Locking and unlocking. */
#ifndef RL_LOCK_H
#define RL_LOCK_H

#include "hold.h"

/* Checks that this thread may wait, and copies the caller's version of the options. */
redlock_code rl_lock_begin(redlock_sync *sync, const redlock_lock_options *options,
                           redlock_lock_options *ret_options);

/* Removes the level and the handle that the caller has just got. Without the mutex. */
void rl_unlock_undo(redlock_hold *hold);

/* The thread of the hold has ended: the lock stays until its TTL ends. Takes the mutex. */
void rl_unlock_abandon(redlock_hold *hold);

#endif
