#include "oracle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static struct desk {
    pthread_mutex_t mutex;
    unsigned key;
    redlock_hold *hold;
} desks[ORACLE_DESKS];

static atomic_uint owners[ORACLE_KEYS]; /* a desk's number and 1 */
static _Atomic int64_t fences[ORACLE_KEYS];

/* What ends the servers runs once, and in one thread. */
_Noreturn void oracle_fail(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    exit(EXIT_FAILURE);
}

void oracle_begin(void)
{
    for (unsigned i = 0; i < ORACLE_DESKS; i++)
        pthread_mutex_init(&desks[i].mutex, NULL);
}

static void lay(unsigned desk, unsigned key, redlock_hold *hold)
{
    pthread_mutex_lock(&desks[desk].mutex);
    desks[desk].key = key;
    desks[desk].hold = hold;
    pthread_mutex_unlock(&desks[desk].mutex);
}

/* As long as its desk is locked, the other one cannot begin to unlock. */
static void accuse(unsigned key, unsigned other, unsigned desk, const redlock_hold *mine)
{
    pthread_mutex_lock(&desks[other].mutex);
    const redlock_hold *theirs = desks[other].key == key ? desks[other].hold : NULL;
    int64_t their_ms = theirs ? redlock_hold_valid_ms(theirs) : 0;
    int64_t my_ms = redlock_hold_valid_ms(mine);
    if (their_ms > 0 && my_ms > 0) {
        fprintf(stderr, "oracle: key %u is held by %u for %lld ms and by %u for %lld ms\n",
                key, other, (long long)their_ms, desk, (long long)my_ms);
        fprintf(stderr, "oracle: their tokens are %s and %s\n", redlock_hold_token(theirs),
                redlock_hold_token(mine));
        oracle_fail();
    }
    pthread_mutex_unlock(&desks[other].mutex);
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

void oracle_enter(unsigned key, unsigned desk, redlock_hold *hold)
{
    lay(desk, key, hold);
    unsigned other = atomic_exchange_explicit(&owners[key], desk + 1, memory_order_relaxed);
    if (other != 0 && other != desk + 1)
        accuse(key, other - 1, desk, hold);
    compare_fences(key, hold);
}

void oracle_leave(unsigned key, unsigned desk)
{
    unsigned mine = desk + 1;
    lay(desk, key, NULL);
    atomic_compare_exchange_strong_explicit(&owners[key], &mine, 0, memory_order_relaxed,
                                            memory_order_relaxed);
}
