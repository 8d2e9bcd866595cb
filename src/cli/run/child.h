/* Redlock's side of the command that it runs: signals, the terminal, and the keeper. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "keeper.h"

struct child {
    const struct keeper_plan *plan;
    pid_t keeper;             /* its process */
    unsigned long long since; /* when the keeper began, if older children exist; else 0 */
    int reports;              /* readable when the keeper has sent a report */
    int signals;              /* readable when a signal came */
    int terminal;             /* the controlling terminal; -1: none */
    pid_t pid;                /* of CMD, and its group's number; 0: CMD does not run */
    bool stopped;             /* CMD is stopped, as far as redlock knows */
    bool finishing;           /* the group gets no more signals */
    bool over;                /* the keeper sends no more reports */
    int failed;               /* why the keeper could not begin: its errno; 0: it could */
};

/*
 * Starts the keeper. Call it before anything is opened that CMD must not inherit. From then
 * on signals come by child_next_signal(); they stay blocked when the child is closed.
 * `plan` must live as long as the child. False, with errno: it failed.
 */
bool child_open(struct child *child, const struct keeper_plan *plan);

/*
 * Adds an entry to the environment of CMD, which has `size` bytes, and returns its new
 * size. child_start() starts CMD, under `lock` or, if it is NULL, under none; `environment`
 * as in struct keeper_command. False, with errno: CMD will not run; EPIPE: the keeper has
 * ended, and child_next() reports that.
 */
size_t child_add(char environment[KEEPER_ENVIRONMENT], size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool child_start(const struct child *child, int64_t deadline_us,
                 const struct keeper_lock *lock, const char *environment, size_t size);

/* Sends the keeper a new deadline; the keeper confirms it with KEEPER_HELD. */
void child_hold(const struct child *child, int64_t deadline_us);

/* The keeper does not release the lock from now on. */
void child_keep_lock(const struct child *child);

/*
 * Ends all descendants of the keeper: with SIGTERM, and with SIGKILL after `grace_us`; 0:
 * with SIGKILL at once. From then on no signal is sent to CMD's group.
 */
void child_finish(struct child *child, int64_t grace_us);

/*
 * Call it if the keeper does not reply: kills the keeper and all other processes with it; a
 * report follows.
 */
void child_give_up(const struct child *child);

/* Sends the signal to CMD's whole group. */
void child_signal(const struct child *child, int number);

/*
 * The next report; KEEPER_QUIET if there is none. At KEEPER_KILLED all processes that the
 * keeper would have killed are dead. Nothing follows KEEPER_KILLED and KEEPER_SWEPT.
 */
struct keeper_report child_next(struct child *child);

/* A signal that came and was not sent to CMD's group yet; 0: none. */
int child_next_signal(const struct child *child);

/*
 * CMD was stopped by this signal. If CMD wants the terminal and redlock has it, CMD gets
 * it. Else redlock stops too, as a job of the shell, and returns when it is continued.
 * After that, and at SIGCONT, check the deadline, then call child_resume(). False: another
 * process wants only CMD to be stopped; redlock must not continue it.
 */
bool child_suspend(struct child *child, int number);
void child_resume(struct child *child);

/* Takes the terminal back and ends the keeper. */
void child_close(struct child *child);

#endif
