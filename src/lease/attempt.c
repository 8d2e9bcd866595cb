#include "attempt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/explain.h"
#include "telemetry.h"

static struct rl_attempt *attempt_of(struct rl_task *task)
{
    return (struct rl_attempt *)task;
}

static const struct rl_attempt_class *class_of(const struct rl_task *task)
{
    return (const struct rl_attempt_class *)task->class;
}

/* --- its room --- */

static size_t suffix_len(const struct rl_lease_config *config)
{
    return config->kind->is_fenced ? sizeof(RL_FENCE_SUFFIX) - 1 : 0;
}

static struct rl_key_set **set_of(const struct rl_attempt *attempt)
{
    void *rest = attempt->lease.fences ? (void *)attempt->lease.fences
                                       : (void *)attempt->lease.ballot;
    return (struct rl_key_set **)rest - 1;
}

struct rl_key_set *rl_attempt_set(const struct rl_attempt *attempt)
{
    bool has_set = attempt->config && rl_kind_is_of_sets(attempt->config->kind);
    return has_set ? *set_of(attempt) : NULL;
}

/* Of a fenced one: the nodes' time when the attempt began. */
static rl_time *proposed_of(const struct rl_attempt *attempt)
{
    return attempt->lease.fences + attempt->lease.params->n;
}

static struct rl_word key_of(const struct rl_attempt *attempt)
{
    return (struct rl_word){rl_attempt_texts(attempt), attempt->key_len};
}

static struct rl_word fence_key_of(const struct rl_attempt *attempt)
{
    return (struct rl_word){rl_attempt_texts(attempt),
                            attempt->key_len + suffix_len(attempt->config)};
}

char *rl_attempt_token(const struct rl_attempt *attempt)
{
    return rl_attempt_texts(attempt) + attempt->key_len + suffix_len(attempt->config);
}

/* --- recording --- */

void rl_attempt_describe(const struct rl_attempt *attempt, struct rl_lease_line *ret_line)
{
    *ret_line = (struct rl_lease_line){
        .number = attempt->number,
        .lease = &attempt->lease,
        .options = &attempt->config->options,
        .key = key_of(attempt),
        .token = {rl_attempt_token(attempt), attempt->token_len},
    };
}

/*
 * An acquire is recorded with the end of its key. In the room, the ballots come before the
 * key: so all of `key_end` can be read even if the key is shorter.
 */
