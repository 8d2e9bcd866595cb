/*
 * A stage for workers that share a lock. Each worker is a process that runs its code as
 * written, but waits for a nod before every step - a command to Redis, a look into the
 * shop. The director nods, so it alone decides who does what when, and who dies in between.
 */
#ifndef STAGE_H
#define STAGE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/types.h>

#define STEP_MAX 256

struct worker {
    const char *name;
    pid_t pid;
    int line;            /* worker: to the director; director: to the worker */
    char next[STEP_MAX]; /* director: the step before which the worker stands */
    redisContext *redis; /* of the worker's process; connected by its first command */
};

/* --- what a worker does, one step each --- */

/* Sends a command to Redis; true if `want` is the answer. */
bool ask(struct worker *me, const char *want, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The shop's database: it has nothing to do with Redis, and no transactions. */
int read_stock(struct worker *me);
void write_stock(struct worker *me, int stock); /* one item is sold by it */

/* --- what the director does --- */

/* An empty Redis, for this show only, behind a unix socket; and a shop with some items. */
void stage_open(const char *socket, int stock);
void stage_enter(struct worker *worker, const char *name,
                 void (*play)(struct worker *me, const void *arg), const void *arg);

void let(struct worker *worker, int steps); /* returns when they are taken */
void die(struct worker *worker);            /* by SIGKILL, before its next step */
void run_out(struct worker *worker); /* the TTL of the lock, which the worker holds */
void crash_redis(void);              /* and it starts again, by the same address */

/* Looks at Redis; true if `want` is the answer. */
bool look(const char *want, const char *command);
void note(const char *text);

/* Says how many were sold, and returns it. */
int stage_close(void);

#endif
