#include "keeper.h"

#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define US_PER_SECOND  INT64_C(1000000)
#define SLEEP_WHOLE_US 8000
#define NS_PER_US      1000

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * US_PER_SECOND + now.tv_nsec / NS_PER_US;
}

int64_t keeper_clock(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

struct keeper {
    const struct keeper_plan *plan;
    int redlock, timer, children; /* orders, the deadline, SIGCHLD */
    int exec;                     /* tells why CMD could not be executed; -1: it is told */
    pid_t home;                   /* redlock's process group */
    pid_t cmd;                    /* and the number of its group; 0: not started */
    bool started, ended, foreground;
    int64_t deadline_us;     /* of keeper_clock(), which a time daemon may slow down ... */
    int64_t raw_deadline_us; /* ... and of a clock that none slows: the first one counts */
};

static void report(const struct keeper *keeper, enum keeper_news news, int value)
{
    struct keeper_report said = {news, value};
    int wait = news == KEEPER_STOPPED ? MSG_DONTWAIT : 0; /* may come again and again */
    (void)!send(keeper->redlock, &said, sizeof(said), MSG_NOSIGNAL | wait);
}

static int open_terminal(void)
{
    return open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

/* Whoever waits for the end of redlock's output must not wait for the keeper. */
static void let_go_of_files(const struct keeper *keeper)
{
    const int kept[] = {keeper->redlock, keeper->timer, keeper->children, keeper->exec};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    for (unsigned from = STDERR_FILENO + 1; from != 0;) {
        unsigned next = UINT_MAX;
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
            if (kept[i] >= 0 && (unsigned)kept[i] >= from && (unsigned)kept[i] < next)
                next = (unsigned)kept[i];
        if (next > from)
            close_range(from, next == UINT_MAX ? UINT_MAX : next - 1, 0);
        from = next + 1; /* wraps to 0 after the last */
    }
}

/* How long until one of the clocks reaches the deadline. */
static int64_t time_left(const struct keeper *keeper)
{
    int64_t left = keeper->deadline_us - keeper_clock();
    int64_t raw_left = keeper->raw_deadline_us - read_clock(CLOCK_MONOTONIC_RAW);
    return raw_left < left ? raw_left : left;
}

/* The timer goes by the clock that may be slow: a long sleep is slept in parts. */
static void set_timer(const struct keeper *keeper)
{
    int64_t left = time_left(keeper);
    if (left > SLEEP_WHOLE_US)
        left -= left / 8;
    if (left < 1)
        left = 1;
    struct itimerspec in = {
        .it_value = {left / US_PER_SECOND, left % US_PER_SECOND * NS_PER_US}};
    timerfd_settime(keeper->timer, 0, &in, NULL);
}

static void set_deadline(struct keeper *keeper, int64_t deadline_us)
{
    keeper->deadline_us = deadline_us;
    keeper->raw_deadline_us =
        deadline_us == KEEPER_NEVER
            ? KEEPER_NEVER
            : read_clock(CLOCK_MONOTONIC_RAW) + deadline_us - keeper_clock();
    set_timer(keeper);
}

/* CMD, between fork and exec. */
_Noreturn static void become_command(const struct keeper *keeper, pid_t parent,
                                     struct keeper_order *order)
{
    int terminal = order->foreground ? open_terminal() : -1;
    setpgid(0, 0);
    if (terminal >= 0)
        tcsetpgrp(terminal, getpid()); /* SIGTTOU is blocked */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    for (size_t at = 0; at < order->size; at += strlen(order->environment + at) + 1)
        putenv(order->environment + at);
    sigprocmask(SIG_SETMASK, &keeper->plan->mask, NULL);
    execvp(keeper->plan->argv[0], keeper->plan->argv);
    int error = errno;
    (void)!write(keeper->exec, &error, sizeof(error));
    _exit(EXIT_FAILURE);
}

static void start_command(struct keeper *keeper, struct keeper_order *order)
{
    int ends[2];
    pid_t self = getpid();
    if (keeper->cmd > 0 || !keeper->plan->argv)
        return;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        report(keeper, KEEPER_REFUSED, errno);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        keeper->exec = ends[1];
        become_command(keeper, self, order);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        report(keeper, KEEPER_REFUSED, error);
        return;
    }
    setpgid(pid, pid); /* so it is done, whoever comes first */
    keeper->cmd = pid;
    keeper->exec = ends[0];
    keeper->foreground = order->foreground;
    set_deadline(keeper, order->deadline_us);
    let_go_of_files(keeper);
}

static bool sweep(const struct keeper *keeper, bool everything)
{
    struct sweep_prey prey = {.group = keeper->cmd, .everything = everything};
    return sweep_kill(&prey);
}

_Noreturn static void finish(const struct keeper *keeper, bool everything)
{
    bool clean = sweep(keeper, everything);
    if (keeper->plan->end)
        keeper->plan->end(keeper->plan->arg);
    report(keeper, KEEPER_SWEPT, clean);
    _exit(EXIT_SUCCESS);
}

/* Redlock has ended without a word. Who waits for the terminal gets it back. */
_Noreturn static void redlock_is_gone(const struct keeper *keeper)
{
    int terminal = keeper->foreground ? open_terminal() : -1;
    sweep(keeper, true);
    if (terminal >= 0 && tcgetpgrp(terminal) == keeper->cmd)
        tcsetpgrp(terminal, keeper->home);
    finish(keeper, true);
}

static void take_orders(struct keeper *keeper)
{
    static struct keeper_order order; /* putenv() keeps parts of it */
    for (;;) {
        ssize_t size = recv(keeper->redlock, &order, sizeof(order), MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (size <= 0)
            redlock_is_gone(keeper);
        switch (order.verb) {
        case KEEPER_START: start_command(keeper, &order); break;
        case KEEPER_HOLD:
            if (!keeper->ended)
                set_deadline(keeper, order.deadline_us);
            break;
        case KEEPER_FINISH: finish(keeper, order.everything);
        }
    }
}

/* Looks at the clock itself: a timer may be late, a deadline is not. */
static void watch_deadline(struct keeper *keeper)
{
    uint64_t times;
    bool woken = read(keeper->timer, &times, sizeof(times)) == sizeof(times);
    if (keeper->cmd == 0 || keeper->ended || time_left(keeper) > 0) {
        if (woken)
            set_timer(keeper);
        return;
    }
    kill(-keeper->cmd, SIGKILL);
    report(keeper, KEEPER_EXPIRED, 0);
    set_deadline(keeper, KEEPER_NEVER);
    sweep(keeper, true);
}

static void hear_of_exec(struct keeper *keeper)
{
    int error;
    ssize_t size = read(keeper->exec, &error, sizeof(error));
    close(keeper->exec);
    keeper->exec = -1;
    keeper->started = size != sizeof(error);
    if (keeper->started)
        report(keeper, KEEPER_STARTED, keeper->cmd);
    else
        report(keeper, KEEPER_REFUSED, error);
}

static void command_has_ended(struct keeper *keeper, const siginfo_t *info)
{
    bool exited = info->si_code == CLD_EXITED;
    keeper->ended = true;
    set_deadline(keeper, KEEPER_NEVER);
    kill(-keeper->cmd, SIGKILL);
    if (keeper->exec >= 0)
        hear_of_exec(keeper);
    if (keeper->started)
        report(keeper, KEEPER_ENDED,
               W_EXITCODE(exited ? info->si_status : 0, exited ? 0 : info->si_status));
}

/* Redlock has to know CMD to continue it, so that CMD runs is told first. */
static void command_was_stopped(struct keeper *keeper, int number)
{
    struct pollfd exec = {.fd = keeper->exec, .events = POLLIN};
    if (keeper->exec >= 0 && poll(&exec, 1, 0) == 1)
        hear_of_exec(keeper);
    if (keeper->exec >= 0)
        kill(-keeper->cmd, SIGCONT); /* it is not CMD yet */
    else if (keeper->started)
        report(keeper, KEEPER_STOPPED, number);
}

/*
 * CMD stays a zombie: its number, and so its group's, must not be given to others. A stop
 * is taken as a stop only, and before it is told: once it is, CMD may go on, end or stop
 * again at any time, and that must be left to be seen.
 */
static void look_at_children(struct keeper *keeper)
{
    struct signalfd_siginfo signal;
    (void)!read(keeper->children, &signal, sizeof(signal));
    while (!keeper->ended) {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0)
            return;
        bool stopped = info.si_code == CLD_STOPPED, is_cmd = info.si_pid == keeper->cmd;
        if (is_cmd && !stopped) {
            command_has_ended(keeper, &info);
            return;
        }
        int kind = stopped ? WSTOPPED : WEXITED;
        if (waitid(P_PID, (id_t)info.si_pid, &info, kind | WNOHANG) == 0 && is_cmd &&
            info.si_pid != 0)
            command_was_stopped(keeper, info.si_status);
    }
}

/*
 * Who ends redlock by name (pkill -f) must not end it, too: both at once leave only CMD
 * itself to the kernel. The words of the command line are overwritten, CMD's are saved.
 */
static void change_name(const struct keeper_plan *plan)
{
    static const char name[] = "lock-keeper";
    static char line[1 << 17];
    prctl(PR_SET_NAME, name);
    for (char **word = plan->argv; word && *word; word++)
        if (!(*word = strdup(*word)))
            _exit(EXIT_FAILURE);
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, line, sizeof(line)) : -1;
    close(fd);
    char *words = program_invocation_name;
    if (size < (ssize_t)sizeof(name) || memcmp(words, line, strlen(words) + 1) != 0)
        return;
    memset(words, 0, (size_t)size);
    memcpy(words, name, sizeof(name));
}

