/* The parts of the mishaps, for each other only. */
#ifndef RL_SIM_MISHAP_PARTS_H
#define RL_SIM_MISHAP_PARTS_H

#include "mishap.h"

struct client;
struct server;

/* --- mishap.c --- */

rl_time mishap_while(struct world *world);

void mishap_block(struct world *world, unsigned client, unsigned server, unsigned ways,
                  rl_time until);
void mishap_block_path(struct world *world, const struct client *client,
                       const struct server *server, rl_time span);

/* --- mishap_clocks.c --- */

void mishap_slew(struct world *world, struct server *server);
void mishap_step(struct world *world, struct server *server);
void mishap_freeze(struct world *world, struct server *server);
void mishap_set_clock(struct world *world, struct server *server);

/* --- mishap_servers.c --- */

void mishap_hang(struct world *world, struct server *server);
void mishap_restart(struct world *world, struct server *server, bool forgets);
void mishap_flush(struct world *world, struct server *server);
void mishap_flush_some(struct world *world, struct server *server);
void mishap_break_key(struct world *world, struct server *server);
void mishap_put_foreign(struct world *world, struct server *server);
void mishap_refuse(struct world *world, struct server *server, rl_time span);
void mishap_demote(struct world *world, struct server *server);
void mishap_garble(struct world *world, struct server *server);
void mishap_swap(struct world *world, unsigned address);

#endif
