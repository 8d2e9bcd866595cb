/*
 * A client for threads whose own thread stays in a callback while the loop is free. So it
 * can neither run the loop nor relieve another thread, and a waiting thread runs the loop.
 */
#ifndef TEST_BUSY_CLIENT_H
#define TEST_BUSY_CLIENT_H

#include <semaphore.h>
#include <stdatomic.h>

#include "worker_threads.h"

struct busy_client {
    struct sync_quorum c;
    redlock_hold *lost;
    sem_t back; /* ends the callback */
    atomic_uint gone;
    pthread_t thread;
    enum sync_quorum_loop_owner driver; /* at the callback */
    bool frees;                         /* the client, in the callback */
};

void busy_client_open(struct busy_client *client);
void busy_client_close(struct busy_client *client);

/* Ends the callback. */
void busy_client_return(struct busy_client *client);

/* The callback; its argument is the busy client. */
redlock_lost_fn busy_client_stay;

/* --- a lock of another process, for which a thread waits --- */

struct rival {
    redlock_sync *sync;
    redlock_hold *hold;
};

/* Another process holds the lock "theirs". */
struct rival rival_lock(struct busy_client *client);

/* The worker also waits for that lock and runs the loop. */
struct rival rival_block(struct busy_client *client, struct worker *worker,
                         const redlock_lock_options *options);

/* The worker gets the lock, and releases it. */
void rival_yield(struct rival *rival, struct worker *waiting);

void rival_free(struct rival *rival);

#endif
