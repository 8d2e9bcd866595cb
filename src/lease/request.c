/* What a caller asks of a lease: to extend, downgrade, release, cancel or disown it. */
#include <stdlib.h>

#include "base/options.h"
#include "base/token.h"
#include "telemetry.h"

static redlock_code begin_request(redlock_lease *lease)
{
    if (!lease)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_NULL_HANDLE);
    if (!lease->first.task.loop)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_CLIENT_FREED);
    redlock_client *client = rl_client_of(&lease->first.task);
    redlock_code code = rl_client_call(client);
    if (code == REDLOCK_OK && lease->attempt &&
        rl_lease_next(rl_handle_core(lease)) <= client->loop.now)
        rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_EXPIRE});
    return code;
}

/* The lease has no lock to be extended or released. */
static redlock_code fail_not_held(const redlock_lease *lease)
{
    const struct rl_lease *core = rl_handle_core(lease);
    redlock_reason reason =
        lease->disowned ? REDLOCK_REASON_DISOWNED : REDLOCK_REASON_RELEASED;
    if (rl_handle_is_acquiring(lease))
        reason = REDLOCK_REASON_ACQUIRING;
    else if (rl_handle_is_settled(lease) && core && core->state == RL_LEASE_LOST)
        reason = REDLOCK_REASON_LOST;
    else if (rl_handle_is_settled(lease) && !(core && core->held))
        reason = REDLOCK_REASON_NOT_ACQUIRED;
    return rl_fail_by_reason(REDLOCK_NOT_HELD, reason);
}

static redlock_code check_ttl(const redlock_lease *lease, int64_t ttl_ms)
{
    redlock_client *client = rl_client_of(&lease->first.task);
    const struct rl_lease_config *config = lease->first.config;
    bool is_kept = config->options.kind == REDLOCK_KIND_RECORD;
    redlock_code code = rl_ttl_check(&client->options, &config->options, ttl_ms, is_kept);
    if (code == REDLOCK_OK && !is_kept)
        rl_nodes_use_ttl(&client->nodes, ttl_ms * RL_MS);
    if (code == REDLOCK_OK && config->kind->is_fenced &&
        !rl_members_allow_ttl(&client->members, ttl_ms * RL_MS))
        code = rl_fail_ttl(REDLOCK_REASON_TTL_ADMITTED, ttl_ms,
                           client->members.membership.roster.max_ttl_ms);
    return code;
}

static redlock_code check_held(const redlock_lease *lease)
{
    const struct rl_lease *core = rl_handle_core(lease);
    if (!rl_handle_is_settled(lease) || !core || core->state != RL_LEASE_HELD)
        return fail_not_held(lease);
    if (lease->state != RL_HANDLE_IDLE)
        return rl_fail(REDLOCK_BUSY, REDLOCK_REASON_RUNNING,
                       "another extension of this lease is running");
    return REDLOCK_OK;
}

static void begin_extension(redlock_lease *lease, int64_t ttl_ms,
                            redlock_lease_fn *callback, void *arg)
{
    lease->request = (struct rl_request){callback, arg};
    lease->waiting.extend_ttl_ms = ttl_ms;
    rl_telemetry_begins(lease, RL_OPERATION_EXTEND);
    rl_telemetry_asked(lease, RL_RECORD_EXTEND, ttl_ms);
    lease->state = RL_HANDLE_EXTEND_WAITS;
    if (rl_startup_barrier_is_open(&rl_client_of(&lease->first.task)->nodes.startup))
        rl_handle_extend(lease);
}

static redlock_code ask_extension(redlock_lease *lease, int64_t ttl_ms,
                                  redlock_lease_fn *callback, void *arg)
{
    redlock_code code = check_held(lease);
    if (code == REDLOCK_OK && ttl_ms != REDLOCK_AUTO)
        code = check_ttl(lease, ttl_ms);
    if (code == REDLOCK_OK)
        begin_extension(lease, ttl_ms, callback, arg);
    return code;
}

redlock_code redlock_extend(redlock_lease *lease, int64_t ttl_ms,
                            redlock_lease_fn *callback, void *arg)
{
    redlock_code code = begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    code = ask_extension(lease, ttl_ms, callback, arg);
    rl_loop_return(lease->first.task.loop);
    return code;
}

static redlock_code ask_downgrade(redlock_lease *lease, redlock_lease_fn *callback,
                                  void *arg)
{
    const struct rl_lease_config *config = lease->first.config;
    redlock_lease_options options = config->options;
    struct rl_lease_config *shared;
    redlock_code code = check_held(lease);
    if (code != REDLOCK_OK)
        return code;
    if (config->kind->type != REDLOCK_KIND_EXCLUSIVE)
        return rl_fail(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT,
                       "the lease is no exclusive lock of one key");
    if (!rl_token_is_ours(lease->attempt->token))
        return rl_fail_field(REDLOCK_BAD_TOKEN, REDLOCK_REASON_FOREIGN, "token",
                             "is not one of this library");
    options.kind = REDLOCK_KIND_SHARED;
    code = rl_lease_config_get(rl_client_of(&lease->first.task), &options, config->fences,
                               false, &shared);
    if (code != REDLOCK_OK)
        return code;
    if (lease->attempt != &lease->first)
        rl_attempt_downgrade(lease->attempt, shared);
    rl_attempt_downgrade(&lease->first, shared);
    rl_lease_config_unref(shared);
    lease->downgrades = true;
    begin_extension(lease, REDLOCK_AUTO, callback, arg);
    return REDLOCK_OK;
}

