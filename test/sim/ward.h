/*
 * What a client does for fenced locks, as src/client/members.c: it hears how its nodes
 * stand, and has them seated. The steward is that of the library.
 */
#ifndef RL_SIM_WARD_H
#define RL_SIM_WARD_H

#include "core/fenced/admission.h"
#include "core/link.h"

struct world;
struct client;
struct order;

void ward_init(struct world *world, struct client *client);

/* After each event: who may vote now, and what is to be done about the others. */
void ward_act(struct world *world, struct client *client);

void ward_greeted(struct world *world, struct client *client, unsigned node,
                  const struct rl_identity *identity);
void ward_gone(struct world *world, struct client *client, unsigned node);

/* The answer to an order of it; a fault: why the connection cannot be trusted. */
enum rl_fault ward_answered(struct world *world, struct client *client,
                            const struct order *order);

/* A node told its time; 0: it did not. False: what it said with it cannot be trusted. */
bool ward_time(struct world *world, struct client *client, unsigned node, rl_time sent,
               rl_time told);

/* It refused what was sent at `sent`, for its marker is another. */
void ward_disputed(struct world *world, struct client *client, unsigned node, rl_time sent);

/* It has refused by its clock: it is asked for its time. */
void ward_doubt(struct world *world, struct client *client, unsigned node);

#endif
