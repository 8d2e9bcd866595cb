/*
 * The oracle on the seats of a fenced deployment: who votes has been in quarantine since it
 * last forgot something, and nobody votes any more once another of its seat has.
 */
#include "oracle_parts.h"
#include "world.h"

struct seal oracle_seal(struct rl_word text)
{
    struct rl_marker marker;
    if (!rl_marker_read(text, &marker))
        return (struct seal){0};
    struct rl_incarnation self = rl_marker_self(&marker);
    return (struct seal){marker.roster.deployment, self.id, self.generation, marker.index,
                         marker.active};
}

/* As long as a lease that rests on what was forgotten, or a fence ahead of all clocks. */
static rl_time least_quarantine(const struct world *world)
{
    rl_time ttl = world->swarm.ttl_max;
    return rl_max(ttl + ttl / 1000000 * world->swarm.drift_ppm, 11 * RL_SECOND);
}

void oracle_judge_vote(struct world *world, const struct order *order)
{
    const struct server *server = &world->server[order->server];
    bool votes = order->truth == RL_VOTE_GRANTED || order->truth == RL_VOTE_RECREATED;
    if (!votes || order->text == RL_CMD_RELEASE || server->lost_at == RL_NEVER)
        return;
    if (world->now < server->lost_at + least_quarantine(world))
        oracle_accuse(world, INVARIANT_BARRED, "server %u votes %lld ms after it forgot",
                      server->index + 1,
                      (long long)((world->now - server->lost_at) / RL_MS));
}

/*
 * Who mistakes an address has never seen that a seat was there, and gives it none. And
 * nobody takes a vote from a node to which nothing has happened.
 */
void oracle_marked(struct world *world, const struct server *server)
{
    struct rl_marker marker;
    if (!server_marker(server, &marker))
        return;
    if (server->index == world->mistaken && marker.roster.deployment == world->deployment)
        oracle_accuse(world, INVARIANT_SEATED, "server %u, by a mistaken address",
                      server->index + 1);
    if (!swarm_disturbs(&world->swarm) && !marker.active)
        oracle_accuse(world, INVARIANT_LIVENESS, "server %u loses its vote for nothing",
                      server->index + 1);
}

static bool is_same(const struct holder *a, const struct holder *b)
{
    return a->server == b->server && a->memory == b->memory &&
           a->seal.generation == b->seal.generation && a->seal.id == b->seal.id;
}

static struct holder holder_of(const struct attempt *attempt, unsigned node)
{
    return (struct holder){
        .seal = attempt->seal[node],
        .server = attempt->server[node],
        .memory = attempt->memory[node],
    };
}

/* It has votes from now on, and what had them before has none any more. */
static void take_seat(struct world *world, const struct holder *holder)
{
    struct seats *seats = &world->seats;
    struct holder *latest = &seats->latest[holder->seal.seat];
    for (unsigned i = 0; i < seats->fallen; i++)
        if (is_same(&seats->fell[i], holder))
            oracle_accuse(world, INVARIANT_SEATED,
                          "server %u in seat %u, which had another", holder->server + 1,
                          holder->seal.seat + 1);
    if (is_same(latest, holder))
        return;
    if (latest->seal.generation > 0 && seats->fallen < FALLEN_MAX)
        seats->fell[seats->fallen++] = *latest;
    *latest = *holder;
}

static void judge_two(struct world *world, const struct attempt *a, unsigned node,
                      const struct attempt *b, unsigned other)
{
    bool same = a->seal[node].seat == b->seal[other].seat;
    bool known = a->seal[node].generation > 0 && b->seal[other].generation > 0;
    bool one = a->server[node] == b->server[other] && a->memory[node] == b->memory[other];
    if (known && same && !one)
        oracle_accuse(world, INVARIANT_SEATED, "servers %u and %u in seat %u",
                      a->server[node] + 1, b->server[other] + 1, a->seal[node].seat + 1);
}

static void judge_with(struct world *world, const struct attempt *a,
                       const struct attempt *b)
{
    for (rl_node_set rest = a->rests_on; rest; rest &= rest - 1)
        for (rl_node_set others = b->rests_on; others; others &= others - 1)
            if (a != b || rl_first(rest) != rl_first(others))
                judge_two(world, a, rl_first(rest), b, rl_first(others));
}

void oracle_judge_seats(struct world *world, const struct attempt *attempt)
{
    for (rl_node_set rest = attempt->rests_on; rest; rest &= rest - 1) {
        struct holder holder = holder_of(attempt, rl_first(rest));
        if (holder.seal.generation == 0)
            oracle_accuse(world, INVARIANT_SEATED, "server %u has no marker",
                          holder.server + 1);
        take_seat(world, &holder);
    }
    for (unsigned i = 0; i < world->swarm.clients; i++) {
        const struct client *client = &world->client[i];
        for (unsigned k = 0; client->alive && k < client->attempts; k++)
            if (oracle_is_valid(world, client, &client->attempt[k]))
                judge_with(world, attempt, &client->attempt[k]);
    }
}
