/* The table of the keys that threads use. */
#include "sync/key.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#define NAMES 2000

TestSuite(sync_key, .timeout = 60);

static unsigned longest_bucket(const struct rl_keys *keys)
{
    unsigned longest = 0;
    for (size_t i = 0; i < RL_BUCKETS; i++) {
        const struct rl_key *key;
        unsigned count = 0;
        LIST_FOREACH (key, &keys->bucket[i], in_bucket)
            count++;
        longest = count > longest ? count : longest;
    }
    return longest;
}

/* Of FNV-1a with its own basis, which anybody can compute. */
static unsigned fnv_bucket(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return (unsigned)(hash % RL_BUCKETS);
}

static void add(struct rl_keys *keys, const char *name)
{
    const redlock_key of = {name, strlen(name)};
    struct rl_key *key = rl_key_get(keys, &of, 1, false);
    cr_assert_not_null(key);
    cr_assert_eq(rl_key_find(keys, &of, 1), key);
}

/* With two in each on the average, some hundred in one is no chance. */
Test(sync_key, nobody_can_choose_names_that_share_a_bucket)
{
    static struct rl_keys keys, others;
    char name[24];
    rl_keys_init(&keys, NULL, NULL);
    rl_keys_init(&others, NULL, NULL);
    for (unsigned i = 0, count = 0; count < NAMES; i++) {
        snprintf(name, sizeof(name), "key%u", i);
        if (fnv_bucket(name) != 7)
            continue;
        add(&keys, name);
        count++;
    }
    cr_assert_lt(longest_bucket(&keys), 100, "%u in one bucket", longest_bucket(&keys));
    cr_assert_neq(keys.seed, others.seed);
    rl_keys_free_all(&keys);
    rl_keys_free_all(&others);
}

/* Whatever the seed is, names that are alike do not meet. */
Test(sync_key, names_that_count_are_spread)
{
    static struct rl_keys keys;
    char name[24];
    rl_keys_init(&keys, NULL, NULL);
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "order:%u:lock", i);
        add(&keys, name);
    }
    cr_assert_lt(longest_bucket(&keys), 100, "%u in one bucket", longest_bucket(&keys));
    rl_keys_free_all(&keys);
}
