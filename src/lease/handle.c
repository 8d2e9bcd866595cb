#include "handle.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "attempt_commands.h"
#include "cause.h"
#include "client/explain.h"
#include "telemetry.h"

/* Else it is queued, and ticks again when its turn comes and there is room. */
static inline bool has_room(const redlock_lease *lease, enum rl_task_urgency urgency)
{
    const struct rl_task *task = &lease->first.task;
    return rl_loop_is_next(task->loop, task, urgency) &&
           rl_nodes_have_room(&rl_client_of(task)->nodes);
}

/* --- reports to the caller --- */

/* Reports a request, once. The callback may free the lease or the client. */
RL_HOT static void report(redlock_lease *lease, struct rl_request *request,
                          redlock_code code)
{
    struct rl_loop *loop = lease->first.task.loop;
    struct rl_request once = *request;
    *request = (struct rl_request){0};
    if (!once.callback || lease->state == RL_HANDLE_FREED)
        return;
    rl_loop_refresh_clock(loop);
    redlock_result result = rl_handle_result(lease, code);
    once.callback(lease, &result, once.arg);
    rl_loop_called_back(loop);
}

static void report_extended(redlock_lease *lease, redlock_code code)
{
    if (lease->state == RL_HANDLE_EXTEND_WAITS || lease->state == RL_HANDLE_EXTENDING)
        lease->state = RL_HANDLE_IDLE;
    if (code == REDLOCK_OK)
        lease->downgrades = false;
    rl_telemetry_ends(lease, RL_OPERATION_EXTEND, code);
    report(lease, &lease->request, code);
}

static void report_released(redlock_lease *lease, redlock_code code)
{
    if (rl_handle_is_releasing(lease)) {
        lease->state = RL_HANDLE_IDLE;
        rl_telemetry_ends(lease, RL_OPERATION_RELEASE, code);
    }
    report(lease, &lease->release, code);
}

/* The public code for why the acquire failed. */
static redlock_code failure_of(const redlock_lease *lease)
{
    return lease->state == RL_HANDLE_CANCELLED ? REDLOCK_CANCELLED
                                               : rl_code_of_failure(lease->attempt);
}

static void finish_acquire(redlock_lease *lease, redlock_code code)
{
    assert(rl_handle_is_acquiring(lease));
    if (code == REDLOCK_TAKEN && lease->first.config->waits && rl_waiting_is_over(lease))
        code = REDLOCK_TIMEOUT;
    lease->state = RL_HANDLE_IDLE;
    /*
     * The last release may have left this waiter queued. A notification sent to it would be
     * wasted, so it leaves the queues.
     */
    if (code != REDLOCK_OK)
        rl_handle_withdraw(lease, ~(rl_node_set)0);
    rl_telemetry_ends(lease, RL_OPERATION_ACQUIRE, code);
    report(lease, &lease->request, code);
}

void rl_handle_withdraw(redlock_lease *lease, rl_node_set nodes)
{
    if (lease->waiting.number && lease->attempt)
        rl_attempt_withdraw(lease->attempt, nodes);
}

static bool is_worth_a_retry(redlock_code code)
{
    return code == REDLOCK_TAKEN || code == REDLOCK_NO_QUORUM || code == REDLOCK_EXPIRED;
}

static void delay(redlock_lease *lease, rl_time at)
{
    lease->state = RL_HANDLE_DELAYED;
    lease->waited = true;
    lease->waiting.next_attempt = at;
    rl_telemetry_delayed(lease);
    rl_task_schedule(&lease->first.task, at);
}

/* Schedules the next attempt, or ends the acquire. */
static void attempt_failed(redlock_lease *lease)
{
    redlock_client *client = rl_client_of(&lease->first.task);
    redlock_code code = failure_of(lease);
    rl_time at = RL_NEVER;
    rl_loop_refresh_clock(&client->loop);
    if (is_worth_a_retry(code)) {
        if (lease->first.config->waits)
            rl_notifications_start(&client->notifications);
        at = rl_waiting_next_attempt(lease); /* calls the caller's retry_fn */
    }
    if (!rl_handle_is_acquiring(lease)) /* that function freed the lease or the client */
        return;
    if (lease->state == RL_HANDLE_CANCELLED)
        finish_acquire(lease, REDLOCK_CANCELLED);
    else if (at == RL_NEVER)
        finish_acquire(lease, code);
    else
        delay(lease, at);
}

