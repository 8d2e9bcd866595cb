#include "watched.h"

#include <stdlib.h>

#define WANTED_US INT64_C(5000000) /* it is looked at after an answer that had it */
#define KEPT_US   INT64_C(1000000) /* ... and keeps its place: a page asks more often */

static void drop(struct watched_lock *lock)
{
    free(lock->key);
    row_free(&lock->fresh);
    *lock = (struct watched_lock){0};
}

void watched_free(struct watched *watched)
{
    for (size_t i = 0; i < WATCHED_MAX; i++)
        drop(&watched->lock[i]);
}

/* A lock of several keys is looked at by its first one. The caller frees it. */
static char *key_of(const struct row *row, size_t *ret_len)
{
    char *name = row->slot > 0 ? cli_format("%s!%u", row_key(row), row->slot)
                               : cli_format("%s", row_key(row));
    char *key = row_read_key(name, ret_len);
    free(name);
    return key;
}

static bool has_key(const struct watched_lock *lock, const char *key, size_t key_len)
{
    return lock->key && lock->key_len == key_len && memcmp(lock->key, key, key_len) == 0;
}

/* The lock with this key, or the place that was wanted least lately. NULL: none is free. */
static struct watched_lock *find(struct watched *watched, const char *key, size_t key_len,
                                 int64_t now)
{
    struct watched_lock *place = NULL;
    for (size_t i = 0; i < WATCHED_MAX; i++) {
        struct watched_lock *lock = &watched->lock[i];
        if (has_key(lock, key, key_len))
            return lock;
        if (!lock->asked && (!place || lock->wanted_us < place->wanted_us))
            place = lock;
    }
    return place && now - place->wanted_us > KEPT_US ? place : NULL;
}

/* Nobody holds it any more, or it cannot be known: what the scan told of it stays. */
static struct row without_holder(const struct row *row, const struct row *fresh)
{
    struct row merged = *row;
    merged.state = fresh->state;
    merged.remaining_ms = REDLOCK_UNKNOWN;
    merged.nodes = merged.readers = 0;
    merged.waiting = fresh->waiting;
    merged.waited_ms = fresh->waited_ms;
    merged.seen_us = fresh->seen_us;
    return merged;
}

/* The scan may be older than the inspection, or younger. */
static struct row merge(const struct row *row, const struct row *fresh)
{
    struct row merged = *row;
    bool same = strcmp(row_token(row), row_token(fresh)) == 0;
    if (same && fresh->since_us < row->since_us)
        merged.since_us = fresh->since_us;
    if (fresh->seen_us <= row->seen_us)
        return merged;
    if (fresh->state == ROW_FREE || fresh->state == ROW_UNKNOWN)
        return without_holder(row, fresh);
    if (!same) {
        merged = *fresh;
        merged.slot = row->slot;
        return merged;
    }
    merged.remaining_ms = fresh->remaining_ms;
    merged.seen_us = fresh->seen_us;
    merged.readers = fresh->readers;
    merged.waiting = fresh->waiting;
    merged.waited_ms = fresh->waited_ms;
    if (row->keys == 1) {
        merged.nodes = fresh->nodes;
        merged.state = fresh->state;
    }
    return merged;
}

static void inspected(redlock_client *client, const redlock_inspection *found, void *arg)
{
    struct watched_lock *lock = arg;
    const redlock_listed listed = {
        .key = lock->key, .key_len = lock->key_len, .inspection = found};
    struct row fresh;
    (void)client;
    lock->asked = false;
    if (found->code == REDLOCK_CANCELLED)
        return;
    row_take(&fresh, &listed);
    if (found->code == REDLOCK_OK && found->held == 0)
        fresh.state = ROW_FREE;
    if (lock->has_fresh && strcmp(row_token(&fresh), row_token(&lock->fresh)) == 0)
        fresh.since_us = lock->fresh.since_us;
    row_free(&lock->fresh);
    lock->fresh = fresh;
    lock->has_fresh = true;
}

static void inspect(struct watched_lock *lock, const struct watched *watched)
{
    if (!lock->asked)
        lock->asked = redlock_inspect(watched->cli->client, lock->key, lock->key_len,
                                      inspected, lock) == REDLOCK_OK;
}

struct row watched_want(struct watched *watched, const struct row *row)
{
    int64_t now = cli_clock_us(CLOCK_BOOTTIME);
    size_t key_len;
    char *key = key_of(row, &key_len);
    struct watched_lock *lock = find(watched, key, key_len, now);
    if (lock && !has_key(lock, key, key_len)) {
        drop(lock);
        lock->key = key;
        lock->key_len = key_len;
        key = NULL;
    }
    free(key);
    if (!lock)
        return *row;
    lock->wanted_us = now;
    if (!lock->has_fresh)
        inspect(lock, watched);
    return lock->has_fresh ? merge(row, &lock->fresh) : *row;
}

void watched_inspect(struct watched *watched)
{
    int64_t now = cli_clock_us(CLOCK_BOOTTIME);
    for (size_t i = 0; i < WATCHED_MAX; i++) {
        struct watched_lock *lock = &watched->lock[i];
        if (lock->key && now - lock->wanted_us <= WANTED_US)
            inspect(lock, watched);
    }
}
