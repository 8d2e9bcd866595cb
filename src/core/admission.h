/*
 * Admission: what an operator makes of nodes that do not vote yet: a deployment, a seat for
 * whoever lost it, or another server in one's seat. The steward does the work.
 */
#ifndef RL_ADMISSION_H
#define RL_ADMISSION_H

#include "steward.h"

enum rl_refusal {
    RL_REFUSAL_NONE,
    RL_REFUSAL_UNSEEN,   /* not all nodes answer */
    RL_REFUSAL_USED,     /* NEW: a marker is there; REPLACE: the newcomer has one */
    RL_REFUSAL_UNMARKED, /* WAIT, REPLACE: too few nodes of one deployment */
    RL_REFUSAL_UNSOUND,  /* REPLACE: another node has not got its vote back yet */
    RL_REFUSAL_MEMBERS,  /* a node belongs to another deployment */
};

/*
 * Begins, if that can be; else nothing has changed. `node`: the refusing one, or the
 * newcomer of REPLACE; `max_ttl_ms` and `random`: of NEW.
 */
enum rl_refusal rl_steward_admit(struct rl_steward *steward, enum rl_admission how,
                                 unsigned *node, int64_t max_ttl_ms, uint64_t random,
                                 rl_time now);

enum rl_progress {
    RL_PROGRESS_OPEN,
    RL_PROGRESS_DONE,
    RL_PROGRESS_FAILED, /* NEW: somebody else was first; what was written is gone again */
};

enum rl_progress rl_steward_progress(const struct rl_steward *steward);

/*
 * The operator has been told how it ended: what is lost from now on he does not vouch for,
 * and who was outrun may be bound to the winner's deployment.
 */
void rl_admission_end(struct rl_steward *steward);

/* How much longer the quarantine of this node lasts; RL_NEVER: it has not begun. */
rl_time rl_steward_left(const struct rl_steward *steward, unsigned node, rl_time now);

/* The steward's side: a node's marker was seen. */
void rl_admission_learned(struct rl_steward *steward, unsigned node);

#endif
