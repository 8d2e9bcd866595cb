/*
 * libredlock for threads: locks that are waited for.
 *
 * The promise is that of redlock.h, for the threads of this process, too: one owner per key
 * and deployment. A client has a thread of its own, which extends what is held while its
 * owner computes, and speaks to the nodes for all who wait; but if only one does, that may
 * speak to them itself. In one process the owners of a key follow each other in the order
 * in which they asked, and only the first of those who wait asks the nodes; a lock that is
 * still valid goes from one to the next without a round trip.
 *
 * The rules that hold everywhere
 *
 *  1. Units, outputs and codes are those of redlock.h.
 *  2. Threads. Every function may be called from any thread at any time, but for the _free
 *     of a handle, which must be the last call with it. What waits, or unlocks, takes up to
 *     64 KB of stack, and may work for all others meanwhile: for as long as its thread is
 *     not let run, or is in a signal handler, nothing may be sent or extended.
 *  3. Ownership. A hold belongs to the thread that locked. If that thread ends without
 *     having unlocked, the hold is no longer extended: the lock ends by its TTL, and its
 *     successor waits until then, for nobody knows what was left half done. With the option
 *     `any_thread` it belongs to whoever has the handle. Any thread may unlock any hold.
 *  4. Callbacks run in the client's thread, never in one that waits. What waits for nodes
 *     answers REDLOCK_LOOP there, with whichever client; all else is allowed, and the
 *     sooner it returns, the better for all others.
 *  5. After fork() the child's handles are inert: every call answers REDLOCK_FORKED, a hold
 *     is lost, and the free functions only give memory back, as far as that is safe: what
 *     the client worked on, its connections too, stays until the child ends or
 *     calls exec(). What the parent held, it goes on holding. Make a new client. A child
 *     that was forked in a callback must not return from that.
 *  6. Signals. The client's thread takes none. A signal never ends a wait, and a thread
 *     that is cancelled waits to the end.
 *  7. A process that ends without redlock_sync_free() leaves the locks that it holds to
 *     their TTL. What it unlocked is released (redlock_unlock()).
 */
#ifndef REDLOCK_SYNC_H
#define REDLOCK_SYNC_H

#include "redlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REDLOCK_HANDOFFS     16 /* in a row, from thread to thread */
#define REDLOCK_HANDOFFS_MAX (REDLOCK_FENCES_MAX - 1)

/* --- client --- */

typedef struct redlock_sync redlock_sync;

/*
 * A client of these nodes, with its thread. It connects in the background.
 * Errors: those of redlock_client_new().
 */
REDLOCK_API redlock_code redlock_sync_new(const char *const *uris, size_t count,
                                          const redlock_options *options,
                                          redlock_sync **ret_sync,
                                          redlock_error *ret_error);

/*
 * Ends every wait with REDLOCK_CANCELLED, sees to it that what was unlocked is released
 * (for at most one per-node timeout), and ends the thread. Locks that are held then are
 * lost to their owners, and end by their TTL, for an owner may still be at work. Those with
 * the option `release_on_free` are released instead. Holds and stops stay to be freed. It
 * returns when no thread waits any more; but in a callback at once, and the rest is done
 * when that has returned.
 */
REDLOCK_API void redlock_sync_free(redlock_sync *sync);

REDLOCK_API size_t redlock_sync_nodes(const redlock_sync *sync);
REDLOCK_API unsigned redlock_sync_quorum(const redlock_sync *sync);

/*
 * How the nodes stand, as redlock_client_explain(). Writes at most `room`; returns the
 * number of nodes; 0: the client is closed, or this is a callback, or a child.
 */
REDLOCK_API size_t redlock_sync_explain(redlock_sync *sync, redlock_node *nodes,
                                        size_t room);

/* --- giving waits up --- */

/*
 * Ends waits from another thread: all those whose options name it, now and from now on.
 */
typedef struct redlock_stop redlock_stop;

/* Errors: NO_MEMORY, FORKED, CLOSED. */
REDLOCK_API redlock_code redlock_stop_new(redlock_sync *sync, redlock_stop **ret_stop);

