#include "stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static void set_tcp_options(int fd)
{
    int on = 1;
    unsigned timeout = RL_STREAM_USER_TIMEOUT_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

int rl_stream_open(const struct rl_address *address)
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

int rl_stream_connected(int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    if (error != 0)
        return -error;
    struct rl_address peer = {.len = sizeof(peer.addr)};
    if (getpeername(fd, (struct sockaddr *)&peer.addr, &peer.len) < 0)
        return errno == ENOTCONN ? -EINPROGRESS : -errno;
    return 0;
}

ssize_t rl_stream_read(int fd, char *buffer, size_t room)
{
    ssize_t got;
    do
        got = recv(fd, buffer, room, 0);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

ssize_t rl_stream_write(int fd, const char *bytes, size_t len)
{
    ssize_t put;
    do
        put = send(fd, bytes, len, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : put;
}

/*
 * close() sends nothing to the peer while another process also has the socket.
 * Disconnecting TCP does: the kernel sends the reset and drops the unsent bytes at once. A
 * unix socket cannot be disconnected, so it is shut down. It has no unsent bytes: the
 * kernel puts each accepted byte directly into the peer's queue.
 */
void rl_stream_abort(int fd)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    if (connect(fd, &nowhere, sizeof(nowhere)) < 0)
        (void)shutdown(fd, SHUT_RDWR);
    close(fd);
}

void rl_stream_close(int fd)
{
    (void)shutdown(fd, SHUT_WR); /* not SHUT_RD: a late reply would cause a reset */
    close(fd);
}
