#include "telemetry.h"

#include <string.h>

#include "cause.h"
#include "core/reason.h"
#include "hand_over.h"

/* --- events --- */

/* An event of the attempt, without what belongs to its name. */
static struct rl_event event_of(const struct rl_attempt *attempt, void *user)
{
    return (struct rl_event){
        .lease = rl_record_lease_of(attempt->number),
        .kind = attempt->config->kind,
        .valid = rl_lease_left(&attempt->lease, attempt->task.loop->now),
        .user = user,
    };
}

static void add(const struct rl_attempt *attempt, const struct rl_event *event)
{
    rl_events_add(&attempt->task.loop->events, event, rl_attempt_base(attempt));
}

/* The handle that has the attempt, which begins with its task: no other one has events. */
static redlock_lease *lease_of(const struct rl_attempt *attempt)
{
    return (redlock_lease *)attempt->owner;
}

static void log_code(const struct rl_attempt *attempt, redlock_event_type type,
                     redlock_code code)
{
    struct rl_event event = event_of(attempt, lease_of(attempt)->user);
    event.type = type;
    event.code = code;
    event.reason = rl_reason_of_lease(&attempt->lease, attempt->task.loop->now);
    add(attempt, &event);
}

static void add_span(const redlock_lease *lease, bool ended, enum rl_operation operation,
                     redlock_code code, rl_time took)
{
    struct rl_event event = event_of(&lease->first, lease->user);
    event.is_span = true;
    event.ended = ended;
    event.operation = operation;
    event.code = code;
    event.attempts = lease->waiting.attempts;
    event.took = took;
    add(&lease->first, &event);
}

RL_RARE static void add_hold_begins(redlock_lease *lease)
{
    lease->hold_began = lease->first.task.loop->now;
    add_span(lease, false, RL_OPERATION_HOLD, REDLOCK_OK, 0);
}

RL_RARE static void add_hold_ends(const redlock_lease *lease, redlock_code code)
{
    add_span(lease, true, RL_OPERATION_HOLD, code,
             lease->first.task.loop->now - lease->hold_began);
}

static bool is_traced(const struct rl_attempt *attempt)
{
    return attempt->task.loop->events.trace != NULL;
}

/* --- records of attempts --- */

/*
 * An acquire is recorded with the end of its key. In the room, the ballots come before the
 * key: so all of `key_end` can be read even if the key is shorter.
 */
static inline void record_sent(const struct rl_attempt *attempt,
                               const struct rl_update *update)

{
    struct rl_word key = rl_attempt_key(attempt);
    struct rl_record *record =
        rl_loop_record(attempt->task.loop, RL_RECORD_SENT, attempt->number);
    record->head.what = update->command;
    record->head.state = attempt->lease.state;
    record->sent.nodes = update->send;
    record->sent.round = update->seq;
    record->sent.recreate = update->recreate;
    if (update->command == RL_CMD_ACQUIRE) {
        uint64_t end; /* a memcpy() into the record could change any object */
        memcpy(&end, key.text + key.len - sizeof(end), sizeof(end));
        record->sent.key_end = end;
        record->sent.key_len = (uint16_t)key.len;
    }
}

_Static_assert(sizeof(struct rl_ballot) >= sizeof(uint64_t), "see record_sent()");

RL_RARE void rl_telemetry_sent(const struct rl_attempt *attempt,
                               const struct rl_update *update)
{
    record_sent(attempt, update);
}

struct rl_record *rl_telemetry_record_step(const struct rl_attempt *attempt,
                                           const struct rl_lease_event *event)
{
    if (event->type != RL_EVENT_TICK && event->type != RL_EVENT_READY &&
        event->type != RL_EVENT_RESTARTED)
        return NULL;
    const struct rl_lease *lease = &attempt->lease;
    struct rl_record *record =
        rl_loop_record(attempt->task.loop, RL_RECORD_STEP, attempt->number);
    record->head.node = event->node;
    record->step.by = (uint8_t)event->type;
    record->step.state = (uint8_t)lease->state;
    record->step.cause = (uint8_t)lease->cause;
    record->step.granted = lease->round.granted;
    record->step.waiting = lease->round.waiting;
    record->step.missing = lease->missing;
    return record;
}

/* `record`: of the event that has this result; NULL: it gets a record of its own. */
static void record_result(const struct rl_attempt *attempt, unsigned reports,
                          struct rl_record *record)
{
    if (!record)
        record = rl_loop_record(attempt->task.loop, RL_RECORD_RESULT, attempt->number);
    record->head.what = reports & 0xff;
    record->head.state = attempt->lease.cause;
    record->until = attempt->lease.valid;
}

/* --- counters and events of attempts --- */

RL_RARE static void count_timeouts(const struct rl_attempt *attempt, rl_node_set nodes)
{
    for (rl_node_set rest = nodes; rest; rest &= rest - 1)
        rl_client_of(&attempt->task)->nodes.node[rl_first(rest)].stats.timeouts++;
}

