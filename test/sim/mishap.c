#include "mishap_parts.h"

#include "world.h"

/* --- clients --- */

#define OUTAGE (30 * RL_SECOND) /* that goes on for longer than a quarantine */

rl_time mishap_while(struct world *world)
{
    rl_time longest = 2 * world->swarm.ttl_max;
    return draw_span(&world->prng, RL_MS,
                     world->swarm.slow ? rl_max(longest, OUTAGE) : longest);
}

static void pause_client(struct world *world, struct client *client)
{
    rl_time span = mishap_while(world);
    trace_mishap(world, "client %u stands still for %lld ms", client->index + 1,
                 (long long)(span / RL_MS));
    client_pause(client, world->now + span);
}

/* CLOCK_MONOTONIC_RAW does not count it; if a hypervisor does it, no clock of the guest
 * does. */
static void suspend(struct world *world, struct client *client)
{
    rl_time span = mishap_while(world);
    trace_mishap(world, "client %u is suspended for %lld ms", client->index + 1,
                 (long long)(span / RL_MS));
    client_pause(client, world->now + span);
    skew_step(&client->raw, world->now, -span);
    if (world->swarm.wild)
        skew_step(&client->boot, world->now, -span);
}

static void crash(struct world *world, struct client *client)
{
    bool power = draw_once_in(&world->prng, 2);
    trace_mishap(world, "client %u dies%s", client->index + 1,
                 power ? " with its machine" : "");
    client_crash(world, client, power);
    queue_plan(&world->queue, world->now + mishap_while(world), EVENT_RETURN, client->index,
               0);
}

/* --- the network --- */

void mishap_block(struct world *world, unsigned client, unsigned server, unsigned ways,
                  rl_time until)
{
    struct path *path = &world->wire.path[client][server];
    if (ways & 1)
        path->there_blocked = rl_max(path->there_blocked, until);
    if (ways & 2)
        path->back_blocked = rl_max(path->back_blocked, until);
}

void mishap_block_path(struct world *world, const struct client *client,
                       const struct server *server, rl_time span)
{
    static const char *const texts[] = {"", "there", "back", "there and back"};
    unsigned ways = 1 + prng_below(&world->prng, 3);
    trace_mishap(world, "the way %s between client %u and server %u is blocked for %lld ms",
                 texts[ways], client->index + 1, server->index + 1,
                 (long long)(span / RL_MS));
    mishap_block(world, client->index, server->index, ways, world->now + span);
}

static void part(struct world *world)
{
    rl_node_set clients = (rl_node_set)prng_bits(&world->prng) & rl_all(CLIENTS_MAX);
    rl_node_set servers = (rl_node_set)prng_bits(&world->prng) & rl_all(SERVERS);
    rl_time span = mishap_while(world);
    trace_mishap(world, "clients %s and servers %s are parted from each other for %lld ms",
                 trace_set(clients & rl_all(world->clients)), trace_set(servers),
                 (long long)(span / RL_MS));
    for (unsigned c = 0; c < world->clients; c++)
        for (unsigned s = 0; s < SERVERS; s++)
            if (clients & rl_bit(c) && servers & rl_bit(s))
                mishap_block(world, c, s, 3, world->now + span);
}

static void cut_line(struct world *world, struct client *client, unsigned node)
{
    const struct member *member = &client->member[node];
    if (!client->alive || !member->has_line)
        return;
    trace_mishap(world, "the line between client %u and node %u is reset",
                 client->index + 1, node + 1);
    bool only_that = client->ear[node].heard && draw_once_in(&world->prng, 3);
    if (!only_that)
        wire_break(world, member->line);
    ear_cut(world, client, node);
}

/* --- all of them --- */

static enum mishap draw(struct world *world)
{
    const struct swarm *swarm = &world->swarm;
    unsigned at = prng_below(&world->prng, swarm->weights);
    unsigned i = 0;
    while (at >= swarm->weight[i])
        at -= swarm->weight[i++];
    return (enum mishap)i;
}

void mishap_strike(struct world *world)
{
    struct prng *prng = &world->prng;
    struct client *client = &world->client[prng_below(prng, world->clients)];
    bool any = world->swarm.fenced && draw_once_in(prng, 4);
    bool same = world->swarm.fenced && draw_once_in(prng, 3); /* before it is well again */
    unsigned address = same ? world->struck : prng_below(prng, NODES);
    struct server *server =
        &world->server[any ? prng_below(prng, SERVERS) : world->behind[address]];
    world->struck = address;
    enum mishap mishap = draw(world);
    bool of_client =
        mishap == MISHAP_PAUSE || mishap == MISHAP_SUSPEND || mishap == MISHAP_CRASH;
    if (of_client && (!client->alive || client->paused > world->now))
        return;
    world->figures->mishaps[mishap]++;
    if (world->swarm.fenced && draw_once_in(prng, 4))
        operator_recovers(world);
    switch (mishap) {
    case MISHAP_PAUSE: pause_client(world, client); break;
    case MISHAP_SUSPEND: suspend(world, client); break;
    case MISHAP_CRASH: crash(world, client); break;
    case MISHAP_BLOCK: mishap_block_path(world, client, server, mishap_while(world)); break;
    case MISHAP_PARTITION: part(world); break;
    case MISHAP_CUT: cut_line(world, client, address); break;
    case MISHAP_STOP: mishap_hang(world, server); break;
    case MISHAP_RESTART: mishap_restart(world, server, false); break;
    case MISHAP_FORGET: mishap_restart(world, server, true); break;
    case MISHAP_FLUSH: mishap_flush_some(world, server); break;
    case MISHAP_BREAK: mishap_break_key(world, server); break;
    case MISHAP_FOREIGN: mishap_put_foreign(world, server); break;
    case MISHAP_SCRIPTS: store_forget_scripts(&server->store); break;
    case MISHAP_REFUSE: mishap_refuse(world, server, mishap_while(world)); break;
    case MISHAP_GARBAGE: mishap_garble(world, server); break;
    case MISHAP_DEMOTE: mishap_demote(world, server); break;
    case MISHAP_STEP: mishap_step(world, server); break;
    case MISHAP_SLEW: mishap_slew(world, server); break;
    case MISHAP_FREEZE: mishap_freeze(world, server); break;
    case MISHAP_SWAP: mishap_swap(world, address); break;
    case MISHAP_REPLACE: operator_replaces(world, address); break;
    case MISHAP_TYPO: break; /* from the beginning on */
    case MISHAP_COUNT: break;
    }
}
