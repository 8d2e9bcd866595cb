/* Why a node failed last, in the words of the server, the system, the resolver or OpenSSL.
 */
#ifndef RL_WORDS_H
#define RL_WORDS_H

#include "core/fault.h"
#include "redlock/redlock.h"
#include "resp.h"

/* All zero: nothing was said. */
struct rl_words {
    enum rl_fault fault;
    char text[REDLOCK_TEXT_MAX + 1]; /* the fault's, and the words; printable */
};

/* Keeps the words for this fault instead of all earlier ones. "": the fault says all. */
void rl_words_set(struct rl_words *words, enum rl_fault fault, const char *text);

/*
 * Keeps an error reply, without the arguments of a command: they may be a token. Nothing
 * from `secret` on is kept: the password that was sent, or NULL. `may_be_auth`:
 * it may be the reply to AUTH, of which only known sentences are kept.
 */
void rl_words_set_reply(struct rl_words *words, enum rl_fault fault,
                        const struct rl_reply *reply, bool may_be_auth, const char *secret);

/* The text of the fault, with the words that were kept for it. */
const char *rl_words_text(const struct rl_words *words, enum rl_fault fault);

#endif
