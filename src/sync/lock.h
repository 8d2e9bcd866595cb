/* Locking: the options, and the wait for the lock. */
#ifndef RL_LOCK_H
#define RL_LOCK_H

#include "redlock/sync.h"

/* Checks that this thread may wait, and copies the caller's version of the options. */
redlock_code rl_lock_begin(redlock_sync *sync, const redlock_lock_options *options,
                           redlock_lock_options *ret_options);

#endif
