#include "ear.h"

#include <stdio.h>
#include <string.h>

#include "world.h"

#define BACKOFF_BASE (20 * RL_MS)
#define BACKOFF_CAP  (5 * RL_SECOND)
#define LASTING      RL_SECOND
#define IDLE         (10 * RL_SECOND)
#define PATIENCE     RL_SECOND

/* --- what events say: the node, the connection, and of a call the rank and the number ---
 */

#define NODE_BITS 3
#define EAR_BITS  12

static uint32_t what_of(const struct ear *ear, unsigned node)
{
    return node | (uint32_t)(ear->number & (rl_bit(EAR_BITS) - 1)) << NODE_BITS;
}

static unsigned node_of(uint32_t what)
{
    return what & (rl_bit(NODE_BITS) - 1);
}

/* NULL: it is of an earlier connection. */
static struct ear *ear_of(struct client *client, uint32_t what)
{
    struct ear *ear = &client->ear[node_of(what)];
    uint32_t mask = rl_bit(NODE_BITS + EAR_BITS) - 1;
    return (what & mask) == what_of(ear, node_of(what)) ? ear : NULL;
}

/* --- the connection --- */

static void fail(struct world *world, struct client *client, unsigned node)
{
    struct ear *ear = &client->ear[node];
    rl_time now = client->view.now;
    bool listened = ear->state == EAR_LISTENING;
    if (listened && now - ear->since >= LASTING)
        ear->failures = 0;
    rl_time pause = rl_backoff(BACKOFF_BASE, BACKOFF_CAP, ear->failures++);
    pause = pause / 2 + rl_uniform(prng_bits(&world->prng), pause / 2);
    ear->state = EAR_AWAY;
    ear->heard = false;
    ear->number++;
    ear->due = now + pause;
    for (unsigned i = 0; listened && i < client->users; i++)
        user_hears(world, client, &client->user[i], node, false);
}

/* To connect takes a round trip, before the subscription is said. */
static void begin(struct world *world, struct client *client, unsigned node)
{
    struct ear *ear = &client->ear[node];
    if (!(client->view.open & rl_bit(node))) {
        ear->due = RL_NEVER; /* until it is greeted */
        return;
    }
    ear->state = EAR_CONNECTING;
    ear->due = client->view.now + PATIENCE;
    ear->server = (uint8_t)world_server_of(world, client, node);
    ear->back = world->now;
    rl_time at = wire_arrival(world, client->index, ear->server, true, world->now);
    at = wire_arrival(world, client->index, ear->server, false, at);
    at = wire_arrival(world, client->index, ear->server, true, at);
    if (at != RL_NEVER)
        queue_plan(&world->queue, at, EVENT_SUBSCRIBED, client->index, what_of(ear, node));
}

static bool is_there(const struct world *world, const struct client *client,
                     const struct ear *ear)
{
    const struct path *path = &world->wire.path[client->index][ear->server];
    return ear->heard && world->server[ear->server].state == SERVER_RUNS &&
           rl_max(path->there_blocked, path->back_blocked) <= world->now;
}

static void tick(struct world *world, struct client *client, unsigned node)
{
    struct ear *ear = &client->ear[node];
    if (ear->state == EAR_AWAY)
        begin(world, client, node);
    else if (ear->state == EAR_CONNECTING || !is_there(world, client, ear))
        fail(world, client, node);
    else
        ear->due = client->view.now + IDLE;
}

void ears_tick(struct world *world, struct client *client)
{
    for (unsigned i = 0; i < NODES; i++)
        if (client->ear[i].due <= client->view.now)
            tick(world, client, i);
}

rl_time ears_due(const struct client *client)
{
    rl_time due = RL_NEVER;
    for (unsigned i = 0; client->listens && i < NODES; i++)
        due = rl_min(due, client->ear[i].due);
    return due;
}