redlock_code redlock_downgrade(redlock_lease *lease, redlock_lease_fn *callback, void *arg)
{
    redlock_code code = begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    code = ask_downgrade(lease, callback, arg);
    rl_loop_return(lease->first.task.loop);
    return code;
}

/* The caller gives the lock up while an extension is pending. */
static void end_extension(redlock_lease *lease)
{
    if (lease->state != RL_HANDLE_IDLE)
        rl_handle_report(&lease->first.task, RL_REPORT_NOT_EXTENDED);
}

redlock_code redlock_release(redlock_lease *lease, redlock_lease_fn *callback, void *arg)
{
    redlock_client *client = lease ? rl_client_of(&lease->first.task) : NULL;
    bool in_callback = client && client->loop.depth > 0; /* the clock was read before it */
    redlock_code code = in_callback ? rl_client_call_untimed(client) : begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    const struct rl_lease *core = rl_handle_core(lease);
    if (rl_handle_is_settled(lease) && core &&
        (core->state == RL_LEASE_HELD || core->state == RL_LEASE_LOST)) {
        end_extension(lease);
        lease->release = (struct rl_request){callback, arg};
        lease->state = RL_HANDLE_RELEASE_WAITS;
        rl_telemetry_begins(lease, RL_OPERATION_RELEASE);
        rl_task_schedule_soon(&lease->first.task);
    } else {
        code = fail_not_held(lease);
    }
    rl_loop_return(&client->loop);
    return code;
}

void redlock_cancel(redlock_lease *lease)
{
    if (begin_request(lease) != REDLOCK_OK)
        return;
    bool tries = rl_handle_is_trying(lease);
    if (rl_handle_is_acquiring(lease) && lease->state != RL_HANDLE_CANCELLED) {
        rl_telemetry_asked(lease, RL_RECORD_CANCEL, 0);
        lease->state = RL_HANDLE_CANCELLED;
        if (tries)
            rl_attempt_release(lease->attempt);
        else
            rl_handle_report(&lease->first.task, RL_REPORT_FAILED);
    }
    rl_loop_return(lease->first.task.loop);
}

void redlock_disown(redlock_lease *lease)
{
    if (begin_request(lease) != REDLOCK_OK)
        return;
    if (rl_handle_is_settled(lease) && lease->attempt) {
        rl_telemetry_asked(lease, RL_RECORD_DISOWN, 0);
        end_extension(lease);
        if (!rl_attempt_is_past(lease->attempt))
            rl_handle_withdraw(lease, ~(rl_node_set)0);
        rl_attempt_disown(lease->attempt);
        lease->disowned = true;
    }
    rl_loop_return(lease->first.task.loop);
}

/*
 * Detaches the last attempt. Most leases are over by then and need no command and no clock.
 */
static void let_go(redlock_lease *lease, bool was_queued)
{
    redlock_client *client = rl_client_of(&lease->first.task);
    if (!was_queued && rl_attempt_is_past(lease->attempt)) {
        rl_attempt_leave(lease->attempt);
        return;
    }
    if (rl_client_call(client) != REDLOCK_OK)
        return;
    rl_telemetry_asked(lease, RL_RECORD_FREE, 0);
    if (was_queued)
        rl_handle_withdraw(lease, ~(rl_node_set)0);
    rl_attempt_leave(lease->attempt);
    rl_loop_return(&client->loop);
}

void redlock_lease_free(redlock_lease *lease)
{
    if (!lease)
        return;
    struct rl_loop *loop = lease->first.task.loop;
    bool was_queued =
        lease->waiting.number && lease->attempt &&
        (rl_handle_is_acquiring(lease) || !rl_attempt_is_past(lease->attempt));
    enum rl_handle_state state = lease->state;
    lease->state = RL_HANDLE_FREED;
    if (!loop) {
        free(lease);
        return;
    }
    if (!rl_loop_is_ours(loop))
        return; /* redlock_client_free() frees it */
    rl_loop_enter(loop);
    rl_telemetry_freed(lease, state);
    if (lease->attempt && !loop->closing)
        let_go(lease, was_queued);
    else if (state == RL_HANDLE_RELEASE_WAITS)
        rl_attempt_release(lease->attempt);
    else
        rl_telemetry_closed(lease);
    lease->attempt = NULL;
    rl_handle_attempt_over(&lease->first.task);
    rl_loop_leave(loop);
}
