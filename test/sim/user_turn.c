/* A user who waits, as src/lease/waiting.c. */
#include "user_parts.h"
#include "world.h"

#define GRACE_CAP RL_SECOND
#define LOOK_GAP  (2 * RL_SECOND)
#define JITTER    (50 * RL_MS)

static rl_time grace_of(const struct client *client)
{
    rl_time longest = 0;
    for (unsigned i = 0; i < NODES; i++)
        longest = rl_max(longest, client->round_trip[i]);
    return rl_clamp(4 * longest, RL_NODE_TIMEOUT_MIN, GRACE_CAP);
}

static bool is_placed(const struct user *user)
{
    return user->retry.kind != RL_RETRY_CUSTOM &&
           rl_waiter_is_queued(&user->turn, user->terms.q);
}

static rl_time policy_at(struct world *world, const struct client *client,
                         const struct user *user)
{
    unsigned attempt = user->attempts > 0 ? user->attempts - 1 : 0;
    return rl_retry_at(&user->retry, attempt, prng_bits(&world->prng), client->view.now,
                       user->give_up);
}

static bool is_held_by_ours(const struct user *user)
{
    const struct attempt *attempt = user->attempt;
    for (unsigned i = 0; i < NODES; i++)
        if (attempt->ballot[i].vote == RL_VOTE_HELD && !(attempt->ours & rl_bit(i)))
            return false;
    return true;
}

rl_time user_next_attempt_at(struct world *world, struct client *client, struct user *user)
{
    rl_time now = client->view.now, at = policy_at(world, client, user);
    if (at == RL_NEVER && !user->queues)
        return RL_NEVER;
    int64_t free_in = rl_free_in(user->attempt->ballot, NODES, user->terms.q);
    bool calls = is_placed(user) && is_held_by_ours(user);
    if (user->queues && (!calls || free_in < 0))
        at = now;
    else if (user->queues && free_in == 0)
        at = now + grace_of(client);
    else if (calls && free_in > 0)
        at = now + rl_min(free_in * RL_MS, LOOK_GAP) +
             rl_uniform(prng_bits(&world->prng), JITTER);
    return rl_min(rl_min(at, user->called), rl_max(user->give_up, now));
}

bool user_can_begin(struct world *world, struct client *client, struct user *user)
{
    if (!user->behind || rl_count(ears_where(client)) >= user->terms.q)
        return true;
    ears_begin(client);
    user->behind = false;
    rl_time at = policy_at(world, client, user);
    user->next = at == RL_NEVER ? client->view.now : at;
    return false;
}

static void hasten(struct user *user, rl_time at)
{
    if (user->phase != USER_PAUSING || at >= user->next)
        return;
    user->next = at;
    user_plan(user);
}

void user_called(struct world *world, struct client *client, struct user *user,
                 unsigned node, uint16_t number, unsigned rank)
{
    bool waits = user->phase == USER_PAUSING || user->phase == USER_TRYING;
    if (!waits || number != user->number)
        return;
    rl_time at = rl_waiter_notified(&user->turn, user->terms.q, node, rank,
                                    client->view.now, grace_of(client));
    user->called = rl_min(user->called, at);
    trace_called(world, client, user, node, rank);
    hasten(user, at);
}

void user_hears(struct world *world, struct client *client, struct user *user,
                unsigned node, bool hears)
{
    bool was_placed = is_placed(user);
    if (!hears) {
        rl_waiter_dequeued(&user->turn, node);
        oracle_deaf(user, node);
    }
    if (user->phase != USER_PAUSING || !user->waits || is_placed(user) ||
        user->retry.kind == RL_RETRY_CUSTOM)
        return;
    if (was_placed)
        hasten(user, policy_at(world, client, user));
    else if (hears && rl_count(ears_where(client)) == user->terms.q)
        hasten(user, client->view.now);
}

/* A user that got the lock, or has given up, leaves the queue by its release. */
void user_place(struct world *world, const struct client *client, struct user *user,
                struct rl_command_args *subject)
{
    bool goes_on = user->phase == USER_TRYING && user->waits &&
                   client->view.now < user->give_up && client->listens;
    if (!goes_on && !user->entered)
        return;
    if (!user->entered)
        user->place = ear_place(world, client, user->number);
    user->entered = true;
    subject->queue_entry = user->place;
    subject->waited = goes_on ? client->view.now - user->began : -1;
}

void user_placed(const struct client *client, struct user *user, unsigned node,
                 rl_time sent)
{
    if (ear_since(client, node, sent))
        rl_waiter_queued(&user->turn, node);
}
