/*
 * One run: clients, servers and the network between them in virtual time, all drawn from
 * one seed; first with mishaps, then healed as far as a majority goes, to see that somebody
 * can acquire, and then brought to an end, to see that nothing is left.
 */
#ifndef RL_SIM_WORLD_H
#define RL_SIM_WORLD_H

#include "client.h"
#include "mishap.h"
#include "operator.h"
#include "oracle.h"
#include "queue.h"
#include "server.h"
#include "trace.h"
#include "wire.h"

/* Of the servers of fenced locks, about, when the true time is 0. */
#define WORLD_TIME_OF_DAY (INT64_C(1800000000) * RL_SECOND)

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

#define TEXTS_MAX (16 << 20)

struct world {
    uint64_t seed;
    struct prng prng;
    struct swarm swarm;
    enum phase phase;
    bool hindered; /* once more, at the end */
    rl_time now;   /* the true time */
    uint64_t events, steps;
    unsigned acquisitions;
    rl_node_set acquirers;          /* clients that acquired */
    rl_node_set wanted;             /* resources that nobody acquired since all is well */
    rl_node_set waiting;            /* clients that are to, and did not yet */
    rl_node_set healed;             /* the servers that are well in the end */
    int64_t highest[RESOURCES_MAX]; /* fencing token of who acquired, so far */
    struct attempt first[RESOURCES_MAX]; /* who has that, as it was then */
    uint32_t processes;                  /* of clients, ever */
    unsigned tokens, clients; /* clients: those that use locks, and an operator's */
    uint8_t behind[SERVERS];  /* which server answers at each address */
    uint8_t address[NODES];   /* of the nodes, as they are configured now */
    unsigned mistaken;        /* the server that nobody means; SERVERS: none */
    uint64_t deployment;      /* the first one */
    unsigned struck;          /* the node that something happened to last */
    rl_node_set fresh;        /* servers that nobody has used yet */
    struct seats seats;       /* of the deployment, by the oracle's account */
    uint32_t ran;             /* commands, by all servers */
    struct turn_order order[SERVERS][RESOURCES_MAX];
    size_t texts;
    struct gift gift;
    struct trace trace;
    struct verdict verdict;
    struct figures *figures;
    struct queue queue;
    struct wire wire;
    struct server server[SERVERS];
    struct client client[CLIENTS_MAX];
    struct token token[TOKENS_MAX];
    char text[TEXTS_MAX]; /* of markers */
};

/* Plays the run of a seed; the verdict and the trace's hash stay in `world`. */
void world_play(struct world *world, uint64_t seed);

/* The server that a client meets if it connects to this node now. */
unsigned world_server_of(const struct world *world, const struct client *client,
                         unsigned node);

struct rl_word world_key(unsigned resource);
struct rl_word world_fence_key(unsigned resource);
struct rl_word world_marker_key(void);

/* A server that nobody has used yet, or NULL. */
struct server *world_new_server(struct world *world);

/* A process that begins reads its configuration: the latest, or what it had before. */
void world_configure(struct world *world, struct client *client);

/* A copy that lives as long as the run. */
struct rl_word world_keep_text(struct world *world, const char *text, size_t len);

uint16_t world_new_token(struct world *world, const struct client *client,
                         unsigned resource);

/* NULL: the value is no token of a client. */
struct token *world_token_of(struct world *world, struct rl_word value);

#endif
