/*
 * Threads that run one job at a time for a test, and a client for them. The test inspects
 * the client's state to wait for it, so that it never has to guess.
 */
#ifndef TEST_WORKER_THREADS_H
#define TEST_WORKER_THREADS_H

#include <pthread.h>
#include <string.h>

#include "redlock/sync.h"
#include "servers.h"

struct sync_quorum {
    struct servers servers;
    redlock_sync *sync;
};

/* The options of a test that does not set its own: long timeouts. */
redlock_options sync_quorum_options(void);
redlock_lock_options sync_quorum_lock_options(void);

void sync_quorum_open(struct sync_quorum *sync_quorum, unsigned n);
void sync_quorum_open_fenced(struct sync_quorum *sync_quorum, unsigned n);
void sync_quorum_close(struct sync_quorum *sync_quorum); /* frees what still exists */
void sync_quorum_free_client(struct sync_quorum *sync_quorum);

/* Another client of the same servers, as in another process. */
redlock_sync *sync_quorum_sync(struct sync_quorum *sync_quorum);

/* --- one thread --- */

struct worker;
typedef void worker_job(struct worker *worker);

struct worker {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    worker_job *job; /* NULL: the worker is idle */
    bool ends;

    /* The arguments and the results of the jobs. */
    redlock_sync *sync;
    const char *key;
    redlock_lock_options options;
    int64_t wait_ms;
    redlock_hold *hold;
    redlock_code code;
    unsigned turn; /* the number of this lock among the locks of all workers, from 1 */
};

void worker_start(struct worker *worker, redlock_sync *sync, const char *key,
                  const redlock_lock_options *options);
void worker_do(struct worker *worker, worker_job *job);
/* until the job is done; returns its code */
redlock_code worker_await(struct worker *worker);
bool worker_is_busy(struct worker *worker);
void worker_end(struct worker *worker); /* ends the thread, then frees the hold */

/* Also waits for it. */
redlock_code worker_done(struct worker *worker, worker_job *job);

/* Starts it, and it holds the lock. */
void worker_start_holding(struct worker *worker, redlock_sync *sync, const char *key,
                          const redlock_lock_options *options);

/* Starts it, and it waits for the lock, after the workers that wait already. */
void worker_start_waiting(struct worker *worker, redlock_sync *sync, const char *key,
                          const redlock_lock_options *options);

/* The worker gets the lock or has it; it releases the lock and ends. */
void worker_finish(struct worker *worker);

worker_job job_lock, job_try, job_lock_for, job_unlock, job_confirm, job_extend;

/* --- a call that fails --- */

/* The functions that make a lock; adopting it; releasing it by its token. */
enum sync_quorum_call {
    CALL_LOCK,
    CALL_TRY,
    CALL_FOR,
    CALL_MANY,
    CALL_FLIGHT,
    CALL_ADOPT_MANY,
    CALL_ADOPT,
    CALL_RELEASE_MANY,
    CALL_RELEASE
};

#define EACH_CALL(call, first, last)                                                       \
    for (enum sync_quorum_call call = (first); call <= (last); call++)

/* The call's code; OK also if it changed an output although it failed. */
redlock_code sync_quorum_fail(enum sync_quorum_call call, redlock_sync *sync,
                              const char *key, const redlock_lock_options *options);

/* --- inspecting the client --- */

/* Between these two every other user of the client waits. */
void sync_quorum_enter(redlock_sync *sync);
void sync_quorum_leave(redlock_sync *sync);

/* The number of threads that wait for the key; whether one holds it. */
unsigned sync_quorum_waiting(redlock_sync *sync, const char *key);
bool sync_quorum_held(redlock_sync *sync, const char *key);

/* Sets the remaining time of this key's lease, which must exist, to `left_ms`. */
void sync_quorum_set_left(redlock_sync *sync, const char *key, int64_t left_ms);

/* Keys that a thread needs, or that are being released. */
unsigned sync_quorum_keys(redlock_sync *sync);

/* The thread that runs the client's loop. */
enum sync_quorum_loop_owner { SYNC_QUORUM_NOBODY, SYNC_QUORUM_CLIENT, SYNC_QUORUM_CALLER };
enum sync_quorum_loop_owner sync_quorum_loop_owner(redlock_sync *sync);

/*
 * Makes the caller that runs the loop give it to the client's thread, as after a long time.
 */
void sync_quorum_relieve(redlock_sync *sync);

/* Counts the threads that wait for another one's single flight. */
unsigned sync_quorum_followers(redlock_sync *sync);

/* --- waiting for a state --- */

#define SYNC_QUORUM_UNTIL(condition)                                                       \
    do {                                                                                   \
        int64_t sync_quorum_end = sync_quorum_clock_ms() + SYNC_QUORUM_TIMEOUT_MS;         \
        while (!(condition))                                                               \
            sync_quorum_recheck(sync_quorum_end, __FILE__, __LINE__, #condition);          \
    } while (0)

#define SYNC_QUORUM_TIMEOUT_MS 30000

int64_t sync_quorum_clock_ms(void);
void sync_quorum_run_for(int64_t ms); /* for events that must not happen */
void sync_quorum_recheck(int64_t end, const char *file, int line, const char *condition);

#endif
