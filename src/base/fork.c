#include "fork.h"

#include <pthread.h>

static unsigned generation;

static void forked(void)
{
    generation++;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forked);
}

unsigned rl_fork_generation(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return generation;
}
