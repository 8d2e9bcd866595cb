/*
 * redlock run --once-per: one run in each period among all hosts. The period is in the key,
 * "KEY@ID", and the lock of that key becomes a record, which stays when CMD has ended, to
 * the end of the next period.
 */
#ifndef CLI_ONCE_H
#define CLI_ONCE_H

#include "lock.h"

struct once {
    int64_t period_ms; /* not above 0: the run is not of this kind */
    const char *id;    /* of the period; NULL: its number, counted in UTC from 1970 on */
    bool retry;        /* the record is stored after a success, and not before CMD starts */

    int64_t begun_ms; /* when the period began, or CMD was asked for by an id; unix time */
    struct lock *lock;
    struct cli_timer timer; /* the lock waits */
    struct inspection inspection;
    bool taken;                 /* a record of the period is there */
    int64_t off_ms;             /* by how much this host's clock is ahead of the nodes' */
    void (*proceed)(void *arg); /* of once_record() */
    void *arg;
};

/* --once-per, --once-id and --retry. (clang-format takes the last braces for a block.) */
/* clang-format off */
#define ONCE_OPTIONS(once)                                                                 \
    {"once-per", 0, CLI_DURATION, &(once)->period_ms},                                     \
    {"once-id", 0, CLI_TEXT, &(once)->id},                                                 \
    {"retry", 0, CLI_FLAG, &(once)->retry}
/* clang-format on */

/*
 * After the options: ends the process if they do not go together. Sets the key of this
 * period, and the options of the lease.
 */
void once_begin(struct once *once, struct lock *lock);

/* Before the lock is acquired: asks the nodes, runs the loop until they have replied, and
   judges. */
void once_ask(struct once *once);

/* Concludes if the clock of this host is wrong, or another host has the period. */
void once_judge(struct once *once);

/* While the lock waits: cancels it as soon as a record is there. */
void once_wait(struct once *once);
void once_wait_ends(struct once *once);

/* The lock is held: calls `proceed` when the record is stored, if that comes before CMD. */
void once_record(struct once *once, void (*proceed)(void *arg), void *arg);

/* CMD has ended: whether the lock stays as a record; then once_keep() ends the run. */
bool once_keeps(const struct once *once);
void once_keep(struct once *once);

json_t *once_json(const struct once *once);

#endif
