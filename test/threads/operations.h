/* Operations of the stress test's threads, drawn by prng. An operation that gets a code
   which the header does not allow there ends the program. */
#ifndef TEST_OPERATIONS_H
#define TEST_OPERATIONS_H

#include <pthread.h>
#include <redlock/sync.h>
#include <stdatomic.h>

/* The keys, each for its operations. Only ROBBED is deleted under its holders. */
enum { CALM, BUSY, CROWDED, ROBBED, LEFT, FLIGHT, KEYS };

extern const struct key {
    const char *name;
    int64_t ttl_ms;
    bool fenced;
} operations_keys[KEYS];

struct actor {
    pthread_t thread;
    unsigned slot;
    redlock_sync *sync;
    bool counts; /* of one client alone: between its threads the lock orders memory, too */
    uint64_t prng;
    const struct operation *operation; /* that runs now; printed if the test hangs */
    struct actor *others;
    unsigned actors;

    pthread_mutex_t mutex; /* guards the next */
    redlock_stop *stop;    /* the stop of its wait, for other threads; NULL: none */

    /* For each operation: how often it was tried, and how often it had an effect. */
    unsigned *tried, *done;
    unsigned long counted;
};

struct operation {
    const char *name;
    unsigned weight;
    bool (*does)(struct actor *actor);
};

extern const struct operation operations[]; /* the last one has no name */
unsigned operations_count(void);

/* Runs one. */
void operations_next(struct actor *actor);

/* Each had an effect at least once. */
bool operations_were_all_done(void);

/* Only the holder of the key CALM may access it. */
extern unsigned long calm_count;

/* ROBBED: calls of on_lost. */
extern atomic_uint operations_lost;

/* Single flights: begun, and those whose caller reported that it led. */
extern atomic_uint flights_begun, flights_flown;

#endif
