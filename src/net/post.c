#include "post.h"

#include <stdlib.h>
#include <string.h>

#include "resp.h"

#define ROOM 4096

static bool grow(struct rl_post *post, size_t len)
{
    size_t room = post->room ? post->room : ROOM;
    while (room < post->len + len)
        room *= 2;
    char *bytes = realloc(post->bytes, room);
    if (!bytes)
        return false;
    post->bytes = bytes;
    post->room = room;
    return true;
}

static bool reserve(struct rl_post *post, size_t len, struct rl_part *ret_part)
{
    if (post->len + len > post->room && !grow(post, len))
        return false;
    *ret_part = (struct rl_part){post->len, post->len + len};
    post->len += len;
    return true;
}

bool rl_post_add(struct rl_post *post, const char *bytes, size_t len,
                 struct rl_part *ret_part)
{
    if (!reserve(post, len, ret_part))
        return false;
    memcpy(post->bytes + ret_part->at, bytes, len);
    return true;
}

bool rl_post_words(struct rl_post *post, const struct rl_word *word, size_t words,
                   struct rl_part *ret_part)
{
    if (!reserve(post, rl_resp_size(word, words), ret_part))
        return false;
    rl_resp_write(word, words, post->bytes + ret_part->at);
    return true;
}

void rl_post_empty(struct rl_post *post)
{
    post->len = 0;
    if (post->room > RL_POST_KEPT)
        rl_post_free(post);
}

void rl_post_free(struct rl_post *post)
{
    free(post->bytes);
    *post = (struct rl_post){0};
}
