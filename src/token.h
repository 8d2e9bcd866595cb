/*
 * Tokens: who holds a lock, never the same twice. A mark for the kind, 160 random bits in
 * base32, and "@label" so that people see who it is: p2h...q7@host:4711
 */
#ifndef RL_TOKEN_H
#define RL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock/redlock.h"

#define RL_TOKEN_BYTES 20 /* 160 bits, as the published algorithm asks */
#define RL_TOKEN_BATCH 64

/*
 * Random bits for the tokens that are made at one go. They come fresh from the kernel, and
 * none is kept for later: a fork or a clone of the machine would repeat it.
 */
struct rl_token_bits {
    uint8_t byte[RL_TOKEN_BATCH * RL_TOKEN_BYTES];
    unsigned drawn, used; /* tokens' worth of them */
    unsigned wanted;      /* more of them, most likely, at this go */
};

/* The go has ended: what is left is not used any more. */
void rl_token_bits_drop(struct rl_token_bits *bits);

size_t rl_token_len(const char *mark, const char *label);

/* `ret_token` has room for as many bytes, and a NUL. False: no luck with the kernel. */
bool rl_token_make(struct rl_token_bits *bits, const char *mark, const char *label,
                   char *ret_token);

/* Random bits of the kernel's, once it has them. False: no luck. */
bool rl_random_bytes(void *bytes, size_t len);

/* Whether this looks like a token of ours: then its holder calls whoever waits. */
bool rl_token_is_ours(const char *value);

/* Where the label begins, if this looks like a token of ours that has one; else NULL. */
const char *rl_token_label(const char *value);

#endif
