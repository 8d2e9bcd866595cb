/* A hash: its fields in the order in which they were added. */
#ifndef SIM_REDIS_HASH_H
#define SIM_REDIS_HASH_H

#include "bytes.h"

struct hash_field {
    struct bytes name, value;
};

/* Fields behind `fields` keep their memory for the next ones. */
struct hash {
    struct hash_field *field;
    size_t fields, room;
};

/* The position of a field, or `fields`. */
size_t hash_find(const struct hash *hash, struct rl_word name);

/* Returns whether the field is new. */
bool hash_set(struct hash *hash, struct rl_word name, struct rl_word value);
void hash_remove(struct hash *hash, size_t position);
void hash_copy(struct hash *to, const struct hash *from);
void hash_free(struct hash *hash);

#endif
