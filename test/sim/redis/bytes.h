/* A buffer of bytes that grows. A program without memory ends. */
#ifndef SIM_REDIS_BYTES_H
#define SIM_REDIS_BYTES_H

#include <string.h>

#include "core/types.h"

struct bytes {
    char *data;
    size_t len, room;
};

/* As realloc(), and never NULL. */
void *bytes_realloc(void *old, size_t size);

/* Makes room for `len` more bytes, and returns where they go. */
char *bytes_reserve(struct bytes *bytes, size_t len);
void bytes_add(struct bytes *bytes, const char *data, size_t len);
void bytes_add_text(struct bytes *bytes, const char *text);
void bytes_set(struct bytes *bytes, struct rl_word word);

/* Removes the first bytes. */
void bytes_drop(struct bytes *bytes, size_t len);
void bytes_free(struct bytes *bytes);

static inline struct rl_word bytes_word(const struct bytes *bytes)
{
    return (struct rl_word){bytes->data, bytes->len};
}

static inline bool word_is(struct rl_word a, struct rl_word b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.text, b.text, a.len) == 0);
}

/* Whether the word is this one of Redis' words, in any case. */
bool word_is_option(struct rl_word word, const char *option);

#endif
