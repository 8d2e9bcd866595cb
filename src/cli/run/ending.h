/* How a redlock run ends: what became of CMD, and the exit code. */
#ifndef CLI_ENDING_H
#define CLI_ENDING_H

#include <stdbool.h>

/* Why a run has its exit code. */
#define RUN_CAUSES(X)                                                                      \
    X(CHILD, "child") /* the exit code of CMD */                                           \
    X(SIGNAL, "signalled")                                                                 \
    X(HOLDER, "taken") /* another client holds the lock */                                 \
    X(TIMEOUT, "timeout")                                                                  \
    X(NO_QUORUM, "no_quorum")                                                              \
    X(DENIAL, "denied")                                                                    \
    X(LOSS, "lost")                                                                        \
    X(NESTING, "nested")                                                                   \
    X(TTL, "bad_ttl")                                                                      \
    X(EXECUTION, "cannot_execute") /* CMD cannot be executed */                            \
    X(ABSENCE, "not_found")        /* CMD is not found */                                  \
    X(FAILURE, "failed")                                                                   \
    X(RECORD, "period_taken") /* --once-per: another host has the period */                \
    X(CLOCK, "clock")         /* --once-per: the clock of this host is wrong */

enum run_cause {
    NOT_CONCLUDED,
#define X(cause, name) BY_##cause,
    RUN_CAUSES(X)
#undef X
};

enum run_fate {
    NEVER_RAN,
    MAY_HAVE_RUN, /* CMD runs, or was killed, or it is not known whether it started */
    HAS_ENDED,
};

struct ending {
    int exit;
    enum run_cause cause; /* of the exit code */
    enum run_fate fate;   /* of CMD */
    bool stopped;         /* CMD, or not started, because the lock was lost */
    int signal;           /* the last one that told redlock to end; 0: none */
    bool done;            /* nothing is left to do */
};

/* The exit code, and its cause; the first one counts. */
void ending_conclude(struct ending *ending, int code, enum run_cause cause);

/* A signal has ended the wait, before CMD was started. */
void ending_conclude_signal(struct ending *ending);

/*
 * The nodes do not store the lock any more, by a reply from before its deadline: another
 * client may have held it beside CMD. Replaces the exit code, unless CMD was stopped.
 */
void ending_replace_by_loss(struct ending *ending, const char *key);

/* For programs: "taken". */
const char *ending_cause(const struct ending *ending);

#endif
