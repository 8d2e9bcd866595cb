/*
 * The nodes notify waiters. In cases in which only a notification may wake a waiter, the
 * test uses a policy under which a queued waiter does not recheck within an hour.
 */
#include <criterion/criterion.h>

#include "lease/hand_over.h"
#include "quorum.h"

#define HOUR_MS 3600000
#define WAITERS 3

/* A holder and the waiters, each with its own client. */
struct queue {
    struct quorum s;
    redlock_lease *holder;
    /* a new waiter is settled with this many queue entries and subscribers */
    long long wanted;
    bool rests; /* and so is the last one */
    unsigned waiters;
    struct waiter {
        redlock_client *client;
        redlock_lease *lease;
        struct reported reported;
    } waiter[WAITERS];
};

static redlock_lease_options patient(void)
{
    redlock_lease_options options = quorum_lease_options();
    options.wait_ms = -1;
    options.retry = REDLOCK_RETRY_FIXED;
    options.retry_base_ms = HOUR_MS;
    return options;
}

static void open_queue(struct queue *queue, unsigned n)
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

/* How many entries the queues of all running nodes have. */
static long long queue_entries(struct queue *queue)
{
    long long count = 0;
    for (unsigned i = 0; i < queue->s.servers.n; i++)
        if (runs(queue, i))
            count += servers_number(&queue->s.servers, i, "ZCARD job!queue");
    return count;
}

/* And how many clients are subscribed there. */
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

