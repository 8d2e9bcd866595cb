/*
 * A process lease: a lease on the nodes that goes from owner to owner, thread by thread.
 *
 *     key ----> waiters, in FIFO order; a process lease is acquired for the first one
 *      `------> process lease, a lease on the nodes --> owner, a hold
 *
 * When it is lost, it is detached from its key: it stays with its owner until the owner
 * unlocks, and the key continues with another one. Only process_lease.c changes it.
 */
#ifndef RL_PROCESS_LEASE_H
#define RL_PROCESS_LEASE_H

#include "key.h"

/* All process leases and all keys of a client. */
struct rl_process_leases {
    struct rl_keys keys; /* must be first: a key's `keys` points to it */
    redlock_client *client;
    bool traced; /* there is a `trace` */
    LIST_HEAD(, rl_process_lease) all;
};

enum rl_process_lease_state {
    RL_PROCESS_LEASE_ACQUIRING,
    RL_PROCESS_LEASE_HELD,        /* by its owner */
    RL_PROCESS_LEASE_HANDING_OFF, /* it is extended, and then goes to the first waiter */
    RL_PROCESS_LEASE_RELEASING,   /* the next waiter waits until the release has ended */
    RL_PROCESS_LEASE_LOST,        /* its owner has not unlocked yet */
    RL_PROCESS_LEASE_RETIRED,     /* it has no owner and no key: to be freed */
};

struct rl_process_lease {
    struct rl_job job; /* to free it */
    LIST_ENTRY(rl_process_lease) link;
    struct rl_process_leases *leases;
    struct rl_key *key; /* NULL: detached */
    enum rl_process_lease_state state;
    bool operation_begun; /* that of the state */
    bool abandoned;       /* the lock stays on the nodes until its TTL ends */
    redlock_lease *handle;
    uint64_t number; /* of the handle */
    struct rl_job report_owners;
    /* Owners of which the handle was not told yet, in the order of the hand-offs. Each is
       the lease that its waiter did not need. */
    struct rl_process_lease *next_owner;
    redlock_lock_options options;    /* those of the acquire; ttl_ms follows extensions */
    unsigned handoffs, handoffs_max; /* in a row */
    int64_t fence;                   /* of its first owner */
    unsigned slot;
    char token[REDLOCK_TOKEN_MAX + 1];
    struct rl_until until;
    redlock_hold *owner;
    struct rl_extension *extension; /* the owner waits for it */
    struct rl_wait *confirmation;   /* waits for the end of the release */
    struct rl_unlock *unlock;       /* waits until the release is written */
};

void rl_process_leases_init(struct rl_process_leases *leases, struct rl_loop_owner *loop,
                            redlock_client *client, bool traced);

/* The options of the lease for a thread with these options. */
redlock_lease_options rl_process_lease_options(const redlock_lock_options *options);

/* All with the mutex held, except init(). Its job frees the lease. */
void rl_process_lease_init(struct rl_process_lease *lease, struct rl_process_leases *leases,
                           const redlock_lock_options *options);

/* An owner holds the lock. */
static inline bool rl_process_lease_is_held(const struct rl_process_lease *lease)
{
    return lease && lease->state == RL_PROCESS_LEASE_HELD;
}

/* Enough is left for another owner, or for the same one again. */
bool rl_process_lease_has_left(const struct rl_process_lease *lease,
                               int64_t min_validity_ms);

/* The owner extends the lock to `ttl_ms` from now, and waits for the result. */
redlock_code rl_process_lease_extend(struct rl_process_lease *lease, int64_t ttl_ms);

/* Extends by the lease's own TTL, and turns the owner into a reader. */
redlock_code rl_process_lease_downgrade(struct rl_process_lease *lease);

/*
 * The owner gives up the lock: it goes to the next waiter, or is released. Waits until the
 * release is written, or with `confirm` until q nodes confirmed it.
 */
redlock_code rl_process_lease_give_up(struct rl_process_lease *lease, bool confirm);

/* The thread of the owner has ended: the lock stays until its TTL ends. */
void rl_process_lease_abandon(struct rl_process_lease *lease);

/* The client is being freed: takes every lock from its owner. */
void rl_process_leases_take_all(struct rl_process_leases *leases);

#endif
