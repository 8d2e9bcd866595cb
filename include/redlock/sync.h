/*
 * libredlock for threads: blocking locks.
 *
 * The promise is that of redlock.h, and it also covers the threads of this process: one
 * owner per key and deployment. A client has its own thread. This thread extends held locks
 * while their owners compute, and sends the commands of all waiting threads. A thread that
 * waits alone may send them itself. In one process the owners of a key follow each other in
 * the order in which they asked. Only the first waiting thread contacts the nodes. A lock
 * that is still valid goes from one owner to the next without a round trip.
 *
 * The rules that hold everywhere
 *
 *  1. Units, outputs and codes are those of redlock.h. redlock_last_error() is that of the
 *     thread that called, also if another thread did the work; if another owner has the
 *     lock, it names that owner.
 *  2. Threads. Every function may be called from any thread at any time: a client may be
 *     made in one thread and used by others, also by later ones. Exception: the
 *     _free function of a handle must be the last call with that handle. A call that waits
 *     or unlocks uses up to 64 KB of stack. A blocked caller may run the client's event
 *     loop on behalf of all callers. While that thread is descheduled, or is in a signal
 *     handler, it can happen that the client sends and extends nothing.
 *  3. Ownership. A hold belongs to the thread that locked. If that thread ends without
 *     unlocking, the client no longer extends the lock: it ends when its TTL ends. The next
 *     owner waits until then, because the ended thread may have left work half done. With
 *     the option `any_thread` the hold belongs to the thread that has the handle. Any
 *     thread may unlock any hold.
 *  4. Callbacks run in the client's thread, never in a waiting thread. In a callback, every
 *     call that waits for nodes returns REDLOCK_WOULD_DEADLOCK, with any client. All other
 *     calls are allowed. A callback should return soon: until then it may delay all others.
 *  5. After fork() the child's handles are inert: every call returns REDLOCK_FORKED, and a
 *     hold is lost. The free functions only free memory, where that is safe. Memory that
 *     the client was using, and its descriptors, stay until the child ends or calls exec().
 *     The parent keeps the locks that it held. The child has to create a new client. A
 *     child that was forked in a callback must not return from that callback.
 *  6. Signals. The client's thread receives no signals. A signal never ends a wait. A
 *     thread that is cancelled waits to the end.
 *  7. If a process ends without redlock_sync_free(), the locks that it holds stay until
 *     their TTL ends. What it unlocked is released (redlock_unlock()).
 */
#ifndef REDLOCK_SYNC_H
#define REDLOCK_SYNC_H

#include "redlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REDLOCK_HANDOFFS     16 /* in a row, from thread to thread */
#define REDLOCK_HANDOFFS_MAX 63
#define REDLOCK_DEPTH_MAX    1000000 /* how often one thread may lock with `recursive` */

/* --- client --- */

typedef struct redlock_sync redlock_sync;

/*
 * Creates a client of these nodes, with its thread. It connects in the background. NULL
 * options: the defaults.
 * Errors: those of redlock_client_new().
 */
REDLOCK_API redlock_code redlock_sync_new(const char *const *uris, size_t count,
                                          const redlock_options *options,
                                          redlock_sync **ret_sync);

/*
 * Ends every wait with REDLOCK_CANCELLED, completes the releases of what was unlocked (for
 * at most one per-node timeout), and ends the thread. Locks that are held at that moment
 * are lost to their owners. They stay until their TTL ends, because an owner may still be
 * at work. Locks with the option `release_on_free` are released instead. The caller still
 * has to free its holds and stops. The function returns when no thread waits any more. In a
 * callback of any client it returns at once, because two callbacks could wait for each
 * other: the client's thread does the rest, and its callbacks may still run.
 */
REDLOCK_API void redlock_sync_free(redlock_sync *sync);

/* The number of nodes, and of those that a quorum needs. The client must not be NULL. */
REDLOCK_API size_t redlock_sync_nodes(const redlock_sync *sync);
REDLOCK_API unsigned redlock_sync_quorum(const redlock_sync *sync);

