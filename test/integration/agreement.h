/* Whether the simulator's server does the same as a real one, and shows the same. */
#ifndef TEST_AGREEMENT_H
#define TEST_AGREEMENT_H

#include "outcome.h"
#include "sim/store.h"

void agreement_decode(const redisReply *reply, struct store_reply *ret);

/* Runs a command in the model; CHANNEL has a subscriber. */
void agreement_run(struct store *store, const struct operation *operation, rl_time now,
                   struct store_reply *ret);

/*
 * Runs the operation on the store, at `now`; returns whether the server replied and shows
 * the same.
 */
bool agreement_holds(struct store *store, const struct operation *operation,
                     const struct outcome *outcome, rl_time now);

/* Takes the server's values. */
void agreement_believe(struct store *store, const struct operation *operation,
                       const struct outcome *outcome);

#endif
