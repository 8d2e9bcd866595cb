#include "network.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "io/stream.h"
#include "process.h"

#define BUFFER    (64 * 1024) /* bytes that may be under way in one direction */
#define CUT_ONE   8           /* of so many arrivals, one is cut into two */
#define NET_FIRST 0x0a000000  /* 10.0.0.0 */

struct network network;

/* One direction. */
struct pipe {
    char *bytes;
    size_t len, room;
    size_t arrived; /* of `len`; the receiver can read these */
    int64_t last;   /* when the last of them arrives */
    bool is_ended;  /* the writer wrote its last byte */
    bool has_ended; /* and the receiver can know */
    struct event arrival;
};

struct connection {
    struct connection *next, **link;
    unsigned host;
    struct rl_stream *stream; /* NULL: the client has closed */
    void *peer;               /* what the server made of it; NULL: it does not know it */
    bool is_connected, is_reset;
    bool is_busy;         /* the server processes what has arrived */
    int error;            /* of connecting */
    struct pipe up, down; /* to the server, and to the client */
    struct event connecting;
};

struct rl_stream {
    struct process *process;
    const struct rl_stream_handler *owner;
    void *arg;
    struct connection *connection;
    bool wants_read, wants_write;
    struct ready readable, writable;
};

static struct address *address_of(const struct connection *connection)
{
    return &network.address[connection->host];
}

static int64_t draw_delay(const struct connection *connection)
{
    int64_t half = address_of(connection)->delay / 2;
    return half + (int64_t)events_random((uint64_t)(3 * half + 1));
}

struct rl_address network_address(unsigned host, int port)
{
    struct rl_address address = {.len = sizeof(struct sockaddr_in)};
    struct sockaddr_in *in = (struct sockaddr_in *)&address.addr;
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)port);
    in->sin_addr.s_addr = htonl(NET_FIRST + host);
    return address;
}

/* --- pipes --- */

static void pipe_add(struct pipe *pipe, const char *bytes, size_t len)
{
    if (pipe->len + len > pipe->room) {
        pipe->room = 2 * (pipe->len + len);
        pipe->bytes = realloc(pipe->bytes, pipe->room);
        if (!pipe->bytes)
            abort();
    }
    memcpy(pipe->bytes + pipe->len, bytes, len);
    pipe->len += len;
}

static void pipe_drop(struct pipe *pipe, size_t len)
{
    memmove(pipe->bytes, pipe->bytes + len, pipe->len - len);
    pipe->len -= len;
    pipe->arrived -= len;
}

/* All that is under way now arrives at one time, or half of it. */
static void send_pipe(struct connection *connection, struct pipe *pipe)
{
    int64_t at = events_now() + draw_delay(connection);
    pipe->last = at > pipe->last ? at : pipe->last;
    if (!event_is_scheduled(&pipe->arrival) && !address_of(connection)->is_blocked)
        event_at(&pipe->arrival, pipe->last);
}

/* Returns whether there is something new for the receiver. */
static bool arrive(struct connection *connection, struct pipe *pipe)
{
    size_t left = pipe->len - pipe->arrived;
    if (address_of(connection)->is_blocked)
        return false;
    if (left > 1 && events_random(CUT_ONE) == 0)
        left = 1 + events_random(left - 1);
    pipe->arrived += left;
    if (pipe->arrived < pipe->len)
        event_at(&pipe->arrival, pipe->last);
    else
        pipe->has_ended = pipe->is_ended;
    return true;
}

static void pipe_clear(struct pipe *pipe)
{
    event_cancel(&pipe->arrival);
    free(pipe->bytes);
    pipe->bytes = NULL;
    pipe->len = pipe->arrived = pipe->room = 0;
}

/* FNV-1a */
static void note(const char *bytes, size_t len)
{
    uint64_t hash = (network.trace ^ (uint64_t)events_now()) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    network.trace = hash;
}

/* --- the client's side --- */

static void tell_readable(struct connection *connection)
{
    struct rl_stream *stream = connection->stream;
    if (stream && stream->wants_read && connection->is_connected)
        process_make_ready(stream->process, &stream->readable);
}

static void tell_writable(struct connection *connection)
{
    struct rl_stream *stream = connection->stream;
    if (stream && stream->wants_write)
        process_make_ready(stream->process, &stream->writable);
}

