/*
 * The clocks of a host that was suspended, or that a hypervisor paused with all its clocks:
 * preload this file into the programs of that host, and set HOST_SHIM_FILE to a file that
 * contains a `struct host`. test/cli/host.py writes it while the programs are stopped.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

/* In the machine's byte order, in ns. */
struct host {
    _Atomic int64_t suspended; /* only CLOCK_BOOTTIME and the time of day count it */
    _Atomic int64_t paused;    /* only the time of day counts it */
};

static const struct host *host; /* NULL: all clocks are true */

/* A test must not mistake true clocks for those of the host. */
__attribute__((constructor)) static void open_host(void)
{
    const char *path = getenv("HOST_SHIM_FILE");
    if (!path)
        return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    void *page = mmap(NULL, sizeof(*host), PROT_READ, MAP_SHARED, file, 0);
    if (file < 0 || page == MAP_FAILED) {
        perror("hostshim");
        _exit(126);
    }
    close(file);
    host = page;
}

/* What this clock has not counted. */
static int64_t missed(clockid_t id)
{
    if (!host || id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        return 0;
    int64_t paused = atomic_load(&host->paused);
    return id == CLOCK_BOOTTIME ? paused : paused + atomic_load(&host->suspended);
}

static void add(struct timespec *time, int64_t ns)
{
    ns += (int64_t)time->tv_sec * NS_PER_S + time->tv_nsec;
    time->tv_sec = ns / NS_PER_S;
    time->tv_nsec = ns % NS_PER_S;
}

/* --- called instead of the C library's functions --- */

int clock_gettime(clockid_t id, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, id, now);
    if (result == 0)
        add(now, -missed(id));
    return result;
}

/* The library's timers count on CLOCK_BOOTTIME. */
int timerfd_settime(int fd, int flags, const struct itimerspec *when,
                    struct itimerspec *before)
{
    struct itimerspec moved = *when;
    int (*next)(int, int, const struct itimerspec *, struct itimerspec *) = NULL;
    if (flags & TFD_TIMER_ABSTIME && (when->it_value.tv_sec || when->it_value.tv_nsec))
        add(&moved.it_value, missed(CLOCK_BOOTTIME));
    *(void **)&next = dlsym(RTLD_NEXT, "timerfd_settime");
    return next(fd, flags, &moved, before);
}
