/* What an owner does with its lock: unlock, extend, free. */
#ifndef RL_UNLOCK_H
#define RL_UNLOCK_H

#include "hold.h"

/* The thread of the hold has ended: the lock stays until its TTL ends. Takes the mutex. */
void rl_unlock_abandon(redlock_hold *hold);

#endif
