/*
 * One lease machine, driven by hand: the test moves the clock, gives each node's reply, and
 * reads what the lease wants to send. Every step checks the invariants of a lease.
 */
#ifndef RL_TEST_LEASE_FIXTURE_H
#define RL_TEST_LEASE_FIXTURE_H

#include <criterion/criterion.h>

#include "core/lease.h"

/* Cheaper than a criterion assertion where millions are made. */
#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition))                                                                  \
            cr_assert(condition, __VA_ARGS__);                                             \
    } while (0)

#define REPORT_KINDS 8

struct lease_fixture {
    struct rl_lease lease;
    struct rl_view view;
    struct rl_lease_params params;
    struct rl_ballot ballot[RL_NODES_MAX];
    int64_t fences[RL_NODES_MAX];
    rl_time round_trip[RL_NODES_MAX];

    struct rl_update update;         /* of the last step */
    struct rl_update sent;           /* the last update that sent something */
    rl_node_set ever[RL_COMMANDS];   /* which nodes ever got this command */
    unsigned reported[REPORT_KINDS]; /* how often each report came */
    unsigned acquires;               /* how many rounds sent ACQUIRE */
};

/* TTL 10 s, drift 1 %, no margin, no watchdog, no longest hold. */
struct rl_lease_params fixture_params(unsigned n, unsigned q);

/* A lease at 1 s, all nodes ready. */
void fixture_init(struct lease_fixture *lease_fixture,
                  const struct rl_lease_params *params);
void fixture_start_with(struct lease_fixture *lease_fixture,
                        const struct rl_lease_params *params); /* the same, started */
void fixture_start(struct lease_fixture *lease_fixture, unsigned n);

struct rl_update fixture_step(struct lease_fixture *lease_fixture,
                              struct rl_lease_event event);
struct rl_update fixture_event(struct lease_fixture *lease_fixture,
                               enum rl_lease_event_type type);
struct rl_update fixture_extend(struct lease_fixture *lease_fixture, rl_time ttl);
struct rl_update fixture_adopt(struct lease_fixture *lease_fixture, rl_time deadline);

/* A node replies to the round that was sent last. */
struct rl_update fixture_vote(struct lease_fixture *lease_fixture, unsigned node,
                              enum rl_vote vote);

/* A node replies to this round, however old. */
struct rl_update fixture_answer(struct lease_fixture *lease_fixture, struct rl_update round,
                                unsigned node, enum rl_vote vote, int32_t pttl);

/* All nodes of a set give the same reply. */
void fixture_votes(struct lease_fixture *lease_fixture, rl_node_set nodes,
                   enum rl_vote vote);

void fixture_at(struct lease_fixture *lease_fixture, rl_time now);
void fixture_wait(struct lease_fixture *lease_fixture, rl_time span);

/* Moves the clock to the time of the lease's next step, and ticks. */
struct rl_update fixture_tick(struct lease_fixture *lease_fixture);

/* Starts, and holds with the grants of these nodes. */
void fixture_hold(struct lease_fixture *lease_fixture, unsigned n, rl_node_set granting);

unsigned fixture_reports(const struct lease_fixture *lease_fixture, enum rl_report reports);

#endif