static void note_extended(struct rl_attempt *attempt)
{
    if (attempt->fails_to_renew)
        log_code(attempt, REDLOCK_EVENT_WATCHDOG_EXTENSION_RECOVERED, REDLOCK_OK);
    attempt->fails_to_renew = false;
}

/* Each try counts; the first one that fails is an event. */
static void note_not_renewed(struct rl_attempt *attempt)
{
    rl_stats_of(&attempt->task)->watchdog_extensions_failed++;
    if (!attempt->fails_to_renew)
        log_code(attempt, REDLOCK_EVENT_WATCHDOG_EXTENSION_FAILED,
                 rl_code_of_failure(attempt));
    attempt->fails_to_renew = true;
}

static void note_hold_begins(struct rl_attempt *attempt)
{
    attempt->held_since = attempt->task.loop->now;
    rl_stats_of(&attempt->task)->held++;
    if (is_traced(attempt))
        add_hold_begins(lease_of(attempt));
}

/*
 * A hold begins when the deadline is known: of a bare token at its first extension. It ends
 * by a loss, else by a release, or because the caller disowns the lease.
 */
static void note_hold(struct rl_attempt *attempt, const struct rl_lease_event *event,
                      unsigned reports)
{
    redlock_stats *stats = rl_stats_of(&attempt->task);
    const struct rl_lease *lease = &attempt->lease;
    rl_time now = attempt->task.loop->now, since = attempt->held_since;
    bool holds = lease->state == RL_LEASE_HELD && lease->timed;
    redlock_code code = event->type == RL_EVENT_DISOWN ? REDLOCK_CANCELLED : REDLOCK_OK;
    if (holds == (since != 0))
        return;
    if (holds) {
        note_hold_begins(attempt);
        return;
    }
    attempt->held_since = 0;
    stats->held--;
    rl_histogram_add(&stats->hold_time, now - since);
    if (reports & RL_REPORT_LOST) {
        code = rl_code_of(lease->cause);
        stats->losses[code]++;
    }
    if (is_traced(attempt))
        add_hold_ends(lease_of(attempt), code);
}

static void note_held(struct rl_attempt *attempt)
{
    redlock_stats *stats = rl_stats_of(&attempt->task);
    rl_time now = attempt->task.loop->now;
    stats->attempt_results[REDLOCK_OK]++;
    rl_histogram_add(&stats->validity, attempt->lease.valid - now);
    note_hold_begins(attempt);
}

/*
 * Reports of the lease machine: any but HELD or RELEASED alone. The events of a hold are
 * between the begin and the end of its span.
 */
RL_RARE static void note_rare(struct rl_attempt *attempt,
                              const struct rl_lease_event *event, unsigned reports)
{
    redlock_stats *stats = rl_stats_of(&attempt->task);
    if (reports & RL_REPORT_HELD)
        note_held(attempt);
    if (reports & RL_REPORT_LOST)
        log_code(attempt, REDLOCK_EVENT_LOCK_LOST, rl_code_of(attempt->lease.cause));
    if (reports & RL_REPORT_FAILED)
        stats->attempt_results[rl_code_of_failure(attempt)]++;
    if (reports & (RL_REPORT_EXTENDED | RL_REPORT_RENEWED))
        note_extended(attempt);
    if (reports & RL_REPORT_RENEWED)
        stats->watchdog_extensions++;
    if (reports & RL_REPORT_NOT_RENEWED)
        note_not_renewed(attempt);
    note_hold(attempt, event, reports);
}

void rl_telemetry_stepped(struct rl_attempt *attempt, const struct rl_lease_event *event,
                          const struct rl_update *update, struct rl_record *record)
{
    unsigned reports = update->reports;
    if (event->type == RL_EVENT_TICK && update->silent)
        count_timeouts(attempt, update->silent);
    if (update->send) {
        record_sent(attempt, update);
        record = NULL; /* the result comes after what is sent */
    }
    if (reports == RL_REPORT_HELD)
        note_held(attempt);
    else if (reports != RL_REPORT_RELEASED && reports != 0)
        note_rare(attempt, event, reports);
    else if (event->type != RL_EVENT_VOTE && event->type != RL_EVENT_START)
        note_hold(attempt, event, reports);
    reports &= ~(unsigned)RL_REPORT_NOT_RENEWED;
    if (reports && attempt->owner)
        record_result(attempt, reports, record);
}

/* --- operations of the caller --- */

RL_RARE void rl_telemetry_asked(const redlock_lease *lease, enum rl_record_what what,
                                int64_t ms)
{
    struct rl_record *record =
        rl_loop_record(lease->first.task.loop, RL_RECORD_ASKED, lease->first.number);
    record->head.what = what;
    record->ms = ms;
}

RL_RARE void rl_telemetry_span_begins(const redlock_lease *lease,
                                      enum rl_operation operation)
{
    add_span(lease, false, operation, REDLOCK_OK, 0);
}

