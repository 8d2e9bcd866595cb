/* A loop that is blocked past a deadline: what is found there is old. */
#include <criterion/criterion.h>

#include "stage.h"

/*
 * The validity is told in whole milliseconds, rounded down, and by a clock that may be a
 * little ahead (core/clock.h): two more, and it is over by any.
 */
static void block_until_expired(const redlock_lease *lease)
{
    while (redlock_valid_ms(lease) > 0)
        ;
    loop_block(2);
}

/* The loop was blocked past the deadline; the holder's own call is the first to see it. */
Test(blocked, lost_before_it_is_released)
{
    struct stage s;
    struct told lost = {0}, released = {0};
    redlock_lease_options options = stage_lease_options();
    options.ttl_ms = 1000;
    options.watchdog = false;
    options.on_lost = told_note;
    options.lost_arg = &lost;
    stage_open(&s, 3);
    redlock_lease *lease = stage_hold(&s, "job", &options);
    for (unsigned i = 0; i < 3; i++)
        servers_kill(&s.servers, i);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, !stage_is(s.client, i, "ready"));
    block_until_expired(lease);
    cr_assert_eq(redlock_release(lease, told_note, &released), REDLOCK_OK);
    LOOP_UNTIL(s.base, released.times > 0);
    cr_assert_eq(released.result.code, REDLOCK_UNCONFIRMED);
    cr_assert_eq(lost.times, 1);
    cr_assert_eq(lost.result.code, REDLOCK_EXPIRED, "%s",
                 redlock_code_name(lost.result.code));
    redlock_lease_free(lease);
    stage_close(&s);
}

/* The answers came in time, but are read when the deadline has passed. */
Test(blocked, past_the_deadline)
{
    struct stage s;
    struct told lost = {0}, extended = {0};
    redlock_options client_options = stage_options();
    client_options.drift_ppm = 500000; /* so that the keys outlive the validity */
    redlock_lease_options options = stage_lease_options();
    options.ttl_ms = 2000;
    options.watchdog = false;
    options.on_lost = told_note;
    options.lost_arg = &lost;
    stage_open_with(&s, 3, &client_options);
    redlock_lease *lease = stage_hold(&s, "job", &options);
    for (unsigned i = 0; i < 3; i++)
        servers_stop(&s.servers, i);
    cr_assert_eq(redlock_extend(lease, 0, told_note, &extended), REDLOCK_OK);
    loop_pass(s.base);
    for (unsigned i = 0; i < 3; i++)
        servers_cont(&s.servers, i);
    block_until_expired(lease);
    EXPECT_TOLD(&s, &extended, REDLOCK_EXPIRED);
    cr_assert_eq(lost.times, 1);
    cr_assert_eq(lost.result.code, REDLOCK_EXPIRED);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    redlock_lease_free(lease);
    stage_close(&s);
}

/* The one that is told first takes all the time that the other has. */
static void block_when_held(redlock_lease *lease, const redlock_result *result, void *arg)
{
    told_note(lease, result, arg);
    if (result->code == REDLOCK_OK)
        block_until_expired(lease);
}

/* The answers to both lie side by side, and are read at one go. */
Test(blocked, between_the_answers_to_two)
{
    struct stage s;
    struct told first = {0}, second = {0};
    redlock_lease *lease[2];
    redlock_lease_options options = stage_lease_options();
    options.ttl_ms = 300;
    options.watchdog = false;
    stage_open(&s, 3);
    for (unsigned i = 0; i < 3; i++)
        servers_stop(&s.servers, i);
    cr_assert_eq(
        redlock_acquire(s.client, "first", 5, &options, block_when_held, &first, &lease[0]),
        REDLOCK_OK);
    cr_assert_eq(
        redlock_acquire(s.client, "second", 6, &options, told_note, &second, &lease[1]),
        REDLOCK_OK);
    loop_pass(s.base);
    for (unsigned i = 0; i < 3; i++)
        servers_cont(&s.servers, i);
    LOOP_UNTIL(s.base, first.times && second.times);
    cr_assert_eq(second.result.code, REDLOCK_EXPIRED, "%s",
                 redlock_code_name(second.result.code));
    redlock_lease_free(lease[0]);
    redlock_lease_free(lease[1]);
    stage_close(&s);
}

static void block_for_long(redlock_client *client, const redlock_survey *survey, void *arg)
{
    (void)client;
    (void)survey;
    loop_block(*(int64_t *)arg);
}

Test(blocked, by_a_survey)
{
    struct stage s;
    struct told told = {0};
    redlock_lease *lease;
    redlock_lease_options options = stage_lease_options();
    options.ttl_ms = 300;
    options.watchdog = false;
    stage_open(&s, 1);
    redlock_lease_free(stage_hold(&s, "other", NULL));
    stage_drain(&s);
    servers_stop(&s.servers, 0);
    cr_assert_eq(redlock_inspect(s.client, "job", 3, block_for_long, &options.ttl_ms),
                 REDLOCK_OK);
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, told_note, &told, &lease),
                 REDLOCK_OK);
    loop_pass(s.base);
    servers_cont(&s.servers, 0);
    EXPECT_TOLD(&s, &told, REDLOCK_EXPIRED);
    redlock_lease_free(lease);
    stage_close(&s);
}
