/* What the library finds behind io/stream.h. */
#include "io/stream.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "memory.h"

#define NET_FIRST 0x0a000000 /* 10.0.0.0 */

struct rl_stream {
    struct process *process;
    const struct rl_stream_handler *owner;
    void *arg;
    struct connection *connection;
    bool wants_read, wants_write;
    struct ready readable, writable;
};

static bool is_readable(const struct connection *connection)
{
    return connection->inbox || connection->has_ended || connection->error;
}

static size_t room_of(const struct connection *connection)
{
    size_t room = network.faults.send_room;
    return connection->up.bytes < room ? room - connection->up.bytes : 0;
}

/* As epoll without EPOLLET says it, again and again. */
void stream_changed(struct rl_stream *stream)
{
    const struct connection *connection = stream->connection;
    bool is_decided = connection->is_connected || connection->error;
    if (connection->is_held)
        return;
    if (stream->wants_read && connection->is_connected && is_readable(connection))
        process_make_ready(stream->process, &stream->readable);
    if (stream->wants_write &&
        (connection->error || (is_decided && room_of(connection) > 0)))
        process_make_ready(stream->process, &stream->writable);
}

static void on_readable(void *arg)
{
    const struct rl_stream *stream = arg;
    stream->owner->readable(stream->arg);
}

static void on_proceed(void *arg)
{
    struct rl_stream *stream = arg;
    stream->wants_write = false;
    stream->owner->proceed(stream->arg);
}

int rl_stream_open(struct event_base *base, const struct rl_address *address,
                   struct rl_tls_peer *peer, const struct rl_stream_handler *owner,
                   void *arg, struct rl_stream **ret_stream)
{
    assert(!peer->tls);
    (void)peer;
    const struct sockaddr_in *in = (const struct sockaddr_in *)&address->addr;
    unsigned host = ntohl(in->sin_addr.s_addr) - NET_FIRST;
    assert(in->sin_family == AF_INET && host < NETWORK_HOSTS);
    struct rl_stream *stream = sim_malloc(sizeof(*stream));
    if (!stream)
        return -ENOMEM;
    struct connection *connection = connection_open(process_of(base), host);
    int error = connection->error; /* only if a test refuses it */
    if (error != 0) {
        connection_forget(connection);
        sim_free(stream);
        return -error;
    }
    *stream = (struct rl_stream){
        .process = process_of(base),
        .owner = owner,
        .arg = arg,
        .connection = connection,
        .wants_write = true,
        .readable = {.run = on_readable, .arg = stream},
        .writable = {.run = on_proceed, .arg = stream},
    };
    connection->stream = stream;
    connection->owner = arg;
    *ret_stream = stream;
    return 0;
}

int rl_stream_connect(struct rl_stream *stream)
{
    const struct connection *connection = stream->connection;
    if (connection->error)
        return -connection->error;
    if (connection->is_connected)
        return 0;
    return rl_stream_want_write(stream) ? -EINPROGRESS : -errno;
}

enum rl_fault rl_stream_fault(const struct rl_stream *stream, const char **ret_reason)
{
    *ret_reason = "";
    (void)stream;
    return RL_FAULT_NONE;
}

bool rl_stream_want_read(struct rl_stream *stream)
{
    errno = ENOMEM;
    if (process_may_fail(stream->process, stream->process->faults.no_memory))
        return false;
    stream->wants_read = true;
    stream_changed(stream);
    return true;
}

void rl_stream_stop_reading(struct rl_stream *stream)
{
    stream->wants_read = false;
    ready_forget(stream->process, &stream->readable);
}

bool rl_stream_want_write(struct rl_stream *stream)
{
    errno = ENOMEM;
    if (process_may_fail(stream->process, stream->process->faults.no_memory))
        return false;
    stream->wants_write = true;
    stream_changed(stream);
    return true;
}

/* The process has read this segment. */
static void finish(struct connection *connection, struct segment *segment)
{
    const struct network_observer *observer = network.observer;
    connection->inbox = segment->next;
    if (!connection->inbox)
        connection->inbox_last = &connection->inbox;
    if (segment->note && observer && observer->read)
        observer->read(connection, segment->note);
    free(segment);
}

ssize_t rl_stream_read(const struct rl_stream *stream, char *buffer, size_t room)
{
    struct connection *connection = stream->connection;
    size_t got = 0;
    if (!connection->inbox && connection->error)
        return -connection->error;
    if (!connection->inbox)
        return connection->has_ended ? 0 : -EAGAIN;
    while (connection->inbox && got < room) {
        struct segment *segment = connection->inbox;
        size_t left = segment->len - segment->done;
        size_t len = left < room - got ? left : room - got;
        memcpy(buffer + got, segment->bytes + segment->done, len);
        segment->done += len;
        got += len;
        if (segment->done == segment->len)
            finish(connection, segment);
    }
    stream_changed((struct rl_stream *)stream);
    return (ssize_t)got;
}

ssize_t rl_stream_write(const struct rl_stream *stream, const char *bytes, size_t len)
{
    struct connection *connection = stream->connection;
    const struct network_observer *observer = network.observer;
    process_may_stall(stream->process);
    size_t room = room_of(connection);
    if (connection->error)
        return -connection->error;
    network.counts.partial_writes += room < len;
    if (room == 0)
        return -EAGAIN;
    len = len < room ? len : room;
    if (observer && observer->written)
        observer->written(connection, bytes, len);
    connection_send(connection, bytes, len);
    return (ssize_t)len;
}

static void leave(struct rl_stream *stream, bool is_aborted)
{
    struct connection *connection = stream->connection;
    ready_forget(stream->process, &stream->readable);
    ready_forget(stream->process, &stream->writable);
    sim_free(stream);
    connection_leave(connection, is_aborted);
}

void rl_stream_abort(struct rl_stream *stream)
{
    leave(stream, true);
}

void rl_stream_close(struct rl_stream *stream)
{
    leave(stream, false);
}

void rl_stream_forget(struct rl_stream *stream)
{
    leave(stream, false);
}
