/*
 * The handle: a lock that a caller wishes to hold, over as many attempts as it takes.
 * handle.c has its life, request.c what the caller may ask of it, turns.c when it tries
 * again.
 */
#ifndef RL_HANDLE_H
#define RL_HANDLE_H

#include "attempt.h"

enum rl_phase {
    RL_PHASE_WAITING, /* for the end of the pass, and for the gate */
    RL_PHASE_PAUSING, /* until the next attempt */
    RL_PHASE_TRYING,
    RL_PHASE_SETTLED, /* the acquire has ended, well or not */
};

/* An operation whose end is to be told. */
struct rl_pending {
    redlock_lease_fn *callback;
    void *arg;
};

struct redlock_lease {
    struct rl_attempt first;    /* its task and its wish are the handle's */
    struct rl_attempt *attempt; /* the last one; NULL before the first has begun */
    uint64_t number;            /* by which it is called */
    struct rl_turn turn;
    unsigned attempts;
    enum rl_phase phase : 8;
    redlock_code failure : 8; /* why an attempt could not even be made */
    redlock_code loss : 8;    /* why it was lost: a release has a cause of its own */
    uint8_t news;             /* to be told at the end of the pass */
    bool cancelled : 1;
    bool freed : 1;
    bool behind : 1;  /* first of all it stands behind those who wait already */
    bool queues : 1;  /* and that is what the attempt is for */
    bool entered : 1; /* nodes may have its place in their queues */
    bool extends : 1, releases : 1; /* the caller has asked, and waits for the end */
    bool extend_waits : 1;          /* for the gate */
    bool release_waits : 1;         /* for the end of the pass, and for the gate */
    union {
        struct { /* until the acquire has ended */
            struct rl_pending acquire;
            rl_time began, give_up; /* at the end of the pass in which it was asked for */
            rl_time next_attempt;
            rl_time called; /* when it was called to try again; RL_NEVER: it was not */
        };
        struct { /* from then on */
            struct rl_pending extend, release;
            int64_t extend_ttl_ms;
        };
    };
    /* Behind it in its block: the room of the first attempt. */
};

extern const struct rl_task_class rl_handle_class;

static inline redlock_lease *rl_handle_of(struct rl_task *task)
{
    return (redlock_lease *)task;
}

/* The machine of the last attempt; NULL before the first. */
static inline struct rl_lease *rl_handle_core(const redlock_lease *lease)
{
    return lease->attempt ? &lease->attempt->lease : NULL;
}

/*
 * The caller waits from now on. The first attempt begins at the end of this pass, never
 * inside the caller's call; or once the gate is open.
 */
void rl_handle_begin(redlock_lease *lease);

/* The caller has freed it: it ends as soon as its first attempt has nothing left to do. */
void rl_handle_over(struct rl_task *task);

void rl_handle_extend(redlock_lease *lease, int64_t ttl_ms);
void rl_handle_release(redlock_lease *lease);

/* --- turns.c: when it tries again --- */

/* After an attempt that failed; and by the caller's policy alone. RL_NEVER: not at all. */
rl_time rl_turns_next(redlock_lease *lease);
rl_time rl_turns_policy(redlock_lease *lease);

/* A node calls whoever has this number; from now on it can, or cannot. */
void rl_turns_called(struct rl_task *task, unsigned node, uint64_t number, unsigned rank);
void rl_turns_hear(struct rl_task *task, unsigned node, bool hears);

#endif
