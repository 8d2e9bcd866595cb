#include "keyspace.h"

#include <stdlib.h>

/* FNV-1a, 32 bits */
static uint32_t hash_of(struct rl_word name)
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.text[i]) * UINT32_C(16777619);
    return hash;
}

bool keyspace_is_expired(const struct keyspace *keyspace, const struct key *key,
                         int64_t now_ms)
{
    return keyspace->expires_early ? now_ms >= key->expires : now_ms > key->expires;
}

static struct key *find(const struct keyspace *keyspace, unsigned db, struct rl_word name)
{
    uint32_t hash = hash_of(name);
    for (struct key *key = keyspace->key; key < keyspace->key + keyspace->keys; key++)
        if (key->hash == hash && key->db == db && word_is(bytes_word(&key->name), name))
            return key;
    return NULL;
}

struct key *keyspace_find(struct keyspace *keyspace, unsigned db, struct rl_word name,
                          int64_t now_ms)
{
    struct key *key = find(keyspace, db, name);
    if (!key || !keyspace_is_expired(keyspace, key, now_ms))
        return key;
    if (!keyspace->keeps_expired)
        keyspace_delete(keyspace, key);
    return NULL;
}

const struct key *keyspace_peek(const struct keyspace *keyspace, unsigned db,
                                struct rl_word name, int64_t now_ms)
{
    const struct key *key = find(keyspace, db, name);
    return key && !keyspace_is_expired(keyspace, key, now_ms) ? key : NULL;
}

struct key *keyspace_add(struct keyspace *keyspace, unsigned db, struct rl_word name,
                         enum key_type type)
{
    if (keyspace->keys == keyspace->room) {
        size_t room = keyspace->room ? 2 * keyspace->room : 16;
        keyspace->key = bytes_realloc(keyspace->key, room * sizeof(*keyspace->key));
        memset(keyspace->key + keyspace->room, 0,
               (room - keyspace->room) * sizeof(*keyspace->key));
        keyspace->room = room;
    }
    struct key *key = &keyspace->key[keyspace->keys++];
    key->hash = hash_of(name);
    key->db = db;
    key->type = type;
    key->expires = KEY_FOREVER;
    bytes_set(&key->name, name);
    key->string.len = 0;
    key->zset.items = 0;
    key->hash_value.fields = 0;
    key->list_len = 0;
    return key;
}

void keyspace_delete(struct keyspace *keyspace, struct key *key)
{
    struct key deleted = *key;
    keyspace->keys--;
    *key = keyspace->key[keyspace->keys];
    keyspace->key[keyspace->keys] = deleted;
}

void keyspace_clear(struct keyspace *keyspace)
{
    keyspace->keys = 0;
}

void keyspace_copy(struct keyspace *to, const struct keyspace *from)
{
    keyspace_clear(to);
    to->expires_early = from->expires_early;
    for (const struct key *key = from->key; key < from->key + from->keys; key++) {
        struct key *copy = keyspace_add(to, key->db, bytes_word(&key->name), key->type);
        copy->expires = key->expires;
        copy->list_len = key->list_len;
        bytes_set(&copy->string, bytes_word(&key->string));
        zset_copy(&copy->zset, &key->zset);
        hash_copy(&copy->hash_value, &key->hash_value);
    }
}

void keyspace_free(struct keyspace *keyspace)
{
    for (size_t i = 0; i < keyspace->room; i++) {
        bytes_free(&keyspace->key[i].name);
        bytes_free(&keyspace->key[i].string);
        zset_free(&keyspace->key[i].zset);
        hash_free(&keyspace->key[i].hash_value);
    }
    free(keyspace->key);
    *keyspace = (struct keyspace){0};
}
