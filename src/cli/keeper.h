/*
 * The keeper: a process between redlock and the command, which outlives redlock.
 *
 *     redlock --- keeper --- CMD --- whatever CMD starts
 *
 * It starts CMD in a process group of its own. It kills CMD and all its descendants at the
 * deadline it was last told, or when redlock ends, however that happens: it needs nothing
 * from redlock but the end of their socket. It is the parent of CMD and the reaper of CMD's
 * orphans, so it also finds descendants that left the group; and it leaves CMD as a zombie
 * until redlock is done with the group, so that the group's number is not given to others
 * meanwhile.
 *
 * When CMD has ended, the keeper ends what CMD left behind: by SIGTERM, and after a grace
 * period by SIGKILL. The deadline holds all the while.
 *
 * It confirms each new deadline. Without that redlock knows that the keeper is stopped, and
 * must not rely on it for longer than to the deadline that it confirmed last. It never
 * waits for redlock before everything is killed.
 *
 * If the keeper is killed, the kernel kills CMD (PR_SET_PDEATHSIG), and redlock, to which
 * all orphans then fall, kills the rest. If both are killed at once, CMD dies by the
 * kernel's hand alone, and what it has started goes on.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include "sweep.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_NEVER INT64_MAX

struct keeper_plan {
    char **argv;        /* CMD; NULL: none */
    sigset_t mask;      /* of CMD */
    bool spare_daemons; /* what CMD leaves behind in other sessions goes on */

    /*
     * What is done before and after everything. `begin` runs in the keeper; `end` in the
     * keeper or, if that was killed, in redlock. What `begin` writes for others to read
     * must lie in memory that is shared between processes. Both may be NULL.
     */
    void (*begin)(void *arg);
    void (*end)(void *arg);
    void *arg;
};

/* To the keeper. */
enum keeper_verb {
    KEEPER_START,  /* CMD, with what `environment` says, until the deadline */
    KEEPER_HOLD,   /* until this deadline instead */
    KEEPER_FINISH, /* end all descendants, then the keeper; no more signals to the group */
};

#define KEEPER_ENVIRONMENT 16384

struct keeper_order {
    enum keeper_verb verb;
    bool foreground;     /* START: CMD's group gets the terminal */
    int64_t deadline_us; /* START, HOLD: of keeper_clock() */
    int64_t grace_us;    /* FINISH: from SIGTERM to SIGKILL; 0: SIGKILL at once */
    size_t size;         /* of what is used of `environment` */

    /* START: each ends in a zero byte; one without '=' is removed. */
    char environment[KEEPER_ENVIRONMENT];
};

/* From the keeper. */
enum keeper_news {
    KEEPER_QUIET,   /* nothing new */
    KEEPER_BEGUN,   /* the plan's `begin` has returned */
    KEEPER_STARTED, /* CMD runs; value: its pid, and its group's number */
    KEEPER_LATE,    /* CMD was not executed: the deadline had passed */
    KEEPER_REFUSED, /* CMD could not be executed; value: errno */
    KEEPER_STOPPED, /* CMD was stopped; value: the signal */
    KEEPER_HELD,    /* value: the deadline that was taken from the last HOLD */
    KEEPER_EXPIRED, /* the deadline has passed: CMD and its descendants are being killed */
    KEEPER_ENDED,   /* CMD has ended; value: its status, as of waitpid() */
    KEEPER_SWEPT,   /* all is done; value: whether nothing was left */
    KEEPER_KILLED,  /* the keeper was killed, and so was all else; value: as above */
};

struct keeper_report {
    enum keeper_news news;
    int64_t value;
    struct sweep_left left; /* SWEPT, KILLED: what still lives */
};

/* CLOCK_BOOTTIME, which counts suspends, in microseconds. */
int64_t keeper_clock(void);

/* The keeper itself, in a process just forked. `redlock` is its end of the socket. */
_Noreturn void keeper_main(const struct keeper_plan *plan, int redlock);

#endif
