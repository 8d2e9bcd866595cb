/* The inside of a stream, for stream.c and its tests. */
#ifndef RL_STREAM_PARTS_H
#define RL_STREAM_PARTS_H

#include "stream.h"

struct rl_stream {
    const struct rl_stream_handler *owner;
    void *arg;
    int fd;
    struct event *readable, *writable;
};

#endif
