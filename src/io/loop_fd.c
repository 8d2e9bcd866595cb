#include "loop_fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, rl_loop_fd) all;

/* A timer that is not set: neither readable nor writable. Without one, `fd` stays closed.
 */
static void loop_fd_replace(int fd)
{
    close(fd);
    int inert = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (inert < 0 || inert == fd)
        return;
    (void)dup3(inert, fd, O_CLOEXEC);
    close(inert);
}

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
    struct rl_loop_fd *file;
    LIST_FOREACH (file, &all, in_all) {
        loop_fd_replace(file->fd);
        file->is_inert = true;
    }
    unlock();
}

/* fork() takes the mutex, so that a child finds the ring consistent. */
static void watch_forks(void)
{
    (void)pthread_atfork(lock, unlock, in_child);
}

void rl_loop_fd_init(struct rl_loop_fd *file, int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    lock();
    *file = (struct rl_loop_fd){.fd = fd};
    LIST_INSERT_HEAD(&all, file, in_all);
    unlock();
}

void rl_loop_fd_close(struct rl_loop_fd *file)
{
    lock();
    LIST_REMOVE(file, in_all);
    unlock();
    close(file->fd);
}