/*
 * The state of the nodes, as redlock_client_explain(). Writes at most `room` elements;
 * returns the number of nodes. 0: the client is closed, or the call is made in a callback
 * or in a forked child.
 */
REDLOCK_API size_t redlock_sync_explain_sized(redlock_sync *sync, redlock_node *nodes,
                                              size_t room, size_t size);
static inline size_t redlock_sync_explain(redlock_sync *sync, redlock_node *nodes,
                                          size_t room)
{
    return redlock_sync_explain_sized(sync, nodes, room, sizeof(*nodes));
}

/*
 * The flight recorder's text, as redlock_client_record(). Writes a string of at most `room`
 * bytes; returns the length of the whole text. 0: the client is closed, or the call is made
 * in a callback or in a forked child; then it writes nothing.
 */
REDLOCK_API size_t redlock_sync_record(redlock_sync *sync, char *text, size_t room);

/* --- ending waits --- */

/*
 * A stop ends waits from another thread: all waits whose options name it, the present ones
 * and all later ones.
 */
typedef struct redlock_stop redlock_stop;

/* Errors: NO_MEMORY, FORKED, CLOSED. */
REDLOCK_API redlock_code redlock_stop_new(redlock_sync *sync, redlock_stop **ret_stop);

/*
 * Ends these waits with REDLOCK_CANCELLED, and releases what was set for them. Locks that
 * are held stay held.
 */
REDLOCK_API void redlock_stop_all(redlock_stop *stop);

/* Frees the stop. No present or later wait may name it. */
REDLOCK_API void redlock_stop_free(redlock_stop *stop);

/* --- why a lock was not acquired --- */

/*
 * Why a call to lock failed, in more detail than redlock_last_error(): who has the lock and
 * for how long, and what each node replied. The caller owns it, and names it in the options
 * of one call at a time. The client fills it in before the call returns.
 */
typedef struct redlock_failure {
    size_t size, node_size; /* set by redlock_failure_init() */
    /*
     * As redlock_last_error(), of the thread that called, until its next call that has a
     * `failure`, or its end. Never NULL; its code is OK if the call succeeded.
     */
    const redlock_error *error;
    /* Time until the lock can be free, in ms, or REDLOCK_UNKNOWN. */
    int64_t remaining_ms;
    char holder[REDLOCK_TOKEN_MAX + 1]; /* its label, as in redlock_node; "": not known */
    redlock_node *nodes; /* room for the nodes' replies, set by the caller; or NULL */
    size_t room, count;  /* of elements; count: those that were written */
} redlock_failure;

/* Also sets `nodes` to NULL: no room for the nodes' replies. */
REDLOCK_API void redlock_failure_init_sized(redlock_failure *failure, size_t size,
                                            size_t node_size);
static inline void redlock_failure_init(redlock_failure *failure)
{
    redlock_failure_init_sized(failure, sizeof(*failure), sizeof(redlock_node));
}

/* --- locking --- */

typedef struct redlock_hold redlock_hold;

typedef void redlock_lost_fn(redlock_hold *hold, redlock_code why, redlock_reason reason,
                             int64_t valid_ms, void *arg);

