/*
 * A simulated connection: a pipe of bytes in each direction. Nothing in it overtakes.
 * Different connections overtake each other.
 */
#ifndef SIM_CONNECTION_H
#define SIM_CONNECTION_H

#include "network.h"
#include "process.h"

/* What one write sent. */
struct segment {
    struct segment *next;
    int64_t written, arrives;
    bool is_under_way; /* its packets are: a reset does not stop them */
    bool is_end;       /* the writer writes no more */
    void *note;
    size_t len, done; /* done: bytes that the reader has taken */
    char bytes[];
};

struct pipe {
    struct segment *first, **last; /* what has not arrived */
    size_t bytes;                  /* of those */
    int64_t arrives, resent;       /* the last bytes; what was lost is under way again */
    struct event arrival;
};

struct connection {
    struct connection *next, **link;
    struct process *process; /* NULL: it has gone */
    unsigned process_index, host, server;
    struct rl_stream *stream; /* NULL: the process has closed */
    const void *owner;        /* the argument of the stream's handler */
    void *peer;               /* what the server made of it; NULL: it does not know it */
    bool is_connected;        /* the process knows */
    bool is_accepted;         /* the server's kernel did */
    bool is_aborted;          /* by the process, or somebody between: not in order */
    bool is_busy;             /* the server processes what arrived */
    bool is_held;        /* a test lets the process see nothing new; stream_changed() */
    int error;           /* what the process gets, once it has read the rest */
    bool is_half_closed; /* the server's side: nothing that it writes is sent */
    int64_t lost_at;     /* from then on nothing gets through; 0: it does */
    bool has_ended;      /* nothing follows what has arrived at the process */
    struct segment *inbox, **inbox_last; /* what has, and was not read */
    struct pipe up, down;
    struct event connecting, breaking, vanishing;
    void *account; /* the observer's; NULL: none */
};

/* What a server is told. */
struct peer_class {
    bool (*is_down)(const void *server);
    /* Returns what the other functions get for this connection. */
    void *(*accepted)(void *server, struct connection *connection);
    void (*received)(void *link, const struct segment *segment);
    /* The process has ended it. False: the server will call connection_close(). */
    bool (*closed)(void *link);
};

/* --- for the server --- */

/* Writes; the observer gets the note when the process has read that. */
void connection_write(struct connection *connection, const char *bytes, size_t len,
                      void *note);

/* Ends it; what was written before still arrives. No function is called for it. */
void connection_close(struct connection *connection);

/* The process has ended: the kernel refuses all that arrives from now on. */
void connection_break(struct connection *connection);

/* --- for tests --- */

/* Resets it from outside; `unseen`: the server does not notice for a while. */
void connection_cut(struct connection *connection, bool unseen);

/* Nothing gets through any more, either way, and neither side is told: the server gives it
 * up after a while, and the process when it misses a reply. */
void connection_lose(struct connection *connection);

/* The process reads the end; what it writes is still executed, and nobody reads the
 * replies. */
void connection_half_close(struct connection *connection);

/* The connection is gone for both sides at once, without a word. */
void connection_forget(struct connection *connection);

/* --- for stream.c --- */

struct connection *connection_open(struct process *process, unsigned host);
void connection_send(struct connection *connection, const char *bytes, size_t len);
struct path *connection_path(const struct connection *connection);

/* The process closes: in order, at once, or because it has ended. */
void connection_leave(struct connection *connection, bool is_aborted);

/* stream.c: something has changed for the process. */
void stream_changed(struct rl_stream *stream);

#endif
