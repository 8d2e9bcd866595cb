/* When the client's own thread runs the loop, and what an unlocking thread does itself. */
#include <criterion/criterion.h>

#include "busy_client.h"

Test(client_thread, client_relieves_a_thread_that_waits_for_long)
{
    struct busy_client client;
    struct worker worker;
    busy_client_open(&client);
    struct rival rival = rival_block(&client, &worker, NULL);
    busy_client_return(&client);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(client.c.sync) == SYNC_QUORUM_CLIENT);
    cr_assert(worker_is_busy(&worker));
    rival_yield(&rival, &worker);
    busy_client_close(&client);
}

/* A thread whose wait has ended gives the loop to the client's thread, if others wait. */
Test(client_thread, client_follows_a_thread_that_ran_the_loop)
{
    struct busy_client client;
    struct worker worker[2], other;
    busy_client_open(&client);
    for (unsigned i = 0; i < 2; i++)
        worker_start(&worker[i], client.c.sync, "job", NULL);
    struct rival rival = rival_lock(&client);
    cr_assert_eq(worker_done(&worker[0], job_lock), REDLOCK_OK);
    worker_do(&worker[1], job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(client.c.sync) == SYNC_QUORUM_CALLER);
    worker_start_waiting(&other, client.c.sync, "theirs", NULL);
    cr_assert_eq(worker_done(&worker[0], job_unlock), REDLOCK_OK);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_OK);
    cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_CLIENT);
    busy_client_return(&client);
    rival_free(&rival);
    cr_assert_eq(worker_await(&other), REDLOCK_OK);
    worker_end(&worker[0]);
    worker_end(&worker[1]);
    worker_end(&other);
    busy_client_close(&client);
}

/* A thread left work when it ended: no thread waits for it. */
Test(client_thread, client_does_work_that_no_thread_waits_for)
{
    struct busy_client client;
    struct worker worker;
    busy_client_open(&client);
    worker_start_holding(&worker, client.c.sync, "job", NULL);
    cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_NOBODY);
    redlock_hold *hold = worker.hold;
    worker.hold = NULL;
    worker_end(&worker);
    cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_CLIENT);
    busy_client_return(&client);
    SYNC_QUORUM_UNTIL(sync_quorum_keys(client.c.sync) == 0);
    redlock_hold_free(hold);
    busy_client_close(&client);
}

/* --- a thread that unlocks --- */

/* It writes the release itself if the loop is free, and waits for no reply. */
Test(client_thread, unlocking_thread_writes_the_release)
{
    struct busy_client client;
    struct worker worker;
    busy_client_open(&client);
    worker_start_holding(&worker, client.c.sync, "job", NULL);
    servers_stop_first(&client.c.servers, client.c.servers.n);
    cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_OK);
    cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_NOBODY);
    servers_cont_first(&client.c.servers, client.c.servers.n);
    SYNC_QUORUM_UNTIL(servers_with(&client.c.servers, "job", NULL) == 3);
    worker_end(&worker);
    busy_client_close(&client);
}

/*
 * The client's thread owns the loop and waits, in a callback, for the thread that unlocks.
 */
Test(client_thread, callback_waits_for_an_unlocking_thread)
{
    struct busy_client client = {.thread = pthread_self()};
    struct worker worker;
    redlock_lock_options options = sync_quorum_lock_options();
    options.max_hold_ms = 20;
    options.on_lost = busy_client_stay;
    options.lost_arg = &client;
    sem_init(&client.back, 0, 0);
    sync_quorum_open(&client.c, 3);
    worker_start_holding(&worker, client.c.sync, "job", NULL);
    cr_assert_eq(redlock_lock(client.c.sync, "lost", 4, &options, &client.lost),
                 REDLOCK_OK);
    SYNC_QUORUM_UNTIL(client.gone > 0);
    cr_assert_eq(client.driver, SYNC_QUORUM_CLIENT);
    cr_assert_eq(worker_done(&worker, job_unlock), REDLOCK_OK);
    busy_client_return(&client);
    SYNC_QUORUM_UNTIL(servers_with(&client.c.servers, "job", NULL) == 3);
    worker_end(&worker);
    busy_client_close(&client);
}

/*
 * The client's thread takes a free loop over, and extends what is held while no thread
 * makes calls.
 */
Test(client_thread, client_extends_while_no_thread_calls)
{
    struct busy_client client;
    struct worker worker;
    redlock_lock_options options = sync_quorum_lock_options();
    options.ttl_ms = 3000;
    busy_client_open(&client);
    worker_start_holding(&worker, client.c.sync, "job", &options);
    cr_assert_eq(sync_quorum_loop_owner(client.c.sync), SYNC_QUORUM_NOBODY);
    int64_t end = sync_quorum_clock_ms() + redlock_hold_valid_ms(worker.hold);
    sem_post(&client.back);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(client.c.sync) == SYNC_QUORUM_CLIENT);
    SYNC_QUORUM_UNTIL(sync_quorum_clock_ms() + redlock_hold_valid_ms(worker.hold) >
                      end + options.ttl_ms / 6);
    cr_assert_not(redlock_hold_lost(worker.hold));
    worker_end(&worker);
    redlock_hold_free(client.lost);
    client.lost = NULL;
    busy_client_close(&client);
}

static void *free_client(void *arg)
{
    redlock_sync_free(arg);
    return NULL;
}

Test(client_thread, client_is_freed)
{
    struct busy_client client;
    struct worker worker;
    pthread_t thread;
    busy_client_open(&client);
    struct rival rival = rival_block(&client, &worker, NULL);
    cr_assert_eq(pthread_create(&thread, NULL, free_client, client.c.sync), 0);
    cr_assert_eq(worker_await(&worker), REDLOCK_CANCELLED);
    busy_client_return(&client);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    client.c.sync = NULL;
    worker_end(&worker);
    rival_free(&rival);
    for (unsigned i = 0; i < client.c.servers.n; i++)
        cr_assert_eq(servers_number(&client.c.servers, i, "EXISTS theirs"), 0);
    busy_client_close(&client);
}

/* In the callback itself: the client ends on its own afterwards. */
Test(client_thread, client_is_freed_in_a_callback)
{
    struct busy_client client;
    struct worker worker;
    busy_client_open(&client);
    struct rival rival = rival_block(&client, &worker, NULL);
    client.frees = true;
    busy_client_return(&client);
    cr_assert_eq(worker_await(&worker), REDLOCK_CANCELLED);
    client.c.sync = NULL;
    worker_end(&worker);
    rival_free(&rival);
    busy_client_close(&client);
}
