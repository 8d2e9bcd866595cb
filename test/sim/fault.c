#include "fault_parts.h"
#include "operator.h"
#include "world.h"

#define OUTAGE (30 * VIRTUAL_S) /* that lasts longer than a quarantine */

int64_t fault_span(void)
{
    int64_t longest = 2 * world.plan.ttl_max;
    if (world.plan.slow && longest < OUTAGE)
        longest = OUTAGE;
    return draw_span(VIRTUAL_MS, longest);
}

static long long ms(int64_t span)
{
    return (long long)(span / VIRTUAL_MS);
}

/* --- clients --- */

static void pause_client(struct client *client)
{
    int64_t span = fault_span();
    TRACE("client %u stands still for %lld ms", client->index + 1, ms(span));
    process_stop(&client->process, events_now() + span);
    oracle_delayed(client, events_now() + span);
}

static bool has_no_lease(const struct client *client)
{
    bool any = !client->is_alive || client->process.stopped_until > events_now();
    for (unsigned i = 0; i < client->users; i++)
        any |= client->user[i].lease || client->user[i].phase != USER_IDLE;
    return !any;
}

/* This one, or else the next one without a lease; NULL: none. */
static struct client *find_idle(struct client *client)
{
    for (unsigned i = 0; i < world.clients; i++) {
        struct client *other = &world.client[(client->index + i) % world.clients];
        if (has_no_lease(other))
            return other;
    }
    return NULL;
}

/* For as long as that many seconds apart the nodes reply after it. */
#define SPREAD (12 * VIRTUAL_S)

/* After it the client reads the node for the first time again. */
static void restart_at(struct server *server, int64_t until)
{
    if (server->node.state == NODE_DOWN)
        return;
    TRACE("server %u restarts, and is away for as long", server->index + 1);
    server_restart(server, until);
}

/* What nodes reply after it arrives at different times. */
static void reply_apart(const struct client *client, int64_t until, bool restarts)
{
    for (unsigned i = 0; i < world.plan.n; i++)
        if (restarts && draw_once_in(4))
            restart_at(world_server_behind(client->address[i]), until);
        else if (draw_once_in(2))
            fault_block(client->index, client->address[i], draw_once_in(2) ? 1 : 2,
                        until + draw_between(0, SPREAD));
}

#define PAUSED_AGAIN (10 * VIRTUAL_S)

/*
 * A hypervisor pauses the machine, and no clock of it counts that. A holder could then hold
 * for too long: so it must be a client without a lease. It is paused again while it reads
 * all nodes often.
 */
static void pause_machine(struct client *client)
{
    int64_t until = events_now() + fault_span();
    TRACE("client %u is paused with all its clocks for %lld ms", client->index + 1,
          ms(until - events_now()));
    process_suspend(&client->process, until, true);
    oracle_suspended(client, until);
    oracle_delayed(client, until);
    reply_apart(client, until, world.plan.weight[FAULT_RESTART] > 0);
    event_at(&client->pauses, until + draw_between(0, PAUSED_AGAIN));
}

void fault_pause_again(void *arg)
{
    struct client *client = arg;
    if (world.phase == PHASE_STORM && has_no_lease(client) && draw_once_in(2))
        pause_machine(client);
}

static void suspend(struct client *client)
{
    int64_t span = fault_span(), until = events_now() + span;
    struct client *idle = world.plan.fenced ? find_idle(client) : NULL;
    if (idle) {
        pause_machine(idle);
        return;
    }
    TRACE("client %u is suspended for %lld ms", client->index + 1, ms(span));
    process_suspend(&client->process, until, world.plan.wild);
    if (world.plan.wild)
        oracle_suspended(client, until);
    oracle_delayed(client, until);
    if (world.plan.fenced)
        reply_apart(client, until, false);
}

static void crash(struct client *client)
{
    bool power = draw_once_in(2), in_order = draw_once_in(3);
    if (in_order) {
        client->ends = true;
        return;
    }
    if (!client_kill(client, power))
        return;
    TRACE("client %u dies%s", client->index + 1, power ? " with its machine" : "");
    event_at(&client->returns, events_now() + fault_span());
}

/* --- the network --- */

void fault_block(unsigned client, unsigned server, unsigned ways, int64_t until)
{
    struct path *path = &network.path[client][server + 1];
    if (ways & 1 && path->up_blocked < until)
        path->up_blocked = until;
    if (ways & 2 && path->down_blocked < until)
        path->down_blocked = until;
}

void fault_block_path(const struct client *client, const struct server *server,
                      int64_t span)
{
    static const char *const texts[] = {"", "there", "back", "there and back"};
    unsigned ways = 1 + (unsigned)events_random(3);
    TRACE("the way %s between client %u and server %u is blocked for %lld ms", texts[ways],
          client->index + 1, server->index + 1, ms(span));
    fault_block(client->index, server->index, ways, events_now() + span);
}

static void part(void)
{
    uint32_t clients = (uint32_t)events_random(1U << CLIENTS_MAX);
    uint32_t servers = (uint32_t)events_random(1U << SERVERS_MAX);
    int64_t span = fault_span();
    TRACE("clients %s and servers %s are separated for %lld ms", trace_set(clients),
          trace_set(servers), ms(span));
    for (unsigned c = 0; c < world.clients; c++)
        for (unsigned s = 0; s < SERVERS_MAX; s++)
            if (clients & 1U << c && servers & 1U << s)
                fault_block(c, s, 3, events_now() + span);
}

