/* A lock from its beginning to its end, in virtual time. */
#include <criterion/criterion.h>

#include "sim/virtual/network.h"
#include "virtual_fixture.h"

TestSuite(virtual_lock, .init = virtual_setup, .fini = virtual_teardown);

static int64_t valid;

static void look(void *arg)
{
    struct user *mine = arg;
    valid = redlock_valid_ms(mine->lease);
}

Test(virtual_lock, is_held_extended_and_released)
{
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    virtual_run_until(events_now() + VIRTUAL_MS);
    cr_assert_eq(virtual_keys(), NODES);
    cr_assert_lt(events_now(), VIRTUAL_S);
    virtual_run_until(events_now() + 2 * TTL_MS * VIRTUAL_MS);
    process_call(&user[0].process, look, &user[0]);
    cr_assert_gt(valid, TTL_MS / 2, "the watchdog extends it");
    cr_assert_eq(user_told(&user[0], user_release), REDLOCK_OK);
    virtual_run_until(events_now() + VIRTUAL_S);
    cr_assert_eq(virtual_keys(), 0);
}

Test(virtual_lock, wakes_a_waiter)
{
    user[1].options.wait_ms = REDLOCK_FOREVER;
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    process_call(&user[1].process, user_acquire, &user[1]);
    virtual_run_until(events_now() + 10 * VIRTUAL_S);
    cr_assert_eq(user[1].told, 0);
    int64_t released = events_now();
    process_call(&user[0].process, user_release, &user[0]);
    while (user[1].told == 0)
        cr_assert(events_step(released + LONG));
    cr_assert_eq(user[1].code, REDLOCK_OK);
    cr_assert_lt(events_now() - released, 20 * VIRTUAL_MS, "notified, not polled");
}

Test(virtual_lock, needs_a_majority)
{
    for (unsigned i = 0; i < MAJORITY; i++)
        network_block(i + 1, CLOCK_NEVER);
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_NO_QUORUM);
    network_block(1, 0);
    virtual_run_until(events_now() + LONG);
    process_call(&user[0].process, user_free_lease, &user[0]);
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
}

/* --- two leases of one client --- */

#define SHORT_MS 2000

static struct {
    unsigned lost, granted; /* after how many others it was told so, from 1 on */
    unsigned count;
} heard;

static redlock_lease *other;

static void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)arg;
    cr_assert_eq(lease, user[0].lease);
    cr_assert_eq(result->code, REDLOCK_EXPIRED);
    heard.lost = ++heard.count;
}

static void on_granted(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)arg;
    cr_assert_eq(lease, other);
    cr_assert_eq(result->code, REDLOCK_OK);
    heard.granted = ++heard.count;
}

static void acquire_other(void *arg)
{
    struct user *mine = arg;
    redlock_lease_options options = mine->options;
    options.ttl_ms = TTL_MS;
    options.on_lost = NULL;
    cr_assert_eq(
        redlock_acquire(mine->client, "other", 5, &options, on_granted, mine, &other),
        REDLOCK_OK);
}

static void free_other(void *arg)
{
    (void)arg;
    redlock_lease_free(other);
}

/*
 * The process is stopped until the first lease has expired. Replies to the second one came
 * meanwhile: the loss is reported before any of them is processed.
 */
Test(virtual_lock, loss_is_told_before_the_reply_to_another_lease)
{
    struct process *process = &user[0].process;
    user[0].options.watchdog = false;
    user[0].options.ttl_ms = SHORT_MS;
    user[0].options.on_lost = on_lost;
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    process_call(process, acquire_other, &user[0]);
    while (virtual_keys() <= NODES) /* the second one is stored somewhere */
        cr_assert(events_step(events_now() + VIRTUAL_S));
    cr_assert_eq(heard.count, 0);
    process_stop(process, events_now() + SHORT_MS * VIRTUAL_MS);
    virtual_run_until(events_now() + 2 * SHORT_MS * VIRTUAL_MS);
    cr_assert_eq(heard.lost, 1);
    cr_assert_eq(heard.granted, 2);
    process_call(process, free_other, NULL);
}

static int64_t fence;

static void read_fence(void *arg)
{
    struct user *mine = arg;
    fence = redlock_fence(mine->lease);
}

static int64_t fence_of(struct user *mine)
{
    process_call(&mine->process, read_fence, mine);
    return fence;
}

/* A majority restarts without its data while the lock is held. */
Test(virtual_lock, that_is_fenced_is_never_given_twice)
{
    cr_assert_eq(user_told(&user[0], user_admit), REDLOCK_OK);
    user[0].options.fenced = user[1].options.fenced = true;
    user[0].options.watchdog = false;
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    int64_t first = fence_of(&user[0]);
    cr_assert_gt(first, 0);
    for (unsigned i = 0; i < MAJORITY; i++)
        node_restart(&node[i]);
    user[1].options.wait_ms = REDLOCK_FOREVER;
    process_call(&user[1].process, user_acquire, &user[1]);
    int64_t until = events_now() + TTL_MS * VIRTUAL_MS / 2;
    while (events_step(until))
        cr_assert_eq(user[1].told, 0, "the first is still valid");
}

/* The machine's speed and load change nothing. */
Test(virtual_lock, is_the_same_in_each_run)
{
    uint64_t trace[2];
    for (int i = 0; i < 2; i++) {
        virtual_teardown();
        for (unsigned j = 0; j < CLIENTS; j++)
            user[j] = (struct user){0};
        virtual_setup();
        (void)user_told(&user[0], user_acquire);
        (void)user_told(&user[1], user_acquire);
        virtual_run_until(events_now() + LONG);
        trace[i] = network.trace;
    }
    cr_assert_eq(trace[0], trace[1]);
}
