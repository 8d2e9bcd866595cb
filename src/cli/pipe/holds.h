/* The locks of redlock pipe: those that are waited for, and those that are held. */
#ifndef CLI_PIPE_HOLDS_H
#define CLI_PIPE_HOLDS_H

#include "outbox.h"
#include "request.h"

#include "io/queue.h"

#define HOLDS_MAX   10000
#define WAITERS_MAX 1000

struct hold;
TAILQ_HEAD(hold_queue, hold);

struct holds {
    struct cli *cli;
    struct outbox *outbox;
    struct hold *place[HOLDS_MAX + WAITERS_MAX];
    size_t used; /* no place from here on was used */
    size_t held, waiting, leaving;
    int64_t serial;
    struct hold_queue renewed; /* their new deadline was not told yet */
    bool extends;              /* false: the pipe extends nothing */
    void (*over)(void *arg);   /* a lock is over: look whether any is left */
    void *arg;
};

void holds_begin(struct holds *holds, struct cli *cli, struct outbox *outbox);

/* Does what the request says. Replies, now or later; frees the request. */
void holds_do(struct holds *holds, struct request *request);

/* Replies that the request failed. */
void holds_refuse(struct holds *holds, int64_t id, redlock_code code, redlock_reason reason,
                  const char *text);

/* Begins and ends to extend what is held. */
void holds_extend_all(struct holds *holds, bool extends);

/* Gives up what is waited for, and releases what was not told, or all. */
void holds_leave_untold(struct holds *holds);
void holds_leave_all(struct holds *holds);

bool holds_are_over(const struct holds *holds);

/* Puts the next new deadline; false: all were told. */
bool holds_put_until(void *holds);

#endif
