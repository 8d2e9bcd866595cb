/*
 * Waiting for a lock that another client holds: when it is tried again, and what is
 * reported.
 */
#include <criterion/criterion.h>

#include "quorum.h"

/* A second client needs what the fixture's client holds. */
struct queue {
    struct quorum s;
    redlock_client *other;
    redlock_lease *holder, *waiter;
    struct reported reported;
};

static void line_up(struct queue *queue, const redlock_lease_options *options)
{
    memset(queue, 0, sizeof(*queue));
    quorum_open(&queue->s, 5);
    queue->other = quorum_client(&queue->s, NULL);
    queue->holder = quorum_hold(&queue->s, "job", NULL);
    quorum_drain(&queue->s);
    cr_assert_eq(redlock_acquire(queue->other, "job", 3, options, reported_note,
                                 &queue->reported, &queue->waiter),
                 REDLOCK_OK);
}

static void close_queue(struct queue *queue)
{
    redlock_lease_free(queue->holder);
    redlock_lease_free(queue->waiter);
    LOOP_UNTIL(queue->s.base, servers_keys(&queue->s.servers) == 0);
    redlock_client_free(queue->other);
    quorum_close(&queue->s);
}

static redlock_lease_options waiting(redlock_retry retry, int64_t wait_ms)
{
    redlock_lease_options options = quorum_lease_options();
    options.wait_ms = wait_ms;
    options.retry = retry;
    return options;
}

static void get_it_after_the_release(const redlock_lease_options *options)
{
    struct queue queue;
    line_up(&queue, options);
    loop_run_for(queue.s.base, 200);
    cr_assert_eq(queue.reported.times, 0);
    cr_assert_eq(servers_with(&queue.s.servers, "job", redlock_token(queue.holder)), 5);
    cr_assert_eq(quorum_release(&queue.s, queue.holder), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &queue.reported, REDLOCK_OK);
    cr_assert_gt(queue.reported.result.attempts, 1);
    cr_assert_gt(redlock_valid_ms(queue.waiter), 0);
    LOOP_UNTIL(queue.s.base,
               servers_with(&queue.s.servers, "job", redlock_token(queue.waiter)) == 5);
    close_queue(&queue);
}

Test(wait, exponential)
{
    redlock_lease_options options = waiting(REDLOCK_RETRY_EXPONENTIAL, LOOP_PATIENCE_MS);
    get_it_after_the_release(&options);
}

struct asked {
    unsigned times, last;
    uint64_t random[2];
    unsigned give_up_at;
};

static int64_t delay(unsigned attempt, uint64_t random, void *arg)
{
    struct asked *asked = arg;
    asked->last = attempt;
    asked->random[asked->times++ % 2] = random;
    return asked->give_up_at && asked->times >= asked->give_up_at ? -1 : 5;
}

Test(wait, custom)
{
    struct asked asked = {0};
    redlock_lease_options options = waiting(REDLOCK_RETRY_CUSTOM, LOOP_PATIENCE_MS);
    options.retry_fn = delay;
    options.retry_arg = &asked;
    get_it_after_the_release(&options);
    cr_assert_gt(asked.times, 1);
    cr_assert_eq(asked.last, asked.times - 1, "attempts count from 0");
    cr_assert_neq(asked.random[0], asked.random[1]);
}

/*
 * It gives up when it chooses, not when the wait has ended: then the code is not a timeout.
 */
Test(wait, custom_that_gives_up)
{
    struct queue queue;
    struct asked asked = {.give_up_at = 3};
    redlock_lease_options options = waiting(REDLOCK_RETRY_CUSTOM, LOOP_PATIENCE_MS);
    options.retry_fn = delay;
    options.retry_arg = &asked;
    line_up(&queue, &options);
    EXPECT_REPORTED(&queue.s, &queue.reported, REDLOCK_TAKEN);
    cr_assert_eq(queue.reported.result.attempts, 3);
    close_queue(&queue);
}

Test(wait, none)
{
    struct queue queue;
    redlock_lease_options options = waiting(REDLOCK_RETRY_NONE, LOOP_PATIENCE_MS);
    line_up(&queue, &options);
    EXPECT_REPORTED(&queue.s, &queue.reported, REDLOCK_TAKEN);
    cr_assert_eq(queue.reported.result.attempts, 1);
    close_queue(&queue);
}

