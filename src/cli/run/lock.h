/*
 * The lock of a redlock run, from its request to its release: it knows what is held and for
 * how long, and nothing of the command that runs under it.
 */
#ifndef CLI_LOCK_H
#define CLI_LOCK_H

#include "ending.h"
#include "nesting.h"

enum lock_state { LOCK_NOT_HELD, LOCK_HELD, LOCK_LOST };

struct lock {
    struct cli *cli;
    struct ending *ending;
    const char *key;
    int64_t at_least_ms;
    redlock_lease *lease;
    struct cli_waiting waiting;
    struct nesting nesting;
    enum lock_state state;
    int64_t since_us; /* when it was first held */
    int64_t held_ms;
    int64_t valid_until_us; /* as its release began */
    int64_t fence;          /* 0: it is plain, or was not held */
    json_t *nodes;          /* with --json: of the acquire, or of the loss */
    int64_t last_ttl_ms;    /* of lock_extend_last() */
    void (*extended_last)(void *arg, redlock_code code);
    void *extended_arg;
};

/* Asks for it; `acquired` is to call lock_take() first. */
void lock_acquire(struct lock *lock, redlock_lease_fn *acquired, void *arg);

/*
 * Takes the result. Concludes, and says why, if a signal has ended the wait, or if the lock
 * is not held and that is not `explained`.
 */
void lock_take(struct lock *lock, const redlock_result *result, bool explained);

/* The TTL that lasts at least `ms` of our clock: the nodes' clocks may run faster. */
int64_t lock_ttl_for(const struct lock *lock, int64_t ms);

/* Prints the nodes of the last outcome with -v, and keeps them for --json. */
void lock_tell_nodes(struct lock *lock);

/* Which nodes failed in the last extension; `otherwise` if none did. The caller frees it.
 */
char *lock_why_not_extended(const struct lock *lock, const char *otherwise);

/* Why it is lost: which nodes failed, if that is the reason. The caller frees it. */
char *lock_why_lost(const struct lock *lock, redlock_code code);

/* Warns if it cannot be extended, and says when it can again. */
void lock_tell_event(const struct lock *lock, const redlock_event *event);

/* Its end, after which the run is done: releases it, or keeps it for --at-least. */
void lock_end(struct lock *lock);

/* The same: leaves it to its TTL. */
void lock_leave(struct lock *lock);

/* Asks the nodes once for it, so that a loss is noticed, and leaves it to them for
 * `ttl_ms`. */
void lock_check_and_leave(struct lock *lock, int64_t ttl_ms);

/*
 * CMD has ended: extends the lock, and tries again while it is held and too few nodes
 * reply, unless redlock is told to end.
 */
void lock_extend_last(struct lock *lock, int64_t ttl_ms,
                      void (*then)(void *arg, redlock_code code), void *arg);

#endif
