/*
 * The world of a story: one client's lease and its links, driven by hand in virtual time,
 * and told in words. The machines are those of the library; the nodes do what they are
 * told, in the order of their streams.
 */
#ifndef RL_TEST_WORLD_H
#define RL_TEST_WORLD_H

#include "core/lease.h"
#include "core/link.h"

#define WORLD_ORDERS 16
#define WORLD_TEXT   512

/* What a node was sent and has not answered. */
struct world_order {
    enum rl_text text;
    uint32_t seq;
    rl_time sent;
};

struct world_node {
    struct rl_link link;
    struct world_order order[WORLD_ORDERS];
    unsigned orders;
    char letter; /* of its run_id */
};

struct world {
    struct rl_terms terms;
    struct rl_link_terms link_terms;
    struct rl_lease lease;
    struct rl_ballot ballot[RL_NODES_MAX];
    struct rl_view view;
    rl_time round_trip[RL_NODES_MAX];
    struct world_node node[RL_NODES_MAX];
    char said[WORLD_TEXT];      /* what came of the last event */
    enum rl_lease_state before; /* of the lease, when the event came */
    size_t count_at; /* where it ends with a mere count, which the next one replaces */
};

/* At time 0 all nodes are being connected to; and are greeted, and ready at once. */
void world_init(struct world *world);
void world_greet_all(struct world *world);

/* Runs the timers of the next moment at which some are due; false: none is by then. */
bool world_tick(struct world *world, rl_time until);

/* Before an event, and after all that came of it. */
void world_at(struct world *world, rl_time now);
void world_done(struct world *world);

void world_step(struct world *world, struct rl_lease_event event);

/* The node answers the oldest order; false: that order was of another text. */
bool world_answer(struct world *world, unsigned node, enum rl_text text, enum rl_vote vote,
                  enum rl_fault fault, int32_t pttl);
/* The same, whatever the order was; false: it owes no answer. */
bool world_reply(struct world *world, unsigned node, enum rl_vote vote, enum rl_fault fault,
                 int32_t pttl);

void world_cut(struct world *world, unsigned node);

/* The connection that is being made is made; and the node says who it is. */
bool world_connect(struct world *world, unsigned node);
bool world_greet(struct world *world, unsigned node, struct rl_identity identity);

#endif
