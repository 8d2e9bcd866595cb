#include "attempt.h"

#include <stdlib.h>
#include <string.h>

#include "wards.h"

static struct rl_attempt *attempt_of(struct rl_task *task)
{
    return (struct rl_attempt *)task;
}

/* --- its room --- */

static size_t mark_len(const struct rl_wish *wish)
{
    return wish->kind->is_fenced ? rl_wards_fence_mark().len : 0;
}

static char *texts_of(const struct rl_attempt *attempt)
{
    return (char *)(attempt->lease.ballot + attempt->lease.terms->n);
}

static struct rl_word key_of(const struct rl_attempt *attempt)
{
    return (struct rl_word){texts_of(attempt), attempt->key_len};
}

static struct rl_word fence_key_of(const struct rl_attempt *attempt)
{
    return (struct rl_word){texts_of(attempt), attempt->key_len + mark_len(attempt->wish)};
}

static char *token_of(const struct rl_attempt *attempt)
{
    return texts_of(attempt) + attempt->key_len + mark_len(attempt->wish);
}

const char *rl_attempt_token(const struct rl_attempt *attempt)
{
    return token_of(attempt);
}

/* --- saying --- */

static const char unmarked[RL_NONCE] = "----------------";

/* An acquire proposes one fence to all, also where it has to be said again. */
static void add_fence(const struct rl_attempt *attempt, enum rl_text text,
                      struct rl_subject *subject)
{
    const redlock_client *client = attempt->task.client;
    bool proposes = text == RL_ACQUIRE;
    subject->fence_key = fence_key_of(attempt);
    subject->marker_key = (struct rl_word){client->marker_key, client->marker_key_len};
    subject->nonce = (struct rl_word){unmarked, sizeof(unmarked)};
    subject->max_ttl_ms = client->steward.roster.max_ttl_ms;
    subject->fences = attempt->wish->fences;
    subject->fence = proposes ? rl_fence_last(attempt->proposed, attempt->wish->fences)
                              : attempt->lease.fence;
    subject->said = proposes ? attempt->proposed
                             : rl_nodes_now(client->time, client->n, client->view.now);
}

/* Returns those of these nodes for which there was no memory. */
static rl_nodes say(struct rl_attempt *attempt, enum rl_text text, uint32_t seq, bool plant,
                    rl_nodes nodes)
{
    struct rl_message message = {
        .kind = attempt->wish->kind,
        .text = text,
        .seq = seq,
        .subject =
            {
                .key = key_of(attempt),
                .token = {token_of(attempt), attempt->token_len},
                .ttl_ms = attempt->lease.ttl / RL_MS,
                .plant = plant,
            },
    };
    if (attempt->wish->kind->is_fenced)
        add_fence(attempt, text, &message.subject);
    if (text == RL_RELEASE && attempt->owner)
        rl_owner_place(attempt->owner, &message.subject);
    return rl_client_say(attempt->task.client, &attempt->task, &message, nodes);
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
RL_RARE static void refuse(struct rl_attempt *attempt, const struct rl_update *update,
                           rl_nodes nodes)
{
    rl_client_freshen(attempt->task.client);
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
        attempt->task.class->over(&attempt->task);
    }
}

/* What the machine wants, and what it tells. */
static void follow(struct rl_attempt *attempt, const struct rl_update *update)
{
    redlock_client *client = attempt->task.client;
    rl_nodes failed = 0;
    if (update->send)
        failed = say(attempt, update->text, update->seq, update->plant, update->send);
    rl_nodes counted = attempt->lease.round.waiting | attempt->lease.round.granted;
    if ((update->send || update->news) && counted != rl_all(client->n))
        rl_client_note_absent(client, attempt->lease.ballot,
                              attempt->wish->kind->is_fenced);
    reschedule(attempt);
    if (update->news && attempt->owner)
        rl_owner_note(attempt->owner, update->news);
    if (failed)
        refuse(attempt, update, failed);
}

/* Most answers are one of several that are waited for: nothing follows from them. */
void rl_attempt_step(struct rl_attempt *attempt, const struct rl_lease_event *event)
{
    struct rl_view fenced;
    if (attempt->lease.state == RL_LEASE_OVER)
        return;
    struct rl_update update =
        rl_lease_step(&attempt->lease, view_of(attempt, event, &fenced), event);
    if (update.sooner)
        follow(attempt, &update);
}

/* --- being woken --- */

