/* Threads that lock in the layout of Redisson's RLock. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "worker_threads.h"

static struct sync_quorum quorum;
static redlock_lock_options plain, hash;

static void open_quorum(void)
{
    sync_quorum_open(&quorum, 3);
    plain = hash = sync_quorum_lock_options();
    hash.kind = REDLOCK_KIND_REDISSON;
}

static void close_quorum(void)
{
    sync_quorum_close(&quorum);
}

TestSuite(sync_redisson, .init = open_quorum, .fini = close_quorum);

static redlock_hold *lock(const redlock_lock_options *options)
{
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock(quorum.sync, "job", 3, options, &hold), REDLOCK_OK, "%s",
                 redlock_last_error()->text);
    return hold;
}

static unsigned count_hashes(const redlock_hold *hold)
{
    unsigned count = 0;
    for (unsigned i = 0; i < 3; i++)
        count +=
            servers_text(&quorum.servers, i, "1", "HGET job %s", redlock_hold_token(hold));
    return count;
}

Test(sync_redisson, locked_extended_and_unlocked)
{
    redlock_hold *hold = lock(&hash);
    SYNC_QUORUM_UNTIL(count_hashes(hold) == 3);
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(hold);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}

static void *lock_plainly(void *arg)
{
    (void)arg;
    redlock_hold *hold = lock(&plain);
    SYNC_QUORUM_UNTIL(servers_with(&quorum.servers, "job", redlock_hold_token(hold)) == 3);
    redlock_unlock(hold, REDLOCK_CONFIRM);
    redlock_hold_free(hold);
    return NULL;
}

/* The lease is not handed over: its layout is another. */
Test(sync_redisson, a_thread_that_wants_a_plain_lock_gets_one_of_its_own)
{
    pthread_t thread;
    redlock_hold *hold = lock(&hash);
    SYNC_QUORUM_UNTIL(count_hashes(hold) == 3);
    cr_assert_eq(pthread_create(&thread, NULL, lock_plainly, NULL), 0);
    redlock_unlock(hold, 0);
    pthread_join(thread, NULL);
    redlock_hold_free(hold);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}