/* The quarantine of the nodes covers only locks up to the deployment's longest TTL. */
static bool is_too_long(const redlock_lease *lease)
{
    int64_t ttl_ms = lease->waiting.extend_ttl_ms;
    rl_time ttl = ttl_ms > 0 ? ttl_ms * RL_MS : rl_handle_core(lease)->ttl;
    return lease->first.config->kind->is_fenced &&
           !rl_members_allow_ttl(&rl_client_of(&lease->first.task)->members, ttl);
}

static redlock_code code_of_lost_extension(const redlock_lease *lease)
{
    const struct rl_lease *core = rl_handle_core(lease);
    if (rl_handle_is_releasing(lease))
        return REDLOCK_CANCELLED;
    if (core->state == RL_LEASE_LOST)
        return rl_code_of(core->cause);
    if (core->state != RL_LEASE_HELD)
        return REDLOCK_CANCELLED;
    if (is_too_long(lease))
        return REDLOCK_BAD_TTL;
    return rl_client_is_denied(rl_client_of(&lease->first.task), core->ballot)
               ? REDLOCK_DENIED
               : REDLOCK_NO_QUORUM;
}

static void report_lost(redlock_lease *lease)
{
    const redlock_lease_options *options = &lease->first.config->options;
    redlock_code code = rl_code_of(rl_handle_core(lease)->cause);
    rl_telemetry_lost(lease, code);
    report(lease, &(struct rl_request){options->on_lost, options->lost_arg}, code);
    if (lease->state == RL_HANDLE_EXTEND_WAITS)
        report_extended(lease, code_of_lost_extension(lease));
}

static void report_one(redlock_lease *lease, enum rl_report event)
{
    const redlock_lease_options *options = &lease->first.config->options;
    switch (event) {
    case RL_REPORT_LOST: report_lost(lease); break;
    case RL_REPORT_HELD: finish_acquire(lease, REDLOCK_OK); break;
    case RL_REPORT_FAILED: attempt_failed(lease); break;
    case RL_REPORT_NOT_EXTENDED:
        report_extended(lease, code_of_lost_extension(lease));
        break;
    case RL_REPORT_EXTENDED:
        report_extended(lease,
                        rl_handle_is_releasing(lease) ? REDLOCK_CANCELLED : REDLOCK_OK);
        break;
    case RL_REPORT_RENEWED:
        /* The caller may have released or disowned it in the callback before. */
        if (rl_handle_is_releasing(lease) || rl_handle_core(lease)->state != RL_LEASE_HELD)
            break;
        report(lease, &(struct rl_request){options->on_extended, options->extended_arg},
               REDLOCK_OK);
        break;
    case RL_REPORT_NOT_RENEWED:
        break; /* the attempt counts it, and passes it on to nobody */
    case RL_REPORT_RELEASED:
        report_released(lease, rl_code_of(rl_handle_core(lease)->cause));
        break;
    }
}

/* Each callback may free the lease or the client. Then the rest is not reported. */
static void report_all(redlock_lease *lease, unsigned reports)
{
    for (; reports && lease->state != RL_HANDLE_FREED && !lease->first.task.loop->closing;
         reports &= reports - 1)
        report_one(lease, reports & -reports);
}

RL_HOT void rl_handle_report(struct rl_task *owner, unsigned reports)
{
    redlock_lease *lease = rl_handle_of(owner);
    if (rl_handle_is_releasing(lease)) /* the caller does not hold the lock any more */
        reports &= ~(unsigned)(RL_REPORT_LOST | RL_REPORT_RENEWED);
    reports |= lease->reports;
    lease->reports = 0;
    if (owner->loop->api > 0) {
        lease->reports = (uint8_t)reports;
        rl_task_schedule_soon(owner);
    } else {
        report_all(lease, reports);
    }
}

/* --- the acquire --- */

