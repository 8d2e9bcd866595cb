/*
 * Listening: a second connection to each node, on which it calls whoever waits (turn.h).
 * They are made when somebody has to wait for the first time, and stay.
 */
#ifndef RL_LISTEN_H
#define RL_LISTEN_H

#include "client.h"

/* From now on this client listens, as far as memory, nodes and rights allow. */
void rl_listen_begin(redlock_client *client);

/* The nodes on which it does. */
rl_nodes rl_listen_where(const redlock_client *client);

/* What was said to the node at that time was said while it listened, as it still does. */
bool rl_listen_since(const redlock_client *client, unsigned node, rl_time sent);

/*
 * The place of the one with this number in any queue; empty before it began. It lives until
 * the next call.
 */
struct rl_word rl_listen_place(redlock_client *client, uint64_t number);

void rl_listen_deafen(redlock_client *client);
void rl_listen_clear(redlock_client *client);

/* After a fork: the loop and the servers are the parent's. */
void rl_listen_forget(redlock_client *client);

#endif
