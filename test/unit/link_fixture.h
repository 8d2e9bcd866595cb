/* One link machine, driven by hand, as in lease_fixture.h. */
#ifndef RL_TEST_LINK_FIXTURE_H
#define RL_TEST_LINK_FIXTURE_H

#include <string.h>

#include "core/link.h"
#include "lease_fixture.h"

static const struct rl_link_params link_params = {
    .connect_timeout = RL_SECOND,
    .quarantine = 60 * RL_SECOND,
};

/* The greeting of a healthy node; the letter fills its run_id. */
static inline struct rl_identity link_identity(char letter)
{
    struct rl_identity identity = {.has_role = true, .is_master = true};
    memset(identity.process.run_id, letter, RL_RUN_ID);
    return identity;
}

static inline enum rl_link_action link_event(struct rl_link *link,
                                             enum rl_link_event_type type, rl_time now)
{
    struct rl_link_event event = {
        .type = type, .now = now, .sent = now, .oldest = RL_NEVER};
    if (type == RL_LINK_FAILED || type == RL_LINK_FAULT)
        event.fault = RL_FAULT_CLOSED;
    return rl_link_step(link, &event);
}

static inline enum rl_link_action link_fail(struct rl_link *link, rl_time now,
                                            enum rl_fault fault, uint64_t random)
{
    struct rl_link_event event = {
        .type = RL_LINK_FAILED, .now = now, .fault = fault, .random = random};
    return rl_link_step(link, &event);
}

static inline enum rl_link_action link_answer(struct rl_link *link, rl_time now,
                                              rl_time sent, rl_time oldest)
{
    struct rl_link_event event = {
        .type = RL_LINK_ANSWERED, .now = now, .sent = sent, .oldest = oldest};
    return rl_link_step(link, &event);
}

/* Ticks until the link connects, then gives it this greeting; returns the last action. */
static inline enum rl_link_action link_greet(struct rl_link *link, rl_time now,
                                             const struct rl_identity *identity)
{
    for (unsigned i = 0; i < 10 && link->state != RL_LINK_CONNECTING; i++) {
        now = rl_max(now, rl_link_next(link));
        link_event(link, RL_LINK_TICK, now);
    }
    cr_assert_eq(link->state, RL_LINK_CONNECTING);
    link_event(link, RL_LINK_CONNECTED, now);
    struct rl_link_event event = {
        .type = RL_LINK_GREETED, .now = now, .identity = identity};
    return rl_link_step(link, &event);
}

/* A link in this state at `now`; the SUSPECT one was sent a command one timeout ago. */
static inline struct rl_link link_in(enum rl_link_state state, rl_time now)
{
    struct rl_link link;
    struct rl_identity first = link_identity('a'), second = link_identity('b');
    rl_link_init(&link, &link_params, now);
    if (state == RL_LINK_DOWN)
        return link;
    link_event(&link, RL_LINK_TICK, now);
    if (state == RL_LINK_CONNECTING)
        return link;
    if (state == RL_LINK_GREETING) {
        link_event(&link, RL_LINK_CONNECTED, now);
        return link;
    }
    link_greet(&link, now, &first);
    if (state == RL_LINK_QUARANTINED) {
        link.retry_at = 0;
        link_fail(&link, now - RL_SECOND, RL_FAULT_CLOSED, 0);
        link_greet(&link, now, &second);
    }
    if (state == RL_LINK_SUSPECT) {
        link_event(&link, RL_LINK_SENT, now - RL_SUSPECT_FLOOR);
        link_event(&link, RL_LINK_TICK, now);
    }
    cr_assert_eq(link.state, state);
    return link;
}

#endif
