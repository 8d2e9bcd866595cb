#include "connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define READ_SIZE       4096 /* bytes, on the stack of the thread that runs the loop */
#define READS_PER_EVENT 16
#define OP_ROOM         4 /* the ring's first size; it doubles as needed */
#define OP_KEPT         8192

void rl_connection_init(struct rl_connection *connection, struct rl_resolver *resolver,
                        const struct rl_send_batch *batch, const struct rl_uri *uri,
                        struct rl_tls *tls, const struct rl_connection_handler *owner,
                        void *arg)
{
    *connection = (struct rl_connection){
        .owner = owner,
        .arg = arg,
        .resolver = resolver,
        .batch = batch,
        .uri = uri,
        .peer = {.tls = uri->tls ? tls : NULL, .host = uri->host},
    };
}

/* --- outstanding commands --- */

static struct rl_op take_op(struct rl_connection *connection)
{
    struct rl_op op = *rl_connection_op(connection, 0);
    connection->op_first++;
    if (--connection->op_count == 0 && connection->op_room > OP_KEPT) {
        free(connection->op);
        connection->op = NULL;
        connection->op_room = 0;
    }
    return op;
}

/* --- connecting --- */

/* The queued bytes have been written, or never will be. */
static void drop_queue(struct rl_connection *connection)
{
    rl_send_batch_clear(&connection->kept);
    connection->kept_at = 0;
    connection->segment = (struct rl_segment){0};
}

static void end_stream(struct rl_connection *connection, void (*end)(struct rl_stream *))
{
    rl_resp_free(connection->resp);
    connection->resp = NULL;
    if (connection->stream)
        end(connection->stream);
    connection->stream = NULL;
}

/* The next try begins with the address after this one. */
static void note_silent(struct rl_connection *connection)
{
    bool greeted = connection->connected && !connection->greeting_now;
    if (connection->stream && !greeted && connection->address_count > 1)
        connection->silent = connection->addresses[connection->address_at];
}

static void disconnect(struct rl_connection *connection, void (*end)(struct rl_stream *))
{
    note_silent(connection);
    if (connection->resolve)
        rl_resolve_cancel(connection->resolve);
    end_stream(connection, end);
    connection->connected = false;
    connection->greeting_now = false;
    connection->server_fault = RL_FAULT_NONE;
    connection->known_scripts = 0;
    drop_queue(connection);
}

static void on_readable(void *arg);
static void on_proceed(void *arg);

static const struct rl_stream_handler handler = {on_readable, on_proceed};

/* MEMORY, or the fault that is given, with the system's words. */
static enum rl_fault fault_of_error(struct rl_connection *connection, enum rl_fault fault,
                                    int error)
{
    rl_words_set(&connection->words, fault, strerror(error));
    return error == ENOMEM ? RL_FAULT_MEMORY : fault;
}

static enum rl_fault open_stream(struct rl_connection *connection,
                                 const struct rl_address *address)
{
    int error = rl_stream_open(connection->resolver->base, address, &connection->peer,
                               &handler, connection, &connection->stream);
    if (error == -EMFILE || error == -ENFILE)
        return RL_FAULT_FILES;
    if (error != 0)
        return fault_of_error(connection, RL_FAULT_CONNECT, -error);
    connection->resp = rl_resp_new();
    return connection->resp ? RL_FAULT_NONE : RL_FAULT_MEMORY;
}

/* Begins to connect to the next address with which that is possible. */
static enum rl_fault open_next(struct rl_connection *connection)
{
    enum rl_fault fault = RL_FAULT_CONNECT;
    while (fault == RL_FAULT_CONNECT && connection->untried > 0) {
        connection->address_at = (connection->address_at + 1) % connection->address_count;
        connection->untried--;
        fault = open_stream(connection, &connection->addresses[connection->address_at]);
    }
    return fault;
}

static void report_fault(struct rl_connection *connection, enum rl_fault fault)
{
    if (fault != RL_FAULT_NONE)
        connection->owner->failed(connection->arg, fault);
}

static bool is_same(const struct rl_address *a, const struct rl_address *b)
{
    return a->len == b->len && memcmp(&a->addr, &b->addr, a->len) == 0;
}

/* So that the first one that is tried follows the silent one, if there is one. */
static void take_addresses(struct rl_connection *connection,
                           const struct rl_address *addresses, unsigned count)
{
    unsigned at = 0;
    while (at < count && !is_same(&addresses[at], &connection->silent))
        at++;
    connection->addresses = addresses;
    connection->address_count = connection->untried = count;
    connection->address_at = at < count ? at : count - 1;
}

