#include "observer.h"

#include <stdlib.h>
#include <string.h>

#include "sync.h"

struct news {
    redlock_leader leader; /* its texts are these: */
    char id[REDLOCK_TOKEN_MAX + 1], token[REDLOCK_TOKEN_MAX + 1];
};

/* The caller's: the observer may end in its callback before the caller has woken up. */
struct observing {
    struct rl_call call;
    redlock_sync_observer *observer;
    const void *key;
    size_t key_len;
};

struct redlock_sync_observer {
    struct rl_job stop, report;
    LIST_ENTRY(redlock_sync_observer) link; /* while there is a handle */
    redlock_sync *sync;
    redlock_observer *handle; /* only the loop owner uses it */
    redlock_sync_leader_fn *callback;
    void *arg;
    struct news latest;
    bool in_callback, freed;
};

static void delete_observer(redlock_sync_observer *observer)
{
    struct rl_loop_owner *loop = &observer->sync->loop;
    free(observer);
    rl_loop_owner_unref(loop);
}

/* --- telling --- */

static redlock_sync_observer *observer_of_report(struct rl_job *job)
{
    return (redlock_sync_observer *)((char *)job - offsetof(redlock_sync_observer, report));
}

static redlock_sync_observer *observer_of_stop(struct rl_job *job)
{
    return (redlock_sync_observer *)((char *)job - offsetof(redlock_sync_observer, stop));
}

/* The client's thread, with the mutex held: the user is told without it, and of a copy. */
static void observer_report(struct rl_loop_owner *loop, struct rl_job *job)
{
    redlock_sync_observer *observer = observer_of_report(job);
    struct news news = observer->latest;
    news.leader.id = news.id;
    news.leader.token = news.token;
    observer->in_callback = true;
    rl_loop_owner_unlock(loop);
    observer->callback(observer, &news.leader, observer->arg);
    rl_loop_owner_lock(loop);
    observer->in_callback = false;
    if (observer->freed && !observer->handle)
        delete_observer(observer);
}

/* The loop owner, without the mutex. */
static void on_changed(redlock_observer *handle, const redlock_leader *leader, void *arg)
{
    redlock_sync_observer *observer = arg;
    struct rl_loop_owner *loop = &observer->sync->loop;
    (void)handle;
    rl_loop_owner_lock(loop);
    observer->latest.leader = *leader;
    strcpy(observer->latest.id, leader->id);
    strcpy(observer->latest.token, leader->token);
    if (!observer->freed)
        rl_job_post_report(loop, &observer->report);
    rl_loop_owner_unlock(loop);
}

/* --- begin and end --- */

static void observer_start(struct rl_loop_owner *loop, struct rl_job *job)
{
    struct observing *start = (struct observing *)job;
    redlock_sync_observer *observer = start->observer;
    redlock_code code =
        redlock_observe(observer->sync->leases.client, start->key, start->key_len,
                        on_changed, observer, &observer->handle);
    if (code == REDLOCK_OK)
        LIST_INSERT_HEAD(&observer->sync->observers, observer, link);
    else
        start->call.wait.error = *redlock_last_error();
    rl_loop_owner_finish_wait(loop, &start->call.wait, code);
}

static void observer_end(redlock_sync_observer *observer)
{
    redlock_observer_free(observer->handle);
    observer->handle = NULL;
    LIST_REMOVE(observer, link);
    rl_job_cancel(&observer->report);
}

static void stop(struct rl_loop_owner *loop, struct rl_job *job)
{
    redlock_sync_observer *observer = observer_of_stop(job);
    (void)loop;
    observer_end(observer);
    if (!observer->in_callback)
        delete_observer(observer);
}

void rl_sync_observers_end(struct rl_sync_observers *observers)
{
    redlock_sync_observer *observer;
    while ((observer = LIST_FIRST(observers))) {
        rl_job_cancel(&observer->stop);
        observer_end(observer);
        if (observer->freed && !observer->in_callback)
            delete_observer(observer);
    }
}

redlock_code redlock_sync_observe(redlock_sync *sync, const void *key, size_t key_len,
                                  redlock_sync_leader_fn *callback, void *arg,
                                  redlock_sync_observer **ret_observer)
{
    redlock_code code = rl_loop_owner_may_wait(sync ? &sync->loop : NULL);
    if (code == REDLOCK_OK && !callback)
        code = rl_fail_no_callback();
    redlock_sync_observer *observer =
        code == REDLOCK_OK ? calloc(1, sizeof(*observer)) : NULL;
    if (!observer)
        return code == REDLOCK_OK ? rl_fail_by_code(REDLOCK_NO_MEMORY) : code;
    observer->stop.run = stop;
    observer->report.run = observer_report;
    observer->sync = sync;
    observer->callback = callback;
    observer->arg = arg;
    rl_loop_owner_ref(&sync->loop);
    struct observing start = {
        .call.job.run = observer_start,
        .observer = observer,
        .key = key,
        .key_len = key_len,
    };
    code = rl_loop_owner_request(&sync->loop, &start.call);
    if (code == REDLOCK_OK)
        *ret_observer = observer;
    else
        delete_observer(observer);
    return code;
}

void redlock_sync_observer_free(redlock_sync_observer *observer)
{
    if (!observer)
        return;
    struct rl_loop_owner *loop = &observer->sync->loop;
    if (!rl_loop_owner_is_ours(loop)) { /* a forked child: the client has the rest */
        delete_observer(observer);
        return;
    }
    rl_loop_owner_lock(loop);
    while (observer->in_callback && !rl_loop_owner_in_any_thread())
        rl_loop_owner_await_change(loop);
    observer->freed = true;
    rl_job_cancel(&observer->report);
    if (observer->handle)
        rl_job_post(loop, &observer->stop);
    bool is_over = !observer->handle && !observer->in_callback;
    rl_loop_owner_unlock(loop);
    if (is_over)
        delete_observer(observer);
}
