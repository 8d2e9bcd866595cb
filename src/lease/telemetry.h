/*
 * What leases do, for redlock_client_stats(), the flight recorder, and the caller's `log`
 * and `trace`. Counters, records, events and spans are derived from each step of a lease
 * machine, and from the beginning and the end of each operation of a caller. On the usual
 * path of a lock each function here costs a few instructions.
 */
#ifndef RL_TELEMETRY_H
#define RL_TELEMETRY_H

#include "base/histogram.h"
#include "handle.h"

static inline redlock_stats *rl_stats_of(const struct rl_task *task)
{
    return &rl_client_of(task)->stats;
}

/* --- attempts --- */

/* An event that is no vote; NULL: it is a request, which has a record of its own. */
struct rl_record *rl_telemetry_record_step(const struct rl_attempt *attempt,
                                           const struct rl_lease_event *event);

/* Before each step: the recorder shows the state before it. Returns the event's record. */
static inline struct rl_record *rl_telemetry_event(const struct rl_attempt *attempt,
                                                   const struct rl_lease_event *event)
{
    if (event->type != RL_EVENT_VOTE)
        return rl_telemetry_record_step(attempt, event);
    struct rl_record *record =
        rl_loop_record(attempt->task.loop, RL_RECORD_REPLY, attempt->number);
    record->event = *event;
    return record;
}

/*
 * After each step that has an effect, and before that is done: the owner's callback may
 * free the lease. `record`: of the event, or NULL.
 */
void rl_telemetry_stepped(struct rl_attempt *attempt, const struct rl_lease_event *event,
                          const struct rl_update *update, struct rl_record *record);

/* A command is sent that no step has asked for. */
void rl_telemetry_sent(const struct rl_attempt *attempt, const struct rl_update *update);

/* --- operations of the caller --- */

/* The caller asks for this; `ms` belongs to it, or is 0. */
void rl_telemetry_asked(const redlock_lease *lease, enum rl_record_what what, int64_t ms);

/* For `trace`. */
void rl_telemetry_span_begins(const redlock_lease *lease, enum rl_operation operation);

/* The caller's operation begins. */
static inline void rl_telemetry_begins(redlock_lease *lease, enum rl_operation operation)
{
    const struct rl_loop *loop = lease->first.task.loop;
    if (operation == RL_OPERATION_ACQUIRE) {
        rl_stats_of(&lease->first.task)->acquiring++;
    } else if (operation == RL_OPERATION_EXTEND) {
        lease->extends = true;
        lease->waiting.extend_began = loop->now;
    } else {
        lease->waiting.began = loop->now;
    }
    if (loop->events.trace)
        rl_telemetry_span_begins(lease, operation);
}

/* With another code than OK, or it is traced. */
void rl_telemetry_ends_rarely(const redlock_lease *lease, enum rl_operation operation,
                              redlock_code code, rl_time took);

/* If the acquire ends in the iteration in which it was called, it has not begun to wait. */
static inline rl_time rl_telemetry_acquired(const redlock_lease *lease, redlock_code code)
{
    redlock_stats *stats = rl_stats_of(&lease->first.task);
    rl_time began = lease->waiting.began, now = lease->first.task.loop->now;
    rl_time took = began > 0 ? rl_max(now - began, 0) : 0;
    if (code == REDLOCK_OK)
        rl_histogram_add(&stats->acquire_time, took);
    if (lease->waited)
        rl_histogram_add(&stats->wait_time, took);
    stats->acquire_results[code]++;
    stats->acquiring--;
    return took;
}

/*
 * It ends with this code; call it before the caller's callback. No effect on an extension
 * that has not begun.
 */
static inline void rl_telemetry_ends(redlock_lease *lease, enum rl_operation operation,
                                     redlock_code code)
{
    rl_time now = lease->first.task.loop->now, took = now - lease->waiting.began;
    if (operation == RL_OPERATION_ACQUIRE) {
        took = rl_telemetry_acquired(lease, code);
    } else if (operation == RL_OPERATION_EXTEND) {
        if (!lease->extends)
            return;
        lease->extends = false;
        took = now - lease->waiting.extend_began;
    }
    if (code != REDLOCK_OK || lease->first.task.loop->events.trace)
        rl_telemetry_ends_rarely(lease, operation, code, took);
}

/* The callback of a loss is about to get this code. */
void rl_telemetry_lost(const redlock_lease *lease, redlock_code code);

/* The caller frees the lease in this state: what is running ends with CANCELLED. */
void rl_telemetry_cancelled(redlock_lease *lease, enum rl_handle_state state);

static inline void rl_telemetry_freed(redlock_lease *lease, enum rl_handle_state state)
{
    if (state != RL_HANDLE_IDLE || lease->extends)
        rl_telemetry_cancelled(lease, state);
}

/* The client is freed: the lock stays on the nodes, and nobody extends it any more. */
void rl_telemetry_closed(redlock_lease *lease);

/* --- waiting --- */

void rl_telemetry_delayed(const redlock_lease *lease);
void rl_telemetry_notified(const redlock_lease *lease, unsigned node, unsigned position);

#endif
