/*
 * An operator's process, which uses admin.h: it gives nodes their votes back, and replaces
 * one. There is at most one at a time.
 */
#ifndef SIM_OPERATOR_H
#define SIM_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

struct client;

/* If fewer nodes than a quorum could vote: waits for all, and recovers. False: they can,
   or the operator is busy. */
bool operator_recovers(void);

/* The same, at this time. */
void operator_comes(int64_t at);

/* The node at this place of the configuration becomes a new server. */
void operator_replaces(unsigned node);

/* Servers that nobody has used yet, while clients wait already. */
void operator_founds(void);

/* What this client asks redlock_admit() for, with the promises of the plan. */
unsigned operator_how(const struct client *client);

/* Prepares the operator's client, of an empty world. */
void operator_init(void);

#endif
