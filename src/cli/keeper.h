/*
 * The keeper: a process between redlock and the command, which outlives redlock.
 *
 *     redlock --- keeper --- CMD --- whatever CMD starts
 *
 * It starts CMD in a process group of its own and kills that at the deadline it was last
 * told, or when redlock ends, however that happens: it needs nothing from redlock but the
 * end of their socket. It is the parent of CMD and the reaper of CMD's orphans, so it also
 * finds descendants that left the group; and it leaves CMD as a zombie until redlock is
 * done with the group, so that the group's number is not given to others meanwhile.
 *
 * If the keeper is killed, the kernel kills CMD (PR_SET_PDEATHSIG), and redlock, to which
 * all orphans then fall, kills the rest.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_NEVER INT64_MAX

struct keeper_plan {
    char **argv;   /* CMD; NULL: none */
    sigset_t mask; /* of CMD */

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
    KEEPER_FINISH, /* kill what is left in the group, or of all descendants; then end */
};

#define KEEPER_ENVIRONMENT 16384

struct keeper_order {
    enum keeper_verb verb;
    bool foreground;     /* START: CMD's group gets the terminal */
    bool everything;     /* FINISH: descendants outside the group, too */
    int64_t deadline_us; /* START, HOLD: of keeper_clock() */
    size_t size;         /* of what is used of `environment` */

    /* START: each ends in a zero byte; one without '=' is removed. */
    char environment[KEEPER_ENVIRONMENT];
};

/* From the keeper. */
enum keeper_news {
    KEEPER_QUIET,   /* nothing new */
    KEEPER_BEGUN,   /* the plan's `begin` has returned */
    KEEPER_STARTED, /* CMD runs; value: its pid, and its group's number */
    KEEPER_REFUSED, /* CMD could not be executed; value: errno */
    KEEPER_STOPPED, /* CMD was stopped; value: the signal */
    KEEPER_EXPIRED, /* the deadline has passed: CMD and its descendants are being killed */
    KEEPER_ENDED,   /* CMD has ended; value: its status, as of waitpid() */
    KEEPER_SWEPT,   /* all is done; value: whether nothing was left */
    KEEPER_KILLED,  /* the keeper was killed, and so was all else; value: as above */
};

struct keeper_report {
    enum keeper_news news;
    int value;
};

/* CLOCK_BOOTTIME, which counts suspends, in microseconds. */
int64_t keeper_clock(void);

/* The keeper itself, in a process just forked. `redlock` is its end of the socket. */
_Noreturn void keeper_main(const struct keeper_plan *plan, int redlock);

/* What is to be killed. */
struct keeper_prey {
    pid_t group;              /* CMD's; 0: none */
    bool everything;          /* also all descendants of this process ... */
    unsigned long long since; /* ... that began no earlier, in /proc's ticks */
};

/*
 * Kills until nothing is left, and reaps, but CMD, which gave the group its number. False
 * if something is left all the same: it may not be killed, or does not die.
 */
bool keeper_sweep(const struct keeper_prey *prey);

/* When the process began, in /proc's ticks; 0: not known. */
unsigned long long keeper_birth(pid_t pid);

#endif
