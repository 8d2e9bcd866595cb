/* The counters of a client, for redlock_client_stats(). */
#ifndef RL_STATS_H
#define RL_STATS_H

#include "base/histogram.h"

#define RL_STATS_ROUNDS (RL_CMD_RELEASE + 1)

struct rl_stats {
    redlock_stats shown; /* its counters; the gauges and the nodes are not kept here */
    uint64_t rounds[RL_STATS_ROUNDS]; /* per command */
};

#endif
