/* The connection to one node: every state and every event. */
#include "link_fixture.h"
#include "prng.h"

#include <signal.h>

static const rl_time now = 100 * RL_SECOND;

/* The effect of each event in each state, where it may occur at all. */
static const struct {
    enum rl_link_state state;
    enum rl_link_event_type event;
    rl_time later;
    enum rl_link_state next;
    enum rl_link_action action;
} rows[] = {
    {RL_LINK_DOWN, RL_LINK_TICK, -1, RL_LINK_DOWN, RL_LINK_NOTHING},
    {RL_LINK_DOWN, RL_LINK_TICK, 0, RL_LINK_CONNECTING, RL_LINK_CONNECT},
    {RL_LINK_DOWN, RL_LINK_SENT, 0, RL_LINK_DOWN, RL_LINK_NOTHING},
    {RL_LINK_DOWN, RL_LINK_ANSWERED, 0, RL_LINK_DOWN, RL_LINK_NOTHING},
    {RL_LINK_DOWN, RL_LINK_FAULT, 0, RL_LINK_DOWN, RL_LINK_ABORT},
    {RL_LINK_DOWN, RL_LINK_FAILED, 0, RL_LINK_DOWN, RL_LINK_ABORT},

    {RL_LINK_CONNECTING, RL_LINK_TICK, RL_SECOND - 1, RL_LINK_CONNECTING, RL_LINK_NOTHING},
    {RL_LINK_CONNECTING, RL_LINK_TICK, RL_SECOND, RL_LINK_DOWN, RL_LINK_ABORT},
    {RL_LINK_CONNECTING, RL_LINK_CONNECTED, 0, RL_LINK_GREETING, RL_LINK_GREET},
    {RL_LINK_CONNECTING, RL_LINK_SENT, 0, RL_LINK_CONNECTING, RL_LINK_NOTHING},
    {RL_LINK_CONNECTING, RL_LINK_ANSWERED, 0, RL_LINK_CONNECTING, RL_LINK_NOTHING},
    {RL_LINK_CONNECTING, RL_LINK_FAULT, 0, RL_LINK_DOWN, RL_LINK_ABORT},
    {RL_LINK_CONNECTING, RL_LINK_FAILED, 0, RL_LINK_DOWN, RL_LINK_ABORT},

    {RL_LINK_GREETING, RL_LINK_TICK, RL_SECOND - 1, RL_LINK_GREETING, RL_LINK_NOTHING},
    {RL_LINK_GREETING, RL_LINK_TICK, RL_SECOND, RL_LINK_DOWN, RL_LINK_ABORT},
    {RL_LINK_GREETING, RL_LINK_GREETED, 0, RL_LINK_READY, RL_LINK_NOTHING},
    {RL_LINK_GREETING, RL_LINK_SENT, 0, RL_LINK_GREETING, RL_LINK_NOTHING},
    {RL_LINK_GREETING, RL_LINK_ANSWERED, 0, RL_LINK_GREETING, RL_LINK_NOTHING},
    {RL_LINK_GREETING, RL_LINK_FAULT, 0, RL_LINK_DOWN, RL_LINK_ABORT},
    {RL_LINK_GREETING, RL_LINK_FAILED, 0, RL_LINK_DOWN, RL_LINK_ABORT},

    {RL_LINK_READY, RL_LINK_TICK, 999 * RL_SECOND, RL_LINK_READY, RL_LINK_NOTHING},
    {RL_LINK_READY, RL_LINK_SENT, 0, RL_LINK_READY, RL_LINK_NOTHING},
    {RL_LINK_READY, RL_LINK_ANSWERED, 0, RL_LINK_READY, RL_LINK_NOTHING},
    {RL_LINK_READY, RL_LINK_FAULT, 0, RL_LINK_DOWN, RL_LINK_ABORT},
    {RL_LINK_READY, RL_LINK_FAILED, 0, RL_LINK_DOWN, RL_LINK_ABORT},

    {RL_LINK_SUSPECT, RL_LINK_TICK, 900 * RL_MS, RL_LINK_SUSPECT, RL_LINK_NOTHING},
    {RL_LINK_SUSPECT, RL_LINK_TICK, 950 * RL_MS - 1, RL_LINK_SUSPECT, RL_LINK_NOTHING},
    {RL_LINK_SUSPECT, RL_LINK_TICK, 950 * RL_MS, RL_LINK_DOWN, RL_LINK_ABORT},
    {RL_LINK_SUSPECT, RL_LINK_SENT, 0, RL_LINK_SUSPECT, RL_LINK_NOTHING},
    {RL_LINK_SUSPECT, RL_LINK_ANSWERED, 0, RL_LINK_READY, RL_LINK_NOTHING},
    {RL_LINK_SUSPECT, RL_LINK_FAULT, 0, RL_LINK_DOWN, RL_LINK_ABORT},
    {RL_LINK_SUSPECT, RL_LINK_FAILED, 0, RL_LINK_DOWN, RL_LINK_ABORT},

    {RL_LINK_QUARANTINED, RL_LINK_TICK, 60 * RL_SECOND - 1, RL_LINK_QUARANTINED,
     RL_LINK_NOTHING},
    {RL_LINK_QUARANTINED, RL_LINK_TICK, 60 * RL_SECOND, RL_LINK_READY, RL_LINK_NOTHING},
    {RL_LINK_QUARANTINED, RL_LINK_SENT, 0, RL_LINK_QUARANTINED, RL_LINK_NOTHING},
    {RL_LINK_QUARANTINED, RL_LINK_ANSWERED, 0, RL_LINK_QUARANTINED, RL_LINK_NOTHING},
    {RL_LINK_QUARANTINED, RL_LINK_FAULT, 0, RL_LINK_DOWN, RL_LINK_ABORT},
    {RL_LINK_QUARANTINED, RL_LINK_FAILED, 0, RL_LINK_DOWN, RL_LINK_ABORT},
};

