/* When a handle that waits tries again (core/turn.h). */
#include "handle.h"
#include "listen.h"

#define GRACE_CAP RL_SECOND
#define LOOK_GAP  (2 * RL_SECOND)
#define JITTER    (50 * RL_MS) /* so that not all who wait for an end try at once */

/* What whoever was called before us has, until it is our turn all the same. */
static rl_time grace_of(const redlock_lease *lease)
{
    const redlock_client *client = lease->first.task.client;
    rl_time longest = 0;
    for (unsigned i = 0; i < client->n; i++)
        longest = rl_max(longest, client->round_trip[i]);
    return rl_clamp(4 * longest, RL_PATIENCE_FLOOR, GRACE_CAP);
}

/* It will be called. A caller who decides when to try is left to that. */
static bool is_placed(const redlock_lease *lease)
{
    return lease->first.wish->retry.kind != RL_RETRY_CUSTOM &&
           rl_turn_is_placed(&lease->turn, lease->first.wish->terms.q);
}

/* By the policy; RL_NEVER: no more. */
rl_time rl_turns_policy(redlock_lease *lease)
{
    redlock_client *client = lease->first.task.client;
    unsigned attempt = lease->attempts > 0 ? lease->attempts - 1 : 0;
    rl_time at = rl_retry_at(&lease->first.wish->retry, attempt, rl_client_random(client),
                             client->view.now, lease->give_up);
    if (lease->first.wish->retry.kind == RL_RETRY_CUSTOM)
        rl_client_called_back(client);
    return at;
}

/* What holds the lock are tokens of ours: who releases it calls. */
static bool is_held_by_ours(const redlock_lease *lease)
{
    const struct rl_attempt *attempt = lease->attempt;
    for (unsigned i = 0; i < lease->first.wish->terms.n; i++)
        if (attempt->lease.ballot[i].vote == RL_VOTE_HELD &&
            !(attempt->value && rl_token_is_ours(attempt->value[i])))
            return false;
    return true;
}

/*
 * Whoever will be called waits for the end of the lock that was seen, should nobody call,
 * and looks now and then. A lock that is free by now is for those before us: they were
 * called. RL_NEVER: not at all.
 */
rl_time rl_turns_next(redlock_lease *lease)
{
    const redlock_client *client = lease->first.task.client;
    const struct rl_lease *core = rl_handle_core(lease);
    rl_time now = client->view.now, at = rl_turns_policy(lease);
    if (at == RL_NEVER && !lease->queues)
        return RL_NEVER;
    int64_t free_in = rl_free_in(core->ballot, core->terms->n, core->terms->q);
    bool calls = is_placed(lease) && is_held_by_ours(lease);
    if (lease->queues && (!calls || free_in < 0))
        at = now;
    else if (lease->queues && free_in == 0)
        at = now + grace_of(lease);
    else if (calls && free_in > 0)
        at = now + rl_min(free_in * RL_MS, LOOK_GAP) +
             rl_uniform(rl_client_random(lease->first.task.client), JITTER);
    return rl_min(rl_min(at, lease->called), rl_max(lease->give_up, now));
}

/* An earlier time than was planned. */
static void hasten(redlock_lease *lease, rl_time at)
{
    if (lease->phase != RL_PHASE_PAUSING || at >= lease->next_attempt)
        return;
    lease->next_attempt = at;
    rl_task_due(&lease->first.task, at);
}

void rl_turns_called(struct rl_task *task, unsigned node, uint64_t number, unsigned rank)
{
    redlock_lease *lease = rl_handle_of(task);
    if (number != lease->number || lease->phase == RL_PHASE_SETTLED)
        return;
    rl_time at = rl_turn_call(&lease->turn, lease->first.wish->terms.q, node, rank,
                              task->client->view.now, grace_of(lease));
    lease->called = rl_min(lease->called, at);
    hasten(lease, at);
}

/*
 * Whoever cannot be called any more has to look by itself; and once more, to take a place,
 * as soon as it can be.
 */
void rl_turns_hear(struct rl_task *task, unsigned node, bool hears)
{
    redlock_lease *lease = rl_handle_of(task);
    bool was_placed = is_placed(lease);
    if (!hears)
        rl_turn_lose(&lease->turn, node);
    if (lease->phase != RL_PHASE_PAUSING || !lease->first.wish->waits || is_placed(lease) ||
        lease->first.wish->retry.kind == RL_RETRY_CUSTOM)
        return;
    if (was_placed)
        hasten(lease, rl_turns_policy(lease));
    else if (hears && rl_count(rl_listen_where(task->client)) == lease->first.wish->terms.q)
        hasten(lease, task->client->view.now);
}

/*
 * Whoever got the lock, or has given up, leaves the queue by its release. Who cannot be
 * called enters, too, so that it is known to be waiting.
 */
void rl_owner_place(redlock_lease *lease, struct rl_subject *subject)
{
    redlock_client *client = lease->first.task.client;
    bool goes_on = lease->phase == RL_PHASE_TRYING && lease->first.wish->waits &&
                   !lease->cancelled && !lease->freed &&
                   client->view.now < lease->give_up && client->ears;
    if (!goes_on && !lease->entered)
        return;
    lease->entered = true;
    subject->place = rl_listen_place(client, lease->number);
    subject->waited = goes_on ? client->view.now - lease->began : -1;
}

void rl_owner_placed(redlock_lease *lease, unsigned node, rl_time sent)
{
    if (rl_listen_since(lease->first.task.client, node, sent))
        rl_turn_place(&lease->turn, node);
}
