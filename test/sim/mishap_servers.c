/* What goes wrong with servers. */
#include "mishap_parts.h"

#include "world.h"

void mishap_hang(struct world *world, struct server *server)
{
    rl_time span = mishap_while(world);
    trace_mishap(world, "server %u hangs for %lld ms", server->index + 1,
                 (long long)(span / RL_MS));
    server_hang(world, server, world->now + span);
}

void mishap_restart(struct world *world, struct server *server, bool forgets)
{
    rl_time span = draw_span(&world->prng, RL_MS, world->swarm.ttl_max);
    bool all = draw_once_in(&world->prng, 2);
    if (server->state == SERVER_DOWN)
        return;
    trace_mishap(world, "server %u restarts%s, and is away for %lld ms", server->index + 1,
                 !forgets ? ""
                 : all    ? " and forgets all"
                          : " and forgets the latest",
                 (long long)(span / RL_MS));
    server_restart(world, server, world->now + span);
    if (draw_once_in(&world->prng, 3)) {
        server->role = SERVER_LOADING;
        server->role_until = world->now + span + mishap_while(world) / 4;
    }
    if (!forgets)
        return;
    struct store before = server->store;
    server->history += all;
    if (all)
        store_flush(&server->store);
    else
        server->store = server->saved;
    store_forget_scripts(&server->store);
    server_forgot(world, server, &before, true);
}

void mishap_flush(struct world *world, struct server *server)
{
    struct store before = server->store;
    trace_mishap(world, "FLUSHALL on server %u", server->index + 1);
    store_flush(&server->store);
    if (world->swarm.fenced && draw_once_in(&world->prng, 3))
        store_forget_scripts(&server->store);
    server_forgot(world, server, &before, false);
}

/* Of a fenced lock any number of them at once. */
void mishap_flush_some(struct world *world, struct server *server)
{
    bool all = world->swarm.fenced && draw_once_in(&world->prng, 6);
    bool some = world->swarm.fenced && draw_once_in(&world->prng, 3);
    mishap_flush(world, server);
    for (unsigned i = 0; i < SERVERS; i++)
        if (i != server->index && (all || (some && draw_once_in(&world->prng, 2))))
            mishap_flush(world, &world->server[i]);
}

#define SPLIT_MIN (13 * RL_SECOND) /* longer than most quarantines */
#define SPLIT_MAX (60 * RL_SECOND)

/* One client meets the new server at once and two others, the rest of the clients the old
 * one and those that are left: to each side it looks as if it were a majority. */
static void split(struct world *world, unsigned address)
{
    struct client *client = &world->client[prng_below(&world->prng, world->clients)];
    rl_node_set met = rl_bit((address + 1 + prng_below(&world->prng, 2)) % NODES) |
                      rl_bit((address + 3 + prng_below(&world->prng, 2)) % NODES);
    rl_time span = draw_between(&world->prng, SPLIT_MIN, SPLIT_MAX);
    if (!client->alive || !client->member[address].has_line)
        return;
    trace_mishap(world, "client %u meets it, and of the others %s, for %lld ms",
                 client->index + 1, trace_set(met), (long long)(span / RL_MS));
    wire_break(world, client->member[address].line);
    for (unsigned c = 0; c < world->clients; c++)
        for (unsigned i = 0; i < NODES; i++)
            if (i != address && (c == client->index) == !(met & rl_bit(i)))
                mishap_block(world, c, world->behind[i], 3, world->now + span);
}

/*
 * Who connects from now on meets another server: a fresh one, empty or with what the old
 * one had, as a promoted replica; or one that was there before.
 */
void mishap_swap(struct world *world, unsigned address)
{
    struct server *old = &world->server[world->behind[address]];
    struct server *new = world_new_server(world);
    bool copied = draw_once_in(&world->prng, 2);
    if (!new || draw_once_in(&world->prng, 3)) {
        new = &world->server[address];
        copied = false;
    } else if (copied) {
        new->store = draw_once_in(&world->prng, 2) ? old->store : old->saved;
        store_forget_scripts(&new->store);
        new->saved = new->store;
        oracle_copied(world, new);
    }
    if (new == old)
        return;
    trace_mishap(world, "at the address of node %u there is server %u now%s", address + 1,
                 new->index + 1, copied ? ", with a copy of the data" : "");
    world->behind[address] = new->index;
    if (world->swarm.slow && draw_once_in(&world->prng, 2))
        split(world, address);
}

/* What an operator says to one server; false: it does not answer, or not to this. */
static bool operate(struct world *world, struct server *server, enum rl_command text,
                    unsigned resource, struct rl_answer *ret_answer)
{
    struct rl_argv command;
    struct store_reply reply;
    size_t len = draw_once_in(&world->prng, 4) ? 0 : 2; /* of a token, or none */
    struct rl_word mark = {world->swarm.fenced ? "f:" : "p:", len};
    struct rl_command_args subject = {.key = world_key(resource), .token = mark};
    rl_kind_argv(rl_kind_of(subject.token), text, true, &subject, &command);
    struct ear_of ear_of = {world, server->index};
    const struct store_ears ears = {ear_hears, &ear_of};
    store_run(&server->store, &command, skew_read(&server->clock, world->now), &ears,
              &reply);
    ears_call(world, server, &reply);
    return server->state == SERVER_RUNS &&
           rl_kind_read(rl_kind_of(subject.token), text, &reply.reply, ret_answer);
}

