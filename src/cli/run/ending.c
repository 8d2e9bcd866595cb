#include "ending.h"

#include "cli.h"

const char *ending_cause(const struct ending *ending)
{
    static const char *const names[] = {
#define X(cause, name) [BY_##cause] = name,
        RUN_CAUSES(X)
#undef X
    };
    return names[ending->cause];
}

void ending_conclude(struct ending *ending, int code, enum run_cause cause)
{
    if (ending->cause != NOT_CONCLUDED)
        return;
    ending->exit = code;
    ending->cause = cause;
}

void ending_conclude_signal(struct ending *ending)
{
    ending_conclude(ending, CLI_SIGNALLED + ending->signal, BY_SIGNAL);
}

void ending_replace_by_loss(struct ending *ending, const char *key)
{
    if (ending->fate != HAS_ENDED || ending->stopped)
        return;
    ending->exit = CLI_LOST;
    ending->cause = BY_LOSS;
    cli_complain(
        "%s: the lock was lost while the command ran: another client may have "
        "held it",
        key);
}