static bool open_files(struct keeper *keeper)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    keeper->children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    keeper->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return keeper->children >= 0 && keeper->timer >= 0;
}

void keeper_main(const struct keeper_plan *plan, int redlock)
{
    struct keeper keeper = {.plan = plan, .redlock = redlock, .exec = -1};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    keeper.home = getpgrp();
    setpgid(0, 0); /* no session of its own: CMD needs the terminal */
    change_name(plan);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    keeper.deadline_us = KEEPER_NEVER;
    if (!open_files(&keeper))
        _exit(EXIT_FAILURE);
    if (!plan->argv)
        let_go_of_files(&keeper);
    if (plan->begin) {
        plan->begin(plan->arg);
        report(&keeper, KEEPER_BEGUN, 0);
    }
    for (;;) {
        struct pollfd files[] = {{.fd = redlock, .events = POLLIN},
                                 {.fd = keeper.timer, .events = POLLIN},
                                 {.fd = keeper.children, .events = POLLIN},
                                 {.fd = keeper.exec, .events = POLLIN}};
        poll(files, sizeof(files) / sizeof(files[0]), -1);
        if (files[3].revents && keeper.exec >= 0)
            hear_of_exec(&keeper);
        take_orders(&keeper); /* first: the deadline may have moved */
        watch_deadline(&keeper);
        look_at_children(&keeper);
    }
}
