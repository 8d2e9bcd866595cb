#include "lock.h"

#include "failed_nodes.h"
#include "process_lease.h"

void rl_unlock_abandon(redlock_hold *hold)
{
    if (!rl_hold_is_ours(hold))
        return;
    rl_loop_owner_lock(hold->loop);
    if (hold->end.code == REDLOCK_OK)
        rl_hold_lose(hold, (struct rl_end){REDLOCK_NOT_HELD, REDLOCK_REASON_THREAD_ENDED});
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

/* With the mutex: the URIs of the nodes' replies, which the hold keeps, are the client's.
 */
static redlock_code fail_by_end(const redlock_hold *hold, struct rl_end end)
{
    if (end.code == REDLOCK_EXPIRED && hold->nodes && !hold->loop->closing)
        return rl_fail_by_nodes(end.code, end.reason, hold->nodes, hold->node_count);
    return rl_fail_by_reason(end.code, end.reason);
}

/* The hold gives up the lock. */
static redlock_code unlock_give_up(redlock_hold *hold, unsigned how)
{
    struct rl_end end = hold->end;
    if (end.code == REDLOCK_OK && how == REDLOCK_DISOWN && redlock_hold_valid_ms(hold) == 0)
        end = (struct rl_end){REDLOCK_EXPIRED, REDLOCK_REASON_DEADLINE};
    if (end.code != REDLOCK_NOT_HELD)
        rl_hold_lose(hold,
                     (struct rl_end){REDLOCK_NOT_HELD, how == REDLOCK_DISOWN
                                                           ? REDLOCK_REASON_DISOWNED
                                                           : REDLOCK_REASON_RELEASED});
    hold->thread = NULL;
    rl_hold_set_deadline(hold, (struct rl_until){0});
    if (!hold->lease)
        return fail_by_end(hold, end);
    if (how == REDLOCK_DISOWN) {
        rl_process_lease_abandon(hold->lease);
        return fail_by_end(hold, end);
    }
    if (end.code == REDLOCK_OK)
        return rl_process_lease_give_up(hold->lease, how == REDLOCK_CONFIRM);
    (void)fail_by_end(hold, end);
    const redlock_error error = *redlock_last_error(); /* a callback may free the hold */
    (void)rl_process_lease_give_up(hold->lease, how == REDLOCK_CONFIRM);
    return rl_fail_again(&error);
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

static redlock_code leave_level(redlock_hold *hold)
{
    rl_loop_owner_lock(hold->loop);
    redlock_code code = fail_by_end(hold, hold->end);
    rl_loop_owner_unlock(hold->loop);
    return code;
}

static redlock_code unlock(redlock_hold *hold, unsigned how)
{
    if (how == REDLOCK_DISOWN && rl_hold_uses(hold).levels > 1)
        return rl_fail_by_reason(REDLOCK_BUSY, REDLOCK_REASON_RECURSION);
    return rl_hold_leave(hold).levels > 1 ? leave_level(hold) : leave_lock(hold, how);
}

redlock_code redlock_unlock(redlock_hold *hold, unsigned how)
{
    if (!hold)
        return rl_fail_by_reason(REDLOCK_NOT_HELD, REDLOCK_REASON_NULL_HANDLE);
    if (!rl_hold_is_ours(hold))
        return rl_fail_by_code(REDLOCK_FORKED);
    redlock_code code = rl_check_range("how", how, 0, REDLOCK_DISOWN);
    if (code == REDLOCK_OK && how == REDLOCK_CONFIRM)
        code = rl_loop_owner_may_wait(hold->loop);
    return code == REDLOCK_OK ? unlock(hold, how) : code;
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
        return rl_fail_by_reason(REDLOCK_NOT_HELD, REDLOCK_REASON_NULL_HANDLE);
    struct rl_loop_owner *loop = hold->loop;
    redlock_code code = rl_loop_owner_may_wait(loop);
    if (code != REDLOCK_OK)
        return code;
    rl_loop_owner_lock(loop);
    if (hold->end.code != REDLOCK_OK)
        code = fail_by_end(hold, hold->end);
    else if (downgrades && rl_hold_uses(hold).levels > 1)
        code = rl_fail_by_reason(REDLOCK_BUSY, REDLOCK_REASON_RECURSION);
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
