/*
 * The nodes notify waiters. In most of these tests only a notification may wake a waiter.
 */
#include <criterion/criterion.h>

#include "lease/hand_over.h"
#include "wait_queue.h"

/* In the order of the begin of their waits, though each is notified by another one. */
Test(waiting, in_order)
{
    struct queue queue;
    redlock_lease_options options = queue_relying_options(&queue);
    queue_open(&queue, 5);
    for (unsigned i = 0; i < QUEUE_WAITERS; i++)
        queue_join(&queue, &options);
    for (unsigned i = 0; i < QUEUE_WAITERS; i++) {
        struct waiter *waiter = &queue.waiter[i];
        /* also for the second, which is notified in vain */
        queue.wanted -= queue.s.servers.n;
        cr_assert_eq(queue_release(&queue), REDLOCK_OK);
        EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
        for (unsigned j = i + 1; j < QUEUE_WAITERS; j++)
            cr_assert_eq(queue.waiter[j].reported.times, 0);
        queue.holder = waiter->lease;
        waiter->lease = NULL;
    }
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 0); /* the slowest nodes, too */
    queue_close(&queue);
}

/* Joins the tail of the queues before the first attempt. */
static void join_tail(redlock_client *client, const redlock_lease_options *options,
                      struct reported *reported, redlock_lease **ret_lease)
{
    const redlock_key one = {"job", 3};
    static const struct rl_hand_over tail = {.fences = 1, .joins_tail = true};
    cr_assert_eq(rl_hand_over_acquire(client, &one, 1, options, &tail, reported_note,
                                      reported, ret_lease),
                 REDLOCK_OK);
}

/*
 * A client that just held the lock lets the waiters have it first, though it could be
 * faster.
 */
Test(waiting, a_former_holder_joins_the_tail)
{
    struct queue queue;
    struct reported reported = {0};
    redlock_lease_options options = queue_patient_options();
    queue_open(&queue, 5);
    queue_join(&queue, &options);
    /* The fixture's own client gets notifications once it has had to wait. */
    redlock_lease *again = quorum_start(&queue.s, "job", &options, &reported);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 10);
    redlock_lease_free(again);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 5);
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    join_tail(queue.s.client, &options, &reported, &again);
    EXPECT_REPORTED(&queue.s, &queue.waiter[0].reported, REDLOCK_OK);
    cr_assert_eq(reported.times, 0);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 5);
    redlock_lease_free(queue.waiter[0].lease);
    queue.waiter[0].lease = NULL;
    EXPECT_REPORTED(&queue.s, &reported, REDLOCK_OK);
    queue.holder = again;
    queue_close(&queue);
}

/* With no waiter left, it gets the lock. */
Test(waiting, a_former_holder_gets_a_free_lock)
{
    struct queue queue;
    struct reported reported = {0};
    redlock_lease_options options = queue_patient_options();
    queue_open(&queue, 5);
    struct waiter *waiter = queue_join(&queue, &options);
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    redlock_lease_free(waiter->lease);
    LOOP_UNTIL(queue.s.base, servers_keys(&queue.s.servers) == 0);
    join_tail(waiter->client, &options, &reported, &waiter->lease);
    EXPECT_REPORTED(&queue.s, &reported, REDLOCK_OK);
    cr_assert_eq(reported.result.attempts, 1, "to join the tail is no attempt");
    queue_close(&queue);
}

/* The oldest entry of all queues; its client subscribes to this channel. */
static void add_queue_entry(struct queue *queue, const char *channel)
{
    servers_do_first(&queue->s.servers, queue->s.servers.n, "ZADD job!queue 1 %b", channel,
                     strlen(channel));
}

/* A release passes over so many entries, half of them of one client. */
#define DEAD "10000"

static void add_dead_entries(struct queue *queue)
{
    servers_do_first(&queue->s.servers, queue->s.servers.n, "EVAL %s 1 job!queue " DEAD,
                     "for i = 1, ARGV[1] do "
                     "redis.call('ZADD', KEYS[1], i, '!wake:' .. i % 2 * i .. ' ' .. i) "
                     "end");
}

Test(waiting, many_dead_waiters_are_skipped)
{
    struct queue queue;
    redlock_lease_options options = queue_relying_options(&queue);
    queue_open(&queue, 5);
    struct waiter *waiter = queue_join(&queue, &options);
    add_dead_entries(&queue);
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 0);
    queue_close(&queue);
}

/* It is subscribed and does not come: then the second waiter gets the lock. */
Test(waiting, the_second_comes_if_the_first_does_not)
{
    struct queue queue;
    redisContext *subscriber[5];
    redlock_lease_options options = queue_relying_options(&queue);
    queue_open(&queue, 5);
    struct waiter *waiter = queue_join(&queue, &options);
    for (unsigned i = 0; i < 5; i++) {
        subscriber[i] = redisConnectUnix(queue.s.servers.server[i].socket);
        freeReplyObject(redisCommand(subscriber[i], "SUBSCRIBE !wake:subscriber"));
    }
    add_queue_entry(&queue, "!wake:subscriber 1");
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++)
        redisFree(subscriber[i]);
    queue_close(&queue);
}

/*
 * Each node has another queue, and notifies another waiter: one comes, and long before its
 * recheck.
 */
Test(waiting, no_two_nodes_notify_the_same_waiter)
{
    struct queue queue;
    redlock_lease_options options = queue_relying_options(&queue);
    queue_open(&queue, QUEUE_WAITERS);
    for (unsigned i = 0; i < QUEUE_WAITERS; i++)
        queue_join(&queue, &options);
    for (unsigned i = 0; i < QUEUE_WAITERS; i++) {
        servers_do(&queue.s.servers, i, "ZREMRANGEBYRANK job!queue %u -1", i + 1);
        if (i > 0)
            servers_do(&queue.s.servers, i, "ZREMRANGEBYRANK job!queue 0 %u", i - 1);
    }
    cr_assert_eq(queue_entries(&queue), QUEUE_WAITERS);
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, queue.waiter[0].reported.times +
                                     queue.waiter[1].reported.times +
                                     queue.waiter[2].reported.times >
                                 0);
    queue_close(&queue);
}

/* A client that breaks the lock notifies, too, also behind dead waiters. */
static void note_inspection(redlock_client *client, const redlock_inspection *inspection,
                            void *arg)
{
    (void)client;
    cr_assert_eq(inspection->code, REDLOCK_OK);
    *(bool *)arg = true;
}

Test(waiting, a_broken_lock_notifies)
{
    struct queue queue;
    bool broken = false;
    redlock_lease_options options = queue_relying_options(&queue);
    queue_open(&queue, 5);
    struct waiter *waiter = queue_join(&queue, &options);
    add_dead_entries(&queue);
    cr_assert_eq(redlock_break(queue.s.client, "job", 3, note_inspection, &broken),
                 REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, broken);
    queue_close(&queue);
}