/* redlock status, and redlock break of whatever lock is there. */
static void break_key(struct world *world, struct server *server, unsigned resource)
{
    struct store before = server->store;
    struct rl_answer there, broken;
    trace_mishap(world, "\"%s\" is broken on server %u", world_key(resource).text,
                 server->index + 1);
    bool read = operate(world, server, RL_CMD_INSPECT, resource, &there) &&
                operate(world, server, RL_CMD_BREAK, resource, &broken);
    if (read)
        oracle_operated(world, server, resource, &before, &there, &broken);
    oracle_compare(world, server, &before, LOSS_BREAK);
}

/* By hand on one server, or by the command on all. */
void mishap_break_key(struct world *world, struct server *server)
{
    unsigned resource = prng_below(&world->prng, world->swarm.resources);
    bool all = draw_once_in(&world->prng, 3);
    break_key(world, server, resource);
    for (unsigned i = 0; all && i < NODES; i++)
        if (world->behind[i] != server->index)
            break_key(world, &world->server[world->behind[i]], resource);
}

void mishap_put_foreign(struct world *world, struct server *server)
{
    struct rl_word key = world_key(prng_below(&world->prng, world->swarm.resources));
    int64_t now = server_time(world, server);
    bool list = draw_once_in(&world->prng, 2);
    if (store_find(&server->store, key, now))
        return;
    int64_t expires = now + mishap_while(world) / RL_MS;
    if (draw_once_in(&world->prng, 4))
        expires =
            draw_once_in(&world->prng, 2) ? STORE_NO_EXPIRY : now + 2 * INT64_C(0x7fffffff);
    trace_mishap(world, "somebody puts %s into a key on server %u",
                 list ? "a list" : "a value", server->index + 1);
    store_put(&server->store, list ? STORE_LIST : STORE_STRING, key,
              (struct rl_word){"someone", 7}, expires);
}

/* The first refuse commands only: such a server greets, and is asked again and again. */
#define REFUSE_COMMANDS 4

void mishap_refuse(struct world *world, struct server *server, rl_time span)
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
    unsigned i = prng_below(&world->prng, sizeof(errors) / sizeof(errors[0]));
    server->error = errors[i];
    server->inside = i + 1 == sizeof(errors) / sizeof(errors[0]);
    bool mild = i < REFUSE_COMMANDS && !draw_once_in(&world->prng, 4);
    server->greets = mild || server->inside;
    server->error_until = world->now + span;
    trace_mishap(world, "server %u answers for %lld ms: %s", server->index + 1,
                 (long long)(span / RL_MS), server->error);
}

static bool leads_to(const struct world *world, const struct member *member,
                     const struct server *server)
{
    return member->has_line && world->wire.line[member->line].server == server->index;
}

/*
 * What this client says next on its line is refused, for the marker that came with the data
 * is another than it knows, and nothing that it said before is under way.
 */
static bool would_notice(const struct world *world, const struct client *client,
                         unsigned node, const struct server *server)
{
    const struct member *member = &client->member[node];
    const struct rl_member *ward = &client->steward.member[node];
    struct rl_marker marker;
    uint64_t nonce = server_marker(server, &marker) ? marker.nonce : 0;
    return client->alive && leads_to(world, member, server) && member->owed == 0 &&
           rl_link_is_open(&member->link) && ward->greeted && ward->nonce != nonce;
}

/* The others are away for a while, so that they do not tell of it. */
static void hang_up_on_others(struct world *world, struct server *server)
{
    rl_time until = world->now + mishap_while(world);
    server->life++;
    for (unsigned c = 0; c < world->clients; c++) {
        struct client *client = &world->client[c];
        ears_lose_server(world, client, server->index);
        for (unsigned i = 0; client->alive && i < NODES; i++) {
            struct member *member = &client->member[i];
            if (would_notice(world, client, i, server)) {
                world->wire.line[member->line].life = server->life;
            } else if (leads_to(world, member, server)) {
                wire_break(world, member->line);
                mishap_block(world, c, server->index, 3, until);
            }
        }
    }
}

/*
 * It was the replica of its own replica, and has its data: another history in the same
 * process. The operator closes the lines, as Sentinel does; or it is a master
 * again so soon that only the lines of those are closed that could not notice.
 */
static void follow(struct world *world, struct server *server)
{
    struct store before = server->store;
    server->store = server->saved;
    server->history++;
    if (draw_once_in(&world->prng, 2)) {
        server_hang_up(world, server);
    } else {
        hang_up_on_others(world, server);
        server->role = SERVER_MASTER;
    }
    server_forgot(world, server, &before, true);
}

void mishap_demote(struct world *world, struct server *server)
{
    bool replica = draw_once_in(&world->prng, 2);
    server->role = replica ? SERVER_REPLICA : SERVER_CLUSTER;
    server->role_until = world->now + mishap_while(world);
    trace_mishap(world, "server %u is for a while %s", server->index + 1,
                 replica ? "a replica" : "in a cluster");
    bool copies = world->swarm.fenced && world->swarm.weight[MISHAP_FORGET] > 0;
    if (replica && copies && server->state == SERVER_RUNS)
        follow(world, server);
}

void mishap_garble(struct world *world, struct server *server)
{
    server->garbage_until = world->now + mishap_while(world) / 16;
    trace_mishap(world, "server %u talks nonsense", server->index + 1);
}
