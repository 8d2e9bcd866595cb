/* Faults of clocks. */
#include "fault_parts.h"
#include "world.h"

/*
 * The guard against clocks that were set allows half of the drift for their rates. Where it
 * is to be at peace, so that nodes keep their votes, ours and theirs use less of that up.
 */
static bool is_steady(void)
{
    bool errs = world.plan.hasty && plan_disturbs(&world.plan);
    return world.plan.fenced && (!errs || world.phase != PHASE_STORM);
}

#define STEADY     3     /* both together: two thirds of a half */
#define SLEWED     83333 /* ppm, by a time daemon in a hurry */
#define FASTEST    20000 /* ppm */
#define SLOWER     80000
#define LEAST_RATE (-50000)

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Nobody slews CLOCK_MONOTONIC_RAW; and CLOCK_BOOTTIME by no more than that, either way. */
static void draw_fenced_clock(struct client *client)
{
    int64_t most = plan_loss(&world.plan) / (is_steady() ? STEADY : 1);
    int64_t raw = draw_once_in(2) ? -most : draw_between(-most, most);
    int64_t boot = draw_between(-most, most);
    if (world.plan.hasty && draw_once_in(2))
        boot = draw_between(client->raw_is_good ? -SLEWED : -most, SLEWED);
    process_set_clocks(&client->process, raw, boot);
}

/*
 * One and the same of the client's two clocks loses at most its share of the drift against
 * the true time; the other may do what it likes, but run fast.
 */
static void draw_plain_clock(struct client *client)
{
    struct process *process = &client->process;
    int64_t most = plan_loss(&world.plan);
    bool slow = world.plan.wild || draw_once_in(2);
    int64_t best = slow ? -most : draw_between(-most, FASTEST);
    int64_t other = best - draw_between(0, SLOWER);
    if (client->raw_is_good) {
        process_set_clocks(process, best, other);
        return;
    }
    if (draw_once_in(8))
        other = CLOCK_STOPPED;
    process_set_clocks(process, other, best);
    if (draw_once_in(4))
        virtual_clock_step(&process->raw, -draw_span(VIRTUAL_US, VIRTUAL_S));
}

void fault_draw_client_clock(struct client *client)
{
    if (world.plan.fenced)
        draw_fenced_clock(client);
    else
        draw_plain_clock(client);
    oracle_delayed(client, 0);
}

/* A clock gains at most its share; where clocks are stepped, a step is that. */
void fault_draw_server_clock(struct server *server)
{
    int64_t most = plan_gain(&world.plan) / (is_steady() ? STEADY : 1);
    int64_t least = world.plan.fenced ? -most : LEAST_RATE;
    int64_t ppm = draw_once_in(2) ? most : draw_between(least, most);
    if (world.plan.weight[FAULT_STEP] > 0)
        ppm = lesser(ppm, 0);
    if (world.plan.wild)
        ppm = most + world.plan.beyond_ppm;
    virtual_clock_set_rate(&server->node.clock, events_now(), ppm);
}

/* --- where the bounds are left --- */

#define NEAR     (5 * VIRTUAL_S / 2)
#define FAR      (2 * 3600 * VIRTUAL_S)
#define SPELL    (60 * VIRTUAL_S)
#define RUSH_MIN 2000 /* ppm */
#define RUSH_MAX 100000

/* The bound of this server's clock against the others', so that something is promised
   still. */
static int64_t bound_of(const struct server *server)
{
    if (!world.plan.distant)
        return NEAR;
    return world.plan.victims & rl_bit(server->index) ? FAR : 0;
}

static int64_t off_by(const struct server *server)
{
    return virtual_clock_read(&server->node.clock, events_now()) -
           (WORLD_TIME_OF_DAY + events_now());
}

static void on_clock_ends(void *arg)
{
    struct server *server = arg;
    TRACE("the clock of server %u runs as it should", server->index + 1);
    if (server->is_fast)
        server->ahead_at = events_now();
    server->erred_at = events_now();
    server->is_fast = false;
    fault_draw_server_clock(server);
}

static void on_steps(void *arg)
{
    if (world.phase == PHASE_STORM)
        fault_step(arg);
}

void fault_begin_clock(struct server *server)
{
    server->clock_ends = (struct event){.happen = on_clock_ends, .arg = server};
    server->steps = (struct event){.happen = on_steps, .arg = server};
    fault_draw_server_clock(server);
}

static void retune(struct server *server, int64_t span)
{
    server->retuned++;
    event_at(&server->clock_ends, events_now() + span);
}

/* Either way, and by any span up to the bound. */
static int64_t stray(const struct server *server)
{
    int64_t most = bound_of(server), off = off_by(server);
    int64_t by = draw_span(VIRTUAL_MS, greater(most, VIRTUAL_MS));
    if (draw_once_in(2))
        by = -by;
    return greater(lesser(by, greater(most - off, 0)), lesser(-most - off, 0));
}

