/* Threads that wait. */
#include <errno.h>
#include <time.h>

#include "sync_parts.h"

void rl_wait_begin(redlock_sync *sync, struct rl_wait *wait)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&wait->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    wait->done = false;
    wait->code = REDLOCK_OK;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &wait->cancel_state);
    sync->waits++;
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
    wait->done = true;
    wait->code = code;
    pthread_cond_signal(&wait->woken);
}

bool rl_wait_once(redlock_sync *sync, struct rl_wait *wait, int64_t deadline)
{
    if (deadline == RL_FOREVER) {
        pthread_cond_wait(&wait->woken, &sync->mutex);
        return true;
    }
    struct timespec until = {.tv_sec = deadline / 1000,
                             .tv_nsec = deadline % 1000 * 1000000};
    return pthread_cond_timedwait(&wait->woken, &sync->mutex, &until) != ETIMEDOUT;
}
