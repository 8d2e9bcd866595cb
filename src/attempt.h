/*
 * An attempt: a lease of the core with its key and token, spoken to the nodes by a client.
 * The first one of a handle is a part of it, and has the task of both; later ones are
 * alone.
 */
#ifndef RL_ATTEMPT_H
#define RL_ATTEMPT_H

#include "wish.h"

struct rl_attempt {
    struct rl_task task;
    redlock_lease *owner; /* who is told; NULL: nobody */
    struct rl_wish *wish;
    char (*value)[REDLOCK_TOKEN_MAX + 1]; /* others' values per node; NULL: none was seen */
    rl_time proposed;                     /* the nodes' time when it was asked for */
    uint16_t key_len;
    uint8_t token_len;
    bool awaited; /* others waited when it was released */
    struct rl_lease lease;
    /* In its room: fences, if it is fenced; ballots; key, mark of a fence key, token. */
};

/* How much room it needs, behind it in the same block. */
size_t rl_attempt_room(const struct rl_wish *wish, size_t key_len, size_t token_len);

/*
 * Its memory is zeroed, with its room. Its task is left to the caller, and destroys it by
 * rl_attempt_clear().
 */
void rl_attempt_init(struct rl_attempt *attempt, struct rl_wish *wish, void *room,
                     struct rl_word key, size_t token_len);
void rl_attempt_clear(struct rl_attempt *attempt);

/* One more like this, alone; NULL: no memory. */
struct rl_attempt *rl_attempt_another(const struct rl_attempt *attempt);

/* Before its first step: who is told. Returns where the token goes, as long as was said. */
char *rl_attempt_own(struct rl_attempt *attempt, redlock_lease *owner);

const char *rl_attempt_token(const struct rl_attempt *attempt);

void rl_attempt_step(struct rl_attempt *attempt, const struct rl_lease_event *event);

/* The owner does not wait any more: it leaves the queues. */
void rl_attempt_withdraw(struct rl_attempt *attempt);

/* All is told: only a release that was not confirmed everywhere may go on. */
bool rl_attempt_is_past(const struct rl_attempt *attempt);

/* The owner goes. What may be left on the nodes is released in the background. */
void rl_attempt_leave(struct rl_attempt *attempt);

/* What its task does (client.h), if it is a handle's, too. */
void rl_attempt_tick(struct rl_task *task);
void rl_attempt_expire(struct rl_task *task);
void rl_attempt_forgot(struct rl_task *task, unsigned node);
void rl_attempt_ready(struct rl_task *task, unsigned node);
void rl_attempt_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                       const struct rl_reply *reply);
bool rl_attempt_unsettled(struct rl_task *task);
void rl_attempt_close(struct rl_task *task);

/* The owner's side (handle.c, turns.c): news to be told, now or at the end of the pass. */
void rl_owner_note(redlock_lease *owner, unsigned news);

/* A release says whether the owner goes on waiting. */
void rl_owner_place(redlock_lease *owner, struct rl_subject *subject);
void rl_owner_placed(redlock_lease *owner, unsigned node, rl_time sent);

#endif
