/*
 * One run: clients, servers and the network between them in virtual time, all drawn from
 * one seed; first with faults, then healed as far as a majority goes, to see that a client
 * can acquire, and then brought to an end, to see that nothing is left.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stddef.h>

#include "client.h"
#include "oracle.h"
#include "plan.h"
#include "server.h"
#include "trace.h"

/* Servers' time, about, when the true time is 0. ns since 1970. */
#define WORLD_TIME_OF_DAY (INT64_C(1800000000) * VIRTUAL_S)
#define WORLD_MARKER      "!marker"

enum phase { PHASE_STORM, PHASE_CALM, PHASE_END };

/* Sums first: report_add() adds them. */
struct figures {
    uint64_t schedules, events, commands, acquisitions, clients_that_acquired;
    uint64_t alone; /* schedules in which fewer than two clients acquired */
    uint64_t faults[FAULT_COUNT];
    uint64_t outside[BOUND_COUNT];
    uint64_t violations;
    uint64_t time;       /* simulated, ns */
    int32_t nearest_ppm; /* by how little the clocks left the bounds, and two held a lock */
};

#define FIGURES_SUMS (offsetof(struct figures, nearest_ppm) / sizeof(uint64_t))

struct world {
    uint64_t seed;
    struct plan plan;
    enum phase phase;
    bool is_hindered; /* once more, at the end */
    bool is_audited;  /* auditor.h */
    int64_t ended;    /* true time */
    uint64_t events, commands;
    unsigned acquisitions;
    uint32_t acquirers, wanted, waiting; /* sets: clients; resources; clients */
    uint32_t healed;                     /* the servers that are well in the end */
    uint32_t processes;                  /* of clients, ever */
    unsigned clients;                    /* those that use locks, and an operator's */
    unsigned address[NODES_MAX];         /* of the nodes, as they are configured now */
    unsigned mistaken;   /* the server that nobody means; SERVERS_MAX: none */
    unsigned struck;     /* the node that a fault struck last */
    uint32_t fresh;      /* servers that nobody has used yet */
    uint64_t deployment; /* the first one */
    struct gift gift;
    struct event fault;
    int64_t quiet_until; /* no fault strikes before this time */
    struct trace trace;
    struct verdict verdict;
    uint64_t faults[FAULT_COUNT];
    struct server server[SERVERS_MAX];
    struct client client[CLIENTS_MAX];
};

extern struct world world;
extern struct figures figures;

/* Plays the run of a seed; the verdict and the trace's hash stay in `world`. `cut`: what is
 * left out; NULL: nothing. */
void world_play(uint64_t seed, const struct cut *cut);

/* Servers and clients, of an empty world. */
void world_begin(uint64_t seed, const struct cut *cut);
void world_end(void);

/* Each resource of a run of slots is one: the slots of a semaphore, the number of a
   resource in its own, and all resources of that. */
unsigned world_slots(void);
unsigned world_slot(unsigned resource);
unsigned world_semaphore_of(unsigned resource);
void world_name_slots(void);

/* Whose queue the clients of a resource wait in: a slot's semaphore. */
const char *world_queue_key(unsigned resource);

const char *world_key(unsigned resource);
const char *world_fence_key(unsigned resource);
unsigned world_resource(struct rl_word key);
const char *world_names(unsigned resources); /* of a set; until the next call */

/* The server that a client meets if it connects to this node now. */
struct server *world_server_behind(unsigned host);

/* A server that nobody has used yet, or NULL. */
struct server *world_new_server(void);

/* A process that begins reads its configuration: the latest, or what it had before. */
void world_configure(struct client *client);

#endif
