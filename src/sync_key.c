/* One key among threads: who waits for it, and what is to be done for them. */
#include <stdlib.h>
#include <string.h>

#include "sync_parts.h"

/* --- the table --- */

static size_t bucket_of(const char *text, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash % RL_BUCKETS;
}

static void carry_out(redlock_sync *sync, struct rl_order *order)
{
    rl_key_serve(sync, (struct rl_key *)order);
}

struct rl_key *rl_key_get(redlock_sync *sync, const void *text, size_t len)
{
    size_t bucket = bucket_of(text, len);
    struct rl_key *key;
    LIST_FOREACH (key, &sync->bucket[bucket], in_bucket)
        if (key->len == len && memcmp(key->text, text, len) == 0)
            return key;
    key = calloc(1, sizeof(*key) + len);
    if (!key)
        return NULL;
    key->order.carry_out = carry_out;
    TAILQ_INIT(&key->waiters);
    key->len = len;
    memcpy(key->text, text, len);
    LIST_INSERT_HEAD(&sync->bucket[bucket], key, in_bucket);
    return key;
}

static void stop_idling(redlock_sync *sync, struct rl_key *key)
{
    if (!key->idle)
        return;
    TAILQ_REMOVE(&sync->idle, key, in_idle);
    sync->idle_keys--;
    key->idle = false;
}

static void forget(redlock_sync *sync, struct rl_key *key)
{
    stop_idling(sync, key);
    LIST_REMOVE(key, in_bucket);
    free(key);
}

/* Nobody wants it now. It is kept for as long as there is something to remember. */
static void retire(redlock_sync *sync, struct rl_key *key)
{
    stop_idling(sync, key);
    if (key->behind_until <= rl_now_ms()) {
        forget(sync, key);
        return;
    }
    TAILQ_INSERT_TAIL(&sync->idle, key, in_idle);
    key->idle = true;
    if (++sync->idle_keys > RL_IDLE_MAX)
        forget(sync, TAILQ_FIRST(&sync->idle));
}

/* --- the queue --- */

bool rl_key_is_wanted(const struct rl_key *key)
{
    return !TAILQ_EMPTY(&key->waiters) ||
           (key->tenure && key->tenure->state == RL_TENURE_HELD);
}

void rl_key_join(redlock_sync *sync, struct rl_waiter *waiter)
{
    struct rl_key *key = waiter->key;
    stop_idling(sync, key);
    TAILQ_INSERT_TAIL(&key->waiters, waiter, next);
    if (!key->tenure)
        rl_give_order(sync, &key->order);
}

void rl_key_answer(struct rl_waiter *waiter, redlock_code code)
{
    TAILQ_REMOVE(&waiter->key->waiters, waiter, next);
    rl_wait_done(&waiter->wait, code);
}

void rl_key_dismiss(redlock_sync *sync, struct rl_waiter *waiter, redlock_code code)
{
    struct rl_key *key = waiter->key;
    if (key->tenure && key->tenure->waiter == waiter)
        key->tenure->waiter = NULL;
    rl_key_answer(waiter, code);
    rl_give_order(sync, &key->order);
}

void rl_key_serve(redlock_sync *sync, struct rl_key *key)
{
    while (!key->tenure && !TAILQ_EMPTY(&key->waiters))
        rl_tenure_acquire(key, TAILQ_FIRST(&key->waiters));
    if (key->tenure)
        rl_tenure_serve(key->tenure);
    else if (!key->order.posted)
        retire(sync, key);
}
