/* Faults of servers. */
#include <stdio.h>
#include <string.h>

#include "fault_parts.h"
#include "world.h"

static long long ms(int64_t span)
{
    return (long long)(span / VIRTUAL_MS);
}

void fault_hang(struct server *server)
{
    int64_t span = fault_span();
    TRACE("server %u hangs for %lld ms", server->index + 1, ms(span));
    server_hang(server, events_now() + span);
}

static void forget(struct server *server, bool all)
{
    struct keyspace *keyspace = &server->node.redis->keyspace;
    struct keyspace before = server_copy(server);
    if (all) {
        server->history++;
        node_draw_id(server->node.redis->config.replid);
        server_empty(server);
    } else {
        keyspace_copy(keyspace, &server->saved);
    }
    server_forgot(server, &before, true);
    keyspace_free(&before);
}

void fault_restart(struct server *server, bool forgets)
{
    int64_t span = draw_span(VIRTUAL_MS, world.plan.ttl_max);
    bool all = draw_once_in(2) || world.plan.promises & RL_PROMISE_DURABLE;
    if (server->node.state == NODE_DOWN)
        return;
    TRACE("server %u restarts%s, and is away for %lld ms", server->index + 1,
          !forgets ? ""
          : all    ? " without its data"
                   : " with old data",
          ms(span));
    server_restart(server, events_now() + span);
    if (draw_once_in(3)) {
        server->node.redis->config.is_loading = true;
        server->role_until = events_now() + span + fault_span() / 4;
    }
    if (forgets)
        forget(server, all);
}

void fault_flush(struct server *server)
{
    struct keyspace before = server_copy(server);
    TRACE("FLUSHALL on server %u", server->index + 1);
    keyspace_clear(&server->node.redis->keyspace);
    if (world.plan.fenced && draw_once_in(3))
        redis_forget_scripts(server->node.redis);
    server_forgot(server, &before, false);
    keyspace_free(&before);
}

/* Fenced locks bear any number at once. */
void fault_flush_some(struct server *server)
{
    bool all = world.plan.fenced && draw_once_in(6);
    bool some = world.plan.fenced && draw_once_in(3);
    fault_flush(server);
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        if (i != server->index && (all || (some && draw_once_in(2))))
            fault_flush(&world.server[i]);
}

static void on_forgets(void *arg)
{
    if (world.phase == PHASE_STORM)
        fault_flush(arg);
}

void fault_begin_memory(struct server *server)
{
    server->forgets = (struct event){.happen = on_forgets, .arg = server};
}

#define UNLOADED_MAX (2 * VIRTUAL_S)

/*
 * A command that another node cannot execute is to be sent again: by then its client may
 * know that this one forgot, for the reply is late.
 */
void fault_unload(struct server *server)
{
    struct server *other = world_server_behind(world.address[events_random(world.plan.n)]);
    int64_t now = events_now(), span = draw_between(0, UNLOADED_MAX);
    TRACE("SCRIPT FLUSH on server %u, whose replies are late by %lld ms", other->index + 1,
          ms(span));
    redis_forget_scripts(other->node.redis);
    for (unsigned c = 0; c < world.clients; c++)
        fault_block(c, other->index, 2, now + span);
    if (server != other)
        event_at(&server->forgets, now + draw_between(0, span / 2));
}

/* --- another server at an address --- */

#define SPLIT_MIN (13 * VIRTUAL_S) /* longer than most quarantines */
#define SPLIT_MAX (60 * VIRTUAL_S)

void fault_reset(const struct client *client, unsigned host)
{
    struct connection *next;
    for (struct connection *connection = network.connection; connection;
         connection = next) {
        next = connection->next;
        if (connection->process == &client->process && connection->stream &&
            connection->host == host)
            connection_cut(connection, true);
    }
}

/* One client meets the new server at once and two others, the rest of the clients the old
 * one and those that are left: to each side it looks as if it were a majority. */
