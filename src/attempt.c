#include "attempt.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "wards.h"

static struct rl_attempt *attempt_of(struct rl_task *task)
{
    return (struct rl_attempt *)task;
}

/* --- saying --- */

static const char unmarked[RL_NONCE] = "----------------";

/* An acquire proposes one fence to all, also where it has to be said again. */
static void add_fence(const struct rl_attempt *attempt, enum rl_text text,
                      struct rl_subject *subject)
{
    const redlock_client *client = attempt->task.client;
    bool proposes = text == RL_ACQUIRE;
    subject->fence_key = attempt->fence_key;
    subject->marker_key = (struct rl_word){client->marker_key, client->marker_key_len};
    subject->nonce = (struct rl_word){unmarked, sizeof(unmarked)};
    subject->max_ttl_ms = client->steward.roster.max_ttl_ms;
    subject->fences = attempt->wish->fences;
    subject->fence = proposes ? rl_fence_last(attempt->proposed, attempt->wish->fences)
                              : attempt->lease.fence;
    subject->said = proposes ? attempt->proposed
                             : rl_nodes_now(client->time, client->n, client->view.now);
}

static struct rl_message message_of(const struct rl_attempt *attempt, enum rl_text text,
                                    uint32_t seq, bool plant)
{
    struct rl_message message = {
        .kind = attempt->wish->kind,
        .text = text,
        .seq = seq,
        .subject =
            {
                .key = attempt->key,
                .token = attempt->token,
                .ttl_ms = attempt->lease.ttl / RL_MS,
                .plant = plant,
            },
    };
    if (attempt->wish->kind->is_fenced)
        add_fence(attempt, text, &message.subject);
    if (text == RL_RELEASE && attempt->owner)
        rl_owner_place(attempt->owner, &message.subject);
    return message;
}

/* That of the next round. */
static rl_time ttl_of(const struct rl_attempt *attempt, const struct rl_lease_event *event)
{
    const struct rl_lease *lease = &attempt->lease;
    if (event->type == RL_EVENT_EXTEND && event->ttl > 0)
        return event->ttl;
    return lease->wished_ttl > 0 ? lease->wished_ttl : lease->ttl;
}

/*
 * Whose votes count: of a fenced lock's nodes the marker tells, of others the link. None do
 * for a lock that would outlast their quarantine.
 */
static const struct rl_view *view_of(const struct rl_attempt *attempt,
                                     const struct rl_lease_event *event,
                                     struct rl_view *fenced)
{
    const redlock_client *client = attempt->task.client;
    if (!attempt->wish->kind->is_fenced)
        return &client->view;
    bool borne = rl_wards_bear(client, ttl_of(attempt, event));
    *fenced = client->view;
    fenced->ready = borne ? client->sound & client->awake : 0;
    return fenced;
}

/* A node to which nothing could be said has refused. */
static void refuse(struct rl_attempt *attempt, const struct rl_update *update,
                   rl_nodes nodes)
{
    for (rl_nodes rest = nodes; rest; rest &= rest - 1)
        rl_attempt_step(attempt, &(struct rl_lease_event){
                                     .type = RL_EVENT_VOTE,
                                     .node = (uint8_t)rl_first(rest),
                                     .seq = update->seq,
                                     .text = update->text,
                                     .vote = RL_VOTE_ERROR,
                                     .fault = RL_FAULT_MEMORY,
                                     .pttl = -1,
                                 });
}

static void reschedule(struct rl_attempt *attempt)
{
    if (attempt->lease.state != RL_LEASE_OVER) {
        rl_time next = rl_lease_next(&attempt->lease);
        if (next != RL_NEVER)
            rl_task_due(&attempt->task, next);
    } else if (!attempt->owner) {
        rl_task_end(&attempt->task);
    } else {
        rl_heap_drop(&attempt->task.client->heap, &attempt->task.due);
    }
}

