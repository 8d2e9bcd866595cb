/* Locks for threads: which thread gets one, when, and what unlocking returns. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "worker_threads.h"

/* --- one thread --- */

Test(sync, locked_and_unlocked)
{
    struct sync_quorum c;
    redlock_hold *hold = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    sync_quorum_open(&c, 5);
    cr_assert_eq(redlock_sync_nodes(c.sync), 5);
    cr_assert_eq(redlock_sync_quorum(c.sync), 3);
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    cr_assert_not(redlock_hold_lost(hold));
    cr_assert_gt(redlock_hold_valid_ms(hold), 50000);
    cr_assert_leq(redlock_hold_valid_ms(hold), 60000);
    cr_assert_eq(redlock_hold_fence(hold), 0);
    cr_assert_geq(servers_with(&c.servers, "job", redlock_hold_token(hold)), 3);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    cr_assert_leq(servers_with(&c.servers, "job", redlock_hold_token(hold)), 2);
    cr_assert(redlock_hold_lost(hold));
    cr_assert_eq(redlock_hold_valid_ms(hold), 0);
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_NOT_HELD);
    redlock_hold_free(hold);
    SYNC_QUORUM_UNTIL(sync_quorum_keys(c.sync) == 0);
    SYNC_QUORUM_UNTIL(servers_keys(&c.servers) == 0);
    sync_quorum_close(&c);
}

Test(sync, default_options_and_freeing_unlocks)
{
    struct sync_quorum c;
    redlock_hold *hold = NULL;
    sync_quorum_open(&c, 3);
    for (unsigned i = 0; i < 20; i++) {
        cr_assert_eq(redlock_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
        cr_assert_gt(redlock_hold_valid_ms(hold), 25000);
        redlock_hold_free(hold);
    }
    redlock_hold_free(NULL);
    SYNC_QUORUM_UNTIL(servers_keys(&c.servers) == 0);
    sync_quorum_close(&c);
}

/* An unlocked lock is released before the client ends. */
Test(sync, client_is_freed_right_after_unlocking)
{
    struct sync_quorum c;
    redlock_hold *hold = NULL;
    sync_quorum_open(&c, 5);
    for (unsigned i = 0; i < 10; i++) {
        cr_assert_eq(redlock_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
        cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_OK);
        redlock_sync_free(c.sync);
        cr_assert_eq(servers_keys(&c.servers), 0);
        cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_NOT_HELD);
        redlock_hold_free(hold);
        c.sync = sync_quorum_sync(&c);
    }
    sync_quorum_close(&c);
}

Test(sync, try_lock)
{
    struct sync_quorum c;
    redlock_hold *hold = NULL, *none = NULL;
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, NULL, &none), REDLOCK_TAKEN);
    cr_assert_eq(redlock_try_lock(other, "job", 3, NULL, &none), REDLOCK_TAKEN);
    cr_assert_null(none);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(hold);
    SYNC_QUORUM_UNTIL(servers_keys(&c.servers) == 0);
    cr_assert_eq(redlock_try_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    redlock_hold_free(hold);
    redlock_sync_free(other);
    sync_quorum_close(&c);
}

/* Unlocked and tried at once: the call waits for the release that is under way. */
Test(sync, try_lock_after_unlocking)
{
    struct sync_quorum c;
    redlock_hold *hold = NULL;
    sync_quorum_open(&c, 5);
    for (unsigned i = 0; i < 50; i++) {
        cr_assert_eq(redlock_try_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
        redlock_hold_free(hold);
    }
    sync_quorum_close(&c);
}

Test(sync, lock_for_ends)
{
    struct sync_quorum c;
    redlock_hold *hold = NULL, *none = NULL;
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 0, NULL, &hold), REDLOCK_OK);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 0, NULL, &none), REDLOCK_TAKEN);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 30, NULL, &none), REDLOCK_TIMEOUT);
    cr_assert_eq(redlock_lock_for(other, "job", 3, 0, NULL, &none), REDLOCK_TAKEN);
    cr_assert_eq(redlock_lock_for(other, "job", 3, 30, NULL, &none), REDLOCK_TIMEOUT);
    cr_assert_null(none);
    redlock_hold_free(hold);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, REDLOCK_FOREVER, NULL, &hold),
                 REDLOCK_OK);
    redlock_hold_free(hold);
    redlock_sync_free(other);
    SYNC_QUORUM_UNTIL(servers_keys(&c.servers) == 0);
    sync_quorum_close(&c);
}

Test(sync, extended)
{
    struct sync_quorum c;
    redlock_hold *hold = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    options.watchdog = false;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    cr_assert_eq(redlock_hold_extend(hold, 300000), REDLOCK_OK);
    cr_assert_gt(redlock_hold_valid_ms(hold), 200000);
    cr_assert_gt(servers_number(&c.servers, 0, "PTTL job"), 200000);
    cr_assert_eq(redlock_hold_extend(hold, 20000), REDLOCK_OK);
    cr_assert_leq(redlock_hold_valid_ms(hold), 20000);
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_OK);
    cr_assert_leq(redlock_hold_valid_ms(hold), 20000, "that is its TTL now");
    cr_assert_eq(redlock_hold_extend(hold, 1), REDLOCK_BAD_TTL);
    cr_assert_not(redlock_hold_lost(hold));
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_OK);
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_NOT_HELD);
    redlock_hold_free(hold);
    sync_quorum_close(&c);
}