static struct waiter *start_waiting(struct queue *queue, const redlock_options *who,
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

/* It never rechecks once it is queued, though a caller's policy is always followed. */
static redlock_lease_options relying(struct queue *queue)
{
    redlock_lease_options options = patient();
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = until_queued;
    options.retry_arg = queue;
    return options;
}

static struct waiter *join_queue(struct queue *queue, const redlock_lease_options *options)
{
    queue->wanted = queue_entries(queue) + queue->s.servers.n;
    queue->rests = options->retry != REDLOCK_RETRY_CUSTOM;
    struct waiter *waiter = start_waiting(queue, NULL, options);
    LOOP_UNTIL(queue->s.base, queue_entries(queue) == queue->wanted &&
                                  subscribers(queue) >= queue->wanted && queue->rests);
    return waiter;
}

static void close_queue(struct queue *queue)
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

static redlock_code give_up(struct queue *queue)
{
    redlock_code code = quorum_release(&queue->s, queue->holder);
    redlock_lease_free(queue->holder);
    queue->holder = NULL;
    return code;
}

/* In the order of the begin of their waits, though each is notified by another one. */
Test(waiting, in_order)
{
    struct queue queue;
    redlock_lease_options options = relying(&queue);
    open_queue(&queue, 5);
    for (unsigned i = 0; i < WAITERS; i++)
        join_queue(&queue, &options);
    for (unsigned i = 0; i < WAITERS; i++) {
        struct waiter *waiter = &queue.waiter[i];
        /* also for the second, which is notified in vain */
        queue.wanted -= queue.s.servers.n;
        cr_assert_eq(give_up(&queue), REDLOCK_OK);
        EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
        for (unsigned j = i + 1; j < WAITERS; j++)
            cr_assert_eq(queue.waiter[j].reported.times, 0);
        queue.holder = waiter->lease;
        waiter->lease = NULL;
    }
    cr_assert_eq(queue_entries(&queue), 0);
    close_queue(&queue);
}

/* A release reports whether a waiter was notified. */
Test(waiting, release_reports_a_waiter)
{
    struct queue queue;
    struct reported reported = {0};
    redlock_lease_options options = relying(&queue);
    open_queue(&queue, 5);
    join_queue(&queue, &options);
    cr_assert_eq(redlock_release(queue.holder, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &reported, REDLOCK_OK);
    cr_assert(rl_hand_over_is_awaited(queue.holder));
    redlock_lease_free(queue.holder);
    EXPECT_REPORTED(&queue.s, &queue.waiter[0].reported, REDLOCK_OK);
    reported.times = 0;
    cr_assert_eq(redlock_release(queue.waiter[0].lease, reported_note, &reported),
                 REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &reported, REDLOCK_OK);
    cr_assert_not(rl_hand_over_is_awaited(queue.waiter[0].lease));
    queue.holder = NULL;
    close_queue(&queue);
}

/* Joins the tail of the queues before the first attempt. */
static void join_tail(redlock_client *client, const redlock_lease_options *options,
                      struct reported *reported, redlock_lease **ret_lease)
{
    static const struct rl_hand_over tail = {.fences = 1, .joins_tail = true};
    cr_assert_eq(rl_hand_over_acquire(client, "job", 3, options, &tail, reported_note,
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
    redlock_lease *again;
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    join_queue(&queue, &options);
    /* The fixture's own client gets notifications once it has had to wait. */
    cr_assert_eq(redlock_acquire(queue.s.client, "job", 3, &options, reported_note,
                                 &reported, &again),
                 REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 10);
    redlock_lease_free(again);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 5);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    join_tail(queue.s.client, &options, &reported, &again);
    EXPECT_REPORTED(&queue.s, &queue.waiter[0].reported, REDLOCK_OK);
    cr_assert_eq(reported.times, 0);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 5);
    redlock_lease_free(queue.waiter[0].lease);
    queue.waiter[0].lease = NULL;
    EXPECT_REPORTED(&queue.s, &reported, REDLOCK_OK);
    queue.holder = again;
    close_queue(&queue);
}

/* And if no waiter is left, it gets the lock. */
Test(waiting, a_former_holder_gets_a_free_lock)
{
    struct queue queue;
    struct reported reported = {0};
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    struct waiter *waiter = join_queue(&queue, &options);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    redlock_lease_free(waiter->lease);
    LOOP_UNTIL(queue.s.base, servers_keys(&queue.s.servers) == 0);
    join_tail(waiter->client, &options, &reported, &waiter->lease);
    EXPECT_REPORTED(&queue.s, &reported, REDLOCK_OK);
    cr_assert_eq(reported.result.attempts, 1, "to join the tail is no attempt");
    close_queue(&queue);
}

/* The oldest entry of all queues; its client subscribes to this channel. */
static void add_queue_entry(struct queue *queue, const char *channel)
{
    for (unsigned i = 0; i < queue->s.servers.n; i++)
        servers_do(&queue->s.servers, i, "ZADD job!queue 1 %b", channel, strlen(channel));
}

Test(waiting, dead_waiters_are_skipped)
{
    struct queue queue;
    redlock_lease_options options = relying(&queue);
    open_queue(&queue, 5);
    struct waiter *waiter = join_queue(&queue, &options);
    add_queue_entry(&queue, "!wake:dead 1");
    add_queue_entry(&queue, "!wake:dead 2");
    add_queue_entry(&queue, "no valid entry");
    cr_assert_eq(queue_entries(&queue), 20);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    cr_assert_eq(queue_entries(&queue), 0);
    close_queue(&queue);
}

/* It is subscribed and does not come: then the second waiter gets the lock. */
Test(waiting, the_second_comes_if_the_first_does_not)
{
    struct queue queue;
    redisContext *subscriber[5];
    redlock_lease_options options = relying(&queue);
    open_queue(&queue, 5);
    struct waiter *waiter = join_queue(&queue, &options);
    for (unsigned i = 0; i < 5; i++) {
        subscriber[i] = redisConnectUnix(queue.s.servers.server[i].socket);
        freeReplyObject(redisCommand(subscriber[i], "SUBSCRIBE !wake:subscriber"));
    }
    add_queue_entry(&queue, "!wake:subscriber 1");
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++)
        redisFree(subscriber[i]);
    close_queue(&queue);
}

/*
 * Each node has another queue, and notifies another waiter: one comes, and long before its
 * recheck.
 */
Test(waiting, no_two_nodes_notify_the_same_waiter)
{
    struct queue queue;
    redlock_lease_options options = relying(&queue);
    open_queue(&queue, WAITERS);
    for (unsigned i = 0; i < WAITERS; i++)
        join_queue(&queue, &options);
    for (unsigned i = 0; i < WAITERS; i++) {
        servers_do(&queue.s.servers, i, "ZREMRANGEBYRANK job!queue %u -1", i + 1);
        if (i > 0)
            servers_do(&queue.s.servers, i, "ZREMRANGEBYRANK job!queue 0 %u", i - 1);
    }
    cr_assert_eq(queue_entries(&queue), WAITERS);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, queue.waiter[0].reported.times +
                                     queue.waiter[1].reported.times +
                                     queue.waiter[2].reported.times >
                                 0);
    close_queue(&queue);
}

