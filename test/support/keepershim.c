/*
 * Preloaded into `redlock run`: stops the keeper or its child at a point that a test could
 * not hit otherwise, and hides features that some kernels do not have. Each variable
 * enables one function:
 *
 *     SHIM_FORKED=FILE   the keeper creates this file before it forks
 *     SHIM_NO_FORK=1     the keeper cannot fork
 *     SHIM_HOLD=FIFO     between fork and exec the child of the keeper writes its pid to
 *                        FIFO.pid, and waits until the FIFO is opened for writing
 *     SHIM_HOLD_START=FIFO  the same in redlock, before it sends the keeper a command
 *     SHIM_HOLD_THREAD=FIFO  the same in redlock, before it starts the thread that prints
 *     SHIM_NO_TIMER=1    the keeper can make no timer: it has no descriptor left
 *     SHIM_NO_LISTS=ERRNO  to open /proc/PID/task/TID/children fails with this number
 *     SHIM_NO_PROC=1     /proc/self names another process, as in a pid namespace without a
 *                        /proc of its own
 *     SHIM_LATE_DEATH=1  the keeper looks 50 ms late whether a child has died
 *     SHIM_LATE_PIDFD=1  the keeper waits 50 ms before it signals what is not its child
 *     SHIM_LATE_KILL=1   CMD's group dies of the keeper's first KILL only when the keeper,
 *                        which has read its own list of children, reads that of CMD
 *     SHIM_DEAF=1        the keeper cannot read what redlock sends: there is no memory
 *     SHIM_STARVED=FILE  the keeper's first 40 reports find no memory; it appends a byte to
 *                        FILE for each
 *     SHIM_NO_SYNC=1     no file of redlock can be synced
 *     SHIM_TIMER=FILE    the keeper appends a byte to FILE whenever it sets its timer
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The C library's own function. ISO C has no cast from an object's address to one. */
static void find(const char *name, void *ret_function)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    memcpy(ret_function, &found, sizeof(found));
}

static void write_file(const char *path, int number)
{
    char text[16];
    int len = snprintf(text, sizeof(text), "%d\n", number);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, (size_t)len) != len)
        abort();
    close(fd);
}

static int is_keeper(void)
{
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    return strcmp(name, "lock-keeper") == 0;
}

pid_t fork(void)
{
    pid_t (*next)(void);
    const char *path = getenv("SHIM_FORKED");
    find("fork", &next);
    if (path && is_keeper())
        write_file(path, getpid());
    if (getenv("SHIM_NO_FORK") && is_keeper()) {
        errno = EAGAIN;
        return -1;
    }
    return next();
}

static void hold(const char *fifo)
{
    char path[256];
    snprintf(path, sizeof(path), "%s.pid", fifo);
    write_file(path, getpid());
    close(open(fifo, O_RDONLY | O_CLOEXEC));
}

static void count_in(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || write(file, "x", 1) != 1)
        abort();
    close(file);
}

/* Redlock sends without MSG_DONTWAIT to the nodes. */
ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    ssize_t (*next)(int, const void *, size_t, int);
    const char *fifo = getenv("SHIM_HOLD_START"), *starved = getenv("SHIM_STARVED");
    static int held, failures;
    find("send", &next);
    if (fifo && (flags & MSG_DONTWAIT) && !is_keeper() && !held++)
        hold(fifo);
    if (starved && is_keeper() && failures < 40) {
        count_in(starved);
        errno = failures++ % 2 ? ENOMEM : ENOBUFS;
        return -1;
    }
    return next(fd, bytes, size, flags);
}

ssize_t recv(int fd, void *bytes, size_t room, int flags)
{
    ssize_t (*next)(int, void *, size_t, int);
    find("recv", &next);
    if (getenv("SHIM_DEAF") && is_keeper()) {
        errno = ENOMEM;
        return -1;
    }
    return next(fd, bytes, room, flags);
}

/* What _FORTIFY_SOURCE makes of it. */
ssize_t __recv_chk(int fd, void *bytes, size_t size, size_t room, int flags)
{
    return recv(fd, bytes, size < room ? size : room, flags);
}

