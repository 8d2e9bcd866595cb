/*
 * Workers of redlock bench (--lanes), and the one of redlock monitor. Each worker acquires
 * a lock of its own, holds it until every node has replied or timed out, releases it, and
 * begins again. So the times of the slower nodes are known as well, and no measured time
 * includes the time of holding.
 */
#ifndef CLI_WORKERS_H
#define CLI_WORKERS_H

#include "cli.h"
#include "cycle.h"

#define WORKERS_MAX 10000

struct worker;

struct workers {
    const struct cli *cli;

    /* A cycle may begin; if it counts, sets cycle->counted. False: the worker ends. */
    bool (*may_begin)(void *arg, struct cycle *cycle);
    /* A cycle has ended. `nodes` has the nodes' replies to its acquire, or to a release
       that failed. */
    void (*ended)(void *arg, const struct cycle *cycle);
    void *arg;

    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t node_count;
    struct worker *worker;
    unsigned count, busy;
};

/*
 * The caller sets the first four members. No cycle begins before workers_begin(). The keys
 * begin with `name`, are different for each run, and different from the keys of all other
 * locks.
 */
void workers_init(struct workers *workers, unsigned count, const char *name);
const char *workers_key(const struct workers *workers, unsigned index);

/* Starts workers from `first` up to but not including `end`; also allowed in a callback. */
void workers_begin(struct workers *workers, unsigned first, unsigned end);

/* Cancels all acquires in progress, when waiting for them is pointless. */
void workers_cancel(struct workers *workers);

/* Call it after each iteration of the loop: no callback reports the last node's reply. */
void workers_step(struct workers *workers);

/* Runs the loop until every worker that was started has ended. */
void workers_run(struct workers *workers);

void workers_free(struct workers *workers);

#endif