typedef struct redlock_lock_options {
    size_t size; /* set by redlock_lock_options_init() */

    bool fenced;             /* see redlock_lease_options */
    int64_t ttl_ms;          /* at a hand-off at least a third of it is left */
    int64_t min_validity_ms; /* with less left, neither acquired nor handed off */
    int64_t margin_ms;       /* the client calls on_lost this long before the deadline */
    bool watchdog;           /* extend after a third of the TTL, or a little earlier */
    int64_t max_hold_ms;     /* or REDLOCK_UNLIMITED; with a limit, no hand-offs */

    bool any_thread;    /* the hold is not bound to the thread that locked */
    unsigned handoffs;  /* to other threads in a row, before other processes may acquire */
    redlock_stop *stop; /* ends the wait; NULL: nothing does */

    /*
     * Called once, in the client's thread, if the lock is lost while this owner has it.
     * `why` and `reason` say why. `valid_ms` is how long the lock still excludes others.
     * The callback may unlock the hold, and free it unless it is that of a single flight.
     * It may run before the call that locked has returned: if it frees the hold then, that
     * call returns OK, and its caller must not use the hold. It is not called for a thread
     * that has ended. Results: EXPIRED, GONE, TAKEN, MAX_HOLD, CANCELLED (the client was
     * freed).
     */
    redlock_lost_fn *on_lost;
    void *lost_arg;

    /*
     * If this owner has the lock when redlock_sync_free() is called, the client releases
     * it. Off by default. Only for programs that free the client after their owners have
     * stopped: an owner that is still at work would not be the only one any more. It also
     * applies to what is left on the nodes of a lock that was lost and not unlocked. It
     * does not apply to the lock of a thread that has ended.
     */
    bool release_on_free;

    redlock_failure *failure; /* written by each call that locks; may be NULL */
    int64_t fence;            /* for redlock_lock_adopt(): the fencing token, or NO_FENCE */

    /*
     * If the calling thread has the lock already, the call returns the same hold once more,
     * whatever options it was locked with. It costs no round trip while a third of the TTL
     * and `min_validity_ms` are left; otherwise the client first extends the lock to the
     * longer of the two TTLs. The hold must be unlocked, and freed, as often as it was
     * returned; the last time gives up the lock. The nodes know nothing of it. If it
     * was lost, the call acquires it anew, with another hold: the lost one stays lost.
     * Errors besides those of the call: BAD_OPTION (with `any_thread`; with `fenced`, and
     * the lock is not), BUSY (more than REDLOCK_DEPTH_MAX times, or another thread is
     * extending it), NOT_HELD (another thread is unlocking it), and those of
     * redlock_hold_extend().
     */
    bool recursive;
    /*
     * The kind of lock: see redlock/kinds.h. A RECORD cannot be chosen here. A lock that
     * is SHARED, a SLOT or an ELECTION is never handed to another thread.
     *
     * SHARED: each reader has a lease of its own. A thread that has the lock as a reader
     * cannot lock it as a writer: WOULD_DEADLOCK, at once; with `any_thread` nobody knows
     * who has it, and the call waits. With `recursive` a thread that has the lock, as a
     * reader or as a writer, gets the same hold once more. Without, a thread must not read
     * what it reads already: a writer that waits in between would wait for the first hold,
     * and the second reader for that writer.
     *
     * SLOT: a thread may hold several slots, so `recursive` is refused.
     *
     * ELECTION: who has the hold leads; on_lost says that it does not lead any more, and
     * unlocking resigns.
     */
    redlock_kind kind;
    unsigned slots; /* see redlock_lease_options */

    /*
     * Given back in spans and events, as that of redlock_lease_options. The span "hold" is
     * that of this owner. The other spans are of operations on the nodes: a thread that
     * gets the lock from another thread has no span "acquire". Spans may still come after
     * the call that failed to lock, or that unlocked, until the client is freed.
     */
    void *user;
} redlock_lock_options;

/* TTL 30 s, watchdog on, REDLOCK_HANDOFFS; else 0, NULL and false. */
REDLOCK_API void redlock_lock_options_init_sized(redlock_lock_options *options,
                                                 size_t size);
static inline void redlock_lock_options_init(redlock_lock_options *options)
{
    redlock_lock_options_init_sized(options, sizeof(*options));
}

/*
 * Waits for `key` without a limit. The caller has to unlock and free the hold. NULL
 * options: the defaults, in each call that takes these. The function does not fail because
 * nodes are down: it waits for them. A thread that has the lock and locks it again without
 * `recursive` waits until another thread unlocks it.
 * Errors: CANCELLED, DENIED, BAD_KEY, BAD_TTL, BAD_OPTION, NO_MEMORY, SYSTEM, FORKED,
 * CLOSED, WOULD_DEADLOCK.
 */
