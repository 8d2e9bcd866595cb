/* The parts of the world, for each other only. */
#ifndef RL_SIM_WORLD_PARTS_H
#define RL_SIM_WORLD_PARTS_H

#include "world.h"

/* Nothing is there yet but what the seed says. */
void world_begin(struct world *world, uint64_t seed);

/* Servers and clients. */
void world_populate(struct world *world);

#endif