Test(link, every_state_and_event)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rl_link link = link_in(rows[i].state, now);
        struct rl_identity identity = link_identity('a');
        struct rl_link_event event = {
            .type = rows[i].event,
            .now = now + rows[i].later,
            .identity = &identity,
            .fault = RL_FAULT_CLOSED,
            .sent = now,
            .oldest = RL_NEVER,
        };
        cr_assert_eq(rl_link_step(&link, &event), rows[i].action, "row %zu", i);
        cr_assert_eq(link.state, rows[i].next, "row %zu", i);
        bool ready = link.state == RL_LINK_READY;
        bool open =
            ready || link.state == RL_LINK_SUSPECT || link.state == RL_LINK_QUARANTINED;
        cr_assert_eq(rl_link_is_ready(&link), ready, "row %zu", i);
        cr_assert_eq(rl_link_is_open(&link), open, "row %zu", i);
        cr_assert_eq(link.fault == RL_FAULT_NONE, ready,
                     "a link that is not ready has a fault, row %zu", i);
    }
}

#ifndef NDEBUG /* events of a connection that does not exist are bugs of the client */
Test(link, connected_twice_is_a_bug, .signal = SIGABRT)
{
    struct rl_link link = link_in(RL_LINK_READY, now);
    link_event(&link, RL_LINK_CONNECTED, now);
}

Test(link, greeted_before_connected_is_a_bug, .signal = SIGABRT)
{
    struct rl_link link = link_in(RL_LINK_CONNECTING, now);
    link_event(&link, RL_LINK_GREETED, now);
}

#endif

Test(link, begins_down_and_connects_at_once)
{
    struct rl_link link = link_in(RL_LINK_DOWN, now);
    cr_assert_eq(rl_link_next(&link), now);
    cr_assert_eq(link.fault, RL_FAULT_CONNECTING);
    cr_assert_not(rl_link_was_tried(&link), "not tried yet");
    link_event(&link, RL_LINK_TICK, now);
    cr_assert_not(rl_link_was_tried(&link));
    link_fail(&link, now, RL_FAULT_CONNECT, 0);
    cr_assert(rl_link_was_tried(&link));
    link_event(&link, RL_LINK_TICK, rl_link_next(&link));
    cr_assert_eq(link.state, RL_LINK_CONNECTING);
    cr_assert(rl_link_was_tried(&link), "it was tried once, whatever follows");
}

