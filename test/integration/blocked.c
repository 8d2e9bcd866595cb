/* A loop that is blocked past a deadline: everything that it reads afterwards is old. */
#include <criterion/criterion.h>

#include "quorum.h"

/*
 * The validity is reported in whole milliseconds, rounded down, and by a clock that may be
 * a little ahead (core/clock.h): with two milliseconds more it is over by every clock.
 */
static void block_until_expired(const redlock_lease *lease)
{
    while (redlock_valid_ms(lease) > 0)
        ;
    loop_block(2);
}

/*
 * The loop was blocked past the deadline; the holder's own call is the first to notice it.
 */
Test(blocked, loss_is_reported_before_the_release)
{
    struct quorum s;
    struct reported lost = {0}, released = {0};
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 1000;
    reported_on_lost(&options, &lost);
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    servers_kill_first(&s.servers, 3);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, !quorum_is(s.client, i, "ready"));
    block_until_expired(lease);
    cr_assert_eq(redlock_release(lease, reported_note, &released), REDLOCK_OK);
    LOOP_UNTIL(s.base, released.times > 0);
    cr_assert_eq(released.result.code, REDLOCK_UNCONFIRMED);
    cr_assert_eq(lost.times, 1);
    cr_assert_eq(lost.result.code, REDLOCK_EXPIRED, "%s",
                 redlock_code_name(lost.result.code));
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* The replies came in time, but are read when the deadline has passed. */
Test(blocked, grants_past_the_deadline_do_not_count)
{
    struct quorum s;
    struct reported lost = {0}, extended = {0};
    redlock_options client_options = quorum_options();
    client_options.drift_ppm = 500000; /* so that the keys outlive the validity */
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 2000;
    reported_on_lost(&options, &lost);
    quorum_open_with(&s, 3, &client_options);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    servers_stop_first(&s.servers, 3);
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &extended), REDLOCK_OK);
    loop_pass(s.base);
    servers_cont_first(&s.servers, 3);
    block_until_expired(lease);
    EXPECT_REPORTED(&s, &extended, REDLOCK_EXPIRED);
    cr_assert_eq(lost.times, 1);
    cr_assert_eq(lost.result.code, REDLOCK_EXPIRED);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* The first callback takes all the time that the other lease has. */
static void block_when_held(redlock_lease *lease, const redlock_result *result, void *arg)
{
    reported_note(lease, result, arg);
    if (result->code == REDLOCK_OK)
        block_until_expired(lease);
}

/* The replies to both are in the socket together, and are read at once. */
Test(blocked, between_two_grants_the_second_expires)
{
    struct quorum s;
    struct reported first = {0}, second = {0};
    redlock_lease *lease[2];
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 300;
    quorum_open(&s, 3);
    servers_stop_first(&s.servers, 3);
    cr_assert_eq(
        redlock_acquire(s.client, "first", 5, &options, block_when_held, &first, &lease[0]),
        REDLOCK_OK);
    lease[1] = quorum_start(&s, "second", &options, &second);
    loop_pass(s.base);
    servers_cont_first(&s.servers, 3);
    LOOP_UNTIL(s.base, first.times && second.times);
    cr_assert_eq(second.result.code, REDLOCK_EXPIRED, "%s",
                 redlock_code_name(second.result.code));
    redlock_lease_free(lease[0]);
    redlock_lease_free(lease[1]);
    quorum_close(&s);
}

static void block_for_long(redlock_client *client, const redlock_inspection *inspection,
                           void *arg)
{
    (void)client;
    (void)inspection;
    loop_block(*(int64_t *)arg);
}

Test(blocked, inspection_blocks_past_the_deadline)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 300;
    quorum_open(&s, 1);
    quorum_free_lease(&s, quorum_hold(&s, "other", NULL));
    servers_stop(&s.servers, 0);
    cr_assert_eq(redlock_inspect(s.client, "job", 3, block_for_long, &options.ttl_ms),
                 REDLOCK_OK);
    redlock_lease *lease = quorum_start(&s, "job", &options, &reported);
    loop_pass(s.base);
    servers_cont(&s.servers, 0);
    EXPECT_REPORTED(&s, &reported, REDLOCK_EXPIRED);
    redlock_lease_free(lease);
    quorum_close(&s);
}
