/*
 * What the threads of the stress do, one deed after the other, drawn by chance. A deed that
 * gets an answer which the header does not allow there ends the program.
 */
#ifndef TEST_DEEDS_H
#define TEST_DEEDS_H

#include <pthread.h>
#include <redlock/sync.h>
#include <stdatomic.h>

/* The keys, each for its deeds. Only ROBBED is taken from its holders. */
enum { CALM, BUSY, CROWDED, ROBBED, LEFT, FLIGHT, KEYS };

extern const struct key {
    const char *name;
    int64_t ttl_ms;
    bool fenced;
} deed_keys[KEYS];

struct actor {
    pthread_t thread;
    unsigned desk;
    redlock_sync *sync;
    bool counts; /* of one client alone: between its threads the lock orders memory, too */
    uint64_t chance;
    const struct deed *deed; /* that it is at; for whoever looks when it hangs */
    struct actor *others;
    unsigned actors;

    pthread_mutex_t mutex; /* guards the next */
    redlock_stop *stop;    /* of its wait, for others; NULL: it has none */

    /* By each deed: how often it was tried, and how often it came to something. */
    unsigned *tried, *done;
    unsigned long counted;
};

struct deed {
    const char *name;
    unsigned weight;
    bool (*does)(struct actor *actor);
};

extern const struct deed deeds[]; /* the last one has no name */
unsigned deeds_count(void);

/* Does one. */
void deeds_next(struct actor *actor);

/* Whether each came to something at least once. */
bool deeds_were_all_done(void);

/* What only one who has the key CALM may touch. */
extern unsigned long calm_count;

/* Of ROBBED: how often on_lost was called. */
extern atomic_uint deeds_lost;

/* Single flights: begun, and those that were flown by who said so. */
extern atomic_uint flights_begun, flights_flown;

#endif
