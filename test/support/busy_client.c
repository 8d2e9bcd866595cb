#include "busy_client.h"

#include <criterion/criterion.h>

void busy_client_stay(redlock_hold *hold, redlock_code why, redlock_reason reason,
                      int64_t valid_ms, void *arg)
{
    (void)reason;
    struct busy_client *client = arg;
    (void)hold;
    (void)why;
    (void)valid_ms;
    client->thread = pthread_self();
    client->driver = sync_quorum_loop_owner(client->c.sync);
    atomic_fetch_add(&client->gone, 1);
    while (sem_wait(&client->back) != 0)
        ;
    if (client->frees)
        redlock_sync_free(client->c.sync);
}

/* One wait after the other: the loop is left free for them. */
static atomic_bool enough;

static void job_cycle(struct worker *worker)
{
    while (!enough) {
        job_lock(worker);
        job_confirm(worker);
    }
}

void busy_client_return(struct busy_client *client)
{
    sem_post(&client->back);
    redlock_hold_free(client->lost);
    client->lost = NULL;
}

/* A lock is lost meanwhile. False: the client's thread ran the loop just then. */
static bool goes_away(struct busy_client *client)
{
    struct worker worker;
    redlock_lock_options options = sync_quorum_lock_options();
    unsigned gone = client->gone;
    options.max_hold_ms = 20;
    options.on_lost = busy_client_stay;
    options.lost_arg = client;
    cr_assert_eq(redlock_lock(client->c.sync, "lost", 4, &options, &client->lost),
                 REDLOCK_OK);
    enough = false;
    worker_start(&worker, client->c.sync, "cycle", NULL);
    worker_do(&worker, job_cycle);
    SYNC_QUORUM_UNTIL(client->gone > gone);
    cr_assert(!pthread_equal(client->thread, worker.thread));
    bool free = client->driver != SYNC_QUORUM_CLIENT;
    enough = true;
    if (!free)
        busy_client_return(client);
    cr_assert_eq(worker_await(&worker), REDLOCK_OK);
    worker_end(&worker);
    return free;
}

void busy_client_open(struct busy_client *client)
{
    *client = (struct busy_client){.thread = pthread_self()};
    sem_init(&client->back, 0, 0);
    sync_quorum_open(&client->c, 3);
    SYNC_QUORUM_UNTIL(goes_away(client));
    cr_assert_eq(sync_quorum_loop_owner(client->c.sync), SYNC_QUORUM_NOBODY);
}

void busy_client_close(struct busy_client *client)
{
    if (client->lost)
        busy_client_return(client);
    sync_quorum_close(&client->c);
    sem_destroy(&client->back);
}

struct rival rival_lock(struct busy_client *client)
{
    struct rival rival = {.sync = sync_quorum_sync(&client->c)};
    cr_assert_eq(redlock_lock(rival.sync, "theirs", 6, NULL, &rival.hold), REDLOCK_OK);
    return rival;
}

struct rival rival_block(struct busy_client *client, struct worker *worker,
                         const redlock_lock_options *options)
{
    struct rival rival = rival_lock(client);
    worker_start(worker, client->c.sync, "theirs", options);
    worker_do(worker, job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(client->c.sync) == SYNC_QUORUM_CALLER);
    return rival;
}

void rival_yield(struct rival *rival, struct worker *waiting)
{
    rival_free(rival);
    worker_finish(waiting);
}

void rival_free(struct rival *rival)
{
    redlock_hold_free(rival->hold);
    redlock_sync_free(rival->sync);
}
