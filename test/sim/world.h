/*
 * One run: clients, servers and the network between them in virtual time, all drawn from
 * one seed; first with mishaps, then healed as far as a majority goes, to see that somebody
 * can acquire, and then brought to an end, to see that nothing is left.
 */
#ifndef RL_SIM_WORLD_H
#define RL_SIM_WORLD_H

#include "client.h"
#include "mishap.h"
#include "oracle.h"
#include "queue.h"
#include "server.h"
#include "trace.h"
#include "wire.h"

enum phase { PHASE_STORM, PHASE_CALM, PHASE_END };

struct figures {
    uint64_t schedules, events, steps, acquisitions, clients_that_acquired;
    uint64_t alone; /* schedules in which fewer than two clients acquired */
    uint64_t mishaps[MISHAP_COUNT];
    uint64_t outside[BOUND_COUNT];
    int32_t nearest_ppm; /* by how little the clocks left the bounds, and two held a lock */
    uint64_t violations;
    rl_time time; /* simulated */
};

struct world {
    uint64_t seed;
    struct chance chance;
    struct swarm swarm;
    enum phase phase;
    rl_time now; /* the true time */
    uint64_t events, steps;
    unsigned acquisitions;
    rl_nodes acquirers;             /* clients that acquired */
    rl_nodes wanted;                /* resources that nobody acquired since all is well */
    rl_nodes waiting;               /* clients that are to, and did not yet */
    rl_nodes healed;                /* the servers that are well in the end */
    int64_t highest[RESOURCES_MAX]; /* fencing token of who acquired, so far */
    bool forgot;                    /* some server lost what it had */
    unsigned tokens;
    struct gift gift;
    struct trace trace;
    struct verdict verdict;
    struct figures *figures;
    struct queue queue;
    struct wire wire;
    struct server server[NODES];
    struct client client[CLIENTS_MAX];
    struct token token[TOKENS_MAX];
};

/* Plays the run of a seed; the verdict and the trace's hash stay in `world`. */
void world_play(struct world *world, uint64_t seed);

/* The server behind a node of the clients. */
unsigned world_server_of(const struct world *world, unsigned node);

struct rl_word world_key(unsigned resource);
struct rl_word world_fence_key(unsigned resource);

uint16_t world_new_token(struct world *world, const struct client *client,
                         unsigned resource);

/* NULL: the value is no token of a client. */
struct token *world_token_of(struct world *world, struct rl_word value);

#endif
