/*
 * What leases do, counted for redlock_client_stats() and passed to the caller's `log` and
 * `trace`. On the usual path of a lock each function here costs a few instructions.
 */
#ifndef RL_TELEMETRY_H
#define RL_TELEMETRY_H

#include "handle.h"

static inline redlock_stats *rl_stats_of(const struct rl_task *task)
{
    return &rl_client_of(task)->stats.shown;
}

/* --- attempts --- */

/* Nodes have not replied in time; a node has, perhaps one of those. */
void rl_telemetry_silent(const struct rl_attempt *attempt, rl_node_set nodes);
void rl_telemetry_late(struct rl_attempt *attempt, unsigned node);

/* Reports of the lease machine: any but HELD or RELEASED alone. */
void rl_telemetry_rare(struct rl_attempt *attempt, unsigned reports);

static inline void rl_telemetry_hold_begins(struct rl_attempt *attempt)
{
    attempt->held_since = attempt->task.loop->now;
    rl_stats_of(&attempt->task)->holds++;
}

/* The attempt succeeded. */
static inline void rl_telemetry_held(struct rl_attempt *attempt)
{
    redlock_stats *stats = rl_stats_of(&attempt->task);
    stats->attempt_results[REDLOCK_OK]++;
    rl_histogram_add(&stats->validity, attempt->lease.valid - attempt->task.loop->now);
    rl_telemetry_hold_begins(attempt);
}

/* Before they are passed to the owner, whose callback may free the lease. */
static inline void rl_telemetry_reported(struct rl_attempt *attempt, unsigned reports)
{
    if (reports == RL_REPORT_HELD)
        rl_telemetry_held(attempt);
    else if (reports != RL_REPORT_RELEASED)
        rl_telemetry_rare(attempt, reports);
}

/* The lock is not held any more, unless a loss came first; `counter`: of how it ended. */
void rl_telemetry_hold_ends(struct rl_attempt *attempt, uint64_t *counter);

/* --- operations of the caller --- */

/* For `trace`. */
void rl_telemetry_span_begins(redlock_lease *lease, enum rl_operation operation);

/* An operation begins. */
static inline void rl_telemetry_begins(redlock_lease *lease, enum rl_operation operation)
{
    if (lease->first.task.loop->events.trace)
        rl_telemetry_span_begins(lease, operation);
}

/* With another code than OK, or after a wait, or it is traced. */
void rl_telemetry_acquire_ends_rarely(const redlock_lease *lease, redlock_code code);

static inline void rl_telemetry_acquire_ends(const redlock_lease *lease, redlock_code code)
{
    redlock_stats *stats = rl_stats_of(&lease->first.task);
    if (code == REDLOCK_OK)
        rl_histogram_add(&stats->acquire_time,
                         lease->first.task.loop->now - lease->waiting.began);
    stats->acquire_results[code]++;
    if (code != REDLOCK_OK || (lease->waited | lease->is_traced))
        rl_telemetry_acquire_ends_rarely(lease, code);
}

void rl_telemetry_extend_begins(redlock_lease *lease);
void rl_telemetry_extend_ends(redlock_lease *lease, redlock_code code);

static inline void rl_telemetry_release_begins(redlock_lease *lease)
{
    rl_stats_of(&lease->first.task)->releases++;
    rl_telemetry_begins(lease, RL_OPERATION_RELEASE);
}

/* With another code than OK, or it is traced. */
void rl_telemetry_release_ends_rarely(const redlock_lease *lease, redlock_code code);

static inline void rl_telemetry_release_ends(const redlock_lease *lease, redlock_code code)
{
    rl_stats_of(&lease->first.task)->release_results[code]++;
    if (code != REDLOCK_OK || lease->is_traced)
        rl_telemetry_release_ends_rarely(lease, code);
}

/* The caller frees the lease in this state: what is running ends with CANCELLED. */
void rl_telemetry_cancelled(redlock_lease *lease, enum rl_handle_state state);

static inline void rl_telemetry_freed(redlock_lease *lease, enum rl_handle_state state)
{
    if (state != RL_HANDLE_IDLE || lease->extends)
        rl_telemetry_cancelled(lease, state);
}

#endif
