/* A hold: the handle of the owner of a lock. Only hold.c changes it. */
#ifndef RL_HOLD_H
#define RL_HOLD_H

#include "loop_owner.h"
#include "redlock/sync.h"
#include "thread.h"

struct rl_process_lease;

/* Returned and not yet freed (handles), and not yet unlocked (levels). */
struct rl_uses {
    uint32_t handles, levels;
};

/* How a lock or an operation ended. */
struct rl_end {
    redlock_code code;
    redlock_reason reason;
};

struct redlock_hold {
    struct rl_job report; /* calls on_lost */
    struct rl_loop_owner *loop;
    struct rl_process_lease *lease; /* NULL: it has none */
    struct rl_end end;              /* OK: it holds the lock; otherwise why it does not */
    redlock_lock_options options;
    atomic_bool lost;
    _Atomic int64_t boot, unslewed; /* its deadline: struct rl_until */
    int64_t fence;
    uint64_t number;
    unsigned slot;
    uint8_t order[REDLOCK_KEYS_MAX]; /* the caller's number of each sorted key */
    char token[REDLOCK_TOKEN_MAX + 1];
    struct rl_end why;   /* for on_lost */
    redlock_node *nodes; /* as the lock was lost; NULL: it was not, or no memory */
    size_t node_count;
    bool in_callback;          /* on_lost is running */
    bool freed;                /* while on_lost was running */
    struct rl_binding binding; /* to the thread that locked, unless any_thread is set */
    struct rl_thread *thread;  /* the same; NULL: none, or it has ended */
    _Atomic(struct rl_uses) uses;
};

redlock_hold *rl_hold_new(struct rl_loop_owner *loop, const redlock_lock_options *options);

static inline bool rl_hold_is_ours(const redlock_hold *hold)
{
    return rl_loop_owner_is_ours(hold->loop);
}

static inline struct rl_uses rl_hold_uses(redlock_hold *hold)
{
    struct rl_uses uses = atomic_load(&hold->uses);
    return uses;
}

/*
 * No mutex is needed. No level is added after the last one was removed. rl_hold_drop()
 * removes a handle, and its level unless that was removed before. Leaving and dropping
 * return the uses before.
 */
bool rl_hold_enter(redlock_hold *hold);
struct rl_uses rl_hold_leave(redlock_hold *hold);
struct rl_uses rl_hold_drop(redlock_hold *hold);

/* Frees it, without the mutex. The hold must have no lease and no other user. */
void rl_hold_delete(redlock_hold *hold);

/* --- with the mutex held --- */

/* Gives the process lease to the hold; takes it from the hold. */
void rl_hold_attach(redlock_hold *hold, struct rl_process_lease *lease, uint64_t number,
                    int64_t fence, unsigned slot, const char *token);
void rl_hold_detach(redlock_hold *hold);

/* Sets the deadline that other threads read. */
void rl_hold_set_deadline(redlock_hold *hold, struct rl_until until);

/*
 * Explains the lease; a key has the number that the hold's caller gave it. NULL: no hold,
 * and the numbers are those of the lease. Writes all nodes, and returns their number.
 */
size_t rl_hold_nodes(const redlock_hold *hold, const redlock_lease *lease,
                     redlock_node *ret_nodes);

/* Copies at most `room` of them to a caller whose nodes have this size. */
void rl_nodes_put(const redlock_node *from, size_t count, redlock_node *ret_nodes,
                  size_t room, size_t size);

/* Keeps the nodes of the lease, which is lost, for as long as the hold. */
void rl_hold_keep_nodes(redlock_hold *hold, const redlock_lease *lease);

/* Marks the hold as lost for this reason; schedules its on_lost. */
void rl_hold_lose(redlock_hold *hold, struct rl_end why);
void rl_hold_report_lost(redlock_hold *hold, struct rl_end why);

/* Cancels its scheduled on_lost. */
void rl_hold_withdraw_report(redlock_hold *hold);

/* Waits until its on_lost has returned, unless in a callback. True: it may be deleted. */
bool rl_hold_finish_report(redlock_hold *hold);

#endif