/* A time daemon in a hurry, in one of two directions. */
static void rush(struct server *server)
{
    int64_t by = stray(server), ppm = draw_span(RUSH_MIN, RUSH_MAX);
    int64_t span = lesser((by < 0 ? -by : by) / ppm * 1000000, SPELL);
    if (span == 0)
        return;
    TRACE("the clock of server %u runs %s by %lld ppm for %lld ms", server->index + 1,
          by > 0 ? "fast" : "slow", (long long)ppm, (long long)(span / VIRTUAL_MS));
    server->is_fast = by > 0;
    virtual_clock_set_rate(&server->node.clock, events_now(), by > 0 ? ppm : -ppm);
    retune(server, span);
}

/* Keys can bear one step ahead in a TTL, by what the drift allows for the shortest one. */
static int64_t bearable_step(const struct server *server)
{
    const struct plan *plan = &world.plan;
    bool rested = events_now() >= server->stepped + 2 * plan->ttl_max;
    if (!rested || plan->wild || !draw_once_in(2))
        return 0;
    return plan->ttl_min / 1000000 * plan_loss(plan);
}

void fault_step(struct server *server)
{
    int64_t by = bearable_step(server);
    if (by == 0 && world.plan.fenced) {
        by = stray(server);
        if (by > 0)
            server->ahead_at = events_now();
    } else if (by == 0) {
        by = -draw_span(VIRTUAL_MS, 2 * world.plan.ttl_max);
    }
    if (by > 0)
        server->stepped = events_now();
    server->erred_at = events_now();
    TRACE("the clock of server %u is stepped by %lld ms", server->index + 1,
          (long long)(by / VIRTUAL_MS));
    virtual_clock_step(&server->node.clock, by);
}

#define MISLED_WITHIN (2 * VIRTUAL_S)

/* One time server misleads several nodes, one after the other. */
void fault_step_some(struct server *server)
{
    bool some = world.plan.kind == KIND_MEMBERS && draw_once_in(2);
    if (world.plan.fenced && draw_once_in(4)) /* while no client is connected */
        node_hang_up(&server->node);
    fault_step(server);
    for (unsigned i = 0; some && i < SERVERS_MAX; i++)
        if (draw_once_in(2))
            event_at(&world.server[i].steps,
                     events_now() + draw_span(VIRTUAL_MS, MISLED_WITHIN));
}

static bool may_be_stepped(const struct command *command)
{
    return world.plan.fenced && world.phase == PHASE_STORM && command->is_locking &&
           world.plan.weight[FAULT_STEP] > 0 && command->node < world.plan.n &&
           command->claim;
}

/* A lease that is not released everywhere is cleaned up for two TTLs at most. */
#define OVER_TTLS 2

void fault_delay_first_time(const struct command *command)
{
    const struct client *client = &world.client[command->client];
    const struct server *server = &world.server[command->server];
    if (!may_be_stepped(command) || world.plan.weight[FAULT_BLOCK] == 0 ||
        client->node[command->node].sample.at > 0 || command->told_us == 0 ||
        !draw_once_in(4))
        return;
    int64_t ttl = command->ttl_ms * VIRTUAL_MS;
    int64_t span = draw_between(OVER_TTLS * ttl, 2 * OVER_TTLS * ttl);
    world.faults[FAULT_BLOCK]++;
    TRACE("the way back between client %u and server %u is blocked for %lld ms",
          client->index + 1, server->index + 1, (long long)(span / VIRTUAL_MS));
    fault_block(client->index, server->index, 2, events_now() + span);
}

void fault_meet_late_time(const struct command *command)
{
    if (!may_be_stepped(command) || command->told_us == 0 || !command->claim->is_over ||
        !draw_once_in(4))
        return;
    world.faults[FAULT_STEP]++;
    fault_step(&world.server[command->server]);
}

/* Stops the clock until the clocks change their rates, or all is well; and of a fenced lock
   for a while. */
void fault_freeze(struct server *server)
{
    int64_t most = bound_of(server) + off_by(server);
    if (world.plan.fenced && (server->is_fast || most < VIRTUAL_MS))
        return;
    TRACE("the clock of server %u stands still", server->index + 1);
    virtual_clock_set_rate(&server->node.clock, events_now(), CLOCK_STOPPED);
    if (world.plan.fenced)
        retune(server, draw_span(VIRTUAL_MS, lesser(most, SPELL)));
}

void fault_slew(struct server *server)
{
    if (world.plan.fenced && draw_once_in(2)) {
        if (!server->is_fast && server->node.clock.ppm != CLOCK_STOPPED)
            rush(server);
        return;
    }
    TRACE("the clocks change their rates");
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        if (!world.plan.fenced || world.server[i].retuned == 0)
            fault_draw_server_clock(&world.server[i]);
    for (unsigned i = 0; i < world.clients; i++)
        fault_draw_client_clock(&world.client[i]);
}

/* An operator sets it right: a step as any other. */
void fault_set_clock(struct server *server)
{
    int64_t by = -off_by(server);
    event_cancel(&server->clock_ends);
    server->erred_at = events_now();
    server->retuned++;
    if (by > 0 || server->is_fast)
        server->ahead_at = events_now();
    server->is_fast = false;
    virtual_clock_step(&server->node.clock, by);
    fault_draw_server_clock(server);
}
