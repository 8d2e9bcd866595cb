/* A byte stream to one address: a non-blocking socket. */
#ifndef RL_STREAM_H
#define RL_STREAM_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

struct rl_address {
    struct sockaddr_storage addr;
    socklen_t len;
};

/* TCP_USER_TIMEOUT: the kernel ends the stream if data stays undelivered for this long. */
#define RL_STREAM_USER_TIMEOUT_MS 20000

/* Returns a descriptor that is connecting or connected, or -errno. */
int rl_stream_open(const struct rl_address *address);

/* Returns 0 once connected, -EINPROGRESS before, or -errno. */
int rl_stream_connected(int fd);

/*
 * Return the number of bytes moved, or -errno; -EAGAIN: try again later. A read returns 0
 * if the peer has closed.
 */
ssize_t rl_stream_read(int fd, char *buffer, size_t room);
ssize_t rl_stream_write(int fd, const char *bytes, size_t len);

/*
 * Ends the connection at once, also while a forked child has a copy of the descriptor.
 * TCP: sends a reset; bytes that the peer's kernel has not received yet never arrive. Unix
 * socket: the peer's kernel has received all bytes; the peer reads them and then the end.
 * In neither case are bytes taken back that the peer's socket has already received.
 */
void rl_stream_abort(int fd);

/* Ends the connection after the written bytes, also while a forked child has a copy. */
void rl_stream_close(int fd);

#endif
