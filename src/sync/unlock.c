#include "unlock.h"

#include "process_lease.h"

void rl_unlock_abandon(redlock_hold *hold)
{
    if (!rl_hold_is_ours(hold))
        return;
    rl_loop_owner_lock(hold->loop);
    if (hold->code == REDLOCK_OK)
        rl_hold_lose(hold, REDLOCK_NOT_HELD);
    rl_hold_withdraw_report(hold);
    if (hold->lease)
        rl_process_lease_abandon(hold->lease);
    rl_loop_owner_unlock(hold->loop);
}

/* --- unlocking --- */

static void unbind(redlock_hold *hold)
{
    if (!hold->options.any_thread)
        rl_thread_unbind(&hold->binding);
}

/* From now on the hold does not hold the lock. */
static redlock_code give_up(redlock_hold *hold, unsigned how)
{
    redlock_code code = hold->code;
    if (code == REDLOCK_OK && how == REDLOCK_DISOWN && redlock_hold_valid_ms(hold) == 0)
        code = REDLOCK_EXPIRED;
    rl_hold_lose(hold, REDLOCK_NOT_HELD);
    rl_hold_set_deadline(hold, (struct rl_until){0});
    if (!hold->lease)
        return code;
    if (how == REDLOCK_DISOWN) {
        rl_process_lease_abandon(hold->lease);
        return code;
    }
    redlock_code released = rl_process_lease_give_up(hold->lease, how == REDLOCK_CONFIRM);
    return code == REDLOCK_OK ? released : code;
}

redlock_code redlock_unlock(redlock_hold *hold, unsigned how)
{
    if (!rl_hold_is_ours(hold))
        return REDLOCK_FORKED;
    if (how > REDLOCK_DISOWN)
        return REDLOCK_BAD_OPTION;
    if (how == REDLOCK_CONFIRM && rl_loop_owner_in_any_thread())
        return REDLOCK_WOULD_DEADLOCK;
    struct rl_loop_owner *loop = hold->loop; /* its callback may free the hold meanwhile */
    unbind(hold);
    rl_loop_owner_lock(loop);
    redlock_code code = give_up(hold, how);
    rl_loop_owner_unlock(loop);
    return code;
}

void redlock_hold_free(redlock_hold *hold)
{
    if (!hold)
        return;
    bool may_delete = true;
    if (rl_hold_is_ours(hold)) {
        (void)redlock_unlock(hold, 0);
        rl_loop_owner_lock(hold->loop);
        may_delete = rl_hold_finish_report(hold);
        rl_loop_owner_unlock(hold->loop);
    } else {
        unbind(hold);
    }
    if (may_delete)
        rl_hold_delete(hold);
}

/* --- extending --- */

redlock_code redlock_hold_extend(redlock_hold *hold, int64_t ttl_ms)
{
    if (!rl_hold_is_ours(hold))
        return REDLOCK_FORKED;
    if (rl_loop_owner_in_any_thread())
        return REDLOCK_WOULD_DEADLOCK;
    if (ttl_ms < 0 || ttl_ms > REDLOCK_TTL_MAX_MS)
        return REDLOCK_BAD_TTL;
    struct rl_loop_owner *loop = hold->loop;
    rl_loop_owner_lock(loop);
    redlock_code code = hold->code;
    if (code == REDLOCK_OK)
        code = rl_process_lease_extend(hold->lease, ttl_ms);
    rl_loop_owner_unlock(loop);
    return code;
}
