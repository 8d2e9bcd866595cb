#include "attempt_task.h"

#include <stdlib.h>

#include "attempt_commands.h"
#include "client/commands.h"
#include "client/explain.h"
#include "telemetry.h"

static struct rl_attempt *attempt_of(struct rl_task *task)
{
    return (struct rl_attempt *)task;
}

/* --- steps --- */

/* The TTL of the next round. */
static rl_time ttl_of(const struct rl_attempt *attempt, const struct rl_lease_event *event)
{
    const struct rl_lease *lease = &attempt->lease;
    if (event->type == RL_EVENT_EXTEND && event->ttl > 0)
        return event->ttl;
    return lease->requested_ttl > 0 ? lease->requested_ttl : lease->ttl;
}

/*
 * Which nodes may vote. For a plain lock the node's link decides. For a fenced lock the
 * node's marker must allow it, too. No node may vote on a fenced lock whose TTL exceeds the
 * deployment's longest TTL: the lock could outlast a node's quarantine.
 */
static const struct rl_view *view_of(const struct rl_attempt *attempt,
                                     const struct rl_lease_event *event,
                                     struct rl_view *fenced)
{
    redlock_client *client = rl_client_of(&attempt->task);
    if (!attempt->config->kind->is_fenced)
        return rl_nodes_view(&client->nodes);
    bool allowed = rl_members_allow_ttl(&client->members, ttl_of(attempt, event));
    *fenced = *rl_nodes_view(&client->nodes);
    fenced->ready = allowed ? client->members.active & client->nodes.awake : 0;
    return fenced;
}

/* A node to which nothing could be sent, for lack of memory, counts as a refusal. */
RL_RARE static void refuse(struct rl_attempt *attempt, const struct rl_update *update,
                           rl_node_set nodes)
{
    rl_loop_refresh_clock(attempt->task.loop);
    for (rl_node_set rest = nodes; rest; rest &= rest - 1) {
        struct rl_lease_event event = {
            .type = RL_EVENT_VOTE,
            .node = (uint8_t)rl_first(rest),
            .seq = update->seq,
            .command = update->command,
            .vote = RL_VOTE_ERROR,
            .fault = RL_FAULT_MEMORY,
            .pttl = -1,
        };
        rl_attempt_step(attempt, &event);
    }
}

static void reschedule(struct rl_attempt *attempt)
{
    if (attempt->lease.state != RL_LEASE_OVER) {
        rl_time next = rl_lease_next(&attempt->lease);
        if (next != RL_NEVER)
            rl_task_schedule(&attempt->task, next);
    } else if (!attempt->owner) {
        rl_attempt_class_of(&attempt->task)->over(&attempt->task);
    }
}

/* Sends the commands of the lease machine and passes on its reports. */
static void follow(struct rl_attempt *attempt, const struct rl_update *update)
{
    rl_node_set failed = update->send ? rl_attempt_send(attempt, update) : 0;
    unsigned reports = update->reports & ~(unsigned)RL_REPORT_NOT_RENEWED;
    reschedule(attempt);
    if (reports && attempt->owner)
        rl_attempt_class_of(attempt->owner)->report(attempt->owner, reports);
    if (failed)
        refuse(attempt, update, failed);
}

/*
 * Fills in why nodes were absent from the round that was decided or begins: the code and
 * the reason of the result follow from it.
 */
static void explain_absence(struct rl_attempt *attempt, const struct rl_update *update)
{
    const redlock_client *client = rl_client_of(&attempt->task);
    const struct rl_round *round = &attempt->lease.round;
    unsigned failed_extension = RL_REPORT_NOT_RENEWED | RL_REPORT_NOT_EXTENDED;
    bool all = (round->waiting | round->granted) == client->nodes.all;
    if ((!all && (update->send || update->reports)) || (update->reports & failed_extension))
        rl_client_note_absent(client, attempt->lease.ballot,
                              attempt->config->kind->is_fenced);
}

