/*
 * CMD of a redlock run, from its start until it and all processes that it left are gone. It
 * never runs longer than the lock is held.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "child.h"
#include "lock.h"

#define KILL_AFTER_MS    5000
#define KILL_AFTER_SHARE 4 /* --kill-after is at most the TTL, or --max-hold, / this */

/*
 * CMD is killed this long before the validity ends, because finding and killing all
 * processes takes time; or this part of the TTL, or of --max-hold, if that is less.
 */
#define LEAD_MS    250
#define LEAD_SHARE 16

enum run_stage {
    WAITING,  /* for the lock */
    RUNNING,  /* CMD runs or is being started */
    STOPPING, /* the lock is lost: CMD is being killed, after SIGTERM if there is time */
    ENDING,   /* CMD has ended, or never ran; the processes that it left are being ended */
    LEAVING,  /* the lock is being released, or kept */
};

struct cmd {
    struct lock *lock;
    struct ending *ending;
    struct keeper_plan plan; /* has CMD */
    bool key_follows_dashes; /* "run -- KEY CMD": probably KEY is the command */
    int64_t kill_after_ms; /* from SIGTERM to SIGKILL; a lock that is gone leaves no time */
    int64_t lead_ms;       /* from the end of CMD to the end of the validity */
    struct child child;
    struct event *reports, *signals;
    struct cli_timer timer;
    enum run_stage stage;
    int64_t
        deadline_us; /* the last that the keeper confirmed, or an earlier one; 0: none */
    bool gave_up;    /* the keeper did not reply, and is killed */

    /*
     * Called when CMD and its descendants are gone. `left` is not NULL if some processes
     * could not be killed: the lock must then be left to its TTL.
     */
    void (*gone)(void *arg, const struct kill_tree_left *left);
    void *arg;
};

/*
 * Makes the keeper: call it before anything is opened that CMD must not inherit. Sets how
 * long before the end of the lock CMD is stopped, by the TTL, and the callbacks of the lock
 * and the client. From cmd_watch() on, once there is a loop, reports and signals are
 * handled. Both end the process if they fail.
 */
void cmd_open(struct cmd *cmd, int64_t kill_after_ms);
void cmd_watch(struct cmd *cmd);
void cmd_close(struct cmd *cmd);

/*
 * The lock is held: starts CMD. If redlock is killed, the keeper releases the lock, but not
 * before `release_us`.
 */
void cmd_start(struct cmd *cmd, int64_t release_us);

/* CMD is not to be started. Calls `gone`, as after CMD has ended. */
void cmd_finish(struct cmd *cmd);

/* In notify.c: sends READY=1 to NOTIFY_SOCKET. */
void cmd_notify_ready(const char *key);

#endif
