/* Threads that end with locks. */
#include <criterion/criterion.h>

#include "worker_threads.h"

/* The state of its work is unknown: the lock stays until its TTL ends. */
Test(sync_end, thread_ends_with_a_lock)
{
    struct sync_quorum c;
    struct worker holder, waiting;
    redlock_hold *none = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    options.ttl_ms = 1000;
    sync_quorum_open(&c, 3);
    worker_start_holding(&holder, c.sync, "job", &options);
    redlock_hold *hold = holder.hold;
    worker_start_waiting(&waiting, c.sync, "job", &options);
    SYNC_QUORUM_UNTIL(servers_with(&c.servers, "job", redlock_hold_token(hold)) == 3);
    holder.hold = NULL;
    worker_end(&holder);
    cr_assert(redlock_hold_lost(hold));
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_NOT_HELD, "it does not release it");
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, &options, &none), REDLOCK_TAKEN);
    cr_assert_eq(servers_with(&c.servers, "job", redlock_hold_token(hold)), 3);
    cr_assert_eq(worker_await(&waiting), REDLOCK_OK);
    cr_assert_str_neq(redlock_hold_token(waiting.hold), redlock_hold_token(hold));
    worker_finish(&waiting);
    redlock_hold_free(hold);
    sync_quorum_close(&c);
}

/* Only the locks that it still holds; and those of other clients, too. */
Test(sync_end, thread_ends_with_some_locks)
{
    struct sync_quorum c;
    struct worker worker;
    redlock_hold *hold[4];
    static const char *const key[] = {"a", "b", "c", "d"};
    redlock_lock_options options = sync_quorum_lock_options();
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    worker_start(&worker, c.sync, NULL, NULL);
    for (unsigned i = 0; i < 4; i++) {
        worker.key = key[i];
        worker.sync = i < 2 ? c.sync : other;
        worker.options.any_thread = i == 3;
        cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
        hold[i] = worker.hold;
        worker.hold = NULL;
    }
    cr_assert_eq(redlock_unlock(hold[1], REDLOCK_CONFIRM), REDLOCK_OK, "here, not there");
    worker_end(&worker);
    cr_assert(redlock_hold_lost(hold[0]));
    cr_assert(redlock_hold_lost(hold[2]));
    cr_assert_not(redlock_hold_lost(hold[3]), "it belongs to no thread in particular");
    cr_assert_eq(redlock_unlock(hold[3], REDLOCK_CONFIRM), REDLOCK_OK);
    worker_start_holding(&worker, c.sync, "b", &options);
    worker_finish(&worker);
    for (unsigned i = 0; i < 4; i++)
        redlock_hold_free(hold[i]);
    redlock_sync_free(other);
    sync_quorum_close(&c);
}