/* Most replies change nothing yet, because the round waits for others. */
RL_HOT void rl_attempt_step(struct rl_attempt *attempt, const struct rl_lease_event *event)
{
    struct rl_view fenced;
    struct rl_record *record = rl_telemetry_event(attempt, event);
    if (attempt->lease.state == RL_LEASE_OVER)
        return;
    struct rl_update update =
        rl_lease_step(&attempt->lease, view_of(attempt, event, &fenced), event);
    if (!update.changed)
        return;
    explain_absence(attempt, &update);
    rl_telemetry_stepped(attempt, event, &update, record);
    follow(attempt, &update);
}

/* --- task callbacks --- */

void rl_attempt_tick(struct rl_task *task)
{
    struct rl_attempt *attempt = attempt_of(task);
    rl_heap_drop(&task->loop->heap, &task->due);
    if (attempt->lease.state == RL_LEASE_NEW)
        return;
    rl_attempt_step(attempt, &(struct rl_lease_event){.type = RL_EVENT_TICK});
}

void rl_attempt_expire(struct rl_task *task)
{
    if (attempt_of(task)->lease.state != RL_LEASE_NEW)
        rl_attempt_step(attempt_of(task),
                        &(struct rl_lease_event){.type = RL_EVENT_EXPIRE});
}

/* A node that was only slow has kept its keys, unless it lacked this one before. */
static bool is_ready_for(const struct rl_attempt *attempt, enum rl_task_event event,
                         rl_node_set node)
{
    const struct rl_lease *lease = &attempt->lease;
    bool is_fenced = attempt->config->kind->is_fenced;
    if (lease->state == RL_LEASE_CLEANUP)
        return event == RL_TASK_READY;
    if (lease->state != RL_LEASE_HELD)
        return false;
    if (event == RL_TASK_AWAKE)
        return lease->missing & node;
    return event == (is_fenced ? RL_TASK_ACTIVE : RL_TASK_READY) &&
           !(lease->holding & node);
}

void rl_attempt_event(struct rl_task *task, enum rl_task_event event, unsigned node)
{
    struct rl_attempt *attempt = attempt_of(task);
    bool ready = is_ready_for(attempt, event, rl_bit(node));
    bool forgot = event == RL_TASK_RESTARTED &&
                  !(attempt->config->kind->is_fenced &&
                    rl_members_keeps_data(&rl_client_of(task)->members, node));
    if (!ready && !forgot)
        return;
    struct rl_lease_event change = {
        .type = ready ? RL_EVENT_READY : RL_EVENT_RESTARTED,
        .node = (uint8_t)node,
    };
    rl_attempt_step(attempt, &change);
}

/* The kind of lock that the attempt was when the command was sent: before a downgrade. */
static const struct rl_kind *kind_of(const struct rl_attempt *attempt,
                                     const struct rl_op *op)
{
    const struct rl_kind *kind = attempt->config->kind;
    enum redlock_kind type = (enum redlock_kind)op->kind;
    return type == kind->type ? kind : rl_kind_that_is(kind->is_fenced, type);
}

RL_HOT void rl_attempt_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                              const struct rl_reply *reply)
{
    struct rl_attempt *attempt = attempt_of(task);
    struct rl_answer parsed;
    if (!rl_nodes_parse_reply(&rl_client_of(task)->nodes, kind_of(attempt, op), node, op,
                              reply, &parsed) &&
        rl_attempt_resend(attempt, node, op))
        return;
    if (attempt->config->kind->is_fenced)
        rl_members_check_answer(&rl_client_of(task)->members, node, op, &parsed);
    if (op->seq == RL_NO_ROUND)
        return;
    if (parsed.value.len > 0)
        rl_attempt_note_value(attempt, node, parsed.value);
    if (parsed.free.len > 0)
        rl_attempt_note_free_slots(attempt, node, parsed.free);
    attempt->has_waiters |= parsed.has_waiters;
    if (op->joins_queue && attempt->owner && reply && parsed.fault == RL_FAULT_NONE &&
        !parsed.not_queued)
        rl_attempt_class_of(attempt->owner)->queued(attempt->owner, node, op->sent);
    struct rl_lease_event event = {
        .type = RL_EVENT_VOTE,
        .node = (uint8_t)node,
        .seq = op->seq,
        .command = op->command,
        .vote = parsed.vote,
        .fault = parsed.fault,
        .key = (uint8_t)parsed.key,
        .pttl = parsed.pttl,
        .fence = parsed.fence,
        .took = task->loop->boot - op->asked,
    };
    rl_attempt_step(attempt, &event);
}

