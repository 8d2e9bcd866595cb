/*
 * A user of a client's locks, a program that calls the public interface: it wants a lock,
 * waits, holds it for a while, and releases it or does not.
 */
#ifndef SIM_USER_H
#define SIM_USER_H

#include "plan.h"
#include "redlock/redlock.h"
#include "virtual/process.h"

struct client;
struct claim;

enum user_phase {
    USER_IDLE,
    USER_ACQUIRING,
    USER_HOLDING, /* or it has lost it, and goes on for a while */
    USER_RELEASING,
};

enum user_end { USER_RELEASES, USER_DISOWNS, USER_FREES, USER_LETS_EXPIRE };

struct user {
    struct client *client;
    unsigned index, resources; /* a set: what it wants */
    enum user_phase phase;
    enum user_end end;
    struct event due;
    struct ready ready;
    int64_t next;      /* IDLE: when it wants a lock */
    int64_t cancel_at; /* it does not want to wait any longer */
    int64_t extend_at, end_at;
    redlock_lease_options options;
    bool joins_tail;      /* first of all it queues behind those who wait already */
    unsigned fences;      /* tokens that it reserves; from 1 */
    redlock_lease *lease; /* NULL: none */
    bool frees_inside;    /* it frees its lease in the callback */

    /* Reports that it got, and is yet to get: the oracle's account. */
    struct claim *claim; /* of its latest token; NULL: none yet */
    bool is_held;        /* told so, and not lost, released or left since */
    bool is_lost;
    bool is_acquiring, is_extending, is_releasing; /* a callback must come */
    bool is_known;     /* the deadline is; not of an adopted token before it is extended */
    bool is_calling;   /* it is inside a call that starts an operation */
    int64_t asked_ttl; /* by its last extension, ms; 0: none in particular ... */
    uint64_t asked_in; /* ... in this iteration of its process */
    int64_t began;     /* true time */
    int64_t boot, raw; /* by its process */
    int64_t wait_boot, wait_raw; /* the same, when its wait had begun; 0: not yet */
    uint64_t overdue_in;  /* the iteration by which its wait has ended; 0: it waits */
    uint64_t left_in;     /* the iteration in which it gave the lock up */
    int64_t called_at;    /* when the last notification arrives */
    int64_t called_due;   /* it must try again before; CLOCK_NEVER */
    int64_t tried_at;     /* its last attempt ended, or it could not try; 0: never */
    bool is_trying;       /* an attempt is under way ... */
    int64_t trying_until; /* ... and has surely ended by then; true time */
    rl_node_set called_by,
        first_by;             /* nodes that have notified it since its last attempt */
    char entry[96];           /* in the queues; "": none */
    char queued_as[96];       /* the same, also when it does not wait any more ... */
    rl_node_set queued_at;    /* ... of these nodes, on the connections of now */
    rl_node_set notifiable;   /* it was queued there since it is subscribed there ... */
    int64_t notifiable_until; /* ... at q nodes, before this true time; 0: it is */
    unsigned failures;        /* of its process, before its last attempt */
    unsigned attempts;        /* tokens that were seen */
};

/* A token that its holder has left, for a user that adopts it. */
struct gift {
    bool is_there;
    unsigned resources, client;
    uint32_t process;
    struct claim *claim;
    int64_t valid_ms;  /* when it was left ... */
    int64_t boot, raw; /* ... by these clocks of its process */
    int64_t fence;
};

void user_begin(struct user *user, struct client *client, unsigned index);

/* The user's process has gone; `freed`: the client was freed in order. */
void user_end(struct user *user, bool freed);

/* The user gives up all that it wants or has, for good. */
void user_stop(struct user *user);

/* The user is woken at these of its times. */
void user_plan(struct user *user);

/* The user's validity, if it asks now, in ms. It may be in the middle of a call. */
int64_t user_valid_ms(const struct user *user);

/* --- user_wants.c --- */

void user_want(struct user *user);
int64_t user_draw_ttl(void); /* ms */
int64_t user_draw_record(void);
void user_plan_hold(struct user *user);

#endif
