/* Patterns of keys, for SCAN. */
#ifndef RL_PATTERN_H
#define RL_PATTERN_H

#include <stddef.h>

#include "redlock/redlock.h"

#define RL_PATTERN_MAX (2 * REDLOCK_KEY_MAX + 2)

/*
 * Writes a glob pattern that matches exactly the client's prefix (or NULL), then `prefix`,
 * then anything; returns its length. Together the two have at most REDLOCK_KEY_MAX bytes.
 */
size_t rl_pattern_of(const char *prefix, size_t prefix_len, const char *client_prefix,
                     char ret_pattern[RL_PATTERN_MAX]);

#endif
