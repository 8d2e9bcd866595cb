#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROOM       65536 /* bytes that wait for one reader */
#define LOOK_MS    50    /* while a result waits, the time between two looks for a signal */
#define LAST_MS    500   /* from a signal that ends redlock until the results are dropped */
#define STALLED_MS 1000  /* of a reader, until the messages of the end are dropped */
#define NOTICE     64

struct writer {
    int fd;
    pthread_mutex_t lock; /* of what the thread uses: `error` to `bytes` */
    pthread_cond_t changed;
    int error;     /* errno of the first write that failed; 0: none */
    size_t size;   /* of what waits */
    size_t needed; /* of what waits, up to the end of the last result */
    char bytes[ROOM];
    bool begun;            /* the thread runs */
    bool given_up;         /* a signal ends redlock: results are dropped */
    unsigned long dropped; /* lines, since the last notice */
};

static struct writer writers[] = {
    {.fd = STDOUT_FILENO, .lock = PTHREAD_MUTEX_INITIALIZER},
    {.fd = STDERR_FILENO, .lock = PTHREAD_MUTEX_INITIALIZER},
};

#define WRITERS (sizeof(writers) / sizeof(writers[0]))

static bool are_one; /* stdout and stderr are one open file, as after 2>&1 */
static bool is_hurried;
static int ended_by;       /* the signal that ends redlock; 0: none was seen */
static int64_t give_up_us; /* LAST_MS after that */

/* --- the thread --- */

/*
 * Whole lines, as many as a pipe takes in one piece: so lines of several processes do not
 * mix.
 */
static size_t portion_of(const struct writer *writer)
{
    if (writer->size <= PIPE_BUF)
        return writer->size;
    const char *end = memrchr(writer->bytes, '\n', PIPE_BUF);
    return end ? (size_t)(end - writer->bytes) + 1 : PIPE_BUF;
}

/* Another process may have set O_NONBLOCK. Returns what is done with: after an error, all.
 */
static size_t write_bytes(int fd, const char *bytes, size_t len, int *ret_error)
{
    for (;;) {
        ssize_t size = write(fd, bytes, len);
        if (size >= 0)
            return (size_t)size;
        if (errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (errno != EINTR)
            break;
    }
    *ret_error = errno;
    return len;
}

/* Called with the lock, which is open during the write: others only append then. */
static void write_portion(struct writer *writer)
{
    int error = 0;
    size_t len = portion_of(writer);
    pthread_mutex_unlock(&writer->lock);
    size_t done = write_bytes(writer->fd, writer->bytes, len, &error);
    pthread_mutex_lock(&writer->lock);
    writer->size -= done;
    writer->needed -= done < writer->needed ? done : writer->needed;
    memmove(writer->bytes, writer->bytes + done, writer->size);
    if (writer->error == 0)
        writer->error = error;
    pthread_cond_broadcast(&writer->changed);
}

static void *write_all(void *arg)
{
    struct writer *writer = arg;
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (writer->size == 0)
            pthread_cond_wait(&writer->changed, &writer->lock);
        write_portion(writer);
    }
    return NULL;
}

/* --- waiting --- */

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

enum goal { SOME_ROOM, ALL_RESULTS, ALL };

static bool is_reached(const struct writer *writer, enum goal goal)
{
    if (goal == SOME_ROOM)
        return writer->size < ROOM;
    return (goal == ALL ? writer->size : writer->needed) == 0;
}

void writer_signals(sigset_t *ret_set)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    sigemptyset(ret_set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(ret_set, numbers[i]);
    }
}

/* One of them that has come; 0: none. They are blocked. */
static int pending_of(const sigset_t *ends)
{
    sigset_t pending;
    sigpending(&pending);
    for (int number = 1; number <= SIGTERM; number++)
        if (sigismember(ends, number) == 1 && sigismember(&pending, number) == 1)
            return number;
    return 0;
}

/* A signal ends redlock, and the time that it leaves is over. */
static bool is_too_late(const sigset_t *ends, int64_t now)
{
    int number = is_hurried ? SIGTERM : pending_of(ends);
    if (ended_by == 0 && number != 0) {
        ended_by = number;
        give_up_us = now + LAST_MS * 1000;
    }
    return ended_by != 0 && now >= give_up_us;
}

static void wait_a_moment(struct writer *writer)
{
    int64_t until_us = now_us() + LOOK_MS * 1000;
    const struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
    pthread_cond_timedwait(&writer->changed, &writer->lock, &until);
}

/*
 * Waits for a reader, for as long as it takes; if only messages are left, until nothing was
 * read for a while.
 */