void ears_init(struct client *client)
{
    client->listens = false;
    client->number = 0;
    for (unsigned i = 0; i < NODES; i++) {
        struct ear *ear = &client->ear[i];
        ear->state = EAR_AWAY;
        ear->heard = false;
        ear->failures = 0;
        ear->due = RL_NEVER;
        ear->number++; /* of what came before nothing is heard any more */
    }
}

void ears_begin(struct client *client)
{
    if (client->listens)
        return;
    client->listens = true;
    for (unsigned i = 0; i < NODES; i++)
        client->ear[i].due = client->view.now;
}

void ear_greeted(struct client *client, unsigned node)
{
    struct ear *ear = &client->ear[node];
    if (client->listens && ear->state == EAR_AWAY && ear->due == RL_NEVER)
        ear->due = client->view.now;
}

rl_node_set ears_where(const struct client *client)
{
    rl_node_set where = 0;
    for (unsigned i = 0; i < NODES; i++)
        if (client->ear[i].state == EAR_LISTENING)
            where |= rl_bit(i);
    return where;
}

bool ear_since(const struct client *client, unsigned node, rl_time sent)
{
    const struct ear *ear = &client->ear[node];
    return ear->state == EAR_LISTENING && sent >= ear->since;
}

/* --- how it ends --- */

void ears_crash(struct world *world, struct client *client, bool power)
{
    client->ghost = (struct ghost){.process = client->process};
    for (unsigned i = 0; i < NODES; i++)
        if (power && client->ear[i].heard)
            client->ghost.servers |= rl_bit(client->ear[i].server);
    if (client->ghost.servers)
        client->ghost.until =
            world->now + draw_span(&world->prng, RL_SECOND, 60 * RL_SECOND);
    for (unsigned i = 0; i < NODES; i++)
        client->ear[i].heard = false;
}

static void lose(struct world *world, struct client *client, unsigned node)
{
    struct ear *ear = &client->ear[node];
    ear->heard = false;
    rl_time at = wire_arrival(world, client->index, ear->server, false, world->now);
    ear->back = rl_max(ear->back, at);
    if (ear->back != RL_NEVER)
        queue_plan(&world->queue, ear->back, EVENT_DEAF, client->index, what_of(ear, node));
}

void ears_lose_server(struct world *world, struct client *client, unsigned server)
{
    client->ghost.servers &= ~rl_bit(server);
    for (unsigned i = 0; client->alive && i < NODES; i++)
        if (client->ear[i].heard && client->ear[i].server == server)
            lose(world, client, i);
}

void ear_cut(struct world *world, struct client *client, unsigned node)
{
    struct ear *ear = &client->ear[node];
    if (!ear->heard)
        return;
    if (draw_once_in(&world->prng, 2))
        lose(world, client, node);
    else
        ear->heard = false;
}

/* --- places: "!wake:3-00007 42" --- */

#define CLIENT_AT   6
#define PROCESS_AT  8
#define PROCESS_LEN 5
#define CHANNEL_LEN (PROCESS_AT + PROCESS_LEN)

static uint32_t number_in(const char *text, size_t len)
{
    uint32_t number = 0;
    for (size_t i = 0; i < len; i++)
        number = 10 * number + (uint32_t)(text[i] - '0');
    return number;
}

struct rl_word ear_place(struct world *world, const struct client *client, uint16_t number)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "!wake:%u-%05u %u", client->index % 10U,
                       client->process % 100000U, (unsigned)number);
    return world_keep_text(world, text, (size_t)len);
}

static struct client *client_in(struct world *world, struct rl_word channel)
{
    return &world->client[number_in(channel.text + CLIENT_AT, 1)];
}

static uint32_t process_in(struct rl_word channel)
{
    return number_in(channel.text + PROCESS_AT, PROCESS_LEN);
}

struct client *ear_client_of(struct world *world, struct rl_word place)
{
    struct client *client = client_in(world, place);
    return client->alive && client->process == process_in(place) ? client : NULL;
}

