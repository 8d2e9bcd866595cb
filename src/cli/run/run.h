/* The state of redlock run: a lock, a command, and the stage they are in. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "child.h"
#include "cli.h"
#include "nesting.h"
#include "once.h"
#include "stats_file.h"

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

/* Why a run has its exit code. */
#define RUN_CAUSES(X)                                                                      \
    X(CHILD, "child") /* the exit code of CMD */                                           \
    X(SIGNAL, "signalled")                                                                 \
    X(HOLDER, "held_elsewhere") /* another client holds the lock */                        \
    X(TIMEOUT, "timeout")                                                                  \
    X(NO_QUORUM, "no_quorum")                                                              \
    X(DENIAL, "denied")                                                                    \
    X(LOSS, "lost")                                                                        \
    X(NESTING, "nested")                                                                   \
    X(TTL, "bad_ttl")                                                                      \
    X(EXECUTION, "cannot_execute") /* CMD cannot be executed */                            \
    X(ABSENCE, "not_found")        /* CMD is not found */                                  \
    X(FAILURE, "failed")                                                                   \
    X(RECORD, "taken") /* --once-per: the period is taken */                               \
    X(CLOCK, "clock")  /* --once-per: the clock of this host is wrong */

enum run_cause {
    NOT_CONCLUDED,
#define X(cause, name) BY_##cause,
    RUN_CAUSES(X)
#undef X
};

struct run {
    struct cli *cli;
    const char *key;
    char **argv;             /* CMD */
    bool key_follows_dashes; /* "run -- KEY CMD": probably KEY is the command */
    sigset_t mask;           /* of CMD: that of redlock, before a run blocks signals */
    int64_t at_least_ms;
    int64_t kill_after_ms; /* from SIGTERM to SIGKILL; a lock that is gone leaves no time */
    bool spare_daemons;
    int64_t lead_ms; /* from the end of CMD to the end of the validity */
    redlock_lease *lease;
    struct child child;
    struct event *reports, *signals;
    struct cli_timer timer;
    struct cli_waiting waiting;
    struct nesting nesting;
    struct once once;
    struct stats_file stats_file;
    void (*proceed)(struct run *run); /* once the record is stored */
    int64_t last_ttl_ms;              /* of run_extend_last() */
    void (*extended_last)(struct run *run, redlock_code code);
    enum run_stage stage;
    int64_t
        deadline_us; /* the last that the keeper confirmed, or an earlier one; 0: none */
    bool held, lost, ran, gave_up, done;
    bool stopped;      /* CMD, or not started, because the lock was lost */
    bool may_have_run; /* CMD: unless it is known that it did not start */
    int signal;        /* the signal that ended the wait; 0: none */
    int told_to_end;   /* the signal that came while CMD ran, or later; 0: none */
    int64_t since_us;  /* when the lock was first held */
    int64_t held_ms;
    int64_t valid_until_us; /* as its release began */
    int64_t fence;          /* 0: the lock is plain, or was not held */
    json_t *nodes;          /* with --json: of the acquire, or of the loss */
    int exit;
    enum run_cause cause; /* of the exit code; the first one is kept */
};

/* --max-hold */
#define MAX_HOLD_OPTION(cli) "max-hold", 0, CLI_DURATION, &(cli)->lease.max_hold_ms

/* Sets the key and CMD, from `argv[first]` on; ends the process if they are missing. */
void run_read_command(struct run *run, char **argv, int first, int argc);

/* Sets how long before the end of the lock CMD is stopped, by the TTL; and the callbacks.
 */
void run_set_limits(struct run *run, int64_t kill_after_ms);

/* The exit code, and its cause; the first one counts. */
void run_conclude(struct run *run, int code, enum run_cause cause);

/* For programs: "held_elsewhere". */
const char *run_cause_name(enum run_cause cause);

/* The TTL that lasts at least `ms` of our clock: the nodes' clocks may run faster. */
int64_t run_ttl_for(const struct run *run, int64_t ms);

/* --once-per (run_once.c): reads the options; asks the nodes before the lock is acquired;
   concludes if the clock of this host is wrong, or another host has the period. */
void run_read_once(struct run *run);
void run_ask_once(struct run *run);
void run_judge_once(struct run *run);

/* The lock is held: calls `proceed` when the record is stored, if that comes before CMD. */
void run_begin_once(struct run *run, void (*proceed)(struct run *run));

/* CMD has ended. False: the lock is to be released; else `done` will be set. */
bool run_keeps_once(struct run *run);

json_t *run_once_json(const struct run *run);

/* Sends READY=1 to NOTIFY_SOCKET: the command has started. */
void run_notify_ready(const struct run *run);

/* Acquires the lock, runs CMD, and releases it: sets `exit`, `cause`, `stopped`, `ran`. */
void run_play(struct run *run);

/*
 * Called when the command and its descendants are gone. Releases the lock, or keeps it for
 * --at-least. `left` is not NULL if some processes could not be killed; the lock is then
 * left to its TTL.
 */
void run_leave(struct run *run, const struct kill_tree_left *left);

/*
 * The nodes do not store the lock any more, by a reply from before its deadline: another
 * client may have held it beside CMD. Replaces the exit code, unless CMD was stopped.
 */
void run_was_lost(struct run *run);

/* CMD has ended: asks the nodes once for the lock, and leaves it to them for `ttl_ms`. */
void run_check_and_disown(struct run *run, int64_t ttl_ms);

/*
 * CMD has ended: extends the lock, and tries again while it is held and too few nodes
 * reply, unless redlock is told to end.
 */
void run_extend_last(struct run *run, int64_t ttl_ms,
                     void (*then)(struct run *run, redlock_code code));

/* Prints the nodes of the last outcome with -v, and keeps them for --json. */
void run_tell_nodes(struct run *run);

/* Which nodes failed in the last extension; `otherwise` if none did. The caller frees it.
 */
char *run_why_not_extended(const struct run *run, const char *otherwise);

/* Why the lock is lost: which nodes failed, if that is the reason. The caller frees it. */
char *run_why_lost(const struct run *run, redlock_code code);

/*
 * In the keeper, as of struct keeper_plan: `arg` is the run as it was before it acquired
 * the lock.
 */
void run_release_orphan(void *arg, const struct keeper_lock *lock);

/* The client's log: warns once if the lock cannot be extended, and says when it can again.
 */
void run_note_event(const redlock_event *event, void *arg);

/* Prints the result on stderr: stdout belongs to CMD. */
void run_print_json(const struct run *run);

#endif
