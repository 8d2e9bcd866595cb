/*
 * Waiting for the lock: when a handle tries again (core/waiter.h), and its entries in the
 * nodes' wait queues. It reads the handle, and changes only its `waiting`.
 */
#ifndef RL_WAITING_H
#define RL_WAITING_H

#include "client/task.h"
#include "core/types.h"
#include "core/waiter.h"
#include "redlock/redlock.h"

struct rl_command_args;

struct rl_waiting {
    uint64_t number; /* in notifications; 0: it was never queued on a node */
    union {
        rl_time began; /* the acquire: wait_ms counts from then on; or the release */
        int64_t extend_ttl_ms; /* between the two: an extension; 0: the TTL of the lease */
    };
    union {
        rl_time next_attempt; /* during an attempt: by a notification; RL_NEVER: none */
        rl_time extend_began; /* when the acquire has ended: the last extension */
    };
    struct rl_waiter waiter;
    unsigned attempts; /* that have begun; it wraps */
    /* Of a set: the key in whose queue it is, and the one whose queue it leaves; or
       RL_NO_KEY. */
    uint8_t queue_at, queue_from;
    /* Of a semaphore: the slot that the next attempt is for, 0: any; and how many attempts
       in a row were for a slot that seemed free. */
    uint8_t slot, searches;
    bool has_queue;  /* since its last attempt, `queue_at` is chosen */
    bool joins_tail; /* the first attempt only joins the wait queue (hand_over.h) */
};

/* When to try again after a failed attempt; RL_NEVER: not again. */
rl_time rl_waiting_next_attempt(redlock_lease *lease);

/* Of a semaphore: the slot that the next attempt is for. */
unsigned rl_waiting_slot(redlock_lease *lease);

/* An attempt begins. */
void rl_waiting_attempt(redlock_lease *lease);

/* The time by the caller's retry policy alone. */
rl_time rl_waiting_policy(redlock_lease *lease);

/* When the last attempt begins; RL_NEVER: the wait has no end. */
rl_time rl_waiting_end(const redlock_lease *lease);

/* The wait time has ended. */
bool rl_waiting_is_over(const redlock_lease *lease);

/* Callbacks of the handle's class (client/task.h, attempt.h). */
bool rl_waiting_notified(struct rl_task *task, unsigned node, unsigned position,
                         unsigned slot);
void rl_waiting_event(struct rl_task *task, enum rl_task_event event, unsigned node);
void rl_waiting_queued(struct rl_task *task, unsigned node, rl_time sent);
void rl_waiting_set_args(struct rl_task *task, enum rl_command command,
                         struct rl_command_args *args);

#endif