Test(wait, no_wait)
{
    struct queue queue;
    redlock_lease_options options = waiting(REDLOCK_RETRY_EXPONENTIAL, 0);
    line_up(&queue, &options);
    EXPECT_REPORTED(&queue.s, &queue.reported, REDLOCK_TAKEN);
    cr_assert_eq(queue.reported.result.attempts, 1);
    cr_assert(queue.reported.result.remaining_ms > 0 &&
              queue.reported.result.remaining_ms <= 60000);
    close_queue(&queue);
}

Test(wait, wait_ends)
{
    struct queue queue;
    redlock_lease_options options = waiting(REDLOCK_RETRY_EXPONENTIAL, 400);
    int64_t start = loop_clock_ms();
    line_up(&queue, &options);
    EXPECT_REPORTED(&queue.s, &queue.reported, REDLOCK_TIMEOUT);
    cr_assert_geq(loop_clock_ms() - start, 400);
    cr_assert_gt(queue.reported.result.attempts, 1);
    cr_assert_str_eq(quorum_node(queue.waiter, 0)->holder, "quorum");
    close_queue(&queue);
}

/* It waits for the nodes, too. */
Test(wait, wait_ends_without_a_quorum)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = waiting(REDLOCK_RETRY_FIXED, 300);
    quorum_open_fresh(&s, 5);
    servers_kill_first(&s.servers, 3);
    redlock_lease *lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    cr_assert_gt(reported.result.attempts, 1);
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    options.wait_ms = 0;
    lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(reported.result.attempts, 1);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(quorum_node(lease, i)->verdict, REDLOCK_VERDICT_ABSENT);
        cr_assert_neq(quorum_node(lease, i)->fault, REDLOCK_FAULT_NONE);
    }
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(wait, cancelled_in_a_retry_delay)
{
    struct queue queue;
    redlock_lease_options options = waiting(REDLOCK_RETRY_FIXED, -1);
    options.retry_base_ms = 60000;
    line_up(&queue, &options);
    LOOP_UNTIL(queue.s.base, redlock_token(queue.waiter)[0] &&
                                 quorum_count_votes(queue.waiter, "held") == 5);
    redlock_cancel(queue.waiter);
    EXPECT_REPORTED(&queue.s, &queue.reported, REDLOCK_CANCELLED);
    close_queue(&queue);
}

/* The keys of an expired holder expire by themselves. */
Test(wait, outlives_a_holder_that_died)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = waiting(REDLOCK_RETRY_EXPONENTIAL, LOOP_PATIENCE_MS);
    quorum_open(&s, 5);
    servers_do_first(&s.servers, 5, "SET job dead PX 500");
    redlock_lease *lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_OK);
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

#define CROWD 20

static struct {
    struct quorum s;
    int inside, turns, left;
} room;

static void leave(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)arg;
    cr_assert_eq(result->code, REDLOCK_OK, "%s", redlock_code_name(result->code));
    redlock_lease_free(lease);
    room.left++;
}

static void go_in(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)arg;
    cr_assert_eq(result->code, REDLOCK_OK, "%s", redlock_code_name(result->code));
    cr_assert_eq(room.inside++, 0, "two at once");
    room.turns++;
    room.inside--;
    cr_assert_eq(redlock_release(lease, leave, NULL), REDLOCK_OK);
}

/* Many that need the same lock: each gets it once, one at a time. */
Test(wait, a_crowd)
{
    redlock_client *client[CROWD];
    redlock_lease *lease[CROWD];
    redlock_lease_options options = waiting(REDLOCK_RETRY_EXPONENTIAL, -1);
    quorum_open(&room.s, 3);
    for (int i = 0; i < CROWD; i++) {
        client[i] = quorum_client(&room.s, NULL);
        cr_assert_eq(redlock_acquire(client[i], "job", 3, &options, go_in, NULL, &lease[i]),
                     REDLOCK_OK);
    }
    LOOP_UNTIL(room.s.base, room.left == CROWD);
    cr_assert_eq(room.turns, CROWD);
    LOOP_UNTIL(room.s.base, servers_keys(&room.s.servers) == 0);
    for (int i = 0; i < CROWD; i++)
        redlock_client_free(client[i]);
    quorum_close(&room.s);
}
