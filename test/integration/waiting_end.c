/* Waiters that stop, and queues that no waiter is left in. */
#include <criterion/criterion.h>

#include "wait_queue.h"

Test(waiting_end, the_wait_ends)
{
    struct queue queue;
    redlock_lease_options options = queue_patient_options();
    options.wait_ms = 500;
    queue_open(&queue, 5);
    struct waiter *waiter = queue_join(&queue, &options);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_TIMEOUT);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 0);
    queue_close(&queue);
}

/*
 * It ends while a slow node is waited for, on which it was queued as a waiter that
 * continues.
 */
Test(waiting_end, the_wait_ends_in_an_attempt)
{
    struct queue queue;
    struct reported reported = {0};
    redlock_options who = quorum_options();
    redlock_lease_options options = queue_patient_options();
    who.node_timeout_ms = 1000;
    queue_open(&queue, 3);
    struct waiter *waiter = queue_start(&queue, &who, &options);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 3);
    servers_stop(&queue.s.servers, 2);
    options.wait_ms = 500;
    redlock_lease *late;
    cr_assert_eq(redlock_acquire(waiter->client, "job", 3, &options, reported_note,
                                 &reported, &late),
                 REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 4);
    EXPECT_REPORTED(&queue.s, &reported, REDLOCK_TIMEOUT);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 2);
    redlock_lease_free(late);
    servers_cont(&queue.s.servers, 2);
    queue_close(&queue);
}

static int64_t until_it_has_a_place(unsigned attempt, uint64_t random, void *arg)
{
    (void)attempt;
    (void)random;
    return queue_entries(arg) == 0 ? 10 : -1;
}

Test(waiting_end, the_policy_gives_up)
{
    struct queue queue;
    redlock_lease_options options = queue_patient_options();
    queue_open(&queue, 3);
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = until_it_has_a_place;
    options.retry_arg = &queue;
    struct waiter *waiter = queue_start(&queue, NULL, &options);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_TAKEN);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 0);
    queue_close(&queue);
}

static void see_it_lock(struct queue *queue, struct waiter *waiter)
{
    EXPECT_REPORTED(&queue->s, &waiter->reported, REDLOCK_OK);
    redlock_lease_free(waiter->lease);
    waiter->lease = NULL;
}

/*
 * The lock expired: no node notifies, and the entry is removed with the next release. If
 * its keys expire one after the other, the late waiter gets few votes, and its release of
 * these may let the other one in first.
 */
Test(waiting_end, the_lock_expires)
{
    struct queue queue;
    redlock_lease_options options = queue_patient_options();
    queue_open(&queue, 5);
    struct waiter *waiter = queue_join(&queue, &options);
    for (unsigned i = 0; i < 5; i++) /* before the waiter, which does not know, rechecks */
        servers_do(&queue.s.servers, i, "PEXPIRE job 1000");
    redlock_disown(queue.holder);
    struct waiter *late = queue_join(&queue, &options);
    LOOP_UNTIL(queue.s.base, late->reported.times + waiter->reported.times > 0);
    bool is_late = late->reported.times > 0;
    see_it_lock(&queue, is_late ? late : waiter);
    see_it_lock(&queue, is_late ? waiter : late);
    LOOP_UNTIL(queue.s.base, servers_keys(&queue.s.servers) == 0);
    queue_close(&queue);
}