/* Two of five are down: notifications of three are enough. */
Test(waiting, a_bare_quorum_of_notifications_is_enough)
{
    struct queue queue;
    redlock_lease_options options = relying(&queue);
    open_queue(&queue, 5);
    servers_kill(&queue.s.servers, 0);
    servers_stop(&queue.s.servers, 1);
    queue.wanted = 3;
    struct waiter *waiter = start_waiting(&queue, NULL, &options);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 3);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    servers_cont(&queue.s.servers, 1);
    redlock_lease_free(waiter->lease);
    waiter->lease = NULL;
    LOOP_UNTIL(queue.s.base, servers_with(&queue.s.servers, "job", NULL) == 4);
    redlock_client_free(waiter->client);
    queue.waiters = 0;
    quorum_close(&queue.s);
}

/* A client that breaks the lock notifies, too. */
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
    redlock_lease_options options = relying(&queue);
    open_queue(&queue, 5);
    struct waiter *waiter = join_queue(&queue, &options);
    cr_assert_eq(redlock_break(queue.s.client, "job", 3, note_inspection, &broken),
                 REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, broken);
    close_queue(&queue);
}

/* --- missing notifications --- */

static redlock_lease_options restless(void)
{
    redlock_lease_options options = patient();
    options.retry_base_ms = 10;
    return options;
}

/* So many attempts that it did not depend on notifications. */
static void see_it_try(struct queue *queue, struct waiter *waiter)
{
    char token[REDLOCK_TOKEN_MAX + 1] = "";
    for (int i = 0; i < 20; i++) {
        LOOP_UNTIL(queue->s.base, strcmp(redlock_token(waiter->lease), token) != 0);
        strcpy(token, redlock_token(waiter->lease));
    }
}

/* Without its subscriptions it rechecks by itself, however they end. */
Test(waiting, cut_off)
{
    struct queue queue;
    redlock_lease_options options = restless();
    open_queue(&queue, 5);
    struct waiter *waiter = join_queue(&queue, &options);
    for (unsigned i = 0; i < 5; i++) {
        servers_do(&queue.s.servers, i, "ACL SETUSER default resetchannels");
        servers_do(&queue.s.servers, i, "CLIENT KILL TYPE pubsub");
    }
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    close_queue(&queue);
}

static void wait_as(const char *rule, bool can_take_a_place)
{
    struct queue queue;
    redlock_options who = quorum_options();
    redlock_lease_options options = restless();
    who.username = "poor";
    who.password = "secret";
    open_queue(&queue, 3);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&queue.s.servers, i, "ACL SETUSER poor on >secret ~* &* +@all %s", rule);
    struct waiter *first = start_waiting(&queue, &who, &options);
    if (can_take_a_place)
        LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 3);
    else
        see_it_try(&queue, first);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &first->reported, REDLOCK_OK);
    struct waiter *second = start_waiting(&queue, &who, &options);
    LOOP_UNTIL(queue.s.base, redlock_token(second->lease)[0]);
    cr_assert_eq(quorum_release(&queue.s, first->lease), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &second->reported, REDLOCK_OK);
    close_queue(&queue);
}

/* A waiter without a queue entry or a subscription follows its policy. */
Test(waiting, without_the_right_to_subscribe)
{
    wait_as("resetchannels", false);
    wait_as("-subscribe", false);
    wait_as("-zadd", false);
}

/*
 * A release succeeds without the right to publish: a waiter that depended on it rechecks by
 * itself.
 */
Test(waiting, without_the_right_to_publish)
{
    wait_as("-publish", true);
}

/* Another library's client, and a person who deletes the key, notify no waiter. */
Test(waiting, locks_of_other_libraries_notify_nobody)
{
    struct queue queue;
    redlock_lease_options options = restless();
    open_queue(&queue, 3);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&queue.s.servers, i, "SET job another PX 3600000");
    struct waiter *waiter = join_queue(&queue, &options);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&queue.s.servers, i, "DEL job");
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    close_queue(&queue);
}

