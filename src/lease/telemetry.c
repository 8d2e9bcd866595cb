#include "telemetry.h"

#include "cause.h"
#include "client/explain.h"
#include "core/reason.h"

/* --- events --- */

/* An event of the attempt, without what belongs to its name. */
static struct rl_event event_of(const struct rl_attempt *attempt)
{
    return (struct rl_event){
        .lease = rl_record_lease_of(attempt->number),
        .kind = attempt->config->kind,
        .valid = rl_lease_left(&attempt->lease, attempt->task.loop->now),
    };
}

static void add(const struct rl_attempt *attempt, const struct rl_event *event)
{
    rl_events_add(&attempt->task.loop->events, event, rl_attempt_base(attempt));
}

static void log_code(const struct rl_attempt *attempt, enum rl_event_name name,
                     redlock_code code)
{
    struct rl_event event = event_of(attempt);
    event.name = name;
    event.code = code;
    event.reason = rl_reason_of_lease(&attempt->lease, attempt->task.loop->now);
    add(attempt, &event);
}

static void add_span(const redlock_lease *lease, enum rl_event_name name,
                     enum rl_operation operation, redlock_code code, rl_time took)
{
    struct rl_event event = event_of(&lease->first);
    event.name = name;
    event.operation = operation;
    event.code = code;
    event.attempts = lease->waiting.attempts;
    event.took = took;
    add(&lease->first, &event);
}

RL_RARE void rl_telemetry_span_begins(redlock_lease *lease, enum rl_operation operation)
{
    lease->is_traced = true;
    if (operation == RL_OPERATION_RELEASE)
        lease->waiting.began = lease->first.task.loop->now;
    add_span(lease, rl_event_span_begins, operation, REDLOCK_OK, 0);
}

/* --- attempts --- */

static redlock_node_stats *node_of(const struct rl_attempt *attempt, unsigned node)
{
    return &rl_client_of(&attempt->task)->nodes.node[node].stats;
}

void rl_telemetry_silent(const struct rl_attempt *attempt, rl_node_set nodes)
{
    for (rl_node_set rest = nodes; rest; rest &= rest - 1)
        node_of(attempt, rl_first(rest))->timeouts++;
}

RL_RARE void rl_telemetry_late(struct rl_attempt *attempt, unsigned node)
{
    node_of(attempt, node)->late_replies += attempt->lease.silent >> node & 1;
    attempt->lease.silent &= ~rl_bit(node);
}

static redlock_code code_of_failure(const struct rl_attempt *attempt)
{
    redlock_code code = rl_code_of(attempt->lease.cause);
    bool is_denied =
        code == REDLOCK_NO_QUORUM &&
        rl_client_is_denied(rl_client_of(&attempt->task), attempt->lease.ballot);
    return is_denied ? REDLOCK_DENIED : code;
}

/* If a bare token was adopted, and this is its first extension, it is held from now on. */
static void note_extended(struct rl_attempt *attempt)
{
    if (attempt->held_since == 0 && attempt->lease.state == RL_LEASE_HELD)
        rl_telemetry_hold_begins(attempt);
    if (attempt->fails_to_renew)
        log_code(attempt, rl_event_renewal_recovered, REDLOCK_OK);
    attempt->fails_to_renew = false;
}

/* Each try counts; the first one that fails is an event. */
static void note_not_renewed(struct rl_attempt *attempt)
{
    rl_stats_of(&attempt->task)->renewals_failed++;
    if (!attempt->fails_to_renew)
        log_code(attempt, rl_event_renewal_failed, code_of_failure(attempt));
    attempt->fails_to_renew = true;
}

void rl_telemetry_hold_ends(struct rl_attempt *attempt, uint64_t *counter)
{
    rl_time since = attempt->held_since;
    if (since == 0)
        return;
    attempt->held_since = 0;
    ++*counter;
    rl_histogram_add(&rl_stats_of(&attempt->task)->hold_time,
                     attempt->task.loop->now - since);
}

static void note_lost(struct rl_attempt *attempt)
{
    redlock_stats *stats = rl_stats_of(&attempt->task);
    redlock_code code = rl_code_of(attempt->lease.cause);
    rl_telemetry_hold_ends(attempt, &stats->losses[code]);
    log_code(attempt, rl_event_lock_lost, code);
}