static void on_resolved(const struct rl_address *addresses, unsigned count,
                        const char *reason, void *arg)
{
    struct rl_connection *connection = arg;
    enum rl_fault fault = RL_FAULT_RESOLVE;
    connection->owner->enter(connection->arg);
    if (count == 0)
        rl_words_set(&connection->words, RL_FAULT_RESOLVE, reason);
    if (count > 0) {
        take_addresses(connection, addresses, count);
        fault = open_next(connection);
    }
    report_fault(connection, fault);
    connection->owner->leave(connection->arg);
}

static enum rl_fault connect_to_path(struct rl_connection *connection, const char *path)
{
    struct rl_address address = {.len = sizeof(struct sockaddr_un)};
    struct sockaddr_un *un = (struct sockaddr_un *)&address.addr;
    un->sun_family = AF_UNIX;
    strncpy(un->sun_path, path, sizeof(un->sun_path) - 1);
    return open_stream(connection, &address);
}

void rl_connection_connect(struct rl_connection *connection)
{
    assert(!connection->stream);
    const struct rl_uri *uri = connection->uri;
    if (uri->path) {
        report_fault(connection, connect_to_path(connection, uri->path));
        return;
    }
    if (!connection->resolve)
        connection->resolve = rl_resolve_new(connection->resolver, uri->host, uri->port,
                                             on_resolved, connection);
    if (connection->resolve)
        rl_resolve_start(connection->resolve);
    else
        report_fault(connection, RL_FAULT_MEMORY);
}

static void note_error(struct rl_connection *connection, const struct rl_reply *reply,
                       enum rl_greeting_step step)
{
    if (reply->type != RL_REPLY_ERROR || connection->server_fault != RL_FAULT_NONE)
        return;
    connection->server_fault = rl_greeting_fault(step, reply);
    connection->denied_at = step;
    rl_words_set_reply(&connection->words, connection->server_fault, reply,
                       step == RL_GREET_AUTH, connection->secret);
}

/* Reads the server's last error. Reports nothing to the owner: the connection has ended. */
static void read_reason(struct rl_connection *connection)
{
    char bytes[READ_SIZE];
    const struct rl_reply *reply;
    for (int i = 0; i < READS_PER_EVENT && connection->server_fault == RL_FAULT_NONE; i++) {
        ssize_t got = rl_stream_read(connection->stream, bytes, sizeof(bytes));
        if (got <= 0)
            return;
        rl_resp_feed(connection->resp, bytes, (size_t)got);
        while (rl_resp_next(connection->resp, &reply) == RL_RESP_REPLY)
            note_error(connection, reply, RL_GREET_AUTH);
    }
}

/*
 * Returns why the connection ended. A server that accepts no more clients, or none from
 * this machine, sends an error without a request and closes. That error may still be unread
 * when a write fails.
 */
static enum rl_fault fault_of_end(struct rl_connection *connection, enum rl_fault fault)
{
    bool greeted = connection->connected && !connection->greeting_now;
    bool in_handshake = !connection->connected && connection->peer.tls;
    if (!greeted && !in_handshake)
        read_reason(connection);
    if (connection->server_fault != RL_FAULT_NONE)
        return connection->server_fault;
    const char *reason;
    enum rl_fault tls = rl_stream_fault(connection->stream, &reason);
    if (tls == RL_FAULT_NONE)
        return fault;
    rl_words_set(&connection->words, tls, reason);
    return tls;
}

/* The server's own words say more. */
static void note_closed(struct rl_connection *connection, const char *reason)
{
    if (connection->server_fault == RL_FAULT_NONE)
        rl_words_set(&connection->words, RL_FAULT_CLOSED, reason);
}

static void finish_connecting(struct rl_connection *connection)
{
    int state = rl_stream_connect(connection->stream);
    /* Reset, or closed in the TLS handshake: it was accepted. */
    enum rl_fault fault =
        state == -ECONNRESET || state == -EPIPE ? RL_FAULT_CLOSED : RL_FAULT_CONNECT;
    if (state == -EINPROGRESS)
        return;
    if (state == 0 && !rl_stream_want_read(connection->stream))
        state = -errno;
    connection->connected = state == 0;
    if (connection->connected) {
        connection->owner->connected(connection->arg);
        return;
    }
    rl_words_set(&connection->words, fault,
                 state && state != -EPIPE ? strerror(-state) : "");
    fault = fault_of_end(connection, fault);
    if (fault == RL_FAULT_CONNECT && connection->untried > 0) {
        end_stream(connection, rl_stream_abort);
        fault = open_next(connection);
    }
    report_fault(connection, fault);
}

