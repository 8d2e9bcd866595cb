/* The oracle on what is left: keys whose release is due, and at the end of a run all. */
#include <stdio.h>
#include <string.h>

#include "oracle_parts.h"
#include "world.h"

/* The process had a second and more to send the release to the node that stored it. */
static bool should_be_clean(const struct claim *claim, unsigned server)
{
    const struct client *client = &world.client[claim->client];
    if (!claim->is_cleaned || claim->is_handed || claim->is_ghost & rl_bit(server) ||
        client->number != claim->client_number || events_now() >= claim->clean_until)
        return false;
    unsigned node = claim->node[server];
    return client_reaches(client, node) && client->node[node].server == server;
}

/* --- as soon as a release is due --- */

#define OWED_LOOK (250 * VIRTUAL_MS)
#define OWED_MAX  (3 * VIRTUAL_S) /* it is sent every 500 ms, and once a node is greeted */

/* A finished token that a server has, though its client could take it away. */
static struct due {
    const struct claim *claim; /* NULL: none */
    int64_t since;             /* true time */
} due[CLIENTS_MAX][SERVERS_MAX][RESOURCES_MAX];

static int64_t latest_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Until when something was, or is, in the way of a release; true time. */
static int64_t hindered_until(const struct client *client, const struct server *server)
{
    const struct path *path = &network.path[client->index][server->index + 1];
    int64_t until = latest_of(path->up_blocked, path->down_blocked);
    until = latest_of(until, latest_of(server->error_until, server->garbage_until));
    until = latest_of(until, latest_of(server->denied_until, server->role_until));
    return server->node.state == NODE_RUNS ? latest_of(until, client->process.resumed)
                                           : CLOCK_NEVER;
}

static const struct claim *owed_on(const struct client *client, unsigned server,
                                   unsigned resource)
{
    const struct key *lock = server_lock(&world.server[server], resource);
    struct token_there there;
    for (size_t i = 0; lock && server_holder(lock, i, &there); i++) {
        const struct claim *claim = claim_of(there.token);
        if (claim && claim->client == client->index &&
            there.expires >= server_ms(&world.server[server]) &&
            should_be_clean(claim, server))
            return claim;
    }
    return NULL;
}

static void judge_due(const struct client *client, unsigned server, unsigned resource)
{
    struct due *key = &due[client->index][server][resource];
    const struct claim *claim = owed_on(client, server, resource);
    int64_t until = hindered_until(client, &world.server[server]);
    if (!claim) {
        key->claim = NULL;
        return;
    }
    if (key->claim != claim)
        *key = (struct due){claim, events_now()};
    key->since = latest_of(key->since, until);
    if (until != CLOCK_NEVER && events_now() > key->since + OWED_MAX)
        oracle_accuse(INVARIANT_LEFT, "%.8s on server %u, and the release is due",
                      claim->token, server + 1);
    if (until == CLOCK_NEVER)
        key->claim = NULL;
}

/* Slow messages, or a client without memory, make it due later. */
static bool judges_due(const struct plan *plan)
{
    return plan->weight[FAULT_ROOM] + plan->weight[FAULT_SPIKE] + plan->weight[FAULT_LOSS] +
               plan->weight[FAULT_MEMORY] + plan->weight[FAULT_RANDOM] ==
           0;
}

void oracle_judge_due(struct client *client)
{
    if (!judges_due(&world.plan) || events_now() < client->owed_look)
        return;
    client->owed_look = events_now() + OWED_LOOK;
    for (unsigned s = 0; s < SERVERS_MAX; s++)
        for (unsigned r = 0; r < world.plan.resources; r++)
            judge_due(client, s, r);
}

void oracle_due_begin(void)
{
    memset(due, 0, sizeof(due));
}

/* --- when a client is freed --- */

/* Keys of its acquires are released before the connections are closed. */
static struct owed {
    struct claim *claim;
    rl_node_set nodes;
    rl_node_set queued; /* its entries are taken away, too */
} owed[USERS_MAX];

static rl_node_set open_nodes(const struct client *client)
{
    rl_node_set nodes = 0;
    for (const struct connection *connection = network.connection; connection;
         connection = connection->next) {
        unsigned node = client_node_at(client, connection->host);
        if (connection->process == &client->process && node < world.plan.n &&
            connection->stream && !connection->error && client_reaches(client, node))
            nodes |= rl_bit(node);
    }
    return nodes;
}

static const struct client *freeing;

void oracle_frees(const struct client *client)
{
    freeing = client;
    for (unsigned i = 0; i < USERS_MAX; i++) {
        const struct user *user = &client->user[i];
        struct claim *claim = i < client->users && user->is_trying ? user->claim : NULL;
        owed[i] = (struct owed){.claim = claim};
        if (i < client->users && world.plan.weight[FAULT_ROOM] == 0)
            owed[i].queued = user->queued_at & open_nodes(client);
        if (claim && user->is_acquiring && world.plan.weight[FAULT_ROOM] == 0)
            owed[i].nodes =
                claim->asked & ~claim->told & ~claim->missing & open_nodes(client);
    }
}

