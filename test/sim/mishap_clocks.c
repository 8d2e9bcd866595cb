/* What goes wrong with clocks. */
#include "mishap_parts.h"

#include "world.h"

/*
 * The guard against clocks that were set allows half of the drift for their rates. Where it
 * is to be at peace, so that nodes keep their votes, ours and theirs use less of that up.
 */
static bool is_steady(const struct world *world)
{
    return world->swarm.fenced && (!world->swarm.hasty || world->phase != PHASE_STORM);
}

#define STEADY 3     /* both together: two thirds of a half */
#define SLEWED 83333 /* ppm, by a time daemon in a hurry */

/* Nobody slews CLOCK_MONOTONIC_RAW; and CLOCK_BOOTTIME by no more than that, either way. */
static void draw_fenced_clock(struct world *world, struct client *client)
{
    struct prng *prng = &world->prng;
    int32_t most = swarm_loss(&world->swarm) / (is_steady(world) ? STEADY : 1);
    rl_time raw = draw_once_in(prng, 2) ? -most : draw_between(prng, -most, most);
    rl_time boot = draw_between(prng, -most, most);
    if (world->swarm.hasty && draw_once_in(prng, 2))
        boot = draw_between(prng, client->boot_is_good ? -most : -SLEWED, SLEWED);
    skew_set_rate(&client->raw, world->now, (int32_t)raw);
    skew_set_rate(&client->boot, world->now, (int32_t)boot);
}

/*
 * One and the same of the client's two clocks loses at most its share of the drift against
 * the true time; the other may do what it likes, but run fast.
 */
void mishap_draw_client_clock(struct world *world, unsigned i)
{
    struct prng *prng = &world->prng;
    struct client *client = &world->client[i];
    if (world->swarm.fenced) {
        draw_fenced_clock(world, client);
        return;
    }
    int32_t most = swarm_loss(&world->swarm);
    bool slow = world->swarm.wild || draw_once_in(prng, 2);
    rl_time best = slow ? -most : draw_between(prng, -most, 20000);
    rl_time other = best - draw_between(prng, 0, 80000);
    bool boot = client->boot_is_good;
    struct skew *worse = boot ? &client->raw : &client->boot;
    skew_set_rate(&client->boot, world->now, (int32_t)best);
    skew_set_rate(&client->raw, world->now, (int32_t)best);
    skew_set_rate(worse, world->now, (int32_t)other);
    if (draw_once_in(prng, 4))
        skew_step(worse, world->now, -draw_span(prng, 1, RL_SECOND));
    if (boot && draw_once_in(prng, 8)) /* a timer goes by the other one */
        skew_set_rate(worse, world->now, SKEW_FROZEN);
}

/* It gains at most its share; where clocks are stepped, a step is that. */
void mishap_draw_server_clock(struct world *world, unsigned i)
{
    struct prng *prng = &world->prng;
    int32_t most = swarm_gain(&world->swarm) / (is_steady(world) ? STEADY : 1);
    bool stepped = world->swarm.weight[MISHAP_STEP] > 0;
    rl_time least = world->swarm.fenced ? -most : -50000;
    rl_time ppm = draw_once_in(prng, 2) ? most : draw_between(prng, least, most);
    if (stepped)
        ppm = rl_min(ppm, 0);
    if (world->swarm.wild)
        ppm = most + world->swarm.beyond_ppm;
    skew_set_rate(&world->server[i].clock, world->now, (int32_t)ppm);
}

/* --- where the bounds are left --- */

#define NEAR (5 * RL_SECOND / 2)
#define FAR  (2 * 3600 * RL_SECOND)

/* How far this server's clock may be off the others', so that something is promised still.
 */
static rl_time bound_of(const struct world *world, const struct server *server)
{
    if (!world->swarm.distant)
        return NEAR;
    return world->swarm.victims & rl_bit(server->index) ? FAR : 0;
}

static rl_time off_by(const struct world *world, const struct server *server)
{
    return skew_read(&server->clock, world->now) - (WORLD_TIME_OF_DAY + world->now);
}

static void retune(struct world *world, struct server *server, rl_time span)
{
    queue_plan(&world->queue, world->now + span, EVENT_CLOCK, server->index,
               ++server->retuned);
}

