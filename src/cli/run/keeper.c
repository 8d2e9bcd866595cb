#include "keeper.h"

#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define US_PER_SECOND  INT64_C(1000000)
#define SLEEP_WHOLE_US 8000
#define NS_PER_US      1000

/*
 * While descendants are being ended, the keeper scans after each SIGCHLD and at this
 * interval.
 */
#define LOOK_AFTER_TERM_MS 20
#define LOOK_AFTER_KILL_MS 2

#define RESEND_MS   10 /* while the kernel is short of memory */
#define REPORTS_MAX 8  /* more than the number of reports that must arrive */

int64_t keeper_clock(void)
{
    return cli_clock_us(CLOCK_BOOTTIME);
}

/* The progress of ending all descendants. */
enum ending {
    NOT_ENDING,
    TERMINATING, /* SIGTERM was sent */
    KILLING,     /* SIGKILL is sent until none is left */
};

struct keeper {
    const struct keeper_plan *plan;
    int redlock, timer, children; /* commands, the deadline, SIGCHLD */
    int exec;     /* pipe with the errno of a failed exec; -1: read already */
    int terminal; /* redlock is gone, and its group gets the terminal back; -1: no */
    pid_t parent; /* redlock */
    pid_t home;   /* redlock's process group */
    pid_t cmd;    /* CMD's pid and process group; 0: not started */
    bool started, ended, foreground;
    bool gone;                    /* redlock has ended */
    int64_t deadline_us;          /* on keeper_clock(), which a time daemon may slow down */
    int64_t unslewed_deadline_us; /* on unslewed_clock(); the earlier of the two applies */
    struct keeper_lock lock;
    enum ending ending;
    int64_t next_us; /* TERMINATING: time of SIGKILL; KILLING: time to give up */
    struct kill_tree kill_tree;
    struct keeper_report report[REPORTS_MAX]; /* not sent to redlock yet */
    size_t reports;
    bool is_starved; /* the kernel had no memory for the first one */
};

/* --- reports --- */

/* Whether it is over: a report is dropped only if redlock is gone. */
static bool send_report(const struct keeper *keeper, const struct keeper_report *report)
{
    ssize_t size =
        send(keeper->redlock, report, sizeof(*report), MSG_NOSIGNAL | MSG_DONTWAIT);
    return size >= 0 ||
           (errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ENOMEM);
}

/* Sends as many reports as the socket takes: redlock may be stopped. */
static void send_reports(struct keeper *keeper)
{
    size_t sent = 0;
    while (sent < keeper->reports && send_report(keeper, &keeper->report[sent]))
        sent++;
    int error = errno;
    keeper->reports -= sent;
    memmove(keeper->report, keeper->report + sent,
            keeper->reports * sizeof(keeper->report[0]));
    keeper->is_starved = keeper->reports > 0 && (error == ENOBUFS || error == ENOMEM);
}

/* Nothing tells when memory is back: the socket is writable all the while. */
static short output_event(const struct keeper *keeper)
{
    return keeper->reports > 0 && !keeper->is_starved ? POLLOUT : 0;
}

static void report(struct keeper *keeper, enum keeper_event news, int64_t value)
{
    if (keeper->reports == REPORTS_MAX)
        return;
    keeper->report[keeper->reports++] =
        (struct keeper_report){news, value, keeper->kill_tree.left};
    send_reports(keeper);
}

/* Sends a report that may be repeated; it is dropped if others are queued or the socket is
 * full. */
static void send_if_idle(struct keeper *keeper, enum keeper_event news, int64_t value)
{
    struct keeper_report event = {.news = news, .value = value};
    if (keeper->reports == 0)
        (void)send_report(keeper, &event);
}

/* --- files --- */

static int open_terminal(void)
{
    return open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

/*
 * Closes all other files: a process that waits for the end of redlock's output must not
 * wait for the keeper.
 */
static void close_other_files(const struct keeper *keeper)
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
            (void)syscall(SYS_close_range, from, next == UINT_MAX ? UINT_MAX : next - 1, 0);
        from = next + 1; /* wraps to 0 after the last */
    }
}

/* --- the deadline --- */

/*
 * CLOCK_MONOTONIC_RAW, which no time daemon slows down, plus the time suspended, which is
 * CLOCK_BOOTTIME minus CLOCK_MONOTONIC. An interruption between these readings makes the
 * result larger, never smaller.
 */
