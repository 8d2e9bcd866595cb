/*
 * The keys of a lease of several keys: with their prefix, sorted bytewise, none twice. All
 * clients name the keys of a set in this order, so two sets that overlap meet at the same
 * key first. The attempts of a lease share it.
 */
#ifndef RL_KEY_SET_H
#define RL_KEY_SET_H

#include "client/client.h"
#include "core/kind.h"

struct rl_key_set {
    size_t sharers;
    unsigned count;
    uint8_t order[RL_SET_MAX];           /* the caller's number of each key */
    struct rl_word word[2 * RL_SET_MAX]; /* the keys, and then their fence keys */
    char text[];
};

/* The caller must call rl_key_set_unref() once. */
redlock_code rl_key_set_new(const redlock_client *client, const redlock_key *keys,
                            size_t count, struct rl_key_set **ret_set);

struct rl_key_set *rl_key_set_ref(struct rl_key_set *set);
void rl_key_set_unref(struct rl_key_set *set);

#endif
