#include "worker_threads.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "quorum.h"
#include "sync/sync.h"

#define LOOK_US 500

static atomic_uint turns;

/* --- waiting for a state --- */

int64_t sync_quorum_clock_ms(void)
{
    return rl_now_ms();
}

void sync_quorum_recheck(int64_t end, const char *file, int line, const char *condition)
{
    cr_assert_lt(sync_quorum_clock_ms(), end, "%s:%d: never so: %s", file, line, condition);
    usleep(LOOK_US);
}

void sync_quorum_run_for(int64_t ms)
{
    for (int64_t end = sync_quorum_clock_ms() + ms; sync_quorum_clock_ms() < end;)
        usleep(LOOK_US);
}

/* --- the client --- */

redlock_options sync_quorum_options(void)
{
    return quorum_options();
}

redlock_lock_options sync_quorum_lock_options(void)
{
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = 60000;
    return options;
}

redlock_sync *sync_quorum_sync(struct sync_quorum *sync_quorum)
{
    redlock_sync *sync = NULL;
    redlock_options options = sync_quorum_options();
    redlock_sync_new(sync_quorum->servers.uri, sync_quorum->servers.n, &options, &sync);
    cr_assert_not_null(sync, "%s", redlock_last_error()->text);
    return sync;
}

void sync_quorum_open(struct sync_quorum *sync_quorum, unsigned n)
{
    memset(sync_quorum, 0, sizeof(*sync_quorum));
    servers_start(&sync_quorum->servers, n, NULL);
    sync_quorum->sync = sync_quorum_sync(sync_quorum);
}

