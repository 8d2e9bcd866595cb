/*
 * The programs that watch a deployment, in one run of eight: they check the nodes, drain
 * their clients, read the flight recorder, and sometimes make invalid calls. In these runs
 * the settings of the servers and the rights of their users differ.
 */
#ifndef SIM_AUDITOR_H
#define SIM_AUDITOR_H

#include <stdbool.h>

struct client;
struct server;

/* Draws from a seed of its own: the other runs stay as they are. */
void auditor_begin(void);

/* An operator founds a deployment: in these runs another client does so at the same moment.
 */
void auditor_founds(void);

/* The user of this server has no right to a command that a client sends. */
bool auditor_denies(const struct server *server, const char *command);

#endif