/* Nobody knows it any more. */
static void free_if_over(struct connection *connection)
{
    if (connection->stream || connection->peer || connection->is_busy ||
        event_is_scheduled(&connection->connecting))
        return;
    pipe_clear(&connection->up);
    pipe_clear(&connection->down);
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    free(connection);
}

static void hang_up(struct connection *connection)
{
    void *peer = connection->peer;
    connection->peer = NULL;
    if (peer)
        address_of(connection)->class->closed(peer);
}

/* Bytes, or the client's end, arrive at the server. */
static void arrive_up(void *arg)
{
    struct connection *connection = arg;
    struct pipe *pipe = &connection->up;
    if (!arrive(connection, pipe))
        return;
    if (connection->peer && pipe->arrived > 0) {
        size_t len = pipe->arrived;
        char *bytes = malloc(len);
        memcpy(bytes, pipe->bytes, len);
        pipe_drop(pipe, len);
        connection->is_busy = true;
        address_of(connection)->class->received(connection->peer, bytes, len);
        connection->is_busy = false;
        free(bytes);
    }
    tell_writable(connection);
    if (pipe->has_ended)
        hang_up(connection);
    free_if_over(connection);
}

static void arrive_down(void *arg)
{
    struct connection *connection = arg;
    if (!arrive(connection, &connection->down))
        return;
    tell_readable(connection);
}

static void finish_connecting(void *arg)
{
    struct connection *connection = arg;
    struct address *address = address_of(connection);
    if (address->is_blocked) /* the first packet is lost, and sent again */
        return;
    connection->is_connected = address->server != NULL;
    connection->error = address->server ? 0 : ECONNREFUSED;
    if (connection->is_connected)
        connection->peer = address->class->accepted(address->server, connection);
    tell_writable(connection);
    free_if_over(connection);
}

static void connection_begin(struct connection *connection, unsigned host)
{
    *connection = (struct connection){
        .next = network.connection,
        .link = &network.connection,
        .host = host,
        .connecting = {.happen = finish_connecting, .arg = connection},
        .up.arrival = {.happen = arrive_up, .arg = connection},
        .down.arrival = {.happen = arrive_down, .arg = connection},
    };
    if (network.connection)
        network.connection->link = &connection->next;
    network.connection = connection;
    event_at(&connection->connecting, events_now() + draw_delay(connection));
}

/* --- io/stream.h --- */

static void on_readable(void *arg)
{
    struct rl_stream *stream = arg;
    stream->owner->readable(stream->arg);
}

static void on_writable(void *arg)
{
    struct rl_stream *stream = arg;
    stream->wants_write = false;
    stream->owner->writable(stream->arg);
}

int rl_stream_open(struct event_base *base, const struct rl_address *address,
                   const struct rl_stream_handler *owner, void *arg,
                   struct rl_stream **ret_stream)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&address->addr;
    unsigned host = ntohl(in->sin_addr.s_addr) - NET_FIRST;
    assert(in->sin_family == AF_INET && host < NETWORK_HOSTS);
    struct rl_stream *stream = malloc(sizeof(*stream));
    struct connection *connection = malloc(sizeof(*connection));
    if (!stream || !connection) {
        free(stream);
        free(connection);
        return -ENOMEM;
    }
    connection_begin(connection, host);
    *stream = (struct rl_stream){
        .process = process_of(base),
        .owner = owner,
        .arg = arg,
        .connection = connection,
        .wants_write = true,
        .readable = {.run = on_readable, .arg = stream},
        .writable = {.run = on_writable, .arg = stream},
    };
    connection->stream = stream;
    *ret_stream = stream;
    return 0;
}

int rl_stream_connected(const struct rl_stream *stream)
{
    const struct connection *connection = stream->connection;
    if (connection->is_reset)
        return -ECONNRESET;
    if (connection->error)
        return -connection->error;
    return connection->is_connected ? 0 : -EINPROGRESS;
}

static bool is_readable(const struct connection *connection)
{
    return connection->is_reset || connection->down.arrived > 0 ||
           connection->down.has_ended;
}

bool rl_stream_want_read(struct rl_stream *stream)
{
    stream->wants_read = true;
    if (is_readable(stream->connection))
        tell_readable(stream->connection);
    return true;
}

