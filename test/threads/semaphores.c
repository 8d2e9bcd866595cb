/*
 * Semaphores made of primitives that the tools for threads support. They do not support
 * sem_clockwait(), nor the memory order of sem_post().
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;

__attribute__((constructor)) static void begin(void)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
}

static unsigned *count_of(sem_t *sem)
{
    return (unsigned *)(void *)sem;
}

int sem_init(sem_t *sem, int shared, unsigned value)
{
    (void)shared;
    *count_of(sem) = value;
    return 0;
}

int sem_destroy(sem_t *sem)
{
    (void)sem;
    return 0;
}

int sem_post(sem_t *sem)
{
    pthread_mutex_lock(&mutex);
    ++*count_of(sem);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return 0;
}

/* Until `end`; NULL: for ever. */
static int take(sem_t *sem, const struct timespec *end)
{
    int why = 0;
    pthread_mutex_lock(&mutex);
    while (*count_of(sem) == 0 && why == 0)
        why = end ? pthread_cond_timedwait(&changed, &mutex, end)
                  : pthread_cond_wait(&changed, &mutex);
    if (*count_of(sem) > 0) {
        --*count_of(sem);
        why = 0;
    }
    pthread_mutex_unlock(&mutex);
    errno = why;
    return why ? -1 : 0;
}

int sem_wait(sem_t *sem)
{
    return take(sem, NULL);
}

int sem_trywait(sem_t *sem)
{
    static const struct timespec past = {0};
    return take(sem, &past);
}

/* By CLOCK_MONOTONIC, whatever the argument: no caller passes another clock. */
int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict end)
{
    (void)clock;
    return take(sem, end);
}
