#include "key_set.h"

#include <stdlib.h>
#include <string.h>

#define SUFFIX_LEN (sizeof(RL_FENCE_SUFFIX) - 1)

static int compare(struct rl_word a, struct rl_word b)
{
    int order = memcmp(a.text, b.text, a.len < b.len ? a.len : b.len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Puts a key where it belongs among those before it. False: it is there already. */
static bool insert(struct rl_key_set *set, struct rl_word key)
{
    unsigned at = set->count;
    for (; at > 0 && compare(set->word[at - 1], key) >= 0; at--)
        if (compare(set->word[at - 1], key) == 0)
            return false;
    memmove(&set->word[at + 1], &set->word[at], (set->count - at) * sizeof(key));
    memmove(&set->order[at + 1], &set->order[at], set->count - at);
    set->word[at] = key;
    set->order[at] = (uint8_t)set->count++;
    return true;
}

static redlock_code add_key(const redlock_client *client, const redlock_key *key,
                            struct rl_key_set *set, char **text)
{
    struct rl_word whole = {*text, 0};
    redlock_code code = rl_client_key(client, key->bytes, key->len, *text, &whole.len);
    if (code != REDLOCK_OK)
        return code;
    memcpy(*text + whole.len, RL_FENCE_SUFFIX, SUFFIX_LEN);
    *text += whole.len + SUFFIX_LEN;
    return insert(set, whole) ? REDLOCK_OK
                              : rl_fail_field(REDLOCK_BAD_KEY, REDLOCK_REASON_TWICE, "key",
                                              "is given twice: number %u", set->count + 1);
}

redlock_code rl_key_set_new(const redlock_client *client, const redlock_key *keys,
                            size_t count, struct rl_key_set **ret_set)
{
    redlock_code code = rl_check_count(REDLOCK_BAD_KEY, "keys", count, RL_SET_MAX);
    if (code != REDLOCK_OK)
        return code;
    struct rl_key_set *set =
        calloc(1, sizeof(*set) + count * (REDLOCK_KEY_MAX + SUFFIX_LEN));
    if (!set)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    char *text = set->text;
    for (size_t i = 0; i < count && code == REDLOCK_OK; i++)
        code = add_key(client, &keys[i], set, &text);
    if (code != REDLOCK_OK) {
        free(set);
        return code;
    }
    for (unsigned i = 0; i < set->count; i++) {
        struct rl_word key = set->word[i];
        set->word[count + i] = (struct rl_word){key.text, key.len + SUFFIX_LEN};
    }
    *ret_set = rl_key_set_ref(set);
    return REDLOCK_OK;
}

struct rl_key_set *rl_key_set_ref(struct rl_key_set *set)
{
    set->sharers++;
    return set;
}

void rl_key_set_unref(struct rl_key_set *set)
{
    if (--set->sharers == 0)
        free(set);
}
