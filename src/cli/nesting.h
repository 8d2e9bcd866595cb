/*
 * A redlock run in the command of another one. The environment tells it the tokens of all
 * outer runs. If it wants a lock that one of these has, it would wait for itself for ever.
 */
#ifndef CLI_NESTING_H
#define CLI_NESTING_H

#include "child.h"
#include "cli.h"

/* Adds, for the command, the tokens of the outer runs and of this one. */
size_t nesting_add(char environment[KEEPER_ENVIRONMENT], size_t size, const char *token);

/* This process was started by the command of another run, or says so. */
bool nesting_is_inner(void);

/*
 * Whether outer runs have the lock: without the nodes that store one of their tokens there
 * is no quorum. The environment alone proves nothing: a daemon may have outlived its run.
 * `nodes` is what the nodes replied to an attempt.
 */
bool nesting_waits_for_itself(const redlock_node *nodes, size_t count, unsigned quorum);

#endif