static void begin_attempt(redlock_lease *lease, enum rl_handle_state state)
{
    redlock_client *client = rl_client_of(&lease->first.task);
    const struct rl_lease_config *config = lease->first.config;
    bool joins = state == RL_HANDLE_JOINING;
    lease->state = state;
    lease->waiting.attempts += !joins;
    lease->waiting.next_attempt = RL_NEVER;
    rl_waiting_attempt(lease);
    if (config->kind->is_fenced &&
        !rl_members_allow_ttl(&client->members, config->params.ttl)) {
        finish_acquire(lease, REDLOCK_BAD_TTL);
        return;
    }
    bool is_first = lease->first.lease.state == RL_LEASE_NEW;
    struct rl_attempt *attempt =
        is_first ? &lease->first : rl_attempt_another(&lease->first);
    if (!attempt) {
        finish_acquire(lease, REDLOCK_NO_MEMORY);
        return;
    }
    /* Not before: the last attempt may have to leave the wait queues. */
    if (lease->attempt)
        rl_attempt_leave(lease->attempt);
    lease->attempt = attempt;
    if (!is_first)
        lease->attempt->number = rl_record_attempt(lease->first.number, ++lease->retries);
    if (config->kind->type == REDLOCK_KIND_SLOT)
        rl_attempt_choose_slot(lease->attempt, rl_waiting_slot(lease));
    char *token = rl_attempt_own(lease->attempt, &lease->first.task);
    if (!rl_token_make(&client->loop.token_bits, client->loop.now, config->kind->mark,
                       client->options.label, token)) {
        /* A command to leave the wait queue may still send the token: send zeros. */
        memset(token, 0, lease->attempt->token_len);
        finish_acquire(lease, REDLOCK_SYSTEM);
        return;
    }
    if (config->kind->word)
        rl_token_mark(config->kind->mark, config->kind->word, token);
    rl_attempt_step(lease->attempt, &(struct rl_lease_event){
                                        .type = joins ? RL_EVENT_ENQUEUE : RL_EVENT_START,
                                    });
}

/*
 * A caller that must join the tail, but cannot be notified yet, waits for one delay of its
 * retry policy first. This gives the earlier waiters a chance.
 */
static void begin(redlock_lease *lease)
{
    redlock_client *client = rl_client_of(&lease->first.task);
    bool joins = lease->waiting.joins_tail;
    if (!joins || rl_count(rl_notifications_nodes(&client->notifications)) >=
                      lease->first.config->params.q) {
        begin_attempt(lease, joins ? RL_HANDLE_JOINING : RL_HANDLE_TRYING);
        return;
    }
    rl_notifications_start(&client->notifications);
    delay(lease, RL_NEVER);
    rl_time at = rl_waiting_policy(lease); /* calls the caller's retry_fn */
    if (lease->state == RL_HANDLE_DELAYED)
        delay(lease, at == RL_NEVER ? client->loop.now : at);
}

/* A last attempt begins when the wait time ends, also if it is queued. Its place stays: a
   release or an extension moves it to a more urgent queue. */
RL_RARE static bool begins_without_room(redlock_lease *lease)
{
    bool waits = lease->first.config->waits;
    if (waits && rl_waiting_is_over(lease))
        return true;
    rl_task_queue(&lease->first.task, RL_TASK_ACQUIRING);
    if (waits)
        rl_task_schedule(&lease->first.task, rl_waiting_end(lease));
    return false;
}

static bool may_begin(redlock_lease *lease)
{
    return has_room(lease, RL_TASK_ACQUIRING) || begins_without_room(lease);
}

void rl_handle_begin_soon(redlock_lease *lease)
{
    lease->first.task.loop->token_bits.wanted++;
    rl_task_schedule_soon(&lease->first.task);
}

/* --- what the caller requests of a lock that is held --- */

void rl_handle_extend(redlock_lease *lease)
{
    if (!has_room(lease, RL_TASK_HELD)) {
        rl_task_queue(&lease->first.task, RL_TASK_HELD);
        return;
    }
    lease->state = RL_HANDLE_EXTENDING;
    if (is_too_long(lease)) {
        rl_handle_report(&lease->first.task, RL_REPORT_NOT_EXTENDED);
        return;
    }
    rl_attempt_step(lease->attempt, &(struct rl_lease_event){
                                        .type = RL_EVENT_EXTEND,
                                        .ttl = lease->waiting.extend_ttl_ms * RL_MS,
                                    });
    const struct rl_lease *core = rl_handle_core(lease);
    if (core && core->state == RL_LEASE_LOST) /* before the extension began */
        rl_handle_report(&lease->first.task, RL_REPORT_NOT_EXTENDED);
}

RL_RARE static void release_later(redlock_lease *lease)
{
    rl_handle_core(lease)->leaving = true;
    rl_task_queue(&lease->first.task, RL_TASK_HELD);
}

static void release(redlock_lease *lease)
{
    lease->state = RL_HANDLE_RELEASING;
    if (lease->attempt->slot > 0)
        rl_client_of(&lease->first.task)->last_slot = lease->attempt->slot;
    /* It may be queued where this attempt asked for nothing. */
    rl_handle_withdraw(lease, ~rl_handle_core(lease)->touched);
    rl_attempt_release(lease->attempt);
}

/* --- callbacks of the task --- */

static bool is_started(const struct rl_task *task)
{
    return rl_startup_barrier_is_open(&rl_client_of(task)->nodes.startup);
}

