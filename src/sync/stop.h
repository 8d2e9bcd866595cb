/* A stop: ends waits from another thread. Only stop.c changes it. */
#ifndef RL_STOP_H
#define RL_STOP_H

#include <stdbool.h>

#include "redlock/sync.h"

struct redlock_stop {
    redlock_sync *sync;
    bool stopped;
};

static inline bool rl_stop_is_stopped(const redlock_stop *stop)
{
    return stop && stop->stopped;
}

#endif
