#include "crew.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "stage.h"
#include "sync_parts.h"

#define LOOK_US 500

static atomic_uint turns;

/* --- waiting for something --- */

int64_t crew_clock_ms(void)
{
    return rl_now_ms();
}

void crew_look_again(int64_t end, const char *file, int line, const char *condition)
{
    cr_assert_lt(crew_clock_ms(), end, "%s:%d: never so: %s", file, line, condition);
    usleep(LOOK_US);
}

void crew_run_for(int64_t ms)
{
    for (int64_t end = crew_clock_ms() + ms; crew_clock_ms() < end;)
        usleep(LOOK_US);
}

/* --- the client --- */

redlock_options crew_options(void)
{
    return stage_options();
}

redlock_lock_options crew_lock_options(void)
{
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = 60000;
    return options;
}

redlock_sync *crew_sync(struct crew *crew)
{
    redlock_sync *sync = NULL;
    redlock_error error = {0};
    redlock_options options = crew_options();
    redlock_sync_new(crew->servers.uri, crew->servers.n, &options, &sync, &error);
    cr_assert_not_null(sync, "%s", error.text);
    return sync;
}

void crew_open(struct crew *crew, unsigned n)
{
    memset(crew, 0, sizeof(*crew));
    servers_start(&crew->servers, n, NULL);
    crew->sync = crew_sync(crew);
}

