/*
 * The keys of a server, in all its databases. It has no clock: the caller passes the time.
 * A key that has expired is deleted when it is looked up.
 */
#ifndef SIM_REDIS_KEYSPACE_H
#define SIM_REDIS_KEYSPACE_H

#include "hash.h"
#include "zset.h"

enum key_type {
    KEY_STRING,
    KEY_LIST, /* only how long it is */
    KEY_ZSET,
    KEY_HASH,
};

#define KEY_FOREVER INT64_MAX

struct key {
    uint32_t hash;
    unsigned db;
    enum key_type type;
    int64_t expires; /* in ms since 1970; KEY_FOREVER */
    struct bytes name, string;
    struct zset zset;
    struct hash hash_value;
    int64_t list_len;
};

/*
 * Few keys: they are searched one after the other. Keys behind `keys` keep their memory for
 * the next ones.
 */
struct keyspace {
    struct key *key;
    size_t keys, room;
    /*
     * Every release of Redis finds a key in the millisecond of its PEXPIRETIME, but the
     * active expire cycle of 8.0 may delete it then, between any two commands. True: it
     * always does.
     */
    bool expires_early;
    bool keeps_expired; /* as a replica does, until its master deletes them */
};

/* NULL: there is none. The result is valid until the next key is added or deleted. */
struct key *keyspace_find(struct keyspace *keyspace, unsigned db, struct rl_word name,
                          int64_t now_ms);

/* The same, but what has expired is not deleted. */
const struct key *keyspace_peek(const struct keyspace *keyspace, unsigned db,
                                struct rl_word name, int64_t now_ms);

/* Whether the key at `now_ms` is only waiting to be deleted. */
bool keyspace_is_expired(const struct keyspace *keyspace, const struct key *key,
                         int64_t now_ms);

/* A key that does not exist, without a value and without expiry. */
struct key *keyspace_add(struct keyspace *keyspace, unsigned db, struct rl_word name,
                         enum key_type type);
void keyspace_delete(struct keyspace *keyspace, struct key *key);
void keyspace_clear(struct keyspace *keyspace);
void keyspace_copy(struct keyspace *to, const struct keyspace *from);
void keyspace_free(struct keyspace *keyspace);

#endif
