/*
 * Runs workers that share a lock, one step at a time. Each worker is a process that runs
 * its code as written. Before every step (a command to Redis, an access to the stock) it
 * waits for a permission of the controller. So the controller alone decides the order of
 * all steps and which worker dies between two of them.
 */
#ifndef STEPS_H
#define STEPS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/types.h>

#define STEP_MAX 256

struct worker {
    const char *name;
    pid_t pid;
    int line;            /* worker: to the controller; controller: to the worker */
    char next[STEP_MAX]; /* controller: the worker's next step */
    redisContext *redis; /* of the worker's process; connected by its first command */
};

/* --- a worker's steps, one call each --- */

/* Sends a command to Redis; true if the reply is `want`. */
bool ask(struct worker *me, const char *want, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The shop's database: it is not in Redis and has no transactions. */
int read_stock(struct worker *me);
void write_stock(struct worker *me, int stock); /* sells one item */

/* --- the controller --- */

/* Uses the empty Redis behind a unix socket, and creates a shop with `stock` items. */
void shop_open(const char *socket, int stock);
void worker_start(struct worker *worker, const char *name,
                  void (*work)(struct worker *me, const void *arg), const void *arg);

void run_steps(struct worker *worker, int steps); /* returns when the worker has run them */
void kill_worker(struct worker *worker);          /* by SIGKILL, before its next step */
void expire_lock(struct worker *worker); /* expires the lock, which the worker holds */
void crash_redis(void);                  /* Redis starts again with the same address */

/* Sends a command to Redis; true if the reply is `want`. */
bool check_reply(const char *want, const char *command);
void note(const char *text);

/* Prints how many items were sold and returns it. */
int shop_close(void);

#endif