uint16_t ear_number_of(struct rl_word place)
{
    return (uint16_t)number_in(place.text + CHANNEL_LEN + 1, place.len - CHANNEL_LEN - 1);
}

/* --- calls --- */

bool ear_hears(void *arg, struct rl_word channel)
{
    const struct ear_of *ears = arg;
    const struct client *client = client_in(ears->world, channel);
    uint32_t process = process_in(channel);
    for (unsigned i = 0; client->alive && client->process == process && i < NODES; i++)
        if (client->ear[i].heard && client->ear[i].server == ears->server)
            return true;
    return client->ghost.process == process &&
           client->ghost.servers & rl_bit(ears->server) &&
           ears->world->now < client->ghost.until;
}

static void send(struct world *world, const struct client *client, struct ear *ear,
                 uint32_t what)
{
    rl_time at = wire_arrival(world, client->index, ear->server, false, world->now);
    bool lost = draw_once_in(&world->prng, world->swarm.muffle);
    bool twice = draw_once_in(&world->prng, world->swarm.muffle);
    bool overtakes = draw_once_in(&world->prng, world->swarm.muffle);
    if (!overtakes)
        at = ear->back = rl_max(ear->back, at);
    if (lost || at == RL_NEVER)
        return;
    queue_plan(&world->queue, at, EVENT_CALLED, client->index, what);
    if (twice)
        queue_plan(&world->queue, at + draw_span(&world->prng, 1, world->swarm.ttl_max),
                   EVENT_CALLED, client->index, what);
}

void ears_call(struct world *world, const struct server *server,
               const struct store_reply *reply)
{
    for (unsigned i = 0; i < reply->calls; i++) {
        const struct store_call *call = &reply->call[i];
        struct client *client = ear_client_of(world, call->place);
        trace_calls(world, server, call->place, call->rank);
        for (unsigned node = 0; client && node < NODES; node++) {
            struct ear *ear = &client->ear[node];
            uint32_t what = what_of(ear, node) | call->rank << (NODE_BITS + EAR_BITS) |
                            (uint32_t)ear_number_of(call->place)
                                << (NODE_BITS + EAR_BITS + 1);
            if (ear->heard && ear->server == server->index)
                send(world, client, ear, what);
        }
    }
}

/* --- events --- */

void ear_subscribed(struct world *world, unsigned index, uint32_t what)
{
    struct client *client = &world->client[index];
    struct ear *ear = ear_of(client, what);
    if (!client->alive || !ear || ear->state != EAR_CONNECTING)
        return;
    const struct server *server = &world->server[ear->server];
    if (server->state != SERVER_RUNS || world->now < server->error_until)
        return;
    ear->heard = true;
    ear->back = wire_arrival(world, index, ear->server, false, world->now);
    if (ear->back != RL_NEVER)
        queue_plan(&world->queue, ear->back, EVENT_HEARS, index, what);
}

void ear_confirmed(struct world *world, struct client *client, uint32_t what)
{
    struct ear *ear = ear_of(client, what);
    if (!ear || ear->state != EAR_CONNECTING)
        return;
    ear->state = EAR_LISTENING;
    ear->since = client->view.now;
    ear->due = client->view.now + IDLE;
    for (unsigned i = 0; i < client->users; i++)
        user_hears(world, client, &client->user[i], node_of(what), true);
}

void ear_called(struct world *world, struct client *client, uint32_t what)
{
    const struct ear *ear = ear_of(client, what);
    if (!ear || ear->state != EAR_LISTENING)
        return;
    unsigned rank = what >> (NODE_BITS + EAR_BITS) & 1;
    uint16_t number = (uint16_t)(what >> (NODE_BITS + EAR_BITS + 1));
    for (unsigned i = 0; i < client->users; i++)
        user_called(world, client, &client->user[i], node_of(what), number, rank);
}

void ear_ended(struct world *world, struct client *client, uint32_t what)
{
    if (ear_of(client, what))
        fail(world, client, node_of(what));
}