static int64_t unslewed_clock(void)
{
    int64_t raw = cli_clock_us(CLOCK_MONOTONIC_RAW);
    int64_t monotonic = cli_clock_us(CLOCK_MONOTONIC);
    return raw + keeper_clock() - monotonic;
}

/* The time until one of the two clocks reaches the deadline. */
static int64_t time_left(const struct keeper *keeper)
{
    int64_t left = keeper->deadline_us - keeper_clock();
    int64_t unslewed_left = keeper->unslewed_deadline_us - unslewed_clock();
    return unslewed_left < left ? unslewed_left : left;
}

/* The timer runs on the clock that may be slow, so a long sleep is split into parts. */
static void keeper_set_timer(const struct keeper *keeper)
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

/* Reads CLOCK_BOOTTIME last: time that passes before makes no deadline later. */
static void set_deadline(struct keeper *keeper, int64_t deadline_us)
{
    int64_t unslewed = unslewed_clock(), left = deadline_us - keeper_clock();
    keeper->deadline_us = deadline_us;
    keeper->unslewed_deadline_us =
        deadline_us == KEEPER_NEVER ? KEEPER_NEVER : unslewed + left;
    keeper_set_timer(keeper);
}

/* --- CMD --- */

#define TOO_LATE 0  /* used instead of an errno */
#define PID_ROOM 32 /* "WATCHDOG_PID=4194304" */

/*
 * systemd names the process for which its sockets and its watchdog are by its pid. That is
 * redlock's; the program for which they are is CMD. Its files are inherited as they are.
 */
static void take_over_pid(const struct keeper *keeper, const char *variable,
                          const char *value, char room[PID_ROOM])
{
    if (!value || strtol(value, NULL, 10) != keeper->parent)
        return;
    snprintf(room, PID_ROOM, "%s=%d", variable, (int)getpid());
    putenv(room);
}

/*
 * Runs in CMD, between fork and exec. It reads the clock last: nothing that may take time
 * comes between that and exec. If this process is stopped there, the keeper kills it at the
 * deadline. If the keeper is stopped too, redlock kills it.
 */
_Noreturn static void become_command(const struct keeper *keeper, pid_t parent,
                                     struct keeper_command *command)
{
    int terminal = command->foreground ? open_terminal() : -1;
    setpgid(0, 0);
    if (terminal >= 0)
        tcsetpgrp(terminal, getpid()); /* SIGTTOU is blocked */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    for (size_t at = 0; at < command->size; at += strlen(command->environment + at) + 1)
        putenv(command->environment + at);
    char listen[PID_ROOM], watchdog[PID_ROOM];
    take_over_pid(keeper, "LISTEN_PID", getenv("LISTEN_PID"), listen);
    take_over_pid(keeper, "WATCHDOG_PID", getenv("WATCHDOG_PID"), watchdog);
    sigprocmask(SIG_SETMASK, &keeper->plan->mask, NULL);
    int error = TOO_LATE;
    if (time_left(keeper) > 0) {
        execvp(keeper->plan->argv[0], keeper->plan->argv);
        error = errno;
    }
    (void)!write(keeper->exec, &error, sizeof(error));
    _exit(EXIT_FAILURE);
}

static void keeper_start_command(struct keeper *keeper, struct keeper_command *command)
{
    int ends[2];
    pid_t self = getpid();
    if (keeper->cmd > 0 || !keeper->plan->argv || keeper->ending != NOT_ENDING)
        return;
    keeper->lock = command->lock;
    set_deadline(keeper, command->deadline_us);
    if (time_left(keeper) <= 0) {
        report(keeper, KEEPER_LATE, 0);
        return;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        report(keeper, KEEPER_FAILED, errno);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        keeper->exec = ends[1];
        become_command(keeper, self, command);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        report(keeper, KEEPER_FAILED, error);
        return;
    }
    setpgid(pid, pid); /* parent and child both set it, so the order does not matter */
    keeper->cmd = keeper->kill_tree.command = pid;
    keeper->exec = ends[0];
    keeper->foreground = command->foreground;
    close_other_files(keeper);
}

/* --- ending all descendants --- */

static void give_terminal_back(const struct keeper *keeper)
{
    if (keeper->terminal >= 0 && tcgetpgrp(keeper->terminal) == keeper->cmd)
        tcsetpgrp(keeper->terminal, keeper->home);
}

