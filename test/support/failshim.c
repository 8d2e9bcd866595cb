/*
 * Preloaded into a program: one allocation or one system call of it fails. Only those count
 * that the library, the command, a program of test/torture, or a library that these use
 * makes by a function of the C library. The file that FAIL_FILE names is a `struct plan`:
 * it says which one fails, and then holds what did. All processes that a program starts
 * count together. FAIL_STACK=1: the callers of what fails are written to stderr. A library
 * that is loaded by dlopen() does not count, unless it is preloaded, too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Called before AddressSanitizer is ready. */
#define EARLY __attribute__((no_sanitize_address))

enum { MEMORY = 1, CALLS = 2 };

/* test/torture/torture.py has the same layout. */
struct plan {
    uint64_t what, first; /* MEMORY or CALLS; the number of the one that fails, from 1 on */
    _Atomic uint64_t counted, failed;
    int64_t error;
    char name[32], object[64]; /* the function, and the file of its caller */
    uint64_t offset;           /* of the call in that file */
};

static struct plan *plan;

/* --- who calls --- */

#define PARTS_MAX 64

static struct part {
    uintptr_t begin, end;
} parts[PARTS_MAX];
static unsigned part_count;

static bool is_counted(const char *path)
{
    static const char *const names[] = {"libredlock", "redlock",   "libevent", "libhiredis",
                                        "libjansson", "libstdc++", "torture-"};
    char program[256] = "";
    if (!*path) {
        ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
        program[len > 0 ? len : 0] = '\0';
        path = program;
    }
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    for (int i = 0; is_counted(info->dlpi_name) && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) &&
            part_count < PARTS_MAX)
            parts[part_count++] = (struct part){begin, begin + segment->p_memsz};
    }
    return 0;
}

__attribute__((constructor)) static void open_plan(void)
{
    const char *path = getenv("FAIL_FILE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    dl_iterate_phdr(add_object, NULL);
    if (map != MAP_FAILED)
        plan = map;
}

EARLY static bool is_ours(uintptr_t caller)
{
    for (unsigned i = 0; i < part_count; i++)
        if (caller >= parts[i].begin && caller < parts[i].end)
            return true;
    return false;
}

/* --- what fails --- */

static void note(const char *name, int error, const void *caller)
{
    Dl_info found;
    plan->error = error;
    snprintf(plan->name, sizeof(plan->name), "%s", name);
    if (!dladdr(caller, &found))
        return;
    const char *slash = strrchr(found.dli_fname, '/');
    snprintf(plan->object, sizeof(plan->object), "%s", slash ? slash + 1 : found.dli_fname);
    plan->offset = (uintptr_t)caller - (uintptr_t)found.dli_fbase - 1;
}

static void print_callers(void)
{
    void *frames[16];
    backtrace_symbols_fd(frames, backtrace(frames, 16), STDERR_FILENO);
}

EARLY static bool fails(uint64_t what, const char *name, int error, const void *caller)
{
    if (!plan || plan->what != what || !is_ours((uintptr_t)caller))
        return false;
    if (++plan->counted != plan->first)
        return false;
    plan->failed++;
    note(name, error, caller);
    if (getenv("FAIL_STACK"))
        print_callers();
    errno = error;
    return true;
}

#define CALLER         __builtin_return_address(0)
#define RUNS_OUT(name) fails(MEMORY, name, ENOMEM, CALLER)
#define FIND(name)     find(#name, &next)

/* The function that would be called without this file. */
EARLY static void find(const char *name, void *ret_function)
{
    void **next = ret_function;
    if (!*next)
        *next = dlsym(RTLD_NEXT, name);
}

/* --- allocations --- */

/* Serves the first ones, while dlsym() looks the real allocator up. */
static _Alignas(16) char early[8192];
static size_t early_used;
static bool resolving;

static bool is_early(const void *block)
{
    return (const char *)block >= early && (const char *)block < early + sizeof(early);
}

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
} real;