void rl_attempt_step(struct rl_attempt *attempt, const struct rl_lease_event *event)
{
    redlock_client *client = attempt->task.client;
    if (attempt->lease.state == RL_LEASE_OVER)
        return;
    struct rl_view fenced;
    struct rl_update update =
        rl_lease_step(&attempt->lease, view_of(attempt, event, &fenced), event);
    rl_nodes failed = 0;
    if (update.send) {
        struct rl_message message =
            message_of(attempt, update.text, update.seq, update.plant);
        failed = rl_client_say(client, &attempt->task, &message, update.send);
    }
    rl_nodes counted = attempt->lease.round.waiting | attempt->lease.round.granted;
    if ((update.send || update.news) && counted != rl_all(client->n))
        rl_client_note_absent(client, attempt->lease.ballot,
                              attempt->wish->kind->is_fenced);
    reschedule(attempt);
    if (update.news && attempt->owner)
        rl_owner_note(attempt->owner, update.news);
    refuse(attempt, &update, failed);
}

/* --- being woken --- */

static void tick(struct rl_task *task)
{
    struct rl_attempt *attempt = attempt_of(task);
    rl_heap_drop(&task->client->heap, &task->due);
    rl_attempt_step(attempt, &(struct rl_lease_event){.type = RL_EVENT_TICK});
    if (!task->dead)
        reschedule(attempt);
}

static void expire(struct rl_task *task)
{
    rl_attempt_step(attempt_of(task), &(struct rl_lease_event){.type = RL_EVENT_EXPIRE});
}

static void ready(struct rl_task *task, unsigned node)
{
    if (task->client->member[node].link.restarted)
        rl_attempt_step(attempt_of(task), &(struct rl_lease_event){
                                              .type = RL_EVENT_FORGOT,
                                              .node = (uint8_t)node,
                                          });
    if (attempt_of(task)->lease.state == RL_LEASE_LINGERING)
        rl_attempt_step(attempt_of(task), &(struct rl_lease_event){
                                              .type = RL_EVENT_READY,
                                              .node = (uint8_t)node,
                                          });
}

/* Keeps what is there in our token's stead. Without memory the explanation is poorer. */
static void note_value(struct rl_attempt *attempt, unsigned node, struct rl_word value)
{
    if (value.len == 0)
        return;
    if (!attempt->value)
        attempt->value = calloc(attempt->lease.terms->n, sizeof(*attempt->value));
    if (!attempt->value)
        return;
    rl_client_keep_value(value, attempt->value[node]);
}

/*
 * Since this was said, a later incarnation of some seat has become known. What is said
 * again would be granted by the new marker, beside votes of the old incarnation in the same
 * round.
 */
static bool is_outdated(const struct rl_attempt *attempt, const struct rl_op *op)
{
    return attempt->wish->kind->is_fenced && op->text != RL_RELEASE &&
           op->sent <= attempt->task.client->steward.learned_at;
}

/* Whether the node was told again what it did not understand. */
static bool say_again(struct rl_attempt *attempt, unsigned node, const struct rl_op *op)
{
    if (!rl_lease_wants(&attempt->lease, op->text, op->seq) || is_outdated(attempt, op))
        return false;
    struct rl_message message = message_of(attempt, op->text, op->seq, op->plant);
    return rl_client_say(attempt->task.client, &attempt->task, &message, rl_bit(node)) == 0;
}

static void answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                   const struct rl_reply *reply)
{
    struct rl_attempt *attempt = attempt_of(task);
    struct rl_answer heard;
    if (!rl_client_hear(task->client, attempt->wish->kind, node, op, reply, &heard) &&
        say_again(attempt, node, op))
        return;
    note_value(attempt, node, heard.value);
    bool trusted = rl_wards_time(task->client, node, op->sent, heard.time);
    if (!trusted && op->text != RL_RELEASE) {
        heard.vote = RL_VOTE_UNKNOWN; /* what a wrong clock stores may end any time */
        heard.fault = RL_FAULT_CLOCK;
    }
    attempt->awaited |= heard.awaited;
    if (op->takes_place && attempt->owner && reply && heard.fault == RL_FAULT_NONE &&
        !heard.unplaced)
        rl_owner_placed(attempt->owner, node, op->sent);
    if (heard.fault == RL_FAULT_LATE || heard.fault == RL_FAULT_AHEAD)
        rl_wards_doubt(task->client, node);
    rl_attempt_step(attempt, &(struct rl_lease_event){
                                 .type = RL_EVENT_VOTE,
                                 .node = (uint8_t)node,
                                 .seq = op->seq,
                                 .text = op->text,
                                 .vote = heard.vote,
                                 .fault = heard.fault,
                                 .pttl = heard.pttl,
                                 .fence = heard.fence,
                                 .took = task->client->view.now - op->sent,
                             });
}

