/*
 * Thousands of requests in one iteration, at nodes that need longer for them than a node
 * timeout: they are sent in portions, and nobody is told that the nodes were too slow.
 */
#include "virtual_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define MANY    2000
#define SERVICE (100 * VIRTUAL_US) /* MANY take four times the node timeout */
#define WINDOW  256                /* RL_NODE_WINDOW */
#define SLACK   16                 /* what one task may send once there was room */

static redlock_lease *lease[MANY];
static unsigned told, failed;
static redlock_code last;
static int64_t most; /* commands that waited for a node at once */

/* The node's queue, when a command arrives. */
static void *on_executed(const struct node_command *command, struct bytes *out, size_t at)
{
    int64_t queue = (command->node->busy_until - events_now()) / SERVICE;
    (void)out;
    (void)at;
    most = queue > most ? queue : most;
    return NULL;
}

static const struct node_class node_class = {.executed = on_executed};

static void setup(void)
{
    virtual_setup();
    virtual_run_until(VIRTUAL_S);
    for (unsigned i = 0; i < NODES; i++) {
        node[i].service = SERVICE;
        node_watch(&node[i], &node_class);
    }
    told = failed = 0;
    most = 0;
}

static void free_all(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < MANY; i++) {
        redlock_lease_free(lease[i]);
        lease[i] = NULL;
    }
}

static void teardown(void)
{
    process_call(&user[0].process, free_all, NULL);
    virtual_teardown();
}

TestSuite(virtual_burst, .init = setup, .fini = teardown);

static void on_told(redlock_lease *which, const redlock_result *result, void *arg)
{
    (void)which;
    (void)arg;
    told++;
    failed += result->code != REDLOCK_OK;
    last = result->code;
}

static void acquire_many(void *arg)
{
    struct user *mine = arg;
    char key[16];
    for (unsigned i = 0; i < MANY; i++) {
        int len = snprintf(key, sizeof(key), "job%u", i);
        cr_assert_eq(redlock_acquire(mine->client, key, (size_t)len, &mine->options,
                                     on_told, NULL, &lease[i]),
                     REDLOCK_OK);
    }
}

static void extend_many(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < MANY; i++)
        cr_assert_eq(redlock_extend(lease[i], REDLOCK_AUTO, on_told, NULL), REDLOCK_OK);
}

static void release_many(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < MANY; i++)
        cr_assert_eq(redlock_release(lease[i], on_told, NULL), REDLOCK_OK);
}

static void run_until_told(unsigned count)
{
    while (told < count)
        cr_assert(events_step(events_now() + LONG), "nothing happens after %u", told);
}

/* All of them are told a result; how many were told a failure. */
static unsigned failures_of(void (*action)(void *arg))
{
    told = failed = 0;
    process_call(&user[0].process, action, &user[0]);
    run_until_told(MANY);
    return failed;
}

Test(virtual_burst, nothing_fails_and_no_node_gets_more_than_a_window)
{
    cr_assert_eq(failures_of(acquire_many), 0);
    cr_assert_geq(most, WINDOW / 2, "a node is kept busy");
    cr_assert_leq(most, WINDOW + SLACK);
    cr_assert_eq(failures_of(extend_many), 0);
    cr_assert_eq(failures_of(release_many), 0);
    cr_assert_leq(most, WINDOW + SLACK);
    cr_assert_eq(virtual_keys(), 0);
}

static void cancel_last(void *arg)
{
    (void)arg;
    redlock_cancel(lease[MANY - 1]);
}

Test(virtual_burst, what_is_queued_is_cancelled_at_once)
{
    process_call(&user[0].process, acquire_many, &user[0]);
    run_until_told(1);
    unsigned before = told;
    int64_t at = events_now();
    process_call(&user[0].process, cancel_last, NULL);
    virtual_run_until(at);
    cr_assert_eq(told, before + 1);
    cr_assert_eq(last, REDLOCK_CANCELLED);
    run_until_told(MANY);
    cr_assert_eq(failed, 1);
}

/* With its own key; then all others want locks, too. */
static void release_beside_many(void *arg)
{
    acquire_many(arg);
    user_release(arg);
}

Test(virtual_burst, what_is_held_does_not_wait_for_those_that_want_a_lock)
{
    struct user *mine = &user[0];
    cr_assert_eq(user_told(mine, user_acquire), REDLOCK_OK);
    unsigned before = mine->told;
    process_call(&mine->process, release_beside_many, mine);
    while (mine->told == before)
        cr_assert(events_step(events_now() + LONG));
    cr_assert_eq(mine->code, REDLOCK_OK);
    cr_assert_leq(told, 2 * WINDOW);
    run_until_told(MANY);
}

/* --- one lock beside many --- */

static struct {
    redlock_lease *lease;
    unsigned told, told_before; /* the others, when it asked */
    redlock_code code;
} one;

static void on_told_one(redlock_lease *which, const redlock_result *result, void *arg)
{
    (void)which;
    (void)arg;
    one.told++;
    one.code = result->code;
}

static void acquire_one(void *arg)
{
    struct user *mine = arg;
    one.told_before = told;
    cr_assert_eq(redlock_acquire(mine->client, "one", 3, &mine->options, on_told_one, NULL,
                                 &one.lease),
                 REDLOCK_OK);
}

static void extend_one(void *arg)
{
    (void)arg;
    one.told_before = told;
    cr_assert_eq(redlock_extend(one.lease, REDLOCK_AUTO, on_told_one, NULL), REDLOCK_OK);
}