static void split(unsigned node)
{
    struct client *client = &world.client[events_random(world.clients)];
    unsigned n = world.plan.n;
    rl_node_set met = rl_bit((node + 1 + (unsigned)events_random(2)) % n) |
                      rl_bit((node + 3 + (unsigned)events_random(2)) % n);
    int64_t span = draw_between(SPLIT_MIN, SPLIT_MAX);
    if (!client->is_alive)
        return;
    TRACE("client %u meets it, and of the others %s, for %lld ms", client->index + 1,
          trace_set(met), ms(span));
    fault_reset(client, world.address[node]);
    if (world.plan.kind == KIND_MEMBERS) { /* so that a quarantine can end */
        world.quiet_until = events_now() + span;
        if (draw_once_in(2))
            return;
    }
    for (unsigned c = 0; c < world.clients; c++)
        for (unsigned i = 0; i < n; i++)
            if (i != node && (c == client->index) == !(met & rl_bit(i)))
                fault_block(c, world_server_behind(world.address[i])->index, 3,
                            events_now() + span);
}

/* A replica is promoted. */
static void copy(struct server *to, const struct server *from)
{
    struct keyspace *keyspace = &to->node.redis->keyspace;
    keyspace_copy(keyspace, draw_once_in(2) ? &from->node.redis->keyspace : &from->saved);
    redis_forget_scripts(to->node.redis);
    keyspace_copy(&to->saved, keyspace);
    to->node.redis->config.was_promoted = true;
    oracle_copied(to);
}

/* New connections meet another server: a new one, empty or with what the old one had; or
   one that was there before. */
void fault_swap(unsigned node)
{
    unsigned host = world.address[node];
    struct server *old = world_server_behind(host), *new = world_new_server();
    bool copies = draw_once_in(2);
    if (!new || draw_once_in(3))
        new = &world.server[host - 1];
    else if (copies)
        copy(new, old);
    if (new == old)
        return;
    TRACE("at the address of node %u there is server %u now", node + 1, new->index + 1);
    network.address[host].server = new->index + 1;
    if (world.plan.promises & RL_PROMISE_SOLE)
        server_bury(old);
    else if (world.plan.slow && (world.plan.kind == KIND_MEMBERS || draw_once_in(2)))
        split(node);
}

/* --- keys --- */

static void delete (struct server *server, unsigned resource)
{
    struct keyspace *keyspace = &server->node.redis->keyspace;
    struct rl_word name = {world_key(resource), strlen(world_key(resource))};
    struct keyspace before = server_copy(server);
    struct key *key = keyspace_find(keyspace, 0, name, server_ms(server));
    TRACE("\"%s\" is deleted on server %u", name.text, server->index + 1);
    if (key)
        keyspace_delete(keyspace, key);
    oracle_compare(server, &before, LOSS_BREAK);
    keyspace_free(&before);
}

struct breaking {
    struct client *client;
    unsigned resource;
    bool inspects;
};

static void on_inspected(redlock_client *client, const redlock_inspection *inspection,
                         void *arg)
{
    unsigned replies = inspection->held + inspection->free;
    unsigned possible = inspection->agreeing + world.plan.n - replies;
    bool depends = inspection->agreeing < world.plan.q && possible >= world.plan.q;
    (void)client;
    (void)arg;
    if ((inspection->code == REDLOCK_OK && replies < world.plan.q) ||
        (inspection->code == REDLOCK_NO_QUORUM && replies >= world.plan.q && !depends))
        oracle_accuse(INVARIANT_TOLD, "an inspection: %s, by %u nodes",
                      redlock_code_name(inspection->code), replies);
    trace_mix((uint64_t)inspection->code | (uint64_t)inspection->held << 8);
}

static void break_lock(void *arg)
{
    const struct breaking *breaking = arg;
    redlock_client *handle = breaking->client->handle;
    const char *key = world_key(breaking->resource);
    if (!handle)
        return;
    redlock_code code = breaking->inspects
                            ? redlock_inspect(handle, key, strlen(key), on_inspected, NULL)
                            : redlock_break(handle, key, strlen(key), on_inspected, NULL);
    if (code != REDLOCK_OK && code != REDLOCK_NO_MEMORY)
        oracle_accuse(INVARIANT_TOLD, "an inspection: %s", redlock_last_error()->text);
}

/* Breaks by hand on one server, or by the library on all. */
void fault_break_key(struct server *server)
{
    struct breaking breaking = {
        .client = &world.client[events_random(world.plan.clients)],
        .resource = (unsigned)events_random(world.plan.resources),
        .inspects = draw_once_in(3),
    };
    struct process *process = &breaking.client->process;
    bool runs = breaking.client->is_alive && process->inside == 0 &&
                process->stopped_until <= events_now();
    if (runs && draw_once_in(2))
        process_call(process, break_lock, &breaking);
    else
        delete (server, breaking.resource);
}

