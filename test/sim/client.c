#include "client.h"

#include <assert.h>
#include <string.h>

#include "world.h"

/* --- the clock --- */

static rl_time glance(struct rl_clock *clock, const struct client *client, rl_time at)
{
    rl_time boot = skew_read(&client->boot, at);
    if (rl_clock_glance(clock, boot))
        return clock->now;
    return rl_clock_advance(clock, boot, skew_read(&client->raw, at));
}

static rl_time read_clock(struct client *client, rl_time at)
{
    client->read = at;
    client->view.now = glance(&client->clock, client, at);
    return client->view.now;
}

rl_time client_reading(const struct world *world, const struct client *client)
{
    struct rl_clock clock = client->clock;
    return glance(&clock, client, world->now);
}

void client_look_at_clock(struct world *world, struct client *client)
{
    client->read = world->now;
    client->view.now =
        rl_clock_advance(&client->clock, skew_read(&client->boot, world->now),
                         skew_read(&client->raw, world->now));
}

void client_pause(struct client *client, rl_time until)
{
    client->paused = rl_max(client->paused, until);
    oracle_pauses(client, until);
}

/* --- passes --- */

/* All that has run out is told before anything else. */
void client_wake(struct world *world, struct client *client)
{
    rl_time at = world->now;
    bool late = draw_once_in(&world->prng, world->swarm.stall);
    if (late && client->read < at) /* it was interrupted right after it looked */
        at = draw_between(&world->prng, client->read, at);
    rl_time now = read_clock(client, at);
    if (late || client->paused > 0)
        client->excuse = client_reading(world, client);
    client->paused = 0;
    client->in_pass = true;
    for (unsigned i = 0; i < client->attempts; i++)
        if (client->attempt[i].used && client->attempt[i].due <= now)
            attempt_expire(world, client, &client->attempt[i]);
}

#define SLEEP_WHOLE (8 * RL_MS)

static rl_time next_due(const struct world *world, const struct client *client)
{
    rl_time next = client->open ? RL_NEVER : client->gate.deadline;
    for (unsigned i = 0; i < NODES; i++)
        next = rl_min(next, client->member[i].due);
    for (unsigned i = 0; i < client->attempts; i++)
        if (client->attempt[i].used)
            next = rl_min(next, client->attempt[i].due);
    for (unsigned i = 0; i < client->users; i++)
        next = rl_min(next, client->user[i].due);
    if (world->swarm.fenced)
        next = rl_min(next, client->ward_due);
    if (client->users == 0)
        next = rl_min(next, client->look_again);
    if (client->listens)
        next = rl_min(next, ears_due(client));
    return next;
}

/*
 * A timer goes by CLOCK_BOOTTIME: a long sleep is cut short, and the rest slept again. Who
 * was interrupted before that looks at the clock first.
 */
static void set_timer(struct world *world, struct client *client)
{
    rl_time now = client->view.now, first = next_due(world, client);
    if (client->paused > world->now) {
        queue_plan(&world->queue, client->paused, EVENT_WAKE, client->index,
                   ++client->timer);
        return;
    }
    if (first == RL_NEVER || (client->armed > now && client->armed <= first))
        return;
    rl_time delay = rl_max(first - now, 1), latest = now + delay;
    if (delay > SLEEP_WHOLE)
        delay -= delay / 8;
    queue_plan(&world->queue, skew_after(&client->boot, world->now, delay), EVENT_WAKE,
               client->index, ++client->timer);
    client->armed = latest;
}

void client_rearm(struct world *world, struct client *client)
{
    if (!client->alive || client->in_pass)
        return;
    queue_plan(&world->queue, world->now, EVENT_WAKE, client->index, ++client->timer);
}

