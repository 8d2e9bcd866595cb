/* Waiters that no node notifies: they recheck by themselves. */
#include <criterion/criterion.h>

#include "wait_queue.h"

static redlock_lease_options restless(void)
{
    redlock_lease_options options = queue_patient_options();
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
Test(waiting_alone, cut_off)
{
    struct queue queue;
    redlock_lease_options options = restless();
    queue_open(&queue, 5);
    struct waiter *waiter = queue_join(&queue, &options);
    for (unsigned i = 0; i < 5; i++) {
        servers_do(&queue.s.servers, i, "ACL SETUSER default resetchannels");
        servers_do(&queue.s.servers, i, "CLIENT KILL TYPE pubsub");
    }
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    queue_close(&queue);
}

static void wait_as(const char *rule, bool can_take_a_place)
{
    struct queue queue;
    redlock_options who = quorum_options();
    redlock_lease_options options = restless();
    who.username = "poor";
    who.password = "secret";
    queue_open(&queue, 3);
    servers_do_first(&queue.s.servers, 3, "ACL SETUSER poor on >secret ~* &* +@all %s",
                     rule);
    struct waiter *first = queue_start(&queue, &who, &options);
    if (can_take_a_place)
        LOOP_UNTIL(queue.s.base, queue_entries(&queue) == 3);
    else
        see_it_try(&queue, first);
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &first->reported, REDLOCK_OK);
    struct waiter *second = queue_start(&queue, &who, &options);
    LOOP_UNTIL(queue.s.base, redlock_token(second->lease)[0]);
    cr_assert_eq(quorum_release(&queue.s, first->lease), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &second->reported, REDLOCK_OK);
    queue_close(&queue);
}

/* A waiter without a queue entry or a subscription follows its policy. */
Test(waiting_alone, without_the_right_to_subscribe)
{
    wait_as("resetchannels", false);
    wait_as("-subscribe", false);
    wait_as("-zadd", false);
}

/*
 * A release succeeds without the right to publish: a waiter that depended on it rechecks by
 * itself.
 */
Test(waiting_alone, without_the_right_to_publish)
{
    wait_as("-publish", true);
}

/* Another library's client, and a person who deletes the key, notify no waiter. */
Test(waiting_alone, locks_of_other_libraries_notify_nobody)
{
    struct queue queue;
    redlock_lease_options options = restless();
    queue_open(&queue, 3);
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    servers_do_first(&queue.s.servers, 3, "SET job another PX 3600000");
    struct waiter *waiter = queue_join(&queue, &options);
    servers_do_first(&queue.s.servers, 3, "DEL job");
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    queue_close(&queue);
}

/*
 * A value of another type in the queue's key is left as it is; the policy is followed then.
 */
Test(waiting_alone, a_queue_key_of_another_type)
{
    struct queue queue;
    redlock_lease_options options = restless();
    queue_open(&queue, 3);
    servers_do_first(&queue.s.servers, 3, "SET job!queue mine");
    struct waiter *waiter = queue_start(&queue, NULL, &options);
    see_it_try(&queue, waiter);
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_OK);
    cr_assert_eq(servers_with(&queue.s.servers, "job!queue", "mine"), 3);
    queue_close(&queue);
}