static void put_foreign(struct server *server, const char *text, const char *value,
                        bool list)
{
    bool hash = list && world.plan.kind == KIND_REDISSON; /* of a Java service */
    bool zset = list && world.plan.kind == KIND_SHARED;
    struct rl_word name = {text, strlen(text)};
    struct keyspace *keyspace = &server->node.redis->keyspace;
    keyspace->keeps_expired = false;
    if (keyspace_find(keyspace, 0, name, server_ms(server)))
        return;
    struct key *key = keyspace_add(keyspace, 0, name,
                                   hash   ? KEY_HASH
                                   : zset ? KEY_ZSET
                                   : list ? KEY_LIST
                                          : KEY_STRING);
    if (hash)
        hash_set(&key->hash_value, (struct rl_word){"b98df5fa:37", 11},
                 (struct rl_word){"1", 1});
    if (zset)
        zset_add(&key->zset, 1, (struct rl_word){value, strlen(value)});
    key->expires = server_ms(server) + fault_span() / VIRTUAL_MS;
    if (draw_once_in(4))
        key->expires =
            draw_once_in(2) ? KEY_FOREVER : server_ms(server) + 2 * INT64_C(0x7fffffff);
    key->list_len = 1;
    bytes_set(&key->string, (struct rl_word){value, strlen(value)});
    TRACE("another program puts %s into \"%s\" on server %u",
          hash   ? "a hash"
          : zset ? "a sorted set"
          : list ? "a list"
                 : "a value",
          name.text, server->index + 1);
}

/* Into the key of a lock, or where a fence is to be. */
void fault_put_foreign(struct server *server)
{
    unsigned resource = (unsigned)events_random(world.plan.resources);
    bool fence = world.plan.fenced && draw_once_in(3);
    put_foreign(server, fence ? world_fence_key(resource) : world_key(resource), "someone",
                draw_once_in(2));
}

/* The key is deleted, and another fenced lock, or what looks like it, is there; of a set
 * perhaps nothing is, while its other keys stay. */
static void put_another(struct server *server, unsigned resource)
{
    delete (server, resource);
    if (world.plan.kind == KIND_SET && draw_once_in(2))
        return;
    put_foreign(server, world_key(resource), "f:someone", false);
}

/* A fence, while another value is in its place for one command: to lose it is another
 * fault. */
static struct bytes hidden;

static struct key *find_fence(struct server *server, unsigned resource)
{
    struct rl_word name = {world_fence_key(resource), strlen(world_fence_key(resource))};
    return keyspace_find(&server->node.redis->keyspace, 0, name, server_ms(server));
}

static void hide_fence(struct server *server, unsigned resource)
{
    struct key *key = find_fence(server, resource);
    if (!key || key->type != KEY_STRING)
        return;
    bytes_set(&hidden, bytes_word(&key->string));
    bytes_set(&key->string, (struct rl_word){"someone", 7});
}

/* Another client has learned of an incarnation, and writes the marker with a new nonce. */
static void renew_marker(struct server *server)
{
    char text[RL_MARKER_MAX];
    struct rl_word name = {WORLD_MARKER, strlen(WORLD_MARKER)};
    struct key *key =
        keyspace_find(&server->node.redis->keyspace, 0, name, server_ms(server));
    const struct rl_marker *there = server_marker(server);
    if (!key || !there)
        return;
    struct rl_marker marker = *there;
    marker.nonce++;
    TRACE("server %u has a new nonce in its marker", server->index + 1);
    bytes_set(&key->string, (struct rl_word){text, rl_marker_write(&marker, text)});
    server_trace_marker(server);
}

void fault_raise_met(struct server *server, unsigned resource)
{
    if (hidden.len > 0)
        bytes_set(&find_fence(server, resource)->string, bytes_word(&hidden));
    hidden.len = 0;
}

