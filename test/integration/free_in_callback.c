/*
 * A callback may free its lease, its client or both. Afterwards nothing is called again.
 */
#include <criterion/criterion.h>

#include "caller.h"

Test(free_in_callback, freed_when_acquired)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, caller_on_reported,
                                     &caller, &caller.lease),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.reported);
        cr_assert_eq(caller.code, REDLOCK_OK);
        if (caller.frees_lease)
            LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

/* Two replies arrive in one piece: the first one's callback frees everything. */
Test(free_in_callback, freed_when_the_first_of_two_is_acquired)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        struct reported reported = {0};
        redlock_lease *second;
        quorum_await_ready(&s);
        cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, caller_on_reported,
                                     &caller, &caller.lease),
                     REDLOCK_OK);
        cr_assert_eq(redlock_acquire(s.client, "second", 6, &options, reported_note,
                                     &reported, &second),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.reported && reported.times);
        cr_assert_eq(caller.code, REDLOCK_OK);
        cr_assert_eq(reported.result.code,
                     caller.frees_client ? REDLOCK_CANCELLED : REDLOCK_OK);
        redlock_lease_free(second);
        if (caller.frees_lease)
            LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
        caller_finish(&s, &caller, 1);
        cr_assert_eq(reported.times, 1);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_refused)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        for (unsigned i = 0; i < 3; i++)
            servers_do(&s.servers, i, "SET job stranger");
        cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, caller_on_reported,
                                     &caller, &caller.lease),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.reported);
        cr_assert_eq(caller.code, REDLOCK_TAKEN);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_cancelled)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        quorum_await_ready(&s);
        cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, caller_on_reported,
                                     &caller, &caller.lease),
                     REDLOCK_OK);
        redlock_cancel(caller.lease);
        LOOP_UNTIL(s.base, caller.reported);
        cr_assert_eq(caller.code, REDLOCK_CANCELLED);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_extended)
{
    struct quorum s;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        redlock_lease *lease = caller_hold(&s, &caller, quorum_lease_options());
        cr_assert_eq(redlock_extend(lease, 0, caller_on_reported, &caller), REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.reported);
        cr_assert_eq(caller.code, REDLOCK_OK);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_released)
{
    struct quorum s;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        redlock_lease *lease = caller_hold(&s, &caller, quorum_lease_options());
        cr_assert_eq(redlock_release(lease, caller_on_reported, &caller), REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.reported);
        cr_assert_eq(caller.code, REDLOCK_OK);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_the_watchdog_extended)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = 1500;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        caller_hold(&s, &caller, options);
        LOOP_UNTIL(s.base, caller.extended);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