RL_RARE void rl_telemetry_rare(struct rl_attempt *attempt, unsigned reports)
{
    redlock_stats *stats = rl_stats_of(&attempt->task);
    if (reports & RL_REPORT_LOST)
        note_lost(attempt);
    if (reports & RL_REPORT_HELD)
        rl_telemetry_held(attempt);
    if (reports & RL_REPORT_FAILED)
        stats->attempt_results[code_of_failure(attempt)]++;
    if (reports & (RL_REPORT_EXTENDED | RL_REPORT_RENEWED))
        note_extended(attempt);
    if (reports & RL_REPORT_RENEWED)
        stats->renewals++;
    if (reports & RL_REPORT_NOT_RENEWED)
        note_not_renewed(attempt);
}

/* --- operations of the caller --- */

static void note_refused(const redlock_lease *lease, redlock_code code, rl_time took)
{
    const struct rl_attempt *attempt = &lease->first;
    struct rl_event event = event_of(attempt);
    bool by_another = code == REDLOCK_TAKEN || code == REDLOCK_TIMEOUT;
    event.name = by_another ? rl_event_acquire_refused : rl_event_acquire_failed;
    event.code = code;
    if (lease->attempt)
        event.reason = rl_reason_of_lease(&lease->attempt->lease, attempt->task.loop->now);
    event.attempts = lease->waiting.attempts;
    event.took = took;
    rl_histogram_add(&rl_stats_of(&attempt->task)->refuse_time, took);
    if (code != REDLOCK_CANCELLED)
        add(attempt, &event);
}

/* If the acquire ends in the iteration in which it was called, it has not begun to wait. */
RL_RARE void rl_telemetry_acquire_ends_rarely(const redlock_lease *lease, redlock_code code)
{
    rl_time began = lease->waiting.began, now = lease->first.task.loop->now;
    rl_time took = began > 0 ? rl_max(now - began, 0) : 0;
    if (code != REDLOCK_OK)
        note_refused(lease, code, took);
    if (lease->waited)
        rl_histogram_add(&rl_stats_of(&lease->first.task)->wait_time, took);
    add_span(lease, rl_event_span_ends, RL_OPERATION_ACQUIRE, code, took);
}

void rl_telemetry_extend_begins(redlock_lease *lease)
{
    rl_stats_of(&lease->first.task)->extensions++;
    lease->extends = true;
    lease->waiting.extend_began = lease->first.task.loop->now;
    rl_telemetry_begins(lease, RL_OPERATION_EXTEND);
}

void rl_telemetry_extend_ends(redlock_lease *lease, redlock_code code)
{
    struct rl_loop *loop = lease->first.task.loop;
    if (!lease->extends)
        return;
    lease->extends = false;
    rl_stats_of(&lease->first.task)->extension_results[code]++;
    if (code != REDLOCK_OK && code != REDLOCK_CANCELLED)
        log_code(lease->attempt ? lease->attempt : &lease->first, rl_event_extension_failed,
                 code);
    add_span(lease, rl_event_span_ends, RL_OPERATION_EXTEND, code,
             loop->now - lease->waiting.extend_began);
}

RL_RARE void rl_telemetry_release_ends_rarely(const redlock_lease *lease, redlock_code code)
{
    if (code != REDLOCK_OK && code != REDLOCK_CANCELLED)
        log_code(lease->attempt ? lease->attempt : &lease->first, rl_event_release_failed,
                 code);
    add_span(lease, rl_event_span_ends, RL_OPERATION_RELEASE, code,
             lease->first.task.loop->now - lease->waiting.began);
}

RL_RARE void rl_telemetry_cancelled(redlock_lease *lease, enum rl_handle_state state)
{
    if (state < RL_HANDLE_IDLE)
        rl_telemetry_acquire_ends(lease, REDLOCK_CANCELLED);
    rl_telemetry_extend_ends(lease, REDLOCK_CANCELLED);
    if (state == RL_HANDLE_RELEASE_WAITS || state == RL_HANDLE_RELEASING)
        rl_telemetry_release_ends(lease, REDLOCK_CANCELLED);
}
