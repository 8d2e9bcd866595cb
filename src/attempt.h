/* An attempt: a lease of the core with its key and token, spoken to the nodes by a client.
 */
#ifndef RL_ATTEMPT_H
#define RL_ATTEMPT_H

#include "wish.h"

struct rl_attempt {
    struct rl_task task;
    redlock_lease *owner; /* who is told; NULL: nobody */
    struct rl_wish *wish;
    struct rl_lease lease;
    char (*value)[REDLOCK_TOKEN_MAX + 1]; /* others' values per node; NULL: none was seen */
    struct rl_word key, token;
    struct rl_word fence_key; /* of a fenced lock, as the next */
    rl_time proposed;         /* the nodes' time when it was asked for */
    bool awaited;             /* others waited when it was released */
    int64_t fence[]; /* of a fenced lock's grants; then ballots, key, fence key, token */
};

/* NULL: no memory. */
struct rl_attempt *rl_attempt_new(redlock_client *client, redlock_lease *owner,
                                  struct rl_wish *wish, struct rl_word key,
                                  struct rl_word token);

void rl_attempt_step(struct rl_attempt *attempt, const struct rl_lease_event *event);

/* The owner does not wait any more: it leaves the queues. */
void rl_attempt_withdraw(struct rl_attempt *attempt);

/* All is told: only a release that was not confirmed everywhere may go on. */
bool rl_attempt_is_past(const struct rl_attempt *attempt);

/* The owner goes. What may be left on the nodes is released in the background. */
void rl_attempt_leave(struct rl_attempt *attempt);

/* The owner's side (handle.c, turns.c): news to be told, now or at the end of the pass. */
void rl_owner_note(redlock_lease *owner, unsigned news);

/* A release says whether the owner goes on waiting. */
void rl_owner_place(redlock_lease *owner, struct rl_subject *subject);
void rl_owner_placed(redlock_lease *owner, unsigned node, rl_time sent);

#endif