void fault_meet_raise(struct server *server, unsigned resource)
{
    static const enum fault faults[] = {FAULT_STEP, FAULT_BREAK, FAULT_FOREIGN};
    bool is_set = world.plan.kind == KIND_SET; /* its raises are rare */
    enum fault fault = is_set && draw_once_in(2) ? FAULT_BREAK : faults[events_random(3)];
    if (world.plan.weights == 0 || world.phase != PHASE_STORM)
        return;
    if (draw_once_in(3)) {
        renew_marker(server);
        return;
    }
    if (world.plan.weight[fault] == 0)
        return;
    world.faults[fault]++;
    switch (fault) {
    case FAULT_STEP: fault_step(server); break;
    case FAULT_BREAK: put_another(server, resource); break;
    default: hide_fence(server, resource); break;
    }
}

/* --- replies --- */

/* The first reject commands only: such a server greets, and is asked again and again. */
#define REJECTED_COMMANDS 4

void fault_refuse(struct server *server, int64_t span)
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
        "DENIED Redis is running in protected mode",
        "ERR max number of clients reached",
        "ERR something that nobody knows",
        "NOPE",
    };
    unsigned i = (unsigned)events_random(sizeof(errors) / sizeof(errors[0]));
    server->error = errors[i];
    server->greets = i < REJECTED_COMMANDS && !draw_once_in(4);
    server->error_until = events_now() + span;
    TRACE("server %u replies for %lld ms: %s", server->index + 1, ms(span), server->error);
}

void fault_deny(struct server *server)
{
    int64_t span = fault_span();
    server->denied_call = 1 + (unsigned)events_random(SERVER_DENIES_EVAL);
    server->denied_until = events_now() + span;
    if (server->denied_call == SERVER_DENIES_EVAL)
        TRACE("server %u refuses EVAL for %lld ms", server->index + 1, ms(span));
    else
        TRACE("server %u refuses call %u of each script for %lld ms", server->index + 1,
              server->denied_call, ms(span));
}

void fault_garble(struct server *server)
{
    server->garbage_until = events_now() + fault_span() / 16;
    TRACE("server %u replies nonsense", server->index + 1);
}

/* --- what it is --- */

/*
 * The next command of this client on this connection is refused: the marker that came with
 * the data is not the one that it knows. No earlier command is under way, and no reply,
 * which may have the marker that came.
 */
static bool would_notice(const struct client *client, const struct connection *connection,
                         const struct server *server)
{
    unsigned node = client_node_at(client, connection->host);
    bool all_read = !connection->down.first && !connection->inbox;
    return node < world.plan.n && command_is_idle(connection) && all_read &&
           client->node[node].process == server->process &&
           client->node[node].nonce != server_nonce(server);
}

/* Connections whose clients could not notice end, and these are away for a while, so that
 * they do not tell of it. */
static void hang_up_on_others(struct server *server)
{
    int64_t until = events_now() + fault_span();
    struct node_link *next;
    for (struct node_link *link = server->node.link; link; link = next) {
        struct connection *connection = link->connection;
        const struct client *client = &world.client[connection->process_index];
        next = link->next;
        if (connection->stream && would_notice(client, connection, server))
            continue;
        fault_block(client->index, server->index, 3, until);
        node_break(link);
    }
}

/*
 * The server was the replica of its own replica, and has its data: another history in the
 * same process. The operator closes the connections, as Sentinel does; or it is a master
 * again so soon that only those are closed whose clients could not notice.
 */
static void follow(struct server *server)
{
    struct keyspace before = server_copy(server);
    keyspace_copy(&server->node.redis->keyspace, &server->saved);
    server->history++;
    node_draw_id(server->node.redis->config.replid);
    server->node.redis->config.was_promoted = true;
    if (draw_once_in(2)) {
        node_hang_up(&server->node);
    } else {
        hang_up_on_others(server);
        server->node.redis->config.is_replica = false;
    }
    server_forgot(server, &before, true);
    keyspace_free(&before);
}

void fault_demote(struct server *server)
{
    bool replica = draw_once_in(2);
    struct redis_config *config = &server->node.redis->config;
    config->is_replica = replica;
    config->is_cluster = !replica;
    server->role_until = events_now() + fault_span();
    TRACE("server %u is for a while %s", server->index + 1,
          replica ? "a replica" : "in a cluster");
    bool copies = world.plan.fenced && world.plan.weight[FAULT_FORGET] > 0;
    if (replica && copies && server->node.state == NODE_RUNS)
        follow(server);
}
