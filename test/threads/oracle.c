#include "oracle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static struct slot {
    pthread_mutex_t mutex;
    unsigned key;
    redlock_hold *hold;
} slots[ORACLE_SLOTS];

static atomic_uint owners[ORACLE_KEYS]; /* a slot's number and 1 */
static _Atomic int64_t fences[ORACLE_KEYS];

/* Ends the servers once, and in one thread. */
_Noreturn void oracle_fail(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    exit(EXIT_FAILURE);
}

void oracle_begin(void)
{
    for (unsigned i = 0; i < ORACLE_SLOTS; i++)
        pthread_mutex_init(&slots[i].mutex, NULL);
}

static void put(unsigned slot, unsigned key, redlock_hold *hold)
{
    pthread_mutex_lock(&slots[slot].mutex);
    slots[slot].key = key;
    slots[slot].hold = hold;
    pthread_mutex_unlock(&slots[slot].mutex);
}

/* While its slot is locked, the other thread cannot begin to unlock. */
static void report_overlap(unsigned key, unsigned other, unsigned slot,
                           const redlock_hold *mine)
{
    pthread_mutex_lock(&slots[other].mutex);
    const redlock_hold *theirs = slots[other].key == key ? slots[other].hold : NULL;
    int64_t their_ms = theirs ? redlock_hold_valid_ms(theirs) : 0;
    int64_t my_ms = redlock_hold_valid_ms(mine);
    if (their_ms > 0 && my_ms > 0) {
        fprintf(stderr, "oracle: key %u is held by %u for %lld ms and by %u for %lld ms\n",
                key, other, (long long)their_ms, slot, (long long)my_ms);
        fprintf(stderr, "oracle: their tokens are %s and %s\n", redlock_hold_token(theirs),
                redlock_hold_token(mine));
        oracle_fail();
    }
    pthread_mutex_unlock(&slots[other].mutex);
}

/* Each owner's token is larger than that of the one before. */
static void compare_fences(unsigned key, const redlock_hold *hold)
{
    int64_t mine = redlock_hold_fence(hold);
    int64_t before = atomic_exchange_explicit(&fences[key], mine, memory_order_relaxed);
    if (mine > before || before == 0 || redlock_hold_valid_ms(hold) == 0)
        return;
    fprintf(stderr, "oracle: key %u has the fence %lld after %lld\n", key, (long long)mine,
            (long long)before);
    oracle_fail();
}

void oracle_enter(unsigned key, unsigned slot, redlock_hold *hold)
{
    put(slot, key, hold);
    unsigned other = atomic_exchange_explicit(&owners[key], slot + 1, memory_order_relaxed);
    if (other != 0 && other != slot + 1)
        report_overlap(key, other - 1, slot, hold);
    compare_fences(key, hold);
}

void oracle_leave(unsigned key, unsigned slot)
{
    unsigned mine = slot + 1;
    put(slot, key, NULL);
    atomic_compare_exchange_strong_explicit(&owners[key], &mine, 0, memory_order_relaxed,
                                            memory_order_relaxed);
}