REDLOCK_API redlock_code redlock_lock(redlock_sync *sync, const void *key, size_t key_len,
                                      const redlock_lock_options *options,
                                      redlock_hold **ret_hold);

/*
 * Makes one attempt. TAKEN: another process has the lock; or a thread of this process has
 * it or waits for it, and then the client sends nothing.
 * Errors: those of redlock_lock(), TAKEN, NO_QUORUM, EXPIRED.
 */
REDLOCK_API redlock_code redlock_try_lock(redlock_sync *sync, const void *key,
                                          size_t key_len,
                                          const redlock_lock_options *options,
                                          redlock_hold **ret_hold);

/*
 * Waits at most `wait_ms`. If the caller is then the first waiter of its process, it also
 * waits for one last attempt. FOREVER: as redlock_lock(). ONE_ATTEMPT: as
 * redlock_try_lock(). This holds for each `wait_ms` here.
 * Errors: those of redlock_lock() (BAD_OPTION also: wait_ms is another value below 0),
 * TIMEOUT (wait_ms is above 0), TAKEN (it is 0), NO_QUORUM, EXPIRED.
 */
REDLOCK_API redlock_code redlock_lock_for(redlock_sync *sync, const void *key,
                                          size_t key_len, int64_t wait_ms,
                                          const redlock_lock_options *options,
                                          redlock_hold **ret_hold);

/*
 * Waits for several keys, all or nothing, as redlock_acquire_many(): one hold. Threads that
 * want the same set follow each other. Those that want another set, or a single key, that
 * has a key of this one meet it on the nodes: there is no order among them, and no
 * hand-off.
 * Errors: those of redlock_lock_for(); BAD_KEY also if a key is given twice, or too many.
 */
REDLOCK_API redlock_code redlock_lock_many(redlock_sync *sync, const redlock_key *keys,
                                           size_t count, int64_t wait_ms,
                                           const redlock_lock_options *options,
                                           redlock_hold **ret_hold);

/*
 * Takes over the lock that has this token, extends it to the TTL of the options, and waits
 * for the result. `valid_ms` is what is left of its validity, as the former holder knew it;
 * 0 or REDLOCK_UNKNOWN: not known. If it is known and the extension succeeds later, the
 * result is EXPIRED: another client may have held the lock in between. The lock is not
 * handed off to other threads. If the call fails, no key is removed and none is recreated:
 * the token is still the caller's.
 * Errors: CANCELLED, DENIED, BAD_KEY, BAD_TTL, BAD_TOKEN, BAD_OPTION, NO_MEMORY, NO_QUORUM,
 * EXPIRED, GONE, TAKEN (also: another thread of this process has the lock or waits for it),
 * FORKED, CLOSED, WOULD_DEADLOCK.
 */
REDLOCK_API redlock_code redlock_lock_adopt(redlock_sync *sync, const void *key,
                                            size_t key_len, const char *token,
                                            int64_t valid_ms,
                                            const redlock_lock_options *options,
                                            redlock_hold **ret_hold);

/*
 * Adopts several keys of redlock_lock_many().
 * Errors: those of redlock_lock_adopt().
 */
REDLOCK_API redlock_code redlock_lock_adopt_many(redlock_sync *sync,
                                                 const redlock_key *keys, size_t count,
                                                 const char *token, int64_t valid_ms,
                                                 const redlock_lock_options *options,
                                                 redlock_hold **ret_hold);

/*
 * Releases the lock that has this token, and waits until q nodes confirmed it. No hold of
 * this process may have that token.
 * Errors: GONE, TAKEN, UNCONFIRMED, BAD_KEY, BAD_TOKEN, NO_MEMORY, FORKED, CLOSED,
 * WOULD_DEADLOCK.
 */
REDLOCK_API redlock_code redlock_lock_release(redlock_sync *sync, const void *key,
                                              size_t key_len, const char *token);

/*
 * Releases several keys.
 * Errors: those of redlock_lock_release().
 */
