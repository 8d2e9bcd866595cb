/*
 * The post: the bytes of what is said in one pass of the loop, written once, however many
 * nodes are told. Each node sends its part from here, and keeps for itself only what its
 * socket does not take; so that with the pass all of it is done with.
 */
#ifndef RL_POST_H
#define RL_POST_H

#include "core/types.h"

#define RL_POST_KEPT (256 * 1024) /* what a burst took beyond that is given back */

struct rl_post {
    char *bytes;
    size_t len, room;
};

/* Of the post, the bytes from `at` to before `end`: it moves as it grows. */
struct rl_part {
    size_t at, end;
};

/* A part with these bytes, or with these words as a command. False: no memory. */
bool rl_post_add(struct rl_post *post, const char *bytes, size_t len,
                 struct rl_part *ret_part);
bool rl_post_words(struct rl_post *post, const struct rl_word *word, size_t words,
                   struct rl_part *ret_part);

/* No node has a part of it any more. */
void rl_post_empty(struct rl_post *post);
void rl_post_free(struct rl_post *post);

#endif
