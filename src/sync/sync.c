#include "sync.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "io/system.h"

/* --- the end --- */

static void on_drained(redlock_client *client, bool clean, void *arg)
{
    struct rl_loop_owner *loop = arg;
    (void)client;
    (void)clean;
    rl_loop_owner_lock(loop);
    rl_loop_owner_end(loop);
    rl_loop_owner_unlock(loop);
}

/*
 * No thread waits or owns a lock any more. The remaining work was posted before this job,
 * so it begins before the drain. After that no thread can post a job.
 */
static void begin_drain(struct rl_loop_owner *loop, struct rl_job *job)
{
    redlock_sync *sync = (redlock_sync *)loop;
    (void)job;
    if (redlock_client_drain(sync->leases.client, REDLOCK_NODE_TIMEOUT, on_drained, loop) !=
        REDLOCK_OK)
        rl_loop_owner_end(loop);
}

static void end_all(redlock_sync *sync)
{
    rl_keys_dismiss(&sync->leases.keys, NULL, true);
    rl_single_flights_dismiss(&sync->flights, NULL, true);
    rl_process_leases_take_all(&sync->leases);
    rl_sync_observers_end(&sync->observers);
}

static void begin_end(struct rl_loop_owner *loop, struct rl_job *job)
{
    end_all((redlock_sync *)loop);
    job->run = begin_drain;
    rl_job_post(loop, job);
}

/* The client's thread is at its end, or never started. */
static void put_away(redlock_sync *sync)
{
    rl_loop_owner_lock(&sync->loop);
    while (sync->loop.waits > 0)
        rl_loop_owner_await_change(&sync->loop);
    rl_keys_free_all(&sync->leases.keys);
    rl_loop_owner_unlock(&sync->loop);
    rl_loop_owner_unref(&sync->loop);
}

/* The end of the asynchronous client is reported, too, to `log` and `trace`. */
static void close_client(redlock_sync *sync)
{
    redlock_client_free(sync->leases.client);
    rl_loop_owner_lock(&sync->loop);
    rl_loop_owner_run_rest(&sync->loop);
    rl_loop_owner_unlock(&sync->loop);
    rl_loop_owner_close(&sync->loop);
}

/* --- its thread --- */

static void *run(void *arg)
{
    redlock_sync *sync = arg;
    rl_loop_owner_run_thread(&sync->loop);
    rl_loop_owner_begin_close(&sync->loop); /* also if the loop failed */
    end_all(sync);
    rl_loop_owner_run_rest(&sync->loop);
    rl_loop_owner_unlock(&sync->loop);
    close_client(sync);
    rl_loop_owner_lock(&sync->loop);
    sync->ended = true;
    bool detached = sync->detached;
    rl_loop_owner_unlock(&sync->loop);
    if (detached)
        put_away(sync);
    return NULL;
}

redlock_code redlock_sync_new(const char *const *uris, size_t count,
                              const redlock_options *options, redlock_sync **ret_sync)
{
    redlock_options mine;
    redlock_client *client;
    redlock_sync *sync = calloc(1, sizeof(*sync));
    if (!sync)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    sync->close.run = begin_end;
    redlock_code code = REDLOCK_OK;
    if (!rl_loop_owner_open(&sync->loop))
        code = errno == ENOMEM
                   ? rl_fail_by_code(REDLOCK_NO_MEMORY)
                   : rl_fail(REDLOCK_SYSTEM, REDLOCK_REASON_RESOURCES,
                             "cannot create an event loop: %s", strerror(errno));
    if (code == REDLOCK_OK)
        code = rl_options_read(options, &mine);
    if (code == REDLOCK_OK) {
        rl_sync_telemetry_init(&sync->telemetry, &sync->loop, &mine);
        code = redlock_client_new(sync->loop.base, uris, count, &mine, &client);
    }
    if (code == REDLOCK_OK) {
        rl_process_leases_init(&sync->leases, &sync->loop, client,
                               sync->telemetry.trace != NULL);
        sync->nodes = redlock_client_nodes(client);
        sync->quorum = redlock_client_quorum(client);
        sync->max_ttl_ms = mine.max_ttl_ms;
        int error = rl_system_start_thread(&sync->thread, "redlock", run, sync);
        if (error != 0)
            code = rl_fail(REDLOCK_SYSTEM, REDLOCK_REASON_RESOURCES,
                           "cannot start a thread: %s", strerror(error));
    }
    if (code != REDLOCK_OK) {
        close_client(sync);
        put_away(sync);
        return code;
    }
    *ret_sync = sync;
    return REDLOCK_OK;
}

