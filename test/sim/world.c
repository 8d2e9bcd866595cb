#include "world.h"

#include <assert.h>
#include <string.h>

#include "world_parts.h"

/* --- names --- */

unsigned world_server_of(const struct world *world, const struct client *client,
                         unsigned node)
{
    return world->behind[client->address[node]];
}

struct rl_word world_key(unsigned resource)
{
    static const struct rl_word keys[RESOURCES_MAX] = {
        {"stock", 5},
        {"report", 6},
        {"leader", 6},
        {"invoice", 7},
    };
    return keys[resource];
}

struct rl_word world_fence_key(unsigned resource)
{
    static const struct rl_word keys[RESOURCES_MAX] = {
        {"stock!fence", 11},
        {"report!fence", 12},
        {"leader!fence", 12},
        {"invoice!fence", 13},
    };
    return keys[resource];
}

struct server *world_new_server(struct world *world)
{
    if (!world->fresh)
        return NULL;
    unsigned first = rl_first(world->fresh);
    world->fresh &= ~rl_bit(first);
    return &world->server[first];
}

/* Who has mistaken an address corrects that when all is well. */
void world_configure(struct world *world, struct client *client)
{
    bool mistaken = client->typo && world->phase == PHASE_STORM;
    bool latest =
        client->users == 0 || world->phase != PHASE_STORM || draw_once_in(&world->prng, 2);
    if (latest && !mistaken)
        memcpy(client->address, world->address, sizeof(client->address));
}

struct rl_word world_marker_key(void)
{
    return (struct rl_word){"!marker", 7};
}

struct rl_word world_keep_text(struct world *world, const char *text, size_t len)
{
    assert(world->texts + len <= TEXTS_MAX);
    char *kept = world->text + world->texts;
    memcpy(kept, text, len);
    world->texts += len;
    return (struct rl_word){kept, len};
}

#define NUMBER_LEN 6

/* The kind, the client and a number, for instance p:2-000017. */
uint16_t world_new_token(struct world *world, const struct client *client,
                         unsigned resource)
{
    assert(world->tokens < TOKENS_MAX);
    unsigned number = world->tokens++;
    struct token *token = &world->token[number];
    memset(token, 0, sizeof(*token));
    token->client = client->index;
    token->resource = (uint8_t)resource;
    token->made = world->now;
    token->text[0] = world->swarm.fenced ? 'f' : 'p';
    token->text[1] = ':';
    token->text[2] = (char)('1' + client->index);
    token->text[3] = '-';
    for (unsigned i = TOKEN_LEN, rest = number; i-- > TOKEN_LEN - NUMBER_LEN; rest /= 10)
        token->text[i] = (char)('0' + rest % 10);
    return (uint16_t)number;
}

struct token *world_token_of(struct world *world, struct rl_word value)
{
    if (value.len != TOKEN_LEN || value.text[1] != ':')
        return NULL;
    unsigned number = 0;
    for (unsigned i = TOKEN_LEN - NUMBER_LEN; i < TOKEN_LEN; i++)
        number = number * 10 + (unsigned)(value.text[i] - '0');
    return number < world->tokens ? &world->token[number] : NULL;
}

/* --- events --- */

/* Nobody is there, or nobody waits for it any more. */
static bool is_stale(const struct world *world, const struct event *event)
{
    const struct client *client = &world->client[event->who];
    return !client->alive || (event->type == EVENT_WAKE && event->what != client->timer) ||
           (event->type == EVENT_ANSWERED && world->wire.order[event->what].cut);
}

/* What is there to be read at the same moment is read in the same pass. */
static bool pass_goes_on(const struct world *world, const struct client *client)
{
    const struct event *next = queue_first(&world->queue);
    return next && next->at <= world->now && next->who == client->index &&
           (next->type == EVENT_ANSWERED || next->type == EVENT_CLOSED) &&
           !is_stale(world, next);
}

static void wake_for(struct world *world, struct client *client, const struct event *event)
{
    client_wake(world, client);
    switch (event->type) {
    case EVENT_WAKE: client->armed = 0; break;
    case EVENT_CONNECTED: client_connected(world, client, (uint16_t)event->what); break;
    case EVENT_ANSWERED: client_answered(world, client, (uint16_t)event->what); break;
    case EVENT_CLOSED: client_closed(world, client, (uint16_t)event->what); break;
    case EVENT_HEARS: ear_confirmed(world, client, event->what); break;
    case EVENT_CALLED: ear_called(world, client, event->what); break;
    case EVENT_DEAF: ear_ended(world, client, event->what); break;
    default: break;
    }
    if (!pass_goes_on(world, client))
        client_end_pass(world, client);
}

/* What concerns a client: it waits while the process stands still, and ends with it. */
static void to_client(struct world *world, const struct event *event)
{
    struct client *client = &world->client[event->who];
    bool stale = is_stale(world, event);
    if (!stale && client->paused > world->now) {
        queue_postpone(&world->queue, event, client->paused);
        return;
    }
    if (!stale) {
        world->events++;
        wake_for(world, client, event);
    }
    if (event->type == EVENT_ANSWERED)
        wire_drop_order(world, (uint16_t)event->what);
    if (event->type == EVENT_CONNECTED || event->type == EVENT_CLOSED)
        wire_drop_line(world, (uint16_t)event->what);
}

static void strike(struct world *world)
{
    if (world->phase != PHASE_STORM)
        return;
    mishap_strike(world);
    rl_time gap = draw_span(&world->prng, world->swarm.gap / 4, 2 * world->swarm.gap);
    queue_plan(&world->queue, world->now + gap, EVENT_FAULT, 0, 0);
}

