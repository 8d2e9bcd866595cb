/*
 * A key, or a set of keys, among the threads of a process: the queue of threads that wait
 * for it, in FIFO order, and its process lease. Threads that want different sets with a
 * common key meet on the nodes, as processes do. Only key.c changes it.
 */
#ifndef RL_KEY_H
#define RL_KEY_H

#include "hold.h"

#define RL_BUCKETS        1024
#define RL_IDLE_MAX       64   /* unused keys that remember that other processes wait */
#define RL_OTHERS_WAIT_MS 1000 /* for how long a key remembers it */

struct rl_key;

/* All keys of a client. */
struct rl_keys {
    struct rl_loop_owner *loop;
    uint64_t seed; /* random: nobody can choose keys that share a bucket */
    void (*advance)(struct rl_key *key);        /* called by the loop owner */
    LIST_HEAD(, rl_key) bucket[RL_BUCKETS + 1]; /* the last one: those that are `alone` */
    TAILQ_HEAD(, rl_key) idle;
    unsigned idle_count;
};

struct rl_key {
    struct rl_job job; /* calls advance() */
    struct rl_keys *keys;
    LIST_ENTRY(rl_key) in_bucket;
    TAILQ_ENTRY(rl_key) in_idle;
    bool idle;
    bool alone; /* a reader's: for one waiter only, and not found */
    TAILQ_HEAD(, rl_key_waiter) waiters;
    struct rl_key_waiter *served; /* the lease is acquired for this one; NULL: it ended */
    struct rl_process_lease *lease;
    int64_t others_wait_until; /* another process waited at the last release */
    size_t count;              /* of `of`; their bytes follow */
    redlock_key of[];          /* sorted */
};

struct rl_key_waiter {
    struct rl_wait wait;
    TAILQ_ENTRY(rl_key_waiter) link;
    struct rl_key *key;
    const redlock_lock_options *options;
    redlock_hold *hold;             /* gets the lock */
    struct rl_process_lease *lease; /* allocated in case an acquire is needed; NULL: used */
    int64_t deadline;
    bool one_attempt;
    const char *token; /* to adopt; NULL: it acquires the lock */
    bool timed;        /* `valid` is known: the adopted lock must be extended before it */
    struct rl_until valid;
};

void rl_keys_init(struct rl_keys *keys, struct rl_loop_owner *loop,
                  void (*advance)(struct rl_key *key));
void rl_keys_free_all(struct rl_keys *keys);

/*
 * Puts a key where it belongs among the `count` before it, bytewise, and its number `count`
 * into `order`. False: it is there already.
 */
bool rl_key_insert(redlock_key *of, size_t count, redlock_key key, uint8_t *order);

/* NULL: no thread uses this set. */
struct rl_key *rl_key_find(const struct rl_keys *keys, const redlock_key *of, size_t count);

/* Also creates it if there is none; `alone`: in any case. NULL: no memory. */
struct rl_key *rl_key_get(struct rl_keys *keys, const redlock_key *of, size_t count,
                          bool alone);

/* The key is this set, which is sorted. */
bool rl_key_is_of(const struct rl_key *key, const redlock_key *of, size_t count);

/* Has the loop owner call advance(). */
void rl_key_schedule(struct rl_key *key);

/* Frees a key that no thread and no lease uses, at once or later. */
void rl_key_retire(struct rl_key *key);

/* --- its waiters --- */

void rl_key_join(struct rl_key_waiter *waiter);

/* Ends a wait: removes it from the queue, and wakes it. */
void rl_key_answer(struct rl_key_waiter *waiter, redlock_code code);

/* Another thread than the loop owner ends a wait: an acquire may be under way for it. */
void rl_key_dismiss(struct rl_key_waiter *waiter, redlock_code code);

/* Dismisses, with CANCELLED, the waiters whose options name this stop; `all`: every one. */
void rl_keys_dismiss(struct rl_keys *keys, const redlock_stop *stop, bool all);

/* --- for its process lease --- */

/* Sets the key's lease, which is acquired for `served`; removes it from the key. */
void rl_key_attach(struct rl_key *key, struct rl_process_lease *lease,
                   struct rl_key_waiter *served);
void rl_key_detach(struct rl_key *key);

/* The acquire has ended: the waiter that it was for. NULL: that waiter has ended. */
struct rl_key_waiter *rl_key_end_serving(struct rl_key *key);

/* The lock was released. `others`: another process waits for it, or waited just before. */
void rl_key_note_release(struct rl_key *key, bool others);

#endif
