/*
 * A redlock run, acquire or wait in the command of a redlock run. The environment tells it
 * the tokens of all outer runs. If it wants a lock that one of these has, it would wait for
 * itself for ever.
 */
#ifndef CLI_NESTING_H
#define CLI_NESTING_H

#include "cli.h"
#include "inspection.h"

/* The variable that tells an inner command the tokens of all outer runs. */
#define NESTING_VARIABLE "REDLOCK_HELD"

/* Its value here, "" if there is none. If it is long, the outermost runs are left out. */
const char *nesting_outer(void);

/* The variable REDLOCK_TOKEN, unless an outer run set it for a lock of another key; or
 * NULL. */
const char *nesting_token(const char *key);

/* A command waits for its lock. */
struct nesting {
    const struct cli *cli;
    redlock_lease *const *lease;
    unsigned quorum;
    struct cli_timer timer; /* it is an inner run, and waits */
    unsigned ticks;
    bool looks; /* an inspection is under way */
    bool found; /* an outer run has the lock; the wait was cancelled */
};

/*
 * If this is an inner run, cancels its wait as soon as the nodes store tokens of outer
 * runs, so many that there is no quorum without them; or, if it wants to read, and a writer
 * that waits is in its way, as soon as an outer run is among the readers for which that
 * writer waits. The environment alone proves nothing: a daemon may have outlived its run.
 */
void nesting_begin(struct nesting *nesting, const struct cli *cli,
                   redlock_lease *const *lease);
void nesting_end(struct nesting *nesting);

/* Judges by what was found at one key: an outer run has it, or is among its readers. */
bool nesting_has(const struct inspection *inspection);

/* Prints that the command would wait for itself. */
void nesting_complain(const char *key);

#endif