REDLOCK_API redlock_code redlock_lock_release_many(redlock_sync *sync,
                                                   const redlock_key *keys, size_t count,
                                                   const char *token);

enum {
    REDLOCK_CONFIRM = 1, /* wait until q nodes confirmed the release, and report it */
    REDLOCK_DISOWN = 2,  /* release nothing: another process continues with the token */
};

/*
 * Gives up the lock: to the next waiting thread of this process, or if there is none, to
 * the nodes. Without REDLOCK_CONFIRM it waits for no node, except while so many commands
 * are outstanding that the release is queued: then until the release has ended. A lock that
 * was handed off needs no confirmation. `how`: one of the flags above, or 0. The handle
 * stays valid, without a lock.
 *
 * The client writes the release to the nodes' connections before this function returns: the
 * process may end right after it, in any way. A node whose connection is down or full at
 * that moment keeps the key until the client reaches it, or until the TTL ends. In a
 * callback, and while the client's thread is in a callback and owns the loop, the client
 * writes the release after that callback.
 *
 * Errors: NOT_HELD (unlocked before, or its thread has ended), GONE, TAKEN, EXPIRED,
 * MAX_HOLD (it was lost before; what may be left of it is being released), CLOSED (it was
 * lost because the client was freed; it ends with its TTL, or was released then),
 * UNCONFIRMED, BAD_OPTION, BUSY (REDLOCK_DISOWN, and the thread locked it more than once),
 * FORKED, WOULD_DEADLOCK (only with REDLOCK_CONFIRM).
 */
REDLOCK_API redlock_code redlock_unlock(redlock_hold *hold, unsigned how);

/*
 * Extends the lock to `ttl_ms`, or REDLOCK_AUTO, from now, and waits for the result; see
 * redlock_extend().
 * Errors: BUSY (another thread is extending it), BAD_TTL, NO_QUORUM, DENIED; of a lock that
 * was lost or given up: NOT_HELD, GONE, TAKEN, EXPIRED, MAX_HOLD, CLOSED; FORKED,
 * WOULD_DEADLOCK.
 */
REDLOCK_API redlock_code redlock_hold_extend(redlock_hold *hold, int64_t ttl_ms);

/*
 * Turns a writer into a reader without a gap, and waits for the result; see
 * redlock_downgrade(). The hold stays the same; its token changes, so no other thread may
 * read the token meanwhile. With NO_QUORUM and DENIED the hold is a reader's, too, until
 * its old deadline.
 * Errors: BUSY (another thread is extending it, or its thread locked it more than once),
 * NO_QUORUM, DENIED, NO_MEMORY, BAD_OPTION (it is a reader's, has several keys, is a slot
 * or an election, or is in Redisson's layout), BAD_TOKEN (it was adopted, and its token is
 * not one of this library); of a lock that was lost or given up: NOT_HELD, GONE, TAKEN,
 * EXPIRED, MAX_HOLD, CLOSED; FORKED, WOULD_DEADLOCK.
 */
REDLOCK_API redlock_code redlock_hold_downgrade(redlock_hold *hold);

/*
 * The nodes' replies to the last acquire or extension of this lock, as redlock_explain().
 * If it was lost, those of the moment of its loss: also in on_lost, and after the unlock.
 * 0: the hold has no lock, the client is closed, there was no memory for those of the loss,
 * or the call is made in a forked child, or in a callback about a lock that is held.
 */
REDLOCK_API size_t redlock_hold_explain_sized(redlock_hold *hold, redlock_node *nodes,
                                              size_t room, size_t size);
static inline size_t redlock_hold_explain(redlock_hold *hold, redlock_node *nodes,
                                          size_t room)
{
    return redlock_hold_explain_sized(hold, nodes, room, sizeof(*nodes));
}

/*
 * Frees the handle, and unlocks if that was not done. A hold that was returned more than
 * once (`recursive`) is freed by the last of as many calls. If the on_lost of this hold is
 * running, the function waits until it has returned. After that nothing is called any more,
 * and the caller may free what on_lost used. In the callback of any client the function
 * does not wait, because two callbacks could wait for each other: a running on_lost may
 * still end after it.
 */
