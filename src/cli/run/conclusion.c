/* Why a redlock run has its exit code. */
#include "run.h"

const char *run_cause_name(enum run_cause cause)
{
    static const char *const names[] = {
#define X(cause, name) [BY_##cause] = name,
        RUN_CAUSES(X)
#undef X
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
