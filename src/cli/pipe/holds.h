/* The locks of redlock pipe: those that are waited for, and those that are held. */
#ifndef CLI_PIPE_HOLDS_H
#define CLI_PIPE_HOLDS_H

#include "outbox.h"
#include "request.h"

#define HOLDS_MAX   10000
#define WAITERS_MAX 1000
#define PLACES      (HOLDS_MAX + WAITERS_MAX)

struct holds {
    struct cli *cli;
    struct outbox outbox;
    struct hold *place[PLACES]; /* NULL: none */
    size_t used;                /* no place from here on was ever used */
    size_t count, waiting, renewed;
    size_t next_renewed; /* a place: where the next one is looked for */
    int64_t serial;
    bool extends;            /* false: nothing is extended */
    void (*over)(void *arg); /* none is left */
    void *arg;
};

/* Does what the request says, and replies, now or later. Frees the request. */
void holds_do(struct holds *holds, struct request *request);

/* Begins and ends to extend what is held. */
void holds_extend(struct holds *holds, bool extends);

/* Gives up what is waited for. Releases what was not told; or all. */
void holds_leave(struct holds *holds, bool all);

/* Puts the new deadlines, as long as the reader takes them. */
void holds_put_renewed(struct holds *holds);

#endif
