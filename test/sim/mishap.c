#include "mishap.h"

#include "world.h"

/* --- clocks --- */

/*
 * One and the same of the client's two clocks loses at most its share of the drift against
 * the true time; the other may do what it likes, but run fast.
 */
void mishap_draw_client_clock(struct world *world, unsigned i)
{
    struct chance *chance = &world->chance;
    struct client *client = &world->client[i];
    int32_t most = swarm_loss(&world->swarm);
    bool slow = world->swarm.wild || draw_once_in(chance, 2);
    rl_time best = slow ? -most : draw_between(chance, -most, 20000);
    rl_time other = best - draw_between(chance, 0, 80000);
    bool boot = client->boot_is_good;
    struct skew *worse = boot ? &client->raw : &client->boot;
    skew_set_rate(&client->boot, world->now, (int32_t)best);
    skew_set_rate(&client->raw, world->now, (int32_t)best);
    skew_set_rate(worse, world->now, (int32_t)other);
    if (draw_once_in(chance, 4))
        skew_step(worse, world->now, -draw_span(chance, 1, RL_SECOND));
    if (boot && draw_once_in(chance, 8)) /* a timer goes by the other one */
        skew_set_rate(worse, world->now, SKEW_FROZEN);
}

/* It gains at most its share; where clocks are stepped, a step is that. */
void mishap_draw_server_clock(struct world *world, unsigned i)
{
    struct chance *chance = &world->chance;
    int32_t most = swarm_gain(&world->swarm);
    bool stepped = world->swarm.weight[MISHAP_STEP] > 0;
    rl_time least = world->swarm.fenced ? -most : -50000;
    rl_time ppm = draw_once_in(chance, 2) ? most : draw_between(chance, least, most);
    if (stepped)
        ppm = rl_min(ppm, 0);
    if (world->swarm.wild)
        ppm = most + world->swarm.beyond_ppm;
    skew_set_rate(&world->server[i].clock, world->now, (int32_t)ppm);
}

static void slew(struct world *world)
{
    trace_mishap(world, "the clocks change their rates");
    for (unsigned i = 0; i < NODES; i++)
        mishap_draw_server_clock(world, i);
    for (unsigned i = 0; i < world->swarm.clients; i++) {
        mishap_draw_client_clock(world, i);
        client_rearm(world, &world->client[i]);
    }
}

/* Ahead only once in a TTL, and by what the drift allows for the shortest one. */
static void step(struct world *world, struct server *server)
{
    const struct swarm *swarm = &world->swarm;
    struct chance *chance = &world->chance;
    rl_time most = swarm->ttl_min * swarm_loss(swarm) / 1000000;
    rl_time rest = server->stepped + 2 * swarm->ttl_max;
    rl_time by;
    if (world->now >= rest && !swarm->wild && draw_once_in(chance, 2))
        by = most;
    else
        by = -draw_span(chance, RL_MS, 2 * swarm->ttl_max);
    if (by > 0)
        server->stepped = world->now;
    trace_mishap(world, "the clock of server %u is stepped by %lld ms", server->index + 1,
                 (long long)(by / RL_MS));
    skew_step(&server->clock, world->now, by);
}

/* Until the clocks change their rates, or all is well. */
static void freeze(struct world *world, struct server *server)
{
    trace_mishap(world, "the clock of server %u stands still", server->index + 1);
    skew_set_rate(&server->clock, world->now, SKEW_FROZEN);
}

/* --- clients --- */

static rl_time a_while(struct world *world)
{
    return draw_span(&world->chance, RL_MS, 2 * world->swarm.ttl_max);
}

static void pause_client(struct world *world, struct client *client)
{
    rl_time span = a_while(world);
    trace_mishap(world, "client %u stands still for %lld ms", client->index + 1,
                 (long long)(span / RL_MS));
    client_pause(client, world->now + span);
}

/* CLOCK_MONOTONIC_RAW does not count it; if a hypervisor does it, no clock of the guest
 * does. */
