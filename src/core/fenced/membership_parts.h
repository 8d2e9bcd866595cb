/* Internal functions of the membership machine: membership.c keeps the state,
   membership_commands.c makes the commands. */
#ifndef RL_MEMBERSHIP_PARTS_H
#define RL_MEMBERSHIP_PARTS_H

#include "membership.h"

/* A majority of the nodes may vote. */
bool rl_membership_has_majority(const struct rl_membership *membership);

/* A majority lost its memory: the quarantined nodes have to attest each other. */
bool rl_membership_is_recovering(const struct rl_membership *membership);

/*
 * The nodes that may attest this node's incarnation and have it in their markers. While all
 * nodes attest each other (recovering), a node also attests itself: there may be no other.
 */
rl_node_set rl_membership_knowing(const struct rl_membership *membership, unsigned node);

/* Computes all states again from what the client knows. */
void rl_membership_update(struct rl_membership *membership, rl_time now);

/* If the clocks of a majority seem to be set at once, our clock was wrong. */
void rl_membership_check_own_clock(struct rl_membership *membership, rl_time now);

#endif
