/*
 * Shared by status, wait and break: the state of a key on every node, as redlock_inspect()
 * reports it.
 */
#ifndef CLI_INSPECTION_H
#define CLI_INSPECTION_H

#include "cli.h"

enum inspection_state {
    INSPECTION_HELD,  /* a quorum stores one value */
    INSPECTION_FREE,  /* a quorum stores none: the next client that tries gets the lock */
    INSPECTION_SPLIT, /* neither: no known holder, and maybe nobody can acquire it */
    INSPECTION_NO_QUORUM,
    INSPECTION_DENIED,
};

#define INSPECTION_READERS 30

struct inspection {
    redlock_inspection found;
    redlock_node nodes[REDLOCK_NODES_MAX];
    char reader[INSPECTION_READERS][REDLOCK_TOKEN_MAX + 1]; /* tokens */
    size_t readers;                                         /* that are in `reader` */
    bool done;
};

/* A redlock_inspect_fn; `arg` is a struct inspection. */
void inspection_take(redlock_client *client, const redlock_inspection *found, void *arg);

enum inspection_state inspection_state(const struct inspection *inspection);
const char *inspection_name(enum inspection_state state);

/* The label in a token of this library; else the whole token. */
const char *inspection_label(const char *token);

/* Prints one line per node on stdout: URI, state, holder and remaining time. */
void inspection_print_nodes(const struct cli *cli, const struct inspection *inspection,
                            const char *word_for_held);

/* {"key", "state", "holder", ...} */
json_t *inspection_json(const struct inspection *inspection, const char *key);

#endif