/* The caller's own extension detects the loss: both are reported. */
Test(free_in_callback, freed_when_lost_while_it_extends)
{
    struct quorum s;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        struct reported reported = {0};
        redlock_lease *lease = caller_hold(&s, &caller, quorum_lease_options());
        quorum_drain(&s);
        for (unsigned i = 0; i < 5; i++)
            servers_do(&s.servers, i, "DEL job");
        cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.lost);
        cr_assert_eq(caller.code, REDLOCK_GONE);
        caller_finish(&s, &caller, 1);
        cr_assert_eq(reported.times, caller.frees_lease ? 0 : 1);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_expired)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = 400;
    options.watchdog = false;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        caller_hold(&s, &caller, options);
        LOOP_UNTIL(s.base, caller.lost);
        cr_assert_eq(caller.code, REDLOCK_EXPIRED);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_drained)
{
    struct quorum s;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        caller.lease = caller_hold(&s, &caller, quorum_lease_options());
        cr_assert_eq(redlock_client_drain(s.client, REDLOCK_NODE_TIMEOUT, caller_on_drained,
                                          &caller),
                     REDLOCK_OK);
        cr_assert_eq(redlock_client_drain(s.client, REDLOCK_NODE_TIMEOUT, caller_on_drained,
                                          &caller),
                     REDLOCK_BUSY);
        LOOP_UNTIL(s.base, caller.other);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_inspected)
{
    struct quorum s;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        caller.lease = caller_hold(&s, &caller, quorum_lease_options());
        cr_assert_eq(redlock_inspect(s.client, "job", 3, caller_on_inspection, &caller),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.other);
        cr_assert_eq(caller.code, REDLOCK_OK);
        caller_finish(&s, &caller, 1);
    }
    EACH_WAY(caller, s)
    {
        caller.lease = caller_hold(&s, &caller, quorum_lease_options());
        cr_assert_eq(redlock_break(s.client, "job", 3, caller_on_inspection, &caller),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.other);
        cr_assert_eq(caller.code, REDLOCK_OK);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

/* Admitted, and then refused in each possible way: before it began, and after. */
Test(free_in_callback, freed_when_admitted)
{
    struct quorum s;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        caller.lease = caller_hold(&s, &caller, quorum_lease_options());
        redlock_disown(caller.lease);
        quorum_drain(&s);
        for (unsigned i = 0; i < 5; i++)
            servers_do(&s.servers, i, "FLUSHALL");
        cr_assert_eq(
            redlock_admit(s.client, REDLOCK_ADMIT_AT_ONCE, 0, caller_on_admitted, &caller),
            REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.other);
        cr_assert_eq(caller.code, REDLOCK_OK);
        caller_finish(&s, &caller, 1);
    }
    EACH_WAY(caller, s)
    {
        caller.lease = caller_hold(&s, &caller, quorum_lease_options());
        cr_assert_eq(
            redlock_admit(s.client, REDLOCK_ADMIT_NEW, 0, caller_on_admitted, &caller),
            REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.other);
        cr_assert_eq(caller.code, REDLOCK_NOT_EMPTY, "it has a key");
        caller_finish(&s, &caller, 1);
    }
    EACH_WAY(caller, s)
    {
        caller.lease = caller_hold(&s, &caller, quorum_lease_options());
        cr_assert_eq(
            redlock_admit(s.client, REDLOCK_ADMIT_WAIT, 0, caller_on_admitted, &caller),
            REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.other);
        cr_assert_eq(caller.code, REDLOCK_UNADMITTED);
        caller_finish(&s, &caller, 1);
    }
    quorum_close(&s);
}

static redlock_lease_options waiting_options(struct caller *caller)
{
    redlock_lease_options options = quorum_lease_options();
    options.wait_ms = -1;
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = caller_on_retry;
    options.retry_arg = caller;
    return options;
}

Test(free_in_callback, freed_in_the_retry_delay_function)
{
    struct quorum s;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        struct reported reported = {0};
        redlock_lease_options options = waiting_options(&caller);
        for (unsigned i = 0; i < 3; i++)
            servers_do(&s.servers, i, "SET job stranger");
        cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, reported_note, &reported,
                                     &caller.lease),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, caller.other);
        caller_finish(&s, &caller, 1);
        cr_assert_eq(reported.times, caller.frees_lease ? 0 : 1);
    }
    quorum_close(&s);
}

static int64_t cancel_instead(unsigned attempt, uint64_t random, void *arg)
{
    struct caller *caller = arg;
    (void)attempt;
    (void)random;
    caller->other++;
    redlock_cancel(caller->lease);
    return 1;
}

Test(free_in_callback, cancelled_in_the_retry_delay_function)
{
    struct quorum s;
    struct caller caller = {.quorum = &s};
    struct reported reported = {0};
    redlock_lease_options options = waiting_options(&caller);
    options.retry_fn = cancel_instead;
    quorum_open(&s, 5);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "SET job stranger");
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, reported_note, &reported,
                                 &caller.lease),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, caller.other);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "DEL job");
    EXPECT_REPORTED(&s, &reported, REDLOCK_CANCELLED);
    redlock_lease_free(caller.lease);
    quorum_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    quorum_close(&s);
}
