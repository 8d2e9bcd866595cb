/*
 * Makes the time of day of one program wrong, as the test directs while the program runs:
 * preload this file, and set CLOCK_SHIM_FILE to a file that contains a `struct lie`.
 * test/cli/wrongclock.py writes it. Only the time of day is wrong; all other clocks stay
 * correct. CLOCK_SHIM_CLOCKS names other clocks that are wrong instead, by offsets only:
 *   suspended  CLOCK_MONOTONIC and _RAW, which do not count the time that a host sleeps
 *   all        every clock, as in a virtual machine that was paused
 * or at the rate of the lie, too:
 *   slewed     every clock but CLOCK_MONOTONIC_RAW, as a time daemon has them
 *
 * Valkey 9.1 asks for the time of day only once in a millisecond, and adds what the counter
 * of the processor has counted since. It does so where /proc/cpuinfo says that this counter
 * is constant, so the program cannot open that file.
 *
 * The true time comes from the kernel, not from the C library: a C library function would
 * call this shim again, or would not be resolved yet when the constructor of another
 * library reads the time.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define MILLION  INT64_C(1000000)

/* In the machine's byte order. */
struct lie {
    _Atomic uint64_t turn;  /* odd while the rest is being written */
    _Atomic int64_t anchor; /* a moment of the true clock, in ns since 1970 */
    _Atomic int64_t offset; /* how many ns the wrong clock was ahead then */
    /* how many ppm it has gained since; with -1,000,000 the clock stands still */
    _Atomic int64_t rate;
};

/*
 * NULL before the constructor runs, and in a program without CLOCK_SHIM_FILE: the time is
 * true.
 */
static const struct lie *lie;

#define CLOCK_BIT(id)    (1U << (id))
#define TIME_OF_DAY      (CLOCK_BIT(CLOCK_REALTIME) | CLOCK_BIT(CLOCK_REALTIME_COARSE))
#define STOPS_IN_SUSPEND (CLOCK_BIT(CLOCK_MONOTONIC) | CLOCK_BIT(CLOCK_MONOTONIC_RAW))

static unsigned wrong_clocks = TIME_OF_DAY;

static void give_up(const char *path, const char *why)
{
    fprintf(stderr, "clockshim: %s: %s\n", path, why);
    _exit(126);
}

/*
 * A test must not mistake a true clock for a wrong one: without its file the program does
 * not start.
 */
__attribute__((constructor)) static void open_lie(void)
{
    const char *path = getenv("CLOCK_SHIM_FILE"), *clocks = getenv("CLOCK_SHIM_CLOCKS");
    struct stat found;
    if (!path)
        return;
    if (clocks && strcmp(clocks, "suspended") == 0)
        wrong_clocks = STOPS_IN_SUSPEND;
    else if (clocks && strcmp(clocks, "all") == 0)
        wrong_clocks = TIME_OF_DAY | STOPS_IN_SUSPEND | CLOCK_BIT(CLOCK_BOOTTIME);
    else if (clocks && strcmp(clocks, "slewed") == 0)
        wrong_clocks = TIME_OF_DAY | CLOCK_BIT(CLOCK_MONOTONIC) | CLOCK_BIT(CLOCK_BOOTTIME);
    else if (clocks)
        give_up(clocks, "not a set of clocks");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &found) < 0)
        give_up(path, strerror(errno));
    if (found.st_size != sizeof(*lie))
        give_up(path, "has the wrong size");
    void *page = mmap(NULL, sizeof(*lie), PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        give_up(path, strerror(errno));
    close(file);
    lie = page;
}

static int ask_kernel(clockid_t id, struct timespec *now)
{
    return (int)syscall(SYS_clock_gettime, id, now);
}

static int64_t ns_of(const struct timespec *at)
{
    return (int64_t)at->tv_sec * NS_PER_S + at->tv_nsec;
}

static int64_t divide_down(int64_t what, int64_t by)
{
    return what / by - (what % by < 0);
}

/* In two parts: the product would overflow after a few hours. */
static int64_t gain(int64_t gone, int64_t rate)
{
    int64_t whole = divide_down(gone, MILLION);
    return whole * rate + divide_down((gone - whole * MILLION) * rate, MILLION);
}

/*
 * The true time is read between two reads of `turn`, and the test reads its anchor after it
 * has made `turn` odd. So no time of the old rate is later than the anchor of the new one:
 * a clock whose rate changes never jumps, not by a nanosecond.
 */
static int wrong_time(clockid_t id, struct timespec *now)
{
    int64_t anchor, offset, rate;
    uint64_t turn;
    struct timespec day;
    int result;
    do {
        turn = atomic_load_explicit(&lie->turn, memory_order_acquire);
        anchor = atomic_load_explicit(&lie->anchor, memory_order_relaxed);
        offset = atomic_load_explicit(&lie->offset, memory_order_relaxed);
        rate = atomic_load_explicit(&lie->rate, memory_order_relaxed);
        result = ask_kernel(CLOCK_REALTIME, &day) | ask_kernel(id, now);
        atomic_thread_fence(memory_order_acquire);
    } while (turn % 2 != 0 ||
             turn != atomic_load_explicit(&lie->turn, memory_order_relaxed));
    if (result == 0) {
        int64_t ns = ns_of(now);
        bool is_day = TIME_OF_DAY & CLOCK_BIT(id);
        ns += offset + gain((is_day ? ns : ns_of(&day)) - anchor, rate);
        now->tv_sec = divide_down(ns, NS_PER_S);
        now->tv_nsec = ns - now->tv_sec * NS_PER_S;
    }
    return result;
}

/* --- called instead of the C library's functions --- */

int clock_gettime(clockid_t id, struct timespec *now)
{
    if (lie && id >= 0 && id <= CLOCK_BOOTTIME && (wrong_clocks & CLOCK_BIT(id)))
        return wrong_time(id, now);
    return ask_kernel(id, now);
}

/* The one timer of the library that has an absolute time runs on CLOCK_BOOTTIME. */
int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    struct itimerspec at = *new;
    bool is_set = at.it_value.tv_sec != 0 || at.it_value.tv_nsec != 0;
    if (lie && (flags & TFD_TIMER_ABSTIME) && is_set &&
        (wrong_clocks & CLOCK_BIT(CLOCK_BOOTTIME))) {
        int64_t ns = (int64_t)at.it_value.tv_sec * NS_PER_S + at.it_value.tv_nsec -
                     atomic_load(&lie->offset);
        at.it_value.tv_sec = divide_down(ns, NS_PER_S);
        at.it_value.tv_nsec = ns - at.it_value.tv_sec * NS_PER_S;
    }
    return (int)syscall(SYS_timerfd_settime, fd, flags, &at, old);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise) < 0)
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    if (zone)
        memset(zone, 0, sizeof(struct timezone));
    return 0;
}

time_t time(time_t *now)
{
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise) < 0)
        return -1;
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    FILE *(*next)(const char *, const char *) = NULL;
    if (lie && strcmp(path, "/proc/cpuinfo") == 0) {
        errno = ENOENT;
        return NULL;
    }
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    return next(path, mode);
}
