/* Which thread holds what, for the moment at which it ends. */
#include <stdlib.h>

#include "sync_parts.h"

struct rl_thread {
    LIST_HEAD(, redlock_hold) holds;
};

/* Guards all lists. Taken before a client's mutex, never after it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t here;
static bool has_key;

static void enter(void)
{
    pthread_mutex_lock(&mutex);
}

static void leave(void)
{
    pthread_mutex_unlock(&mutex);
}

static void end(void *arg)
{
    struct rl_thread *thread = arg;
    redlock_hold *hold;
    enter();
    while ((hold = LIST_FIRST(&thread->holds))) {
        LIST_REMOVE(hold, of_thread);
        hold->bound = false;
        rl_hold_abandon(hold);
    }
    leave();
    free(thread);
}

/* A child finds the lists whole: nobody is about to change one while a process forks. */
static void begin(void)
{
    has_key =
        pthread_key_create(&here, end) == 0 && pthread_atfork(enter, leave, leave) == 0;
}

struct rl_thread *rl_thread_here(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    if (!has_key)
        return NULL;
    struct rl_thread *thread = pthread_getspecific(here);
    if (thread)
        return thread;
    thread = calloc(1, sizeof(*thread));
    if (thread && pthread_setspecific(here, thread) != 0) {
        free(thread);
        thread = NULL;
    }
    return thread;
}

void rl_thread_bind(struct rl_thread *thread, redlock_hold *hold)
{
    enter();
    LIST_INSERT_HEAD(&thread->holds, hold, of_thread);
    hold->bound = true;
    leave();
}

void rl_thread_unbind(redlock_hold *hold)
{
    if (hold->options.any_thread)
        return;
    enter();
    if (hold->bound)
        LIST_REMOVE(hold, of_thread);
    hold->bound = false;
    leave();
}
