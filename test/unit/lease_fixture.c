#include "lease_fixture.h"

struct rl_lease_params fixture_params(unsigned n, unsigned q)
{
    return (struct rl_lease_params){
        .ttl = 10 * RL_SECOND,
        .max_hold = RL_NEVER,
        .drift_ppm = 10000,
        .n = (uint8_t)n,
        .q = (uint8_t)q,
    };
}

void fixture_init(struct lease_fixture *lease_fixture, const struct rl_lease_params *params)
{
    *lease_fixture = (struct lease_fixture){
        .params = *params,
        .view = {.now = RL_SECOND, .ready = rl_all(params->n), .open = rl_all(params->n)}};
    lease_fixture->view.round_trip = lease_fixture->round_trip;
    rl_lease_init(&lease_fixture->lease, &lease_fixture->params, lease_fixture->ballot,
                  lease_fixture->fences);
}

void fixture_start_with(struct lease_fixture *lease_fixture,
                        const struct rl_lease_params *params)
{
    fixture_init(lease_fixture, params);
    fixture_event(lease_fixture, RL_EVENT_START);
}

void fixture_start(struct lease_fixture *lease_fixture, unsigned n)
{
    struct rl_lease_params params = fixture_params(n, rl_majority(n));
    fixture_start_with(lease_fixture, &params);
}

unsigned fixture_reports(const struct lease_fixture *lease_fixture, enum rl_report reports)
{
    return lease_fixture->reported[__builtin_ctz(reports)];
}

/* The invariants of every lease after every step. */
static void check_lease(const struct lease_fixture *lease_fixture)
{
    const struct rl_lease *lease = &lease_fixture->lease;
    const struct rl_update *update = &lease_fixture->update;
    rl_node_set all = rl_all(lease->params->n);
    CHECK(lease_fixture->acquires <= 1, "an acquire is never sent again");
    CHECK(fixture_reports(lease_fixture, RL_REPORT_HELD) +
                  fixture_reports(lease_fixture, RL_REPORT_FAILED) <=
              1,
          "an acquire ends once");
    CHECK(fixture_reports(lease_fixture, RL_REPORT_LOST) <= 1, "LOST is reported once");
    CHECK(fixture_reports(lease_fixture, RL_REPORT_RELEASED) <= 1, "a release ends once");
    CHECK((update->send & ~lease_fixture->view.open) == 0,
          "sent to a node without a connection");
    CHECK(update->command == RL_CMD_RELEASE ||
              (update->send & ~lease_fixture->view.ready) == 0,
          "a vote was requested of a node that is not ready");
    CHECK((lease->round.waiting | lease->round.granted) <= all,
          "a node that does not exist");
    CHECK((lease->round.granted & lease->round.waiting) == 0, "a node voted twice");
    CHECK((lease->dirty & ~lease->touched) == 0, "dirty without a command sent to it");
    CHECK(lease->state == RL_LEASE_HELD || lease->state == RL_LEASE_LOST ||
              rl_lease_left(lease, lease_fixture->view.now) == 0,
          "time is left of a lock that is not held");
    CHECK(!(lease->state == RL_LEASE_OVER && rl_lease_next(lease) != RL_NEVER),
          "a lease that is over needs no step");
}

struct rl_update fixture_step(struct lease_fixture *lease_fixture,
                              struct rl_lease_event event)
{
    lease_fixture->update =
        rl_lease_step(&lease_fixture->lease, &lease_fixture->view, &event);
    if (lease_fixture->update.send) {
        lease_fixture->sent = lease_fixture->update;
        lease_fixture->ever[lease_fixture->update.command] |= lease_fixture->update.send;
        lease_fixture->acquires += lease_fixture->update.command == RL_CMD_ACQUIRE;
    }
    for (unsigned i = 0; i < REPORT_KINDS; i++)
        lease_fixture->reported[i] += lease_fixture->update.reports >> i & 1;
    check_lease(lease_fixture);
    return lease_fixture->update;
}

struct rl_update fixture_event(struct lease_fixture *lease_fixture,
                               enum rl_lease_event_type type)
{
    return fixture_step(lease_fixture, (struct rl_lease_event){.type = type});
}

struct rl_update fixture_extend(struct lease_fixture *lease_fixture, rl_time ttl)
{
    return fixture_step(lease_fixture,
                        (struct rl_lease_event){.type = RL_EVENT_EXTEND, .ttl = ttl});
}

struct rl_update fixture_adopt(struct lease_fixture *lease_fixture, rl_time deadline)
{
    return fixture_step(lease_fixture, (struct rl_lease_event){.type = RL_EVENT_ADOPT,
                                                               .deadline = deadline});
}

struct rl_update fixture_answer(struct lease_fixture *lease_fixture, struct rl_update round,
                                unsigned node, enum rl_vote vote, int32_t pttl)
{
    return fixture_step(lease_fixture, (struct rl_lease_event){
                                           .type = RL_EVENT_VOTE,
                                           .node = (uint8_t)node,
                                           .seq = round.seq,
                                           .command = round.command,
                                           .vote = vote,
                                           .pttl = pttl,
                                       });
}

struct rl_update fixture_vote(struct lease_fixture *lease_fixture, unsigned node,
                              enum rl_vote vote)
{
    return fixture_answer(lease_fixture, lease_fixture->sent, node, vote, -1);
}

void fixture_votes(struct lease_fixture *lease_fixture, rl_node_set nodes,
                   enum rl_vote vote)
{
    struct rl_update round = lease_fixture->sent;
    for (; nodes; nodes &= nodes - 1)
        fixture_answer(lease_fixture, round, rl_first(nodes), vote, -1);
}

void fixture_at(struct lease_fixture *lease_fixture, rl_time now)
{
    lease_fixture->view.now = now;
}

void fixture_wait(struct lease_fixture *lease_fixture, rl_time span)
{
    lease_fixture->view.now += span;
}

struct rl_update fixture_tick(struct lease_fixture *lease_fixture)
{
    rl_time next = rl_lease_next(&lease_fixture->lease);
    cr_assert_neq(next, RL_NEVER, "nothing is due");
    lease_fixture->view.now = rl_max(lease_fixture->view.now, next);
    return fixture_event(lease_fixture, RL_EVENT_TICK);
}

void fixture_hold(struct lease_fixture *lease_fixture, unsigned n, rl_node_set granting)
{
    fixture_start(lease_fixture, n);
    fixture_votes(lease_fixture, granting, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture->lease.state, RL_LEASE_HELD);
}
