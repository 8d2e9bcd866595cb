/* The client of threads: its own thread, and its end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sync_parts.h"

/* --- the end --- */

static void end_loop(redlock_sync *sync)
{
    sync->over = true;
    rl_drive_call_own(sync);
}

static void on_drained(redlock_client *client, bool clean, void *arg)
{
    redlock_sync *sync = arg;
    (void)client;
    (void)clean;
    rl_sync_lock(sync);
    end_loop(sync);
    rl_sync_unlock(sync);
}

static void end_waits(redlock_sync *sync)
{
    struct rl_key *key;
    struct rl_waiter *waiter;
    for (size_t i = 0; i < RL_BUCKETS; i++)
        LIST_FOREACH (key, &sync->bucket[i], in_bucket)
            while ((waiter = TAILQ_FIRST(&key->waiters)))
                rl_key_dismiss(sync, waiter, REDLOCK_CANCELLED);
    rl_flights_wake(sync);
}

/*
 * The lock stays on the nodes until its TTL ends, unless its owner wants it to be released.
 * True: somebody had one.
 */
static bool takes_from_owner(redlock_sync *sync)
{
    struct rl_tenure *tenure = LIST_FIRST(&sync->tenures);
    while (tenure && !tenure->owner)
        tenure = LIST_NEXT(tenure, all);
    if (!tenure)
        return false;
    redlock_hold *owner = tenure->owner;
    bool held = tenure->state == RL_TENURE_HELD;
    rl_hold_lose(owner, held ? REDLOCK_CLOSED : owner->code);
    tenure->abandoned = !owner->options.release_on_free;
    if (!tenure->abandoned)
        rl_hold_show(owner, (struct rl_until){0});
    rl_tenure_detach(tenure);
    rl_tenure_leave(tenure);
    if (held)
        rl_hold_tell(owner, REDLOCK_CANCELLED);
    return true;
}

/*
 * Nobody waits or owns any more: what is still to be done was ordered, and is begun before
 * the drain is. Nothing can be ordered after that.
 */
static void begin_drain(redlock_sync *sync, struct rl_order *order)
{
    (void)order;
    if (redlock_client_drain(sync->client, -1, on_drained, sync) != REDLOCK_OK)
        end_loop(sync);
}

static void end_all(redlock_sync *sync)
{
    end_waits(sync);
    while (takes_from_owner(sync))
        ;
}

static void close_it(redlock_sync *sync, struct rl_order *order)
{
    end_all(sync);
    order->carry_out = begin_drain;
    rl_give_order(sync, order);
}

static void destroy_keys(redlock_sync *sync)
{
    struct rl_key *key;
    for (size_t i = 0; i < RL_BUCKETS; i++)
        while ((key = LIST_FIRST(&sync->bucket[i]))) {
            LIST_REMOVE(key, in_bucket);
            free(key);
        }
}

void rl_sync_put(redlock_sync *sync)
{
    if (atomic_fetch_sub(&sync->handles, 1) > 1)
        return;
    if (rl_sync_is_ours(sync)) {
        pthread_cond_destroy(&sync->changed);
        sem_destroy(&sync->own.woken);
        pthread_mutex_destroy(&sync->mutex);
    }
    free(sync);
}

/* The thread has ended, or was never there. */
static void put_away(redlock_sync *sync)
{
    rl_sync_lock(sync);
    while (sync->waits > 0)
        pthread_cond_wait(&sync->changed, &sync->mutex);
    destroy_keys(sync);
    rl_sync_unlock(sync);
    if (sync->mail_fd >= 0)
        close(sync->mail_fd);
    rl_sync_put(sync);
}

/* --- its thread --- */

/* Of a child that was forked here, and has freed what it does not own, nothing is left. */
static _Thread_local struct {
    const redlock_sync *sync;
    unsigned generation;
} loop;

bool rl_sync_is_loop(void)
{
    return loop.sync && loop.generation == rl_fork_generation();
}

static void close_loop(redlock_sync *sync)
{
    redlock_client_free(sync->client);
    rl_drive_close(sync);
}

static void *run(void *arg)
{
    redlock_sync *sync = arg;
    loop.sync = sync;
    loop.generation = sync->generation;
    rl_sync_lock(sync);
    sync->own.thread = pthread_self();
    rl_drive_on(sync);
    sync->closing = true; /* also where the loop failed: nobody may wait for it */
    end_all(sync);
    rl_carry_out_all(sync);
    rl_hold_tell_all(sync);
    bool detached = sync->detached;
    rl_sync_unlock(sync);
    close_loop(sync);
    if (detached)
        put_away(sync);
    return NULL;
}

