/*
 * Threads that do what a test tells them, one thing at a time, and a client for them. What
 * they wait for is looked at inside the client, so that no test has to guess.
 */
#ifndef TEST_CREW_H
#define TEST_CREW_H

#include <pthread.h>
#include <string.h>

#include "redlock/sync.h"
#include "servers.h"

struct crew {
    struct servers servers;
    redlock_sync *sync;
};

/* Patient ones, where a test does not say otherwise. */
redlock_options crew_options(void);
redlock_lock_options crew_lock_options(void);

void crew_open(struct crew *crew, unsigned n);
void crew_open_fenced(struct crew *crew, unsigned n);
void crew_close(struct crew *crew); /* frees what is there still */

/* Another client of the same servers: to them, another process. */
redlock_sync *crew_sync(struct crew *crew);

/* --- one thread --- */

struct hand;
typedef void hand_job(struct hand *hand);

struct hand {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    hand_job *job; /* NULL: it has none */
    bool ends;

    /* What the jobs take, and what comes of them. */
    redlock_sync *sync;
    const char *key;
    redlock_lock_options options;
    int64_t wait_ms;
    redlock_hold *hold;
    redlock_code code;
    unsigned turn; /* which of all hands' locks this was, from 1 */
};

void hand_start(struct hand *hand, redlock_sync *sync, const char *key,
                const redlock_lock_options *options);
void hand_do(struct hand *hand, hand_job *job);
redlock_code hand_await(struct hand *hand); /* until the job is done: its code */
bool hand_is_busy(struct hand *hand);
void hand_end(struct hand *hand); /* the thread ends; the hold is freed after that */

/* The same and the wait for it. */
redlock_code hand_done(struct hand *hand, hand_job *job);

hand_job job_lock, job_try, job_lock_for, job_unlock, job_confirm, job_extend;

/* --- looking inside --- */

/* Whatever needs the client waits in between. */
void crew_enter(redlock_sync *sync);
void crew_leave(redlock_sync *sync);

/* How many threads wait for the key, and whether one has it. */
unsigned crew_waiting(redlock_sync *sync, const char *key);
bool crew_held(redlock_sync *sync, const char *key);

/* What is left of the lease of this key, which has one, is `left_ms` from now on. */
void crew_age(redlock_sync *sync, const char *key, int64_t left_ms);

/* Keys that somebody wants, or that are being released. */
unsigned crew_keys(redlock_sync *sync);

/* Who runs the client's loop. */
enum crew_driver { CREW_NOBODY, CREW_CLIENT, CREW_CALLER };
enum crew_driver crew_driver(redlock_sync *sync);

/* A caller is to make room for the client's thread, as if it had driven for long. */
void crew_relieve(redlock_sync *sync);

/* How many threads wait for what another one does in single flight. */
unsigned crew_passengers(redlock_sync *sync);

/* --- waiting for something --- */

#define CREW_UNTIL(condition)                                                              \
    do {                                                                                   \
        int64_t crew_end = crew_clock_ms() + CREW_PATIENCE_MS;                             \
        while (!(condition))                                                               \
            crew_look_again(crew_end, __FILE__, __LINE__, #condition);                     \
    } while (0)

#define CREW_PATIENCE_MS 30000

int64_t crew_clock_ms(void);
void crew_run_for(int64_t ms); /* for what must not happen */
void crew_look_again(int64_t end, const char *file, int line, const char *condition);

#endif
