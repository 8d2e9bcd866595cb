/* Which version runs: redlock/redlock.h */
#include "redlock/redlock.h"

#ifndef RL_VERSION /* the simulator's output is the same for each commit */
#include "version.h"
#endif

const char *redlock_version(void)
{
    return RL_VERSION;
}
