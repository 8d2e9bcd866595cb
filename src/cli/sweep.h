/*
 * Ending all processes that descend from this one, and seeing that they are dead.
 *
 * This process must be a subreaper: then a descendant whose parent dies becomes its child.
 * So nothing is left once this process has no child left but CMD, dead.
 */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

#define SWEEP_LEFT 8

/* The processes that a look found alive. */
struct sweep_left {
    unsigned count;
    pid_t pid[SWEEP_LEFT]; /* the first of them */
};

struct sweep {
    pid_t command;            /* CMD: it stays a zombie, so that its number stays its own */
    bool may_reap;            /* nobody else signals CMD or its group any more */
    bool spare_daemons;       /* not the processes of other sessions */
    unsigned long long since; /* children that began earlier are none of ours; 0: all are */
    unsigned clean;           /* looks in a row that found nothing */
    struct sweep_left left;   /* of the last look */
};

/* Whether /proc is there and shows the processes of this pid namespace. */
bool sweep_can_see(void);

/* True: nothing is left, for certain. False: look. */
bool sweep_is_over(struct sweep *sweep);

/*
 * Looks once. Sends the signal (0: none) to each descendant that lives; with SIGTERM comes
 * SIGCONT. Reaps dead children. True: nothing is left.
 */
bool sweep_look(struct sweep *sweep, int number);

/* Kills until nothing is left. False: after SWEEP_MAX_US something still lives. */
#define SWEEP_MAX_US (5 * INT64_C(1000000)) /* a stuck process may never die */
bool sweep_kill(struct sweep *sweep);

/* When the process began, in /proc's ticks; 0: not known. */
unsigned long long sweep_birth(pid_t pid);

#endif
