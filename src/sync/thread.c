#include "thread.h"

#include <pthread.h>
#include <stdlib.h>

struct rl_thread {
    LIST_HEAD(, rl_binding) bindings;
};

/* Guards all lists. Lock order: before a client's mutex, never after it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t here;
static bool has_key;

static void thread_enter(void)
{
    pthread_mutex_lock(&mutex);
}

static void leave(void)
{
    pthread_mutex_unlock(&mutex);
}

static void thread_end(void *arg)
{
    struct rl_thread *thread = arg;
    struct rl_binding *binding;
    thread_enter();
    while ((binding = LIST_FIRST(&thread->bindings))) {
        LIST_REMOVE(binding, link);
        binding->bound = false;
        binding->on_thread_end(binding);
    }
    leave();
    free(thread);
}

/* fork() takes the mutex, so that a child finds the lists consistent. */
static void thread_begin(void)
{
    has_key = pthread_key_create(&here, thread_end) == 0 &&
              pthread_atfork(thread_enter, leave, leave) == 0;
}

struct rl_thread *rl_thread_here(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, thread_begin);
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

void rl_thread_bind(struct rl_thread *thread, struct rl_binding *binding,
                    void (*on_thread_end)(struct rl_binding *binding))
{
    thread_enter();
    binding->on_thread_end = on_thread_end;
    binding->bound = true;
    LIST_INSERT_HEAD(&thread->bindings, binding, link);
    leave();
}

void rl_thread_unbind(struct rl_binding *binding)
{
    thread_enter();
    if (binding->bound)
        LIST_REMOVE(binding, link);
    binding->bound = false;
    leave();
}