/*
 * A value of another type in the queue's key is left as it is; the policy is followed then.
 */
Test(waiting, a_queue_key_of_another_type)
{
    struct queue queue;
    redlock_lease_options options = restless();
    open_queue(&queue, 3);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&queue.s.servers, i, "SET job!queue mine");
    struct waiter *waiter = start_waiting(&queue, NULL, &options);
    see_it_try(&queue, waiter);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    cr_assert_eq(servers_with(&queue.s.servers, "job!queue", "mine"), 3);
    close_queue(&queue);
}

/* --- waiters that stop --- */

Test(waiting, cancelled)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    struct waiter *waiter = join_queue(&queue, &options);
    redlock_cancel(waiter->lease);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_CANCELLED);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 0);
    close_queue(&queue);
}

Test(waiting, freed)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    struct waiter *waiter = join_queue(&queue, &options);
    redlock_lease_free(waiter->lease);
    waiter->lease = NULL;
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 0);
    close_queue(&queue);
}

Test(waiting, the_wait_ends)
{
    struct queue queue;
    redlock_lease_options options = patient();
    options.wait_ms = 500;
    open_queue(&queue, 5);
    struct waiter *waiter = join_queue(&queue, &options);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_TIMEOUT);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 0);
    close_queue(&queue);
}

/*
 * It ends while a slow node is waited for, on which it was queued as a waiter that
 * continues.
 */
Test(waiting, the_wait_ends_in_an_attempt)
{
    struct queue queue;
    struct reported reported = {0};
    redlock_lease *late;
    redlock_options who = quorum_options();
    redlock_lease_options options = patient();
    who.node_timeout_ms = 1000;
    open_queue(&queue, 3);
    struct waiter *waiter = start_waiting(&queue, &who, &options);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 3);
    servers_stop(&queue.s.servers, 2);
    options.wait_ms = 500;
    cr_assert_eq(redlock_acquire(waiter->client, "job", 3, &options, reported_note,
                                 &reported, &late),
                 REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 4);
    EXPECT_REPORTED(&queue.s, &reported, REDLOCK_TIMEOUT);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 2);
    redlock_lease_free(late);
    servers_cont(&queue.s.servers, 2);
    close_queue(&queue);
}

static int64_t until_it_has_a_place(unsigned attempt, uint64_t random, void *arg)
{
    (void)attempt;
    (void)random;
    return queue_entries(arg) == 0 ? 10 : -1;
}

Test(waiting, the_policy_gives_up)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 3);
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = until_it_has_a_place;
    options.retry_arg = &queue;
    struct waiter *waiter = start_waiting(&queue, NULL, &options);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_TAKEN);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 0);
    close_queue(&queue);
}

/* The lock expired: no node notifies, and the entry is removed with the next release. */
Test(waiting, the_lock_expires)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    struct waiter *waiter = join_queue(&queue, &options);
    for (unsigned i = 0; i < 5; i++) /* before the waiter, which does not know, rechecks */
        servers_do(&queue.s.servers, i, "PEXPIRE job 1000");
    redlock_disown(queue.holder);
    struct waiter *late = join_queue(&queue, &options);
    EXPECT_REPORTED(&queue.s, &late->reported, REDLOCK_OK);
    redlock_lease_free(late->lease);
    late->lease = NULL;
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    redlock_lease_free(waiter->lease);
    waiter->lease = NULL;
    LOOP_UNTIL(queue.s.base, servers_keys(&queue.s.servers) == 0);
    close_queue(&queue);
}

/* The queue of waiters that all died expires, some time after the lock. */
Test(waiting, an_abandoned_queue_expires)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 3);
    join_queue(&queue, &options);
    for (unsigned i = 0; i < 3; i++) {
        long long lock = servers_number(&queue.s.servers, i, "PTTL job");
        long long left = servers_number(&queue.s.servers, i, "PTTL job!queue");
        cr_assert_gt(left, lock);
        cr_assert_leq(left, lock + 61000);
    }
    close_queue(&queue);
}