void mishap_clock_ends(struct world *world, struct server *server, uint32_t retuned)
{
    if (server->retuned != retuned)
        return;
    trace_mishap(world, "the clock of server %u runs as it should", server->index + 1);
    if (server->fast)
        server->ahead_at = world->now;
    server->fast = false;
    mishap_draw_server_clock(world, server->index);
}

/* Either way, and by any span up to the bound. */
static rl_time stray(struct world *world, const struct server *server)
{
    rl_time most = bound_of(world, server), off = off_by(world, server);
    rl_time by = draw_span(&world->prng, RL_MS, rl_max(most, RL_MS));
    if (draw_once_in(&world->prng, 2))
        by = -by;
    return rl_clamp(by, rl_min(-most - off, 0), rl_max(most - off, 0));
}

/* A time daemon in a hurry, in one of two directions. */
static void rush(struct world *world, struct server *server)
{
    rl_time by = stray(world, server);
    rl_time ppm = draw_span(&world->prng, 2000, 100000);
    rl_time span = rl_min((by < 0 ? -by : by) * 1000000 / ppm, 60 * RL_SECOND);
    if (span == 0)
        return;
    trace_mishap(world, "the clock of server %u runs %s by %lld ppm for %lld ms",
                 server->index + 1, by > 0 ? "fast" : "slow", (long long)ppm,
                 (long long)(span / RL_MS));
    server->fast = by > 0;
    skew_set_rate(&server->clock, world->now, (int32_t)(by > 0 ? ppm : -ppm));
    retune(world, server, span);
}

/* What keys can bear is a step ahead once in a TTL, by what the drift allows for the
 * shortest one. */
static rl_time bearable_step(struct world *world, struct server *server)
{
    const struct swarm *swarm = &world->swarm;
    bool rested = world->now >= server->stepped + 2 * swarm->ttl_max;
    if (!rested || swarm->wild || !draw_once_in(&world->prng, 2))
        return 0;
    return swarm->ttl_min * swarm_loss(swarm) / 1000000;
}

void mishap_step(struct world *world, struct server *server)
{
    const struct swarm *swarm = &world->swarm;
    rl_time by = bearable_step(world, server);
    if (by == 0 && swarm->fenced) {
        by = stray(world, server);
        if (by > 0)
            server->ahead_at = world->now;
    } else if (by == 0) {
        by = -draw_span(&world->prng, RL_MS, 2 * swarm->ttl_max);
    }
    if (by > 0)
        server->stepped = world->now;
    trace_mishap(world, "the clock of server %u is stepped by %lld ms", server->index + 1,
                 (long long)(by / RL_MS));
    skew_step(&server->clock, world->now, by);
}

/* Until the clocks change their rates, or all is well; and of a fenced lock for a while. */
void mishap_freeze(struct world *world, struct server *server)
{
    rl_time most = bound_of(world, server) + off_by(world, server);
    if (world->swarm.fenced && (server->fast || most < RL_MS))
        return;
    trace_mishap(world, "the clock of server %u stands still", server->index + 1);
    skew_set_rate(&server->clock, world->now, SKEW_FROZEN);
    if (world->swarm.fenced)
        retune(world, server, draw_span(&world->prng, RL_MS, rl_min(most, 60 * RL_SECOND)));
}

void mishap_slew(struct world *world, struct server *server)
{
    if (world->swarm.fenced && draw_once_in(&world->prng, 2)) {
        if (!server->fast && server->clock.ppm != SKEW_FROZEN)
            rush(world, server);
        return;
    }
    trace_mishap(world, "the clocks change their rates");
    for (unsigned i = 0; i < SERVERS; i++)
        if (!world->swarm.fenced || world->server[i].retuned == 0)
            mishap_draw_server_clock(world, i);
    for (unsigned i = 0; i < world->clients; i++) {
        mishap_draw_client_clock(world, i);
        client_rearm(world, &world->client[i]);
    }
}

/* Somebody sets it right: a step as any other. */
void mishap_set_clock(struct world *world, struct server *server)
{
    rl_time by = -off_by(world, server);
    server->retuned++;
    if (by > 0 || server->fast)
        server->ahead_at = world->now;
    server->fast = false;
    skew_step(&server->clock, world->now, by);
    mishap_draw_server_clock(world, server->index);
}
