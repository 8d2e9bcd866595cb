#include "store.h"

#include <assert.h>
#include <string.h>

#include "store_parts.h"

bool store_same(struct rl_word a, struct rl_word b)
{
    return a.len == b.len && (a.text == b.text || memcmp(a.text, b.text, a.len) == 0);
}

static bool is_there(const struct store_entry *entry, int64_t now)
{
    return entry->type != STORE_NOTHING && now <= entry->expires;
}

static struct store_entry *entry_of(struct store *store, struct rl_word key)
{
    for (struct store_entry *entry = store->entry; entry < store->entry + STORE_KEYS;
         entry++)
        if (entry->type != STORE_NOTHING && store_same(entry->key, key))
            return entry;
    return NULL;
}

struct store_entry *store_live(struct store *store, struct rl_word key)
{
    struct store_entry *entry = entry_of(store, key);
    if (!entry || is_there(entry, store->now))
        return entry;
    entry->type = STORE_NOTHING;
    return NULL;
}

static void drop_expired(struct store *store)
{
    for (struct store_entry *entry = store->entry; entry < store->entry + STORE_KEYS;
         entry++)
        if (!is_there(entry, store->now))
            entry->type = STORE_NOTHING;
}

static struct store_entry *free_entry(struct store *store)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < STORE_KEYS; i++)
            if (store->entry[i].type == STORE_NOTHING)
                return &store->entry[i];
        drop_expired(store);
    }
    assert(!"more keys than STORE_KEYS");
    return NULL;
}

const struct store_entry *store_find(const struct store *store, struct rl_word key,
                                     int64_t now)
{
    for (int i = 0; i < STORE_KEYS; i++)
        if (is_there(&store->entry[i], now) && store_same(store->entry[i].key, key))
            return &store->entry[i];
    return NULL;
}

void store_put(struct store *store, enum store_type type, struct rl_word key,
               struct rl_word value, int64_t expires)
{
    assert(type != STORE_NOTHING);
    struct store_entry *entry = entry_of(store, key);
    if (!entry)
        entry = free_entry(store);
    *entry = (struct store_entry){type, key, value, expires, 0};
}

void store_put_fence(struct store *store, struct rl_word key, int64_t fence,
                     int64_t expires)
{
    store_put(store, STORE_FENCE, key, (struct rl_word){"", 0}, expires);
    entry_of(store, key)->fence = fence;
}

void store_drop(struct store *store, struct rl_word key)
{
    struct store_entry *entry = entry_of(store, key);
    if (entry)
        entry->type = STORE_NOTHING;
}

void store_flush(struct store *store)
{
    for (int i = 0; i < STORE_KEYS; i++)
        store->entry[i].type = STORE_NOTHING;
    store->places = 0;
}

void store_forget_scripts(struct store *store)
{
    store->scripts = 0;
}
