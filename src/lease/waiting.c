#include "waiting.h"

#include <string.h>

#include "base/token.h"
#include "handle.h"
#include "telemetry.h"

#define GRACE_CAP   RL_SECOND
#define RECHECK_GAP (2 * RL_SECOND)
#define JITTER      (50 * RL_MS) /* so that not all waiters for one expiry try at once */

/* As long as a slot of a semaphore seems free, others may be faster so often in a row. */
#define SEARCHES_MAX 3

/* A waiter renews its intent with each attempt: when it rechecks, and its nodes are slow.
 */
#define INTENT_LIFE     (RECHECK_GAP + RL_SECOND)
#define INTENT_TIMEOUTS 4

rl_time rl_waiting_end(const redlock_lease *lease)
{
    int64_t ms = lease->first.config->options.wait_ms;
    return ms < 0 ? RL_NEVER : rl_time_add_sat(lease->waiting.began, ms * RL_MS);
}

bool rl_waiting_is_over(const redlock_lease *lease)
{
    return lease->first.task.loop->now >= rl_waiting_end(lease);
}

/* How long this waiter leaves the lock to a waiter that was notified before it. */
static rl_time grace_of(const redlock_lease *lease)
{
    const redlock_client *client = rl_client_of(&lease->first.task);
    rl_time longest = 0;
    for (unsigned i = 0; i < client->nodes.n; i++)
        longest = rl_max(longest, client->nodes.round_trip[i]);
    return rl_clamp(4 * longest, RL_NODE_TIMEOUT_MIN, GRACE_CAP);
}

/*
 * True if a release will notify this waiter. Always false with a custom retry policy: then
 * the caller alone decides when to try.
 */
static bool is_queued(const redlock_lease *lease)
{
    return lease->first.config->retry.kind != RL_RETRY_CUSTOM &&
           rl_waiter_is_queued(&lease->waiting.waiter, lease->first.config->params.q);
}

rl_time rl_waiting_policy(redlock_lease *lease)
{
    redlock_client *client = rl_client_of(&lease->first.task);
    unsigned attempt = lease->waiting.attempts > 0 ? lease->waiting.attempts - 1 : 0;
    rl_time at =
        rl_retry_at(&lease->first.config->retry, attempt, rl_loop_random(&client->loop),
                    client->loop.now, rl_waiting_end(lease));
    if (lease->first.config->retry.kind == RL_RETRY_CUSTOM)
        rl_loop_called_back(&client->loop);
    return at;
}

static bool notifies(const char *value)
{
    return rl_token_is_ours(value) || strcmp(value, REDLOCK_WAITING_WRITER) == 0;
}

/* True if all values seen are redlock tokens: their holders notify waiters on release. */
static bool is_held_by_ours(const redlock_lease *lease)
{
    const struct rl_attempt *attempt = lease->attempt;
    for (unsigned i = 0; i < lease->first.config->params.n; i++)
        if (attempt->lease.ballot[i].vote == RL_VOTE_HELD &&
            !(attempt->value && notifies(attempt->value[i])))
            return false;
    return true;
}

/* The key that was taken on most nodes, the first of those; `otherwise`: none was. */
static unsigned most_taken(const redlock_lease *lease, unsigned otherwise)
{
    const struct rl_lease *core = rl_handle_core(lease);
    unsigned nodes[RL_SET_MAX] = {0}, most = 0, found = otherwise;
    for (unsigned i = 0; i < core->params->n; i++)
        if (core->ballot[i].vote == RL_VOTE_HELD)
            nodes[core->ballot[i].key]++;
    for (unsigned key = 0; key < lease->first.set->count; key++)
        if (nodes[key] > most) {
            most = nodes[key];
            found = key;
        }
    return found;
}

/* True if those who are in the way will notify this waiter where it waits. */
static bool is_in_right_queue(const redlock_lease *lease)
{
    return is_held_by_ours(lease) &&
           (!lease->first.set || most_taken(lease, RL_NO_KEY) == lease->waiting.queue_at);
}

/* --- semaphores --- */

/*
 * A slot of a semaphore that is free on q nodes, as the releases of the last attempt were
 * told; any of them, so that not all clients want the same one. 0: there is none.
 */
static unsigned free_slot(const redlock_lease *lease)
{
    const struct rl_attempt *attempt = lease->attempt;
    const struct rl_lease_config *config = lease->first.config;
    unsigned found[RL_SLOTS_MAX], count = 0;
    for (unsigned slot = 1; slot <= config->options.slots; slot++) {
        unsigned nodes = 0;
        for (unsigned i = 0; i < config->params.n; i++)
            nodes += rl_attempt_sees_free(attempt, i, slot);
        if (nodes >= config->params.q)
            found[count++] = slot;
    }
    if (count == 0)
        return 0;
    return found[rl_uniform(rl_loop_random(lease->first.task.loop), count - 1)];
}

