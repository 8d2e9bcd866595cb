/* Threads that lock again what they have. */
#include <criterion/criterion.h>

#include "worker_threads.h"

static struct sync_quorum quorum;
static redlock_lock_options options;

static void open_quorum(void)
{
    sync_quorum_open(&quorum, 3);
    options = sync_quorum_lock_options();
    options.recursive = true;
}

static void close_quorum(void)
{
    sync_quorum_close(&quorum);
}

TestSuite(sync_recursive, .init = open_quorum, .fini = close_quorum);

static redlock_hold *lock(void)
{
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock(quorum.sync, "key", 3, &options, &hold), REDLOCK_OK, "%s",
                 redlock_last_error()->text);
    return hold;
}

/* Another thread makes one attempt; so it does not wait for this one. */
static redlock_code tried_by_another(void)
{
    struct worker other;
    worker_start(&other, quorum.sync, "key", &options);
    redlock_code code = worker_done(&other, job_try);
    worker_end(&other);
    return code;
}

Test(sync_recursive, as_many_unlocks_as_locks)
{
    redlock_hold *outer = lock(), *inner = NULL;
    cr_assert_eq(redlock_try_lock(quorum.sync, "key", 3, &options, &inner), REDLOCK_OK);
    cr_assert_eq(inner, outer);
    cr_assert_eq(redlock_lock_for(quorum.sync, "key", 3, 1, &options, &inner), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(inner, 0), REDLOCK_OK);
    redlock_hold_free(inner);
    cr_assert_eq(redlock_unlock(inner, REDLOCK_CONFIRM), REDLOCK_OK);
    cr_assert(!redlock_hold_lost(outer) && redlock_hold_valid_ms(outer) > 0);
    cr_assert_eq(tried_by_another(), REDLOCK_TAKEN);
    redlock_hold_free(inner);
    cr_assert_eq(tried_by_another(), REDLOCK_TAKEN);
    cr_assert_eq(redlock_unlock(outer, REDLOCK_CONFIRM), REDLOCK_OK);
    cr_assert_eq(tried_by_another(), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(outer, 0), REDLOCK_NOT_HELD);
    redlock_hold_free(outer);
}

/* Each of them takes one level with it. */
Test(sync_recursive, freed_without_an_unlock)
{
    redlock_hold *hold = lock();
    cr_assert_eq(lock(), hold);
    redlock_hold_free(hold);
    cr_assert_eq(tried_by_another(), REDLOCK_TAKEN);
    redlock_hold_free(hold);
    cr_assert_eq(tried_by_another(), REDLOCK_OK);
}

Test(sync_recursive, only_the_last_one_disowns)
{
    redlock_hold *hold = lock();
    cr_assert_eq(lock(), hold);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_DISOWN), REDLOCK_BUSY);
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_DISOWN), REDLOCK_OK);
    redlock_hold_free(hold);
    redlock_hold_free(hold);
    cr_assert_gt(servers_keys(&quorum.servers), 0);
}

/* No node replies while it goes down, and one comes back without its memory. */
#define DEPTH 1000

Test(sync_recursive, a_thousand_levels_without_a_command)
{
    redlock_hold *hold = lock();
    SYNC_QUORUM_UNTIL(servers_with(&quorum.servers, "key", redlock_hold_token(hold)) == 3);
    for (unsigned depth = 1; depth < DEPTH; depth++) {
        if (depth == DEPTH / 4)
            servers_stop_first(&quorum.servers, 3);
        if (depth == DEPTH / 2)
            servers_cont_first(&quorum.servers, 3);
        if (depth == DEPTH / 2)
            servers_kill(&quorum.servers, 0);
        cr_assert_eq(lock(), hold);
    }
    for (unsigned depth = DEPTH; depth > 0; depth--) {
        if (depth == DEPTH / 2)
            servers_launch(&quorum.servers, 0);
        cr_assert(!redlock_hold_lost(hold));
        cr_assert_eq(redlock_unlock(hold, depth > 1 ? 0 : REDLOCK_CONFIRM), REDLOCK_OK,
                     "%s", redlock_last_error()->text);
        redlock_hold_free(hold);
    }
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}

Test(sync_recursive, extended_if_little_is_left)
{
    options.watchdog = false;
    options.ttl_ms = 60000;
    redlock_hold *hold = lock();
    sync_quorum_set_left(quorum.sync, "key", 15000);
    cr_assert_eq(lock(), hold);
    cr_assert_gt(redlock_hold_valid_ms(hold), 30000);
    options.ttl_ms = 3600 * 1000;
    options.min_validity_ms = 1800 * 1000;
    cr_assert_eq(lock(), hold);
    cr_assert_gt(redlock_hold_valid_ms(hold), 1800 * 1000);
    for (unsigned i = 0; i < 3; i++)
        redlock_hold_free(hold);
}