void rl_stream_stop_reading(struct rl_stream *stream)
{
    stream->wants_read = false;
    ready_forget(stream->process, &stream->readable);
}

static size_t room_of(const struct connection *connection)
{
    return connection->up.len < BUFFER ? BUFFER - connection->up.len : 0;
}

bool rl_stream_want_write(struct rl_stream *stream)
{
    struct connection *connection = stream->connection;
    stream->wants_write = true;
    bool is_decided = connection->is_connected || connection->error != 0;
    if (connection->is_reset || (is_decided && room_of(connection) > 0))
        tell_writable(connection);
    return true;
}

ssize_t rl_stream_read(const struct rl_stream *stream, char *buffer, size_t room)
{
    struct connection *connection = stream->connection;
    struct pipe *pipe = &connection->down;
    if (connection->is_reset)
        return -ECONNRESET;
    if (!is_readable(connection))
        return -EAGAIN;
    size_t len = pipe->arrived < room ? pipe->arrived : room;
    memcpy(buffer, pipe->bytes, len);
    pipe_drop(pipe, len);
    if (is_readable(connection)) /* as epoll without EPOLLET says it again */
        tell_readable(connection);
    return (ssize_t)len;
}

ssize_t rl_stream_write(const struct rl_stream *stream, const char *bytes, size_t len)
{
    struct connection *connection = stream->connection;
    size_t room = room_of(connection);
    if (connection->is_reset)
        return -ECONNRESET;
    if (room == 0)
        return -EAGAIN;
    len = len < room ? len : room;
    pipe_add(&connection->up, bytes, len);
    send_pipe(connection, &connection->up);
    note(bytes, len);
    return (ssize_t)len;
}

static void free_stream(struct rl_stream *stream)
{
    ready_forget(stream->process, &stream->readable);
    ready_forget(stream->process, &stream->writable);
    stream->connection->stream = NULL;
    free(stream);
}

void rl_stream_abort(struct rl_stream *stream)
{
    struct connection *connection = stream->connection;
    free_stream(stream);
    event_cancel(&connection->connecting);
    connection_reset(connection);
}

void rl_stream_close(struct rl_stream *stream)
{
    struct connection *connection = stream->connection;
    free_stream(stream);
    connection->up.is_ended = true;
    send_pipe(connection, &connection->up);
    free_if_over(connection);
}

void rl_stream_forget(struct rl_stream *stream)
{
    rl_stream_close(stream);
}

/* --- the server's side --- */

void connection_write(struct connection *connection, const char *bytes, size_t len)
{
    note(bytes, len);
    pipe_add(&connection->down, bytes, len);
    send_pipe(connection, &connection->down);
}

void connection_close(struct connection *connection)
{
    connection->peer = NULL;
    connection->down.is_ended = true;
    send_pipe(connection, &connection->down);
    free_if_over(connection);
}

void connection_reset(struct connection *connection)
{
    connection->is_reset = true;
    pipe_clear(&connection->up);
    pipe_clear(&connection->down);
    hang_up(connection);
    tell_writable(connection);
    tell_readable(connection);
    free_if_over(connection);
}

void network_reset(unsigned host)
{
    struct connection *next;
    for (struct connection *at = network.connection; at; at = next) {
        next = at->next;
        if (at->host == host)
            connection_reset(at);
    }
}

void network_block(unsigned host, bool is_blocked)
{
    network.address[host].is_blocked = is_blocked;
    for (struct connection *at = network.connection; at && !is_blocked; at = at->next) {
        if (at->host != host)
            continue;
        if (!at->is_connected && !at->error && !event_is_scheduled(&at->connecting))
            event_at(&at->connecting, events_now() + draw_delay(at));
        if (at->up.len > at->up.arrived || at->up.is_ended)
            send_pipe(at, &at->up);
        if (at->down.len > at->down.arrived || at->down.is_ended)
            send_pipe(at, &at->down);
    }
}

void network_begin(void)
{
    network = (struct network){0};
}

/* Each process and server has gone. */
void network_end(void)
{
    while (network.connection) {
        struct connection *connection = network.connection;
        connection->stream = NULL;
        connection->peer = NULL;
        event_cancel(&connection->connecting);
        free_if_over(connection);
    }
}
