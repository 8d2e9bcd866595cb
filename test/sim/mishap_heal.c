/* How all that is wrong ends, as far as a majority goes. */
#include "mishap_parts.h"

#include <string.h>

#include "world.h"

/* Somebody notices that what is there is no lock. */
static void drop_foreign(struct world *world, struct server *server)
{
    for (unsigned r = 0; r < world->swarm.resources; r++) {
        const struct store_entry *entry =
            store_find(&server->store, world_key(r), server_time(world, server));
        if (entry && !(entry->type == STORE_STRING && world_token_of(world, entry->value)))
            store_drop(&server->store, world_key(r));
    }
}

/* Those that stay broken hang, are down, cannot be reached or answer errors, for good. */
static void leave_broken(struct world *world, struct server *server)
{
    switch (prng_below(&world->prng, 5)) {
    case 0: server_hang(world, server, RL_NEVER); break;
    case 1: server_restart(world, server, RL_NEVER); break;
    case 2:
        for (unsigned c = 0; c < world->clients; c++)
            mishap_block(world, c, server->index, 3, RL_NEVER);
        break;
    case 3:
        server_heal(world, server);
        mishap_refuse(world, server, 3600 * RL_SECOND);
        break;
    case 4: world->healed |= rl_bit(server->index); break;
    }
}

/* They come back with the configuration that is right by now. */
static void heal_client(struct world *world, struct client *client)
{
    bool outdated = memcmp(client->address, world->address, sizeof(client->address)) != 0;
    if (client->alive && outdated)
        client_crash(world, client, false);
    if (!client->alive)
        client_start(world, client);
    client_rearm(world, client);
}

static void heal_server(struct world *world, struct server *server, bool well)
{
    if (well)
        world->healed |= rl_bit(server->index);
    else
        leave_broken(world, server);
    if (server->clock.ppm == SKEW_FROZEN)
        mishap_draw_server_clock(world, server->index);
    if (world->swarm.fenced && swarm_disturbs(&world->swarm))
        mishap_set_clock(world, server);
    if (world->healed & rl_bit(server->index))
        server_heal(world, server);
    drop_foreign(world, server);
}

/*
 * Who may have to give votes back needs all nodes to answer, and so finds that two
 * addresses lead to the same server. Without that a majority of the nodes is well, and it
 * stays.
 */
static void mend_addresses(struct world *world)
{
    unsigned last = NODES - 1;
    if (!swarm_disturbs(&world->swarm) || world->address[last] != world->address[last - 1])
        return;
    world->address[last] = (uint8_t)last;
    trace_mishap(world, "the address of node %u is that of server %u now", last + 1,
                 world->behind[last] + 1);
}

/* Nobody meets it any more who connects anew: it ends, and so do the lines to it. */
static bool is_left(const struct world *world, unsigned server)
{
    for (unsigned i = 0; i < NODES; i++)
        if (world->behind[world->address[i]] == server)
            return false;
    return true;
}

void mishap_heal(struct world *world)
{
    struct swarm *swarm = &world->swarm;
    unsigned order[NODES];
    bool all = swarm->duplicate || (swarm->fenced && swarm_disturbs(swarm));
    swarm->spike = swarm->loss = swarm->stall = swarm->muffle = 0;
    world->healed = 0;
    prng_shuffle(&world->prng, order, NODES);
    if (swarm->fenced)
        mend_addresses(world);
    for (unsigned c = 0; c < world->clients; c++)
        for (unsigned s = 0; s < SERVERS; s++)
            world->wire.path[c][s].there_blocked = world->wire.path[c][s].back_blocked = 0;
    for (unsigned i = 0; i < NODES; i++)
        heal_server(world, &world->server[world->behind[world->address[order[i]]]],
                    all || i < swarm->q);
    for (unsigned s = 0; s < SERVERS; s++)
        if (is_left(world, s))
            server_restart(world, &world->server[s], RL_NEVER);
    for (unsigned c = 0; swarm->fenced && c < world->clients; c++)
        mishap_draw_client_clock(world, c);
    for (unsigned c = 0; c < swarm->clients; c++)
        heal_client(world, &world->client[c]);
}

void mishap_hinder(struct world *world)
{
    for (unsigned c = 0; world->swarm.weights > 0 && c < world->swarm.clients; c++)
        for (unsigned s = 0; s < SERVERS; s++)
            if (draw_once_in(&world->prng, 4))
                mishap_block_path(world, &world->client[c], &world->server[s],
                                  draw_between(&world->prng, 0, HINDRANCE));
}
