/* A stream of bytes to one address: a non-blocking socket. */
#ifndef RL_STREAM_H
#define RL_STREAM_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

struct rl_address {
    struct sockaddr_storage addr;
    socklen_t len;
};

/* How long the kernel may fail to deliver what was written before the stream ends. */
#define RL_STREAM_USER_TIMEOUT_MS 20000

/* A descriptor that is connecting or connected, or -errno. */
int rl_stream_open(const struct rl_address *address);

/* 0 once connected, -EINPROGRESS while not, or -errno. */
int rl_stream_connected(int fd);

/* Bytes moved; 0 of read: the peer has closed; -EAGAIN: later; or -errno. */
ssize_t rl_stream_read(int fd, char *buffer, size_t room);
ssize_t rl_stream_write(int fd, const char *bytes, size_t len);

/*
 * Ends the connection at once, also while a forked child has a copy of the descriptor.
 * TCP: with a reset, and what the peer's kernel has not received yet never arrives. Unix
 * socket: the peer's kernel has received all; the peer reads that, and then the end.
 * In neither case can bytes be taken back that the peer's socket has already.
 */
void rl_stream_abort(int fd);

/* Ends the connection behind what was written, also while a forked child has a copy. */
void rl_stream_close(int fd);

#endif
