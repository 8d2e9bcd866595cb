/* extend and release: a lock that is held by its token, and what happens to it. */
#ifndef CLI_HOLDING_H
#define CLI_HOLDING_H

#include "tokenfile.h"

#define TOKEN_SOURCES                                                                      \
    "The token is read from --token-file, else from REDLOCK_TOKEN, else from stdin. In "   \
    "a\n"                                                                                  \
    "command of redlock run, that run's REDLOCK_TOKEN counts for its own KEY only.\n"

#define SLOT_HELP                                                                          \
    "      --slot I              a slot of the semaphore KEY, with a bare token\n"         \
    "      --and KEY2            the other keys of a lock of several keys\n"

struct holding {
    struct cli *cli;
    const char *key, *path;
    struct tokenfile file; /* always has the token, the rest only if there is a path */
    int64_t slot;          /* --slot */
    redlock_key slot_key;  /* of a semaphore; else NULL */
    redlock_lease *lease;
    struct cli_outcome outcome;
};

/*
 * Reads the command line, and the token: from --token-file, else from REDLOCK_TOKEN, else
 * from stdin. Ends the process if that is no token.
 */
void holding_read(struct holding *holding, int argc, char **argv,
                  const struct cli_option *own);

redlock_code holding_adopt(struct holding *holding, int64_t valid_ms);

/* The nodes do not store the token any more, or may not. */
bool holding_is_lost(redlock_code code);

/*
 * A round is decided early. After a failure, waits for the remaining replies so that the
 * message covers all nodes.
 */
void holding_wait(struct holding *holding);

/* With --json, prints and frees `object`. False if stdout could not be written. */
bool holding_print(struct holding *holding, const char *cause, json_t *object);
bool holding_print_code(struct holding *holding, redlock_code code);

/* Prints a failure in one line and returns its exit code. */
int holding_report_failure(struct holding *holding);

#endif
