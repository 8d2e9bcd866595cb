#include "sync.h"

#include <stdlib.h>

redlock_code redlock_stop_new(redlock_sync *sync, redlock_stop **ret_stop)
{
    if (!sync)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_NULL_HANDLE);
    if (!rl_loop_owner_is_ours(&sync->loop))
        return rl_fail_by_code(REDLOCK_FORKED);
    rl_loop_owner_lock(&sync->loop);
    bool closing = sync->loop.closing;
    rl_loop_owner_unlock(&sync->loop);
    if (closing)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_CLIENT_FREED);
    redlock_stop *stop = calloc(1, sizeof(*stop));
    if (!stop)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    rl_loop_owner_ref(&sync->loop);
    stop->sync = sync;
    *ret_stop = stop;
    return REDLOCK_OK;
}

void redlock_stop_all(redlock_stop *stop)
{
    if (!stop || !rl_loop_owner_is_ours(&stop->sync->loop))
        return;
    rl_loop_owner_lock(&stop->sync->loop);
    stop->stopped = true;
    rl_keys_dismiss(&stop->sync->leases.keys, stop, false);
    rl_single_flights_dismiss(&stop->sync->flights, stop, false);
    rl_loop_owner_unlock(&stop->sync->loop);
}

void redlock_stop_free(redlock_stop *stop)
{
    if (!stop)
        return;
    redlock_sync *sync = stop->sync;
    free(stop);
    rl_loop_owner_unref(&sync->loop);
}
