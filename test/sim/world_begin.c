/* How a run begins: clocks, servers and clients, as they are drawn. */
#include <string.h>

#include "world_parts.h"

void world_begin(struct world *world, uint64_t seed)
{
    FILE *to = world->trace.to;
    struct figures *figures = world->figures;
    memset(world, 0, offsetof(struct world, queue));
    world->trace.to = to;
    world->figures = figures;
    world->seed = seed;
    world->prng.state = seed;
    world->now = RL_SECOND;
    world->queue.size = world->queue.planned = 0;
    struct wire *wire = &world->wire;
    wire->lines = wire->orders = wire->sayings = 0;
    wire->free_lines = wire->free_orders = wire->free_sayings = 0;
    swarm_draw(&world->swarm, &world->prng);
    memset(wire->path, 0, sizeof(wire->path));
    world->clients = world->swarm.clients + world->swarm.fenced;
    for (unsigned c = 0; c < world->clients; c++)
        for (unsigned s = 0; s < SERVERS; s++)
            wire->path[c][s].latency =
                draw_span(&world->prng, world->swarm.near, world->swarm.far);
}

static struct skew some_clock(struct world *world)
{
    return (struct skew){
        .from = world->now,
        .local = draw_between(&world->prng, RL_SECOND, 1000000 * RL_SECOND),
    };
}

/* Fences want clocks that agree, more or less. */
#define DISAGREEMENT (200 * RL_MS)

static struct skew clock_of_server(struct world *world)
{
    struct skew clock = some_clock(world);
    if (world->swarm.fenced)
        clock.local =
            WORLD_TIME_OF_DAY + world->now + draw_between(&world->prng, 0, DISAGREEMENT);
    return clock;
}

/* The deployment was admitted before anybody came. */
static void found(struct world *world, unsigned first, unsigned servers)
{
    struct rl_marker marker = {.active = true};
    struct rl_roster *roster = &marker.roster;
    roster->deployment = prng_bits(&world->prng) | 1;
    if (first == 0)
        world->deployment = roster->deployment;
    roster->max_ttl_ms = world->swarm.ttl_max / RL_MS;
    for (roster->n = 0; roster->n < NODES; roster->n++)
        roster->member[roster->n] = (struct rl_incarnation){1, prng_bits(&world->prng)};
    for (unsigned i = 0; i < servers; i++) {
        marker.nonce = prng_bits(&world->prng);
        marker.index = (uint8_t)i;
        server_mark(world, &world->server[first + i], &marker);
    }
}

/* One of its nodes is a server that is none of them: an empty one, or another's. */
static void mistake(struct world *world, struct client *client)
{
    client->typo = true;
    world->mistaken = SERVERS - 1;
    client->address[prng_below(&world->prng, NODES)] = SERVERS - 1;
    if (world->fresh & rl_bit(SERVERS - 1) && draw_once_in(&world->prng, 2))
        found(world, SERVERS - 1, 1);
    world->fresh &= ~rl_bit(SERVERS - 1);
}

void world_populate(struct world *world)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        world->behind[i] = (uint8_t)i;
        if (i < NODES)
            world->address[i] = (uint8_t)i;
        else
            world->fresh |= rl_bit(i);
        world->server[i].clock = clock_of_server(world);
        mishap_draw_server_clock(world, i);
        server_init(world, i);
        world->server[i].store.queueless =
            world->swarm.turns && draw_once_in(&world->prng, 16);
        world->server[i].saved = world->server[i].store;
    }
    world->mistaken = SERVERS;
    if (world->swarm.duplicate)
        world->address[NODES - 1] = NODES - 2;
    if (world->swarm.fenced && !world->swarm.unfounded)
        found(world, 0, NODES);
    trace_begins(world);
    for (unsigned i = 0; i < world->clients; i++) {
        struct client *client = &world->client[i];
        client->index = (uint8_t)i;
        client->boot = some_clock(world);
        client->raw = some_clock(world);
        client->boot_is_good =
            world->swarm.weight[MISHAP_SUSPEND] > 0 || draw_once_in(&world->prng, 2);
        client->timer = 0;
        client->alive = false;
        client->users = i < world->swarm.clients ? world->swarm.users : 0;
        client->typo = false;
        client->ghost = (struct ghost){0};
        memset(client->ear, 0, sizeof(client->ear));
        memcpy(client->address, world->address, sizeof(client->address));
        if (world->swarm.weight[MISHAP_TYPO] > 0 && client->users > 0 &&
            draw_once_in(&world->prng, 3))
            mistake(world, client);
        mishap_draw_client_clock(world, i);
        if (client->users > 0)
            client_start(world, client);
    }
    if (world->swarm.unfounded)
        operator_founds(world);
    if (world->swarm.weights > 0)
        queue_plan(&world->queue, world->now + world->swarm.gap, EVENT_FAULT, 0, 0);
}
