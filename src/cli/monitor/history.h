/*
 * The last cycles of the canary, compactly: as many as there is room for. Pure.
 */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include "bench/cycle.h"

#define HISTORY_FAULTS 255 /* different texts of nodes that did not grant */

struct history {
    unsigned n;         /* nodes */
    size_t room, count; /* cycles */
    size_t next;        /* where the next one goes */
    uint64_t added;     /* cycles since the beginning */
    struct history_cycle *cycle;
    struct history_node *node;             /* n for each cycle */
    const char *fault[HISTORY_FAULTS + 1]; /* each text once; the first one is NULL */
};

/* False: no memory. */
bool history_init(struct history *history, unsigned n, size_t room);
void history_free(struct history *history);

/* If there is no room, the oldest one is dropped. */
void history_add(struct history *history, const struct cycle *cycle);

/* Cycle number `index`, the oldest of `count` is 0; without what no statistic reads. */
void history_get(const struct history *history, size_t index, struct cycle *ret_cycle);

/* The first cycle that began at this time of CLOCK_MONOTONIC or later; `count`: none. */
size_t history_from(const struct history *history, int64_t begun_us);

/* The memory that it takes when it is full. */
size_t history_bytes(const struct history *history);

#endif
