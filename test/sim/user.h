/*
 * A user of a client's locks: wants one, waits, holds it for a while, and gives it back
 * or does not. Retries and their tokens are as in src/lease/handle.c.
 */
#ifndef RL_SIM_USER_H
#define RL_SIM_USER_H

#include "attempt.h"
#include "core/kind.h"
#include "core/retry.h"
#include "core/waiter.h"

enum user_phase {
    USER_IDLE,
    USER_WAITING, /* for the gate */
    USER_TRYING,
    USER_PAUSING, /* between two attempts */
    USER_HOLDING, /* or it has lost it, and goes on for a while */
    USER_RELEASING,
};

enum user_end { USER_RELEASES, USER_DISOWNS, USER_LEAVES, USER_LETS_EXPIRE };

struct user {
    uint8_t index, resource;
    enum user_phase phase;
    enum user_end end;
    rl_time due;       /* all times are the client's */
    rl_time next;      /* IDLE: when it wants a lock; PAUSING: when it tries again */
    rl_time cancel_at; /* it does not want to wait any longer */
    rl_time extend_at, end_at;
    rl_time give_up;
    unsigned attempts;
    struct rl_lease_params terms;
    struct rl_retry retry;
    struct attempt *attempt;
    bool waits;   /* and takes places for that */
    bool behind;  /* first of all it stands behind those who wait already */
    bool queues;  /* and that is what the attempt is for */
    bool entered; /* nodes may have its place in their queues */
    uint16_t number;
    struct rl_word place; /* by which it is called, once it has entered */
    struct rl_waiter turn;
    rl_time began, called;
    rl_node_set called_by, first_by;      /* the oracle's account: since its last attempt */
    rl_time expected;                     /* by the true time: it is to try again before */
    bool acquiring, extending, releasing; /* what it is yet to be told */
    bool lost;
};

/* A token that its holder has left, for a user that adopts it. */
struct gift {
    bool there;
    uint8_t resource, client;
    uint16_t token;
    rl_time given; /* the true time */
    rl_time valid; /* by the clock of the client that left it */
    rl_node_set rests_on;
    uint8_t server[NODES];
    uint32_t memory[NODES];
    struct seal seal[NODES];
    rl_time ran[NODES];
    int64_t fence;
};

void user_init(struct world *world, struct client *client, struct user *user);
void user_tick(struct world *world, struct client *client, struct user *user);
void user_told(struct world *world, struct client *client, struct user *user,
               unsigned news);

/* A node calls; it is heard who calls there, or not any more. */
void user_called(struct world *world, struct client *client, struct user *user,
                 unsigned node, uint16_t number, unsigned rank);
void user_hears(struct world *world, struct client *client, struct user *user,
                unsigned node, bool hears);

/* What its releases say of the queue; and that a node has answered one that takes a place.
 */
void user_place(struct world *world, const struct client *client, struct user *user,
                struct rl_command_args *subject);
void user_placed(const struct client *client, struct user *user, unsigned node,
                 rl_time sent);

/* The gate is open. */
void user_open(struct world *world, struct client *client, struct user *user);

/* It is to give up whatever it wants or has, and to want nothing more. */
void user_stop(struct client *client, struct user *user);

#endif