/* True: the last attempt was refused, and another slot is free: it is tried at once. */
static bool finds_slot(redlock_lease *lease)
{
    struct rl_waiting *waiting = &lease->waiting;
    const struct rl_lease_config *config = lease->first.config;
    if (config->kind->type != REDLOCK_KIND_SLOT ||
        (config->waits && rl_waiting_is_over(lease)))
        return false;
    unsigned slot = free_slot(lease);
    bool tries = slot > 0 && waiting->searches < SEARCHES_MAX;
    if (tries)
        waiting->slot = (uint8_t)slot;
    waiting->searches = tries ? waiting->searches + 1 : 0;
    return tries;
}

unsigned rl_waiting_slot(redlock_lease *lease)
{
    redlock_client *client = rl_client_of(&lease->first.task);
    unsigned slots = lease->first.config->options.slots;
    unsigned slot = lease->waiting.slot;
    lease->waiting.slot = 0;
    if (slot == 0 && lease->waiting.attempts <= 1) /* the first: where it was before */
        slot = client->last_slot;
    client->last_slot = 0; /* the next one looks elsewhere */
    return slot > 0 && slot <= slots
               ? slot
               : 1 + (unsigned)rl_uniform(rl_loop_random(&client->loop), slots - 1);
}

/*
 * A queued waiter waits for a notification. In case none comes, it tries again when the
 * lock that it saw expires, and at least every RECHECK_GAP. If the lock is free when it
 * joins the tail, it waits for the grace time: earlier waiters were notified and come
 * first.
 */
rl_time rl_waiting_next_attempt(redlock_lease *lease)
{
    const redlock_client *client = rl_client_of(&lease->first.task);
    const struct rl_lease *core = rl_handle_core(lease);
    rl_time now = client->loop.now;
    if (finds_slot(lease))
        return now;
    rl_time at = rl_waiting_policy(lease);
    bool joined = lease->state == RL_HANDLE_JOINING;
    if (at == RL_NEVER && !joined)
        return RL_NEVER;
    int64_t free_in = rl_free_in(core->ballot, core->params->n, core->params->q);
    bool will_notify = is_queued(lease) && is_in_right_queue(lease);
    if (joined && (!will_notify || free_in < 0))
        at = now;
    else if (joined && free_in == 0)
        at = now + grace_of(lease);
    else if (will_notify && free_in > 0)
        at = now + rl_min(free_in * RL_MS, RECHECK_GAP) +
             rl_uniform(rl_loop_random(lease->first.task.loop), JITTER);
    return rl_min(rl_min(at, lease->waiting.next_attempt),
                  rl_max(rl_waiting_end(lease), now));
}

/* Moves the next attempt to an earlier time. */
static void hasten(redlock_lease *lease, rl_time at)
{
    lease->waiting.next_attempt = rl_min(lease->waiting.next_attempt, at);
    if (lease->state == RL_HANDLE_DELAYED)
        rl_task_schedule(&lease->first.task, lease->waiting.next_attempt);
}

bool rl_waiting_notified(struct rl_task *task, unsigned node, unsigned position,
                         unsigned slot)
{
    redlock_lease *lease = rl_handle_of(task);
    rl_telemetry_notified(lease, node, position);
    if (slot > 0 && slot <= lease->first.config->options.slots) {
        lease->waiting.slot = (uint8_t)slot;
        lease->waiting.searches = 0;
    }
    const struct rl_lease *core = rl_handle_core(lease);
    if (!rl_handle_is_acquiring(lease)) /* the release of a lock that it has passes it on */
        return core && core->held && !rl_attempt_is_past(lease->attempt);
    hasten(lease, rl_waiter_notified(&lease->waiting.waiter, lease->first.config->params.q,
                                     node, position, task->loop->now, grace_of(lease)));
    return true;
}

void rl_waiting_attempt(redlock_lease *lease)
{
    struct rl_waiting *waiting = &lease->waiting;
    waiting->has_queue = false;
    rl_waiter_attempt(&waiting->waiter);
}

/*
 * A set waits at one of its keys: at the one that was in its way on most nodes. The next
 * waiter of a key is notified where the set moves to another. A set that stays at a key
 * notifies nobody: it could be itself, and without end.
 * Chosen once after an attempt, because a release may be sent again.
 */
static void choose_queue(redlock_lease *lease, bool goes_on, bool was_queued)
{
    struct rl_waiting *waiting = &lease->waiting;
    if (goes_on && waiting->has_queue)
        return;
    uint8_t before = waiting->queue_at;
    if (goes_on)
        waiting->queue_at = (uint8_t)most_taken(lease, before);
    bool moves = goes_on && was_queued && waiting->queue_at != before;
    waiting->queue_from = moves ? before : RL_NO_KEY;
    waiting->has_queue = true;
}

