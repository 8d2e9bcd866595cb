/*
 * The Redis protocol: words to bytes, and bytes to replies.
 *
 * Replies are decoded by hiredis' reader into one fixed struct, without an allocation per
 * reply. Texts beyond RL_RESP_TEXT bytes are cut, items beyond RL_RESP_ITEMS and nested
 * arrays are dropped, and a reply that is longer than RL_RESP_MAX on the wire is an error.
 */
#ifndef RL_RESP_H
#define RL_RESP_H

#include "core/kind.h"

#define RL_RESP_TEXT  4096
#define RL_RESP_ITEMS 8
#define RL_RESP_MAX   (64 * 1024)

/* How many bytes the command takes, and where among them those of this word begin. */
size_t rl_resp_size(const struct rl_word *word, size_t words);
size_t rl_resp_at(const struct rl_word *word, size_t words, size_t which);

/* Writes the command to `out`, which has room for it; returns the bytes written. */
size_t rl_resp_write(const struct rl_word *word, size_t words, char *out);

struct rl_resp;

/* NULL: out of memory. */
struct rl_resp *rl_resp_new(void);
void rl_resp_free(struct rl_resp *resp);

/* What arrived, after all that was fed before was read. It is not copied. */
void rl_resp_feed(struct rl_resp *resp, const char *bytes, size_t len);

enum rl_resp_result { RL_RESP_REPLY, RL_RESP_MORE, RL_RESP_BROKEN };

/* The next reply; it lives until the next call. BROKEN: also if it is too long. */
enum rl_resp_result rl_resp_next(struct rl_resp *resp, const struct rl_reply **ret_reply);

#endif
