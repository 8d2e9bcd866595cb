/*
 * The task of an attempt: steps its lease machine, passes on its reports, and sends what it
 * wants sent. The first attempt of a handle shares the handle's task.
 */
#ifndef RL_ATTEMPT_TASK_H
#define RL_ATTEMPT_TASK_H

#include "attempt.h"

/* Makes a separate attempt with the same config and key. NULL: no memory. */
struct rl_attempt *rl_attempt_another(const struct rl_attempt *attempt);

void rl_attempt_step(struct rl_attempt *attempt, const struct rl_lease_event *event);

/* The steps RELEASE and DISOWN; after them it does not hold the lock. */
void rl_attempt_release(struct rl_attempt *attempt);
void rl_attempt_disown(struct rl_attempt *attempt);

/* Nothing is left to report; only the cleanup of an unconfirmed release may still run. */
bool rl_attempt_is_past(const struct rl_attempt *attempt);

/* Detaches the owner. What may be left on the nodes is released in the background. */
void rl_attempt_leave(struct rl_attempt *attempt);

/* The callbacks of its task (client/task.h); the handle's task uses them, too. */
void rl_attempt_tick(struct rl_task *task);
void rl_attempt_expire(struct rl_task *task);
void rl_attempt_event(struct rl_task *task, enum rl_task_event event, unsigned node);
void rl_attempt_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                       const struct rl_reply *reply);
void rl_attempt_answer_late(struct rl_task *task, unsigned node, const struct rl_op *op,
                            const struct rl_reply *reply);
bool rl_attempt_is_releasing(struct rl_task *task);
void rl_attempt_close(struct rl_task *task);

#endif
