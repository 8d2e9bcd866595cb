/* The parts of the faults, for each other only. */
#ifndef SIM_FAULT_PARTS_H
#define SIM_FAULT_PARTS_H

#include "client.h"
#include "faults.h"
#include "server.h"

/* --- fault.c --- */

int64_t fault_span(void);
void fault_block(unsigned client, unsigned server, unsigned ways, int64_t until);
void fault_block_path(const struct client *client, const struct server *server,
                      int64_t span);

/* --- fault_clocks.c --- */

void fault_begin_clock(struct server *server);
void fault_slew(struct server *server);
void fault_step(struct server *server);
void fault_step_some(struct server *server);
void fault_freeze(struct server *server);
void fault_set_clock(struct server *server);

/* --- fault_servers.c --- */

void fault_hang(struct server *server);
void fault_restart(struct server *server, bool forgets);
void fault_flush(struct server *server);
void fault_flush_some(struct server *server);
void fault_begin_memory(struct server *server);
void fault_unload(struct server *server);
void fault_break_key(struct server *server);
void fault_put_foreign(struct server *server);
void fault_refuse(struct server *server, int64_t span);
void fault_deny(struct server *server);
void fault_demote(struct server *server);
void fault_garble(struct server *server);
void fault_swap(unsigned node);

/* The client's connections to the host end, as if its server had reset them. */
void fault_reset(const struct client *client, unsigned host);

/* --- fault_members.c --- */

void fault_recovery(void);
void fault_away(unsigned node);
void fault_absent(const struct client *client, unsigned node);

#endif
