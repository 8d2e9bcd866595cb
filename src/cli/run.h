/* What redlock run is about: a lock, a command, and where they stand. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "child.h"
#include "cli.h"

#define KILL_AFTER_SHARE 4 /* --kill-after is at most this part of the TTL */

/* CMD is killed so long before the validity ends, for to find and to kill all takes time;
 * or this part of the TTL before, if that is less. */
#define LEAD_MS    250
#define LEAD_SHARE 16

enum run_stage {
    WAITING,  /* for the lock */
    RUNNING,  /* CMD, or what starts it */
    STOPPING, /* the lock is lost: CMD was told to end, and will be killed */
    ENDING,   /* CMD has ended, or never ran; what it left behind is being killed */
    LEAVING,  /* the lock is being released, or kept */
};

struct run {
    const struct cli *cli;
    const char *key;
    char **argv; /* CMD */
    int64_t at_least_ms;
    int64_t kill_after_ms; /* from SIGTERM to SIGKILL */
    bool spare_daemons;
    int64_t lead_ms; /* from the end of CMD to that of the validity */
    struct event_base *base;
    redlock_client *client;
    redlock_lease *lease;
    struct child child;
    struct event *reports, *signals, *timer;
    struct cli_waiting waiting;
    enum run_stage stage;
    int64_t deadline_us; /* that the keeper confirmed last, or an earlier one; 0: none */
    bool held, lost, ran, gave_up, done;
    int signal;       /* that ended the waiting; 0: none */
    int64_t since_us; /* when the lock was first held */
    int64_t held_ms;
    int64_t fence; /* 0: the lock is plain, or was not held */
    int exit;
    const char *cause; /* of the exit code; the first counts */
};

/* The TTL that surely lasts so long: the nodes' clocks may be faster than ours. */
int64_t run_ttl_for(const struct run *run, int64_t ms);

/*
 * The command and its descendants are gone: the lock is released, or kept for --at-least.
 * Some are `left`: they could not be killed, and the lock is left to its TTL.
 */
void run_leave(struct run *run, const struct sweep_left *left);

/* What became of it all, on stderr: stdout is CMD's. */
void run_print_json(const struct run *run);

#endif
