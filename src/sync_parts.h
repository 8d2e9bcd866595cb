/*
 * The parts of the interface for threads (redlock/sync.h).
 *
 * One mutex per redlock_sync guards all that is in it. The asynchronous interface is called
 * only by the driver, who runs the event loop just then (sync_drive.c), with the mutex or
 * without; its callbacks take the mutex, and no callback of a user's is called with it.
 * Other threads leave orders for the driver.
 *
 *     key ----> waiters, first come first served; the first has a tenure made for it
 *      `------> tenure, a lease on the nodes --> owner, a hold
 *
 * A tenure goes from owner to owner, and leaves its key when it is lost: then it stays with
 * its owner until that unlocks, and the key goes on with another.
 */
#ifndef RL_SYNC_PARTS_H
#define RL_SYNC_PARTS_H

#include <event2/event.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "fork.h"
#include "redlock/sync.h"
#include "sync_time.h"

#define RL_BUCKETS  1024
#define RL_IDLE_MAX 64   /* keys that are kept for what is remembered of them */
#define RL_BEHIND   1000 /* ms for which it is remembered that another process waits */

/* --- orders: what the driver of the loop is to do (sync_drive.c) --- */

/* It lives in what it is about; ordering it twice before it is carried out is ordering it
   once. */
struct rl_order {
    void (*carry_out)(redlock_sync *sync, struct rl_order *order); /* with the mutex */
    TAILQ_ENTRY(rl_order) next;
    bool posted;
};

/* All with the mutex. Somebody is told of it as soon as that is let go. */
void rl_give_order(redlock_sync *sync, struct rl_order *order);
void rl_withdraw_order(redlock_sync *sync, struct rl_order *order); /* if it is posted */
void rl_carry_out_all(redlock_sync *sync);

/* --- waits (sync_wait.c) --- */

/*
 * A thread that waits for the nodes, or for another thread. It is woken once the mutex is
 * free, or it would wait for that at once; and those that one pass of the loop is good news
 * for are woken when that is over. So a wake may come when it is awake by itself: it counts
 * those that it was promised, and is there until it had them all.
 */
struct rl_wait {
    redlock_sync *sync;
    pthread_t thread;
    sem_t woken;
    unsigned promised, had; /* wakes */
    bool untold;            /* it is in the list of those that are to be woken */
    TAILQ_ENTRY(rl_wait) in_done;
    bool done;
    redlock_code code;
    int cancel_state; /* a thread that is cancelled still has to take its wait away */
};

TAILQ_HEAD(rl_waits, rl_wait);

/* All with the mutex. */
void rl_wait_init(redlock_sync *sync, struct rl_wait *wait);
void rl_wait_begin(redlock_sync *sync, struct rl_wait *wait);
void rl_wait_end(redlock_sync *sync, struct rl_wait *wait);
void rl_wait_done(struct rl_wait *wait, redlock_code code);
void rl_wait_wake(struct rl_wait *wait); /* at once */

/* Lets the mutex go, and wakes who is to be woken. */
void rl_wait_let_go(redlock_sync *sync);

/* Until it is done or woken, or `deadline` (rl_now_ms()) comes; false: it came. Drives
   meanwhile, if nobody else does. */
bool rl_wait_once(redlock_sync *sync, struct rl_wait *wait, int64_t deadline);
bool rl_wait_sleep(redlock_sync *sync, struct rl_wait *wait, int64_t deadline);

/* --- driving the loop (sync_drive.c) --- */

/* False: the system refuses; what was made is to be closed. */
bool rl_drive_open(redlock_sync *sync);
void rl_drive_close(redlock_sync *sync);

/* The rest with the mutex. In the client's thread, which drives then: until it is over. */
void rl_drive_on(redlock_sync *sync);

/* For as long as need be; false: this one does not drive. */
bool rl_drive(redlock_sync *sync, struct rl_wait *wait, int64_t deadline);

/*
 * Until what was ordered is written to the sockets that take it. At once where the client's
 * thread is in a callback, which may wait for the calling thread, and inside of callbacks.
 */
void rl_drive_until_written(redlock_sync *sync);

/* The client's thread has something to do that others do not. */
void rl_drive_call_own(redlock_sync *sync);

/* A wait begins, is done: who drives may change by that. */
void rl_drive_begun(redlock_sync *sync, struct rl_wait *wait);
void rl_drive_done(redlock_sync *sync, const struct rl_wait *wait);

/* Orders that are posted are for whoever drives; if nobody does, for the client's thread.
 */
void rl_drive_announce(redlock_sync *sync);

/* This thread drives, and is in the loop. */
bool rl_drive_is_here(const redlock_sync *sync);

/* --- tenures (sync_tenure.c) --- */

