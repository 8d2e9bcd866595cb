/* Internal functions of the membership machine: membership.c keeps the state,
   membership_commands.c makes the commands, membership_clock.c judges clocks. */
#ifndef RL_MEMBERSHIP_PARTS_H
#define RL_MEMBERSHIP_PARTS_H

#include "membership.h"

/* A majority of the nodes may vote. */
bool rl_membership_has_majority(const struct rl_membership *membership);

/* A majority lost its memory: the quarantined nodes have to attest each other. */
bool rl_membership_is_recovering(const struct rl_membership *membership);

/* Computes all states again from what the client knows. */
void rl_membership_update(struct rl_membership *membership, rl_time now);

/* Gives the nodes their votes back whose clocks were right for a quarantine. */
void rl_membership_end_doubts(struct rl_membership *membership, rl_time now);

/* It was this node's clock that was wrong, not ours: enough others attest it. */
bool rl_membership_is_clock_proven(const struct rl_membership *membership, unsigned node);

/* When the doubts about this node end, if no reply is wrong again; RL_NEVER: there are
 * none. */
rl_time rl_membership_doubts_until(const struct rl_membership *membership, unsigned node);

#endif
