/*
 * The oracle on the members of a fenced deployment: a server that votes has been in
 * quarantine since it last forgot something, and none votes any more once another server of
 * its member index has.
 */
#include "oracle_parts.h"
#include "world.h"

/* Each had votes, and was followed by another of its member index. */
#define FALLEN_MAX 64
struct holder {
    struct seal seal;
    unsigned server;
    uint32_t memory;
};

static struct holder latest[NODES_MAX]; /* generation 0: none yet */
static struct holder fallen[FALLEN_MAX];
static unsigned fallen_count;

void oracle_seats_begin(void)
{
    for (unsigned i = 0; i < NODES_MAX; i++)
        latest[i] = (struct holder){0};
    fallen_count = 0;
}

struct seal oracle_seal(const struct server *server)
{
    const struct rl_marker *marker = server_marker(server);
    if (!marker)
        return (struct seal){0};
    struct rl_incarnation self = rl_marker_self(marker);
    return (struct seal){
        .deployment = marker->roster.deployment,
        .id = self.id,
        .generation = self.generation,
        .index = marker->index,
        .is_active = marker->active,
        .is_own = server_is_marked(server),
    };
}

#define FENCE_QUARANTINE                                                                   \
    (11 * VIRTUAL_S) /* a fence may be 5 s ahead of a clock, twice, + 1 s */

int64_t oracle_least_quarantine(void)
{
    int64_t ttl = world.plan.ttl_max;
    int64_t lease = ttl + ttl / 1000000 * world.plan.drift_ppm;
    return lease > FENCE_QUARANTINE ? lease : FENCE_QUARANTINE;
}

void oracle_judge_vote(const struct command *command)
{
    const struct server *server = &world.server[command->server];
    bool votes = command->truth == TRUTH_GRANTED || command->truth == TRUTH_RECREATED;
    if (votes && !command->seal.is_active)
        oracle_accuse(INVARIANT_BARRED,
                      "server %u votes for client %u, under no marker that "
                      "is active",
                      server->index + 1, command->client + 1);
    if (!votes || server->lost_at == CLOCK_NEVER)
        return;
    if (events_now() < server->lost_at + oracle_least_quarantine())
        oracle_accuse(INVARIANT_BARRED, "server %u votes %lld ms after it forgot",
                      server->index + 1,
                      (long long)((events_now() - server->lost_at) / VIRTUAL_MS));
}

/*
 * A client that mistakes an address has never seen that a member was there, and makes it
 * none. And no node loses its vote if nothing has happened to it.
 */
void oracle_judge_marker(const struct server *server)
{
    const struct rl_marker *marker = server_marker(server);
    if (!marker)
        return;
    if (server_key(server, WORLD_MARKER)->expires != KEY_FOREVER)
        oracle_accuse(INVARIANT_TTL, "the marker of server %u expires", server->index + 1);
    ((struct server *)server)->was_active |= marker->active;
    if (server->index == world.mistaken && marker->roster.deployment == world.deployment)
        oracle_accuse(INVARIANT_SEATED, "server %u, by a mistaken address",
                      server->index + 1);
    if (!plan_disturbs(&world.plan) && !marker->active)
        oracle_accuse(INVARIANT_LIVENESS, "server %u loses its vote without a cause",
                      server->index + 1);
}

static bool is_same(const struct holder *a, const struct holder *b)
{
    return a->server == b->server && a->memory == b->memory &&
           a->seal.generation == b->seal.generation && a->seal.id == b->seal.id;
}

static struct holder holder_of(const struct vote *vote)
{
    return (struct holder){vote->seal, vote->server, vote->memory};
}

/* The holder has votes now; the one before has none any more. */
static void take_seat(const struct holder *holder)
{
    struct holder *last = &latest[holder->seal.index];
    for (unsigned i = 0; i < fallen_count; i++)
        if (is_same(&fallen[i], holder))
            oracle_accuse(INVARIANT_SEATED, "server %u of index %u, which had another",
                          holder->server + 1, holder->seal.index + 1U);
    if (is_same(last, holder))
        return;
    if (last->seal.generation > 0 && fallen_count < FALLEN_MAX)
        fallen[fallen_count++] = *last;
    *last = *holder;
}

static void judge_two(const struct vote *a, const struct vote *b)
{
    bool same = a->seal.index == b->seal.index;
    bool known = a->seal.generation > 0 && b->seal.generation > 0;
    bool one = a->server == b->server && a->memory == b->memory;
    if (known && same && !one)
        oracle_accuse(INVARIANT_SEATED, "servers %u and %u of index %u", a->server + 1,
                      b->server + 1, a->seal.index + 1U);
}

static void judge_with(const struct claim *a, const struct claim *b)
{
    for (rl_node_set rest = a->rests_on; rest; rest &= rest - 1)
        for (rl_node_set others = b->rests_on; others; others &= others - 1)
            if (a != b || rl_first(rest) != rl_first(others))
                judge_two(&a->vote[rl_first(rest)], &b->vote[rl_first(others)]);
}

void oracle_judge_seats(const struct claim *claim)
{
    for (rl_node_set rest = claim->rests_on; rest; rest &= rest - 1) {
        struct holder holder = holder_of(&claim->vote[rl_first(rest)]);
        if (holder.seal.generation == 0)
            oracle_accuse(INVARIANT_SEATED, "server %u has no marker", holder.server + 1);
        take_seat(&holder);
    }
    for (unsigned c = 0; c < world.plan.clients; c++) {
        const struct client *client = &world.client[c];
        for (unsigned u = 0; client->is_alive && u < client->users; u++) {
            const struct claim *other = client->user[u].claim;
            if (other && oracle_is_valid(other))
                judge_with(claim, other);
        }
    }
}