/*
 * They end with REDLOCK_CANCELLED, and what had been set for them is released. What is held
 * stays held.
 */
REDLOCK_API void redlock_stop_all(redlock_stop *stop);

/* No wait may have it any more. */
REDLOCK_API void redlock_stop_free(redlock_stop *stop);

/* --- locking --- */

typedef struct redlock_hold redlock_hold;

typedef void redlock_lost_fn(redlock_hold *hold, redlock_code why, int64_t valid_ms,
                             void *arg);

typedef struct redlock_lock_options {
    size_t size; /* set by redlock_lock_options_init() */

    bool fenced;             /* see redlock_lease_options */
    int64_t ttl_ms;          /* a third of it at least is left when it is handed over */
    int64_t min_validity_ms; /* less left when it is acquired or handed over: it is not */
    int64_t margin_ms;       /* LOST is told this long before the deadline */
    bool watchdog;           /* extend at a third of the TTL or a little sooner */
    int64_t max_hold_ms;     /* 0: no bound; else it is not handed over, either */

    bool any_thread;    /* not bound to the thread that locked */
    unsigned handoffs;  /* to other threads in a row, before other processes get a turn */
    redlock_stop *stop; /* ends the wait; NULL: nothing does */

    /*
     * Called once, in the client's thread, if the lock is lost while this owner has it: why
     * (EXPIRED, GONE, TAKEN, MAX_HOLD; CANCELLED: the client was freed), and how long it
     * still excludes others. It may unlock and free the hold. Not called for a thread that
     * has ended.
     */
    redlock_lost_fn *on_lost;
    void *lost_arg;

    /*
     * redlock_sync_free() releases the lock if this owner has it then. Off by default: only
     * for programs that free the client after their owners have stopped. An owner that is
     * still at work would not be alone any more. It holds for what is left on nodes of a
     * lock that was lost and not unlocked, too; not for the lock of a thread that has
     * ended.
     */
    bool release_on_free;
} redlock_lock_options;

/* TTL 30 s, watchdog on, margin 0, REDLOCK_HANDOFFS. */
REDLOCK_API void redlock_lock_options_init(redlock_lock_options *options);

/*
 * Waits for `key` for as long as it takes. The hold is the caller's, to be unlocked and
 * freed. NULL options: the defaults.
 * Errors: CANCELLED, DENIED, BAD_KEY, BAD_TTL, BAD_OPTION, NO_MEMORY, SYSTEM, FORKED,
 * CLOSED, LOOP. It does not fail because nodes are down: it waits for them.
 */
REDLOCK_API redlock_code redlock_lock(redlock_sync *sync, const void *key, size_t key_len,
                                      const redlock_lock_options *options,
                                      redlock_hold **ret_hold);

/*
 * One attempt. TAKEN if another process has it, or if a thread of this one has it or waits
 * for it; then no node is asked. Errors besides: NO_QUORUM, EXPIRED.
 */
REDLOCK_API redlock_code redlock_try_lock(redlock_sync *sync, const void *key,
                                          size_t key_len,
                                          const redlock_lock_options *options,
                                          redlock_hold **ret_hold);

/*
 * Waits at most `wait_ms`, and, if it is the first of its process then, for one last
 * attempt. Errors besides: TIMEOUT, NO_QUORUM, EXPIRED, BAD_OPTION (wait_ms is below 0).
 */
REDLOCK_API redlock_code redlock_lock_for(redlock_sync *sync, const void *key,
                                          size_t key_len, int64_t wait_ms,
                                          const redlock_lock_options *options,
                                          redlock_hold **ret_hold);

/*
 * Why redlock_lock() and the like refuse these: BAD_KEY, BAD_TTL or BAD_OPTION, and in
 * `ret_error` which option it is, its value and its limits. OK: they do not refuse them.
 */
REDLOCK_API redlock_code redlock_lock_explain(const redlock_sync *sync, const void *key,
                                              size_t key_len,
                                              const redlock_lock_options *options,
                                              redlock_error *ret_error);