Test(backoff, grows_and_restarts_after_a_time_of_success)
{
    struct rl_link link = link_in(RL_LINK_DOWN, now);
    rl_time delay = RL_BACKOFF_BASE;
    for (unsigned i = 0; i < 20; i++) {
        rl_time at = rl_link_next(&link);
        cr_assert_eq(link_event(&link, RL_LINK_TICK, at), RL_LINK_CONNECT);
        cr_assert_eq(link_fail(&link, at, RL_FAULT_CONNECT, 0), RL_LINK_ABORT);
        cr_assert_eq(rl_link_next(&link), at + delay / 2, "half of it is fixed");
        delay = rl_min(2 * delay, RL_BACKOFF_CAP);
    }
    cr_assert_eq(delay, RL_BACKOFF_CAP);
    struct rl_identity identity = link_identity('a');
    rl_time at = rl_link_next(&link);
    link_greet(&link, at, &identity);
    at += RL_BACKOFF_CAP - 1;
    link_fail(&link, at, RL_FAULT_CLOSED, 0);
    cr_assert_eq(rl_link_next(&link), at + RL_BACKOFF_CAP / 2, "it greets and disconnects");
    at = rl_link_next(&link);
    link_greet(&link, at, &identity);
    at += RL_BACKOFF_CAP;
    link_fail(&link, at, RL_FAULT_CLOSED, 0);
    cr_assert_eq(rl_link_next(&link), at + RL_BACKOFF_BASE / 2);
}

Test(backoff, the_other_half_is_random)
{
    struct prng prng = {9};
    for (unsigned failures = 0; failures < 12; failures++) {
        rl_time span = rl_min(RL_BACKOFF_BASE << failures, RL_BACKOFF_CAP);
        rl_time low = RL_NEVER, high = 0;
        for (unsigned i = 0; i < 3000; i++) {
            struct rl_link link = link_in(RL_LINK_CONNECTING, now);
            link.failures = failures;
            link_fail(&link, now, RL_FAULT_CONNECT, prng_bits(&prng));
            low = rl_min(low, rl_link_next(&link) - now);
            high = rl_max(high, rl_link_next(&link) - now);
        }
        cr_assert(low >= span / 2 && low < span / 2 + span / 50, "%u failures", failures);
        cr_assert(high <= span && high > span - span / 50, "%u failures", failures);
    }
}

Test(backoff, is_slow_where_a_quick_retry_cannot_help)
{
    for (int i = 0; i < RL_FAULT_COUNT; i++) {
        enum rl_fault fault = (enum rl_fault)i;
        bool hopeless = rl_fault_is_denial(fault) || fault == RL_FAULT_CLUSTER ||
                        fault == RL_FAULT_DUPLICATE;
        struct rl_link link = link_in(RL_LINK_GREETING, now);
        link.failures = 1000;
        link_fail(&link, now, fault, 0);
        rl_time cap = hopeless ? RL_DENIED_CAP : RL_BACKOFF_CAP;
        cr_assert_eq(rl_link_next(&link), now + cap / 2, "%s", rl_fault_name(fault));
        cr_assert_eq(link.fault, fault);
    }
}

Test(timeout, covers_connecting_and_greeting_together)
{
    struct rl_link link = link_in(RL_LINK_CONNECTING, now);
    link_event(&link, RL_LINK_CONNECTED, now + 900 * RL_MS);
    cr_assert_eq(rl_link_next(&link), now + RL_SECOND);
    cr_assert_eq(link_event(&link, RL_LINK_TICK, now + RL_SECOND), RL_LINK_ABORT);
    cr_assert_eq(link.fault, RL_FAULT_TIMEOUT);
}

/* In every history a tick at the requested time changes something. */
Test(link, never_requests_the_same_tick_twice)
{
    struct prng prng = {21};
    for (unsigned run = 0; run < 2000; run++) {
        struct rl_link link = link_in((enum rl_link_state)prng_below(&prng, 6), now);
        rl_time at = now;
        for (unsigned i = 0; i < 30; i++) {
            if (prng_below(&prng, 3) == 0)
                link_event(&link, RL_LINK_SENT, at);
            rl_time next = rl_link_next(&link);
            if (next == RL_NEVER)
                break;
            CHECK(next >= at || link.state != RL_LINK_READY, "run %u", run);
            at = rl_max(at, next);
            enum rl_link_state before = link.state;
            link_event(&link, RL_LINK_TICK, at);
            CHECK(link.state != before || rl_link_next(&link) > at, "run %u, state %d", run,
                  before);
        }
    }
}
