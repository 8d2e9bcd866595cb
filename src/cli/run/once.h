/*
 * redlock run --once-per: one run in each period among all hosts. The period is in the key,
 * "KEY@ID", and the lock of that key becomes a record, which stays when CMD has ended, to
 * the end of the next period.
 */
#ifndef CLI_ONCE_H
#define CLI_ONCE_H

#include "inspection.h"

struct once {
    int64_t period_ms; /* not above 0: the run is not of this kind */
    const char *id;    /* of the period; NULL: its number, counted in UTC from 1970 on */
    bool retry;        /* the record is stored after a success, and not before CMD starts */

    int64_t begun_ms; /* when the period began, or CMD was asked for by an id; unix time */
    const struct cli *cli;
    redlock_lease *const *lease; /* that waits */
    struct cli_timer timer;      /* it waits */
    struct inspection inspection;
    bool taken;     /* a record of the period is there */
    int64_t off_ms; /* by how much this host's clock is ahead of the nodes' */
};

/* --once-per, --once-id and --retry. (clang-format takes the last braces for a block.) */
/* clang-format off */
#define ONCE_OPTIONS(once)                                                                 \
    {"once-per", 0, CLI_DURATION, &(once)->period_ms},                                     \
    {"once-id", 0, CLI_TEXT, &(once)->id},                                                 \
    {"retry", 0, CLI_FLAG, &(once)->retry}
/* clang-format on */

/*
 * After the options: ends the process if they do not go together. Returns the key of this
 * period, allocated, and sets the options of the lease.
 */
char *once_begin(struct once *once, struct cli *cli, const char *key);

/*
 * By how much this host's clock is ahead of the nodes', or was when it chose the period if
 * that is more, in ms; 0 if it agrees with them, or too few of them have told the time.
 */
int64_t once_clock_error(struct once *once);

/* Asks the nodes, runs the loop until they have replied, and sets `taken`. */
void once_ask(struct once *once);

/* While `lease` waits: cancels it as soon as a record is there. */
void once_wait(struct once *once, redlock_lease *const *lease);
void once_wait_ends(struct once *once);

/* Who has the record, if it is taken. */
const char *once_holder(const struct once *once);

/* The TTL of the record, to the end of the next period; 0: that has passed. ms */
int64_t once_left_ms(const struct once *once);

#endif
