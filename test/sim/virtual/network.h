/*
 * The simulated network between processes and servers: addresses, and how long bytes are on
 * their way. connection.h has the connections.
 *
 * What was lost is sent again by the sender's kernel, later, as long as the connection
 * stands. A reset drops what the sender's kernel still has, and nothing that is under way.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "events.h"
#include "io/stream.h"
#include "redlock/redlock.h"

#define NETWORK_REFUSES   (REDLOCK_NODES_MAX + 1) /* has no server */
#define NETWORK_SILENT    (REDLOCK_NODES_MAX + 2) /* does not even refuse */
#define NETWORK_HOSTS     (REDLOCK_NODES_MAX + 3) /* addresses; also servers */
#define NETWORK_DEAD      2
#define NETWORK_PROCESSES 16
#define NETWORK_NEVER     INT64_MAX

/* One address: 10.0.0.`host`, also known as node`host`. */
struct address {
    unsigned server;    /* which server a new connection reaches */
    const char *reason; /* why its name does not resolve; NULL: it does */
    /* These addresses of the name come before it; 0: none. */
    unsigned dead[NETWORK_DEAD];
    int64_t lookup_delay; /* ns */
};

/* The way between a process and a server. Times in ns. */
struct path {
    int64_t latency;                  /* one way, at least */
    int64_t up_blocked, down_blocked; /* nothing arrives there before this time */
};

enum direction { UP, DOWN }; /* to the server, to the process */

/* Once in so many times; 0: never. */
struct network_faults {
    unsigned spike;   /* a message is slow */
    unsigned loss;    /* it is lost, and sent again */
    unsigned cut;     /* it arrives in two parts */
    size_t send_room; /* bytes that a process may have under way on one connection */
};

struct connection;
struct peer_class;

/* What a test wants to see; each may be NULL. */
struct network_observer {
    void (*opened)(struct connection *connection);
    /* The process has written these bytes. */
    void (*written)(struct connection *connection, const char *bytes, size_t len);
    /* The peer has read all bytes that were written with this note; or never will. */
    void (*read)(struct connection *connection, void *note);
    void (*dropped)(struct connection *connection, void *note);
    /* The process has closed it; and nothing of it is left. Called if it has an account. */
    void (*left)(struct connection *connection);
    void (*gone)(struct connection *connection);
};

/* Counts of faults. */
struct network_counts {
    uint64_t spikes, losses, cuts, partial_writes;
};

struct network {
    struct address address[NETWORK_HOSTS];
    struct path path[NETWORK_PROCESSES][NETWORK_HOSTS];
    int64_t (*draw_delay)(int64_t latency); /* of one message; ns */
    const struct peer_class *class;         /* of all servers */
    void *server[NETWORK_HOSTS];            /* what the class gets; NULL: there is none */
    struct network_faults faults;
    struct network_counts counts;
    const struct network_observer *observer;
    struct connection *connection; /* all of them */
    uint64_t trace;                /* a hash of all bytes that were written, and when */
};

extern struct network network;

void network_begin(void);
void network_end(void);

struct rl_address network_address(unsigned host, int port);

/* When what is sent at `at` arrives; `ret_lost`: it is not on its way yet. */
int64_t network_arrival(const struct path *path, enum direction direction, int64_t at,
                        bool *ret_lost);

/* Blocks all paths to a server, or lets through what is sent from now on. */
void network_block(unsigned server, int64_t until);

/* Adds bytes that were written to the trace. */
void network_note(const char *bytes, size_t len);

#endif