/* Half: what the client writes is still executed, until it closes, too. */
static void cut(const struct client *client, unsigned node, bool half)
{
    struct connection *next;
    unsigned host = client->address[node];
    TRACE("a connection between client %u and node %u is %s", client->index + 1, node + 1,
          half ? "half-closed" : "reset");
    for (struct connection *connection = network.connection; connection;
         connection = next) {
        next = connection->next;
        if (connection->stream && connection->process == &client->process &&
            connection->host == host && !draw_once_in(3)) {
            if (half)
                connection_half_close(connection);
            else
                connection_cut(connection, draw_once_in(2));
        }
    }
}

/* A firewall forgets a connection on which nothing is sent for long. */
static void lose_subscriptions(const struct client *client)
{
    TRACE("subscriptions of client %u are lost", client->index + 1);
    for (struct connection *connection = network.connection; connection;
         connection = connection->next)
        if (connection->stream && connection->process == &client->process &&
            command_is_subscribed(connection) && !draw_once_in(3))
            connection_lose(connection);
}

#define REASONS 3

static void confuse_name(unsigned node)
{
    static const char *const reasons[REASONS] = {"Name or service not known",
                                                 "Temporary failure in name resolution",
                                                 "No address associated with hostname"};
    struct address *address = &network.address[world.address[node]];
    address->reason = draw_once_in(2) ? reasons[events_random(REASONS)] : NULL;
    address->dead[0] = draw_once_in(2) ? NETWORK_SILENT : 0;
    address->dead[1] = draw_once_in(2) ? NETWORK_REFUSES : 0;
    address->lookup_delay = draw_span(VIRTUAL_MS, fault_span());
}

void fault_set_network(void)
{
    const struct plan *plan = &world.plan;
    bool storm = world.phase == PHASE_STORM;
    struct network_faults *faults = &network.faults;
    *faults = (struct network_faults){.send_room = 64 * 1024};
    if (!storm)
        return;
    if (plan->weight[FAULT_SPIKE])
        faults->spike = 20 + 25 * plan->weight[FAULT_SPIKE];
    if (plan->weight[FAULT_LOSS])
        faults->loss = 20 + 25 * plan->weight[FAULT_LOSS];
    if (plan->weight[FAULT_SPLIT])
        faults->cut = 2 + plan->weight[FAULT_SPLIT];
    if (plan->weight[FAULT_ROOM])
        faults->send_room = 64U << plan->weight[FAULT_ROOM];
}

/* --- all of them --- */

static enum fault draw(void)
{
    unsigned at = (unsigned)events_random(world.plan.weights), i = 0;
    while (at >= world.plan.weight[i])
        at -= world.plan.weight[i++];
    return (enum fault)i;
}

static bool is_of_client(enum fault fault)
{
    return fault == FAULT_PAUSE || fault == FAULT_SUSPEND || fault == FAULT_CRASH;
}

static void strike(enum fault fault, struct client *client, unsigned node,
                   struct server *server)
{
    switch (fault) {
    case FAULT_PAUSE: pause_client(client); break;
    case FAULT_SUSPEND: suspend(client); break;
    case FAULT_CRASH: crash(client); break;
    case FAULT_BLOCK: fault_block_path(client, server, fault_span()); break;
    case FAULT_PARTITION: part(); break;
    case FAULT_CUT: cut(client, node, false); break;
    case FAULT_HALF: cut(client, node, true); break;
    case FAULT_VANISH: lose_subscriptions(client); break;
    case FAULT_NAME: confuse_name(node); break;
    case FAULT_STOP: fault_hang(server); break;
    case FAULT_RESTART: fault_restart(server, false); break;
    case FAULT_FORGET: fault_restart(server, true); break;
    case FAULT_FLUSH: fault_flush_some(server); break;
    case FAULT_BREAK: fault_break_key(server); break;
    case FAULT_FOREIGN: fault_put_foreign(server); break;
    case FAULT_SCRIPTS: redis_forget_scripts(server->node.redis); break;
    case FAULT_UNLOAD: fault_unload(server); break;
    case FAULT_REFUSE: fault_refuse(server, fault_span()); break;
    case FAULT_RIGHT: fault_deny(server); break;
    case FAULT_GARBAGE: fault_garble(server); break;
    case FAULT_DEMOTE: fault_demote(server); break;
    case FAULT_STEP: fault_step_some(server); break;
    case FAULT_SLEW: fault_slew(server); break;
    case FAULT_FREEZE: fault_freeze(server); break;
    case FAULT_SWAP: fault_swap(node); break;
    case FAULT_REPLACE: operator_replaces(node); break;
    case FAULT_RECOVERY: fault_recovery(); break;
    case FAULT_AWAY: fault_away(node); break;
    case FAULT_ABSENT: fault_absent(client, node); break;
    default: break; /* from the beginning on */
    }
}

void fault_strike(void)
{
    struct client *client = &world.client[events_random(world.clients)];
    bool any = world.plan.fenced && draw_once_in(4);
    bool same = world.plan.fenced && draw_once_in(3); /* before it is well again */
    unsigned node = same ? world.struck : (unsigned)events_random(world.plan.n);
    struct server *server = any ? &world.server[events_random(SERVERS_MAX)]
                                : world_server_behind(world.address[node]);
    enum fault fault = draw();
    world.struck = node;
    if (is_of_client(fault) &&
        (!client->is_alive || client->process.stopped_until > events_now()))
        return;
    world.faults[fault]++;
    bool may_need =
        world.plan.fenced && !world.plan.model && !(world.plan.promises & RL_PROMISE_SOLE);
    if (may_need && draw_once_in(4))
        operator_recovers();
    strike(fault, client, node, server);
}