RL_HOT static void tick(struct rl_task *task)
{
    redlock_lease *lease = rl_handle_of(task);
    if (lease->state != RL_HANDLE_RELEASE_WAITS || !is_started(task)) {
        rl_attempt_tick(task);
    } else {
        if (lease->reports) /* reports an earlier loss before the release */
            rl_handle_report(task, 0);
        if (lease->state == RL_HANDLE_RELEASE_WAITS)
            (has_room(lease, RL_TASK_HELD) ? release : release_later)(lease);
    }
    if (lease->reports)
        rl_handle_report(task, 0);
    switch (lease->state) {
    case RL_HANDLE_BEGINNING:
        lease->state = RL_HANDLE_STARTUP;
        lease->waiting.began = task->loop->now;
        /* fall through */
    case RL_HANDLE_STARTUP:
        if (!is_started(task))
            rl_telemetry_asked(lease, RL_RECORD_ACQUIRE, 0);
        else if (may_begin(lease))
            begin(lease);
        break;
    case RL_HANDLE_DELAYED:
        if (task->loop->now < lease->waiting.next_attempt)
            rl_task_schedule(task, lease->waiting.next_attempt);
        else if (may_begin(lease))
            begin_attempt(lease, RL_HANDLE_TRYING);
        break;
    case RL_HANDLE_EXTEND_WAITS:
        if (is_started(task))
            rl_handle_extend(lease);
        break;
    default: break;
    }
}

static void on_event(struct rl_task *task, enum rl_task_event event, unsigned node)
{
    redlock_lease *lease = rl_handle_of(task);
    if (event != RL_TASK_STARTUP_OVER) {
        rl_attempt_event(task, event, node);
        rl_waiting_event(task, event, node);
        return;
    }
    switch (lease->state) {
    case RL_HANDLE_STARTUP: rl_handle_begin_soon(lease); break;
    case RL_HANDLE_EXTEND_WAITS: rl_handle_extend(lease); break;
    case RL_HANDLE_RELEASE_WAITS: rl_task_schedule_soon(task); break;
    default: break;
    }
}

static void close_lease(struct rl_task *task)
{
    redlock_lease *lease = rl_handle_of(task);
    if (lease->state == RL_HANDLE_RELEASE_WAITS && is_started(task))
        release(lease);
    if (rl_handle_is_acquiring(lease)) {
        lease->state = RL_HANDLE_CANCELLED;
        finish_acquire(lease, REDLOCK_CANCELLED);
    } else if (rl_handle_is_settled(lease) && lease->attempt &&
               !rl_attempt_is_past(lease->attempt)) {
        rl_handle_withdraw(lease, ~(rl_node_set)0); /* its lock stays */
    }
    rl_telemetry_closed(lease);
    report_extended(lease, REDLOCK_CANCELLED);
    report_released(lease, REDLOCK_CANCELLED);
    rl_attempt_close(task);
}

void rl_handle_attempt_over(struct rl_task *task)
{
    const redlock_lease *lease = rl_handle_of(task);
    enum rl_lease_state state = lease->first.lease.state;
    if (lease->state == RL_HANDLE_FREED &&
        (state == RL_LEASE_NEW || state == RL_LEASE_OVER))
        rl_task_end(task);
}

static void describe(const struct rl_task *task, struct rl_lease_line *ret_line)
{
    const redlock_lease *lease = (const redlock_lease *)task;
    rl_attempt_describe(lease->attempt ? lease->attempt : &lease->first, ret_line);
}

/* The caller owns the handle: it stays, without a client, until the caller frees it. */
static void destroy(struct rl_task *task)
{
    redlock_lease *lease = rl_handle_of(task);
    rl_waiter_table_remove(&rl_client_of(task)->notifications.waiters,
                           lease->waiting.number);
    task->loop = NULL;
    lease->attempt = NULL;
    rl_attempt_clear(&lease->first);
    if (lease->state == RL_HANDLE_FREED)
        free(lease);
}

const struct rl_attempt_class rl_handle_class = {
    .task.tick = tick,
    .task.expire = rl_attempt_expire,
    .task.event = on_event,
    .task.replied = rl_attempt_answer,
    .task.replied_late = rl_attempt_answer_late,
    .task.notified = rl_waiting_notified,
    .task.is_releasing = rl_attempt_is_releasing,
    .task.close = close_lease,
    .task.destroy = destroy,
    .task.describe = describe,
    .over = rl_handle_attempt_over,
    .report = rl_handle_report,
    .set_waiting = rl_waiting_set_args,
    .queued = rl_waiting_queued,
};
