/*
 * A node's transport: one ordered stream of commands and replies.
 *
 * What is said in a pass of the loop lies in the post, and is written from there in one go.
 * What the socket does not take is kept in a post of the node's own, and comes first then;
 * replies come back in the order of the commands. It decides nothing: it reports to its
 * owner.
 */
#ifndef RL_NODE_H
#define RL_NODE_H

#include <assert.h>
#include <event2/event.h>

#include "greeting.h"
#include "post.h"
#include "resolve.h"
#include "resp.h"
#include "uri.h"

/* A command that is owed an answer. */
struct rl_op {
    void *task; /* who asked */
    rl_time sent;
    rl_time asked; /* the same by CLOCK_BOOTTIME alone: what is told is not a bit ahead */
    uint32_t seq;
    enum rl_text text : 8;
    bool plant;
    bool whole;       /* the script itself was sent */
    bool takes_place; /* in the queue of those who wait */
};

struct rl_node;

/*
 * Everything is called between `wake` and `sleep`, or inside a call of the owner's.
 * `called` is for who subscribes: a message that was published; NULL: nobody does.
 */
struct rl_node_owner {
    void (*wake)(void *arg);
    void (*sleep)(void *arg);
    void (*connected)(void *arg, struct rl_node *node);
    void (*greeted)(void *arg, struct rl_node *node, struct rl_identity *identity);
    void (*replied)(void *arg, struct rl_node *node, const struct rl_op *op,
                    const struct rl_reply *reply);
    void (*called)(void *arg, struct rl_node *node, const struct rl_reply *reply);
    void (*cut)(void *arg, struct rl_node *node, const struct rl_op *op);
    void (*failed)(void *arg, struct rl_node *node, enum rl_fault fault);
};

struct rl_node {
    const struct rl_node_owner *owner;
    void *arg;
    struct event_base *base;
    struct rl_resolver *resolver;
    struct rl_uri uri;

    int fd; /* -1: none */
    bool connected;
    bool deaf; /* nothing that arrives is looked at any more */
    unsigned turn;
    struct rl_resolve *resolving;
    struct event *readable, *writable;
    struct rl_resp *resp;
    bool greeting_now;
    struct rl_greeting greeting;
    enum rl_fault said; /* the first error that came before the greeting was answered */
    uint32_t known;     /* scripts that were sent whole on this connection */

    struct rl_post kept; /* from kept_at on it is to be written, */
    size_t kept_at;
    const struct rl_post *post;
    struct rl_part part; /* and then this part of the post of all */

    struct rl_op *op; /* a ring of what is owed an answer */
    size_t op_first, op_count, op_room;
};

/* Takes the URI over. */
void rl_node_init(struct rl_node *node, struct event_base *base,
                  struct rl_resolver *resolver, const struct rl_post *post,
                  const struct rl_uri *uri, const struct rl_node_owner *owner, void *arg);

/* Nobody is owed an answer any more. What is queued can still be written. */
void rl_node_deafen(struct rl_node *node);

/* Closes with what the socket takes at once still written; no owner is called. */
void rl_node_clear(struct rl_node *node);

/* Frees the memory and closes the descriptor, but leaves the loop alone: after a fork. */
void rl_node_forget(struct rl_node *node);

/* Reports `connected` or `failed`, perhaps before it returns. */
void rl_node_connect(struct rl_node *node);

/* Reports `greeted` or `failed`. False: no memory. */
bool rl_node_greet(struct rl_node *node, const struct rl_credentials *who);

/* Ends the connection at once; every operation that is owed an answer is `cut`. */
void rl_node_abort(struct rl_node *node);

/*
 * Writes what is queued, as far as the socket takes it, and keeps the rest. NONE, or why
 * the connection has to be given up: it ended, for the reason that the server gave if any,
 * or there is no memory for what is kept.
 */
enum rl_fault rl_node_flush(struct rl_node *node);

/* What is owed an answer, the oldest first; the ring's room is a power of two. */
static inline struct rl_op *rl_node_op(const struct rl_node *node, size_t i)
{
    return &node->op[(node->op_first + i) & (node->op_room - 1)];
}

/* For a command that begins there in the post. False: no memory. */
RL_RARE bool rl_node_make_room(struct rl_node *node, size_t at);

/*
 * Queues a command, which is this part of the post; it is flushed before that is emptied.
 * False: no memory, and nothing was queued.
 */
static inline bool rl_node_send(struct rl_node *node, const struct rl_op *op,
                                struct rl_part part)
{
    assert(node->connected);
    bool has_room = node->op_count < node->op_room && node->part.end == part.at;
    if (!has_room && !rl_node_make_room(node, part.at))
        return false;
    node->part.end = part.end;
    *rl_node_op(node, node->op_count++) = *op;
    return true;
}

/* When the oldest operation that is owed an answer was sent; RL_NEVER: there is none. */
static inline rl_time rl_node_oldest(const struct rl_node *node)
{
    return node->op_count ? rl_node_op(node, 0)->sent : RL_NEVER;
}

#endif