static void look(struct world *world)
{
    for (unsigned i = 0; i < SERVERS; i++)
        if (draw_once_in(&world->prng, 2))
            world->server[i].saved = world->server[i].store;
}

static void happen(struct world *world, const struct event *event)
{
    switch (event->type) {
    case EVENT_ARRIVED:
        world->events++;
        server_hear(world, (uint16_t)event->what);
        break;
    case EVENT_RESUME:
        world->events++;
        server_resume(world, &world->server[event->who], event->what);
        break;
    case EVENT_RETURN:
        world->events++;
        if (!world->client[event->who].alive)
            client_start(world, &world->client[event->who]);
        break;
    case EVENT_FAULT:
        world->events++;
        strike(world);
        look(world);
        break;
    case EVENT_CLOCK:
        mishap_clock_ends(world, &world->server[event->who], event->what);
        break;
    case EVENT_SUBSCRIBED:
        world->events++;
        ear_subscribed(world, event->who, event->what);
        break;
    case EVENT_CONNECTED:
        server_accept(world, &world->wire.line[event->what]);
        to_client(world, event);
        break;
    default: to_client(world, event); break;
    }
}

/* --- phases --- */

static bool is_open(const struct world *world)
{
    return world->verdict.broken == INVARIANT_NONE && (world->wanted || world->waiting);
}

/* Runs until `until`, or `events` have happened; `healed`: or everybody had what he wants.
 */
static void run(struct world *world, rl_time until, uint64_t events, bool healed)
{
    while (world->verdict.broken == INVARIANT_NONE && world->events < events &&
           (world->phase != PHASE_STORM || world->tokens < TOKENS_MAX / 2) &&
           (!healed || is_open(world))) {
        const struct event *next = queue_first(&world->queue);
        if (!next || next->at > until)
            break;
        struct event event = queue_take(&world->queue);
        world->now = rl_max(world->now, event.at);
        trace_event(world, &event);
        happen(world, &event);
    }
    if (world->verdict.broken == INVARIANT_NONE && healed && is_open(world) &&
        until < RL_NEVER - 1)
        world->now = rl_max(world->now, until);
}

/* Old keys and quarantines have to run out, and retries to meet. */
static rl_time liveness_bound(const struct world *world)
{
    if (world->swarm.fenced)
        return 8 * world->swarm.ttl_max + 400 * RL_SECOND;
    return 8 * world->swarm.ttl_max + client_quarantine(world) + 20 * RL_SECOND;
}

static void calm(struct world *world)
{
    world->phase = PHASE_CALM;
    trace_phase(world, "a majority is healed");
    world->wanted = rl_all(world->swarm.resources);
    mishap_heal(world);
    rl_time bound = world->now + liveness_bound(world);
    if (world->swarm.each)
        world->waiting = rl_all(world->swarm.clients);
    while (world->swarm.fenced && world->now < bound && is_open(world)) {
        operator_recovers(world);
        run(world, rl_min(world->now + 10 * RL_SECOND, bound), UINT64_MAX, true);
    }
    run(world, bound, UINT64_MAX, true);
    if (world->wanted)
        oracle_accuse(world, INVARIANT_LIVENESS, "nobody acquires resource %u",
                      rl_first(world->wanted) + 1);
    if (world->waiting)
        oracle_accuse(world, INVARIANT_LIVENESS, "client %u acquires nothing",
                      rl_first(world->waiting) + 1);
}

/* To be given up, to connect and to greet, and between releases; and slow answers. */
static rl_time time_to_end(const struct world *world)
{
    return 2 * HINDRANCE + 4 * RL_SECOND + 40 * world->swarm.far + world->swarm.ttl_min / 2;
}

#define LAST_EVENTS 100 /* that happen between the last hindrance and the end, at most */

static void finish(struct world *world)
{
    world->hindered = true;
    mishap_hinder(world);
    rl_time end = world->now + draw_between(&world->prng, 0, HINDRANCE);
    run(world, end, world->events + LAST_EVENTS, NULL);
    end = world->now;
    world->phase = PHASE_END;
    trace_phase(world, "everybody gives back what he has");
    for (unsigned c = 0; c < world->swarm.clients; c++) {
        struct client *client = &world->client[c];
        for (unsigned u = 0; u < client->users; u++)
            user_stop(client, &client->user[u]);
        client_rearm(world, client);
        end = rl_max(end, client->paused);
    }
    run(world, end + time_to_end(world), UINT64_MAX, false);
    oracle_finish(world);
}

static void count(struct world *world)
{
    struct figures *figures = world->figures;
    figures->schedules++;
    figures->events += world->events;
    figures->steps += world->steps;
    figures->acquisitions += world->acquisitions;
    figures->clients_that_acquired += rl_count(world->acquirers);
    figures->alone += rl_count(world->acquirers) < 2;
    figures->time += world->now;
    figures->violations += world->verdict.broken != INVARIANT_NONE;
    for (unsigned i = 0; i < BOUND_COUNT; i++)
        figures->outside[i] += world->verdict.outside[i];
    const struct swarm *swarm = &world->swarm;
    bool only_fast = !swarm->weight[MISHAP_SUSPEND]; /* no clock was stopped either */
    bool nearer = figures->nearest_ppm == 0 || swarm->beyond_ppm < figures->nearest_ppm;
    if (world->verdict.outside[BOUND_CLOCK] && only_fast && nearer)
        figures->nearest_ppm = swarm->beyond_ppm;
}

void world_play(struct world *world, uint64_t seed)
{
    world_begin(world, seed);
    world_populate(world);
    run(world, RL_NEVER - 1, world->swarm.events, false);
    calm(world);
    finish(world);
    trace_verdict(world);
    count(world);
}
