/* Threads that wait. */
#include <errno.h>
#include <time.h>

#include "sync_parts.h"

void rl_wait_init(redlock_sync *sync, struct rl_wait *wait)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&wait->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    wait->sync = sync;
    wait->thread = pthread_self();
    wait->done = false;
    wait->code = REDLOCK_OK;
}

void rl_wait_begin(redlock_sync *sync, struct rl_wait *wait)
{
    rl_wait_init(sync, wait);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &wait->cancel_state);
    sync->waits++;
    rl_drive_begun(sync, wait);
}

void rl_wait_end(redlock_sync *sync, struct rl_wait *wait)
{
    sync->waits--;
    pthread_cond_broadcast(&sync->changed);
    pthread_cond_destroy(&wait->woken);
    pthread_setcancelstate(wait->cancel_state, NULL);
}

void rl_wait_done(struct rl_wait *wait, redlock_code code)
{
    redlock_sync *sync = wait->sync;
    wait->done = true;
    wait->code = code;
    pthread_cond_signal(&wait->woken);
    rl_drive_done(sync, wait);
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
    if (deadline == RL_FOREVER) {
        pthread_cond_wait(&wait->woken, &sync->mutex);
        return true;
    }
    struct timespec until = {.tv_sec = deadline / 1000,
                             .tv_nsec = deadline % 1000 * 1000000};
    return pthread_cond_timedwait(&wait->woken, &sync->mutex, &until) != ETIMEDOUT;
}
