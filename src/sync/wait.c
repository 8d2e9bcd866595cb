#include "wait.h"

#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "io/system.h"

#define WAKES 128 /* if more are done, some are woken while the mutex is held */

void rl_monitor_init(struct rl_monitor *monitor)
{
    pthread_mutex_init(&monitor->mutex, NULL);
    TAILQ_INIT(&monitor->to_wake);
}

static void wake(sem_t *const *woken, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        sem_post(woken[i]);
}

/* A wait may end as soon as it is woken: without the mutex only its semaphore is used. */
void rl_monitor_unlock(struct rl_monitor *monitor)
{
    sem_t *woken[WAKES];
    unsigned count = 0;
    struct rl_wait *wait;
    while ((wait = TAILQ_FIRST(&monitor->to_wake))) {
        TAILQ_REMOVE(&monitor->to_wake, wait, link);
        wait->wake_pending = false;
        if (count == WAKES) {
            wake(woken, count);
            count = 0;
        }
        woken[count++] = &wait->woken;
    }
    pthread_mutex_unlock(&monitor->mutex);
    wake(woken, count);
}

void rl_wait_init(struct rl_wait *wait)
{
    sem_init(&wait->woken, 0, 0);
    wait->thread = pthread_self();
    wait->posted = wait->received = 0;
    wait->wake_pending = wait->done = false;
    wait->code = wait->error.code = REDLOCK_OK;
    wait->reason = REDLOCK_REASON_NONE;
}

void rl_wait_begin(struct rl_wait *wait)
{
    rl_wait_init(wait);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &wait->cancel_state);
}

/* Receives all posted wake-ups, because the thread that posts one still uses the wait. */
void rl_wait_end(struct rl_monitor *monitor, struct rl_wait *wait)
{
    if (wait->wake_pending) {
        TAILQ_REMOVE(&monitor->to_wake, wait, link);
        wait->posted--;
    }
    while (wait->received != wait->posted)
        rl_wait_sleep(monitor, wait, RL_FOREVER);
    sem_destroy(&wait->woken);
    pthread_setcancelstate(wait->cancel_state, NULL);
}

#define NS_PER_MS INT64_C(1000000)

#ifdef RL_HAS_SEM_CLOCKWAIT
static int wait_until(sem_t *woken, int64_t deadline)
{
    struct timespec until = {.tv_sec = deadline / 1000,
                             .tv_nsec = deadline % 1000 * NS_PER_MS};
    return sem_clockwait(woken, CLOCK_MONOTONIC, &until);
}
#else
#define SLICE_MS 10

/* Waits by the time of day, which may be set: so it looks at the deadline often. */
static int wait_until(sem_t *woken, int64_t deadline)
{
    int64_t left;
    int failed;
    do {
        left = rl_left_ms(deadline);
        int64_t slice = left < SLICE_MS ? left : SLICE_MS;
        int64_t ns = rl_system_clock_ns(CLOCK_REALTIME) + slice * NS_PER_MS;
        struct timespec until = {.tv_sec = ns / (1000 * NS_PER_MS),
                                 .tv_nsec = ns % (1000 * NS_PER_MS)};
        failed = sem_timedwait(woken, &until);
    } while (failed && errno == ETIMEDOUT && left > 0);
    return failed;
}
#endif

bool rl_wait_sleep(struct rl_monitor *monitor, struct rl_wait *wait, int64_t deadline)
{
    rl_monitor_unlock(monitor);
    int failed = deadline == RL_FOREVER ? sem_wait(&wait->woken)
                                        : wait_until(&wait->woken, deadline);
    bool in_time = !failed || errno == EINTR;
    pthread_mutex_lock(&monitor->mutex);
    wait->received += !failed;
    return in_time;
}

redlock_code rl_wait_result(const struct rl_wait *wait)
{
    if (wait->code == REDLOCK_OK || wait->error.code != wait->code)
        return rl_fail_by_reason(wait->code, wait->reason);
    return rl_fail_again(&wait->error);
}

void rl_wait_wake_later(struct rl_monitor *monitor, struct rl_wait *wait)
{
    wait->posted++;
    wait->wake_pending = true;
    TAILQ_INSERT_TAIL(&monitor->to_wake, wait, link);
}

void rl_wait_wake(struct rl_wait *wait)
{
    wait->posted++;
    sem_post(&wait->woken);
}
