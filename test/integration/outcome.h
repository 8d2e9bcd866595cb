/* What real servers do: random operations run on one, and what it replies and stores. */
#ifndef TEST_OUTCOME_H
#define TEST_OUTCOME_H

#include <hiredis/hiredis.h>

#include "operations.h"

struct seen {
    redisReply *expires, *value; /* PEXPIRETIME, GET */
};

#define CALLS_MAX 2

/* The result of one operation there, and its keys right after. */
struct outcome {
    rl_time before, after; /* TIME */
    redisReply *reply;
    redisReply *queue_expires, *queue; /* of the waiters, if it may notify them */
    unsigned calls;
    redisReply *call[CALLS_MAX];    /* "NUMBER POSITION" */
    struct seen key, fence, marker; /* the last two: of a fenced lock */
};

/* The server's time, us. */
rl_time outcome_time(redisContext *context);

/*
 * Runs the operations, all in one batch; `ear` is subscribed to CHANNEL. Each outcome is to
 * be freed.
 */
void outcome_run(redisContext *context, redisContext *ear, unsigned n,
                 struct operation *operation, struct outcome *ret_outcome);
void outcome_free(struct outcome *outcome);

#endif