EARLY static bool resolve(void)
{
    if (real.free)
        return true;
    if (resolving)
        return false;
    resolving = true;
    find("malloc", &real.malloc);
    find("calloc", &real.calloc);
    find("realloc", &real.realloc);
    find("free", &real.free);
    resolving = false;
    return real.free != NULL;
}

EARLY static void *allocate_early(size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (size > sizeof(early) - early_used)
        return NULL;
    void *block = early + early_used;
    early_used += size;
    return block;
}

EARLY void *malloc(size_t size)
{
    if (!resolve())
        return allocate_early(size);
    return RUNS_OUT("malloc") ? NULL : real.malloc(size);
}

EARLY void *calloc(size_t count, size_t size)
{
    if (!resolve())
        return allocate_early(count * size);
    return RUNS_OUT("calloc") ? NULL : real.calloc(count, size);
}

EARLY void *realloc(void *block, size_t size)
{
    if (!resolve() || is_early(block))
        return NULL;
    return RUNS_OUT("realloc") ? NULL : real.realloc(block, size);
}

EARLY void free(void *block)
{
    if (block && !is_early(block) && resolve())
        real.free(block);
}

/* The C library allocates for these. */
char *strndup(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    char *copy = RUNS_OUT("strndup") ? NULL : malloc(len + 1);
    if (!copy)
        return NULL;
    copy[len] = '\0';
    return memcpy(copy, text, len);
}

char *strdup(const char *text)
{
    size_t len = strlen(text);
    char *copy = RUNS_OUT("strdup") ? NULL : malloc(len + 1);
    return copy ? memcpy(copy, text, len + 1) : NULL;
}

int vasprintf(char **ret_text, const char *format, va_list words)
{
    static int (*next)(char **, const char *, va_list);
    FIND(vasprintf);
    return RUNS_OUT("vasprintf") ? -1 : next(ret_text, format, words);
}

int asprintf(char **ret_text, const char *format, ...)
{
    static int (*next)(char **, const char *, va_list);
    va_list words;
    find("vasprintf", &next);
    if (RUNS_OUT("asprintf"))
        return -1;
    va_start(words, format);
    int len = next(ret_text, format, words);
    va_end(words);
    return len;
}

/* What _FORTIFY_SOURCE makes of both. */
int __vasprintf_chk(char **ret_text, int flag, const char *format, va_list words)
{
    static int (*next)(char **, int, const char *, va_list);
    FIND(__vasprintf_chk);
    return RUNS_OUT("vasprintf") ? -1 : next(ret_text, flag, format, words);
}

int __asprintf_chk(char **ret_text, int flag, const char *format, ...)
{
    static int (*next)(char **, int, const char *, va_list);
    va_list words;
    find("__vasprintf_chk", &next);
    if (RUNS_OUT("asprintf"))
        return -1;
    va_start(words, format);
    int len = next(ret_text, flag, format, words);
    va_end(words);
    return len;
}

FILE *open_memstream(char **ret_text, size_t *ret_len)
{
    static FILE *(*next)(char **, size_t *);
    FIND(open_memstream);
    return RUNS_OUT("open_memstream") ? NULL : next(ret_text, ret_len);
}

/* --- system calls --- */

/*
 * How it can fail depends on the file: the use of an eventfd or a timerfd, and a read from
 * a socket pair whose other end is open, can only be interrupted.
 */
static bool is_pair(int fd)
{
    int type = 0;
    socklen_t len = sizeof(type);
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);
    return type == SOCK_SEQPACKET;
}

static int of_socket(int fd)
{
    return is_pair(fd) ? EINTR : ECONNRESET;
}

static int to_socket(int fd)
{
    return is_pair(fd) ? ENOBUFS : EPIPE;
}

static int of_file(int fd)
{
    char path[32], file[16] = "";
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(path, file, sizeof(file) - 1);
    return len > 0 && strncmp(file, "anon_inode:", 11) == 0 ? EINTR : EIO;
}

