/* The parts of the oracle, for each other only. */
#ifndef RL_SIM_ORACLE_PARTS_H
#define RL_SIM_ORACLE_PARTS_H

#include "oracle.h"

/* That the client has greeted the server by this of its names: a bit of `watchers`. */
static inline uint32_t oracle_watcher(unsigned client, unsigned node)
{
    _Static_assert(USING_MAX * NODES <= 32, "a bit for each");
    return UINT32_C(1) << (client * NODES + node);
}

/* --- oracle_seats.c: which servers may vote on fenced locks --- */

struct seal oracle_seal(struct rl_word marker);

/* A server has answered what asks for a vote. */
void oracle_judge_vote(struct world *world, const struct order *order);

/* A lease was acquired or extended. */
void oracle_judge_seats(struct world *world, const struct attempt *attempt);

/* --- oracle_clocks.c: what servers' clocks excuse --- */

/* Its clock has gained more than it may since then. */
bool oracle_ran_ahead(const struct world *world, unsigned server, rl_time since);

/* A vote of it counts with this client. */
void oracle_judge_clock(struct world *world, const struct client *client,
                        const struct order *order);

/* It has, after it voted for the lease; and this client could not see that. */
bool oracle_clock_excuses(const struct world *world, const struct attempt *attempt,
                          unsigned node, const struct client *other);

/* --- oracle_turns.c --- */

/* A waiter that was called by a quorum has come by now. */
void oracle_judge_turns(struct world *world, const struct client *client);

/* --- oracle_holders.c --- */

/* By what its holder would be told if it asked now; LOST comes a margin before the end. */
bool oracle_is_valid(const struct world *world, const struct client *client,
                     const struct attempt *attempt);

/* A lease was acquired (`held`) or extended. */
void oracle_judge_good_news(struct world *world, struct client *client,
                            struct attempt *attempt, bool held);

/* A server stored a token anew. */
void oracle_judge_storing(struct world *world, const struct order *order);

#endif