/*
 * Waits until redlock has ended. Redlock kills the keeper once it has released the lock, so
 * this returns true only if redlock was killed before. False: the lock is to be kept. If
 * redlock left reports unread, an error comes before its last commands.
 */
static bool outlives_redlock(const struct keeper *keeper)
{
    struct keeper_command command;
    ssize_t size;
    while ((size = recv(keeper->redlock, &command, sizeof(command), 0)) != 0)
        if (size > 0 ? command.verb == KEEPER_KEEP : errno != ECONNRESET && errno != EINTR)
            return false;
    return true;
}

/* Everything is killed: only now may the keeper wait for redlock. */
_Noreturn static void finish(struct keeper *keeper, bool clean)
{
    give_terminal_back(keeper);
    if (keeper->plan->end)
        keeper->plan->end(keeper->plan->arg);
    report(keeper, KEEPER_SWEPT, clean);
    while (keeper->reports > 0) {
        struct pollfd file = {.fd = keeper->redlock, .events = output_event(keeper)};
        poll(&file, 1, keeper->is_starved ? RESEND_MS : -1);
        send_reports(keeper);
    }
    if (clean && keeper_clock() >= keeper->lock.release_us && outlives_redlock(keeper))
        keeper->plan->release(keeper->plan->arg, &keeper->lock);
    _exit(EXIT_SUCCESS);
}

/*
 * From now on all descendants are killed, also in other sessions unless daemons are spared.
 */
static void begin_to_kill(struct keeper *keeper, bool spare_daemons)
{
    keeper->ending = KILLING;
    keeper->next_us = keeper_clock() + KILL_TREE_MAX_US;
    keeper->kill_tree.spare_daemons = spare_daemons;
    keeper->kill_tree.clean = 0;
}

/* --- events of CMD --- */

static void read_exec_result(struct keeper *keeper)
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

/*
 * Processes that CMD leaves behind are ended when redlock sends FINISH, or at the deadline.
 */
static void command_has_ended(struct keeper *keeper, const siginfo_t *info)
{
    bool exited = info->si_code == CLD_EXITED;
    keeper->ended = true;
    if (keeper->exec >= 0)
        read_exec_result(keeper);
    if (keeper->started)
        report(keeper, KEEPER_ENDED, exited ? info->si_status << 8 : info->si_status);
    if (keeper->ending == NOT_ENDING && kill_tree_is_over(&keeper->kill_tree))
        finish(keeper, true);
}

/* Reports first that CMD runs: redlock needs CMD's pid to continue it. */
static void command_was_stopped(struct keeper *keeper, int number)
{
    struct pollfd exec = {.fd = keeper->exec, .events = POLLIN};
    if (keeper->exec >= 0 && poll(&exec, 1, 0) == 1)
        read_exec_result(keeper);
    if (keeper->exec >= 0)
        kill(-keeper->cmd, SIGCONT); /* exec has not happened yet */
    else if (keeper->started)
        send_if_idle(keeper, KEEPER_STOPPED, number);
}

/*
 * CMD stays a zombie, so that its pid and process group are not reused. A stop is consumed
 * with WSTOPPED only, and before it is reported. Once it is reported, CMD may continue, end
 * or stop again at any time, and the next call must see that.
 */
static void check_children(struct keeper *keeper)
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

/* --- ending all descendants, step by step --- */

/* Returns if a process is left. */
static void end_descendants(struct keeper *keeper)
{
    bool is_due = keeper_clock() >= keeper->next_us;
    if (keeper->ending == TERMINATING && is_due) {
        begin_to_kill(keeper, keeper->kill_tree.spare_daemons);
        is_due = false;
    }
    bool is_over =
        kill_tree_look(&keeper->kill_tree, keeper->ending == KILLING ? SIGKILL : 0);
    if (!is_over && !is_due)
        return;
    check_children(keeper); /* report CMD's own end first */
    finish(keeper, is_over);
}

static void begin_to_finish(struct keeper *keeper, int64_t grace_us)
{
    bool spare_daemons = keeper->plan->spare_daemons;
    keeper->kill_tree.may_reap = true;
    if (keeper->ending != NOT_ENDING)
        return;
    begin_to_kill(keeper, spare_daemons);
    if (grace_us <= 0)
        return;
    keeper->ending = TERMINATING;
    keeper->next_us = keeper_clock() + grace_us;
    if (kill_tree_look(&keeper->kill_tree, SIGTERM))
        finish(keeper, true);
}

