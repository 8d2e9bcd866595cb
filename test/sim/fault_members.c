/*
 * Faults of members that belong together, and what an operator does after them: alone they
 * hardly ever meet within one quarantine.
 */
#include "core/quorum.h"
#include "fault_parts.h"
#include "operator.h"
#include "prng.h"
#include "world.h"

#define SOON     (4 * VIRTUAL_S)
#define QUIET    (25 * VIRTUAL_S) /* two quarantines */
#define AWAY_MAX (20 * VIRTUAL_S)

static struct server *server_at(unsigned node)
{
    return world_server_behind(world.address[node]);
}

/* Mostly a quarantine can end before the next fault. */
static void be_quiet(void)
{
    world.quiet_until = events_now() + draw_between(0, QUIET);
}

/* Nobody reaches the server for a while, or only some do not. */
static void send_away(struct server *server)
{
    int64_t until = events_now() + draw_span(VIRTUAL_S, AWAY_MAX);
    bool all = draw_once_in(2);
    TRACE("server %u is away for %lld ms", server->index + 1,
          (long long)((until - events_now()) / VIRTUAL_MS));
    if (draw_once_in(3)) {
        server_restart(server, until);
        return;
    }
    for (unsigned c = 0; c < world.clients; c++)
        if (all || draw_once_in(2))
            fault_block(c, server->index, 3, until);
}

/* Its memory, or what it had since it was saved; in the same process or another one. */
static void lose(struct server *server)
{
    switch (events_random(4)) {
    case 0: fault_restart(server, false); break;
    case 1: fault_demote(server); break;
    case 2: fault_flush(server); break;
    default: fault_restart(server, true); break;
    }
}

void fault_recovery(void)
{
    unsigned order[NODES_MAX], n = world.plan.n;
    struct prng prng = {events_random(UINT32_MAX)};
    unsigned lost = rl_majority(n) + (unsigned)events_random(n - rl_majority(n) + 1);
    prng_shuffle(&prng, order, n);
    for (unsigned i = 0; i < lost; i++)
        lose(server_at(order[i]));
    if (draw_once_in(2))
        send_away(server_at(order[events_random(n)]));
    if (!(world.plan.promises & RL_PROMISE_SOLE)) /* clients do it */
        operator_comes(events_now() + draw_span(VIRTUAL_MS, SOON));
    be_quiet();
}

void fault_away(unsigned node)
{
    unsigned n = world.plan.n, other = (node + 1 + (unsigned)events_random(n - 1)) % n;
    if (draw_once_in(2))
        lose(server_at(other));
    if (draw_once_in(2))
        send_away(server_at(other));
    operator_replaces(node);
    be_quiet();
}

void fault_absent(const struct client *client, unsigned node)
{
    struct server *server = server_at(node);
    int64_t span = draw_span(VIRTUAL_MS, SOON);
    TRACE("client %u is disconnected from server %u for %lld ms", client->index + 1,
          server->index + 1, (long long)(span / VIRTUAL_MS));
    fault_reset(client, world.address[node]);
    fault_block(client->index, server->index, 3, events_now() + span);
    event_at(&server->steps, events_now() + draw_between(0, span));
    be_quiet();
}
