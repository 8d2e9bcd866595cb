/* What goes wrong. */
#ifndef RL_SIM_MISHAP_H
#define RL_SIM_MISHAP_H

#include "swarm.h"

struct world;
struct server;

/* One mishap of the run's sorts. */
void mishap_strike(struct world *world);

/* Clocks as the run's bounds have them; `wild`: beyond them. */
void mishap_draw_server_clock(struct world *world, unsigned server);
void mishap_draw_client_clock(struct world *world, unsigned client);

/* EVENT_CLOCK */
void mishap_clock_ends(struct world *world, struct server *server, uint32_t retuned);

/* All that is wrong ends, but for what only concerns servers outside `healed`. */
void mishap_heal(struct world *world);

/* Some ways are blocked once more: what is said in the end has to be said again. */
#define HINDRANCE (2 * RL_SECOND)
void mishap_hinder(struct world *world);

#endif
