/*
 * The handle: one acquire of a lock by a caller, over as many attempts as it takes, and
 * what the caller requests afterwards. handle.c runs it; acquire.c, request.c
 * and query.c have the public functions, result.c the result.
 */
#ifndef RL_HANDLE_H
#define RL_HANDLE_H

#include "attempt_task.h"
#include "waiting.h"

/*
 * What is pending for the caller. The functions of the public interface are named where
 * they change it (acquire.c, request.c); handle.c does all else. Whether the lock is held
 * or lost is not here: the lease machine of the last attempt knows it.
 *
 *     BEGINNING -> STARTUP -> TRYING <-> DELAYED       all of these -> CANCELLED
 *                       `---> JOINING ---^             TRYING, JOINING, CANCELLED -> IDLE
 *     IDLE -> EXTEND_WAITS -> EXTENDING -> IDLE
 *     IDLE and both EXTEND -> RELEASE_WAITS -> RELEASING -> IDLE
 */
enum rl_handle_state {
    /* An acquire. redlock_cancel() and redlock_client_free() move each to CANCELLED. */
    RL_HANDLE_BEGINNING, /* at the end of this iteration: STARTUP */
    RL_HANDLE_STARTUP,   /* when the startup barrier opens: TRYING; or JOINING, if earlier
                            waiters come first; or DELAYED, until it can join */
    RL_HANDLE_JOINING,   /* when an attempt that only joins the wait queue ends: DELAYED */
    RL_HANDLE_TRYING,  /* when the attempt is held: IDLE; when it failed: DELAYED or IDLE */
    RL_HANDLE_DELAYED, /* when the time of the next attempt comes: TRYING */
    RL_HANDLE_CANCELLED, /* at the end of this iteration, when that is reported: IDLE */

    /* The acquire has ended, or redlock_adopt() made it. redlock_release(): RELEASE_WAITS.
     */
    RL_HANDLE_IDLE,         /* redlock_extend(): EXTEND_WAITS */
    RL_HANDLE_EXTEND_WAITS, /* when the startup barrier opens: EXTENDING; when lost: IDLE */
    RL_HANDLE_EXTENDING,    /* when the result is reported: IDLE */

    RL_HANDLE_RELEASE_WAITS, /* at the end of this iteration, and when the startup barrier
                                opens: RELEASING */
    RL_HANDLE_RELEASING,     /* when the result is reported: IDLE */
    RL_HANDLE_FREED, /* by redlock_lease_free(), from any state: nothing more is reported */
};

/* A requested operation whose result must be reported; `callback` NULL: none. */
struct rl_request {
    redlock_lease_fn *callback;
    void *arg;
};

struct redlock_lease {
    struct rl_attempt first;    /* its task and config are the handle's */
    struct rl_attempt *attempt; /* the last one; NULL before the first has begun */
    struct rl_waiting waiting;
    struct rl_request request; /* the acquire, then an extension */
    struct rl_request release;
    void *user;         /* the caller's, for spans and events */
    rl_time hold_began; /* the span of the hold, if it is traced */
    bool downgrades;    /* its next extension is a downgrade, until one has succeeded */
    bool extends;       /* the result of an extension is to be reported */
    bool disowned;      /* the caller left the lock to another holder of its token */
    bool waited;        /* the acquire had to wait after an attempt */
    enum rl_handle_state state : 8;
    uint8_t reports; /* of the lease machine, kept until the end of the iteration */
    uint8_t retries; /* how many attempts followed the first one; wraps */
    /* The room of the first attempt follows in the same block. */
};

extern const struct rl_attempt_class rl_handle_class;

static inline redlock_lease *rl_handle_of(struct rl_task *task)
{
    return (redlock_lease *)task;
}

/* The lease machine of the last attempt; NULL before the first. */
static inline struct rl_lease *rl_handle_core(const redlock_lease *lease)
{
    return lease->attempt ? &lease->attempt->lease : NULL;
}

static inline bool rl_handle_is_acquiring(const redlock_lease *lease)
{
    return lease->state < RL_HANDLE_IDLE;
}

/* An attempt of the acquire is running. */
static inline bool rl_handle_is_trying(const redlock_lease *lease)
{
    return lease->state == RL_HANDLE_JOINING || lease->state == RL_HANDLE_TRYING;
}

/* The acquire has ended, and no release is pending. */
static inline bool rl_handle_is_settled(const redlock_lease *lease)
{
    return lease->state >= RL_HANDLE_IDLE && lease->state <= RL_HANDLE_EXTENDING;
}

static inline bool rl_handle_is_releasing(const redlock_lease *lease)
{
    return lease->state == RL_HANDLE_RELEASE_WAITS || lease->state == RL_HANDLE_RELEASING;
}

/* The result of an operation that ends with this code (result.c). */
redlock_result rl_handle_result(const redlock_lease *lease, redlock_code code);

/*
 * Starts the acquire of a new handle. The first attempt begins at the end of this
 * iteration, never inside the caller's call; or later, when the startup barrier opens.
 */
void rl_handle_begin_soon(redlock_lease *lease);

void rl_handle_extend(redlock_lease *lease); /* as soon as the startup barrier is open */

/* Reports events (enum rl_report); inside a call of the caller: when the iteration ends. */
void rl_handle_report(struct rl_task *owner, unsigned reports);

/* A waiter leaves the queues of these nodes, if no release to them says so. */
void rl_handle_withdraw(redlock_lease *lease, rl_node_set nodes);

/* Ends a handle that the caller has freed, if its first attempt has nothing left to do. */
void rl_handle_attempt_over(struct rl_task *task);

#endif
