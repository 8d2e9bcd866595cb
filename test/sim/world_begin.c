/* The begin of a run: clocks, servers and clients, as they are drawn; and how it ends. */
#include <string.h>

#include "auditor.h"
#include "fault_parts.h"
#include "operator.h"
#include "world.h"

static uint64_t draw_bits(void)
{
    return events_random(UINT64_MAX);
}

static void on_fault(void *arg)
{
    (void)arg;
    fault_strike();
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        if (draw_once_in(2))
            keyspace_copy(&world.server[i].saved, &world.server[i].node.redis->keyspace);
    int64_t next = events_now() + draw_span(world.plan.gap / 4 + 1, 2 * world.plan.gap);
    event_at(&world.fault, rl_max(next, world.quiet_until));
}

/* The deployment was admitted before any client came. */
static void found(unsigned first, unsigned servers)
{
    struct rl_marker marker = {.active = true, .promises = world.plan.promises};
    struct rl_roster *roster = &marker.roster;
    roster->deployment = draw_bits() | 1;
    if (first == 0)
        world.deployment = roster->deployment;
    roster->max_ttl_ms = world.plan.ttl_max / VIRTUAL_MS;
    for (roster->n = 0; roster->n < world.plan.n; roster->n++)
        roster->member[roster->n] = (struct rl_incarnation){1, draw_bits()};
    for (unsigned i = 0; i < servers; i++) {
        marker.nonce = draw_bits();
        marker.index = (uint8_t)i;
        server_mark(&world.server[first + i], &marker);
    }
}

/* One of its nodes is a server that is none of them: an empty one, or another's. */
static void mistake(struct client *client)
{
    unsigned wrong = world.plan.n + SPARES - 1;
    client->has_typo = true;
    world.faults[FAULT_TYPO]++;
    world.mistaken = wrong;
    client->address[events_random(world.plan.n)] = wrong + 1;
    if (world.fresh & 1U << wrong && draw_once_in(2))
        found(wrong, 1);
    world.fresh &= ~(1U << wrong);
}

static void begin_servers(void)
{
    for (unsigned i = 0; i < SERVERS_MAX; i++) {
        struct server *server = &world.server[i];
        server_begin(server, i);
        fault_begin_clock(server);
        fault_begin_memory(server);
        if (i < world.plan.n)
            world.address[i] = i + 1;
        else if (i < world.plan.n + SPARES)
            world.fresh |= 1U << i;
    }
    world.mistaken = SERVERS_MAX;
    if (world.plan.duplicate)
        network.address[world.plan.n].server = world.plan.n - 1;
    if (world.plan.fenced && !world.plan.unadmitted)
        found(0, world.plan.n);
}

static void begin_clients(void)
{
    for (unsigned i = 0; i < world.clients; i++) {
        struct client *client = &world.client[i];
        client_init(client, i);
        client->raw_is_good = world.plan.weight[FAULT_SUSPEND] == 0 && draw_once_in(2);
        client->users = i < world.plan.clients ? world.plan.users : 0;
        memcpy(client->address, world.address, sizeof(client->address));
        bool typo = world.plan.weight[FAULT_TYPO] > 0 && client->users > 0;
        if (typo && draw_once_in(3))
            mistake(client);
        for (unsigned s = 0; s < SERVERS_MAX; s++)
            network.path[i][s + 1].latency = draw_span(world.plan.near, world.plan.far);
    }
    operator_init();
    for (unsigned i = 0; i < world.clients; i++) {
        fault_draw_client_clock(&world.client[i]);
        if (world.client[i].users > 0)
            client_start(&world.client[i]);
    }
    if (world.plan.unadmitted)
        operator_founds();
}

#define BEGIN VIRTUAL_S

static void nothing(void *arg)
{
    (void)arg;
}

/* So that no clock is at its begin. */
static void skip_to_begin(void)
{
    struct event event = {.happen = nothing};
    event_at(&event, BEGIN);
    while (events_step(BEGIN))
        ;
}

void world_begin(uint64_t seed, const struct cut *cut)
{
    FILE *to = world.trace.to;
    struct keyspace saved[SERVERS_MAX];
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        saved[i] = world.server[i].saved;
    memset(&world, 0, sizeof(world));
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        world.server[i].saved = saved[i];
    world.trace.to = to;
    world.seed = seed;
    events_begin(seed);
    network_begin();
    network.observer = &command_observer;
    skip_to_begin();
    plan_draw(&world.plan, world.seed);
    world_name_slots();
    if (cut)
        plan_cut(&world.plan, cut);
    world.clients = world.plan.clients + world.plan.fenced;
    world.fault = (struct event){.happen = on_fault};
    oracle_begin();
    fault_set_network();
    trace_begin();
    begin_servers();
    auditor_begin();
    begin_clients();
    if (world.plan.weights > 0)
        event_at(&world.fault, events_now() + world.plan.gap);
}

void world_end(void)
{
    for (unsigned c = 0; c < world.clients; c++)
        if (world.client[c].is_alive) {
            world.client[c].process.inside = 0;
            client_kill(&world.client[c], false);
        }
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        server_end(&world.server[i]);
    network_end();
    events_end();
}
