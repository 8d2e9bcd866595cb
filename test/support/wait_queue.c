#include "wait_queue.h"

#include <criterion/criterion.h>

#define HOUR_MS 3600000

redlock_lease_options queue_patient_options(void)
{
    redlock_lease_options options = quorum_lease_options();
    options.wait_ms = -1;
    options.retry = REDLOCK_RETRY_FIXED;
    options.retry_base_ms = HOUR_MS;
    return options;
}

void queue_open(struct queue *queue, unsigned n)
{
    memset(queue, 0, sizeof(*queue));
    quorum_open(&queue->s, n);
    queue->holder = quorum_hold(&queue->s, "job", NULL);
    quorum_drain(&queue->s);
}

static bool runs(const struct queue *queue, unsigned i)
{
    return queue->s.servers.server[i].pid && !queue->s.servers.server[i].stopped;
}

long long queue_entries(struct queue *queue)
{
    long long count = 0;
    for (unsigned i = 0; i < queue->s.servers.n; i++)
        if (runs(queue, i))
            count += servers_number(&queue->s.servers, i, "ZCOUNT job!queue -inf (4e15");
    return count;
}

/* Counts the subscribers on all running nodes. */
static long long subscribers(struct queue *queue)
{
    long long count = 0;
    for (unsigned i = 0; i < queue->s.servers.n; i++) {
        if (!runs(queue, i))
            continue;
        redisReply *reply = servers_run(&queue->s.servers, i, "PUBSUB CHANNELS !wake:*");
        count += (long long)reply->elements;
        freeReplyObject(reply);
    }
    return count;
}

struct waiter *queue_start(struct queue *queue, const redlock_options *who,
                           const redlock_lease_options *options)
{
    struct waiter *waiter = &queue->waiter[queue->waiters++];
    waiter->client = quorum_client(&queue->s, who);
    cr_assert_eq(redlock_acquire(waiter->client, "job", 3, options, reported_note,
                                 &waiter->reported, &waiter->lease),
                 REDLOCK_OK);
    return waiter;
}

static int64_t until_queued(unsigned attempt, uint64_t random, void *arg)
{
    struct queue *queue = arg;
    (void)attempt;
    (void)random;
    bool queued =
        queue_entries(queue) >= queue->wanted && subscribers(queue) >= queue->wanted;
    bool held = servers_with(&queue->s.servers, "job", NULL) == 0; /* no vote was split */
    queue->rests = queued && held;
    return queue->rests ? HOUR_MS : 5;
}

redlock_lease_options queue_relying_options(struct queue *queue)
{
    redlock_lease_options options = queue_patient_options();
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = until_queued;
    options.retry_arg = queue;
    return options;
}

struct waiter *queue_join(struct queue *queue, const redlock_lease_options *options)
{
    queue->wanted = queue_entries(queue) + queue->s.servers.n;
    queue->rests = options->retry != REDLOCK_RETRY_CUSTOM;
    struct waiter *waiter = queue_start(queue, NULL, options);
    LOOP_UNTIL(queue->s.base, queue_entries(queue) == queue->wanted &&
                                  subscribers(queue) >= queue->wanted && queue->rests);
    return waiter;
}

void queue_close(struct queue *queue)
{
    redlock_lease_free(queue->holder);
    for (unsigned i = 0; i < queue->waiters; i++)
        redlock_lease_free(queue->waiter[i].lease);
    LOOP_UNTIL(queue->s.base,
               servers_with(&queue->s.servers, "job", NULL) == queue->s.servers.n);
    for (unsigned i = 0; i < queue->waiters; i++)
        redlock_client_free(queue->waiter[i].client);
    quorum_close(&queue->s);
}

redlock_code queue_release(struct queue *queue)
{
    redlock_code code = quorum_release(&queue->s, queue->holder);
    redlock_lease_free(queue->holder);
    queue->holder = NULL;
    return code;
}