static void record_sent(const struct rl_attempt *attempt, const struct rl_update *update,
                        struct rl_word key)
{
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

/* The caller makes the vote in the record itself: that saves a copy. */
static struct rl_record *record_reply(const struct rl_attempt *attempt)
{
    return rl_loop_record(attempt->task.loop, RL_RECORD_REPLY, attempt->number);
}

/* What makes it step, if that is neither a vote nor a request, which are recorded. */
RL_RARE static struct rl_record *record_step(const struct rl_attempt *attempt,
                                             const struct rl_lease_event *event)
{
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

/* --- sending --- */

static const char unmarked[] = "----------------";
_Static_assert(sizeof(unmarked) - 1 == RL_NONCE, "as long as a nonce");

/* The round of a command that only leaves the wait queues: no vote. */
#define NO_ROUND 0

/* An acquire proposes the same fence to all nodes, also when it is sent again to a node. */
static void add_fence(const struct rl_attempt *attempt, enum rl_command command,
                      struct rl_command_args *args)
{
    const redlock_client *client = rl_client_of(&attempt->task);
    bool proposes = command == RL_CMD_ACQUIRE;
    args->fence_key = fence_key_of(attempt);
    args->marker_key =
        (struct rl_word){client->members.marker_key, client->members.marker_key_len};
    args->nonce = (struct rl_word){unmarked, RL_NONCE};
    args->max_ttl_ms = client->members.membership.roster.max_ttl_ms;
    args->fences = attempt->config->fences;
    args->fence = proposes ? rl_fence_last(*proposed_of(attempt), attempt->config->fences)
                           : attempt->lease.fence;
    args->sent_at = proposes ? *proposed_of(attempt)
                             : rl_node_time_median(client->members.time, client->nodes.n,
                                                   client->loop.now);
}

/*
 * Returns the nodes for which there was no memory. Sets what the command of a plain lock
 * needs, one by one: to clear all of the arguments first would cost more than the rest.
 */
static rl_node_set send_command(struct rl_attempt *attempt, const struct rl_update *update)
{
    struct rl_message message;
    message.kind = attempt->config->kind;
    message.command = update->command;
    message.seq = update->seq;
    message.args.key = key_of(attempt);
    const struct rl_key_set *set = rl_attempt_set(attempt);
    if (set) {
        message.args.set = set->word;
        message.args.set_size = set->count;
    }
    if (message.kind->form == RL_FORM_SLOT) {
        message.args.base = rl_attempt_base(attempt);
        message.args.slots = attempt->config->options.slots;
    }
    message.args.token = (struct rl_word){rl_attempt_token(attempt), attempt->token_len};
    message.args.ttl_ms = attempt->lease.ttl / RL_MS;
    message.args.recreate = update->recreate;
    message.args.queue_entry.len = message.args.nonce.len = 0;
    message.args.waited = 0;
    if (attempt->config->kind->is_fenced)
        add_fence(attempt, update->command, &message.args);
    if (update->seq == NO_ROUND) { /* with the NUL no node stores it: the lock may stay */
        message.args.token.len++;
        message.args.fence = 0;
    }
    if (attempt->owner &&
        (update->command == RL_CMD_RELEASE || message.kind->form == RL_FORM_SHARED))
        class_of(attempt->owner)
            ->set_waiting(attempt->owner, update->command, &message.args);
    record_sent(attempt, update, message.args.key);
    return rl_nodes_send(&rl_client_of(&attempt->task)->nodes, &attempt->task, &message,
                         update->send);
}

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

static void step(struct rl_attempt *attempt, const struct rl_lease_event *event,
                 struct rl_record *record);

/* A node to which nothing could be sent, for lack of memory, counts as a refusal. */
RL_RARE static void refuse(struct rl_attempt *attempt, const struct rl_update *update,
                           rl_node_set nodes)
{
    rl_loop_refresh_clock(attempt->task.loop);
    for (rl_node_set rest = nodes; rest; rest &= rest - 1) {
        struct rl_record *record = record_reply(attempt);
        record->event = (struct rl_lease_event){
            .type = RL_EVENT_VOTE,
            .node = (uint8_t)rl_first(rest),
            .seq = update->seq,
            .command = update->command,
            .vote = RL_VOTE_ERROR,
            .fault = RL_FAULT_MEMORY,
            .pttl = -1,
        };
        step(attempt, &record->event, record);
    }
}

static void reschedule(struct rl_attempt *attempt)
{
    if (attempt->lease.state != RL_LEASE_OVER) {
        rl_time next = rl_lease_next(&attempt->lease);
        if (next != RL_NEVER)
            rl_task_schedule(&attempt->task, next);
    } else if (!attempt->owner) {
        class_of(&attempt->task)->over(&attempt->task);
    }
}

/* Sends the commands of the lease machine and passes on its reports. */
static void follow(struct rl_attempt *attempt, const struct rl_update *update,
                   struct rl_record *record)
{
    redlock_client *client = rl_client_of(&attempt->task);
    rl_node_set failed = 0;
    if (update->send) {
        client->stats.rounds[update->command]++;
        failed = send_command(attempt, update);
        record = NULL; /* the result comes after what was sent */
    }
    rl_node_set counted = attempt->lease.round.waiting | attempt->lease.round.granted;
    unsigned failed_extension = RL_REPORT_NOT_RENEWED | RL_REPORT_NOT_EXTENDED;
    if ((update->reports & failed_extension) ||
        ((update->send || update->reports) && counted != rl_all(client->nodes.n)))
        rl_client_note_absent(client, attempt->lease.ballot,
                              attempt->config->kind->is_fenced);
    if (update->reports)
        rl_telemetry_reported(attempt, update->reports);
    reschedule(attempt);
    unsigned reports = update->reports & ~(unsigned)RL_REPORT_NOT_RENEWED;
    if (reports && attempt->owner) {
        record_result(attempt, reports, record);
        class_of(attempt->owner)->report(attempt->owner, reports);
    }
    if (failed)
        refuse(attempt, update, failed);
}

/*
 * Most replies change nothing yet, because the round waits for others: then `sooner` is 0.
 */
static void step(struct rl_attempt *attempt, const struct rl_lease_event *event,
                 struct rl_record *record)
{
    struct rl_view fenced;
    if (attempt->lease.state == RL_LEASE_OVER)
        return;
    struct rl_update update =
        rl_lease_step(&attempt->lease, view_of(attempt, event, &fenced), event);
    if (update.sooner)
        follow(attempt, &update, record);
}

void rl_attempt_step(struct rl_attempt *attempt, const struct rl_lease_event *event)
{
    step(attempt, event, NULL);
}

/* --- task callbacks --- */

void rl_attempt_tick(struct rl_task *task)
{
    struct rl_attempt *attempt = attempt_of(task);
    rl_heap_drop(&task->loop->heap, &task->due);
    if (attempt->lease.state == RL_LEASE_NEW)
        return;
    static const struct rl_lease_event event = {.type = RL_EVENT_TICK};
    rl_node_set silent = attempt->lease.silent;
    step(attempt, &event, record_step(attempt, &event));
    rl_telemetry_silent(attempt, attempt->lease.silent & ~silent);
}

void rl_attempt_expire(struct rl_task *task)
{
    if (attempt_of(task)->lease.state != RL_LEASE_NEW)
        rl_attempt_step(attempt_of(task),
                        &(struct rl_lease_event){.type = RL_EVENT_EXPIRE});
}

void rl_attempt_event(struct rl_task *task, enum rl_task_event event, unsigned node)
{
    struct rl_attempt *attempt = attempt_of(task);
    bool ready = event == RL_TASK_READY && attempt->lease.state == RL_LEASE_CLEANUP;
    if (!ready && event != RL_TASK_RESTARTED)
        return;
    struct rl_lease_event change = {
        .type = ready ? RL_EVENT_READY : RL_EVENT_RESTARTED,
        .node = (uint8_t)node,
    };
    step(attempt, &change, record_step(attempt, &change));
}

/* Of a semaphore a digit for each slot of each node follows them. */
static bool make_values(struct rl_attempt *attempt)
{
    size_t each = sizeof(*attempt->value);
    if (attempt->config->kind->form == RL_FORM_SLOT)
        each += RL_SLOTS_MAX;
    if (!attempt->value)
        attempt->value = calloc(attempt->lease.params->n, each);
    return attempt->value != NULL;
}

static char *free_slots_of(const struct rl_attempt *attempt, unsigned node)
{
    return (char *)(attempt->value + attempt->lease.params->n) +
           (size_t)node * RL_SLOTS_MAX;
}

bool rl_attempt_sees_free(const struct rl_attempt *attempt, unsigned node, unsigned slot)
{
    return attempt->value && free_slots_of(attempt, node)[slot - 1] == '1';
}

/*
 * Keeps the other holder's value for redlock_explain(). If there is no memory, the value is
 * missing there.
 */
RL_RARE static void note_value(struct rl_attempt *attempt, unsigned node,
                               struct rl_word value)
{
    if (make_values(attempt))
        rl_client_keep_value(value, attempt->value[node]);
}

/* Keeps which slots are free on the node. If there is no memory, they are not known. */
RL_RARE static void note_free_slots(struct rl_attempt *attempt, unsigned node,
                                    struct rl_word free)
{
    if (make_values(attempt))
        memcpy(free_slots_of(attempt, node), free.text, free.len);
}

/*
 * True if the client has learned of a newer incarnation of any member since this command
 * was sent. A command that is sent again would be granted under the new marker, and would
 * count in the same round as votes of the old incarnation.
 */
static bool is_outdated(const struct rl_attempt *attempt, const struct rl_op *op)
{
    return attempt->config->kind->is_fenced && op->command != RL_CMD_RELEASE &&
           op->sent <= rl_client_of(&attempt->task)->members.membership.learned_at;
}

/* The kind of lock that the attempt was when the command was sent: before a downgrade. */
static const struct rl_kind *kind_of(const struct rl_attempt *attempt,
                                     const struct rl_op *op)
{
    const struct rl_kind *kind = attempt->config->kind;
    enum rl_form form = (enum rl_form)op->form;
    return form == kind->form ? kind : rl_kind_that_is(kind->is_fenced, form);
}

/* Sends a command again, with the script's source. False: it must not or could not be. */
RL_RARE static bool resend(struct rl_attempt *attempt, unsigned node,
                           const struct rl_op *op)
{
    if (!rl_lease_resend_is_safe(&attempt->lease, op->command, op->seq) ||
        is_outdated(attempt, op))
        return false;
    rl_loop_refresh_clock(attempt->task.loop);
    return send_command(attempt, &(struct rl_update){
                                     .send = rl_bit(node),
                                     .command = op->command,
                                     .recreate = op->recreate,
                                     .seq = op->seq,
                                 }) == 0;
}

void rl_attempt_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                       const struct rl_reply *reply)
{
    struct rl_attempt *attempt = attempt_of(task);
    struct rl_answer parsed;
    if (attempt->lease.silent && reply)
        rl_telemetry_late(attempt, node);
    if (!rl_nodes_parse_reply(&rl_client_of(task)->nodes, kind_of(attempt, op), node, op,
                              reply, &parsed) &&
        resend(attempt, node, op))
        return;
    if (attempt->config->kind->is_fenced)
        rl_members_check_answer(&rl_client_of(task)->members, node, op, &parsed);
    if (op->seq == NO_ROUND)
        return;
    if (parsed.value.len > 0)
        note_value(attempt, node, parsed.value);
    if (parsed.free.len > 0)
        note_free_slots(attempt, node, parsed.free);
    attempt->has_waiters |= parsed.has_waiters;
    if (op->joins_queue && attempt->owner && reply && parsed.fault == RL_FAULT_NONE &&
        !parsed.not_queued)
        class_of(attempt->owner)->queued(attempt->owner, node, op->sent);
    struct rl_record *record = record_reply(attempt);
    record->event = (struct rl_lease_event){
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
    step(attempt, &record->event, record);
}

/* The attempt is over, but the reply has the node's time and marker. */
void rl_attempt_answer_late(struct rl_task *task, unsigned node, const struct rl_op *op,
                            const struct rl_reply *reply)
{
    const struct rl_kind *kind = kind_of(attempt_of(task), op);
    struct rl_answer parsed;
    if (attempt_of(task)->lease.silent && reply)
        rl_telemetry_late(attempt_of(task), node);
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

/* --- init --- */

size_t rl_attempt_room(const struct rl_lease_config *config, size_t key_len,
                       size_t token_len)
{
    size_t fences = config->kind->is_fenced ? (config->params.n + 1) * sizeof(int64_t) : 0;
    size_t ballots = config->params.n * sizeof(struct rl_ballot);
    size_t set = rl_kind_is_of_sets(config->kind) ? sizeof(struct rl_key_set *) : 0;
    if (config->kind->form == RL_FORM_SLOT)
        key_len += rl_attempt_slot_len(RL_SLOTS_MAX);
    return set + fences + ballots + key_len + suffix_len(config) + token_len + 1;
}

void rl_attempt_init(struct rl_attempt *attempt, struct rl_lease_config *config, void *room,
                     struct rl_word key, struct rl_key_set *set, size_t token_len)
{
    void *rest = set ? (struct rl_key_set **)room + 1 : room;
    int64_t *fences = config->kind->is_fenced ? rest : NULL;
    struct rl_ballot *ballot = fences ? (void *)(fences + config->params.n + 1) : rest;
    attempt->config = rl_lease_config_ref(config);
    attempt->key_len = key.len & 2047;
    attempt->token_len = token_len & 255;
    rl_lease_init(&attempt->lease, &config->params, ballot, fences);
    if (set)
        *set_of(attempt) = rl_key_set_ref(set);
    memcpy(rl_attempt_texts(attempt), key.text, key.len);
    if (fences)
        memcpy(rl_attempt_texts(attempt) + key.len, RL_FENCE_SUFFIX,
               sizeof(RL_FENCE_SUFFIX) - 1);
}

void rl_attempt_clear(struct rl_attempt *attempt)
{
    free(attempt->value);
    attempt->value = NULL;
    if (rl_attempt_set(attempt))
        rl_key_set_unref(rl_attempt_set(attempt));
    rl_lease_config_unref(attempt->config);
    attempt->config = NULL;
}

struct rl_attempt *rl_attempt_another(const struct rl_attempt *attempt)
{
    struct rl_word key = rl_attempt_base(attempt);
    size_t room = rl_attempt_room(attempt->config, key.len, attempt->token_len);
    struct rl_attempt *another =
        rl_task_new(sizeof(*another) + room, attempt->task.loop, &separate_class.task);
    if (!another)
        return NULL;
    rl_attempt_init(another, attempt->config, another + 1, key, rl_attempt_set(attempt),
                    attempt->token_len);
    another->lease.spread = attempt->lease.spread;
    another->number = attempt->number;
    return another;
}

void rl_attempt_choose_slot(struct rl_attempt *attempt, unsigned slot)
{
    char number[RL_DIGITS];
    struct rl_word base = rl_attempt_base(attempt);
    char *at = rl_attempt_texts(attempt) + base.len;
    int len = snprintf(number, sizeof(number), "!%u", slot);
    memcpy(at, number, (size_t)len);
    memcpy(at + len, RL_FENCE_SUFFIX, suffix_len(attempt->config));
    attempt->slot = slot & 255;
    attempt->key_len = (base.len + (size_t)len) & 2047;
}

char *rl_attempt_own(struct rl_attempt *attempt, struct rl_task *owner)
{
    const redlock_client *client = rl_client_of(&attempt->task);
    attempt->owner = owner;
    if (attempt->config->kind->is_fenced)
        *proposed_of(attempt) =
            rl_node_time_median(client->members.time, client->nodes.n, client->loop.now);
    char *token = rl_attempt_token(attempt);
    token[0] = '\0';
    return token;
}

void rl_attempt_downgrade(struct rl_attempt *attempt, struct rl_lease_config *shared)
{
    char *token = rl_attempt_token(attempt);
    rl_lease_config_ref(shared);
    rl_lease_config_unref(attempt->config);
    attempt->config = shared;
    attempt->lease.params = &shared->params;
    if (*token)
        *token = *shared->kind->mark;
}

void rl_attempt_withdraw(struct rl_attempt *attempt, rl_node_set nodes)
{
    nodes &= rl_client_of(&attempt->task)->nodes.view.open;
    if (nodes)
        (void)send_command(attempt, &(struct rl_update){
                                        .send = nodes,
                                        .command = RL_CMD_RELEASE,
                                        .seq = NO_ROUND,
                                    });
}

void rl_attempt_release(struct rl_attempt *attempt)
{
    rl_attempt_step(attempt, &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
    rl_telemetry_hold_ends(attempt, &rl_stats_of(&attempt->task)->released);
}

void rl_attempt_disown(struct rl_attempt *attempt)
{
    rl_attempt_step(attempt, &(struct rl_lease_event){.type = RL_EVENT_DISOWN});
    rl_telemetry_hold_ends(attempt, &rl_stats_of(&attempt->task)->disowned);
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
        class_of(&attempt->task)->over(&attempt->task);
}
