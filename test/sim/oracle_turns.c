/* The oracle on those who wait: who is called by a quorum comes, and who leaves has left.
 */
#include "oracle_parts.h"

#include "world.h"

#define GRACE_MOST (1500 * RL_MS) /* a second, by a clock that may be slow */
#define SLACK      (10 * RL_MS)

/* Who waits in that name, or NULL. */
static struct user *waiting(struct world *world, struct rl_word place,
                            struct client **ret_client)
{
    struct client *client = ear_client_of(world, place);
    for (unsigned i = 0; client && i < client->users; i++) {
        struct user *user = &client->user[i];
        bool waits = user->phase == USER_PAUSING || user->phase == USER_TRYING;
        *ret_client = client;
        if (waits && user->waits && user->number == ear_number_of(place))
            return user;
    }
    return NULL;
}

/* It is to come by then, unless it hears no more. */
static void expect(const struct world *world, const struct client *client,
                   struct user *user, rl_time grace)
{
    rl_time at = rl_max(world->now, client->paused);
    for (unsigned i = 0; i < NODES; i++)
        if (client->ear[i].heard)
            at = rl_max(at, client->ear[i].back);
    rl_time due = rl_time_add_sat(at, 2 * world->swarm.far + SLACK + grace);
    user->expected = rl_min(user->expected, due);
}

static void note_call(struct world *world, unsigned server, struct rl_word place,
                      bool is_first)
{
    struct client *client;
    struct user *user = waiting(world, place, &client);
    if (!user)
        return;
    for (unsigned i = 0; i < NODES; i++) {
        const struct ear *ear = &client->ear[i];
        bool reaches = world->wire.path[client->index][server].back_blocked <= world->now;
        if (!reaches || !ear->heard || ear->state != EAR_LISTENING || ear->server != server)
            continue;
        user->called_by |= rl_bit(i);
        user->first_by |= is_first ? rl_bit(i) : 0;
    }
    if (rl_count(user->first_by) >= user->terms.q)
        expect(world, client, user, 0);
    else if (rl_count(user->called_by) >= user->terms.q)
        expect(world, client, user, GRACE_MOST);
    else if (user->called_by)
        expect(world, client, user, 2 * GRACE_MOST);
}

/* `before`: the server's store. The first who listens, and who stands behind that one. */
void oracle_calls(struct world *world, const struct order *order,
                  const struct store *before)
{
    struct ear_of ear_of = {world, order->server};
    const struct store_ears ears = {ear_hears, &ear_of};
    struct rl_word key = world_key(world->token[order->token].resource);
    const struct store_place *place = NULL;
    bool found = false;
    if (order->enters || order->truth != RL_VOTE_GRANTED)
        return;
    while ((place = store_next_place(before, key, place))) {
        bool own = order->leaves && place->place.text == order->place.text;
        if (own || (!found && !store_hears(&ears, place->place)))
            continue;
        note_call(world, order->server, place->place, !found);
        if (found)
            return;
        found = true;
    }
}

/* A release that leaves the queue has run. */
void oracle_leaves(struct world *world, const struct order *order)
{
    const struct store *store = &world->server[order->server].store;
    struct rl_word key = world_key(world->token[order->token].resource);
    const struct store_place *place = NULL;
    while ((place = store_next_place(store, key, place)))
        if (place->place.text == order->place.text)
            oracle_accuse(world, INVARIANT_LEFT, "a place of client %u on server %u",
                          order->client + 1, order->server + 1);
}

void oracle_deaf(struct user *user, unsigned node)
{
    user->called_by &= ~rl_bit(node);
    user->first_by &= ~rl_bit(node);
    if (rl_count(user->called_by) < user->terms.q)
        user->expected = RL_NEVER;
}

/* An attempt begins, or nobody waits any more. */
void oracle_comes(struct user *user)
{
    user->called_by = user->first_by = 0;
    user->expected = RL_NEVER;
}

/* An attempt has failed: what was called meanwhile counts from now on. */
void oracle_fails(const struct world *world, struct user *user)
{
    if (user->expected != RL_NEVER)
        user->expected = rl_max(user->expected, world->now);
}

/* Its process stands still until then. */
void oracle_pauses(struct client *client, rl_time until)
{
    for (unsigned i = 0; i < client->users; i++)
        if (client->user[i].expected != RL_NEVER)
            client->user[i].expected = rl_max(client->user[i].expected, until + SLACK);
}

void oracle_judge_turns(struct world *world, const struct client *client)
{
    if (world->hindered)
        return;
    for (unsigned i = 0; i < client->users; i++) {
        const struct user *user = &client->user[i];
        if (user->phase == USER_PAUSING && world->now > user->expected)
            oracle_accuse(world, INVARIANT_LIVENESS,
                          "client %u, user %u was called by nodes %s and does not come",
                          client->index + 1, i + 1, trace_set(user->called_by));
    }
}