/*
 * Redlock has ended without FINISH. If CMD had the terminal, redlock's group gets it back.
 */
static void redlock_is_gone(struct keeper *keeper)
{
    keeper->gone = true;
    keeper->kill_tree.may_reap = true;
    if (keeper->foreground)
        keeper->terminal = open_terminal();
    begin_to_kill(keeper, false);
}

static int next_look_ms(const struct keeper *keeper)
{
    if (keeper->ending == NOT_ENDING)
        return keeper->is_starved ? RESEND_MS : -1;
    bool is_slow = keeper->ending == TERMINATING && keeper->kill_tree.clean == 0;
    return is_slow ? LOOK_AFTER_TERM_MS : LOOK_AFTER_KILL_MS;
}

/* --- commands from redlock --- */

static void take_new_deadline(struct keeper *keeper, int64_t deadline_us)
{
    if (keeper->ending == KILLING)
        return;
    set_deadline(keeper, deadline_us);
    send_if_idle(keeper, KEEPER_HELD, deadline_us);
}

static void take_commands(struct keeper *keeper)
{
    static struct keeper_command command; /* putenv() keeps pointers into it */
    while (!keeper->gone) {
        ssize_t size = recv(keeper->redlock, &command, sizeof(command), MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (size <= 0) {
            redlock_is_gone(keeper);
            return;
        }
        switch (command.verb) {
        case KEEPER_START: keeper_start_command(keeper, &command); break;
        case KEEPER_HOLD: take_new_deadline(keeper, command.deadline_us); break;
        case KEEPER_KEEP: keeper->lock.release_us = KEEPER_NEVER; break;
        case KEEPER_FINISH: begin_to_finish(keeper, command.grace_us);
        }
    }
}

/*
 * Reads the clock itself, because the timer may be late. Kills everything that lives before
 * it reports that.
 */
static void watch_deadline(struct keeper *keeper)
{
    uint64_t times;
    bool woken = read(keeper->timer, &times, sizeof(times)) == sizeof(times);
    if (keeper->cmd == 0 || keeper->ending == KILLING || time_left(keeper) > 0) {
        if (woken)
            keeper_set_timer(keeper);
        return;
    }
    set_deadline(keeper, KEEPER_NEVER);
    keeper->lock.release_us = KEEPER_NEVER;
    begin_to_kill(keeper, false);
    (void)kill_tree_look(&keeper->kill_tree, SIGKILL);
    report(keeper, KEEPER_EXPIRED, 0);
}

/* --- the process --- */

/*
 * A user who ends redlock by name (pkill -f) must not end the keeper too: if both end at
 * once, the kernel kills only CMD. So the words of the command line are overwritten; CMD's
 * words are copied first.
 */
static void change_name(const struct keeper_plan *plan)
{
    static const char name[] = "lock-keeper";
    static char line[1 << 17];
    prctl(PR_SET_NAME, name);
    for (char **word = plan->argv; word && *word; word++)
        if (!(*word = strdup(*word)))
            _exit(errno);
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
    struct keeper keeper = {
        .plan = plan, .redlock = redlock, .exec = -1, .terminal = -1, .parent = getppid()};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    keeper.home = getpgrp();
    setpgid(0, 0); /* no session of its own: CMD needs the terminal */
    change_name(plan);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    keeper.deadline_us = keeper.lock.release_us = KEEPER_NEVER;
    if (!open_files(&keeper))
        _exit(errno);
    if (!plan->argv)
        close_other_files(&keeper);
    if (plan->begin) {
        plan->begin(plan->arg);
        report(&keeper, KEEPER_BEGUN, 0);
    }
    for (;;) {
        short wanted = (short)(POLLIN | output_event(&keeper));
        struct pollfd files[] = {{.fd = keeper.gone ? -1 : redlock, .events = wanted},
                                 {.fd = keeper.timer, .events = POLLIN},
                                 {.fd = keeper.children, .events = POLLIN},
                                 {.fd = keeper.exec, .events = POLLIN}};
        poll(files, sizeof(files) / sizeof(files[0]), next_look_ms(&keeper));
        send_reports(&keeper);
        if (files[3].revents && keeper.exec >= 0)
            read_exec_result(&keeper);
        take_commands(&keeper); /* first: a command may change the deadline */
        watch_deadline(&keeper);
        check_children(&keeper);
        if (keeper.ending != NOT_ENDING)
            end_descendants(&keeper);
    }
}
