/* The client's nodes as members of a deployment for fenced locks. */
#ifndef RL_MEMBERS_H
#define RL_MEMBERS_H

#include "commands.h"
#include "core/fence.h"
#include "core/fenced/admission.h"

/* The key of a lock's fence is the lock's key with this suffix. */
#define RL_FENCE_SUFFIX "!fence"

/* Its recent hold times are at the key with this. */
#define RL_HOLD_SUFFIX "!hold"

struct rl_members {
    struct rl_task task;
    struct rl_nodes *nodes;
    struct rl_membership membership;
    struct rl_node_time time[RL_NODES_MAX];
    enum rl_fault refusal[RL_NODES_MAX]; /* of the last command to its marker; or NONE */
    rl_node_set active;    /* nodes whose markers allow them to vote on fenced locks */
    rl_node_set activated; /* of these, the ones that the leases must be told */
    size_t marker_key_len;
    char marker_key[REDLOCK_KEY_MAX + 8];
};

/* For rl_nodes_init(); its `arg` is the struct rl_members. */
extern const struct rl_nodes_handler rl_members_handler;

/* False: no memory. */
bool rl_members_init(struct rl_members *members, struct rl_nodes *nodes);

/* The client uses fenced locks from now on: it sends commands to nodes that do not vote. */
void rl_members_enable(struct rl_members *members);

/*
 * Checks the answer of a node to a command of a fenced lock: a vote counts as unknown if
 * the node's clock is wrong, or if its history is not confirmed (membership.h). If the node
 * refused the command because of its clock or its marker, the client reads the marker
 * again.
 */
void rl_members_check_answer(struct rl_members *members, unsigned node,
                             const struct rl_op *op, struct rl_answer *answer);

/* Why a node has no vote on fenced locks. */
enum rl_fault rl_members_fault(const struct rl_members *members, unsigned node);

/* The node restarted, and still has what it stored before: the operator promised that, and
   its last greeting does not refute it. */
bool rl_members_keeps_data(const struct rl_members *members, unsigned node);

/* False: `ttl` exceeds the deployment's longest TTL. True also if that is not known yet. */
bool rl_members_allow_ttl(const struct rl_members *members, rl_time ttl);

/* Reads all markers, and then starts what an operator requested; see admission.h. */
void rl_members_look(struct rl_members *members);
enum rl_admission_error rl_members_admit(struct rl_members *members,
                                         const struct rl_admission_request *request,
                                         unsigned *ret_node);

#endif
