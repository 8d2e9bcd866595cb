#include "key.h"

#include <stdlib.h>
#include <string.h>

#include "io/system.h"

#define PRIME UINT64_C(0x7fffffff) /* so that no product overflows */

/* --- the table --- */

void rl_keys_init(struct rl_keys *keys, struct rl_loop_owner *loop,
                  void (*advance)(struct rl_key *key))
{
    keys->loop = loop;
    keys->advance = advance;
    TAILQ_INIT(&keys->idle);
    if (!rl_system_random(&keys->seed, sizeof(keys->seed), false))
        keys->seed = (uint64_t)rl_system_clock_ns(CLOCK_MONOTONIC);
    keys->seed %= PRIME;
}

void rl_keys_free_all(struct rl_keys *keys)
{
    struct rl_key *key;
    for (size_t i = 0; i <= RL_BUCKETS; i++)
        while ((key = LIST_FIRST(&keys->bucket[i]))) {
            LIST_REMOVE(key, in_bucket);
            free(key);
        }
}

static int compare(const redlock_key *one, const redlock_key *other)
{
    size_t len = one->len < other->len ? one->len : other->len;
    int order = memcmp(one->bytes, other->bytes, len);
    return order != 0 ? order : (one->len > other->len) - (one->len < other->len);
}

/*
 * The value of a polynomial at the seed, modulo a prime: for any two sets of keys few seeds
 * make it equal.
 */
static size_t bucket_of(const struct rl_keys *keys, const redlock_key *of, size_t count)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < of[i].len; at++)
            hash =
                (hash * keys->seed + ((const unsigned char *)of[i].bytes)[at] + 1) % PRIME;
    return hash % RL_BUCKETS;
}

bool rl_key_is_of(const struct rl_key *key, const redlock_key *of, size_t count)
{
    bool equal = key->count == count;
    for (size_t i = 0; equal && i < count; i++)
        equal = compare(&key->of[i], &of[i]) == 0;
    return equal;
}

/* A copy of the bytes goes behind the array. */
static struct rl_key *new_key(const redlock_key *of, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += of[i].len;
    struct rl_key *key = calloc(1, sizeof(*key) + count * sizeof(*of) + len);
    if (!key)
        return NULL;
    key->count = count;
    char *bytes = (char *)&key->of[count];
    for (size_t i = 0; i < count; i++) {
        key->of[i] = (redlock_key){memcpy(bytes, of[i].bytes, of[i].len), of[i].len};
        bytes += of[i].len;
    }
    return key;
}

static void advance(struct rl_loop_owner *loop, struct rl_job *job)
{
    struct rl_key *key = (struct rl_key *)job;
    (void)loop;
    key->keys->advance(key);
}

bool rl_key_insert(redlock_key *of, size_t count, redlock_key key, uint8_t *order)
{
    size_t at = count;
    for (; at > 0 && compare(&of[at - 1], &key) >= 0; at--)
        if (compare(&of[at - 1], &key) == 0)
            return false;
    memmove(&of[at + 1], &of[at], (count - at) * sizeof(key));
    memmove(&order[at + 1], &order[at], count - at);
    of[at] = key;
    order[at] = (uint8_t)count;
    return true;
}

struct rl_key *rl_key_find(const struct rl_keys *keys, const redlock_key *of, size_t count)
{
    struct rl_key *key;
    LIST_FOREACH (key, &keys->bucket[bucket_of(keys, of, count)], in_bucket)
        if (rl_key_is_of(key, of, count))
            return key;
    return NULL;
}

struct rl_key *rl_key_get(struct rl_keys *keys, const redlock_key *of, size_t count,
                          bool alone)
{
    struct rl_key *key = rl_key_find(keys, of, count);
    if (key && !alone)
        return key;
    key = new_key(of, count);
    if (!key)
        return NULL;
    key->job.run = advance;
    key->keys = keys;
    key->alone = alone;
    TAILQ_INIT(&key->waiters);
    size_t bucket = alone ? RL_BUCKETS : bucket_of(keys, of, count);
    LIST_INSERT_HEAD(&keys->bucket[bucket], key, in_bucket);
    return key;
}

void rl_key_schedule(struct rl_key *key)
{
    rl_job_post(key->keys->loop, &key->job);
}

static void stop_idling(struct rl_key *key)
{
    if (!key->idle)
        return;
    TAILQ_REMOVE(&key->keys->idle, key, in_idle);
    key->keys->idle_count--;
    key->idle = false;
}

static void forget(struct rl_key *key)
{
    stop_idling(key);
    LIST_REMOVE(key, in_bucket);
    free(key);
}

/* It is kept until `others_wait_until`, among at most RL_IDLE_MAX keys. */
void rl_key_retire(struct rl_key *key)
{
    struct rl_keys *keys = key->keys;
    if (key->job.queue)
        return;
    stop_idling(key);
    if (key->others_wait_until <= rl_now_ms()) {
        forget(key);
        return;
    }
    TAILQ_INSERT_TAIL(&keys->idle, key, in_idle);
    key->idle = true;
    if (++keys->idle_count > RL_IDLE_MAX)
        forget(TAILQ_FIRST(&keys->idle));
}

/* --- its waiters --- */

void rl_key_join(struct rl_key_waiter *waiter)
{
    struct rl_key *key = waiter->key;
    stop_idling(key);
    TAILQ_INSERT_TAIL(&key->waiters, waiter, link);
    if (!key->lease)
        rl_key_schedule(key);
}

void rl_key_answer(struct rl_key_waiter *waiter, redlock_code code)
{
    TAILQ_REMOVE(&waiter->key->waiters, waiter, link);
    rl_loop_owner_finish_wait(waiter->key->keys->loop, &waiter->wait, code);
}

void rl_key_dismiss(struct rl_key_waiter *waiter, redlock_code code)
{
    struct rl_key *key = waiter->key;
    if (key->served == waiter)
        key->served = NULL;
    rl_key_answer(waiter, code);
    rl_key_schedule(key);
}

static void key_dismiss(struct rl_key *key, const redlock_stop *stop, bool all)
{
    struct rl_key_waiter *waiter = TAILQ_FIRST(&key->waiters), *next;
    for (; waiter; waiter = next) {
        next = TAILQ_NEXT(waiter, link);
        if (!all && waiter->options->stop != stop)
            continue;
        waiter->wait.reason = all ? REDLOCK_REASON_CLIENT_FREED : REDLOCK_REASON_BY_CALLER;
        rl_key_dismiss(waiter, REDLOCK_CANCELLED);
    }
}

void rl_keys_dismiss(struct rl_keys *keys, const redlock_stop *stop, bool all)
{
    struct rl_key *key;
    for (size_t i = 0; i <= RL_BUCKETS; i++)
        LIST_FOREACH (key, &keys->bucket[i], in_bucket)
            key_dismiss(key, stop, all);
}

/* --- for its process lease --- */

void rl_key_attach(struct rl_key *key, struct rl_process_lease *lease,
                   struct rl_key_waiter *served)
{
    key->lease = lease;
    key->served = served;
}

void rl_key_detach(struct rl_key *key)
{
    key->lease = NULL;
    key->served = NULL;
}

struct rl_key_waiter *rl_key_end_serving(struct rl_key *key)
{
    struct rl_key_waiter *served = key->served;
    key->served = NULL;
    return served;
}

void rl_key_note_release(struct rl_key *key, bool others)
{
    key->others_wait_until = others && !key->alone ? rl_now_ms() + RL_OTHERS_WAIT_MS : 0;
}