static void suspend(struct world *world, struct client *client)
{
    rl_time span = a_while(world);
    trace_mishap(world, "client %u is suspended for %lld ms", client->index + 1,
                 (long long)(span / RL_MS));
    client_pause(client, world->now + span);
    skew_step(&client->raw, world->now, -span);
    if (world->swarm.wild)
        skew_step(&client->boot, world->now, -span);
}

static void crash(struct world *world, struct client *client)
{
    bool power = draw_once_in(&world->chance, 2);
    trace_mishap(world, "client %u dies%s", client->index + 1,
                 power ? " with its machine" : "");
    client_crash(world, client, power);
    queue_plan(&world->queue, world->now + a_while(world), EVENT_RETURN, client->index, 0);
}

/* --- the network --- */

static void block(struct world *world, unsigned client, unsigned server, unsigned ways,
                  rl_time until)
{
    struct path *path = &world->wire.path[client][server];
    if (ways & 1)
        path->there_blocked = rl_max(path->there_blocked, until);
    if (ways & 2)
        path->back_blocked = rl_max(path->back_blocked, until);
}

static void block_path(struct world *world, const struct client *client,
                       const struct server *server, rl_time span)
{
    static const char *const texts[] = {"", "there", "back", "there and back"};
    unsigned ways = 1 + chance_below(&world->chance, 3);
    trace_mishap(world, "the way %s between client %u and server %u is blocked for %lld ms",
                 texts[ways], client->index + 1, server->index + 1,
                 (long long)(span / RL_MS));
    block(world, client->index, server->index, ways, world->now + span);
}

static void part(struct world *world)
{
    rl_nodes clients = (rl_nodes)chance_bits(&world->chance) & rl_all(CLIENTS_MAX);
    rl_nodes servers = (rl_nodes)chance_bits(&world->chance) & rl_all(NODES);
    rl_time span = a_while(world);
    trace_mishap(world, "clients %s and servers %s are parted from each other for %lld ms",
                 trace_set(clients & rl_all(world->swarm.clients)), trace_set(servers),
                 (long long)(span / RL_MS));
    for (unsigned c = 0; c < world->swarm.clients; c++)
        for (unsigned s = 0; s < NODES; s++)
            if (clients & rl_bit(c) && servers & rl_bit(s))
                block(world, c, s, 3, world->now + span);
}

static void cut_line(struct world *world, const struct client *client, unsigned node)
{
    const struct member *member = &client->member[node];
    if (!client->alive || !member->has_line)
        return;
    trace_mishap(world, "the line between client %u and node %u is reset",
                 client->index + 1, node + 1);
    wire_break(world, member->line);
}

/* --- servers --- */

static void hang(struct world *world, struct server *server)
{
    rl_time span = a_while(world);
    trace_mishap(world, "server %u hangs for %lld ms", server->index + 1,
                 (long long)(span / RL_MS));
    server_hang(world, server, world->now + span);
}

static void restart(struct world *world, struct server *server, bool forgets)
{
    rl_time span = draw_span(&world->chance, RL_MS, world->swarm.ttl_max);
    bool all = draw_once_in(&world->chance, 2);
    if (server->state == SERVER_DOWN)
        return;
    trace_mishap(world, "server %u restarts%s, and is away for %lld ms", server->index + 1,
                 !forgets ? ""
                 : all    ? " and forgets all"
                          : " and forgets the latest",
                 (long long)(span / RL_MS));
    server_restart(world, server, world->now + span);
    if (draw_once_in(&world->chance, 3)) {
        server->role = SERVER_LOADING;
        server->role_until = world->now + span + a_while(world) / 4;
    }
    if (!forgets)
        return;
    struct store before = server->store;
    if (all)
        store_flush(&server->store);
    else
        server->store = server->saved;
    store_forget_scripts(&server->store);
    world->forgot = true;
    oracle_compare(world, server, &before, true);
}

static void flush(struct world *world, struct server *server)
{
    struct store before = server->store;
    trace_mishap(world, "FLUSHALL on server %u", server->index + 1);
    store_flush(&server->store);
    world->forgot = true;
    oracle_compare(world, server, &before, false);
}