Test(sync, unlocked_by_another_thread)
{
    struct sync_quorum c;
    struct worker worker;
    sync_quorum_open(&c, 3);
    worker_start(&worker, c.sync, "job", NULL);
    cr_assert_eq(worker_done(&worker, job_lock), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(worker.hold, REDLOCK_CONFIRM), REDLOCK_OK);
    cr_assert(redlock_hold_lost(worker.hold));
    SYNC_QUORUM_UNTIL(servers_keys(&c.servers) == 0);
    cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_NOT_HELD);
    worker_end(&worker);
    sync_quorum_close(&c);
}

static long long expiry(struct sync_quorum *c)
{
    return servers_number(&c->servers, 0, "PEXPIRETIME job");
}

/* The TTL is long, so that no load of this machine ends it before it is extended. */
Test(sync, watchdog)
{
    struct sync_quorum c;
    redlock_hold *hold = NULL;
    redlock_lock_options options = sync_quorum_lock_options();
    options.ttl_ms = 12000;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(expiry(&c) > 0);
    long long first = expiry(&c);
    SYNC_QUORUM_UNTIL(expiry(&c) > first);
    cr_assert_not(redlock_hold_lost(hold));
    cr_assert_gt(redlock_hold_valid_ms(hold), 0);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(hold);
    sync_quorum_close(&c);
}

