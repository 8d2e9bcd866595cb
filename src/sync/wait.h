/*
 * A thread that waits, and the mutex under which it waits. A wait that is done is woken
 * after the mutex was unlocked: otherwise the thread would block on the mutex at once. So a
 * wake-up may arrive when the thread is already awake. The wait counts its wake-ups: it
 * must outlive every wake-up that was posted to it.
 */
#ifndef RL_WAIT_H
#define RL_WAIT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "io/queue.h"
#include "redlock/sync.h"
#include "time.h"

struct rl_wait {
    pthread_t thread;
    sem_t woken;
    unsigned posted, received; /* wake-ups */
    bool wake_pending;         /* it is in the monitor's list of waits to wake */
    TAILQ_ENTRY(rl_wait) link;
    bool done;
    redlock_code code;
    redlock_reason reason; /* of that code */
    redlock_error error;   /* of that code, by the thread that failed; or OK: not known */
    int cancel_state;      /* of the thread: a cancelled thread still has to end its wait */
};

/* A stop: ends waits from another thread. Only stop.c changes it. */
struct redlock_stop {
    redlock_sync *sync;
    bool stopped;
};

static inline bool rl_stop_is_stopped(const redlock_stop *stop)
{
    return stop && stop->stopped;
}

TAILQ_HEAD(rl_waits, rl_wait);

struct rl_monitor {
    pthread_mutex_t mutex;
    struct rl_waits to_wake;
};

void rl_monitor_init(struct rl_monitor *monitor);

/* Unlocks the mutex, and wakes the waits that are done. */
void rl_monitor_unlock(struct rl_monitor *monitor);

/*
 * Called with the mutex held, by the thread that waits. begin() and end() disable its
 * cancellation in between; init() alone is for a thread that is never cancelled.
 */
void rl_wait_init(struct rl_wait *wait);
void rl_wait_begin(struct rl_wait *wait);
void rl_wait_end(struct rl_monitor *monitor, struct rl_wait *wait);

/* Sleeps until woken. False: the deadline (as rl_now_ms()) has come. */
bool rl_wait_sleep(struct rl_monitor *monitor, struct rl_wait *wait, int64_t deadline);

/* The code of a wait that is done; if it failed, it becomes this thread's last error. */
redlock_code rl_wait_result(const struct rl_wait *wait);

/* Wake it when the mutex is unlocked, or at once. Both need the mutex. */
void rl_wait_wake_later(struct rl_monitor *monitor, struct rl_wait *wait);
void rl_wait_wake(struct rl_wait *wait);

#endif
