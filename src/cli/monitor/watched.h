/* The locks that somebody looks at: each is inspected again once a second. */
#ifndef CLI_MONITOR_WATCHED_H
#define CLI_MONITOR_WATCHED_H

#include "show/row.h"

#define WATCHED_MAX 200 /* of all viewers together */

struct watched_lock {
    char *key; /* as it is on the nodes; NULL: none */
    size_t key_len;
    int64_t wanted_us;
    bool asked;     /* an inspection will call back */
    bool has_fresh; /* the next one is known */
    struct row fresh;
};

/* Zeroed, it watches nothing. */
struct watched {
    struct cli *cli;
    struct watched_lock lock[WATCHED_MAX];
};

/* After cli_disconnect(), which ends the inspections. */
void watched_free(struct watched *watched);

/*
 * Somebody looks at this row of a scan: a new one is inspected at once. Returns the row as
 * it was found last; its texts are those of `row` or of an inspection, until the next one.
 */
struct row watched_want(struct watched *watched, const struct row *row);

/* Inspects those that somebody looks at. */
void watched_inspect(struct watched *watched);

#endif