static void on_proceed(void *arg)
{
    struct rl_connection *connection = arg;
    connection->owner->enter(connection->arg);
    if (connection->stream && !connection->connected)
        finish_connecting(connection);
    else if (connection->stream)
        report_fault(connection, rl_connection_flush(connection));
    connection->owner->leave(connection->arg);
}

void rl_connection_note_silence(struct rl_connection *connection)
{
    bool resolves = !connection->uri->path && !connection->stream;
    bool in_handshake =
        connection->stream && !connection->connected && connection->peer.tls;
    rl_words_set(&connection->words, RL_FAULT_TIMEOUT,
                 resolves       ? rl_resolve_silence(connection->resolve)
                 : in_handshake ? "does this port speak TLS?"
                                : "");
}

void rl_connection_abort(struct rl_connection *connection)
{
    disconnect(connection, rl_stream_abort);
    while (connection->op_count > 0) {
        struct rl_op op = take_op(connection);
        if (connection->owner->dropped)
            connection->owner->dropped(connection->arg, &op);
    }
}

void rl_connection_stop_reading(struct rl_connection *connection)
{
    connection->reading_stopped = true;
    connection->op_count = 0;
    if (connection->stream)
        rl_stream_stop_reading(connection->stream);
}

/* Closing a socket with unread input would send a reset instead of a normal close. */
static void discard_input(struct rl_connection *connection)
{
    char bytes[READ_SIZE];
    for (int i = 0; i < READS_PER_EVENT; i++)
        if (rl_stream_read(connection->stream, bytes, sizeof(bytes)) <= 0)
            break;
}

void rl_connection_clear(struct rl_connection *connection, bool forked)
{
    if (forked) {
        rl_resp_free(connection->resp);
        if (connection->stream)
            rl_stream_forget(connection->stream);
    } else {
        if (connection->connected && rl_connection_flush(connection) == RL_FAULT_NONE)
            discard_input(connection);
        disconnect(connection, rl_stream_close);
    }
    rl_resolve_free(connection->resolve);
    connection->resolve = NULL;
    rl_tls_peer_clear(&connection->peer);
    rl_send_batch_free(&connection->kept);
    free(connection->op);
    connection->op = NULL;
    connection->op_count = 0;
    free(connection->secret);
    connection->secret = NULL;
}

static rl_time until(int64_t end)
{
    return end ? rl_tls_seconds_until(end) * RL_SECOND : -1;
}

void rl_connection_certificates(const struct rl_connection *connection, rl_time *ret_node,
                                rl_time *ret_client)
{
    *ret_node = until(connection->peer.server_end);
    *ret_client = until(connection->peer.client_end);
}

/* --- sending --- */

/*
 * Moves the unwritten bytes to the front. If the node always reads more slowly than the
 * client sends, the batch is never empty, and would otherwise only grow.
 */
static void drop_written(struct rl_connection *connection)
{
    size_t left = connection->kept.len - connection->kept_at;
    if (left >= connection->kept_at)
        return;
    memmove(connection->kept.bytes, connection->kept.bytes + connection->kept_at, left);
    connection->kept.len = left;
    connection->kept_at = 0;
}

/*
 * Copies the segment to the connection's own batch: the socket did not accept it, or the
 * next segment does not begin where this one ends.
 */
static bool keep_segment(struct rl_connection *connection)
{
    struct rl_segment kept;
    size_t len = connection->segment.end - connection->segment.at;
    drop_written(connection);
    if (len > 0 &&
        !rl_send_batch_add(&connection->kept,
                           connection->batch->bytes + connection->segment.at, len, &kept))
        return false;
    connection->segment = (struct rl_segment){0};
    return true;
}

static bool double_ops(struct rl_connection *connection)
{
    size_t room = connection->op_room ? 2 * connection->op_room : OP_ROOM;
    struct rl_op *op = malloc(room * sizeof(*op));
    if (!op)
        return false;
    for (size_t i = 0; i < connection->op_count; i++)
        op[i] = *rl_connection_op(connection, i);
    free(connection->op);
    connection->op = op;
    connection->op_first = 0;
    connection->op_room = room;
    return true;
}

bool rl_connection_make_room(struct rl_connection *connection, size_t at)
{
    if (connection->op_count == connection->op_room && !double_ops(connection))
        return false;
    if (connection->segment.end == at)
        return true;
    if (!keep_segment(connection))
        return false;
    connection->segment = (struct rl_segment){at, at};
    return true;
}

bool rl_connection_greet(struct rl_connection *connection, const struct rl_credentials *who)
{
    connection->greeting_now = true;
    free(connection->secret);
    connection->secret = who->password ? strdup(who->password) : NULL;
    return (connection->secret || !who->password) && keep_segment(connection) &&
           rl_greeting_begin(&connection->greeting, who, &connection->kept);
}

