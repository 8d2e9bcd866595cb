#include "stream_parts.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

/* Many firewalls cut a connection that is idle for minutes. */
#define KEEPALIVE_IDLE_S  30
#define KEEPALIVE_EVERY_S 10

/* --- connecting --- */

static void set_tcp_options(int fd)
{
    int on = 1, idle_s = KEEPALIVE_IDLE_S, every_s = KEEPALIVE_EVERY_S;
    unsigned timeout = RL_STREAM_USER_TIMEOUT_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

/* Returns a descriptor that is connecting or connected, or -errno. */
static int begin_to_connect(const struct rl_address *address)
{
    int family = address->addr.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (family != AF_UNIX)
        set_tcp_options(fd);
    int done;
    do
        done = connect(fd, (const struct sockaddr *)&address->addr, address->len);
    while (done < 0 && errno == EINTR);
    if (done == 0 || errno == EINPROGRESS || errno == EALREADY || errno == EISCONN)
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    const struct rl_stream *stream = arg;
    (void)fd;
    (void)what;
    if (!stream->file.is_inert)
        stream->owner->readable(stream->arg);
}

static void on_proceed(evutil_socket_t fd, short what, void *arg)
{
    const struct rl_stream *stream = arg;
    (void)fd;
    (void)what;
    if (!stream->file.is_inert)
        stream->owner->proceed(stream->arg);
}

/* Closes the descriptor. */
static void free_stream(struct rl_stream *stream)
{
    if (stream->channel)
        rl_tls_end(stream->channel, false);
    if (stream->readable)
        event_free(stream->readable);
    if (stream->writable)
        event_free(stream->writable);
    if (stream->handshake)
        event_free(stream->handshake);
    rl_loop_fd_close(&stream->file);
    free(stream);
}

/* False, with errno: libevent has none of its own, so it is that of malloc() or
 * epoll_ctl(). */
static bool add_event(struct event *event)
{
    errno = ENOMEM;
    return event_add(event, NULL) == 0;
}

int rl_stream_open(struct event_base *base, const struct rl_address *address,
                   struct rl_tls_peer *peer, const struct rl_stream_handler *owner,
                   void *arg, struct rl_stream **ret_stream)
{
    int fd = begin_to_connect(address);
    if (fd < 0)
        return fd;
    struct rl_stream *stream = malloc(sizeof(*stream));
    if (!stream) {
        close(fd);
        return -ENOMEM;
    }
    *stream = (struct rl_stream){
        .owner = owner,
        .arg = arg,
        .peer = peer,
        .readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, stream),
        .writable = event_new(base, fd, EV_WRITE, on_proceed, stream),
    };
    rl_loop_fd_init(&stream->file, fd);
    errno = ENOMEM; /* event_new() sets none */
    if (!stream->readable || !stream->writable || !rl_stream_want_write(stream)) {
        int error = errno;
        rl_stream_abort(stream);
        return -error;
    }
    *ret_stream = stream;
    return 0;
}

/* Returns 0 once the socket is connected, -EINPROGRESS before, or -errno. */
static int connected(const struct rl_stream *stream)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(stream->file.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    if (error != 0)
        return -error;
    struct rl_address peer = {.len = sizeof(peer.addr)};
    if (getpeername(stream->file.fd, (struct sockaddr *)&peer.addr, &peer.len) < 0)
        return errno == ENOTCONN ? -EINPROGRESS : -errno;
    return 0;
}

static int shake_hands(struct rl_stream *stream)
{
    bool writes;
    if (!stream->channel)
        stream->channel = rl_tls_begin(stream->peer, stream->file.fd, &stream->fault);
    if (!stream->handshake)
        stream->handshake = event_new(event_get_base(stream->readable), stream->file.fd,
                                      EV_READ, on_proceed, stream);
    if (!stream->channel)
        return -EPROTO;
    int done = rl_tls_handshake(stream->channel, &writes);
    if (done != -EAGAIN)
        return done;
    errno = ENOMEM;
    bool waits = writes ? rl_stream_want_write(stream)
                        : stream->handshake && add_event(stream->handshake);
    return waits ? -EINPROGRESS : -errno;
}

int rl_stream_connect(struct rl_stream *stream)
{
    int done = stream->channel ? 0 : connected(stream);
    if (done == 0 && stream->peer->tls)
        return shake_hands(stream);
    if (done == -EINPROGRESS && !rl_stream_want_write(stream))
        return -errno;
    return done;
}

enum rl_fault rl_stream_fault(const struct rl_stream *stream, const char **ret_reason)
{
    if (stream->channel)
        return rl_tls_fault(stream->channel, ret_reason);
    bool is_of_tls = stream->fault != RL_FAULT_NONE && stream->fault != RL_FAULT_MEMORY;
    *ret_reason = is_of_tls ? rl_tls_reason(stream->peer->tls) : "";
    return stream->fault;
}

/* --- reading and writing --- */

bool rl_stream_want_read(struct rl_stream *stream)
{
    if (stream->channel && rl_tls_has_more(stream->channel))
        event_active(stream->readable, EV_READ, 0);
    return add_event(stream->readable);
}

void rl_stream_stop_reading(struct rl_stream *stream)
{
    event_del(stream->readable);
}

bool rl_stream_want_write(struct rl_stream *stream)
{
    return add_event(stream->writable);
}

/* Bytes that the channel has already taken from the socket make no event of it. */
static RL_RARE ssize_t read_channel(const struct rl_stream *stream, char *buffer,
                                    size_t room)
{
    ssize_t got = rl_tls_read(stream->channel, buffer, room);
    if (got > 0 && rl_tls_has_more(stream->channel))
        event_active(stream->readable, EV_READ, 0);
    return got;
}

static RL_RARE ssize_t write_channel(const struct rl_stream *stream, const char *bytes,
                                     size_t len)
{
    return rl_tls_write(stream->channel, bytes, len);
}

ssize_t rl_stream_read(const struct rl_stream *stream, char *buffer, size_t room)
{
    ssize_t got;
    if (stream->channel)
        return read_channel(stream, buffer, room);
    do
        got = recv(stream->file.fd, buffer, room, 0);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

ssize_t rl_stream_write(const struct rl_stream *stream, const char *bytes, size_t len)
{
    ssize_t put;
    if (stream->channel)
        return write_channel(stream, bytes, len);
    do
        put = send(stream->file.fd, bytes, len, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : put;
}

/* --- ending --- */

/*
 * close() sends nothing to the peer while another process also has the socket.
 * Disconnecting TCP does: the kernel sends the reset and drops the unsent bytes at once. A
 * unix socket cannot be disconnected, so it is shut down. It has no unsent bytes: the
 * kernel puts each accepted byte directly into the peer's queue.
 */
void rl_stream_abort(struct rl_stream *stream)
{
    int fd = stream->file.fd;
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    if (connect(fd, &nowhere, sizeof(nowhere)) < 0)
        (void)shutdown(fd, SHUT_RDWR);
    free_stream(stream);
}

void rl_stream_close(struct rl_stream *stream)
{
    if (stream->channel)
        rl_tls_end(stream->channel, true);
    stream->channel = NULL;
    /* Not SHUT_RD: a late reply would cause a reset. */
    (void)shutdown(stream->file.fd, SHUT_WR);
    free_stream(stream);
}

void rl_stream_forget(struct rl_stream *stream)
{
    free_stream(stream);
}