/* What an operator says to one server; false: it does not answer, or not to this. */
static bool operate(struct world *world, struct server *server, enum rl_text text,
                    unsigned resource, struct rl_answer *ret_answer)
{
    struct rl_command command;
    struct store_reply reply;
    size_t len = draw_once_in(&world->chance, 4) ? 0 : 2; /* of a token, or none */
    struct rl_word mark = {world->swarm.fenced ? "f:" : "p:", len};
    struct rl_subject subject = {.key = world_key(resource), .token = mark};
    rl_kind_command(rl_kind_of(subject.token), text, true, &subject, &command);
    store_run(&server->store, &command, skew_read(&server->clock, world->now), &reply);
    return server->state == SERVER_RUNS &&
           rl_kind_read(rl_kind_of(subject.token), text, &reply.reply, ret_answer);
}

/* redlock status, and redlock break of whatever lock is there. */
static void break_key(struct world *world, struct server *server)
{
    unsigned resource = chance_below(&world->chance, world->swarm.resources);
    struct store before = server->store;
    struct rl_answer there, broken;
    trace_mishap(world, "\"%s\" is broken on server %u", world_key(resource).text,
                 server->index + 1);
    world->forgot = true;
    bool read = operate(world, server, RL_INSPECT, resource, &there) &&
                operate(world, server, RL_BREAK, resource, &broken);
    if (read)
        oracle_operated(world, server, resource, &before, &there, &broken);
    oracle_compare(world, server, &before, false);
}

static void put_foreign(struct world *world, struct server *server)
{
    struct rl_word key = world_key(chance_below(&world->chance, world->swarm.resources));
    int64_t now = server_time(world, server);
    bool list = draw_once_in(&world->chance, 2);
    if (store_find(&server->store, key, now))
        return;
    int64_t expires = now + a_while(world) / RL_MS;
    if (draw_once_in(&world->chance, 4))
        expires = draw_once_in(&world->chance, 2) ? STORE_NO_EXPIRY
                                                  : now + 2 * INT64_C(0x7fffffff);
    trace_mishap(world, "somebody puts %s into a key on server %u",
                 list ? "a list" : "a value", server->index + 1);
    store_put(&server->store, list ? STORE_LIST : STORE_STRING, key,
              (struct rl_word){"someone", 7}, expires);
}

/* The first refuse commands only: such a server greets, and is asked again and again. */
#define REFUSE_COMMANDS 4

static void refuse(struct world *world, struct server *server, rl_time span)
{
    static const char *const errors[] = {
        "OOM command not allowed when used memory > 'maxmemory'.",
        "MISCONF Redis is configured to save RDB snapshots, but it's unable to persist.",
        "NOREPLICAS Not enough good replicas to write.",
        "NOPERM this user has no permissions to run the 'set' command",
        "BUSY Redis is busy running a script.",
        "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "LOADING Redis is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down",
        "MOVED 3999 somewhere",
        "CROSSSLOT Keys in request don't hash to the same slot",
        "ERR something that nobody knows",
        "NOPE",
        "ERR Redis said no script: f_1, on @user_script:3.",
    };
    unsigned i = chance_below(&world->chance, sizeof(errors) / sizeof(errors[0]));
    server->error = errors[i];
    server->inside = i + 1 == sizeof(errors) / sizeof(errors[0]);
    bool mild = i < REFUSE_COMMANDS && !draw_once_in(&world->chance, 4);
    server->greets = mild || server->inside;
    server->error_until = world->now + span;
    trace_mishap(world, "server %u answers for %lld ms: %s", server->index + 1,
                 (long long)(span / RL_MS), server->error);
}

static void demote(struct world *world, struct server *server)
{
    bool replica = draw_once_in(&world->chance, 2);
    server->role = replica ? SERVER_REPLICA : SERVER_CLUSTER;
    server->role_until = world->now + a_while(world);
    trace_mishap(world, "server %u is for a while %s", server->index + 1,
                 replica ? "a replica" : "in a cluster");
}

static void garble(struct world *world, struct server *server)
{
    server->garbage_until = world->now + a_while(world) / 16;
    trace_mishap(world, "server %u talks nonsense", server->index + 1);
}

/* --- all of them --- */

