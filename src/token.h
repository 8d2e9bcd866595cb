/*
 * Tokens: who holds a lock, never the same twice. A mark for the kind, 160 random bits in
 * base32, and "@label" so that people see who it is: p2h...q7@host:4711
 */
#ifndef RL_TOKEN_H
#define RL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "redlock/redlock.h"

/* Fresh from the kernel each time, so that no fork or clone repeats it. False: no luck. */
bool rl_token_make(const char *mark, const char *label,
                   char ret_token[REDLOCK_TOKEN_MAX + 1]);

/* Random bits of the kernel's, once it has them. False: no luck. */
bool rl_random_bytes(void *bytes, size_t len);

/* Whether this looks like a token of ours: then its holder calls whoever waits. */
bool rl_token_is_ours(const char *value);

/* Where the label begins, if this looks like a token of ours that has one; else NULL. */
const char *rl_token_label(const char *value);

#endif
