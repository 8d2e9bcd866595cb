/* Redlock's side of the command that it runs: signals, the terminal, and the keeper. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "keeper.h"

struct child {
    const struct keeper_plan *plan;
    pid_t keeper;             /* its process */
    unsigned long long since; /* when that began, if there were children before; else 0 */
    int reports;              /* readable when the keeper has news */
    int signals;              /* readable when a signal came */
    int terminal;             /* ours; -1: none */
    pid_t pid;                /* of CMD, and its group's number; 0: it does not run */
    bool stopped;             /* CMD is, as far as we know */
    bool finishing;           /* the group gets no more signals */
    bool over;                /* the keeper has nothing more to tell */
};

/*
 * Starts the keeper; to be called before anything is opened that CMD must not have. From
 * then on signals come by child_next_signal(). `plan`, whose mask is filled in, must live
 * as long as the child. False, with errno: it cannot be.
 */
bool child_open(struct child *child, struct keeper_plan *plan);

/* Starts CMD; `environment` as in struct keeper_order. */
void child_start(const struct child *child, int64_t deadline_us, const char *environment,
                 size_t size);

/* Tells the keeper a new deadline; it answers by KEEPER_HELD. */
void child_hold(const struct child *child, int64_t deadline_us);

/*
 * Has all descendants of the keeper ended: by SIGTERM, and so long after that by SIGKILL;
 * 0: by SIGKILL at once. From then on no signal is sent to CMD's group.
 */
void child_finish(struct child *child, int64_t grace_us);

/* The keeper does not answer: it is killed, and with it everything; news follow. */
void child_give_up(const struct child *child);

/* To CMD's whole group. */
void child_signal(const struct child *child, int number);

/*
 * The next news, if there are any. At KEEPER_KILLED all has been killed that the keeper
 * would have killed. After that and KEEPER_SWEPT nothing follows.
 */
struct keeper_report child_next(struct child *child);

/* A signal that came, and that CMD's group has not got yet; 0: none. */
int child_next_signal(const struct child *child);

/*
 * CMD was stopped by this signal. If it asks for the terminal and that is ours, it gets it.
 * Else we stop as well, as a job of the shell, and return when we are continued. After
 * that, and at SIGCONT, look at the deadline, then child_resume(). False: somebody wants
 * CMD alone to be stopped, and nobody but them continues it.
 */
bool child_suspend(struct child *child, int number);
void child_resume(struct child *child);

/* Takes the terminal back and ends the keeper. */
void child_close(struct child *child);

#endif
