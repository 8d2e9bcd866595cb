/* The parts of the oracle, for each other only. */
#ifndef RL_SIM_ORACLE_PARTS_H
#define RL_SIM_ORACLE_PARTS_H

#include "oracle.h"

/* That the client has greeted the server by this of its names: a bit of `watchers`. */
static inline uint32_t oracle_watcher(unsigned client, unsigned node)
{
    _Static_assert(CLIENTS_MAX * NODES <= 32, "a bit for each");
    return UINT32_C(1) << (client * NODES + node);
}

/* --- oracle_holders.c --- */

/* A lease was acquired (`held`) or extended. */
void oracle_judge_good_news(struct world *world, struct client *client,
                            struct attempt *attempt, bool held);

/* A server stored a token anew. */
void oracle_judge_storing(struct world *world, const struct order *order);

#endif
