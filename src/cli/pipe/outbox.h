/*
 * The lines that wait for the reader of redlock pipe. Each is written at once if it is
 * read; those that are made anew are asked for when all others were written.
 */
#ifndef CLI_PIPE_OUTBOX_H
#define CLI_PIPE_OUTBOX_H

#include "../cli.h"

#include <event2/buffer.h>

struct outbox {
    struct event_base *base;
    struct evbuffer *lines;
    struct event *writable; /* NULL: it is closed */
    struct cli_timer timer;
    uint64_t put; /* bytes, from the start on */
    bool stalled; /* nothing was read for a while, and something waits */
    /* Puts a line; false: there is none. */
    bool (*next)(void *arg);
    void (*stall_changed)(void *arg);
    void (*failed)(void *arg);
    void *arg;
};

void outbox_begin(struct outbox *outbox, struct event_base *base);

/* Puts the object as a line, and frees it. */
void outbox_put(struct outbox *outbox, json_t *object);

/* `next` has something. */
void outbox_wake(struct outbox *outbox);

/* Some byte of what was put after `put` was so many was written. */
bool outbox_has_written(const struct outbox *outbox, uint64_t put);

size_t outbox_waiting(const struct outbox *outbox);

/* Closes stdout; what waits is dropped, and so is what is put later. */
void outbox_close(struct outbox *outbox);

#endif