void sync_quorum_open_fenced(struct sync_quorum *sync_quorum, unsigned n)
{
    struct quorum quorum = {0};
    memset(sync_quorum, 0, sizeof(*sync_quorum));
    servers_start(&sync_quorum->servers, n, NULL);
    quorum.servers = sync_quorum->servers;
    quorum.base = event_base_new();
    quorum.client = quorum_client(&quorum, NULL);
    cr_assert_eq(quorum_admit(&quorum, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
    redlock_client_free(quorum.client);
    event_base_free(quorum.base);
    sync_quorum->sync = sync_quorum_sync(sync_quorum);
}

void sync_quorum_free_client(struct sync_quorum *sync_quorum)
{
    redlock_sync_free(sync_quorum->sync);
    sync_quorum->sync = NULL;
}

void sync_quorum_close(struct sync_quorum *sync_quorum)
{
    redlock_sync_free(sync_quorum->sync);
    servers_end(&sync_quorum->servers);
}

/* --- workers --- */

static void *work(void *arg)
{
    struct worker *worker = arg;
    pthread_mutex_lock(&worker->mutex);
    while (!worker->ends) {
        worker_job *job = worker->job;
        if (!job) {
            pthread_cond_wait(&worker->changed, &worker->mutex);
            continue;
        }
        pthread_mutex_unlock(&worker->mutex);
        job(worker);
        pthread_mutex_lock(&worker->mutex);
        worker->job = NULL;
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

void worker_start(struct worker *worker, redlock_sync *sync, const char *key,
                  const redlock_lock_options *options)
{
    *worker = (struct worker){.sync = sync, .key = key};
    worker->options = options ? *options : sync_quorum_lock_options();
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->changed, NULL);
    cr_assert_eq(pthread_create(&worker->thread, NULL, work, worker), 0);
}

void worker_do(struct worker *worker, worker_job *job)
{
    pthread_mutex_lock(&worker->mutex);
    cr_assert_null(worker->job);
    worker->job = job;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
}

bool worker_is_busy(struct worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    bool busy = worker->job != NULL;
    pthread_mutex_unlock(&worker->mutex);
    return busy;
}

redlock_code worker_await(struct worker *worker)
{
    SYNC_QUORUM_UNTIL(!worker_is_busy(worker));
    return worker->code;
}

redlock_code worker_done(struct worker *worker, worker_job *job)
{
    worker_do(worker, job);
    return worker_await(worker);
}

void worker_end(struct worker *worker)
{
    worker_await(worker);
    pthread_mutex_lock(&worker->mutex);
    worker->ends = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
    cr_assert_eq(pthread_join(worker->thread, NULL), 0);
    redlock_hold_free(worker->hold);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->mutex);
}

void worker_start_holding(struct worker *worker, redlock_sync *sync, const char *key,
                          const redlock_lock_options *options)
{
    worker_start(worker, sync, key, options);
    cr_assert_eq(worker_done(worker, job_lock), REDLOCK_OK);
}

void worker_start_waiting(struct worker *worker, redlock_sync *sync, const char *key,
                          const redlock_lock_options *options)
{
    unsigned already = sync_quorum_waiting(sync, key);
    worker_start(worker, sync, key, options);
    worker_do(worker, job_lock);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(sync, key) == already + 1);
}

void worker_finish(struct worker *worker)
{
    cr_assert_eq(worker_await(worker), REDLOCK_OK, "%s", redlock_code_name(worker->code));
    cr_assert_eq(worker_done(worker, job_confirm), REDLOCK_OK);
    worker_end(worker);
}

/* --- a call that fails --- */

#define SOON_MS  20
#define RETURNED 77

static int never_fly(redlock_hold *hold, void *arg)
{
    (void)hold;
    (void)arg;
    abort();
}

redlock_code sync_quorum_fail(enum sync_quorum_call call, redlock_sync *sync,
                              const char *key, const redlock_lock_options *options)
{
    redlock_hold *mark = (redlock_hold *)&mark, *hold = mark;
    int returned = RETURNED;
    bool led = false;
    redlock_code code = REDLOCK_OK;
    size_t len = strlen(key);
    const redlock_key two[] = {{key, len}, {"another", 7}};
    switch (call) {
    case CALL_LOCK: code = redlock_lock(sync, key, len, options, &hold); break;
    case CALL_TRY: code = redlock_try_lock(sync, key, len, options, &hold); break;
    case CALL_FOR: code = redlock_lock_for(sync, key, len, SOON_MS, options, &hold); break;
    case CALL_MANY: code = redlock_lock_many(sync, two, 2, SOON_MS, options, &hold); break;
    case CALL_FLIGHT:
        code = redlock_single_flight(sync, key, len, SOON_MS, options, never_fly, NULL,
                                     &returned, &led);
        break;
    case CALL_ADOPT_MANY:
        code = redlock_lock_adopt_many(sync, two, 2, "ptoken", 0, options, &hold);
        break;
    case CALL_ADOPT:
        code = redlock_lock_adopt(sync, key, len, "ptoken", 0, options, &hold);
        break;
    case CALL_RELEASE_MANY: code = redlock_lock_release_many(sync, two, 2, "ptoken"); break;
    case CALL_RELEASE: code = redlock_lock_release(sync, key, len, "ptoken"); break;
    }
    return hold == mark && returned == RETURNED && !led ? code : REDLOCK_OK;
}

/* --- jobs --- */

static void note(struct worker *worker, redlock_code code)
{
    worker->code = code;
    if (code == REDLOCK_OK)
        worker->turn = atomic_fetch_add(&turns, 1) + 1;
}

static void drop(struct worker *worker)
{
    redlock_hold_free(worker->hold);
    worker->hold = NULL;
}

void job_lock(struct worker *worker)
{
    drop(worker);
    note(worker, redlock_lock(worker->sync, worker->key, strlen(worker->key),
                              &worker->options, &worker->hold));
}

void job_try(struct worker *worker)
{
    drop(worker);
    note(worker, redlock_try_lock(worker->sync, worker->key, strlen(worker->key),
                                  &worker->options, &worker->hold));
}

void job_lock_for(struct worker *worker)
{
    drop(worker);
    note(worker, redlock_lock_for(worker->sync, worker->key, strlen(worker->key),
                                  worker->wait_ms, &worker->options, &worker->hold));
}

void job_unlock(struct worker *worker)
{
    worker->code = redlock_unlock(worker->hold, 0);
}

void job_confirm(struct worker *worker)
{
    worker->code = redlock_unlock(worker->hold, REDLOCK_CONFIRM);
}

void job_extend(struct worker *worker)
{
    worker->code = redlock_hold_extend(worker->hold, worker->wait_ms);
}

/* --- inspecting the client --- */

void sync_quorum_enter(redlock_sync *sync)
{
    rl_loop_owner_lock(&sync->loop);
}

void sync_quorum_leave(redlock_sync *sync)
{
    rl_loop_owner_unlock(&sync->loop);
}

static struct rl_key *find(redlock_sync *sync, const char *text)
{
    struct rl_key *key;
    for (size_t i = 0; i < RL_BUCKETS; i++)
        LIST_FOREACH (key, &sync->leases.keys.bucket[i], in_bucket)
            if (key->of[0].len == strlen(text) &&
                memcmp(key->of[0].bytes, text, key->of[0].len) == 0)
                return key;
    return NULL;
}

unsigned sync_quorum_waiting(redlock_sync *sync, const char *text)
{
    unsigned count = 0;
    struct rl_key_waiter *waiter;
    rl_loop_owner_lock(&sync->loop);
    struct rl_key *key = find(sync, text);
    if (key)
        TAILQ_FOREACH (waiter, &key->waiters, link)
            count++;
    rl_loop_owner_unlock(&sync->loop);
    return count;
}

bool sync_quorum_held(redlock_sync *sync, const char *text)
{
    rl_loop_owner_lock(&sync->loop);
    struct rl_key *key = find(sync, text);
    bool held = key && rl_process_lease_is_held(key->lease);
    rl_loop_owner_unlock(&sync->loop);
    return held;
}

void sync_quorum_set_left(redlock_sync *sync, const char *text, int64_t left_ms)
{
    rl_loop_owner_lock(&sync->loop);
    struct rl_process_lease *lease = find(sync, text)->lease;
    lease->until = rl_until_after(rl_clocks_begin(), left_ms);
    rl_hold_set_deadline(lease->owner, lease->until);
    rl_loop_owner_unlock(&sync->loop);
}

unsigned sync_quorum_keys(redlock_sync *sync)
{
    unsigned count = 0;
    struct rl_key *key;
    rl_loop_owner_lock(&sync->loop);
    for (size_t i = 0; i < RL_BUCKETS; i++)
        LIST_FOREACH (key, &sync->leases.keys.bucket[i], in_bucket)
            count += !key->idle;
    rl_loop_owner_unlock(&sync->loop);
    return count;
}

enum sync_quorum_loop_owner sync_quorum_loop_owner(redlock_sync *sync)
{
    rl_loop_owner_lock(&sync->loop);
    enum sync_quorum_loop_owner driver = !sync->loop.owner ? SYNC_QUORUM_NOBODY
                                         : sync->loop.owner == &sync->loop.client_thread
                                             ? SYNC_QUORUM_CLIENT
                                             : SYNC_QUORUM_CALLER;
    rl_loop_owner_unlock(&sync->loop);
    return driver;
}

void sync_quorum_relieve(redlock_sync *sync)
{
    rl_loop_owner_lock(&sync->loop);
    cr_assert(sync->loop.owner && sync->loop.owner != &sync->loop.client_thread);
    sync->loop.yields = true;
    rl_loop_owner_unlock(&sync->loop);
}

unsigned sync_quorum_followers(redlock_sync *sync)
{
    unsigned count = 0;
    struct rl_single_flight *flight;
    struct rl_follower *follower;
    rl_loop_owner_lock(&sync->loop);
    LIST_FOREACH (flight, &sync->flights.all, link)
        TAILQ_FOREACH (follower, &flight->followers, link)
            count++;
    rl_loop_owner_unlock(&sync->loop);
    return count;
}
