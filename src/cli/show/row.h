/* One lock, as redlock list and redlock top show it. */
#ifndef CLI_ROW_H
#define CLI_ROW_H

#include "cli.h"

enum row_state {
    ROW_HELD,
    ROW_SPLIT,    /* no value is on a quorum, and no quorum is free */
    ROW_ORPHANED, /* nobody holds it, and keys are left on a minority of the nodes */
    ROW_FOREIGN,  /* held by another program */
    ROW_UNKNOWN,  /* too few nodes replied */
};

struct row {
    char *key[REDLOCK_KEYS_MAX]; /* allocated, and sorted; several if it is a set */
    unsigned keys;
    char token[REDLOCK_TOKEN_MAX + 1];
    char holder[REDLOCK_TOKEN_MAX + 1];
    redlock_kind kind;
    enum row_state state;
    unsigned slot; /* of a semaphore, whose key is key[0]; or 0 */
    unsigned nodes, count, readers, waiting;
    int64_t remaining_ms, fence;
};

/* The finding at a key. Ends the process if there is no memory. */
void row_take(struct row *row, const redlock_listed *listed);
void row_free(struct row *row);

/* A lock of several keys: adds the key of `other`, and frees `other`. */
void row_join(struct row *row, struct row *other);

/*
 * One line. row_print_head() prints the names of the columns. `key_most` is the most bytes
 * that are printed of the keys.
 */
void row_print_head(FILE *to, size_t key_most);
void row_print(const struct row *row, size_t key_most, bool color, FILE *to);
json_t *row_json(const struct row *row);

/* Says why not all locks were found; returns the exit code. */
int row_complain(const struct cli *cli, redlock_code code);

#endif
