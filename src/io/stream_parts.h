/* The inside of a stream, for stream.c and its tests. */
#ifndef RL_STREAM_PARTS_H
#define RL_STREAM_PARTS_H

#include "loop_fd.h"
#include "stream.h"

struct rl_stream {
    const struct rl_stream_handler *owner;
    void *arg;
    struct rl_tls_peer *peer;
    struct rl_tls_channel *channel; /* NULL: plain text, or not connected yet */
    enum rl_fault fault;            /* why the channel could not begin */
    struct rl_loop_fd file;
    struct event *readable, *writable;
    struct event *handshake; /* that the socket is readable; NULL: no handshake waits */
};

#endif
