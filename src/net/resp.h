/*
 * The Redis protocol (RESP): encodes commands and parses replies.
 *
 * hiredis' reader parses replies into one fixed struct, without an allocation per reply.
 * The texts of a reply are truncated to RL_RESP_TEXT bytes in total. Items beyond
 * RL_RESP_ITEMS and the items of nested arrays are dropped. A reply that is longer than
 * RL_RESP_MAX bytes on the wire is an error; after rl_resp_keep_whole(), one longer than
 * RL_RESP_WHOLE.
 */
#ifndef RL_RESP_H
#define RL_RESP_H

#include "core/kind.h"

#define RL_RESP_TEXT  4096
#define RL_RESP_ITEMS 8
#define RL_RESP_MAX   (64 * 1024)
#define RL_RESP_WHOLE (16 * 1024 * 1024)

/* The encoded size of the command in bytes, and the offset of word `which` in it. */
size_t rl_resp_size(const struct rl_word *word, size_t words);
size_t rl_resp_at(const struct rl_word *word, size_t words, size_t which);

/* Encodes the command to `out`, which must have room for it. Returns the bytes written. */
size_t rl_resp_write(const struct rl_word *word, size_t words, char *out);

struct rl_resp;

/* NULL: out of memory. */
struct rl_resp *rl_resp_new(void);
void rl_resp_free(struct rl_resp *resp);

/* From now on a string that a reply truncates is kept whole, until the next such reply. */
void rl_resp_keep_whole(struct rl_resp *resp);
struct rl_word rl_resp_whole(const struct rl_resp *resp, const struct rl_reply *reply);

/*
 * Passes received bytes to the parser, which does not copy them. Call rl_resp_next() until
 * it returns MORE before you feed again.
 */
void rl_resp_feed(struct rl_resp *resp, const char *bytes, size_t len);

enum rl_resp_result { RL_RESP_REPLY, RL_RESP_MORE, RL_RESP_BROKEN, RL_RESP_NO_MEMORY };

/* The next reply, valid until the next call. BROKEN: malformed or too long. */
enum rl_resp_result rl_resp_next(struct rl_resp *resp, const struct rl_reply **ret_reply);

/* An array whose first item is this text, as a subscriber gets: ["message", ...]. */
bool rl_resp_begins(const struct rl_reply *reply, const char *text);

#endif
