/* Threads that wait. */
#include <errno.h>
#include <time.h>

#include "sync_parts.h"

#define WAKES 128 /* without the mutex */

void rl_wait_init(redlock_sync *sync, struct rl_wait *wait)
{
    sem_init(&wait->woken, 0, 0);
    wait->sync = sync;
    wait->thread = pthread_self();
    wait->promised = wait->had = 0;
    wait->untold = wait->done = false;
    wait->code = REDLOCK_OK;
}

void rl_wait_begin(redlock_sync *sync, struct rl_wait *wait)
{
    rl_wait_init(sync, wait);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &wait->cancel_state);
    sync->waits++;
    rl_drive_begun(sync, wait);
}

/* Whoever is about to wake it must find it there. */
static void take_wakes(redlock_sync *sync, struct rl_wait *wait)
{
    if (wait->untold) {
        TAILQ_REMOVE(&sync->done, wait, in_done);
        wait->promised--;
    }
    while (wait->had != wait->promised)
        rl_wait_sleep(sync, wait, RL_FOREVER);
}

void rl_wait_end(redlock_sync *sync, struct rl_wait *wait)
{
    take_wakes(sync, wait);
    sync->waits--;
    pthread_cond_broadcast(&sync->changed);
    sem_destroy(&wait->woken);
    pthread_setcancelstate(wait->cancel_state, NULL);
}

void rl_wait_done(struct rl_wait *wait, redlock_code code)
{
    redlock_sync *sync = wait->sync;
    wait->done = true;
    wait->code = code;
    if (wait != sync->driver) {
        wait->promised++;
        wait->untold = true;
        TAILQ_INSERT_TAIL(&sync->done, wait, in_done);
    }
    rl_drive_done(sync, wait);
}

void rl_wait_wake(struct rl_wait *wait)
{
    wait->promised++;
    sem_post(&wait->woken);
}

static void wake(sem_t *const *woken, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        sem_post(woken[i]);
}

/* A wait goes as soon as it is woken: without the mutex nothing else of it is looked at. */
void rl_wait_let_go(redlock_sync *sync)
{
    sem_t *woken[WAKES];
    unsigned count = 0;
    struct rl_wait *wait;
    while ((wait = TAILQ_FIRST(&sync->done))) {
        TAILQ_REMOVE(&sync->done, wait, in_done);
        wait->untold = false;
        if (count == WAKES) {
            wake(woken, count);
            count = 0;
        }
        woken[count++] = &wait->woken;
    }
    pthread_mutex_unlock(&sync->mutex);
    wake(woken, count);
}

bool rl_wait_once(redlock_sync *sync, struct rl_wait *wait, int64_t deadline)
{
    if (rl_drive(sync, wait, deadline))
        return true;
    rl_drive_announce(sync);
    return rl_wait_sleep(sync, wait, deadline);
}

bool rl_wait_sleep(redlock_sync *sync, struct rl_wait *wait, int64_t deadline)
{
    struct timespec until = {.tv_sec = deadline / 1000,
                             .tv_nsec = deadline % 1000 * 1000000};
    rl_wait_let_go(sync);
    int failed = deadline == RL_FOREVER
                     ? sem_wait(&wait->woken)
                     : sem_clockwait(&wait->woken, CLOCK_MONOTONIC, &until);
    bool in_time = !failed || errno == EINTR;
    rl_sync_lock(sync);
    wait->had += !failed;
    return in_time;
}
