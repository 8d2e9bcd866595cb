#include "wire.h"

#include <assert.h>
#include <string.h>

#include "world.h"

/* --- pools --- */

static uint16_t take(uint16_t *free, unsigned *free_count, unsigned *used, unsigned max)
{
    if (*free_count > 0)
        return free[--*free_count];
    assert(*used < max);
    return (uint16_t)(*used)++;
}

uint16_t wire_new_saying(struct world *world)
{
    struct wire *wire = &world->wire;
    uint16_t i = take(wire->free_saying, &wire->free_sayings, &wire->sayings, SAYINGS_MAX);
    wire->saying[i].refs = 1;
    return i;
}

void wire_drop_saying(struct world *world, uint16_t i)
{
    struct wire *wire = &world->wire;
    if (--wire->saying[i].refs == 0)
        wire->free_saying[wire->free_sayings++] = i;
}

uint16_t wire_new_order(struct world *world)
{
    struct wire *wire = &world->wire;
    uint16_t i = take(wire->free_order, &wire->free_orders, &wire->orders, ORDERS_MAX);
    struct order *order = &wire->order[i];
    order->refs = 1;
    order->greeting = order->whole = order->plant = order->cut = order->launched = false;
    order->straggles = order->of_ward = order->of_history = false;
    order->enters = order->leaves = false;
    order->truth = RL_VOTE_WAITING;
    return i;
}

void wire_drop_order(struct world *world, uint16_t i)
{
    struct wire *wire = &world->wire;
    struct order *order = &wire->order[i];
    if (--order->refs > 0)
        return;
    if (!order->greeting && !order->of_history)
        wire_drop_saying(world, order->saying);
    wire_drop_line(world, order->line);
    wire->free_order[wire->free_orders++] = i;
}

void wire_drop_line(struct world *world, uint16_t i)
{
    struct wire *wire = &world->wire;
    if (--wire->line[i].refs == 0)
        wire->free_line[wire->free_lines++] = i;
}

/* --- the way --- */

static rl_time latency(struct world *world, const struct path *path)
{
    const struct swarm *swarm = &world->swarm;
    rl_time base = path->latency;
    rl_time more = draw_between(&world->prng, 0, base / 2);
    if (draw_once_in(&world->prng, swarm->spike))
        more += draw_span(&world->prng, base, 50 * base);
    return base + more;
}

/* When what is sent at `at` arrives; `ret_lost`: not with the first try. */
static rl_time arrival(struct world *world, const struct path *path, rl_time at,
                       rl_time blocked, bool *ret_lost)
{
    rl_time way = latency(world, path);
    *ret_lost = false;
    if (blocked > at) {
        /* It was tried at ever longer intervals: the last is about as long as all before.
         */
        rl_time next = rl_clamp(blocked - at, RETRANSMISSION, RETRANSMISSION_MAX);
        *ret_lost = true;
        return rl_time_add_sat(blocked, way + draw_between(&world->prng, 0, next));
    }
    if (draw_once_in(&world->prng, world->swarm.loss)) {
        *ret_lost = true;
        way += RETRANSMISSION << prng_below(&world->prng, 3);
    }
    return rl_time_add_sat(at, way);
}

rl_time wire_arrival(struct world *world, unsigned client, unsigned server, bool there,
                     rl_time at)
{
    const struct path *path = &world->wire.path[client][server];
    rl_time blocked = there ? path->there_blocked : path->back_blocked;
    bool lost;
    return at == RL_NEVER ? RL_NEVER : arrival(world, path, at, blocked, &lost);
}

/* --- lines --- */

uint16_t wire_connect(struct world *world, unsigned client, unsigned node)
{
    struct wire *wire = &world->wire;
    uint16_t i = take(wire->free_line, &wire->free_lines, &wire->lines, LINES_MAX);
    unsigned server = world_server_of(world, &world->client[client], node);
    const struct path *path = &wire->path[client][server];
    wire->line[i] = (struct line){
        .refs = 1,
        .client = (uint8_t)client,
        .node = (uint8_t)node,
        .server = (uint8_t)server,
    };
    bool lost;
    rl_time there = arrival(world, path, world->now, path->there_blocked, &lost);
    rl_time back = arrival(world, path, there, path->back_blocked, &lost);
    if (back != RL_NEVER) {
        wire->line[i].refs++;
        queue_plan(&world->queue, back, EVENT_CONNECTED, client, i);
    }
    return i;
}

void wire_send(struct world *world, uint16_t i, rl_time at)
{
    struct wire *wire = &world->wire;
    struct order *order = &wire->order[i];
    struct line *line = &wire->line[order->line];
    const struct path *path = &wire->path[order->client][order->server];
    bool lost;
    order->left = at;
    rl_time arrives = arrival(world, path, at, path->there_blocked, &lost);
    if (lost)
        line->mended = rl_max(line->mended, arrives);
    order->launched = line->mended <= at;
    line->there = rl_max(line->there, arrives);
    if (line->there == RL_NEVER)
        return;
    order->refs++;
    queue_plan(&world->queue, line->there, EVENT_ARRIVED, order->client, i);
}

void wire_answer(struct world *world, uint16_t i)
{
    struct wire *wire = &world->wire;
    struct order *order = &wire->order[i];
    struct line *line = &wire->line[order->line];
    const struct path *path = &wire->path[order->client][order->server];
    bool lost;
    rl_time arrives = arrival(world, path, world->now, path->back_blocked, &lost);
    line->back = rl_max(line->back, arrives);
    if (line->back == RL_NEVER)
        return;
    order->refs++;
    queue_plan(&world->queue, line->back, EVENT_ANSWERED, order->client, i);
}

void wire_close(struct world *world, uint16_t i, bool reset)
{
    struct line *line = &world->wire.line[i];
    line->closed = true;
    line->reset = reset;
    wire_drop_line(world, i);
}

void wire_break(struct world *world, uint16_t i)
{
    struct line *line = &world->wire.line[i];
    const struct path *path = &world->wire.path[line->client][line->server];
    bool lost;
    rl_time arrives = arrival(world, path, world->now, path->back_blocked, &lost);
    line->back = rl_max(line->back, arrives);
    if (line->back == RL_NEVER)
        return;
    line->refs++;
    queue_plan(&world->queue, line->back, EVENT_CLOSED, line->client, i);
}