REDLOCK_API void redlock_hold_free(redlock_hold *hold);

/*
 * The lock was lost or unlocked: one atomic load, for use in the innermost loop. It
 * becomes true as soon as the client knows of the loss. redlock_hold_valid_ms() reads the
 * clock, and its result is correct even if the whole process was stopped.
 */
REDLOCK_API bool redlock_hold_lost(const redlock_hold *hold);

/*
 * How long from now the lock is certainly held; 0: it is not held. If it was lost because
 * it expired, or because its client or its thread ended: how long it still excludes others;
 * 0: the client released it.
 */
REDLOCK_API int64_t redlock_hold_valid_ms(const redlock_hold *hold);

/* The fencing token of this owner; see redlock_fence(). Each owner has its own. */
REDLOCK_API int64_t redlock_hold_fence(const redlock_hold *hold);

/* The slot of a semaphore that this owner has, or had, from 1 on; 0: it is none. */
REDLOCK_API unsigned redlock_hold_slot(const redlock_hold *hold);

/* The token as it is on the nodes: the token of this process. */
REDLOCK_API const char *redlock_hold_token(const redlock_hold *hold);

/*
 * The number of its lease in spans and events: see redlock_lease_number(). Owners to whom
 * the lock is handed off have the same lease.
 */
REDLOCK_API uint64_t redlock_hold_number(const redlock_hold *hold);

/* --- single flight: do something once for all threads that want it --- */

/*
 * Does the work while the lock is held. All threads that wait for it get its return value.
 */
typedef int redlock_flight_fn(redlock_hold *hold, void *arg);

/*
 * Single flight: of all threads of this process that want `key` at the same time, one (the
 * leader) gets the lock and calls `fn`. The others wait and get what `fn` returned. A call
 * that begins after `fn` has returned does not get that result: it starts a new flight. If
 * the leader does not get the lock, or its thread ends in `fn`, one of the waiting threads
 * becomes the leader.
 *
 * Between processes it is a lock: check first in `fn` whether another process has done the
 * work meanwhile. OK means that `fn` ran and returned, not that the lock stayed valid:
 * check the hold inside `fn`. `fn` may unlock the hold; it must neither free it nor throw.
 *
 * Waits as redlock_lock_for(). A running `fn` is not interrupted.
 * `ret_led`, if not NULL: whether this thread was the leader.
 * Errors: those of redlock_lock_for(); BUSY inside `fn`, where it would wait for itself.
 */
REDLOCK_API redlock_code redlock_single_flight(redlock_sync *sync, const void *key,
                                               size_t key_len, int64_t wait_ms,
                                               const redlock_lock_options *options,
                                               redlock_flight_fn *fn, void *arg,
                                               int *ret_returned, bool *ret_led);

/* --- elections --- */

/* The leader; see redlock_observe(). A candidate locks with the kind ELECTION. */
typedef struct redlock_sync_observer redlock_sync_observer;
typedef void redlock_sync_leader_fn(redlock_sync_observer *observer,
                                    const redlock_leader *leader, void *arg);

/*
 * Calls back, in the client's thread, with who leads as soon as that is known, and at each
 * change; if changes follow each other while the callback runs, only with the last of them.
 * It ends with the client at the latest.
 * Errors: BAD_KEY, BAD_OPTION (no callback), NO_MEMORY, FORKED, CLOSED, WOULD_DEADLOCK.
 */
REDLOCK_API redlock_code redlock_sync_observe(redlock_sync *sync, const void *key,
                                              size_t key_len,
                                              redlock_sync_leader_fn *callback, void *arg,
                                              redlock_sync_observer **ret_observer);

/*
 * Ends it, also in a callback. After that its callback does not run, unless this is called
 * in the callback of any client: then a running one may still end.
 */
REDLOCK_API void redlock_sync_observer_free(redlock_sync_observer *observer);

#ifdef __cplusplus
}
#endif

#endif
