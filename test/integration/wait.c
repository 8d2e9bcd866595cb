/* Waiting for a lock that another holds: when it is tried again, and what is told. */
#include <criterion/criterion.h>

#include "stage.h"

/* A second client wants what the stage's client holds. */
struct queue {
    struct stage s;
    redlock_client *other;
    redlock_lease *holder, *waiter;
    struct told told;
};

static void line_up(struct queue *queue, const redlock_lease_options *options)
{
    memset(queue, 0, sizeof(*queue));
    stage_open(&queue->s, 5);
    queue->other = stage_client(&queue->s, NULL);
    queue->holder = stage_hold(&queue->s, "job", NULL);
    stage_drain(&queue->s);
    cr_assert_eq(redlock_acquire(queue->other, "job", 3, options, told_note, &queue->told,
                                 &queue->waiter),
                 REDLOCK_OK);
}

static void close_queue(struct queue *queue)
{
    redlock_lease_free(queue->holder);
    redlock_lease_free(queue->waiter);
    LOOP_UNTIL(queue->s.base, servers_keys(&queue->s.servers) == 0);
    redlock_client_free(queue->other);
    stage_close(&queue->s);
}

static redlock_lease_options waiting(redlock_retry retry, int64_t wait_ms)
{
    redlock_lease_options options = stage_lease_options();
    options.wait_ms = wait_ms;
    options.retry = retry;
    return options;
}

static void get_it_after_the_release(const redlock_lease_options *options)
{
    struct queue queue;
    line_up(&queue, options);
    loop_run_for(queue.s.base, 200);
    cr_assert_eq(queue.told.times, 0);
    cr_assert_eq(servers_with(&queue.s.servers, "job", redlock_token(queue.holder)), 5);
    cr_assert_eq(stage_release(&queue.s, queue.holder), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &queue.told, REDLOCK_OK);
    cr_assert_gt(queue.told.result.attempts, 1);
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

Test(wait, fixed)
{
    redlock_lease_options options = waiting(REDLOCK_RETRY_FIXED, LOOP_PATIENCE_MS);
    get_it_after_the_release(&options);
}

Test(wait, for_as_long_as_it_takes)
{
    redlock_lease_options options = waiting(REDLOCK_RETRY_FIXED, -1);
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

/* Gives up when it wishes, not when the wait has run out: then it is not a timeout. */
Test(wait, custom_that_gives_up)
{
    struct queue queue;
    struct asked asked = {.give_up_at = 3};
    redlock_lease_options options = waiting(REDLOCK_RETRY_CUSTOM, LOOP_PATIENCE_MS);
    options.retry_fn = delay;
    options.retry_arg = &asked;
    line_up(&queue, &options);
    EXPECT_TOLD(&queue.s, &queue.told, REDLOCK_TAKEN);
    cr_assert_eq(queue.told.result.attempts, 3);
    close_queue(&queue);
}

Test(wait, none)
{
    struct queue queue;
    redlock_lease_options options = waiting(REDLOCK_RETRY_NONE, LOOP_PATIENCE_MS);
    line_up(&queue, &options);
    EXPECT_TOLD(&queue.s, &queue.told, REDLOCK_TAKEN);
    cr_assert_eq(queue.told.result.attempts, 1);
    close_queue(&queue);
}

Test(wait, not_at_all)
{
    struct queue queue;
    redlock_lease_options options = waiting(REDLOCK_RETRY_EXPONENTIAL, 0);
    line_up(&queue, &options);
    EXPECT_TOLD(&queue.s, &queue.told, REDLOCK_TAKEN);
    cr_assert_eq(queue.told.result.attempts, 1);
    cr_assert(queue.told.result.remaining_ms > 0 &&
              queue.told.result.remaining_ms <= 60000);
    close_queue(&queue);
}

Test(wait, runs_out)
{
    struct queue queue;
    redlock_lease_options options = waiting(REDLOCK_RETRY_EXPONENTIAL, 400);
    int64_t start = loop_clock_ms();
    line_up(&queue, &options);
    EXPECT_TOLD(&queue.s, &queue.told, REDLOCK_TIMEOUT);
    cr_assert_geq(loop_clock_ms() - start, 400);
    cr_assert_gt(queue.told.result.attempts, 1);
    cr_assert_str_eq(stage_node(queue.waiter, 0)->holder, "stage");
    close_queue(&queue);
}

/* It waits for the nodes, too. */
Test(wait, runs_out_without_a_quorum)
{
    struct stage s;
    struct told told;
    redlock_lease_options options = waiting(REDLOCK_RETRY_FIXED, 300);
    stage_open_fresh(&s, 5);
    for (unsigned i = 0; i < 3; i++)
        servers_kill(&s.servers, i);
    redlock_lease *lease = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM);
    cr_assert_gt(told.result.attempts, 1);
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    options.wait_ms = 0;
    lease = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(told.result.attempts, 1);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_str_eq(stage_node(lease, i)->verdict, "absent");
        cr_assert_str_neq(stage_node(lease, i)->fault, "NONE");
    }
    redlock_lease_free(lease);
    stage_close(&s);
}

Test(wait, cancelled_while_it_pauses)
{
    struct queue queue;
    redlock_lease_options options = waiting(REDLOCK_RETRY_FIXED, -1);
    options.retry_base_ms = 60000;
    line_up(&queue, &options);
    LOOP_UNTIL(queue.s.base,
               redlock_token(queue.waiter)[0] && stage_verdicts(queue.waiter, "held") == 5);
    redlock_cancel(queue.waiter);
    EXPECT_TOLD(&queue.s, &queue.told, REDLOCK_CANCELLED);
    close_queue(&queue);
}

/* An expired holder's keys go away by themselves. */
Test(wait, outlives_a_holder_that_died)
{
    struct stage s;
    struct told told;
    redlock_lease_options options = waiting(REDLOCK_RETRY_EXPONENTIAL, LOOP_PATIENCE_MS);
    stage_open(&s, 5);
    for (unsigned i = 0; i < 5; i++)
        servers_do(&s.servers, i, "SET job dead PX 500");
    redlock_lease *lease = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_OK);
    redlock_lease_free(lease);
    stage_drain(&s);
    stage_close(&s);
}

#define CROWD 20

static struct {
    struct stage s;
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

/* Many that want the same: each gets its turn, one at a time. */
Test(wait, a_crowd)
{
    redlock_client *client[CROWD];
    redlock_lease *lease[CROWD];
    redlock_lease_options options = waiting(REDLOCK_RETRY_EXPONENTIAL, -1);
    stage_open(&room.s, 3);
    for (int i = 0; i < CROWD; i++) {
        client[i] = stage_client(&room.s, NULL);
        cr_assert_eq(redlock_acquire(client[i], "job", 3, &options, go_in, NULL, &lease[i]),
                     REDLOCK_OK);
    }
    LOOP_UNTIL(room.s.base, room.left == CROWD);
    cr_assert_eq(room.turns, CROWD);
    LOOP_UNTIL(room.s.base, servers_keys(&room.s.servers) == 0);
    for (int i = 0; i < CROWD; i++)
        redlock_client_free(client[i]);
    stage_close(&room.s);
}
