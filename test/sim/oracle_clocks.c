/*
 * The oracle on servers' clocks beyond the bounds. A key that ends early for its server's
 * clock was set is a vote that is given twice: that is excused only where the client that
 * got the second vote could not see it, by what that server had told it before.
 */
#include "oracle_parts.h"
#include "world.h"

bool oracle_ran_ahead(const struct world *world, unsigned server, rl_time since)
{
    return world->server[server].fast || world->server[server].ahead_at >= since;
}

/* What is borne by the clock guard without a word, from when one answer was asked for. */
static rl_time borne(const struct world *world, rl_time span)
{
    rl_time drift = rl_max(world->swarm.drift_ppm, RL_CLOCK_PPM),
            ttl = world->swarm.ttl_max;
    return (ttl * drift / 1000000 + 2 * RL_MS) / 2 + span * drift / 2 / 1000000 + 2;
}

/* If it was so of a majority at once, a client that saw it must take its own clock for set.
 */
#define AT_ONCE (2 * RL_SECOND)

static void doubt(struct world *world, struct client *client)
{
    unsigned at_once = 0;
    for (unsigned i = 0; i < NODES; i++)
        at_once += client->sample[i].fault_at > 0 &&
                   world->now < client->sample[i].fault_at + AT_ONCE * 11 / 10;
    if (at_once > NODES / 2)
        client->doubts_until = world->now + AT_ONCE * 11 / 10;
    for (unsigned i = 0; world->now < client->doubts_until && i < NODES; i++)
        client->sample[i].seen_at = 0;
}

void oracle_sampled(struct world *world, struct client *client, const struct order *order,
                    rl_time told, bool trusted)
{
    struct sample *sample = &client->sample[order->node];
    struct sample old = *sample;
    /* Spans of ours by the clock that nobody slews. */
    rl_time heard = skew_read(&client->raw, world->now);
    rl_time sent = heard - (client->view.now - order->sent);
    const struct server *server = &world->server[order->server];
    bool same = old.server == order->server && old.process == server->process &&
                old.history == server->history;
    /* While it doubts its own clock the guard believes all, and knows nothing afterwards.
     */
    rl_time doubted_at = client->steward.doubted_at;
    bool doubts = doubted_at > 0 && client->view.now < doubted_at + RL_CLOCK_RECENT;
    if (told == 0 || !client->steward.roster.deployment) /* nothing depends on it yet */
        return;
    *sample = (struct sample){
        .known = trusted && !doubts,
        .server = order->server,
        .process = server->process,
        .history = server->history,
        .told = told,
        .sent = sent,
        .heard = heard,
        .fault_at = trusted ? old.fault_at : world->now,
        .seen_at = same ? old.seen_at : 0,
        .seal = old.seal,
    };
    rl_time gained = (told - heard) - (old.told - old.sent);
    if (old.known && same && gained > borne(world, heard - old.sent)) {
        sample->fault_at = sample->seen_at = world->now;
        sample->known = false; /* as the guard has it: the next answer is the first again */
        /* In quarantine it has no vote to lose. */
        sample->seal = oracle_seal(order->marker);
        if (!sample->seal.sound)
            sample->seal.generation = 0;
    }
    doubt(world, client);
}

void oracle_judge_clock(struct world *world, const struct client *client,
                        const struct order *order)
{
    const struct sample *sample = &client->sample[order->node];
    struct seal seal = oracle_seal(order->marker);
    if (sample->seen_at > 0 && sample->server == order->server &&
        sample->seal.generation > 0 && sample->seal.id == seal.id &&
        sample->seal.generation == seal.generation)
        oracle_accuse(world, INVARIANT_BARRED,
                      "client %u counts server %u, whose clock was set", client->index + 1,
                      order->server + 1);
}

static bool has_seen(const struct client *client, unsigned node, rl_time since)
{
    return client->sample[node].seen_at > 0 && client->sample[node].seen_at >= since;
}

bool oracle_clock_excuses(const struct world *world, const struct attempt *attempt,
                          unsigned node, const struct client *other)
{
    unsigned server = attempt->server[node];
    if (!world->swarm.fenced || !oracle_ran_ahead(world, server, attempt->ran[node]))
        return false;
    for (unsigned i = 0; i < NODES; i++)
        if (other->sample[i].server == server && has_seen(other, i, attempt->ran[node]))
            return false;
    return true;
}
