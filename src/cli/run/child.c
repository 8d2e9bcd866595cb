#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- signals --- */

/*
 * The signals that redlock receives: SIGTSTP only with a terminal, and none that was
 * ignored when redlock began.
 */
static void set_of_signals(sigset_t *ret_set, bool terminal)
{
    static const int numbers[] = {SIGTERM, SIGINT,   SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};
    sigemptyset(ret_set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction inherited;
        bool ignored =
            sigaction(numbers[i], NULL, &inherited) == 0 && inherited.sa_handler == SIG_IGN;
        if (!ignored && (numbers[i] != SIGTSTP || terminal))
            sigaddset(ret_set, numbers[i]);
    }
}

int child_next_signal(const struct child *child)
{
    struct signalfd_siginfo signal;
    ssize_t size = read(child->signals, &signal, sizeof(signal));
    return size == sizeof(signal) ? (int)signal.ssi_signo : 0;
}

void child_signal(const struct child *child, int number)
{
    if (child->pid > 0 && !child->finishing && !child->over)
        kill(-child->pid, number);
}

/* --- the terminal --- */

static bool is_in_foreground(const struct child *child)
{
    return child->terminal >= 0 && tcgetpgrp(child->terminal) == getpgrp();
}

/*
 * In `command | less` the pager reads the terminal: CMD gets it only when it asks for it.
 */
static bool wants_terminal(const struct child *child)
{
    return is_in_foreground(child) && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static void take_terminal_back(const struct child *child)
{
    if (child->terminal >= 0 && child->pid > 0 && tcgetpgrp(child->terminal) == child->pid)
        tcsetpgrp(child->terminal, getpgrp()); /* SIGTTOU is blocked */
}

static void give_terminal(const struct child *child)
{
    if (child->pid > 0)
        tcsetpgrp(child->terminal, child->pid);
}

/*
 * Stops our whole group, as the terminal would have done. If no shell can continue us (an
 * orphaned group), the kernel drops the signal, and redlock runs on.
 */
static void stop_our_group(int number)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, number);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    kill(0, number);
    sigprocmask(SIG_BLOCK, &stop, NULL);
}

bool child_suspend(struct child *child, int number)
{
    bool asks = number == SIGTTIN || number == SIGTTOU;
    child->stopped = child->pid > 0;
    if (child->terminal < 0 || number == SIGSTOP)
        return false;
    if (child->stopped && asks && is_in_foreground(child)) {
        give_terminal(child);
        return true;
    }
    take_terminal_back(child);
    stop_our_group(number);
    return true;
}

void child_resume(struct child *child)
{
    if (wants_terminal(child))
        give_terminal(child);
    if (child->stopped)
        child_signal(child, SIGCONT);
    child->stopped = false;
}

/* --- the keeper --- */

static pid_t fork_keeper(const struct child *child, const int ends[2])
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    close(ends[0]);
    close(child->signals);
    if (child->terminal >= 0)
        close(child->terminal);
    keeper_main(child->plan, ends[1]);
}

/* Children that a shell left to us by exec; they do not descend from CMD. */
static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

bool child_open(struct child *child, const struct keeper_plan *plan)
{
    sigset_t handled, blocked;
    int ends[2];
    *child = (struct child){.plan = plan};
    child->terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    set_of_signals(&handled, child->terminal >= 0);
    blocked = handled;
    sigaddset(&blocked, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, no child could be waited for */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    child->signals = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
    if (child->signals < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    bool has_older = has_children();
    child->keeper = fork_keeper(child, ends);
    int error = errno;
    close(ends[1]);
    child->reports = ends[0];
    child->since = has_older && child->keeper > 0 ? kill_tree_birth(child->keeper) : 0;
    errno = error;
    return child->keeper > 0;
}

static bool child_send_command(const struct child *child,
                               const struct keeper_command *command)
{
    size_t size = offsetof(struct keeper_command, environment) + command->size;
    return send(child->reports, command, size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

size_t child_add(char environment[KEEPER_ENVIRONMENT], size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(environment + size, KEEPER_ENVIRONMENT - size, format, arguments);
    va_end(arguments);
    return size + (size_t)len + 1;
}

bool child_start(const struct child *child, int64_t deadline_us,
                 const struct keeper_lock *lock, const char *environment, size_t size)
{
    struct keeper_command start = {.verb = KEEPER_START, .deadline_us = deadline_us};
    start.foreground = wants_terminal(child);
    start.lock = lock ? *lock : (struct keeper_lock){.release_us = KEEPER_NEVER};
    start.size = size < sizeof(start.environment) ? size : sizeof(start.environment);
    memcpy(start.environment, environment, start.size);
    return child_send_command(child, &start);
}

void child_hold(const struct child *child, int64_t deadline_us)
{
    struct keeper_command hold = {.verb = KEEPER_HOLD, .deadline_us = deadline_us};
    (void)child_send_command(child, &hold); /* else the keeper keeps its deadline */
}

void child_keep_lock(const struct child *child)
{
    struct keeper_command keep = {.verb = KEEPER_KEEP};
    (void)child_send_command(child, &keep); /* there is room: the keeper reads */
}

void child_finish(struct child *child, int64_t grace_us)
{
    struct keeper_command finish = {.verb = KEEPER_FINISH, .grace_us = grace_us};
    child->finishing = true;
    (void)child_send_command(child, &finish); /* else CMD ends at its deadline */
}

void child_give_up(const struct child *child)
{
    if (!child->over)
        kill(child->keeper, SIGKILL);
}

/* Does what the keeper would have done. All orphans are now our children. */
static struct keeper_report do_without_keeper(struct child *child)
{
    struct kill_tree kill_tree = {
        .command = child->pid, .may_reap = true, .since = child->since};
    int status = 0;
    waitpid(child->keeper, &status, 0);
    child->failed = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    child->keeper = 0;
    bool clean = kill_tree_kill(&kill_tree);
    if (child->plan->end)
        child->plan->end(child->plan->arg);
    return (struct keeper_report){KEEPER_KILLED, clean, kill_tree.left};
}

/*
 * A keeper that ends before it has read all commands resets the socket: its reports come
 * after that error.
 */
static ssize_t receive(const struct child *child, struct keeper_report *ret_report)
{
    ssize_t size;
    do
        size = recv(child->reports, ret_report, sizeof(*ret_report), MSG_DONTWAIT);
    while (size < 0 && errno == ECONNRESET);
    return size;
}

struct keeper_report child_next(struct child *child)
{
    struct keeper_report report = {.news = KEEPER_QUIET};
    if (child->over)
        return report;
    ssize_t size = receive(child, &report);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return (struct keeper_report){.news = KEEPER_QUIET};
    if (size != sizeof(report))
        report = do_without_keeper(child);
    if (report.news == KEEPER_STARTED)
        child->pid = (pid_t)report.value;
    child->over = report.news == KEEPER_SWEPT || report.news == KEEPER_KILLED;
    return report;
}

/*
 * The keeper may be stopped after its last report, so it is killed. CMD's zombie is then
 * our child.
 */
static void reap_keeper(const struct child *child)
{
    if (child->keeper > 0) {
        kill(child->keeper, SIGKILL);
        waitpid(child->keeper, NULL, 0);
    }
    if (child->pid > 0)
        waitpid(child->pid, NULL, WNOHANG);
}

void child_close(struct child *child)
{
    take_terminal_back(child);
    reap_keeper(child);
    close(child->reports);
    close(child->signals);
    if (child->terminal >= 0)
        close(child->terminal);
}
