/*
 * Lanes of redlock bench: each acquires a lock of its own, holds it until every node has
 * answered or its time is over, releases it, and begins anew. So what the slower nodes take
 * is known as well, and how long it was held is in no measured time.
 */
#ifndef CLI_LANES_H
#define CLI_LANES_H

#include "cli.h"
#include "cycle.h"

#define LANES_MAX 10000

struct lane;

struct lanes {
    const struct cli *cli;
    struct event_base *base;
    redlock_client *client;

    /* May a cycle begin? It says whether that counts. No: the lane has ended. */
    bool (*may_begin)(void *arg, struct cycle *cycle);
    /* A cycle has ended. `nodes` has its acquire, node by node. */
    void (*ended)(void *arg, const struct cycle *cycle);
    void *arg;

    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t node_count;
    struct lane *lane;
    unsigned count, busy;
};

/* The first six members are set. Nothing begins before lanes_begin(). */
void lanes_init(struct lanes *lanes, unsigned count);

/* Lets lanes begin, from `first` to before `end`; also in a callback. */
void lanes_begin(struct lanes *lanes, unsigned first, unsigned end);

/* Gives up what is being acquired; for when waiting for it makes no sense any more. */
void lanes_cancel(struct lanes *lanes);

/* Runs the loop until every lane that began has ended. */
void lanes_run(struct lanes *lanes);

void lanes_free(struct lanes *lanes);

/* CLOCK_MONOTONIC, in microseconds. */
int64_t lanes_now(void);

#endif
