/* Faults of a run. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "plan.h"

struct client;
struct server;

/* One fault of those that the run has. */
void fault_strike(void);

/*
 * Around a command that raises a fence: between an acquisition and its raise there is so
 * little time that faults hardly ever strike there by themselves.
 */
void fault_meet_raise(struct server *server, unsigned resource);
void fault_raise_met(struct server *server, unsigned resource);

/*
 * Around a node's first reply with a time that a client reads: it comes after the attempt
 * is over, and the clock is set right after that.
 */
struct command;
void fault_delay_first_time(const struct command *command);
void fault_meet_late_time(const struct command *command);

/* Clocks as the run's bounds have them; `wild`: beyond them. */
void fault_draw_server_clock(struct server *server);
void fault_draw_client_clock(struct client *client);

/* All that is wrong ends, but for what only concerns servers outside `healed`. */
void fault_heal(void);

/* The client was paused with all its clocks, and may be so again. */
void fault_pause_again(void *arg);

/* Some paths are blocked once more: what is sent in the end has to be sent again. */
#define HINDRANCE (2 * VIRTUAL_S)
void fault_hinder(void);

/* The network has the faults of the present phase. */
void fault_set_network(void);

#endif
