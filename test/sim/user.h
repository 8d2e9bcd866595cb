/*
 * Whoever uses a client's locks: wants one, waits, holds it for a while, and gives it back
 * or does not. Retries and their tokens are as in src/handle.c.
 */
#ifndef RL_SIM_USER_H
#define RL_SIM_USER_H

#include "attempt.h"
#include "core/retry.h"

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
    struct rl_terms terms;
    struct rl_retry retry;
    struct attempt *attempt;
    bool acquiring, extending, releasing; /* what it is yet to be told */
    bool lost;
};

/* A token that its holder has left, for whoever wants to adopt it. */
struct gift {
    bool there;
    uint8_t resource, client;
    uint16_t token;
    rl_time given; /* the true time */
    rl_time valid; /* by the clock of the client that left it */
    rl_nodes rests_on;
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

/* The gate is open. */
void user_open(struct world *world, struct client *client, struct user *user);

/* It is to give up whatever it wants or has, and to want nothing more. */
void user_stop(struct client *client, struct user *user);

#endif
