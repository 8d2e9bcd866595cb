/* The parts of a user, for each other only. */
#ifndef RL_SIM_USER_PARTS_H
#define RL_SIM_USER_PARTS_H

#include "user.h"

void user_plan(struct user *user);

/* --- user_turn.c --- */

/* A user that is to stand behind others and could not be called gives them a prng first. */
bool user_can_begin(struct world *world, struct client *client, struct user *user);

/* After a lost attempt; RL_NEVER: not at all. */
rl_time user_next_attempt_at(struct world *world, struct client *client, struct user *user);

/* --- user_wants.c --- */

void user_want_resource(struct world *world, struct user *user);
void user_want_terms(struct world *world, struct user *user);
void user_want_retry(struct world *world, struct client *client, struct user *user);

#endif
