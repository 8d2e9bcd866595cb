/* The lines of redlock pipe that wait for their reader. */
#ifndef CLI_PIPE_OUTBOX_H
#define CLI_PIPE_OUTBOX_H

#include "../cli.h"

struct outbox {
    struct bufferevent *to;     /* NULL: it is closed, and nothing is put */
    uint64_t put;               /* bytes, from the start on */
    bool stalled;               /* nothing was read for a while, and something waits */
    void (*changed)(void *arg); /* something was written, or it is stalled */
    void (*failed)(void *arg);
    void *arg;
};

void outbox_begin(struct outbox *outbox, struct event_base *base);

/* Puts the object as a line, and frees it; NULL: there was no memory. */
void outbox_put(struct outbox *outbox, json_t *object);

/* Some byte of what was put after `put` was so many was written. */
bool outbox_has_written(const struct outbox *outbox, uint64_t put);

/* Bytes. */
size_t outbox_waiting(const struct outbox *outbox);

/* Closes stdout; what waits is dropped. */
void outbox_close(struct outbox *outbox);

#endif
