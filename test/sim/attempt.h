/*
 * An attempt to hold a lock: a lease of the core with its token, as src/lease/attempt.c;
 * and what the oracle knows of it.
 */
#ifndef RL_SIM_ATTEMPT_H
#define RL_SIM_ATTEMPT_H

#include "core/lease.h"
#include "oracle.h"
#include "swarm.h"

struct world;
struct client;
struct user;
struct order;
struct rl_kind;

struct attempt {
    bool used;
    uint8_t index, resource;
    uint16_t token;
    unsigned owed; /* answers */
    rl_time due;
    struct user *user; /* who is told; NULL: nobody */
    rl_time proposed;  /* the fence, and when it was said, by the nodes' clocks */
    rl_node_set ours;  /* where what is there is a token of ours */
    bool leaves;       /* the user goes, and from the queue, too */
    struct rl_word place;
    unsigned fences; /* how many, of which that is the first */
    struct rl_lease_params terms;
    struct rl_lease lease;
    struct rl_ballot ballot[NODES];
    int64_t granted_fence[NODES];

    /* The oracle's own account. */
    rl_time begun;         /* by the client's clock */
    uint32_t round;        /* the latest that asks for votes */
    uint32_t won;          /* the latest that was won */
    rl_node_set granted;   /* who granted in it, as the client has heard */
    rl_node_set rests_on;  /* who granted in the last round that was won */
    uint8_t server[NODES]; /* which server it was that granted */
    struct seal seal[NODES];
    rl_time ran[NODES];     /* the true time */
    uint32_t nth[NODES];    /* of all that servers ran */
    int64_t stored[NODES];  /* the fence that was there beside the token, the last time */
    uint32_t memory[NODES]; /* and how often that had forgotten by then */
    rl_node_set missing;    /* who is known to the client not to store the token */
    rl_node_set told;       /* who was told to release */
    rl_node_set released;   /* whose answer said that they deleted the token */
    bool lost, over;        /* LOST was told; it was given up, released or left */
};

struct attempt *attempt_new(struct world *world, struct client *client, struct user *user,
                            const struct rl_lease_params *terms, unsigned resource,
                            uint16_t token);

/* Which its token names. */
const struct rl_kind *attempt_kind(const struct world *world,
                                   const struct attempt *attempt);

void attempt_step(struct world *world, struct client *client, struct attempt *attempt,
                  const struct rl_lease_event *event);
void attempt_expire(struct world *world, struct client *client, struct attempt *attempt);
void attempt_tick(struct world *world, struct client *client, struct attempt *attempt);

/* The answer to an order of it; a fault: why the connection cannot be trusted. */
enum rl_fault attempt_answered(struct world *world, struct client *client,
                               struct attempt *attempt, const struct order *order);
/* The connection ended before the answer came. */
void attempt_cut(struct world *world, struct client *client, struct attempt *attempt,
                 const struct order *order);

/* A node was seen to restart. */
void attempt_forgot(struct world *world, struct client *client, struct attempt *attempt,
                    unsigned node);

/* A node was greeted. */
void attempt_greeted(struct world *world, struct client *client, struct attempt *attempt,
                     unsigned node);

/* The user goes. */
void attempt_leave(struct world *world, struct client *client, struct attempt *attempt);

#endif