static void tick_due(struct world *world, struct client *client)
{
    /* To be stepped too early must do no harm. */
    bool all = draw_once_in(&world->prng, world->swarm.stall);
    rl_time now = client->view.now;
    if (!client->open && client->gate.deadline <= now)
        member_look_at_gate(world, client);
    for (unsigned i = 0; i < NODES; i++)
        if (all || client->member[i].due <= now) {
            member_tick(world, client, i);
        }
    if (world->swarm.fenced && (all || client->ward_due <= now))
        ward_act(world, client);
    for (unsigned i = 0; i < client->attempts; i++)
        if (client->attempt[i].used && (all || client->attempt[i].due <= now))
            attempt_tick(world, client, &client->attempt[i]);
    if (client->listens)
        ears_tick(world, client);
    for (unsigned i = 0; i < client->users; i++)
        if (client->user[i].due <= now)
            user_tick(world, client, &client->user[i]);
}

/* What was queued leaves, unless the process is interrupted right before. */
static void write_queued(struct world *world, struct client *client)
{
    rl_time at = world->now;
    if (client->unsent > 0 && draw_once_in(&world->prng, world->swarm.stall)) {
        at += draw_span(&world->prng, 10, 2 * world->swarm.ttl_max);
        client_pause(client, at);
    }
    for (unsigned i = 0; i < client->unsent; i++) {
        uint16_t order = client->unsent_order[i];
        if (!world->wire.order[order].cut)
            wire_send(world, order, at);
        wire_drop_order(world, order);
    }
    client->unsent = 0;
}

void client_end_pass(struct world *world, struct client *client)
{
    rl_time now = read_clock(client, world->now);
    client->in_pass = false;
    for (unsigned i = 0; i < client->attempts; i++)
        if (client->attempt[i].used && client->attempt[i].due <= now)
            attempt_expire(world, client, &client->attempt[i]);
    oracle_passed(world, client);
    tick_due(world, client);
    if (client->users == 0)
        operator_pass(world, client);
    write_queued(world, client);
    if (client->alive)
        set_timer(world, client);
}

/* --- the process --- */

rl_time client_quarantine(const struct world *world)
{
    rl_time ttl = world->swarm.ttl_max;
    rl_time drift = ttl - rl_valid_until(0, ttl, world->swarm.drift_ppm);
    return world->swarm.durable ? 0 : ttl + drift + ttl / 10;
}

void client_start(struct world *world, struct client *client)
{
    world_configure(world, client);
    client->alive = true;
    client->process = ++world->processes;
    ears_init(client);
    client->born = client->read = world->now;
    client->paused = client->excuse = 0;
    client->open = client->in_pass = false;
    client->attempts = client->unsent = 0;
    rl_clock_init(&client->clock, skew_read(&client->boot, world->now),
                  skew_read(&client->raw, world->now));
    client->view =
        (struct rl_view){.now = client->clock.now, .round_trip = client->round_trip};
    rl_startup_barrier_init(&client->gate, client->view.now, 0, RL_SECOND);
    for (unsigned i = 0; i < NODES; i++) {
        member_init(world, client, i);
    }
    for (unsigned i = 0; i < client->users; i++)
        user_init(world, client, &client->user[i]);
    memset(client->node_time, 0, sizeof(client->node_time));
    if (world->swarm.fenced)
        ward_init(world, client);
    memset(client->sample, 0, sizeof(client->sample));
    client->doubts_until = 0;
    client->until = client->view.now + OPERATOR_PATIENCE;
    client->look_again = client->view.now;
    client->armed = 0;
    client_rearm(world, client);
}

void client_crash(struct world *world, struct client *client, bool power)
{
    client->alive = false;
    client->timer++;
    for (unsigned i = 0; i < client->unsent; i++)
        wire_drop_order(world, client->unsent_order[i]);
    client->unsent = 0;
    ears_crash(world, client, power);
    for (unsigned i = 0; i < NODES; i++) {
        member_drop(world, client, i, power);
    }
    for (unsigned i = 0; i < client->attempts; i++) {
        if (client->attempt[i].used)
            oracle_left(world, &client->attempt[i], false);
        client->attempt[i].used = false;
    }
    client->attempts = 0;
}