/* Writes as much as the socket accepts. False: the connection ended. */
static bool write_some(struct rl_connection *connection, const char *bytes, size_t *at,
                       size_t end)
{
    while (*at < end) {
        ssize_t put = rl_stream_write(connection->stream, bytes + *at, end - *at);
        if (put == -EAGAIN)
            return true;
        if (put < 0) {
            note_closed(connection, strerror((int)-put));
            return false;
        }
        *at += (size_t)put;
    }
    return true;
}

static enum rl_fault write_later(struct rl_connection *connection)
{
    if (!keep_segment(connection))
        return RL_FAULT_MEMORY;
    return rl_stream_want_write(connection->stream)
               ? RL_FAULT_NONE
               : fault_of_error(connection, RL_FAULT_CLOSED, errno);
}

enum rl_fault rl_connection_flush(struct rl_connection *connection)
{
    if (!write_some(connection, connection->kept.bytes, &connection->kept_at,
                    connection->kept.len))
        return fault_of_end(connection, RL_FAULT_CLOSED);
    bool kept = connection->kept_at < connection->kept.len;
    if (!kept && !write_some(connection, connection->batch->bytes, &connection->segment.at,
                             connection->segment.end))
        return fault_of_end(connection, RL_FAULT_CLOSED);
    if (kept || connection->segment.at < connection->segment.end)
        return write_later(connection);
    drop_queue(connection);
    return RL_FAULT_NONE;
}

/* --- receiving --- */

static void take_reply(struct rl_connection *connection, const struct rl_reply *reply)
{
    if (connection->greeting_now) {
        enum rl_greeting_step step = rl_greeting_step(&connection->greeting);
        if (step != RL_GREET_NAME && step != RL_GREET_MARKER)
            note_error(connection, reply, step);
        if (!rl_greeting_read(&connection->greeting, reply))
            return;
        connection->greeting_now = false;
        connection->name_refused |= connection->greeting.name_refused;
        if (connection->server_fault == RL_FAULT_NONE)
            rl_words_set(&connection->words, RL_FAULT_NONE, "");
        connection->server_fault = RL_FAULT_NONE;
        connection->owner->greeted(connection->arg, &connection->greeting.identity);
        return;
    }
    /* A published message may come before any reply. */
    if (connection->owner->published && rl_resp_begins(reply, "message")) {
        connection->owner->published(connection->arg, reply);
        return;
    }
    if (connection->op_count == 0) { /* a reply without a command */
        connection->owner->failed(connection->arg, RL_FAULT_PROTOCOL);
        return;
    }
    struct rl_op op = take_op(connection);
    connection->owner->replied(connection->arg, &op, reply);
}

/* The owner may end the connection at each reply. Then `resp` is a new one, or NULL. */
static bool take_replies(struct rl_connection *connection)
{
    struct rl_resp *resp = connection->resp;
    const struct rl_reply *reply;
    for (;;) {
        enum rl_resp_result found = rl_resp_next(resp, &reply);
        switch (found) {
        case RL_RESP_MORE: return true;
        case RL_RESP_BROKEN:
        case RL_RESP_NO_MEMORY:
            connection->owner->failed(connection->arg, found == RL_RESP_BROKEN
                                                           ? RL_FAULT_PROTOCOL
                                                           : RL_FAULT_MEMORY);
            return false;
        case RL_RESP_REPLY: take_reply(connection, reply); break;
        }
        if (connection->resp != resp || connection->reading_stopped)
            return false;
    }
}

/* Reads and processes up to READ_SIZE bytes. Returns whether there may be more. */
static bool take_bytes(struct rl_connection *connection)
{
    char bytes[READ_SIZE];
    ssize_t got = rl_stream_read(connection->stream, bytes, sizeof(bytes));
    if (got == -EAGAIN)
        return false;
    if (got <= 0) {
        note_closed(connection, got < 0 ? strerror((int)-got) : "");
        connection->owner->failed(connection->arg,
                                  fault_of_end(connection, RL_FAULT_CLOSED));
        return false;
    }
    rl_resp_feed(connection->resp, bytes, (size_t)got);
    return take_replies(connection) && (size_t)got == sizeof(bytes);
}

static void on_readable(void *arg)
{
    struct rl_connection *connection = arg;
    connection->owner->enter(connection->arg);
    for (int i = 0;
         i < READS_PER_EVENT && connection->stream && !connection->reading_stopped; i++)
        if (!take_bytes(connection))
            break;
    connection->owner->leave(connection->arg);
}
