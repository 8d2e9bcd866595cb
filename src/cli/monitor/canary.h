/*
 * The canary: a lock of redlock monitor's own, which is taken and released again and again.
 * It shows what a lock costs and whether one can be taken while no other client locks.
 */
#ifndef CLI_CANARY_H
#define CLI_CANARY_H

#include "bench/workers.h"
#include "history.h"

#include <redlock/stats.h>

struct canary {
    struct workers workers; /* one */
    struct history history;
    int64_t every_ms;
    struct cli_timer timer;
    bool may_begin;    /* one cycle, since the timer rang */
    bool is_denied;    /* its user may not write: it only tries now and then */
    int64_t since_us;  /* of CLOCK_MONOTONIC: the begin of the first cycle */
    int64_t begun_us;  /* ... of the last one */
    int64_t ended_us;  /* the end of the last one that has ended; or since_us */
    redlock_code code; /* of the last cycle: of the acquire, or if it is OK the release */
    char *why;         /* in words; NULL: OK */
    uint64_t results[CYCLE_CODES]; /* by `code` */
    redlock_histogram release;     /* of the cycles that were held */
};

/* Keeps up to `room` cycles. */
void canary_begin(struct canary *canary, const struct cli *cli, int64_t every_ms,
                  size_t room);

/* Call it after each iteration of the loop. */
void canary_step(struct canary *canary);

/* A cycle runs now. */
bool canary_is_busy(const struct canary *canary);

/* The name of its lock, without the client's prefix. */
const char *canary_key(const struct canary *canary);

/*
 * Why the last cycle failed, or that none ended in time. NULL: it succeeded, another client
 * held the lock, or a right is missing.
 */
const char *canary_failure(const struct canary *canary);

/* Begins no further cycle; one that runs still ends. */
void canary_stop(struct canary *canary);
void canary_end(struct canary *canary);

#endif