/* The attempt is over, but the reply has the node's time and marker. */
void rl_attempt_answer_late(struct rl_task *task, unsigned node, const struct rl_op *op,
                            const struct rl_reply *reply)
{
    const struct rl_kind *kind = kind_of(attempt_of(task), op);
    struct rl_answer parsed;
    if (kind->is_fenced && reply && rl_kind_read(kind, op->command, reply, &parsed))
        rl_members_check_answer(&rl_client_of(task)->members, node, op, &parsed);
}

/* A release is under way, will follow, or is due on a node with an open connection. */
bool rl_attempt_is_releasing(struct rl_task *task)
{
    const struct rl_lease *lease = &attempt_of(task)->lease;
    switch (lease->state) {
    case RL_LEASE_ACQUIRING:
    case RL_LEASE_ABORTING:
    case RL_LEASE_RELEASING: return true;
    case RL_LEASE_CLEANUP: return lease->dirty & rl_client_of(task)->nodes.view.open;
    default: return false;
    }
}

/* Releases what a running acquire has stored. The keys of a held lock expire. */
void rl_attempt_close(struct rl_task *task)
{
    struct rl_attempt *attempt = attempt_of(task);
    attempt->owner = NULL;
    if (attempt->lease.state == RL_LEASE_ACQUIRING)
        rl_attempt_step(attempt, &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
}

static void destroy(struct rl_task *task)
{
    rl_attempt_clear(attempt_of(task));
    free(task);
}

static const struct rl_attempt_class separate_class = {
    .task.tick = rl_attempt_tick,
    .task.expire = rl_attempt_expire,
    .task.event = rl_attempt_event,
    .task.replied = rl_attempt_answer,
    .task.replied_late = rl_attempt_answer_late,
    .task.is_releasing = rl_attempt_is_releasing,
    .task.close = rl_attempt_close,
    .task.destroy = destroy,
    .over = rl_task_end,
};

struct rl_attempt *rl_attempt_another(const struct rl_attempt *attempt)
{
    struct rl_word key = rl_attempt_base(attempt);
    size_t room = rl_attempt_room(attempt->config, key.len, attempt->token_len);
    struct rl_attempt *another =
        rl_task_new(sizeof(*another) + room, attempt->task.loop, &separate_class.task);
    if (!another)
        return NULL;
    rl_attempt_init(another, attempt->config, another + 1, key, attempt->set,
                    attempt->token_len);
    another->lease.spread = attempt->lease.spread;
    another->number = attempt->number;
    return another;
}

void rl_attempt_release(struct rl_attempt *attempt)
{
    rl_attempt_step(attempt, &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
}

void rl_attempt_disown(struct rl_attempt *attempt)
{
    rl_attempt_step(attempt, &(struct rl_lease_event){.type = RL_EVENT_DISOWN});
}

bool rl_attempt_is_past(const struct rl_attempt *attempt)
{
    return attempt->lease.state == RL_LEASE_CLEANUP ||
           attempt->lease.state == RL_LEASE_OVER;
}

RL_RARE static void give_up(struct rl_attempt *attempt)
{
    rl_attempt_release(attempt);
}

void rl_attempt_leave(struct rl_attempt *attempt)
{
    if (!rl_attempt_is_past(attempt))
        give_up(attempt);
    attempt->owner = NULL;
    if (attempt->lease.state == RL_LEASE_OVER)
        rl_attempt_class_of(&attempt->task)->over(&attempt->task);
}