static void wait_for(struct writer *writer, enum goal goal, void (*meanwhile)(void *arg),
                     void *arg)
{
    sigset_t ends, before;
    writer_signals(&ends);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    pthread_mutex_lock(&writer->lock);
    size_t size = writer->size;
    int64_t since_us = now_us();
    while (!is_reached(writer, goal) && !writer->given_up) {
        wait_a_moment(writer);
        if (is_reached(writer, goal))
            break;
        pthread_mutex_unlock(&writer->lock);
        if (meanwhile)
            meanwhile(arg);
        pthread_mutex_lock(&writer->lock);
        int64_t now = now_us();
        if (writer->size != size)
            since_us = now;
        size = writer->size;
        bool is_stalled = goal == ALL && now - since_us >= STALLED_MS * 1000;
        writer->given_up = is_stalled || is_too_late(&ends, now);
    }
    pthread_mutex_unlock(&writer->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --- the queue --- */

/* Called with the lock. */
static void append(struct writer *writer, const char *bytes, size_t len)
{
    memcpy(writer->bytes + writer->size, bytes, len);
    writer->size += len;
    pthread_cond_broadcast(&writer->changed);
}

/* Appends the line, and before it how many were dropped, if both fit. */
static void offer(struct writer *writer, const char *line, size_t len)
{
    char notice[NOTICE] = "";
    if (writer->dropped > 0)
        snprintf(notice, sizeof(notice), "redlock: %lu line%s dropped\n", writer->dropped,
                 writer->dropped == 1 ? "" : "s");
    pthread_mutex_lock(&writer->lock);
    bool fits = strlen(notice) + len <= ROOM - writer->size;
    if (fits) {
        append(writer, notice, strlen(notice));
        append(writer, line, len);
    }
    pthread_mutex_unlock(&writer->lock);
    writer->dropped = fits ? 0 : writer->dropped + (len > 0);
}

/* A process that was forked has no thread, and writes nothing of what waited. */
static void forget(void)
{
    for (size_t i = 0; i < WRITERS; i++) {
        struct writer *writer = &writers[i];
        pthread_mutex_init(&writer->lock, NULL);
        pthread_cond_init(&writer->changed, NULL);
        writer->size = writer->needed = 0;
        writer->dropped = 0;
        writer->begun = false;
    }
}

static void end(void)
{
    for (size_t i = 0; i < WRITERS; i++) {
        offer(&writers[i], "", 0);
        if (writers[i].begun)
            wait_for(&writers[i], ALL_RESULTS, NULL, NULL);
    }
    for (size_t i = 0; i < WRITERS; i++)
        if (writers[i].begun)
            wait_for(&writers[i], ALL, NULL, NULL);
}

static void prepare(void)
{
    static bool is_prepared;
    struct stat out, err;
    if (is_prepared)
        return;
    is_prepared = true;
    are_one = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
              out.st_dev == err.st_dev && out.st_ino == err.st_ino &&
              fcntl(STDOUT_FILENO, F_GETFL) == fcntl(STDERR_FILENO, F_GETFL);
    atexit(end);
    pthread_atfork(NULL, NULL, forget);
}

/* The thread gets no signal: the handlers are for the main thread. */
static void begin(struct writer *writer)
{
    pthread_t thread;
    pthread_condattr_t clock;
    sigset_t all, before;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->changed, &clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    writer->begun = pthread_create(&thread, NULL, write_all, writer) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (writer->begun)
        pthread_detach(thread);
}

static struct writer *writer_of(int fd)
{
    prepare();
    return &writers[fd == STDERR_FILENO && !are_one];
}

static struct writer *begun_writer_of(int fd)
{
    struct writer *writer = writer_of(fd);
    if (!writer->begun)
        begin(writer);
    return writer;
}

/* Without a thread, because there is no memory, it writes at once. */
static void write_without_thread(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    while (!writer->begun && writer->size > 0)
        write_portion(writer);
    pthread_mutex_unlock(&writer->lock);
}

void writer_message(const char *line, size_t len)
{
    struct writer *writer = begun_writer_of(STDERR_FILENO);
    offer(writer, line, len);
    write_without_thread(writer);
}

void writer_result(int fd, const char *bytes, size_t len)
{
    struct writer *writer = begun_writer_of(fd);
    while (len > 0 && !writer->given_up) {
        pthread_mutex_lock(&writer->lock);
        size_t room = ROOM - writer->size, part = len < room ? len : room;
        append(writer, bytes, part);
        writer->needed = writer->size;
        pthread_mutex_unlock(&writer->lock);
        bytes += part;
        len -= part;
        write_without_thread(writer);
        if (len > 0)
            wait_for(writer, SOME_ROOM, NULL, NULL);
    }
}

int writer_error(int fd)
{
    struct writer *writer = writer_of(fd);
    pthread_mutex_lock(&writer->lock);
    int error = writer->given_up ? EINTR : writer->error;
    pthread_mutex_unlock(&writer->lock);
    return error;
}

int writer_flush(int fd, void (*meanwhile)(void *arg), void *arg)
{
    wait_for(writer_of(fd), ALL_RESULTS, meanwhile, arg);
    return writer_error(fd);
}

int writer_signal(void)
{
    return ended_by;
}

bool writer_is_idle(void)
{
    struct writer *writer = writer_of(STDERR_FILENO);
    pthread_mutex_lock(&writer->lock);
    bool is_idle = writer->size == 0;
    pthread_mutex_unlock(&writer->lock);
    return is_idle;
}

void writer_hurry(void)
{
    is_hurried = true;
}
