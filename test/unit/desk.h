/*
 * A desk at which one lease is worked by hand: the test moves the clock, says what each
 * node answers, and looks at what the lease asks for. What must hold at every step of every
 * lease is checked at every step.
 */
#ifndef RL_TEST_DESK_H
#define RL_TEST_DESK_H

#include <criterion/criterion.h>

#include "core/lease.h"

/* Cheaper than an assertion of criterion where millions are made. */
#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition))                                                                  \
            cr_assert(condition, __VA_ARGS__);                                             \
    } while (0)

#define NEWS_KINDS 7

struct desk {
    struct rl_lease lease;
    struct rl_view view;
    struct rl_terms terms;
    struct rl_ballot ballot[RL_NODES_MAX];
    int64_t fences[RL_NODES_MAX];
    rl_time round_trip[RL_NODES_MAX];

    struct rl_update update;   /* of the last step */
    struct rl_update sent;     /* the last update that sent something */
    rl_nodes ever[RL_TEXTS];   /* which nodes were ever sent this text */
    unsigned told[NEWS_KINDS]; /* how often each news was told */
    unsigned acquires;         /* how many rounds said ACQUIRE */
};

/* TTL 10 s, drift 1 %, no margin, no watchdog, no bound. */
struct rl_terms desk_terms(unsigned n, unsigned q);

/* A desk at 1 s, all nodes ready. */
void desk_init(struct desk *desk, const struct rl_terms *terms);
void desk_start(struct desk *desk, unsigned n); /* the same, with START said */

struct rl_update desk_step(struct desk *desk, struct rl_lease_event event);
struct rl_update desk_say(struct desk *desk, enum rl_lease_event_type type);
struct rl_update desk_extend(struct desk *desk, rl_time ttl);
struct rl_update desk_adopt(struct desk *desk, rl_time deadline);

/* A node answers the round that was sent last. */
struct rl_update desk_vote(struct desk *desk, unsigned node, enum rl_vote vote);

/* A node answers this round, of any time. */
struct rl_update desk_answer(struct desk *desk, struct rl_update round, unsigned node,
                             enum rl_vote vote, int32_t pttl);

/* The nodes of a set answer alike. */
void desk_votes(struct desk *desk, rl_nodes nodes, enum rl_vote vote);

void desk_at(struct desk *desk, rl_time now);
void desk_wait(struct desk *desk, rl_time span);

/* Moves the clock to when the lease wants to be stepped, and ticks. */
struct rl_update desk_tick(struct desk *desk);

/* Starts, and holds with the grants of these nodes. */
void desk_hold(struct desk *desk, unsigned n, rl_nodes granting);

unsigned desk_told(const struct desk *desk, enum rl_news news);

#endif