enum rl_tenure_state {
    RL_TENURE_ACQUIRING,
    RL_TENURE_HELD,      /* by its owner */
    RL_TENURE_PASSING,   /* it is extended, and goes to the first who waits */
    RL_TENURE_RELEASING, /* whoever comes next waits for the end of that */
    RL_TENURE_LOST,      /* its owner has not unlocked yet */
    RL_TENURE_LEFT,      /* by owner and key: to be freed */
};

/* A thread that waits for its lock to be extended. */
struct rl_extension {
    struct rl_order order;
    struct rl_wait wait;
    struct rl_tenure *tenure;
    redlock_hold *hold;
    int64_t ttl_ms;
};

struct rl_tenure {
    struct rl_order order; /* to free it */
    LIST_ENTRY(rl_tenure) all;
    redlock_sync *sync;
    struct rl_key *key; /* NULL: left */
    enum rl_tenure_state state;
    bool begun;     /* what the state wants is under way */
    bool abandoned; /* its owner's thread ended: it stays on the nodes */
    redlock_lease *lease;
    redlock_lock_options terms; /* it was acquired by these; ttl_ms follows extensions */
    unsigned handed, handoffs;  /* how often it was handed on in a row, and may be */
    int64_t fence;              /* of its first owner */
    char token[REDLOCK_TOKEN_MAX + 1];
    struct rl_until until;
    struct rl_waiter *waiter; /* for whom it is being acquired; NULL: that one has gone */
    redlock_hold *owner;
    struct rl_extension *extension; /* that the owner waits for */
    struct rl_wait *confirmation;   /* of the release */
};

/* The order that frees it, for whoever makes one. */
void rl_tenure_init(struct rl_tenure *tenure, redlock_sync *sync,
                    const redlock_lock_options *terms);

/* By the driver: does what the state wants. */
void rl_tenure_acquire(struct rl_key *key, struct rl_waiter *waiter);
void rl_tenure_serve(struct rl_tenure *tenure);
void rl_tenure_free(struct rl_tenure *tenure);

/* For the owner, who waits. */
void rl_tenure_extend(struct rl_tenure *tenure, struct rl_extension *extension);

/* The owner has gone: to the next one, or back to the nodes. */
void rl_tenure_pass(struct rl_tenure *tenure);

/* Its key goes on without it. */
void rl_tenure_detach(struct rl_tenure *tenure);

/* Nobody has it any more: it is freed by the driver. */
void rl_tenure_leave(struct rl_tenure *tenure);

/* Reads how long it is held from the lease, by the driver. */
void rl_tenure_note_validity(struct rl_tenure *tenure);

/* --- keys (sync_key.c) --- */

struct rl_waiter {
    struct rl_wait wait;
    TAILQ_ENTRY(rl_waiter) next;
    struct rl_key *key;
    const redlock_lock_options *options;
    redlock_hold *hold;       /* what it gets */
    struct rl_tenure *tenure; /* what it acquires by, if it has to; NULL: used */
    int64_t deadline;
    bool tries; /* one attempt */
};

struct rl_key {
    struct rl_order order; /* to see what is to be done */
    LIST_ENTRY(rl_key) in_bucket;
    TAILQ_ENTRY(rl_key) in_idle;
    bool idle;
    TAILQ_HEAD(rl_waiters, rl_waiter) waiters;
    struct rl_tenure *tenure;
    int64_t behind_until; /* another process waited when it was released last */
    size_t len;
    char text[];
};

/* Finds or makes it; NULL: no memory. */
struct rl_key *rl_key_get(redlock_sync *sync, const void *text, size_t len);

/* By the driver: whatever is to be done. The key may be gone then. */
void rl_key_serve(redlock_sync *sync, struct rl_key *key);

/* A thread has it, or waits for it. */
bool rl_key_is_wanted(const struct rl_key *key);

void rl_key_join(redlock_sync *sync, struct rl_waiter *waiter);

/* Ends its wait: takes it out of the queue, and wakes it. */
void rl_key_answer(struct rl_waiter *waiter, redlock_code code);

/* The same, while something may be under way for it. */
void rl_key_dismiss(redlock_sync *sync, struct rl_waiter *waiter, redlock_code code);

/* --- holds (sync_hold.c) --- */

struct redlock_hold {
    redlock_sync *sync;
    unsigned generation;
    struct rl_tenure *tenure; /* NULL: it has none any more */
    redlock_code code;        /* what there is to say of it, if it has lost it */
    redlock_lock_options options;
    atomic_bool lost;
    _Atomic int64_t boot, unslewed; /* its deadline: struct rl_until */
    int64_t fence;
    char token[REDLOCK_TOKEN_MAX + 1];
    bool untold, telling, freed; /* on_lost is due, is running; it was freed in that */
    redlock_code why;            /* for on_lost */
    TAILQ_ENTRY(redlock_hold) in_untold;
    bool bound; /* to a thread, in whose list it is */
    LIST_ENTRY(redlock_hold) of_thread;
};

