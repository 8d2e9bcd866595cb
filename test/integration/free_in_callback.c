/*
 * A callback may free its lease, its client or both. Afterwards nothing is called again.
 */
#include <criterion/criterion.h>

#include "caller.h"

Test(free_in_callback, freed_when_acquired)
{
    struct quorum s;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        caller_acquire(&s, &caller);
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
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        struct reported reported = {0};
        quorum_await_ready(&s);
        caller_acquire(&s, &caller);
        redlock_lease *second = quorum_start(&s, "second", NULL, &reported);
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
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        servers_do_first(&s.servers, 3, "SET job stranger");
        caller_acquire(&s, &caller);
        caller_expect(&s, &caller, &caller.reported, REDLOCK_TAKEN);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_cancelled)
{
    struct quorum s;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        quorum_await_ready(&s);
        caller_acquire(&s, &caller);
        redlock_cancel(caller.lease);
        caller_expect(&s, &caller, &caller.reported, REDLOCK_CANCELLED);
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
        caller_expect(&s, &caller, &caller.reported, REDLOCK_OK);
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
        caller_expect(&s, &caller, &caller.reported, REDLOCK_OK);
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
        caller_expect(&s, &caller, &caller.extended, REDLOCK_OK);
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
        servers_do_first(&s.servers, 5, "DEL job");
        cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
        caller_expect(&s, &caller, &caller.lost, REDLOCK_GONE);
        cr_assert_eq(reported.times, caller.frees_lease ? 0 : 1);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_expired)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 400;
    quorum_open(&s, 5);
    EACH_WAY(caller, s)
    {
        caller_hold(&s, &caller, options);
        caller_expect(&s, &caller, &caller.lost, REDLOCK_EXPIRED);
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
        caller_expect(&s, &caller, &caller.other, REDLOCK_OK);
    }
    quorum_close(&s);
}

Test(free_in_callback, freed_when_inspected)
{
    struct quorum s;
    redlock_code (*const call[])(redlock_client *, const void *, size_t,
                                 redlock_inspect_fn *,
                                 void *) = {redlock_inspect, redlock_break};
    quorum_open(&s, 5);
    for (unsigned i = 0; i < 2; i++)
        EACH_WAY(caller, s)
        {
            caller.lease = caller_hold(&s, &caller, quorum_lease_options());
            cr_assert_eq(call[i](s.client, "job", 3, caller_on_inspection, &caller),
                         REDLOCK_OK);
            caller_expect(&s, &caller, &caller.other, REDLOCK_OK);
        }
    quorum_close(&s);
}

/* Admitted, and then refused in each possible way: before it began, and after. */
Test(free_in_callback, freed_when_admitted)
{
    struct quorum s;
    static const struct {
        redlock_admission how;
        bool is_empty; /* the nodes have no key */
        redlock_code code;
    } row[] = {
        {REDLOCK_ADMIT_AT_ONCE, true, REDLOCK_OK},
        {REDLOCK_ADMIT_NEW, false, REDLOCK_NOT_EMPTY},
        {REDLOCK_ADMIT_READMIT, false, REDLOCK_UNADMITTED},
    };
    quorum_open(&s, 5);
    for (unsigned i = 0; i < 3; i++)
        EACH_WAY(caller, s)
        {
            caller.lease = caller_hold(&s, &caller, quorum_lease_options());
            if (row[i].is_empty) {
                redlock_disown(caller.lease);
                quorum_drain(&s);
                servers_do_first(&s.servers, 5, "FLUSHALL");
            }
            cr_assert_eq(
                redlock_admit(s.client, row[i].how, 0, caller_on_admitted, &caller),
                REDLOCK_OK);
            caller_expect(&s, &caller, &caller.other, row[i].code);
        }
    quorum_close(&s);
}

static redlock_lease_options waiting_options(struct caller *caller)
{
    redlock_lease_options options = quorum_lease_options();
    options.wait_ms = REDLOCK_FOREVER;
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
        servers_do_first(&s.servers, 3, "SET job stranger");
        cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, reported_note, &reported,
                                     &caller.lease),
                     REDLOCK_OK);
        caller_expect(&s, &caller, &caller.other, REDLOCK_OK);
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
    servers_do_first(&s.servers, 3, "SET job stranger");
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, reported_note, &reported,
                                 &caller.lease),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, caller.other);
    servers_do_first(&s.servers, 3, "DEL job");
    EXPECT_REPORTED(&s, &reported, REDLOCK_CANCELLED);
    redlock_lease_free(caller.lease);
    quorum_close_empty(&s);
}
