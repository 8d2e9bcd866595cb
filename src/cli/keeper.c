#include "keeper.h"

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

/* While descendants are being ended: a look after each signal of a child, or so often. */
#define LOOK_AFTER_TERM_MS 20
#define LOOK_AFTER_KILL_MS 2

#define REPORTS_MAX 8 /* more than there are of those that must arrive */

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

/* How far the end of all descendants is. */
enum ending {
    NOT_ENDING,
    TERMINATING, /* they got SIGTERM */
    KILLING,     /* they get SIGKILL until none is left */
};

struct keeper {
    const struct keeper_plan *plan;
    int redlock, timer, children; /* orders, the deadline, SIGCHLD */
    int exec;                     /* tells why CMD could not be executed; -1: it is told */
    int terminal; /* redlock is gone, and its group gets this back; -1: no */
    pid_t home;   /* redlock's process group */
    pid_t cmd;    /* and the number of its group; 0: not started */
    bool started, ended, foreground;
    bool gone;           /* redlock is */
    int64_t deadline_us; /* of keeper_clock(), which a time daemon may slow down ... */
    int64_t unslewed_deadline_us; /* ... and of unslewed_clock(): the first one counts */
    enum ending ending;
    int64_t next_us; /* TERMINATING: when they are killed; KILLING: when that is given up */
    struct sweep sweep;
    struct keeper_report report[REPORTS_MAX]; /* that redlock has not taken yet */
    size_t reports;
};

/* --- reports --- */

