/*
 * The simulated network between processes and servers. network.c and resolver.c are what
 * the library finds behind io/stream.h and io/resolver.h.
 *
 * A connection is two pipes of bytes. Bytes arrive in the order in which they were written,
 * cut anywhere, after a delay that is drawn anew for each write. Connections overtake each
 * other.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "events.h"
#include "io/stream.h"

struct connection;

/* What a server is told. */
struct peer_class {
    /* Returns what the other functions get for this connection. */
    void *(*accepted)(void *server, struct connection *connection);
    void (*received)(void *link, const char *bytes, size_t len);
    void (*closed)(void *link);
};

/* One address: 10.0.0.`host`, also known as node`host`. */
struct address {
    const struct peer_class *class;
    void *server;    /* NULL: nobody listens */
    bool is_blocked; /* nothing arrives, in either direction, until it is not */
    bool is_unknown; /* its name does not resolve */
    int64_t delay;   /* ns; a delay is drawn from half of this to twice */
};

#define NETWORK_HOSTS 16

struct network {
    struct address address[NETWORK_HOSTS];
    struct connection *connection; /* all of them */
    uint64_t trace;                /* a hash of all bytes that were written, and when */
};

extern struct network network;

void network_begin(void);
void network_end(void);

struct rl_address network_address(unsigned host, int port);

/* The server writes. */
void connection_write(struct connection *connection, const char *bytes, size_t len);

/* The server ends it; what it wrote before still arrives. No function is called for it. */
void connection_close(struct connection *connection);

/* Bytes that have not arrived are lost; both sides are told that. */
void connection_reset(struct connection *connection);

/* Resets all connections to this address. */
void network_reset(unsigned host);

/* Blocks an address, or lets everything that has waited arrive. */
void network_block(unsigned host, bool is_blocked);

#endif