int fsync(int fd)
{
    int (*next)(int);
    find("fsync", &next);
    if (getenv("SHIM_NO_SYNC")) {
        errno = EIO;
        return -1;
    }
    return next(fd);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*routine)(void *), void *arg)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    const char *fifo = getenv("SHIM_HOLD_THREAD");
    find("pthread_create", &next);
    if (fifo)
        hold(fifo);
    return next(thread, attributes, routine, arg);
}

/*
 * The keeper's child calls prctl(PR_SET_PDEATHSIG), and soon after that it reads the clock.
 */
int prctl(int option, ...)
{
    int (*next)(int, ...);
    const char *fifo = getenv("SHIM_HOLD");
    unsigned long word[4];
    va_list words;
    find("prctl", &next);
    va_start(words, option);
    for (int i = 0; i < 4; i++)
        word[i] = va_arg(words, unsigned long);
    va_end(words);
    int result = next(option, word[0], word[1], word[2], word[3]);
    if (fifo && option == PR_SET_PDEATHSIG && is_keeper())
        hold(fifo);
    return result;
}

/*
 * With 64-bit file offsets this function is named fopen64, and redlock calls it by that
 * name.
 */
FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    const char *last = strrchr(path, '/'), *number = getenv("SHIM_NO_LISTS");
    find("fopen64", &next);
    if (last && strcmp(last, "/children") == 0 && number) {
        errno = atoi(number);
        return NULL;
    }
    return next(path, mode);
}

ssize_t readlink(const char *path, char *text, size_t room)
{
    ssize_t (*next)(const char *, char *, size_t);
    find("readlink", &next);
    if (strcmp(path, "/proc/self") == 0 && getenv("SHIM_NO_PROC") && room > 1) {
        memcpy(text, "1", 1);
        return 1;
    }
    return next(path, text, room);
}

static void wait_if(const char *variable)
{
    if (getenv(variable) && is_keeper())
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    int (*next)(idtype_t, id_t, siginfo_t *, int);
    find("waitid", &next);
    wait_if("SHIM_LATE_DEATH");
    return next(type, id, info, options);
}

/* pidfd_open(), which not every C library has as a function. */
long syscall(long number, ...)
{
    long (*next)(long, ...);
    long word[6];
    va_list words;
    find("syscall", &next);
    va_start(words, number);
    for (int i = 0; i < 6; i++)
        word[i] = va_arg(words, long);
    va_end(words);
    if (number == SYS_pidfd_open)
        wait_if("SHIM_LATE_PIDFD");
    return next(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}

static pid_t late_group; /* its KILL is still to come; below 0: it has come */

int kill(pid_t pid, int number)
{
    int (*next)(pid_t, int);
    find("kill", &next);
    if (pid < 0 && number == SIGKILL && late_group >= 0 && getenv("SHIM_LATE_KILL") &&
        is_keeper()) {
        late_group = -pid;
        return 0;
    }
    return next(pid, number);
}

DIR *opendir(const char *path)
{
    DIR *(*next)(const char *);
    char expected[64];
    siginfo_t info;
    find("opendir", &next);
    snprintf(expected, sizeof(expected), "/proc/%d/task", (int)late_group);
    if (late_group > 0 && strcmp(path, expected) == 0) {
        pid_t command = late_group;
        late_group = -1;
        kill(-command, SIGKILL);
        waitid(P_PID, (id_t)command, &info, WEXITED | WNOWAIT);
    }
    return next(path);
}

int timerfd_create(clockid_t clock, int flags)
{
    int (*next)(clockid_t, int);
    find("timerfd_create", &next);
    if (getenv("SHIM_NO_TIMER") && is_keeper()) {
        errno = EMFILE;
        return -1;
    }
    return next(clock, flags);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *when,
                    struct itimerspec *ret_old)
{
    int (*next)(int, int, const struct itimerspec *, struct itimerspec *);
    const char *path = getenv("SHIM_TIMER");
    find("timerfd_settime", &next);
    if (path && is_keeper())
        count_in(path);
    return next(fd, flags, when, ret_old);
}
