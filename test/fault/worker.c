/*
 * One of many processes that acquire fenced locks and write to the resource that they
 * guard, until SIGTERM: worker SEED KEYS STORAGE SCRIPT LOG
 *
 * Each line of the log is one hold: key, when it was reported, when it ended (the release
 * was requested, or the deadline passed), the fencing token, and the storage's reply: 1
 * written, 0 refused though the lock was held throughout, -1 refused after its deadline.
 * Times are CLOCK_MONOTONIC, us.
 */
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "redlock/redlock.h"

#define NODES   32
#define TTL_MS  1000
#define WAIT_MS 2000

struct worker {
    struct event_base *base;
    redlock_client *client;
    redisContext *storage;
    char script[41];
    FILE *log;
    unsigned keys;
    unsigned key;
    struct event *again;
    bool ends;
};

static int64_t now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000) + at.tv_nsec / 1000;
}

static void fail(const char *what)
{
    fprintf(stderr, "worker: %s\n", what);
    exit(1);
}

static void next(struct worker *worker);

/* Requests without a pause would never let the loop handle a signal. */
static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    next(arg);
}

static void later(struct worker *worker)
{
    event_active(worker->again, EV_TIMEOUT, 0);
}

static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)result;
    redlock_lease_free(lease);
    later(arg);
}

/* The storage accepted the write. */
static bool store(struct worker *worker, int64_t fence)
{
    redisReply *reply =
        redisCommand(worker->storage, "EVALSHA %s 1 record:%u %" PRId64 " %d",
                     worker->script, worker->key, fence, (int)(fence % 1000));
    if (!reply || reply->type != REDIS_REPLY_INTEGER)
        fail(reply ? reply->str : "the storage is gone");
    bool stored = reply->integer == 1;
    freeReplyObject(reply);
    return stored;
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct worker *worker = arg;
    if (result->code != REDLOCK_OK) {
        redlock_lease_free(lease);
        later(worker);
        return;
    }
    int64_t told = now_us();
    int64_t fence = redlock_fence(lease);
    bool stored = store(worker, fence);
    int64_t end = now_us();
    int64_t left = redlock_valid_ms(lease);
    fprintf(worker->log, "%u %" PRId64 " %" PRId64 " %" PRId64 " %d\n", worker->key, told,
            left > 0 ? end : told + result->valid_ms * 1000, fence,
            stored     ? 1
            : left > 0 ? 0
                       : -1);
    if (redlock_release(lease, on_released, worker) != REDLOCK_OK) {
        redlock_lease_free(lease);
        later(worker);
    }
}

static void next(struct worker *worker)
{
    redlock_lease_options options;
    redlock_lease *lease;
    char key[16];
    if (worker->ends) {
        event_base_loopexit(worker->base, NULL);
        return;
    }
    redlock_lease_options_init(&options);
    options.fenced = true;
    options.ttl_ms = TTL_MS;
    options.wait_ms = WAIT_MS;
    options.retry_base_ms = 2;
    options.retry_cap_ms = 50;
    worker->key = (unsigned)rand() % worker->keys;
    snprintf(key, sizeof(key), "lock:%u", worker->key);
    if (redlock_acquire(worker->client, key, strlen(key), &options, on_acquired, worker,
                        &lease) != REDLOCK_OK)
        fail("an acquire did not start");
}

static void on_term(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ((struct worker *)arg)->ends = true;
}

static size_t split(char *text, const char *word[NODES])
{
    size_t count = 0;
    for (char *at = strtok(text, ","); at && count < NODES; at = strtok(NULL, ","))
        word[count++] = at;
    return count;
}

int main(int argc, char **argv)
{
    const char *node[NODES];
    char *nodes = getenv("REDLOCK_NODES");
    struct worker worker = {.base = event_base_new()};
    if (argc != 6 || !nodes || strlen(argv[4]) != 40)
        fail("usage: worker SEED KEYS STORAGE SCRIPT LOG");
    srand((unsigned)atoi(argv[1]));
    worker.keys = (unsigned)atoi(argv[2]);
    worker.storage = redisConnectUnix(argv[3]);
    strcpy(worker.script, argv[4]);
    worker.log = fopen(argv[5], "w");
    worker.again = event_new(worker.base, -1, 0, on_again, &worker);
    if (!worker.storage || worker.storage->err || !worker.log)
        fail("no storage, or no log");
    if (redlock_client_new(worker.base, node, split(nodes, node), NULL, &worker.client) !=
        REDLOCK_OK)
        fail(redlock_last_error()->text);
    struct event *term = evsignal_new(worker.base, SIGTERM, on_term, &worker);
    event_add(term, NULL);
    next(&worker);
    event_base_dispatch(worker.base);
    event_free(term);
    redlock_client_free(worker.client);
    event_free(worker.again);
    event_base_free(worker.base);
    redisFree(worker.storage);
    return fclose(worker.log) != 0;
}
