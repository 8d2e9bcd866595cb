/*
 * A lock "job" that is held, and waiters for it, each with its own client. In tests in
 * which only a notification may wake a waiter, a queued waiter does not recheck within an
 * hour.
 */
#ifndef TEST_WAIT_QUEUE_H
#define TEST_WAIT_QUEUE_H

#include "quorum.h"

#define QUEUE_WAITERS 3

struct queue {
    struct quorum s;
    redlock_lease *holder;
    /* a new waiter is settled with this many queue entries and subscribers */
    long long wanted;
    bool rests; /* and so is the last one */
    unsigned waiters;
    struct waiter {
        redlock_client *client;
        redlock_lease *lease;
        struct reported reported;
    } waiter[QUEUE_WAITERS];
};

void queue_open(struct queue *queue, unsigned n);
void queue_close(struct queue *queue); /* frees what still exists */

/* A waiter that waits without limit, and rechecks every hour. */
redlock_lease_options queue_patient_options(void);

/* The caller's policy, which is always followed, rechecks until the waiter is queued on all
   nodes, and then never. */
redlock_lease_options queue_relying_options(struct queue *queue);

/* Starts a waiter with a client of its own; NULL: of the fixture's options. */
struct waiter *queue_start(struct queue *queue, const redlock_options *who,
                           const redlock_lease_options *options);

/* Also runs until the waiter is queued and subscribed on all nodes. */
struct waiter *queue_join(struct queue *queue, const redlock_lease_options *options);

/* Counts the entries in the queues of all running nodes, without those that were notified.
 */
long long queue_entries(struct queue *queue);

/* The holder releases the lock; returns the result. */
redlock_code queue_release(struct queue *queue);

#endif