enum {
    REDLOCK_CONFIRM = 1, /* wait until q nodes confirmed the release, and say so */
};

/*
 * Gives the lock up: to the next thread of this process that waits, else to the nodes. It
 * waits for no node, unless it is to confirm; a lock that was handed over needs no
 * confirmation. How: of the above, or 0. The handle stays, without a lock.
 * The release is written to the nodes' connections before it returns: the process may end
 * right after that, in any way. A node whose connection is down or full just then keeps the
 * key until the client reaches it, or until its TTL ends. In a callback, and while the
 * client's thread is in one and has the loop, the release is written after that callback.
 * Errors: NOT_HELD (unlocked before, or its thread has ended), GONE, TAKEN, EXPIRED,
 * MAX_HOLD (it was lost before; what may be left of it is being released), CLOSED (so it
 * was, as the client was freed; it ends by its TTL, or was released then), UNCONFIRMED,
 * BAD_OPTION, FORKED, LOOP (only to confirm).
 */
REDLOCK_API redlock_code redlock_unlock(redlock_hold *hold, unsigned how);

/*
 * Extends to `ttl_ms` from now (0: the lock's own TTL), and waits for it; see
 * redlock_extend(). Errors besides: BUSY (another thread does so), CLOSED, LOOP, and what
 * redlock_unlock() says of a lock that was lost or given up meanwhile.
 */
REDLOCK_API redlock_code redlock_hold_extend(redlock_hold *hold, int64_t ttl_ms);

/*
 * Frees the handle, and unlocks, if that was not done. It waits for its own on_lost, should
 * that be running: nothing is called after it, and what that used may go.
 */
REDLOCK_API void redlock_hold_free(redlock_hold *hold);

/*
 * Whether the lock was lost or unlocked: one load, to be tested in the innermost loop. It
 * is true as soon as the client knows; redlock_hold_valid_ms() reads the clock,
 * and is true even if the whole process stood still.
 */
REDLOCK_API bool redlock_hold_lost(const redlock_hold *hold);

/*
 * How long the lock is surely held from now on; 0 if it is not. If it was lost because it
 * expired or as its client or its thread ended: how long it still excludes others; 0 if the
 * client released it.
 */
REDLOCK_API int64_t redlock_hold_valid_ms(const redlock_hold *hold);

/* The fencing token of this owner; see redlock_fence(). Each owner has its own. */
REDLOCK_API int64_t redlock_hold_fence(const redlock_hold *hold);

/* The token as it is on the nodes: that of this process. */
REDLOCK_API const char *redlock_hold_token(const redlock_hold *hold);

/* --- doing a thing once for all who want it --- */

/* Does it, while the lock is held, and says how that went: to all who wait for it. */
typedef int redlock_flight_fn(redlock_hold *hold, void *arg);

/*
 * Single flight: of all threads of this process that want `key` at the same time one gets
 * the lock and calls `fly`; the others wait, and get what it returned. Who comes when it
 * has returned begins anew; if it does not get the lock, or its thread ends in `fly`, one
 * of those who wait takes its place. Between processes it is a lock: look first whether
 * another one has done it meanwhile. `fly` looks at its hold, as every owner does: OK says
 * that it was called and returned, not that the lock was held to the end. Waits at most
 * `wait_ms`, below 0: for as long as it takes; who has begun to fly is not interrupted.
 * `ret_flew`, if given: whether it was this thread that flew. `fly` may unlock the hold,
 * and must neither free it nor throw. Errors: those of redlock_lock_for(); BUSY inside
 * `fly`, where it would wait for itself.
 */
REDLOCK_API redlock_code redlock_single_flight(redlock_sync *sync, const void *key,
                                               size_t key_len, int64_t wait_ms,
                                               const redlock_lock_options *options,
                                               redlock_flight_fn *fly, void *arg,
                                               int *ret_returned, bool *ret_flew);

#ifdef __cplusplus
}
#endif

#endif