static enum mishap draw(struct world *world)
{
    const struct swarm *swarm = &world->swarm;
    unsigned at = chance_below(&world->chance, swarm->weights);
    unsigned i = 0;
    while (at >= swarm->weight[i])
        at -= swarm->weight[i++];
    return (enum mishap)i;
}

void mishap_strike(struct world *world)
{
    struct chance *chance = &world->chance;
    struct client *client = &world->client[chance_below(chance, world->swarm.clients)];
    struct server *server = &world->server[chance_below(chance, NODES)];
    enum mishap mishap = draw(world);
    bool of_client =
        mishap == MISHAP_PAUSE || mishap == MISHAP_SUSPEND || mishap == MISHAP_CRASH;
    if (of_client && (!client->alive || client->paused > world->now))
        return;
    world->figures->mishaps[mishap]++;
    switch (mishap) {
    case MISHAP_PAUSE: pause_client(world, client); break;
    case MISHAP_SUSPEND: suspend(world, client); break;
    case MISHAP_CRASH: crash(world, client); break;
    case MISHAP_BLOCK: block_path(world, client, server, a_while(world)); break;
    case MISHAP_PARTITION: part(world); break;
    case MISHAP_CUT: cut_line(world, client, server->index); break;
    case MISHAP_STOP: hang(world, server); break;
    case MISHAP_RESTART: restart(world, server, false); break;
    case MISHAP_FORGET: restart(world, server, true); break;
    case MISHAP_FLUSH: flush(world, server); break;
    case MISHAP_BREAK: break_key(world, server); break;
    case MISHAP_FOREIGN: put_foreign(world, server); break;
    case MISHAP_SCRIPTS: store_forget_scripts(&server->store); break;
    case MISHAP_REFUSE: refuse(world, server, a_while(world)); break;
    case MISHAP_GARBAGE: garble(world, server); break;
    case MISHAP_DEMOTE: demote(world, server); break;
    case MISHAP_STEP: step(world, server); break;
    case MISHAP_SLEW: slew(world); break;
    case MISHAP_FREEZE: freeze(world, server); break;
    case MISHAP_COUNT: break;
    }
}

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
    switch (chance_below(&world->chance, 5)) {
    case 0: server_hang(world, server, RL_NEVER); break;
    case 1: server_restart(world, server, RL_NEVER); break;
    case 2:
        for (unsigned c = 0; c < world->swarm.clients; c++)
            block(world, c, server->index, 3, RL_NEVER);
        break;
    case 3:
        server_heal(world, server);
        refuse(world, server, 3600 * RL_SECOND);
        break;
    case 4: world->healed |= rl_bit(server->index); break;
    }
}

void mishap_heal(struct world *world)
{
    struct swarm *swarm = &world->swarm;
    unsigned order[NODES];
    swarm->spike = swarm->loss = swarm->stall = 0;
    world->healed = 0;
    chance_order(&world->chance, order, NODES);
    for (unsigned c = 0; c < swarm->clients; c++)
        for (unsigned s = 0; s < NODES; s++)
            world->wire.path[c][s].there_blocked = world->wire.path[c][s].back_blocked = 0;
    for (unsigned i = 0; i < NODES; i++) {
        struct server *server = &world->server[order[i]];
        if (i < swarm->q || swarm->duplicate)
            world->healed |= rl_bit(server->index);
        else
            leave_broken(world, server);
        if (server->clock.ppm == SKEW_FROZEN)
            mishap_draw_server_clock(world, server->index);
        if (world->healed & rl_bit(server->index))
            server_heal(world, server);
        drop_foreign(world, server);
    }
    for (unsigned c = 0; c < swarm->clients; c++) {
        struct client *client = &world->client[c];
        if (!client->alive)
            client_start(world, client);
        client_rearm(world, client);
    }
}

void mishap_hinder(struct world *world)
{
    for (unsigned c = 0; world->swarm.weights > 0 && c < world->swarm.clients; c++)
        for (unsigned s = 0; s < NODES; s++)
            if (draw_once_in(&world->chance, 4))
                block_path(world, &world->client[c], &world->server[s],
                           draw_between(&world->chance, 0, HINDRANCE));
}