static bool send_report(const struct keeper *keeper, const struct keeper_report *report)
{
    ssize_t size =
        send(keeper->redlock, report, sizeof(*report), MSG_NOSIGNAL | MSG_DONTWAIT);
    return size >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* As many as redlock takes. It may be stopped. */
static void send_reports(struct keeper *keeper)
{
    size_t sent = 0;
    while (sent < keeper->reports && send_report(keeper, &keeper->report[sent]))
        sent++;
    keeper->reports -= sent;
    memmove(keeper->report, keeper->report + sent,
            keeper->reports * sizeof(keeper->report[0]));
}

static void report(struct keeper *keeper, enum keeper_news news, int64_t value)
{
    if (keeper->reports == REPORTS_MAX)
        return;
    keeper->report[keeper->reports++] =
        (struct keeper_report){news, value, keeper->sweep.left};
    send_reports(keeper);
}

/* One that may come again and again: redlock does without it. */
static void mention(struct keeper *keeper, enum keeper_news news, int64_t value)
{
    struct keeper_report said = {.news = news, .value = value};
    if (keeper->reports == 0)
        (void)send_report(keeper, &said);
}

/* --- files --- */

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

/* --- the deadline --- */

/*
 * CLOCK_MONOTONIC_RAW, which no time daemon slows down, plus the time suspended: by that
 * CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC. An interruption between these readings makes
 * the result larger, never smaller.
 */
static int64_t unslewed_clock(void)
{
    int64_t raw = read_clock(CLOCK_MONOTONIC_RAW), monotonic = read_clock(CLOCK_MONOTONIC);
    return raw + keeper_clock() - monotonic;
}

/* How long until one of the clocks reaches the deadline. */
static int64_t time_left(const struct keeper *keeper)
{
    int64_t left = keeper->deadline_us - keeper_clock();
    int64_t unslewed_left = keeper->unslewed_deadline_us - unslewed_clock();
    return unslewed_left < left ? unslewed_left : left;
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

/* CLOCK_BOOTTIME is read last: what passes before that makes no deadline later. */
static void set_deadline(struct keeper *keeper, int64_t deadline_us)
{
    int64_t unslewed = unslewed_clock(), left = deadline_us - keeper_clock();
    keeper->deadline_us = deadline_us;
    keeper->unslewed_deadline_us =
        deadline_us == KEEPER_NEVER ? KEEPER_NEVER : unslewed + left;
    set_timer(keeper);
}

/* --- CMD --- */

#define TOO_LATE 0 /* in place of an errno */

/*
 * CMD, between fork and exec. The clock is read last: nothing that may take time comes
 * between that and exec. If this process is stopped there, the keeper kills it at the
 * deadline, and if the keeper is stopped, too, redlock does.
 */
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
    int error = TOO_LATE;
    if (time_left(keeper) > 0) {
        execvp(keeper->plan->argv[0], keeper->plan->argv);
        error = errno;
    }
    (void)!write(keeper->exec, &error, sizeof(error));
    _exit(EXIT_FAILURE);
}

static void start_command(struct keeper *keeper, struct keeper_order *order)
{
    int ends[2];
    pid_t self = getpid();
    if (keeper->cmd > 0 || !keeper->plan->argv || keeper->ending != NOT_ENDING)
        return;
    set_deadline(keeper, order->deadline_us);
    if (time_left(keeper) <= 0) {
        report(keeper, KEEPER_LATE, 0);
        return;
    }
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
    keeper->cmd = keeper->sweep.command = pid;
    keeper->exec = ends[0];
    keeper->foreground = order->foreground;
    let_go_of_files(keeper);
}

/* --- the end of all descendants --- */

static void give_terminal_back(const struct keeper *keeper)
{
    if (keeper->terminal >= 0 && tcgetpgrp(keeper->terminal) == keeper->cmd)
        tcsetpgrp(keeper->terminal, keeper->home);
}

/* Only now may the keeper wait for redlock. */
_Noreturn static void finish(struct keeper *keeper, bool clean)
{
    give_terminal_back(keeper);
    if (keeper->plan->end)
        keeper->plan->end(keeper->plan->arg);
    report(keeper, KEEPER_SWEPT, clean);
    while (keeper->reports > 0) {
        struct pollfd file = {.fd = keeper->redlock, .events = POLLOUT};
        poll(&file, 1, -1);
        send_reports(keeper);
    }
    _exit(EXIT_SUCCESS);
}

/* From now on all are killed; in other sessions, too, unless daemons are spared. */
static void begin_to_kill(struct keeper *keeper, bool spare_daemons)
{
    keeper->ending = KILLING;
    keeper->next_us = keeper_clock() + SWEEP_MAX_US;
    keeper->sweep.spare_daemons = spare_daemons;
    keeper->sweep.clean = 0;
}

/* --- what becomes of CMD --- */

static void hear_of_exec(struct keeper *keeper)
{
    int error;
    ssize_t size = read(keeper->exec, &error, sizeof(error));
    close(keeper->exec);
    keeper->exec = -1;
    keeper->started = size != sizeof(error);
    if (keeper->started)
        report(keeper, KEEPER_STARTED, keeper->cmd);
    else if (error == TOO_LATE)
        report(keeper, KEEPER_LATE, 0);
    else
        report(keeper, KEEPER_REFUSED, error);
}

/* What CMD leaves behind, if anything, ends when redlock asks for it, or at the deadline.
 */
static void command_has_ended(struct keeper *keeper, const siginfo_t *info)
{
    bool exited = info->si_code == CLD_EXITED;
    keeper->ended = true;
    if (keeper->exec >= 0)
        hear_of_exec(keeper);
    if (keeper->started)
        report(keeper, KEEPER_ENDED,
               W_EXITCODE(exited ? info->si_status : 0, exited ? 0 : info->si_status));
    if (keeper->ending == NOT_ENDING && sweep_is_over(&keeper->sweep))
        finish(keeper, true);
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
        mention(keeper, KEEPER_STOPPED, number);
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

/* --- the end of all descendants, in steps --- */

/* Returns if something is left. */
static void end_descendants(struct keeper *keeper)
{
    bool is_due = keeper_clock() >= keeper->next_us;
    if (keeper->ending == TERMINATING && is_due) {
        begin_to_kill(keeper, keeper->sweep.spare_daemons);
        is_due = false;
    }
    bool is_over = sweep_look(&keeper->sweep, keeper->ending == KILLING ? SIGKILL : 0);
    if (!is_over && !is_due)
        return;
    look_at_children(keeper); /* CMD's own end is told first */
    finish(keeper, is_over);
}

static void begin_to_finish(struct keeper *keeper, int64_t grace_us)
{
    bool spare_daemons = keeper->plan->spare_daemons;
    keeper->sweep.may_reap = true;
    if (keeper->ending != NOT_ENDING)
        return;
    begin_to_kill(keeper, spare_daemons);
    if (grace_us <= 0)
        return;
    keeper->ending = TERMINATING;
    keeper->next_us = keeper_clock() + grace_us;
    if (sweep_look(&keeper->sweep, SIGTERM))
        finish(keeper, true);
}

/* Redlock has ended without a word. If it had the terminal, its group gets that back. */
static void redlock_is_gone(struct keeper *keeper)
{
    keeper->gone = true;
    keeper->sweep.may_reap = true;
    if (keeper->foreground)
        keeper->terminal = open_terminal();
    begin_to_kill(keeper, false);
}

static int next_look_ms(const struct keeper *keeper)
{
    if (keeper->ending == NOT_ENDING)
        return -1;
    bool is_slow = keeper->ending == TERMINATING && keeper->sweep.clean == 0;
    return is_slow ? LOOK_AFTER_TERM_MS : LOOK_AFTER_KILL_MS;
}

/* --- orders --- */

static void take_new_deadline(struct keeper *keeper, int64_t deadline_us)
{
    if (keeper->ending == KILLING)
        return;
    set_deadline(keeper, deadline_us);
    mention(keeper, KEEPER_HELD, deadline_us);
}

static void take_orders(struct keeper *keeper)
{
    static struct keeper_order order; /* putenv() keeps parts of it */
    while (!keeper->gone) {
        ssize_t size = recv(keeper->redlock, &order, sizeof(order), MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (size <= 0) {
            redlock_is_gone(keeper);
            return;
        }
        switch (order.verb) {
        case KEEPER_START: start_command(keeper, &order); break;
        case KEEPER_HOLD: take_new_deadline(keeper, order.deadline_us); break;
        case KEEPER_FINISH: begin_to_finish(keeper, order.grace_us);
        }
    }
}

/*
 * Looks at the clock itself: a timer may be late, a deadline is not. Everything that lives
 * is killed before that is reported.
 */
static void watch_deadline(struct keeper *keeper)
{
    uint64_t times;
    bool woken = read(keeper->timer, &times, sizeof(times)) == sizeof(times);
    if (keeper->cmd == 0 || keeper->ending == KILLING || time_left(keeper) > 0) {
        if (woken)
            set_timer(keeper);
        return;
    }
    set_deadline(keeper, KEEPER_NEVER);
    begin_to_kill(keeper, false);
    (void)sweep_look(&keeper->sweep, SIGKILL);
    report(keeper, KEEPER_EXPIRED, 0);
}

/* --- the process --- */

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
    struct keeper keeper = {.plan = plan, .redlock = redlock, .exec = -1, .terminal = -1};
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
        short wanted = keeper.reports > 0 ? POLLIN | POLLOUT : POLLIN;
        struct pollfd files[] = {{.fd = keeper.gone ? -1 : redlock, .events = wanted},
                                 {.fd = keeper.timer, .events = POLLIN},
                                 {.fd = keeper.children, .events = POLLIN},
                                 {.fd = keeper.exec, .events = POLLIN}};
        poll(files, sizeof(files) / sizeof(files[0]), next_look_ms(&keeper));
        send_reports(&keeper);
        if (files[3].revents && keeper.exec >= 0)
            hear_of_exec(&keeper);
        take_orders(&keeper); /* first: the deadline may have moved */
        watch_deadline(&keeper);
        look_at_children(&keeper);
        if (keeper.ending != NOT_ENDING)
            end_descendants(&keeper);
    }
}
