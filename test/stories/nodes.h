/*
 * The nodes of a story: simulated servers that are greeted as any other, but reply to the
 * commands of a lock only what the story says, when it says it.
 */
#ifndef STORY_NODES_H
#define STORY_NODES_H

#include "core/types.h"

/* Commands that were sent. */
struct sent {
    rl_node_set to[RL_COMMANDS];
    bool recreates;     /* EXTEND: where the key is missing */
    bool joins, leaves; /* RELEASE: the wait queue */
};

/* They listen at 10.0.0.1 and so on. */
void nodes_begin(unsigned n);
void nodes_end(void);

/* Commands sent since the last call. */
struct sent nodes_take_sent(void);

/* To which command of the lock a node has to reply next; RL_COMMANDS: none. */
enum rl_command nodes_next_command(unsigned node);

/* It replies that, in RESP. */
void nodes_reply(unsigned node, const char *reply);

/* Its connections are reset, and no new one is greeted; the same after a restart. */
void nodes_cut(unsigned node);
void nodes_restart(unsigned node);

/* The client has given it up: it does not reply any more. */
void nodes_lose(unsigned node);

enum guise { GUISE_MASTER, GUISE_REPLICA, GUISE_CLUSTER, GUISE_FIRST };

/* From now on it is greeted, as this; GUISE_FIRST: it is the server of node 1. */
void nodes_greet(unsigned node, enum guise guise);

#endif
