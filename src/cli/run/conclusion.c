/* Why a redlock run has its exit code. */
#include "run.h"

const char *run_cause_name(enum run_cause cause)
{
    static const char *const names[] = {
        [BY_CHILD] = "child",
        [BY_SIGNAL] = "signalled",
        [BY_HOLDER] = "held_elsewhere",
        [BY_TIMEOUT] = "timeout",
        [BY_NO_QUORUM] = "no_quorum",
        [BY_DENIAL] = "denied",
        [BY_LOSS] = "lost",
        [BY_NESTING] = "nested",
        [BY_TTL] = "bad_ttl",
        [BY_EXECUTION] = "cannot_execute",
        [BY_ABSENCE] = "not_found",
        [BY_FAILURE] = "failed",
        [BY_RECORD] = "taken",
        [BY_CLOCK] = "clock",
    };
    return names[cause];
}

void run_conclude(struct run *run, int code, enum run_cause cause)
{
    if (run->cause != NOT_CONCLUDED)
        return;
    run->exit = code;
    run->cause = cause;
}