void crew_open_fenced(struct crew *crew, unsigned n)
{
    struct stage stage = {0};
    memset(crew, 0, sizeof(*crew));
    servers_start(&crew->servers, n, NULL);
    stage.servers = crew->servers;
    stage.base = event_base_new();
    stage.client = stage_client(&stage, NULL);
    cr_assert_eq(stage_admit(&stage, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
    redlock_client_free(stage.client);
    event_base_free(stage.base);
    crew->sync = crew_sync(crew);
}

void crew_close(struct crew *crew)
{
    redlock_sync_free(crew->sync);
    servers_end(&crew->servers);
}

/* --- hands --- */

static void *work(void *arg)
{
    struct hand *hand = arg;
    pthread_mutex_lock(&hand->mutex);
    while (!hand->ends) {
        hand_job *job = hand->job;
        if (!job) {
            pthread_cond_wait(&hand->changed, &hand->mutex);
            continue;
        }
        pthread_mutex_unlock(&hand->mutex);
        job(hand);
        pthread_mutex_lock(&hand->mutex);
        hand->job = NULL;
        pthread_cond_broadcast(&hand->changed);
    }
    pthread_mutex_unlock(&hand->mutex);
    return NULL;
}

void hand_start(struct hand *hand, redlock_sync *sync, const char *key,
                const redlock_lock_options *options)
{
    *hand = (struct hand){.sync = sync, .key = key};
    hand->options = options ? *options : crew_lock_options();
    pthread_mutex_init(&hand->mutex, NULL);
    pthread_cond_init(&hand->changed, NULL);
    cr_assert_eq(pthread_create(&hand->thread, NULL, work, hand), 0);
}

void hand_do(struct hand *hand, hand_job *job)
{
    pthread_mutex_lock(&hand->mutex);
    cr_assert_null(hand->job);
    hand->job = job;
    pthread_cond_broadcast(&hand->changed);
    pthread_mutex_unlock(&hand->mutex);
}

bool hand_is_busy(struct hand *hand)
{
    pthread_mutex_lock(&hand->mutex);
    bool busy = hand->job != NULL;
    pthread_mutex_unlock(&hand->mutex);
    return busy;
}

redlock_code hand_await(struct hand *hand)
{
    CREW_UNTIL(!hand_is_busy(hand));
    return hand->code;
}

redlock_code hand_done(struct hand *hand, hand_job *job)
{
    hand_do(hand, job);
    return hand_await(hand);
}

void hand_end(struct hand *hand)
{
    hand_await(hand);
    pthread_mutex_lock(&hand->mutex);
    hand->ends = true;
    pthread_cond_broadcast(&hand->changed);
    pthread_mutex_unlock(&hand->mutex);
    cr_assert_eq(pthread_join(hand->thread, NULL), 0);
    redlock_hold_free(hand->hold);
    pthread_cond_destroy(&hand->changed);
    pthread_mutex_destroy(&hand->mutex);
}

static void note(struct hand *hand, redlock_code code)
{
    hand->code = code;
    if (code == REDLOCK_OK)
        hand->turn = atomic_fetch_add(&turns, 1) + 1;
}

static void drop(struct hand *hand)
{
    redlock_hold_free(hand->hold);
    hand->hold = NULL;
}

void job_lock(struct hand *hand)
{
    drop(hand);
    note(hand, redlock_lock(hand->sync, hand->key, strlen(hand->key), &hand->options,
                            &hand->hold));
}

void job_try(struct hand *hand)
{
    drop(hand);
    note(hand, redlock_try_lock(hand->sync, hand->key, strlen(hand->key), &hand->options,
                                &hand->hold));
}

void job_lock_for(struct hand *hand)
{
    drop(hand);
    note(hand, redlock_lock_for(hand->sync, hand->key, strlen(hand->key), hand->wait_ms,
                                &hand->options, &hand->hold));
}

void job_unlock(struct hand *hand)
{
    hand->code = redlock_unlock(hand->hold, 0);
}

void job_confirm(struct hand *hand)
{
    hand->code = redlock_unlock(hand->hold, REDLOCK_CONFIRM);
}

void job_extend(struct hand *hand)
{
    hand->code = redlock_hold_extend(hand->hold, hand->wait_ms);
}

/* --- looking inside --- */

void crew_enter(redlock_sync *sync)
{
    rl_sync_lock(sync);
}

void crew_leave(redlock_sync *sync)
{
    rl_sync_unlock(sync);
}

static struct rl_key *find(redlock_sync *sync, const char *text)
{
    struct rl_key *key;
    for (size_t i = 0; i < RL_BUCKETS; i++)
        LIST_FOREACH (key, &sync->bucket[i], in_bucket)
            if (key->len == strlen(text) && memcmp(key->text, text, key->len) == 0)
                return key;
    return NULL;
}

unsigned crew_waiting(redlock_sync *sync, const char *text)
{
    unsigned count = 0;
    struct rl_waiter *waiter;
    rl_sync_lock(sync);
    struct rl_key *key = find(sync, text);
    if (key)
        TAILQ_FOREACH (waiter, &key->waiters, next)
            count++;
    rl_sync_unlock(sync);
    return count;
}

bool crew_held(redlock_sync *sync, const char *text)
{
    rl_sync_lock(sync);
    struct rl_key *key = find(sync, text);
    bool held = key && key->tenure && key->tenure->state == RL_TENURE_HELD;
    rl_sync_unlock(sync);
    return held;
}

void crew_age(redlock_sync *sync, const char *text, int64_t left_ms)
{
    rl_sync_lock(sync);
    struct rl_tenure *tenure = find(sync, text)->tenure;
    tenure->until = rl_until_after(rl_clocks_begin(), left_ms);
    rl_hold_show(tenure->owner, tenure->until);
    rl_sync_unlock(sync);
}

unsigned crew_keys(redlock_sync *sync)
{
    unsigned count = 0;
    struct rl_key *key;
    rl_sync_lock(sync);
    for (size_t i = 0; i < RL_BUCKETS; i++)
        LIST_FOREACH (key, &sync->bucket[i], in_bucket)
            count += !key->idle;
    rl_sync_unlock(sync);
    return count;
}

enum crew_driver crew_driver(redlock_sync *sync)
{
    rl_sync_lock(sync);
    enum crew_driver driver = !sync->driver                ? CREW_NOBODY
                              : sync->driver == &sync->own ? CREW_CLIENT
                                                           : CREW_CALLER;
    rl_sync_unlock(sync);
    return driver;
}

void crew_relieve(redlock_sync *sync)
{
    rl_sync_lock(sync);
    cr_assert(sync->driver && sync->driver != &sync->own);
    sync->relieved = true;
    rl_sync_unlock(sync);
}

unsigned crew_passengers(redlock_sync *sync)
{
    unsigned count = 0;
    struct rl_flight *flight;
    struct rl_passenger *passenger;
    rl_sync_lock(sync);
    LIST_FOREACH (flight, &sync->flights, next)
        TAILQ_FOREACH (passenger, &flight->passengers, next)
            count++;
    rl_sync_unlock(sync);
    return count;
}
