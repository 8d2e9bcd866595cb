/*
 * Kills all processes that descend from this one, and verifies that they are dead.
 *
 * This process must be a subreaper: a descendant whose parent dies then becomes its child.
 * So nothing is left once this process has no child, except CMD as a zombie.
 */
#ifndef CLI_KILL_TREE_H
#define CLI_KILL_TREE_H

#include <stdbool.h>
#include <sys/types.h>

#define KILL_TREE_LEFT 8

/* The processes that the last scan found alive. */
struct kill_tree_left {
    unsigned count;
    pid_t pid[KILL_TREE_LEFT]; /* the first of them */
};

struct kill_tree {
    pid_t command;              /* CMD: stays a zombie, so that its pid is not reused */
    bool may_reap;              /* no other process signals CMD or its group any more */
    bool spare_daemons;         /* leave processes of other sessions alone */
    unsigned long long since;   /* ignore children that began earlier; 0: ignore none */
    unsigned clean;             /* scans in a row that found nothing */
    struct kill_tree_left left; /* of the last scan */
};

/* /proc exists and shows the processes of this pid namespace. */
bool kill_tree_can_see(void);

/* True: certainly nothing is left. False: scan with kill_tree_look(). */
bool kill_tree_is_over(struct kill_tree *kill_tree);

/*
 * Scans once. Sends the signal (0: none) to each living descendant, and SIGCONT after
 * SIGTERM. Reaps dead children. True: nothing is left.
 */
bool kill_tree_look(struct kill_tree *kill_tree, int number);

/* Kills until nothing is left. False: after KILL_TREE_MAX_US a process is still alive. */
#define KILL_TREE_MAX_US (5 * INT64_C(1000000)) /* a stuck process may never die */
bool kill_tree_kill(struct kill_tree *kill_tree);

/* When the process began, in the ticks of /proc; 0: unknown. */
unsigned long long kill_tree_birth(pid_t pid);

#endif
