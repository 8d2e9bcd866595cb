/*
 * The keeper: a process between redlock and the command, which outlives redlock.
 *
 *     redlock --- keeper --- CMD --- descendants of CMD
 *
 * The keeper starts CMD in a process group of its own. It kills CMD and all its descendants
 * at the deadline that redlock sent last, or when redlock ends in any way: the keeper then
 * reads the end of their socket and needs nothing else from redlock. The keeper is the
 * parent of CMD and the reaper of CMD's orphans, so it also finds descendants that left the
 * group. It leaves CMD as a zombie until redlock sends no more signals to the group, so
 * that the group's number is not reused before. The keeper never waits for redlock before
 * it has killed everything. If redlock ends without having released the lock, the keeper
 * releases it, once no process is left.
 *
 * If the keeper is killed, the kernel kills CMD (PR_SET_PDEATHSIG). All orphans become
 * children of redlock, which kills them. If both are killed at once, the kernel kills CMD
 * only, and the processes that CMD started run on.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include "kill_tree.h"

#include <redlock/redlock.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_NEVER INT64_MAX

/* The lock under which CMD runs. */
struct keeper_lock {
    char token[REDLOCK_TOKEN_MAX + 1];
    int64_t fence;
    unsigned slot;      /* 0: the lock is none */
    int64_t release_us; /* of keeper_clock(): the keeper does not release it earlier */
};

struct keeper_plan {
    char **argv;        /* CMD; NULL: none */
    sigset_t mask;      /* of CMD: the one that redlock was started with */
    bool spare_daemons; /* descendants in other sessions survive the end of CMD */

    /*
     * Called before and after everything else. `begin` runs in the keeper. `end` runs in
     * the keeper or, if the keeper was killed, in redlock. What `begin` writes for other
     * processes must lie in shared memory. Both may be NULL.
     */
    void (*begin)(void *arg);
    void (*end)(void *arg);

    /*
     * Releases the lock of START. Called in the keeper, if redlock has ended before it
     * released the lock, when no descendant is left. It must not use argv, which the keeper
     * overwrites.
     */
    void (*release)(void *arg, const struct keeper_lock *lock);
    void *arg;
};

/* Commands to the keeper. */
enum keeper_verb {
    KEEPER_START,  /* run CMD, with `environment`, until the deadline */
    KEEPER_HOLD,   /* replace the deadline */
    KEEPER_KEEP,   /* never release the lock */
    KEEPER_FINISH, /* end all descendants, then the keeper; the group gets no more signals
                    */
};

#define KEEPER_ENVIRONMENT 16384

struct keeper_command {
    enum keeper_verb verb;
    bool foreground;         /* START: give the terminal to CMD's group */
    int64_t deadline_us;     /* START, HOLD: a time of keeper_clock() */
    int64_t grace_us;        /* FINISH: from SIGTERM to SIGKILL; 0: SIGKILL at once */
    struct keeper_lock lock; /* START */
    size_t size;             /* used bytes of `environment` */

    /* START: entries, each ends in a zero byte; an entry without '=' removes a variable */
    char environment[KEEPER_ENVIRONMENT];
};

/* Events from the keeper. */
enum keeper_event {
    KEEPER_QUIET,   /* no event */
    KEEPER_BEGUN,   /* the plan's `begin` has returned */
    KEEPER_STARTED, /* CMD runs; value: its pid, which is its group's number */
    KEEPER_LATE,    /* CMD was not executed: the deadline had passed */
    KEEPER_REFUSED, /* CMD could not be executed; value: errno */
    KEEPER_FAILED,  /* there was no process or pipe for CMD; value: errno */
    KEEPER_STOPPED, /* CMD was stopped; value: the signal */
    KEEPER_HELD,    /* value: the deadline that the last HOLD set */
    KEEPER_EXPIRED, /* the deadline has passed: CMD and its descendants are being killed */
    KEEPER_ENDED,   /* CMD has ended; value: its status, as of waitpid() */
    KEEPER_SWEPT,   /* all is done; value: whether no process is left */
    /*
     * The keeper was killed, then all it would kill; value: as for SWEPT. Or it could not
     * begin, and exited with errno: child.failed.
     */
    KEEPER_KILLED,
};

struct keeper_report {
    enum keeper_event news;
    int64_t value;
    struct kill_tree_left left; /* SWEPT, KILLED: the processes that are still alive */
};

/* CLOCK_BOOTTIME, which includes the time suspended, in microseconds. */
int64_t keeper_clock(void);

/*
 * Runs the keeper, in a process just forked. `redlock` is the keeper's end of the socket.
 */
_Noreturn void keeper_main(const struct keeper_plan *plan, int redlock);

#endif
