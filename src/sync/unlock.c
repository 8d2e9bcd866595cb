#include "lock.h"

#include "process_lease.h"

void rl_unlock_abandon(redlock_hold *hold)
{
    if (!rl_hold_is_ours(hold))
        return;
    rl_loop_owner_lock(hold->loop);
    if (hold->code == REDLOCK_OK)
        rl_hold_lose(hold, REDLOCK_NOT_HELD);
    hold->thread = NULL;
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

/* The hold gives up the lock. */
static redlock_code unlock_give_up(redlock_hold *hold, unsigned how)
{
    redlock_code code = hold->code;
    if (code == REDLOCK_OK && how == REDLOCK_DISOWN && redlock_hold_valid_ms(hold) == 0)
        code = REDLOCK_EXPIRED;
    rl_hold_lose(hold, REDLOCK_NOT_HELD);
    hold->thread = NULL;
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

/* The last level was removed. */
static redlock_code leave_lock(redlock_hold *hold, unsigned how)
{
    struct rl_loop_owner *loop = hold->loop; /* its callback may free the hold meanwhile */
    unbind(hold);
    rl_loop_owner_lock(loop);
    redlock_code code = unlock_give_up(hold, how);
    rl_loop_owner_unlock(loop);
    return code;
}

static redlock_code code_of(redlock_hold *hold)
{
    rl_loop_owner_lock(hold->loop);
    redlock_code code = hold->code;
    rl_loop_owner_unlock(hold->loop);
    return code;
}

static redlock_code unlock(redlock_hold *hold, unsigned how)
{
    if (how == REDLOCK_DISOWN && rl_hold_uses(hold).levels > 1)
        return REDLOCK_BUSY;
    return rl_hold_leave(hold).levels > 1 ? code_of(hold) : leave_lock(hold, how);
}

/* The code of a hold, or of what was done with it. */
static redlock_code fail_by_code(redlock_code code)
{
    if (code == REDLOCK_BUSY)
        return rl_fail(code,
                       "its thread locked it more than once: unlock the others first");
    if (code != REDLOCK_NOT_HELD)
        return rl_fail_by_code(code);
    return rl_fail(code, "the hold has no lock: it was unlocked, or its thread has ended");
}

redlock_code redlock_unlock(redlock_hold *hold, unsigned how)
{
    if (!hold)
        return rl_fail(REDLOCK_NOT_HELD, "the hold is NULL");
    if (!rl_hold_is_ours(hold))
        return rl_fail_by_code(REDLOCK_FORKED);
    redlock_code code = rl_check_range("how", how, 0, REDLOCK_DISOWN);
    if (code == REDLOCK_OK && how == REDLOCK_CONFIRM)
        code = rl_loop_owner_may_wait(hold->loop);
    return code == REDLOCK_OK ? fail_by_code(unlock(hold, how)) : code;
}

void redlock_hold_free(redlock_hold *hold)
{
    if (!hold || rl_hold_drop(hold).handles > 1)
        return;
    bool may_delete = true;
    if (rl_hold_is_ours(hold)) {
        (void)leave_lock(hold, 0);
        rl_loop_owner_lock(hold->loop);
        may_delete = rl_hold_finish_report(hold);
        rl_loop_owner_unlock(hold->loop);
    } else {
        unbind(hold);
    }
    if (may_delete)
        rl_hold_delete(hold);
}

void rl_unlock_undo(redlock_hold *hold)
{
    (void)unlock(hold, 0);
    redlock_hold_free(hold);
}

/* --- extending --- */

static redlock_code unlock_extend(redlock_hold *hold, int64_t ttl_ms, bool downgrades)
{
    if (!hold)
        return rl_fail(REDLOCK_NOT_HELD, "the hold is NULL");
    struct rl_loop_owner *loop = hold->loop;
    redlock_code code = rl_loop_owner_may_wait(loop);
    if (code != REDLOCK_OK)
        return code;
    rl_loop_owner_lock(loop);
    if (hold->code != REDLOCK_OK)
        code = fail_by_code(hold->code);
    else if (downgrades && rl_hold_uses(hold).levels > 1)
        code = fail_by_code(REDLOCK_BUSY);
    else
        code = downgrades ? rl_process_lease_downgrade(hold->lease)
                          : rl_process_lease_extend(hold->lease, ttl_ms);
    rl_loop_owner_unlock(loop);
    return code;
}

redlock_code redlock_hold_extend(redlock_hold *hold, int64_t ttl_ms)
{
    return unlock_extend(hold, ttl_ms, false);
}

redlock_code redlock_hold_downgrade(redlock_hold *hold)
{
    return unlock_extend(hold, REDLOCK_AUTO, true);
}
