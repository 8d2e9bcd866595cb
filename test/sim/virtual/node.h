/*
 * A simulated Redis server on the network: a process that runs, hangs or is down, with a
 * clock of its own, and connections. It may reply with errors or with nonsense.
 */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "connection.h"
#include "redis/redis.h"

enum node_state { NODE_RUNS, NODE_HANGS, NODE_DOWN };

struct node;

/* One connection to it. */
struct node_link {
    struct node *node;
    struct connection *connection;
    struct redis_link *redis_link;
    bool is_accepted;               /* by the server, not only by its kernel */
    bool is_ended;                  /* no more will come */
    struct segment *unread, **last; /* what it has not read, as it hangs */
    struct node_link *next, **link;
};

/* What is executed. */
struct node_command {
    struct node *node;
    struct node_link *link;
    const struct rl_word *word; /* the first is its name */
    size_t words;
    int64_t written;   /* when the process wrote its last byte; true time, ns */
    bool is_straggler; /* the process has ended the connection since */
};

/* What a test wants to do, and to see; each may be NULL. */
struct node_class {
    /* Before a command. True: it has replied to `out` instead of the server. */
    bool (*replaces)(const struct node_command *command, struct bytes *out);
    /* After it. It may change `out` from `at` on: the reply. Returns a note for it, or
     * NULL. */
    void *(*executed)(const struct node_command *command, struct bytes *out, size_t at);
};

struct node {
    unsigned index; /* its server number in the network */
    struct redis *redis;
    struct virtual_clock clock; /* ns since 1970 */
    enum node_state state;
    const struct node_class *class; /* NULL: none */
    int64_t service;                /* how long it works on each command; it replies then */
    int64_t busy_until;
    struct node_link *link;        /* all connections to it */
    const struct segment *reading; /* whose bytes it executes */
    struct node_link *reader;
};

/* The node listens at 10.0.0.`index`. */
void node_begin(struct node *node, unsigned index);
void node_end(struct node *node);

/* The node's time of day, in us. */
int64_t node_now(const struct node *node);

/* The node reads nothing; or goes on, also after it was down. */
void node_hang(struct node *node);
void node_resume(struct node *node);

/* The node's process ends; the keys stay, and scripts and connections are lost. Another
   process may take its place: node_resume(). */
void node_stop(struct node *node);

/* The node restarts at once without its data. */
void node_restart(struct node *node);

/* All connections to it are reset; or one. */
void node_hang_up(struct node *node);
void node_break(struct node_link *link);

/* The node reports all that it executes. */
void node_watch(struct node *node, const struct node_class *class);

void node_draw_id(char ret_id[REDIS_ID + 1]);

#endif