redlock_hold *rl_hold_new(redlock_sync *sync, const redlock_lock_options *options);

/* Without the mutex: it has none, and nobody knows of it. */
void rl_hold_delete(redlock_hold *hold);

/* Takes the tenure over. */
void rl_hold_take(redlock_hold *hold, struct rl_tenure *tenure);

/* Its deadline is this, from now on. */
void rl_hold_show(redlock_hold *hold, struct rl_until until);

/* It is lost for this reason; its owner is to be told that. */
void rl_hold_lose(redlock_hold *hold, redlock_code why);
void rl_hold_tell(redlock_hold *hold, redlock_code why);

/* In the client's thread: tells them, and lets the mutex go for that. */
void rl_hold_tell_all(redlock_sync *sync);

/* Its thread has ended. Takes the mutex. */
void rl_hold_abandon(redlock_hold *hold);

/* --- threads and their holds (sync_thread.c) --- */

struct rl_thread;

/* The calling one's; NULL: no memory. */
struct rl_thread *rl_thread_here(void);
void rl_thread_bind(struct rl_thread *thread, redlock_hold *hold);
void rl_thread_unbind(redlock_hold *hold);

/* --- client (sync.c) --- */

struct redlock_sync {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a wait has ended, or a callback has returned */
    unsigned generation;
    atomic_uint handles; /* that keep this memory: the client's own, holds, stops */
    size_t nodes;
    unsigned quorum;

    pthread_t thread;
    struct event_base *base;
    redlock_client *client;
    struct event *mail, *alarm, *written;
    int mail_fd;
    TAILQ_HEAD(, rl_order) orders;

    struct rl_wait *driver; /* who runs the loop; NULL: it is free */
    struct rl_wait own;     /* of the client's thread, which also sleeps there */
    bool in_loop;           /* the driver is */
    bool calls_back;        /* the client's thread is in a user's callback */
    bool comes_out;         /* as soon as this pass is over; by the driver alone */
    bool tells;             /* this pass is good news for somebody; by the driver alone */
    bool called;            /* mail is there */
    bool relieved;          /* the driver is to make room for the client's thread */
    unsigned drives;        /* by threads that wait */
    unsigned row;           /* waits that came one by one, each soon after the one before */
    int64_t alone_at;       /* when the last one was done */
    struct rl_wait *latest; /* that began */

    struct rl_order close;
    bool closing;             /* nothing new is begun */
    bool over;                /* nothing is left to be done */
    bool detached;            /* the thread frees it all by itself */
    unsigned waits, pending;  /* and those of them that are not done */
    struct rl_waits done;     /* are to be woken */
    struct rl_waits to_write; /* are done when this pass of the loop has written */
    TAILQ_HEAD(, redlock_hold) untold;

    LIST_HEAD(, rl_key) bucket[RL_BUCKETS];
    TAILQ_HEAD(rl_idle, rl_key) idle;
    unsigned idle_keys;
    LIST_HEAD(, rl_tenure) tenures;
    LIST_HEAD(, rl_flight) flights;
};

/* This is the thread of some client. */
bool rl_sync_is_loop(void);

/* A child has a copy that it must not touch. */
static inline bool rl_sync_is_ours(const redlock_sync *sync)
{
    return sync->generation == rl_fork_generation();
}

static inline void rl_sync_lock(redlock_sync *sync)
{
    pthread_mutex_lock(&sync->mutex);
}

static inline void rl_sync_unlock(redlock_sync *sync)
{
    rl_drive_announce(sync);
    if (rl_drive_is_here(sync)) /* until the pass is over */
        pthread_mutex_unlock(&sync->mutex);
    else
        rl_wait_let_go(sync);
}

/* One handle less; the last one frees the memory. Also in a child. */
void rl_sync_put(redlock_sync *sync);

/* --- locking (sync_lock.c) --- */

struct redlock_stop {
    redlock_sync *sync;
    unsigned generation;
    bool stopped;
};

/* This thread may wait here; and our own copy of the caller's version of the struct. */
redlock_code rl_lock_begin(redlock_sync *sync, const redlock_lock_options *options,
                           redlock_lock_options *ret_options);

/* --- flights (flight.c) --- */

/* A thread that waits for what another one does. */
struct rl_passenger {
    struct rl_wait wait;
    TAILQ_ENTRY(rl_passenger) next;
    const redlock_stop *stop;
    int returned;
    bool stranded; /* the one who was to do it could not, or has ended */
};

/* On the stack of the thread that flies. */
struct rl_flight {
    LIST_ENTRY(rl_flight) next;
    TAILQ_HEAD(, rl_passenger) passengers;
    redlock_sync *sync;
    redlock_hold *hold;
    pthread_t pilot;
    const void *key;
    size_t key_len;
};

/* Those who wait for one are told if they no longer have to. */
void rl_flights_wake(redlock_sync *sync);

#endif