/* The longest TTL that was asked for stays, also for what the watchdog does later. */
Test(sync_recursive, a_shorter_ttl_shortens_nothing)
{
    options.watchdog = false;
    options.ttl_ms = 60000;
    redlock_hold *hold = lock();
    options.ttl_ms = 1000;
    cr_assert_eq(lock(), hold);
    cr_assert_gt(redlock_hold_valid_ms(hold), 30000);
    sync_quorum_set_left(quorum.sync, "key", 15000);
    cr_assert_eq(lock(), hold);
    cr_assert_gt(redlock_hold_valid_ms(hold), 30000, "it is extended to its own TTL");
    options.ttl_ms = 120000;
    options.min_validity_ms = 90000;
    cr_assert_eq(lock(), hold);
    options.ttl_ms = 1000;
    options.min_validity_ms = 0;
    sync_quorum_set_left(quorum.sync, "key", 30000);
    cr_assert_eq(lock(), hold);
    cr_assert_gt(redlock_hold_valid_ms(hold), 90000, "to the longer one from then on");
    cr_assert_eq(redlock_hold_extend(hold, REDLOCK_AUTO), REDLOCK_OK);
    cr_assert_gt(redlock_hold_valid_ms(hold), 90000);
    for (unsigned i = 0; i < 5; i++)
        redlock_hold_free(hold);
}

static void job_lock_again(struct worker *worker)
{
    redlock_hold *inner = NULL;
    worker->code =
        redlock_lock(worker->sync, worker->key, strlen(worker->key), &options, &inner);
    if (worker->code == REDLOCK_EXPIRED)
        cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_LATE);
}

#define ENOUGH_MS 59000
#define SLOW_MS   450 /* longer than what an extension leaves above that */

/* The thread still has it, as often as before. */
Test(sync_recursive, refused_if_it_is_extended_too_slowly)
{
    struct worker worker;
    options.watchdog = false;
    worker_start_holding(&worker, quorum.sync, "key", &options);
    options.min_validity_ms = ENOUGH_MS;
    sync_quorum_set_left(quorum.sync, "key", ENOUGH_MS - 1);
    servers_stop_first(&quorum.servers, 3);
    worker_do(&worker, job_lock_again);
    sync_quorum_run_for(SLOW_MS);
    servers_cont_first(&quorum.servers, 3);
    cr_assert_eq(worker_await(&worker), REDLOCK_EXPIRED);
    cr_assert(!redlock_hold_lost(worker.hold));
    cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
    worker_end(&worker);
}

/* The margin is that of the lock, not of the further level. */
Test(sync_recursive, extended_if_less_than_its_margin_is_left)
{
    options.watchdog = false;
    options.ttl_ms = 60000;
    options.margin_ms = 40000;
    redlock_hold *hold = lock();
    options.margin_ms = 0;
    sync_quorum_set_left(quorum.sync, "key", 30000);
    cr_assert_eq(lock(), hold);
    cr_assert_gt(redlock_hold_valid_ms(hold), 40000);
    for (unsigned i = 0; i < 2; i++)
        redlock_hold_free(hold);
}

/* It can be extended nowhere: the thread still has it, as often as before. */
Test(sync_recursive, refused_if_too_little_is_left)
{
    options.watchdog = false;
    options.ttl_ms = 60000;
    redlock_hold *hold = lock(), *inner = NULL;
    servers_kill_first(&quorum.servers, 2);
    sync_quorum_set_left(quorum.sync, "key", 15000);
    redlock_code code = redlock_try_lock(quorum.sync, "key", 3, &options, &inner);
    cr_assert_eq(code, REDLOCK_NO_QUORUM, "%s", redlock_last_error()->text);
    cr_assert_null(inner);
    cr_assert(!redlock_hold_lost(hold));
    redlock_hold_free(hold);
}

/* A lost lock is not entered: it is acquired anew, and both are unlocked. */
Test(sync_recursive, lost_in_between)
{
    redlock_hold *lost = lock();
    cr_assert_eq(lock(), lost);
    servers_do_first(&quorum.servers, 3, "SET key other");
    (void)redlock_hold_extend(lost, 0);
    cr_assert(redlock_hold_lost(lost));
    servers_do_first(&quorum.servers, 3, "DEL key");
    redlock_hold *anew = lock();
    cr_assert_neq(anew, lost);
    cr_assert_eq(lock(), anew);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(redlock_unlock(lost, 0), REDLOCK_TAKEN);
        redlock_hold_free(lost);
        cr_assert(!redlock_hold_lost(anew));
    }
    redlock_hold_free(anew);
    redlock_hold_free(anew);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}

Test(sync_recursive, options_that_do_not_fit)
{
    redlock_hold *hold = lock(), *inner = NULL;
    options.fenced = true;
    cr_assert_eq(redlock_try_lock(quorum.sync, "key", 3, &options, &inner),
                 REDLOCK_BAD_OPTION);
    options.fenced = false;
    options.recursive = false;
    cr_assert_eq(redlock_try_lock(quorum.sync, "key", 3, &options, &inner), REDLOCK_TAKEN);
    cr_assert_null(inner);
    redlock_hold_free(hold);
}

/* The order of the keys does not matter. */
Test(sync_recursive, a_set)
{
    const redlock_key keys[] = {{"a", 1}, {"b", 1}, {"a", 1}};
    redlock_hold *hold = NULL, *inner = NULL;
    cr_assert_eq(redlock_lock_many(quorum.sync, keys, 2, 0, &options, &hold), REDLOCK_OK);
    cr_assert_eq(redlock_lock_many(quorum.sync, keys + 1, 2, 0, &options, &inner),
                 REDLOCK_OK);
    cr_assert_eq(inner, hold);
    redlock_hold_free(inner);
    redlock_hold_free(hold);
}