/* Not OK, which the attempt has recorded. */
RL_RARE static void record_told(const redlock_lease *lease, enum rl_record_what what,
                                redlock_code code)
{
    const struct rl_loop *loop = lease->first.task.loop;
    const struct rl_attempt *attempt = lease->attempt;
    struct rl_record *record =
        rl_loop_record(lease->first.task.loop, RL_RECORD_TOLD, lease->first.number);
    record->head.what = what;
    record->head.state = code;
    record->ms = attempt ? rl_lease_left(&attempt->lease, loop->now) / RL_MS : 0;
}

static void log_not_acquired(const redlock_lease *lease, redlock_code code, rl_time took)
{
    struct rl_event event = event_of(&lease->first, lease->user);
    if (code == REDLOCK_TAKEN || code == REDLOCK_TIMEOUT)
        return; /* the lock works: another client has it */
    event.type = REDLOCK_EVENT_ACQUIRE_FAILED;
    event.code = code;
    if (lease->attempt)
        event.reason =
            rl_reason_of_lease(&lease->attempt->lease, lease->first.task.loop->now);
    event.attempts = lease->waiting.attempts;
    event.took = took;
    add(&lease->first, &event);
}

/* Fails: for the caller's `log`, and for the recorder if a callback gets the code. */
RL_RARE static void note_failure(const redlock_lease *lease, enum rl_operation operation,
                                 redlock_code code, rl_time took)
{
    static const enum rl_record_what whats[] = {
        [RL_OPERATION_ACQUIRE] = RL_RECORD_ACQUIRE,
        [RL_OPERATION_EXTEND] = RL_RECORD_EXTEND,
        [RL_OPERATION_RELEASE] = RL_RECORD_RELEASE,
    };
    const struct rl_request *request =
        operation == RL_OPERATION_RELEASE ? &lease->release : &lease->request;
    bool fails = code != REDLOCK_CANCELLED;
    if (fails && operation == RL_OPERATION_ACQUIRE)
        log_not_acquired(lease, code, took);
    else if (fails)
        log_code(lease->attempt ? lease->attempt : &lease->first,
                 operation == RL_OPERATION_EXTEND ? REDLOCK_EVENT_EXTENSION_FAILED
                                                  : REDLOCK_EVENT_RELEASE_FAILED,
                 code);
    if (request->callback && lease->state != RL_HANDLE_FREED)
        record_told(lease, whats[operation], code);
}

RL_RARE void rl_telemetry_ends_rarely(const redlock_lease *lease,
                                      enum rl_operation operation, redlock_code code,
                                      rl_time took)
{
    if (code != REDLOCK_OK)
        note_failure(lease, operation, code, took);
    add_span(lease, true, operation, code, took);
}

void rl_telemetry_lost(const redlock_lease *lease, redlock_code code)
{
    if (lease->first.config->options.on_lost)
        record_told(lease, RL_RECORD_LOSS, code);
}

RL_RARE void rl_telemetry_cancelled(redlock_lease *lease, enum rl_handle_state state)
{
    if (state < RL_HANDLE_IDLE)
        rl_telemetry_ends(lease, RL_OPERATION_ACQUIRE, REDLOCK_CANCELLED);
    rl_telemetry_ends(lease, RL_OPERATION_EXTEND, REDLOCK_CANCELLED);
    if (state == RL_HANDLE_RELEASE_WAITS || state == RL_HANDLE_RELEASING)
        rl_telemetry_ends(lease, RL_OPERATION_RELEASE, REDLOCK_CANCELLED);
}

RL_RARE void rl_telemetry_closed(redlock_lease *lease)
{
    if (!lease->attempt || lease->attempt->held_since == 0)
        return;
    lease->attempt->held_since = 0;
    if (is_traced(lease->attempt))
        add_hold_ends(lease, REDLOCK_CANCELLED);
}

RL_RARE void rl_hand_over_to(redlock_lease *lease, void *user)
{
    const struct rl_attempt *attempt = lease->attempt;
    struct rl_loop *loop = lease->first.task.loop;
    bool has_span = attempt && attempt->held_since != 0 && is_traced(attempt) &&
                    rl_loop_call(loop) == REDLOCK_OK;
    if (has_span)
        add_hold_ends(lease, REDLOCK_OK);
    lease->user = user;
    if (!has_span)
        return;
    add_hold_begins(lease);
    rl_loop_return(loop);
}

/* --- waiting --- */

RL_RARE void rl_telemetry_delayed(const redlock_lease *lease)
{
    rl_loop_record(lease->first.task.loop, RL_RECORD_DELAYED, lease->first.number)->until =
        lease->waiting.next_attempt;
}

RL_RARE void rl_telemetry_notified(const redlock_lease *lease, unsigned node,
                                   unsigned position)
{
    struct rl_record *record =
        rl_loop_record(lease->first.task.loop, RL_RECORD_NOTIFIED, lease->first.number);
    record->head.node = node & 0xff;
    record->head.state = position & 0xff;
}