/* CALL(type, name, result, error number, parameters, arguments) */
#define CALL(type, name, result, number, parameters, ...)                                  \
    type name parameters                                                                   \
    {                                                                                      \
        static type(*next) parameters;                                                     \
        FIND(name);                                                                        \
        return fails(CALLS, #name, number, CALLER) ? (result) : next(__VA_ARGS__);         \
    }

CALL(int, socket, -1, EMFILE, (int domain, int type, int protocol), domain, type, protocol)
CALL(int, socketpair, -1, EMFILE, (int domain, int type, int protocol, int ends[2]), domain,
     type, protocol, ends)
CALL(int, connect, -1, ECONNREFUSED, (int fd, __CONST_SOCKADDR_ARG to, socklen_t len), fd,
     to, len)
CALL(ssize_t, recv, -1, of_socket(fd), (int fd, void *to, size_t len, int how), fd, to, len,
     how)
CALL(ssize_t, send, -1, to_socket(fd), (int fd, const void *from, size_t len, int how), fd,
     from, len, how)
CALL(ssize_t, read, -1, of_file(fd), (int fd, void *to, size_t len), fd, to, len)
/* What _FORTIFY_SOURCE makes of them, with the room for the bytes. */
CALL(ssize_t, __recv_chk, -1, of_socket(fd),
     (int fd, void *to, size_t len, size_t room, int how), fd, to, len, room, how)
CALL(ssize_t, __read_chk, -1, of_file(fd), (int fd, void *to, size_t len, size_t room), fd,
     to, len, room)
CALL(ssize_t, write, -1, of_file(fd), (int fd, const void *from, size_t len), fd, from, len)
CALL(int, setsockopt, -1, ENOBUFS,
     (int fd, int level, int name, const void *value, socklen_t len), fd, level, name,
     value, len)
CALL(int, epoll_create1, -1, EMFILE, (int flags), flags)
CALL(int, epoll_create, -1, EMFILE, (int size), size)
CALL(int, epoll_ctl, -1, ENOSPC, (int fd, int what, int of, struct epoll_event *event), fd,
     what, of, event)
CALL(int, epoll_wait, -1, EINTR, (int fd, struct epoll_event *to, int room, int ms), fd, to,
     room, ms)
CALL(ssize_t, getrandom, -1, ENOSYS, (void *to, size_t len, unsigned flags), to, len, flags)
CALL(int, timerfd_create, -1, EMFILE, (clockid_t id, int flags), id, flags)
CALL(int, timerfd_settime, -1, EINVAL,
     (int fd, int flags, const struct itimerspec *when, struct itimerspec *ret_old), fd,
     flags, when, ret_old)
CALL(int, eventfd, -1, EMFILE, (unsigned count, int flags), count, flags)
CALL(int, signalfd, -1, EMFILE, (int fd, const sigset_t *set, int flags), fd, set, flags)
CALL(int, memfd_create, -1, EMFILE, (const char *name, unsigned flags), name, flags)
CALL(int, pipe, -1, EMFILE, (int ends[2]), ends)
CALL(int, pipe2, -1, EMFILE, (int ends[2], int flags), ends, flags)
CALL(int, dup3, -1, EMFILE, (int fd, int to, int flags), fd, to, flags)
CALL(pid_t, fork, -1, EAGAIN, (void), )
CALL(int, execvp, -1, ENOMEM, (const char *file, char *const words[]), file, words)
CALL(int, pthread_create, EAGAIN, EAGAIN,
     (pthread_t * ret_thread, const pthread_attr_t *how, void *(*run)(void *), void *arg),
     ret_thread, how, run, arg)
CALL(int, posix_spawnp, EAGAIN, EAGAIN,
     (pid_t * ret_pid, const char *file, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *how, char *const words[], char *const variables[]),
     ret_pid, file, actions, how, words, variables)

/* With 64-bit file offsets these are open64() and fopen64(), also in the library. */
int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    va_list words;
    va_start(words, flags);
    int mode = va_arg(words, int);
    va_end(words);
    find("open64", &next);
    return fails(CALLS, "open", EMFILE, CALLER) ? -1 : next(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*next)(const char *, const char *);
    find("fopen64", &next);
    return fails(CALLS, "fopen", EMFILE, CALLER) ? NULL : next(path, mode);
}
