/*
 * A connection to a node: one ordered stream of commands and replies.
 *
 * The commands of one loop iteration are in the send batch that all nodes share. Each
 * connection writes its segment of the batch in one go. Bytes that the socket does not
 * accept are kept in the connection's own batch and are written first next time. Replies
 * arrive in the order of the commands. A connection decides nothing: it reports events to
 * its owner.
 */
#ifndef RL_CONNECTION_H
#define RL_CONNECTION_H

#include <assert.h>

#include "greeting.h"
#include "io/resolver.h"
#include "resp.h"
#include "uri.h"
#include "words.h"

/* An outstanding command: one whose reply has not arrived. */
struct rl_op {
    void *task; /* the task that gets the reply */
    rl_time sent;
    rl_time asked; /* the same by CLOCK_BOOTTIME alone, so that reported latencies are not
                      too long */
    uint32_t seq;
    enum rl_command command : 8;
    uint8_t kind; /* enum redlock_kind: a lease that is downgraded changes its own */
    bool recreate : 1;
    bool whole : 1;       /* sent with the script's source */
    bool joins_queue : 1; /* adds an entry to the wait queue */
};

/*
 * The owner's callbacks. All others are called between `enter` and `leave`, or inside a
 * call that the owner makes. `published` gets messages to a subscribed channel; it is NULL
 * if the owner does not subscribe. `dropped`: the connection ended before the reply came;
 * NULL: the owner ignores that.
 */
struct rl_connection_handler {
    void (*enter)(void *arg);
    void (*leave)(void *arg);
    void (*connected)(void *arg);
    void (*greeted)(void *arg, struct rl_identity *identity);
    void (*replied)(void *arg, const struct rl_op *op, const struct rl_reply *reply);
    void (*published)(void *arg, const struct rl_reply *reply);
    void (*dropped)(void *arg, const struct rl_op *op);
    void (*failed)(void *arg, enum rl_fault fault);
};

struct rl_connection {
    const struct rl_connection_handler *owner;
    void *arg;
    struct rl_resolver *resolver; /* its `base` is also the connection's */
    const struct rl_uri *uri;
    struct rl_tls_peer peer;

    struct rl_stream *stream; /* NULL: none */
    bool connected;
    bool reading_stopped;       /* ignore all input from now on */
    struct rl_resolve *resolve; /* NULL: of a unix socket, or not needed yet */
    /* The host's addresses, while it connects: those in `untried` follow `at`, in a ring.
     */
    const struct rl_address *addresses;
    unsigned address_count, address_at, untried;
    struct rl_address silent; /* the last one that did not greet; .len 0: none */
    struct rl_resp *resp;
    bool greeting_now;
    char *secret; /* a copy of the password that the last greeting sent; NULL: none */
    struct rl_greeting greeting;
    bool name_refused; /* by the node; each refusal is an entry in its ACL LOG */
    enum rl_fault
        server_fault; /* the first error that came before the greeting was complete */
    enum rl_greeting_step denied_at; /* the step with that error, also after the end */
    struct rl_words words;           /* why it failed last; the owner may add to it */
    uint64_t known_scripts;          /* scripts whose source was sent on this connection */

    struct rl_send_batch kept; /* unwritten bytes, from `kept_at` on; written first */
    size_t kept_at;
    const struct rl_send_batch *batch; /* shared by all nodes */
    struct rl_segment segment;         /* of `batch`; written after `kept` */

    struct rl_op *op; /* a ring of outstanding commands */
    size_t op_first, op_count, op_room;
};

/* The resolver, the batch, the URI and the TLS context must outlive the connection. `tls`
   is for a URI that wants TLS. */
void rl_connection_init(struct rl_connection *connection, struct rl_resolver *resolver,
                        const struct rl_send_batch *batch, const struct rl_uri *uri,
                        struct rl_tls *tls, const struct rl_connection_handler *owner,
                        void *arg);

/* Forgets the outstanding commands and stops reading. Queued bytes can still be written. */
void rl_connection_stop_reading(struct rl_connection *connection);

/*
 * Writes what the socket accepts at once, closes, and frees the memory. Does not call the
 * owner. `forked`: in a forked child, which writes nothing.
 */
void rl_connection_clear(struct rl_connection *connection, bool forked);

/* Until the certificate of the node, and that of this client, ends; -1: there is none. */
void rl_connection_certificates(const struct rl_connection *connection, rl_time *ret_node,
                                rl_time *ret_client);

/*
 * Reports `connected` or `failed` to the owner, possibly before it returns. Tries the
 * addresses of a name one after the other, as long as they cannot be connected to. One that
 * has not greeted when the owner aborts is tried last next time.
 */
void rl_connection_connect(struct rl_connection *connection);

/* Queues the greeting. The owner later gets `greeted` or `failed`. False: no memory. */
bool rl_connection_greet(struct rl_connection *connection,
                         const struct rl_credentials *who);

/* Sets the words for a node whose reply is overdue, before the owner aborts. */
void rl_connection_note_silence(struct rl_connection *connection);

/* Ends the connection at once. Reports each outstanding command as `dropped`. */
void rl_connection_abort(struct rl_connection *connection);

/*
 * Writes the queued bytes as far as the socket accepts them, and keeps the rest. A result
 * other than NONE means that the caller must close the connection: it ended (the fault is
 * the server's reason, if it gave one), or there is no memory for the rest.
 */
enum rl_fault rl_connection_flush(struct rl_connection *connection);

/* The i-th outstanding command, the oldest first. The ring's size is a power of two. */
static inline struct rl_op *rl_connection_op(const struct rl_connection *connection,
                                             size_t i)
{
    return &connection->op[(connection->op_first + i) & (connection->op_room - 1)];
}

/* Makes room for a command that begins at `at` in the shared batch. False: no memory. */
RL_RARE bool rl_connection_make_room(struct rl_connection *connection, size_t at);

/*
 * Queues the command that is in `segment` of the shared batch. The caller must flush the
 * connection before it clears the batch. False: no memory; nothing was queued.
 */
static inline bool rl_connection_send(struct rl_connection *connection,
                                      const struct rl_op *op, struct rl_segment segment)
{
    assert(connection->connected);
    bool has_room =
        connection->op_count < connection->op_room && connection->segment.end == segment.at;
    if (!has_room && !rl_connection_make_room(connection, segment.at))
        return false;
    connection->segment.end = segment.end;
    *rl_connection_op(connection, connection->op_count++) = *op;
    return true;
}

/* When the oldest outstanding command was sent; RL_NEVER: there is none. */
static inline rl_time rl_connection_oldest(const struct rl_connection *connection)
{
    return connection->op_count ? rl_connection_op(connection, 0)->sent : RL_NEVER;
}

#endif
