#include "hash.h"

#include <stdlib.h>

size_t hash_find(const struct hash *hash, struct rl_word name)
{
    size_t i = 0;
    while (i < hash->fields && !word_is(bytes_word(&hash->field[i].name), name))
        i++;
    return i;
}

bool hash_set(struct hash *hash, struct rl_word name, struct rl_word value)
{
    size_t i = hash_find(hash, name);
    bool is_new = i == hash->fields;
    if (is_new && hash->fields == hash->room) {
        size_t room = hash->room ? 2 * hash->room : 4;
        hash->field = bytes_realloc(hash->field, room * sizeof(*hash->field));
        memset(hash->field + hash->room, 0, (room - hash->room) * sizeof(*hash->field));
        hash->room = room;
    }
    if (is_new)
        bytes_set(&hash->field[hash->fields++].name, name);
    bytes_set(&hash->field[i].value, value);
    return is_new;
}

void hash_remove(struct hash *hash, size_t position)
{
    struct hash_field removed = hash->field[position];
    hash->fields--;
    for (size_t i = position; i < hash->fields; i++)
        hash->field[i] = hash->field[i + 1];
    hash->field[hash->fields] = removed;
}

void hash_copy(struct hash *to, const struct hash *from)
{
    to->fields = 0;
    for (size_t i = 0; i < from->fields; i++)
        hash_set(to, bytes_word(&from->field[i].name), bytes_word(&from->field[i].value));
}

void hash_free(struct hash *hash)
{
    for (size_t i = 0; i < hash->room; i++) {
        bytes_free(&hash->field[i].name);
        bytes_free(&hash->field[i].value);
    }
    free(hash->field);
    *hash = (struct hash){0};
}
