/*
 * Admission: an operator gives votes to nodes that have none: a new deployment, a member
 * index for a node that lost it, or another server for a member index. The membership
 * machine (membership.h) does the work.
 */
#ifndef RL_ADMISSION_H
#define RL_ADMISSION_H

#include "membership.h"

enum rl_admission_error {
    RL_ADMISSION_OK,
    RL_ADMISSION_UNREACHED,  /* a node does not reply */
    RL_ADMISSION_NOT_EMPTY,  /* NEW: a node has a marker; REPLACE: the newcomer has one */
    RL_ADMISSION_UNADMITTED, /* READMIT, REPLACE: too few nodes of one deployment */
    /* REPLACE: another member does not vote yet; READMIT with promises: a node does not */
    RL_ADMISSION_MEMBER_INACTIVE,
    RL_ADMISSION_WRONG_DEPLOYMENT, /* a node belongs to another deployment */
    RL_ADMISSION_EMPTY, /* READMIT: a node of a durable deployment lost its data */
};

/*
 * Before an admission begins: reads all markers, because what the client knows may be
 * outdated. IS_LOOKING: not yet all that are greeted were read since then.
 */
void rl_admission_look(struct rl_membership *membership, rl_time now);
bool rl_admission_is_looking(const struct rl_membership *membership, rl_time since);

/*
 * Begins the admission. On an error nothing changes, and `ret_node` is the node that is the
 * cause, or n. `random` is for NEW and AT_ONCE.
 */
enum rl_admission_error rl_admission_begin(struct rl_membership *membership,
                                           const struct rl_admission_request *request,
                                           unsigned *ret_node, uint64_t random,
                                           rl_time now);

enum rl_admission_state {
    RL_ADMISSION_RUNNING,
    RL_ADMISSION_DONE,
    /* NEW, AT_ONCE: another client was first; our markers are removed again. */
    RL_ADMISSION_LOST_RACE,
};

enum rl_admission_state rl_admission_progress(const struct rl_membership *membership);

/*
 * Ends the admission, after the caller reported the outcome to the operator. The operator
 * does not attest losses from then on. After a lost race, the client may bind to the
 * deployment of the winner.
 */
void rl_admission_end(struct rl_membership *membership);

/* The rest of the quarantine of this node; RL_NEVER: it has not begun. */
rl_time rl_membership_quarantine_left(const struct rl_membership *membership, unsigned node,
                                      rl_time now);

/* The request allows that this empty node gets a free member index (safety.md, Durable
   nodes). */
bool rl_admission_allows_empty(const struct rl_membership *membership, unsigned node);

/* The promises that the next marker of this node has. */
uint32_t rl_admission_promises(const struct rl_membership *membership, unsigned node);

/* The node votes, and its marker lacks what the request promises. */
bool rl_admission_has_to_promise(const struct rl_membership *membership, unsigned node);

/* The client read a node's marker. */
void rl_admission_marker_read(struct rl_membership *membership, unsigned node);

#endif
