/*
 * An attempt: a lease machine of the core with its key and token. The client sends its
 * commands to the nodes. The first attempt of a handle is embedded in the handle and shares
 * its task. Later attempts are separate objects.
 */
#ifndef RL_ATTEMPT_H
#define RL_ATTEMPT_H

#include "config.h"
#include "key_set.h"

/*
 * The class of a task that has an attempt. An attempt calls the last three with the task of
 * its owner, the handle.
 */
struct rl_attempt_class {
    struct rl_task_class task;          /* must be first: the task points to it */
    void (*over)(struct rl_task *task); /* its attempt is over, and has no owner */
    void (*report)(struct rl_task *owner, unsigned reports); /* enum rl_report, but for
                                                                 NOT_RENEWED */
    /* Sets in a command's arguments how long the owner has waited, and whether it stays in
       the wait queue or leaves. */
    void (*set_waiting)(struct rl_task *owner, enum rl_command command,
                        struct rl_command_args *args);
    /* The node put the owner into its wait queue, by a command sent at `sent`. */
    void (*queued)(struct rl_task *owner, unsigned node, rl_time sent);
};

struct rl_attempt {
    struct rl_task task;   /* its class is an rl_attempt_class */
    struct rl_task *owner; /* the handle's task, which gets the reports; NULL: none */
    struct rl_lease_config *config;
    char (*value)[REDLOCK_TOKEN_MAX +
                  1]; /* other holders' values per node; NULL: none seen */
    uint32_t number;  /* rl_record_lease(), for the flight recorder */
    unsigned key_len : 11;
    unsigned token_len : 8;
    unsigned slot : 8;           /* of a semaphore: which one; 0: none is chosen yet */
    unsigned has_waiters : 1;    /* other waiters were queued when it was released */
    unsigned fails_to_renew : 1; /* the watchdog's last try failed */
    rl_time held_since;          /* telemetry.h; 0: it is not held */
    struct rl_lease lease;
    /* Its room holds: the set if it has one, fences and the proposed one if it is fenced,
       ballots, key, fence key suffix, token. */
};

static inline char *rl_attempt_texts(const struct rl_attempt *attempt)
{
    return (char *)(attempt->lease.ballot + attempt->lease.params->n);
}

/* What a slot adds to the key: "!1" to "!128". */
static inline size_t rl_attempt_slot_len(unsigned slot)
{
    return slot == 0 ? 0 : slot < 10 ? 2 : slot < 100 ? 3 : 4;
}

/* The key, of a semaphore without the slot. */
static inline struct rl_word rl_attempt_base(const struct rl_attempt *attempt)
{
    return (struct rl_word){rl_attempt_texts(attempt),
                            attempt->key_len - rl_attempt_slot_len(attempt->slot)};
}

/* NULL: it has one key. */
struct rl_key_set *rl_attempt_set(const struct rl_attempt *attempt);

/* The bytes that an attempt needs for its room, which follows it in the same block. */
size_t rl_attempt_room(const struct rl_lease_config *config, size_t key_len,
                       size_t token_len);

/*
 * The attempt and its room must be zeroed. The caller sets up the task; the task's
 * destroy() must call rl_attempt_clear().
 */
void rl_attempt_init(struct rl_attempt *attempt, struct rl_lease_config *config, void *room,
                     struct rl_word key, struct rl_key_set *set, size_t token_len);
void rl_attempt_clear(struct rl_attempt *attempt);

/* Makes a separate attempt with the same config and key. NULL: no memory. */
struct rl_attempt *rl_attempt_another(const struct rl_attempt *attempt);

/*
 * Sets the owner; call it before the first step. Returns the buffer for the token, which
 * has room for `token_len` bytes and a NUL.
 */
char *rl_attempt_own(struct rl_attempt *attempt, struct rl_task *owner);

char *rl_attempt_token(const struct rl_attempt *attempt);

/* Of a semaphore: whether the slot is free on the node, as the release was told. */
bool rl_attempt_sees_free(const struct rl_attempt *attempt, unsigned node, unsigned slot);

/* Of a semaphore, before rl_attempt_own(): the key gets the number of the slot. */
void rl_attempt_choose_slot(struct rl_attempt *attempt, unsigned slot);

/* The attempt goes on with this config, which differs in the kind of lock only: its
   readers' kind instead of its writers'. */
void rl_attempt_downgrade(struct rl_attempt *attempt, struct rl_lease_config *shared);

/* What the flight recorder shows of it. */
void rl_attempt_describe(const struct rl_attempt *attempt, struct rl_lease_line *ret_line);

void rl_attempt_step(struct rl_attempt *attempt, const struct rl_lease_event *event);

/* The steps RELEASE and DISOWN; after them it does not hold the lock. */
void rl_attempt_release(struct rl_attempt *attempt);
void rl_attempt_disown(struct rl_attempt *attempt);

/* The owner does not wait any more: removes its entries from the wait queues of these
   nodes, and leaves the lock as it is. */
void rl_attempt_withdraw(struct rl_attempt *attempt, rl_node_set nodes);

/* Nothing is left to report; only the cleanup of an unconfirmed release may still run. */
bool rl_attempt_is_past(const struct rl_attempt *attempt);

/* Detaches the owner. What may be left on the nodes is released in the background. */
void rl_attempt_leave(struct rl_attempt *attempt);

/* The callbacks of its task (client.h); the handle's task uses them, too. */
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
