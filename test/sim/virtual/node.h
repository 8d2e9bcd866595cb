/* A simulated Redis server at an address of the network, with a clock of its own. */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "network.h"
#include "redis/redis.h"

struct node_link;

struct node {
    unsigned host;
    struct redis *redis;
    int64_t clock_us;       /* its time of day at virtual time 0 */
    struct node_link *link; /* all connections to it */
};

/* It listens at 10.0.0.`host`. */
void node_begin(struct node *node, unsigned host);
void node_end(struct node *node);

/* Its time of day, in us. */
int64_t node_now(const struct node *node);

/* It restarts without its data, as another process: all connections are reset. */
void node_restart(struct node *node);

#endif