static void join_thread(redlock_sync *sync)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_join(sync->thread, NULL);
    pthread_setcancelstate(state, NULL);
    put_away(sync);
}

void redlock_sync_free(redlock_sync *sync)
{
    if (!sync)
        return;
    struct rl_loop_owner *loop = &sync->loop;
    if (!rl_loop_owner_is_ours(loop)) {
        rl_loop_owner_close(loop);
        rl_loop_owner_unref(loop);
        return;
    }
    rl_loop_owner_lock(loop);
    rl_loop_owner_begin_close(loop);
    if (!loop->over) /* else the loop failed, and the thread ends by itself */
        rl_job_post(loop, &sync->close);
    /* Two callbacks that free each other's client must not wait for each other. */
    bool detached = rl_loop_owner_in_any_thread() && !sync->ended;
    sync->detached = detached;
    if (detached)
        pthread_detach(sync->thread);
    rl_loop_owner_unlock(loop);
    if (!detached)
        join_thread(sync);
}

/* --- queries --- */

size_t redlock_sync_nodes(const redlock_sync *sync)
{
    return sync->nodes;
}

unsigned redlock_sync_quorum(const redlock_sync *sync)
{
    return sync->quorum;
}

struct explanation {
    struct rl_call call;
    redlock_client *client;
    const redlock_hold *hold; /* NULL: it explains the client */
    redlock_node *nodes;
    char *text;
    size_t room, size, count;
};

static void explain(struct rl_loop_owner *loop, struct rl_job *job)
{
    struct explanation *it = (struct explanation *)job;
    redlock_node nodes[REDLOCK_NODES_MAX];
    if (!it->hold) {
        it->count = redlock_client_explain_sized(it->client, it->nodes, it->room, it->size);
    } else if (it->hold->lease) {
        it->count = rl_hold_nodes(it->hold, it->hold->lease->handle, nodes);
        rl_nodes_put(nodes, it->count, it->nodes, it->room, it->size);
    }
    rl_loop_owner_finish_wait(loop, &it->call.wait, REDLOCK_OK);
}

static void write_record(struct rl_loop_owner *loop, struct rl_job *job)
{
    struct explanation *it = (struct explanation *)job;
    it->count = redlock_client_record(it->client, it->text, it->room);
    rl_loop_owner_finish_wait(loop, &it->call.wait, REDLOCK_OK);
}

static size_t run_explanation(struct rl_loop_owner *loop, struct explanation *explanation)
{
    if (!rl_loop_owner_is_ours(loop) || rl_loop_owner_in_any_thread())
        return 0;
    rl_loop_owner_lock(loop);
    if (!loop->closing)
        rl_loop_owner_call(loop, &explanation->call);
    rl_loop_owner_unlock(loop);
    return explanation->count;
}

size_t redlock_sync_explain_sized(redlock_sync *sync, redlock_node *nodes, size_t room,
                                  size_t size)
{
    struct explanation explanation = {.call.job.run = explain,
                                      .client = sync->leases.client,
                                      .nodes = nodes,
                                      .room = room,
                                      .size = size};
    return run_explanation(&sync->loop, &explanation);
}

size_t redlock_sync_record(redlock_sync *sync, char *text, size_t room)
{
    struct explanation record = {.call.job.run = write_record,
                                 .client = sync->leases.client,
                                 .text = text,
                                 .room = room};
    return run_explanation(&sync->loop, &record);
}

/* The nodes as the hold was lost. Their strings end with the client. */
static size_t copy_kept_nodes(redlock_hold *hold, redlock_node *nodes, size_t room,
                              size_t size)
{
    if (!rl_hold_is_ours(hold))
        return 0;
    rl_loop_owner_lock(hold->loop);
    size_t count = hold->loop->closing ? 0 : hold->node_count;
    rl_nodes_put(hold->nodes, count, nodes, room, size);
    rl_loop_owner_unlock(hold->loop);
    return count;
}

size_t redlock_hold_explain_sized(redlock_hold *hold, redlock_node *nodes, size_t room,
                                  size_t size)
{
    size_t count = copy_kept_nodes(hold, nodes, room, size);
    if (count > 0)
        return count;
    struct explanation explanation = {
        .call.job.run = explain, .hold = hold, .nodes = nodes, .room = room, .size = size};
    return run_explanation(hold->loop, &explanation);
}
