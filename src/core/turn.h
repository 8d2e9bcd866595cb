/*
 * A turn: when somebody who waits for a lock tries again, as a machine that is stepped.
 *
 * Whoever did not get the lock takes a place in the queue of each node, in the order since
 * when it waits, and whoever releases it calls the first there. To be called is a hint and
 * nothing more: the orders of nodes differ, calls are lost, others are faster. So whoever
 * q nodes call tries at once; who is called as the second gives the first its time; and who
 * is called by fewer comes after that, for nobody may have been called by q. Who is not
 * called tries again when the lock that was seen has ended. Where too few nodes can call, a
 * policy tells when (retry.h).
 */
#ifndef RL_TURN_H
#define RL_TURN_H

#include "quorum.h"

struct rl_turn {
    rl_nodes placed; /* it has a place there, and hears when it is called */
    rl_nodes first;  /* these called it as the first, since its last attempt */
    rl_nodes called; /* or as the second */
};

#define RL_TURN_FIRST  0
#define RL_TURN_SECOND 1

/* An attempt begins: what was heard before is over. */
void rl_turn_try(struct rl_turn *turn);

/* It took a place there; or nothing is heard from there any more. */
void rl_turn_place(struct rl_turn *turn, unsigned node);
void rl_turn_lose(struct rl_turn *turn, unsigned node);

/* A node calls. When to try: now, after `grace`, or after twice as long. */
rl_time rl_turn_call(struct rl_turn *turn, unsigned q, unsigned node, unsigned rank,
                     rl_time now, rl_time grace);

/* Whether it will be called; otherwise it has to look by itself. */
bool rl_turn_is_placed(const struct rl_turn *turn, unsigned q);

#endif
