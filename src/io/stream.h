/* A byte stream to one address: a non-blocking socket and its events, with TLS or without.
 */
#ifndef RL_STREAM_H
#define RL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "tls.h"

struct event_base;
struct rl_stream;

struct rl_address {
    struct sockaddr_storage addr;
    socklen_t len;
};

/* Neither is called from a call of this header. */
struct rl_stream_handler {
    void (*readable)(void *arg);
    void (*proceed)(void *arg); /* connecting can go on, or writing */
};

/* TCP_USER_TIMEOUT: the kernel ends the stream if data stays undelivered for this long. */
#define RL_STREAM_USER_TIMEOUT_MS 20000

/*
 * Begins to connect. `proceed` is called when rl_stream_connect() can go on. The peer must
 * outlive the stream. Returns 0, or -errno and no stream.
 */
int rl_stream_open(struct event_base *base, const struct rl_address *address,
                   struct rl_tls_peer *peer, const struct rl_stream_handler *owner,
                   void *arg, struct rl_stream **ret_stream);

/*
 * Goes on connecting. Returns 0 once bytes can be exchanged, or -errno; -EINPROGRESS:
 * `proceed` will be called again.
 */
int rl_stream_connect(struct rl_stream *stream);

/* Why TLS ended the stream, and OpenSSL's words for it; NONE: it did not, or there is none.
 */
enum rl_fault rl_stream_fault(const struct rl_stream *stream, const char **ret_reason);

/*
 * `readable` is called whenever bytes, or the peer's end, can be read; until stopped.
 * False, with errno: it is not called.
 */
bool rl_stream_want_read(struct rl_stream *stream);
void rl_stream_stop_reading(struct rl_stream *stream);

/* `proceed` is called once. False, with errno: it is not called. */
bool rl_stream_want_write(struct rl_stream *stream);

/*
 * Return the number of bytes moved, or -errno; -EAGAIN: try again later. A read returns 0
 * if the peer has closed.
 */
ssize_t rl_stream_read(const struct rl_stream *stream, char *buffer, size_t room);
ssize_t rl_stream_write(const struct rl_stream *stream, const char *bytes, size_t len);

/*
 * Ends the connection at once, also while a forked child has a copy of the descriptor.
 * TCP: sends a reset; bytes that the peer's kernel has not received yet never arrive. Unix
 * socket: the peer's kernel has received all bytes; the peer reads them and then the end.
 * In neither case are bytes taken back that the peer's socket has already received.
 */
void rl_stream_abort(struct rl_stream *stream);

/* Ends the connection after the written bytes, also while a forked child has a copy. */
void rl_stream_close(struct rl_stream *stream);

/* For a forked child, in which the stream is inert: frees it, and the peer sees nothing. */
void rl_stream_forget(struct rl_stream *stream);

#endif