/* A release is under way, or due, at a node that can be written to. */
static bool unsettled(struct rl_task *task)
{
    const struct rl_lease *lease = &attempt_of(task)->lease;
    switch (lease->state) {
    case RL_LEASE_ACQUIRING:
    case RL_LEASE_BACKING_OUT:
    case RL_LEASE_RELEASING: return true;
    case RL_LEASE_LINGERING: return lease->dirty & task->client->view.open;
    default: return false;
    }
}

/* What an acquire that is under way has set is released; what is held expires. */
static void close_attempt(struct rl_task *task)
{
    struct rl_attempt *attempt = attempt_of(task);
    attempt->owner = NULL;
    if (attempt->lease.state == RL_LEASE_ACQUIRING)
        rl_attempt_step(attempt, &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
}

static void destroy(struct rl_task *task)
{
    struct rl_attempt *attempt = attempt_of(task);
    rl_wish_drop(attempt->wish);
    free(attempt->value);
    free(attempt);
}

static const struct rl_task_class attempt_class = {
    .tick = tick,
    .expire = expire,
    .ready = ready,
    .answer = answer,
    .unsettled = unsettled,
    .close = close_attempt,
    .destroy = destroy,
};

/* --- making --- */

struct rl_attempt *rl_attempt_new(redlock_client *client, redlock_lease *owner,
                                  struct rl_wish *wish, struct rl_word key,
                                  struct rl_word token)
{
    const struct rl_kind *kind = wish->kind;
    size_t fences = kind->is_fenced ? client->n : 0;
    struct rl_word mark = kind->is_fenced ? rl_wards_fence_mark() : (struct rl_word){"", 0};
    struct rl_attempt *attempt = calloc(1, sizeof(*attempt) + fences * sizeof(int64_t) +
                                               client->n * sizeof(struct rl_ballot) +
                                               key.len + mark.len + token.len + 1);
    if (!attempt || !rl_task_init(&attempt->task, client, &attempt_class)) {
        free(attempt);
        return NULL;
    }
    struct rl_ballot *ballot = (struct rl_ballot *)(attempt->fence + fences);
    char *texts = (char *)(ballot + client->n);
    memcpy(texts, key.text, key.len);
    memcpy(texts + key.len, mark.text, mark.len);
    memcpy(texts + key.len + mark.len, token.text, token.len);
    attempt->key = (struct rl_word){texts, key.len};
    attempt->fence_key = (struct rl_word){texts, key.len + mark.len};
    attempt->token = (struct rl_word){texts + key.len + mark.len, token.len};
    if (kind->is_fenced)
        attempt->proposed = rl_nodes_now(client->time, client->n, client->view.now);
    attempt->owner = owner;
    attempt->wish = rl_wish_share(wish);
    rl_lease_init(&attempt->lease, &wish->terms, ballot,
                  kind->is_fenced ? attempt->fence : NULL);
    return attempt;
}

/* To release once more what was released harms nothing. */
void rl_attempt_withdraw(struct rl_attempt *attempt)
{
    struct rl_message message =
        message_of(attempt, RL_RELEASE, attempt->lease.round.seq, false);
    (void)rl_client_say(attempt->task.client, &attempt->task, &message,
                        attempt->task.client->view.open);
}

bool rl_attempt_is_past(const struct rl_attempt *attempt)
{
    return attempt->lease.state == RL_LEASE_LINGERING ||
           attempt->lease.state == RL_LEASE_OVER;
}

void rl_attempt_leave(struct rl_attempt *attempt)
{
    if (!rl_attempt_is_past(attempt))
        rl_attempt_step(attempt, &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
    attempt->owner = NULL;
    if (attempt->lease.state == RL_LEASE_OVER)
        rl_task_end(&attempt->task);
}