void oracle_freed(const struct client *client)
{
    freeing = NULL;
    for (unsigned i = 0; i < USERS_MAX; i++)
        if (owed[i].queued & client->user[i].queued_at)
            oracle_accuse(INVARIANT_LEFT, "client %u is freed, and user %u stays queued",
                          client->index + 1, i + 1);
    for (unsigned i = 0; i < USERS_MAX; i++)
        if (owed[i].claim && owed[i].nodes & ~owed[i].claim->told &&
            owed[i].claim->failures == client->process.failed_allocations)
            oracle_accuse(INVARIANT_LEFT, "client %u is freed, and does not release %.8s",
                          client->index + 1, owed[i].claim->token);
}

/*
 * Without a reset, what is not delivered yet may be executed much later: only a client that
 * is freed wants that, for its releases.
 */
void oracle_closed(const struct client *client)
{
    if (client->is_alive && client->handle && freeing != client)
        oracle_accuse(INVARIANT_HELD_UP, "client %u gives up a connection without a reset",
                      client->index + 1);
}

/* Then the kernel sends a reset, and drops what it has not delivered. */
void oracle_unread(const struct client *client)
{
    if (freeing == client && world.plan.weight[FAULT_ROOM] == 0)
        oracle_accuse(INVARIANT_LEFT, "client %u is freed, and drops its releases",
                      client->index + 1);
}

/* --- when a client is drained --- */

static void judge_clean_key(const struct client *client, unsigned server, unsigned resource)
{
    const struct key *lock = server_lock(&world.server[server], resource);
    struct token_there there;
    for (size_t i = 0; lock && server_holder(lock, i, &there); i++) {
        const struct claim *claim = claim_of(there.token);
        if (claim && &world.client[claim->client] == client &&
            should_be_clean(claim, server))
            oracle_accuse(INVARIANT_TOLD, "client %u is clean, and server %u has %.8s",
                          client->index + 1, server + 1, claim->token);
    }
}

/* If a socket may take bytes late, a token may be stored long after it was asked for. */
void oracle_drained(const struct client *client)
{
    for (const struct connection *connection = network.connection; connection;
         connection = connection->next)
        if (connection->process == &client->process && connection->stream &&
            client_is_link(client, connection->owner) && command_is_awaited(connection))
            oracle_accuse(INVARIANT_TOLD,
                          "client %u is clean, and node %u has yet to reply",
                          client->index + 1, client_node_at(client, connection->host) + 1);
    for (unsigned s = 0; world.plan.weight[FAULT_ROOM] == 0 && s < SERVERS_MAX; s++)
        for (unsigned r = 0; r < world.plan.resources; r++)
            judge_clean_key(client, s, r);
}

/* --- at the end of a run --- */

static void look_at_user(const struct user *user, struct verdict *ret)
{
    if (user->phase == USER_IDLE)
        return;
    ret->broken = INVARIANT_CALLBACK;
    snprintf(ret->text, sizeof(ret->text), "client %u, user %u waits in vain",
             user->client->index + 1, user->index + 1);
}

/* A node that is well, and is not quarantined, may vote again. */
static void look_at_links(const struct client *client, struct verdict *ret)
{
    redlock_node node[NODES_MAX];
    for (unsigned i = 0; i < redlock_client_explain(client->handle, node, NODES_MAX); i++) {
        bool healed = world.healed & (1U << client->node[i].server);
        if (!healed || !client_reaches(client, i) ||
            node[i].verdict != REDLOCK_VERDICT_SUSPECT)
            continue;
        ret->broken = INVARIANT_LIVENESS;
        snprintf(ret->text, sizeof(ret->text), "client %u does not ask node %u",
                 client->index + 1, i + 1);
    }
}

static void look_at_key(unsigned server, unsigned resource, struct verdict *ret)
{
    const struct key *lock = server_lock(&world.server[server], resource);
    struct token_there there;
    for (size_t i = 0; lock && server_holder(lock, i, &there); i++) {
        const struct claim *claim = claim_of(there.token);
        if (!claim || there.expires < server_ms(&world.server[server]) ||
            !should_be_clean(claim, server))
            continue;
        ret->broken = INVARIANT_LEFT;
        snprintf(ret->text, sizeof(ret->text), "%.8s on server %u", claim->token,
                 server + 1);
    }
}

struct verdict oracle_open(void)
{
    struct verdict open = {.at = events_now()};
    for (unsigned c = 0; c < world.plan.clients && !open.broken; c++) {
        const struct client *client = &world.client[c];
        for (unsigned u = 0; u < client->users && client->is_alive && !open.broken; u++)
            look_at_user(&client->user[u], &open);
        if (client->handle && !open.broken)
            look_at_links(client, &open);
    }
    for (unsigned s = 0; s < SERVERS_MAX; s++)
        for (unsigned r = 0; r < world.plan.resources && !open.broken; r++)
            if (world.healed & (1U << s))
                look_at_key(s, r, &open);
    return open;
}