/* However many are left: libevent would end the process if it got none. */
Test(sync, too_few_descriptors_are_an_error)
{
    enum { LIMIT = 60 };
    const char *const uris[] = {"unix:///nowhere/1"};
    struct rlimit limit;
    int fd[LIMIT], count = 0, made = 0;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = LIMIT; /* valgrind does not let the hard limit be changed */
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((fd[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    for (int left = 0; left < 16; left++) {
        redlock_sync *sync = NULL;
        redlock_code code = redlock_sync_new(uris, 1, NULL, &sync);
        if (code == REDLOCK_OK)
            made++;
        else
            cr_assert_eq(code, REDLOCK_SYSTEM, "%d left: %s", left,
                         redlock_last_error()->text);
        redlock_sync_free(sync);
        close(fd[--count]);
    }
    cr_assert(made > 0 && made < 16, "%d of 16", made);
    while (count > 0)
        close(fd[--count]);
}

Test(sync, nodes_are_explained)
{
    struct sync_quorum c;
    redlock_node node[3];
    sync_quorum_open(&c, 3);
    SYNC_QUORUM_UNTIL(redlock_sync_explain(c.sync, node, 3) == 3 &&
                      node[2].verdict == REDLOCK_VERDICT_READY);
    cr_assert_str_eq(node[0].uri, c.servers.uri[0]);
    cr_assert_eq(redlock_sync_explain(c.sync, NULL, 0), 3);
    sync_quorum_close(&c);
}

/* A confirmed unlock waits for the nodes; an unconfirmed one does not. */
Test(sync, unlock_may_wait_for_the_confirmation)
{
    struct sync_quorum c;
    struct worker worker[2];
    sync_quorum_open(&c, 3);
    worker_start(&worker[0], c.sync, "job", NULL);
    worker_start(&worker[1], c.sync, "other", NULL);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(worker_done(&worker[i], job_lock), REDLOCK_OK);
    servers_stop(&c.servers, 0);
    servers_stop(&c.servers, 1);
    cr_assert_eq(worker_done(&worker[1], job_unlock), REDLOCK_OK);
    worker_do(&worker[0], job_confirm);
    sync_quorum_run_for(50);
    cr_assert(worker_is_busy(&worker[0]));
    servers_cont(&c.servers, 0);
    servers_cont(&c.servers, 1);
    cr_assert_eq(worker_await(&worker[0]), REDLOCK_OK);
    worker_end(&worker[0]);
    worker_end(&worker[1]);
    sync_quorum_close(&c);
}

/* --- many threads --- */

#define HANDS 6

/* Workers that queue up, one after the other, behind the one that holds it. */
static void queue_up(struct sync_quorum *c, struct worker *worker, unsigned n,
                     const redlock_lock_options *options)
{
    for (unsigned i = 0; i < n; i++) {
        worker_start(&worker[i], c->sync, "job", options);
        worker_do(&worker[i], job_lock);
        if (i == 0)
            cr_assert_eq(worker_await(&worker[0]), REDLOCK_OK);
        else
            SYNC_QUORUM_UNTIL(sync_quorum_waiting(c->sync, "job") == i);
    }
}

Test(sync, first_come_first_served_without_commands_to_the_nodes)
{
    struct sync_quorum c;
    struct worker worker[HANDS];
    char token[REDLOCK_TOKEN_MAX + 1];
    sync_quorum_open(&c, 3);
    queue_up(&c, worker, HANDS, NULL);
    strcpy(token, redlock_hold_token(worker[0].hold));
    for (unsigned i = 0; i < HANDS; i++) {
        cr_assert_eq(worker_await(&worker[i]), REDLOCK_OK);
        cr_assert_eq(worker[i].turn, worker[0].turn + i);
        cr_assert_str_eq(redlock_hold_token(worker[i].hold), token);
        cr_assert_gt(redlock_hold_valid_ms(worker[i].hold), 0);
        for (unsigned j = i + 1; j < HANDS; j++)
            cr_assert(worker_is_busy(&worker[j]));
        cr_assert_eq(worker_done(&worker[i], i % 2 ? job_unlock : job_confirm), REDLOCK_OK);
        cr_assert(redlock_hold_lost(worker[i].hold));
        cr_assert_eq(redlock_hold_valid_ms(worker[i].hold), 0);
    }
    for (unsigned i = 0; i < HANDS; i++)
        worker_end(&worker[i]);
    SYNC_QUORUM_UNTIL(servers_keys(&c.servers) == 0);
    sync_quorum_close(&c);
}

/* A hold that was unlocked does not affect the next owner's lock. */
Test(sync, stale_holds_do_nothing)
{
    struct sync_quorum c;
    struct worker worker[2];
    sync_quorum_open(&c, 3);
    queue_up(&c, worker, 2, NULL);
    redlock_hold *stale = worker[0].hold;
    cr_assert_eq(worker_done(&worker[0], job_unlock), REDLOCK_OK);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(stale, 0), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_hold_extend(stale, 0), REDLOCK_NOT_HELD);
    cr_assert(redlock_hold_lost(stale));
    cr_assert_eq(redlock_hold_valid_ms(stale), 0);
    worker_end(&worker[0]);
    cr_assert_not(redlock_hold_lost(worker[1].hold));
    cr_assert_gt(redlock_hold_valid_ms(worker[1].hold), 0);
    cr_assert_eq(worker_done(&worker[1], job_confirm), REDLOCK_OK);
    worker_end(&worker[1]);
    sync_quorum_close(&c);
}

Test(sync, handed_over_a_limited_number_of_times)
{
    struct sync_quorum c;
    struct worker worker[HANDS];
    redlock_lock_options options = sync_quorum_lock_options();
    unsigned tokens = 0;
    options.handoffs = 2;
    sync_quorum_open(&c, 3);
    queue_up(&c, worker, HANDS, &options);
    for (unsigned i = 0; i < HANDS; i++) {
        cr_assert_eq(worker_await(&worker[i]), REDLOCK_OK);
        bool same = i > 0 && strcmp(redlock_hold_token(worker[i].hold),
                                    redlock_hold_token(worker[i - 1].hold)) == 0;
        tokens += !same;
        cr_assert_eq(same, i % 3 != 0);
        cr_assert_eq(worker_done(&worker[i], job_unlock), REDLOCK_OK);
    }
    cr_assert_eq(tokens, 2);
    for (unsigned i = 0; i < HANDS; i++)
        worker_end(&worker[i]);
    sync_quorum_close(&c);
}

Test(sync, waiting_threads_time_out)
{
    struct sync_quorum c;
    struct worker worker[4];
    sync_quorum_open(&c, 3);
    queue_up(&c, worker, 4, NULL);
    redlock_hold *none = NULL;
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, NULL, &none), REDLOCK_TAKEN);
    for (int64_t ms = 1; ms < 200; ms = 3 * ms + 1) {
        int64_t begun = sync_quorum_clock_ms();
        cr_assert_eq(redlock_lock_for(c.sync, "job", 3, ms, NULL, &none), REDLOCK_TIMEOUT);
        cr_assert_geq(sync_quorum_clock_ms() - begun, ms);
    }
    cr_assert_eq(sync_quorum_waiting(c.sync, "job"), 3);
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(worker_await(&worker[i]), REDLOCK_OK);
        worker_done(&worker[i], job_unlock);
    }
    for (unsigned i = 0; i < 4; i++)
        worker_end(&worker[i]);
    sync_quorum_close(&c);
}

/* The first waiter sends to the nodes; it gives up, and the next one sends. */
Test(sync, first_waiter_for_another_process_times_out)
{
    struct sync_quorum c;
    struct worker first, second;
    redlock_hold *hold = NULL;
    sync_quorum_open(&c, 3);
    redlock_sync *other = sync_quorum_sync(&c);
    cr_assert_eq(redlock_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    worker_start(&first, c.sync, "job", NULL);
    worker_start(&second, c.sync, "job", NULL);
    first.wait_ms = 50;
    worker_do(&first, job_lock_for);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    worker_do(&second, job_lock);
    cr_assert_eq(worker_await(&first), REDLOCK_TIMEOUT);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(c.sync, "job") == 1);
    cr_assert(worker_is_busy(&second));
    redlock_hold_free(hold);
    cr_assert_eq(worker_await(&second), REDLOCK_OK);
    worker_end(&first);
    worker_end(&second);
    redlock_sync_free(other);
    sync_quorum_close(&c);
}
