#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

int64_t rl_system_clock_ns(clockid_t id)
{
    struct timespec at;
    clock_gettime(id, &at);
    return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

bool rl_system_random(void *to, size_t len, bool wait)
{
    uint8_t *bytes = to;
    while (len > 0) {
        ssize_t got = getrandom(bytes, len, wait ? 0 : GRND_NONBLOCK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        bytes += got;
        len -= (size_t)got;
    }
    return true;
}

/* --- process and machine --- */

static unsigned generation;

static void forked(void)
{
    generation++;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forked);
}

unsigned rl_system_fork_generation(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return generation;
}

int rl_system_start_thread(pthread_t *ret_thread, const char *name, void *(*run)(void *arg),
                           void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(ret_thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_setname_np(*ret_thread, name);
    return error;
}

bool rl_system_host_name(char *ret_name, size_t room)
{
    return gethostname(ret_name, room) == 0;
}

long rl_system_pid(void)
{
    return (long)getpid();
}

bool rl_system_read_file(const char *path, char *ret_text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, ret_text, room - 1);
    close(fd);
    ret_text[len > 0 ? len : 0] = '\0';
    return len > 0;
}
