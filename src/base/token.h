/*
 * A token identifies the holder of a lock and is unique. It is a mark for the kind of lock,
 * 128 random bits and the time of day in base32, and "@label", which shows the holder:
 * p2h...q7@host:4711
 */
#ifndef RL_TOKEN_H
#define RL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/types.h"
#include "redlock/redlock.h"

#define RL_TOKEN_BYTES  20
#define RL_TOKEN_BATCH  64
#define RL_TOKEN_BEYOND 3 /* bytes that are read together with the last ones */

/*
 * Random bits for the tokens that are made in one loop iteration. They come fresh from the
 * kernel. None are kept for later, because a fork or a clone of the machine would use the
 * same bits again.
 */
struct rl_token_bits {
    uint8_t byte[RL_TOKEN_BATCH * RL_TOKEN_BYTES + RL_TOKEN_BEYOND];
    unsigned drawn, used; /* in tokens */
    unsigned wanted;      /* how many more tokens this iteration is likely to need */
    uint32_t second;      /* the time of day: seconds since 1970 */
    rl_time second_ends;  /* by the client's clock */
};

/* Discards the unused bits at the end of the iteration. */
void rl_token_bits_drop(struct rl_token_bits *bits);

size_t rl_token_len(const char *mark, const char *label);

/*
 * `now`: the client's clock. `ret_token` has room for rl_token_len() bytes and a NUL.
 * False: getrandom() failed.
 */
bool rl_token_make(struct rl_token_bits *bits, rl_time now, const char *mark,
                   const char *label, char *ret_token);

/*
 * Marks the token by a word in place of its first digits, so that a client that finds it
 * knows what it is of. The word has capitals, which are no digits: no other token has it.
 * 108 random bits are left.
 */
void rl_token_mark(const char *mark, const char *word, char *token);

/* The value looks like a redlock token: its holder notifies waiters on release. */
bool rl_token_is_ours(const char *value);

/* The kind of lock that takes over this token: EXCLUSIVE if another program made it. */
redlock_kind rl_token_kind_to_adopt(const char *token, bool *ret_fenced);

/*
 * When the holder made the token: seconds since 1970, by its clock. REDLOCK_UNKNOWN:
 * another program made it, or it has a time that cannot be. Nothing but what is shown may
 * depend on it.
 */
int64_t rl_token_since(const char *value);

/* The label in `value`, if `value` looks like a redlock token with a label; else NULL. */
const char *rl_token_label(const char *value);

#endif