static void release_one(void *arg)
{
    (void)arg;
    one.told_before = told;
    cr_assert_eq(redlock_release(one.lease, on_told_one, NULL), REDLOCK_OK);
}

static void free_one(void *arg)
{
    (void)arg;
    redlock_lease_free(one.lease);
}

/* How many others were told a result before it was told OK. */
static unsigned told_before_one(void (*action)(void *arg))
{
    unsigned before = one.told;
    int64_t at = events_now();
    process_call(&user[0].process, action, &user[0]);
    while (one.told == before)
        cr_assert(events_step(at + VIRTUAL_S), "told nothing for 1 s");
    cr_assert_eq(one.code, REDLOCK_OK);
    return told - one.told_before;
}

/* Its wait is shorter than the queue: it begins before its turn. */
static void acquire_one_behind_many(void *arg)
{
    struct user *mine = arg;
    acquire_many(arg);
    mine->options.wait_ms = 20;
    acquire_one(arg);
}

/* No time of its first attempt makes it run by then, and the queue is long. */
static void expect_no_old_place(void (*action)(void *arg))
{
    cr_assert_leq(told_before_one(acquire_one_behind_many), MANY / 4);
    virtual_run_until(events_now() + 30 * VIRTUAL_MS);
    cr_assert_leq(told, MANY / 2);
    cr_assert_leq(told_before_one(action), 2 * WINDOW);
    run_until_told(MANY);
    cr_assert_eq(failed, 0);
    process_call(&user[0].process, free_one, NULL);
}

Test(virtual_burst, a_release_does_not_wait_where_its_acquire_was_queued)
{
    expect_no_old_place(release_one);
}

Test(virtual_burst, an_extension_does_not_wait_where_its_acquire_was_queued)
{
    expect_no_old_place(extend_one);
}

/* --- many that wait for a lock --- */

#define WAITERS (2 * WINDOW)

static int64_t at_once(unsigned attempt, uint64_t random, void *arg)
{
    (void)attempt;
    (void)random;
    (void)arg;
    return 0;
}

/* They try again and again, and fill the window each time. */
static void wait_for_theirs(void *arg)
{
    struct user *mine = arg;
    redlock_lease_options options = mine->options;
    options.wait_ms = REDLOCK_FOREVER;
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = at_once;
    for (unsigned i = 0; i < WAITERS; i++)
        cr_assert_eq(
            redlock_acquire(mine->client, "job", 3, &options, on_told, NULL, &lease[i]),
            REDLOCK_OK);
}

/* An attempt, and its release: each of the waiters takes that time of a node. */
#define TURN (WAITERS * 2 * SERVICE)

Test(virtual_burst, who_tries_again_does_not_overtake_the_queue)
{
    cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK);
    for (unsigned i = MAJORITY; i < NODES; i++)
        node_stop(&node[i]);
    virtual_run_until(events_now() + VIRTUAL_S);
    process_call(&user[0].process, wait_for_theirs, &user[0]);
    virtual_run_until(events_now() + TURN);
    int64_t at = events_now();
    (void)told_before_one(acquire_one);
    cr_assert_leq(events_now() - at, 2 * TURN);
    at = events_now();
    (void)told_before_one(extend_one);
    (void)told_before_one(release_one);
    cr_assert_leq(events_now() - at, TURN);
    cr_assert_eq(told, 0);
    process_call(&user[0].process, free_one, NULL);
}

static void hang(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        node_hang(&node[i]);
}

/* A minority that hangs stops nobody, although its window stays full. */
Test(virtual_burst, goes_on_while_a_minority_hangs)
{
    process_call(&user[0].process, acquire_many, &user[0]);
    run_until_told(WINDOW / 4);
    hang(NODES - MAJORITY);
    run_until_told(MANY);
    cr_assert_eq(failed, 0);
}

/* Nodes that hang are given up; then the rest is told that there is no quorum. */
Test(virtual_burst, ends_when_a_majority_hangs)
{
    process_call(&user[0].process, acquire_many, &user[0]);
    run_until_told(WINDOW / 4);
    unsigned good = told;
    int64_t at = events_now();
    hang(MAJORITY);
    run_until_told(MANY);
    cr_assert_leq(failed, MANY - good);
    cr_assert_eq(last, REDLOCK_NO_QUORUM);
    cr_assert_leq(events_now() - at, 5 * VIRTUAL_S);
}

Test(virtual_burst, a_wait_ends_in_the_queue_too)
{
    user[0].options.wait_ms = 120;
    process_call(&user[0].process, acquire_many, &user[0]);
    run_until_told(WINDOW / 4);
    int64_t at = events_now();
    hang(MAJORITY);
    run_until_told(MANY);
    cr_assert_leq(events_now() - at, 600 * VIRTUAL_MS);
}

static void free_client(void *arg)
{
    struct user *mine = arg;
    redlock_client_free(mine->client);
    mine->client = NULL;
}

Test(virtual_burst, is_reported_when_the_client_is_freed)
{
    process_call(&user[0].process, acquire_many, &user[0]);
    run_until_told(WINDOW / 4);
    process_call(&user[0].process, free_client, &user[0]);
    cr_assert_eq(told, MANY);
    cr_assert_eq(last, REDLOCK_CANCELLED);
}

Test(virtual_burst, is_forgotten_when_the_leases_are_freed)
{
    process_call(&user[0].process, acquire_many, &user[0]);
    run_until_told(WINDOW / 4);
    unsigned before = told;
    process_call(&user[0].process, free_all, NULL);
    virtual_run_until(events_now() + 2 * VIRTUAL_S);
    cr_assert_eq(told, before);
    cr_assert_eq(virtual_keys(), 0);
}
