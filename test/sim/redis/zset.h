/* A sorted set: by score, then by the bytes of the member. */
#ifndef SIM_REDIS_ZSET_H
#define SIM_REDIS_ZSET_H

#include "bytes.h"

struct zset_item {
    double score;
    struct bytes member;
};

/* Items behind `items` keep their memory for the next ones. */
struct zset {
    struct zset_item *item;
    size_t items, room;
};

/* The position of a member, or `items`. */
size_t zset_find(const struct zset *set, struct rl_word member);

/* The member must not be in the set. */
void zset_add(struct zset *set, double score, struct rl_word member);
void zset_remove(struct zset *set, size_t position);
void zset_copy(struct zset *to, const struct zset *from);
void zset_free(struct zset *set);

#endif
