/* All faults end, as far as a majority goes. */
#include <string.h>

#include "fault_parts.h"
#include "prng.h"
#include "world.h"

/* Somebody notices that what is there is no lock. */
static void drop_foreign(struct server *server)
{
    struct keyspace *keyspace = &server->node.redis->keyspace;
    for (unsigned r = 0; r < world.plan.resources; r++) {
        struct rl_word name = {world_key(r), strlen(world_key(r))};
        struct key *key = keyspace_find(keyspace, 0, name, server_ms(server));
        struct token_there there;
        if (key && !(server_holder(key, 0, &there) && claim_of(there.token)))
            keyspace_delete(keyspace, key);
        struct rl_word fence = {world_fence_key(r), strlen(world_fence_key(r))};
        key = keyspace_find(keyspace, 0, fence, server_ms(server));
        if (key && server_fence(server, r) == 0)
            keyspace_delete(keyspace, key);
    }
}

#define LONG (3600 * VIRTUAL_S)

/* Servers that stay broken hang, are down, cannot be reached or reply with errors, for
   good. */
static void leave_broken(struct server *server)
{
    switch (events_random(5)) {
    case 0: server_hang(server, CLOCK_NEVER); break;
    case 1: server_restart(server, CLOCK_NEVER); break;
    case 2:
        for (unsigned c = 0; c < world.clients; c++)
            fault_block(c, server->index, 3, CLOCK_NEVER);
        break;
    case 3:
        server_heal(server);
        fault_refuse(server, LONG);
        break;
    default: world.healed |= 1U << server->index; break;
    }
}

/* Clients come back with the configuration that is right by now. */
static void heal_client(struct client *client)
{
    bool outdated = memcmp(client->address, world.address, sizeof(client->address)) != 0;
    client->ends = false;
    if (client->is_alive && outdated)
        client_kill(client, false);
    event_cancel(&client->returns);
    event_cancel(&client->pauses);
    if (!client->is_alive)
        client_start(client);
    client_calm(client);
}

static void heal_server(struct server *server, bool well)
{
    if (well)
        world.healed |= 1U << server->index;
    else
        leave_broken(server);
    if (server->node.clock.ppm == CLOCK_STOPPED)
        fault_draw_server_clock(server);
    if (world.plan.fenced && plan_disturbs(&world.plan))
        fault_set_clock(server);
    if (world.healed & 1U << server->index)
        server_heal(server);
    drop_foreign(server);
}

/*
 * Clients that may have to give votes back need all nodes to reply, and so find that two
 * addresses lead to the same server. Without that a majority of the nodes is well, and it
 * stays.
 */
static void mend_addresses(void)
{
    unsigned last = world.plan.n - 1;
    if (!plan_disturbs(&world.plan) || last == 0 ||
        network.address[world.address[last]].server !=
            network.address[world.address[last - 1]].server)
        return;
    network.address[world.address[last]].server = last + 1;
    TRACE("the address of node %u leads to a server of its own now", last + 1);
}

/*
 * Resets the connections to servers that their addresses do not lead to any more. A client
 * keeps a connection to a server that replies, and refuses the same server at its right
 * address. So it would do without the right server to the end.
 */
static void reset_misled(void)
{
    struct connection *next;
    for (struct connection *connection = network.connection; connection;
         connection = next) {
        next = connection->next;
        if (connection->stream &&
            connection->server != network.address[connection->host].server)
            connection_cut(connection, false);
    }
}

/* Nobody meets it any more who connects anew: it ends, and so do its connections. */
static bool is_left(unsigned server)
{
    for (unsigned i = 0; i < world.plan.n; i++)
        if (world_server_behind(world.address[i])->index == server)
            return false;
    return true;
}

void fault_heal(void)
{
    const struct plan *plan = &world.plan;
    unsigned order[NODES_MAX];
    struct prng prng = {events_random(UINT32_MAX)};
    bool all = plan->duplicate || (plan->fenced && plan_disturbs(plan));
    world.healed = 0;
    prng_shuffle(&prng, order, plan->n);
    if (plan->fenced)
        mend_addresses();
    for (unsigned c = 0; c < world.clients; c++)
        for (unsigned s = 0; s < SERVERS_MAX; s++)
            network.path[c][s + 1].up_blocked = network.path[c][s + 1].down_blocked = 0;
    for (unsigned i = 0; i < NETWORK_HOSTS; i++)
        network.address[i] = (struct address){.server = network.address[i].server,
                                              .lookup_delay = VIRTUAL_MS};
    for (unsigned i = 0; i < plan->n; i++)
        heal_server(world_server_behind(world.address[order[i]]), all || i < plan->q);
    for (unsigned s = 0; s < SERVERS_MAX; s++)
        if (is_left(s))
            server_restart(&world.server[s], CLOCK_NEVER);
    reset_misled();
    fault_set_network();
    for (unsigned c = 0; plan->fenced && c < world.clients; c++)
        fault_draw_client_clock(&world.client[c]);
    for (unsigned c = 0; c < plan->clients; c++)
        heal_client(&world.client[c]);
}

void fault_hinder(void)
{
    for (unsigned c = 0; world.plan.weights > 0 && c < world.plan.clients; c++)
        for (unsigned s = 0; s < SERVERS_MAX; s++)
            if (draw_once_in(4))
                fault_block_path(&world.client[c], &world.server[s],
                                 draw_between(0, HINDRANCE));
}