void rl_attempt_tick(struct rl_task *task)
{
    struct rl_attempt *attempt = attempt_of(task);
    rl_heap_drop(&task->client->heap, &task->due);
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

void rl_attempt_forgot(struct rl_task *task, unsigned node)
{
    rl_attempt_step(attempt_of(task), &(struct rl_lease_event){
                                          .type = RL_EVENT_FORGOT,
                                          .node = (uint8_t)node,
                                      });
}

void rl_attempt_ready(struct rl_task *task, unsigned node)
{
    if (attempt_of(task)->lease.state == RL_LEASE_LINGERING)
        rl_attempt_step(attempt_of(task), &(struct rl_lease_event){
                                              .type = RL_EVENT_READY,
                                              .node = (uint8_t)node,
                                          });
}

/* Keeps what is there in our token's stead. Without memory the explanation is poorer. */
RL_RARE static void note_value(struct rl_attempt *attempt, unsigned node,
                               struct rl_word value)
{
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
RL_RARE static bool say_again(struct rl_attempt *attempt, unsigned node,
                              const struct rl_op *op)
{
    if (!rl_lease_wants(&attempt->lease, op->text, op->seq) || is_outdated(attempt, op))
        return false;
    rl_client_freshen(attempt->task.client);
    return say(attempt, op->text, op->seq, op->plant, rl_bit(node)) == 0;
}

void rl_attempt_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                       const struct rl_reply *reply)
{
    struct rl_attempt *attempt = attempt_of(task);
    struct rl_answer heard;
    if (!rl_client_hear(task->client, attempt->wish->kind, node, op, reply, &heard) &&
        say_again(attempt, node, op))
        return;
    if (heard.value.len > 0)
        note_value(attempt, node, heard.value);
    bool trusted =
        heard.time == 0 || rl_wards_time(task->client, node, op->sent, heard.time);
    if (!trusted && op->text != RL_RELEASE) {
        heard.vote = RL_VOTE_UNKNOWN; /* what a wrong clock stores may end any time */
        heard.fault = RL_FAULT_CLOCK;
    }
    if (attempt->wish->kind->is_fenced)
        rl_steward_weigh(&task->client->steward, node, op->text, &heard);
    attempt->awaited |= heard.awaited;
    if (op->takes_place && attempt->owner && reply && heard.fault == RL_FAULT_NONE &&
        !heard.unplaced)
        rl_owner_placed(attempt->owner, node, op->sent);
    if (heard.fault == RL_FAULT_LATE || heard.fault == RL_FAULT_AHEAD)
        rl_wards_doubt(task->client, node);
    if (heard.fault == RL_FAULT_MARKER)
        rl_wards_disputed(task->client, node, op->sent);
    rl_attempt_step(attempt, &(struct rl_lease_event){
                                 .type = RL_EVENT_VOTE,
                                 .node = (uint8_t)node,
                                 .seq = op->seq,
                                 .text = op->text,
                                 .vote = heard.vote,
                                 .fault = heard.fault,
                                 .pttl = heard.pttl,
                                 .fence = heard.fence,
                                 .took = task->client->boot - op->asked,
                             });
}

/* A release is under way, or due, at a node that can be written to. */
bool rl_attempt_unsettled(struct rl_task *task)
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

static const struct rl_task_class attempt_class = {
    .tick = rl_attempt_tick,
    .expire = rl_attempt_expire,
    .forgot = rl_attempt_forgot,
    .ready = rl_attempt_ready,
    .answer = rl_attempt_answer,
    .unsettled = rl_attempt_unsettled,
    .over = rl_task_end,
    .close = rl_attempt_close,
    .destroy = destroy,
};

/* --- making --- */

size_t rl_attempt_room(const struct rl_wish *wish, size_t key_len, size_t token_len)
{
    size_t per_node =
        sizeof(struct rl_ballot) + (wish->kind->is_fenced ? sizeof(int64_t) : 0);
    return wish->terms.n * per_node + key_len + mark_len(wish) + token_len + 1;
}

void rl_attempt_init(struct rl_attempt *attempt, struct rl_wish *wish, void *room,
                     struct rl_word key, size_t token_len)
{
    int64_t *fences = wish->kind->is_fenced ? room : NULL;
    struct rl_ballot *ballot = fences ? (void *)(fences + wish->terms.n) : room;
    attempt->wish = rl_wish_share(wish);
    attempt->key_len = (uint16_t)key.len;
    attempt->token_len = (uint8_t)token_len;
    rl_lease_init(&attempt->lease, &wish->terms, ballot, fences);
    memcpy(texts_of(attempt), key.text, key.len);
    memcpy(texts_of(attempt) + key.len, rl_wards_fence_mark().text, mark_len(wish));
}

void rl_attempt_clear(struct rl_attempt *attempt)
{
    free(attempt->value);
    attempt->value = NULL;
    rl_wish_drop(attempt->wish);
    attempt->wish = NULL;
}

struct rl_attempt *rl_attempt_another(const struct rl_attempt *attempt)
{
    size_t room = rl_attempt_room(attempt->wish, attempt->key_len, attempt->token_len);
    struct rl_attempt *another = calloc(1, sizeof(*another) + room);
    if (!another)
        return NULL;
    rl_attempt_init(another, attempt->wish, another + 1, key_of(attempt),
                    attempt->token_len);
    another->lease.spread = attempt->lease.spread;
    if (!rl_task_init(&another->task, attempt->task.client, &attempt_class)) {
        rl_attempt_clear(another);
        free(another);
        return NULL;
    }
    return another;
}

char *rl_attempt_own(struct rl_attempt *attempt, redlock_lease *owner)
{
    const redlock_client *client = attempt->task.client;
    attempt->owner = owner;
    if (attempt->wish->kind->is_fenced)
        attempt->proposed = rl_nodes_now(client->time, client->n, client->view.now);
    token_of(attempt)[0] = '\0';
    return token_of(attempt);
}

/* To release once more what was released harms nothing. */
void rl_attempt_withdraw(struct rl_attempt *attempt)
{
    (void)say(attempt, RL_RELEASE, attempt->lease.round.seq, false,
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
        attempt->task.class->over(&attempt->task);
}
