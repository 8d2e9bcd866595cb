/*
 * The client's nodes, each a link and its connection, with what they share; and the startup
 * barrier.
 */
#ifndef RL_NODES_H
#define RL_NODES_H

#include "command_template.h"
#include "core/lease.h"
#include "core/link.h"
#include "loop.h"
#include "net/connection.h"
#include "redlock/stats.h"

struct rl_nodes;

/* The nodes' reports to membership. `arg` is the one of rl_nodes_init(). */
struct rl_nodes_handler {
    void (*greeted)(void *arg, unsigned node, const struct rl_identity *identity);
    void (*disconnected)(void *arg, unsigned node);
};

struct rl_node {
    struct rl_task task;
    struct rl_nodes *nodes;
    unsigned index;
    /* Not NONE: once the current reply is processed, the client closes the connection for
       this fault, and reconnects. Any part of the client may set it. */
    enum rl_fault reconnect_fault;
    rl_time took; /* reply time of the first reply parsed in this read event; 0: none yet */
    struct rl_link link;
    /* The state and the fault of the link in its last event that was recorded. */
    enum rl_link_state recorded_state;
    enum rl_fault recorded_fault;
    enum rl_fault logged_fault; /* why it cannot be reached; NONE: it was since */
    bool woke;                  /* its next tick reports RL_TASK_AWAKE */
    redlock_node_stats stats;   /* its counters; the rest: stats.c */
    struct rl_connection connection;
    struct rl_uri uri;
};

#define RL_TEMPLATES 2 /* per command: with the script's hash, and with its source */

struct rl_nodes {
    struct rl_task startup_task;
    struct rl_loop *loop;
    const redlock_options *options;
    const struct rl_nodes_handler *handler;
    void *arg;
    unsigned n, q;
    rl_node_set all;
    struct rl_node *node;
    struct rl_resolver resolver;
    struct rl_tls *tls; /* NULL: no node wants it */
    char nonce[RL_NODES_MAX]
              [RL_NONCE];      /* per node, ends its fenced commands; membership sets it */
    struct rl_word marker_key; /* read at each greeting; membership sets it */
    rl_time max_ttl; /* the longest TTL that a restarted node may have lost; sets the
                        quarantine */

    struct rl_view view;
    rl_time round_trip[RL_NODES_MAX];
    rl_node_set awake; /* nodes that reply, including those that their link quarantines */
    size_t window;     /* RL_NODE_WINDOW; in some runs of the simulator less */
    rl_node_set full;  /* nodes whose window is full; and until they reply in time */
    rl_node_set unwritten; /* nodes with queued commands that are not yet written */
    struct rl_startup_barrier startup;

    struct rl_command_template template[RL_COMMANDS][RL_TEMPLATES];
    struct rl_send_batch batch;
};

/* False: no memory. The caller must call rl_nodes_close() in either case. */
bool rl_nodes_init(struct rl_nodes *nodes, struct rl_loop *loop,
                   const redlock_options *options, unsigned n,
                   const struct rl_nodes_handler *handler, void *arg);
redlock_code rl_nodes_parse_uris(struct rl_nodes *nodes, const char *const *uris);
void rl_nodes_start(struct rl_nodes *nodes);

void rl_nodes_write(struct rl_nodes *nodes); /* writes the queued commands */

/* Tells all tasks RL_TASK_READY or ACTIVE. Call it in a tick or after a greeting, never
   while the reply to a task is processed: that task may be one of them. */
void rl_nodes_report_voter(struct rl_nodes *nodes, enum rl_task_event event, unsigned node);

void rl_nodes_stop_reading(struct rl_nodes *nodes);
void rl_nodes_close(struct rl_nodes *nodes, bool forked); /* as rl_connection_clear() */

/*
 * The window: if more than N - q nodes have so many commands of this client outstanding,
 * for each started millisecond of their shortest round trip, further work waits. The node
 * timeout counts from the moment at which a command is sent: without the window it would
 * count a node's work on thousands of earlier commands as silence. The window keeps a node
 * busy while the client reads its replies. A power of two.
 */
#define RL_NODE_WINDOW 256

/*
 * False: more work has to wait. Nodes that are full will have room, or be given up. If too
 * few nodes are left even with them, waiting is of no use.
 */
static inline bool rl_nodes_have_room(const struct rl_nodes *nodes)
{
    return !nodes->full || rl_count(nodes->view.ready & ~nodes->full) >= nodes->q ||
           rl_count(nodes->view.ready | nodes->full) < nodes->q;
}

/* The time, and the state of the nodes, for a step of a lease. */
static inline const struct rl_view *rl_nodes_view(struct rl_nodes *nodes)
{
    nodes->view.now = nodes->loop->now;
    return &nodes->view;
}

/* The longest reply timeout of these nodes, for a command that is not of a lease's round.
 */
rl_time rl_nodes_reply_timeout(const struct rl_nodes *nodes, rl_node_set of);

/* Raises `max_ttl`, and with it the quarantine of the nodes, to a TTL that is used. */
void rl_nodes_use_ttl(struct rl_nodes *nodes, rl_time ttl);

/* The text of this fault of the node, with what was last said of it. */
static inline const char *rl_node_text(const struct rl_node *node, enum rl_fault fault)
{
    return rl_words_text(&node->connection.words, fault);
}

void rl_node_sent(struct rl_node *node); /* its first outstanding command was queued */

RL_RARE void rl_node_note_full(const struct rl_node *node); /* its window may be full */

/* Queues the greeting for this node on one of its connections. False: no memory. */
bool rl_node_greet(const struct rl_node *node, struct rl_connection *connection);

/* --- startup.c: steps the startup barrier (core/link.h), and reports its end --- */

bool rl_startup_init(struct rl_nodes *nodes); /* false: no memory */

/* The nodes whose links are open, or have failed at least once. */
rl_node_set rl_startup_tried(const struct rl_nodes *nodes);

/* The `event` of a task that begins when the startup barrier opens. */
void rl_startup_event(struct rl_task *task, enum rl_task_event event, unsigned node);

/* Call it when a node was greeted or failed. */
void rl_startup_check(struct rl_nodes *nodes);

#endif
