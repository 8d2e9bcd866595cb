/*
 * The world of a story: one client's lease and its links, driven by hand in virtual time,
 * and shown as text. The machines are those of the library; the nodes do what the script
 * says, in the order of their streams.
 */
#ifndef RL_TEST_WORLD_H
#define RL_TEST_WORLD_H

#include "core/lease.h"
#include "core/link.h"

#define WORLD_PENDING 16
#define WORLD_TEXT    512

/* A command that was sent to a node, which has not replied yet. */
struct world_command {
    enum rl_command command;
    uint32_t seq;
    rl_time sent;
};

struct world_node {
    struct rl_link link;
    struct world_command pending[WORLD_PENDING];
    unsigned pending_count;
    char letter; /* of its run_id */
};

struct world {
    struct rl_lease_params params;
    struct rl_link_params link_params;
    struct rl_lease lease;
    struct rl_ballot ballot[RL_NODES_MAX];
    struct rl_view view;
    rl_time round_trip[RL_NODES_MAX];
    struct world_node node[RL_NODES_MAX];
    char outcome[WORLD_TEXT];   /* the outcome of the last event */
    enum rl_lease_state before; /* of the lease, before the event */
    size_t count_at; /* where it ends with a mere count, which the next one replaces */
};

/* At time 0 all nodes are being connected; then greeted and ready at once. */
void world_init(struct world *world);
void world_greet_all(struct world *world);

/* Runs the timers of the next moment at which some are due; false: none is by then. */
bool world_tick(struct world *world, rl_time until);

/* Before an event, and after its outcome. */
void world_at(struct world *world, rl_time now);
void world_done(struct world *world);

void world_step(struct world *world, struct rl_lease_event event);

/* The node replies to the oldest command; false: that was another command. */
bool world_answer(struct world *world, unsigned node, enum rl_command command,
                  enum rl_vote vote, enum rl_fault fault, int32_t pttl);
/* The same, whatever the command was; false: none is pending. */
bool world_reply(struct world *world, unsigned node, enum rl_vote vote, enum rl_fault fault,
                 int32_t pttl);

void world_cut(struct world *world, unsigned node);

/* Completes the connection attempt; and the node's greeting. */
bool world_connect(struct world *world, unsigned node);
bool world_greet(struct world *world, unsigned node, struct rl_identity identity);

#endif