/* The nodes that may vote on it. */
static rl_node_set voters(const redlock_lease *lease)
{
    const redlock_client *client = rl_client_of(&lease->first.task);
    return lease->first.config->kind->is_fenced
               ? client->members.active & client->nodes.awake
               : client->nodes.view.ready;
}

/* Enough nodes may vote again, or can notify it. */
static bool is_worth_an_attempt(const redlock_lease *lease, enum rl_task_event event)
{
    const redlock_client *client = rl_client_of(&lease->first.task);
    const struct rl_lease *core = rl_handle_core(lease);
    unsigned q = lease->first.config->params.q;
    if (event == RL_TASK_READY || event == RL_TASK_ACTIVE)
        return core && core->cause == RL_CAUSE_NO_QUORUM && rl_count(voters(lease)) >= q;
    return event == RL_TASK_SUBSCRIBED && lease->first.config->waits &&
           rl_count(rl_notifications_nodes(&client->notifications)) == q;
}

/*
 * A waiter that can no longer be notified falls back to its retry policy. As soon as a
 * quorum of nodes can notify it, it tries once more, to join their queues; and if it found
 * no quorum, as soon as there is one.
 */
void rl_waiting_event(struct rl_task *task, enum rl_task_event event, unsigned node)
{
    redlock_lease *lease = rl_handle_of(task);
    bool was_queued = is_queued(lease);
    if (event == RL_TASK_UNSUBSCRIBED)
        rl_waiter_dequeued(&lease->waiting.waiter, node);
    if (lease->state != RL_HANDLE_DELAYED || is_queued(lease) ||
        lease->first.config->retry.kind == RL_RETRY_CUSTOM)
        return;
    if (was_queued)
        hasten(lease, rl_waiting_policy(lease));
    else if (is_worth_an_attempt(lease, event))
        hasten(lease, task->loop->now);
}

/*
 * How long this waiter keeps readers out of the lock. 0 while too few nodes may vote: it
 * could not follow them.
 */
static int64_t intent_ms(const redlock_lease *lease)
{
    const redlock_client *client = rl_client_of(&lease->first.task);
    const struct rl_lease_params *params = &lease->first.config->params;
    rl_time timeout = 0;
    if (rl_count(voters(lease)) < params->q)
        return 0;
    for (unsigned i = 0; i < params->n; i++)
        timeout = rl_max(timeout, rl_lease_node_timeout(params->node_timeout, params->ttl,
                                                        client->nodes.round_trip[i]));
    return (INTENT_LIFE + INTENT_TIMEOUTS * timeout) / RL_MS;
}

/*
 * A waiter that got the lock or gave up leaves the queue with its release. A waiter that
 * cannot be notified is queued too, so that a release can report it.
 */
static void set_queue_entry(redlock_lease *lease, struct rl_command_args *args)
{
    struct rl_task *task = &lease->first.task;
    redlock_client *client = rl_client_of(task);
    bool goes_on = rl_handle_is_trying(lease) && lease->first.config->waits &&
                   rl_notifications_started(&client->notifications) &&
                   !rl_waiting_is_over(lease);
    bool was_queued = lease->waiting.number != 0;
    if (goes_on && !was_queued)
        lease->waiting.number = rl_waiter_table_add(&client->notifications.waiters, task);
    if (!lease->waiting.number)
        return;
    args->queue_entry =
        rl_notifications_queue_entry(&client->notifications, lease->waiting.number);
    args->waited = goes_on ? client->loop.now - lease->waiting.began : -1;
    args->intent_ms = goes_on ? intent_ms(lease) : 0;
    if (lease->first.set) {
        choose_queue(lease, goes_on, was_queued);
        args->queue_at = lease->waiting.queue_at;
        args->queue_from = lease->waiting.queue_from;
    }
}

void rl_waiting_set_args(struct rl_task *task, enum rl_command command,
                         struct rl_command_args *args)
{
    redlock_lease *lease = rl_handle_of(task);
    struct rl_notifications *notifications = &rl_client_of(task)->notifications;
    if (command == RL_CMD_RELEASE)
        set_queue_entry(lease, args);
    else if (command == RL_CMD_ACQUIRE)
        args->waited = task->loop->now - lease->waiting.began;
    else if (lease->downgrades && lease->waiting.number) {
        args->queue_entry =
            rl_notifications_queue_entry(notifications, lease->waiting.number);
        args->waited = -1;
    }
}

void rl_waiting_queued(struct rl_task *task, unsigned node, rl_time sent)
{
    if (rl_notifications_since(&rl_client_of(task)->notifications, node, sent))
        rl_waiter_queued(&rl_handle_of(task)->waiting.waiter, node);
}