/* No signal is for this thread. */
static bool start_thread(redlock_sync *sync)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&sync->thread, NULL, run, sync) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_setname_np(sync->thread, "redlock");
    return started;
}

static redlock_code fail(redlock_error *ret_error, redlock_code code, const char *text)
{
    if (ret_error) {
        ret_error->code = code;
        snprintf(ret_error->text, sizeof(ret_error->text), "%s", text);
    }
    return code;
}

static redlock_sync *allocate(void)
{
    redlock_sync *sync = calloc(1, sizeof(*sync));
    if (!sync)
        return NULL;
    pthread_mutex_init(&sync->mutex, NULL);
    pthread_cond_init(&sync->changed, NULL);
    atomic_init(&sync->handles, 1);
    sync->generation = rl_fork_generation();
    sync->close.carry_out = close_it;
    sync->mail_fd = -1;
    TAILQ_INIT(&sync->orders);
    TAILQ_INIT(&sync->idle);
    TAILQ_INIT(&sync->untold);
    TAILQ_INIT(&sync->done);
    TAILQ_INIT(&sync->to_write);
    return sync;
}

redlock_code redlock_sync_new(const char *const *uris, size_t count,
                              const redlock_options *options, redlock_sync **ret_sync,
                              redlock_error *ret_error)
{
    redlock_sync *sync = allocate();
    if (!sync)
        return fail(ret_error, REDLOCK_NO_MEMORY, "out of memory");
    redlock_code code = REDLOCK_OK;
    if (!rl_drive_open(sync))
        code = fail(ret_error, REDLOCK_SYSTEM,
                    "no event loop can be made: out of memory "
                    "or file descriptors (ulimit -n)");
    if (code == REDLOCK_OK)
        code =
            redlock_client_new(sync->base, uris, count, options, &sync->client, ret_error);
    if (code == REDLOCK_OK) {
        sync->nodes = redlock_client_nodes(sync->client);
        sync->quorum = redlock_client_quorum(sync->client);
        if (!start_thread(sync))
            code = fail(ret_error, REDLOCK_SYSTEM, "no thread can be started");
    }
    if (code != REDLOCK_OK) {
        close_loop(sync);
        put_away(sync);
        return code;
    }
    *ret_sync = sync;
    return REDLOCK_OK;
}

void redlock_sync_free(redlock_sync *sync)
{
    if (!sync)
        return;
    if (!rl_sync_is_ours(sync)) {
        close(sync->mail_fd);
        rl_sync_put(sync);
        return;
    }
    rl_sync_lock(sync);
    sync->closing = true;
    sync->detached = rl_sync_is_loop() && loop.sync == sync; /* it cannot wait for itself */
    rl_give_order(sync, &sync->close);
    bool detached = sync->detached;
    rl_sync_unlock(sync);
    if (detached) {
        pthread_detach(pthread_self());
        return;
    }
    pthread_join(sync->thread, NULL);
    put_away(sync);
}

/* --- looking --- */

size_t redlock_sync_nodes(const redlock_sync *sync)
{
    return sync->nodes;
}

unsigned redlock_sync_quorum(const redlock_sync *sync)
{
    return sync->quorum;
}

struct look {
    struct rl_order order;
    struct rl_wait wait;
    redlock_node *nodes;
    size_t room, count;
};

static void look(redlock_sync *sync, struct rl_order *order)
{
    struct look *look = (struct look *)order;
    look->count = redlock_client_explain(sync->client, look->nodes, look->room);
    rl_wait_done(&look->wait, REDLOCK_OK);
}

size_t redlock_sync_explain(redlock_sync *sync, redlock_node *nodes, size_t room)
{
    struct look order = {.order.carry_out = look, .nodes = nodes, .room = room};
    if (!rl_sync_is_ours(sync) || rl_sync_is_loop())
        return 0;
    rl_sync_lock(sync);
    if (!sync->closing) {
        rl_wait_begin(sync, &order.wait);
        rl_give_order(sync, &order.order);
        while (!order.wait.done)
            rl_wait_once(sync, &order.wait, RL_FOREVER);
        rl_wait_end(sync, &order.wait);
    }
    rl_sync_unlock(sync);
    return order.count;
}
