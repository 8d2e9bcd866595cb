/* The oracle on holders: who holds at one instant, on what, and for how long. */
#include <string.h>

#include "oracle_parts.h"
#include "world.h"

bool oracle_is_valid(const struct claim *claim)
{
    const struct user *user = claim->user;
    return user && user->claim == claim && user->lease && user->is_known &&
           (user->is_held || user->is_lost) && user_valid_ms(user) > 0;
}

/* --- what excuses two holders --- */

/* The server gave up the first token's key early, and the other client cannot know. */
static bool is_lost_unseen(const struct claim *claim, unsigned server, unsigned node,
                           const struct client *other)
{
    const struct loss *loss = &claim->loss[server];
    if (world.plan.fenced)
        return loss->is_broken;
    if (!loss->is_lost)
        return false;
    if (claim->options.kind == REDLOCK_KIND_RECORD) /* no quarantine lasts as long */
        return true;
    bool watched =
        loss->watchers & oracle_watcher(other->index, node) && other->born <= loss->first;
    return !loss->is_restart || world.plan.durable || !watched;
}

static const struct client *client_of(const struct claim *claim)
{
    return claim->user ? claim->user->client : &world.client[claim->client];
}

/* A server that both rest on lost the key of one, and the other could not know. */
static bool is_excused(const struct claim *ours, unsigned our_node,
                       const struct claim *theirs, unsigned their_node, bool *ret_by_clock)
{
    unsigned server = ours->vote[our_node].server;
    const struct client *a = client_of(ours), *b = client_of(theirs);
    if (is_lost_unseen(ours, server, our_node, b) ||
        is_lost_unseen(theirs, server, their_node, a))
        return true;
    *ret_by_clock = oracle_clock_excuses(ours, our_node, b) ||
                    oracle_clock_excuses(theirs, their_node, a);
    return *ret_by_clock;
}

/* Each server that both rest on has an excuse. */
static bool all_excused(const struct claim *ours, const struct claim *theirs,
                        bool *ret_by_clock)
{
    unsigned both = 0;
    for (rl_node_set rest = ours->rests_on; rest; rest &= rest - 1)
        for (rl_node_set others = theirs->rests_on; others; others &= others - 1) {
            unsigned our_node = rl_first(rest), their_node = rl_first(others);
            if (ours->vote[our_node].server != theirs->vote[their_node].server)
                continue;
            both++;
            if (!is_excused(ours, our_node, theirs, their_node, ret_by_clock))
                return false;
        }
    return both > 0;
}

static void judge_pair(const struct claim *ours, const struct claim *theirs)
{
    bool by_clock = false;
    if (all_excused(ours, theirs, &by_clock))
        oracle_note_outside(by_clock ? BOUND_STEP : BOUND_MEMORY);
    else if (world.plan.wild)
        oracle_note_outside(BOUND_CLOCK);
    else
        oracle_accuse(INVARIANT_EXCLUSION, "%.8s of client %u and %.8s of client %u",
                      ours->token, ours->client + 1, theirs->token, theirs->client + 1);
}

/* --- who holds --- */

/* A key that has expired by itself since is judged by how long it covers the lease. */
static bool rests_on_server(const struct claim *claim, unsigned server, int64_t *ret_since)
{
    for (rl_node_set rest = claim->rests_on; rest; rest &= rest - 1) {
        const struct vote *vote = &claim->vote[rl_first(rest)];
        *ret_since = vote->ran;
        if (vote->server == server)
            return vote->expires >= server_ms(&world.server[server]);
    }
    return false;
}

/* Calls `judge` for each valid lease of one of these resources but this one. */
static void for_each_holder(const struct claim *but, unsigned resources,
                            void (*judge)(const struct claim *claim, const void *arg),
                            const void *arg)
{
    for (unsigned c = 0; c < world.plan.clients; c++)
        for (unsigned u = 0; u < world.client[c].users; u++) {
            const struct user *user = &world.client[c].user[u];
            const struct claim *claim = user->claim;
            bool holds = world.client[c].is_alive && (user->is_held || user->is_lost);
            if (holds && claim && claim != but && claim->resources & resources &&
                oracle_is_valid(claim))
                judge(claim, arg);
        }
    for (size_t i = 0; i < claims_count(); i++) {
        const struct claim *claim = claim_at(i);
        if (claim != but && claim->kept_until > events_now() &&
            claim->resources & resources)
            judge(claim, arg);
    }
}

static bool both_read(const struct claim *a, const struct claim *b)
{
    return a->options.kind == REDLOCK_KIND_SHARED && b->options.kind == REDLOCK_KIND_SHARED;
}

static void judge_other(const struct claim *claim, const void *arg)
{
    if (!both_read(claim, arg))
        judge_pair(arg, claim);
}

/* No valid lease may rest on the server. */
static void judge_theft(const struct claim *theirs, const void *arg)
{
    const struct command *command = arg;
    int64_t since;
    if (world.plan.wild || !rests_on_server(theirs, command->server, &since) ||
        both_read(theirs, command->claim))
        return;
    if (world.plan.fenced && oracle_ran_ahead(command->server, since))
        return;
    if (!is_lost_unseen(theirs, command->server, command->node,
                        &world.client[command->client]))
        oracle_accuse(
            INVARIANT_STOLEN, "server %u stores %.8s, but %.8s of client %u is valid",
            command->server + 1, command->claim->token, theirs->token, theirs->client + 1);
}

void oracle_judge_storing(const struct command *command)
{
    for_each_holder(command->claim, command->resources, judge_theft, command);
}

/* --- what a lease rests on --- */

/* The remaining true time of a token's key. */
static int64_t left_there(const struct claim *claim, const struct server *server)
{
    int64_t expires = server_expires(server, claim->resources, claim_word(claim));
    int64_t now = virtual_clock_read(&server->node.clock, events_now());
    if (expires == 0)
        return 0;
    bool early = server->node.redis->keyspace.expires_early;
    int64_t end = (expires + !early) * VIRTUAL_MS;
    return oracle_true_span(end - now, server->node.clock.ppm);
}

/* The server's key outlasts the lease, or something has happened to it since. */
static bool covers(const struct claim *claim, unsigned node, int64_t held)
{
    const struct vote *vote = &claim->vote[node];
    const struct server *server = &world.server[vote->server];
    const struct loss *loss = &claim->loss[vote->server];
    return world.plan.wild || (loss->is_lost && loss->at >= vote->ran) ||
           oracle_ran_ahead(vote->server, vote->ran) || left_there(claim, server) >= held;
}

static unsigned count_servers(const struct claim *claim, rl_node_set nodes)
{
    rl_node_set servers = 0;
    for (; nodes; nodes &= nodes - 1)
        servers |= rl_bit(claim->vote[rl_first(nodes)].server);
    return rl_count(servers);
}

static rl_node_set heard_since_success(const struct claim *claim)
{
    rl_node_set nodes = claim->granted;
    for (rl_node_set rest = nodes; rest; rest &= rest - 1)
        if (claim->vote[rl_first(rest)].heard < claim->succeeded_at)
            nodes &= ~rl_bit(rl_first(rest));
    return nodes;
}

/*
 * Rounds are not visible from outside, but no vote of an earlier one may count. So the q
 * votes that were asked for last must be enough, and those that were asked for with them.
 * Where sockets take only a part, and the rest is written later, that does not tell; but
 * all were heard since the last success.
 */
static rl_node_set newest(const struct claim *claim, uint64_t *ret_since)
{
    rl_node_set nodes = 0;
    *ret_since = 0;
    if (world.plan.weight[FAULT_ROOM] > 0)
        return heard_since_success(claim);
    while (nodes != claim->granted && rl_count(nodes) < world.plan.q) {
        uint64_t last = 0;
        rl_node_set others = claim->granted & ~nodes;
        for (rl_node_set rest = others; rest; rest &= rest - 1)
            if (last < claim->vote[rl_first(rest)].iteration)
                last = claim->vote[rl_first(rest)].iteration;
        for (rl_node_set rest = others; rest; rest &= rest - 1)
            if (claim->vote[rl_first(rest)].iteration == last)
                nodes |= rl_bit(rl_first(rest));
        *ret_since = last;
    }
    return nodes;
}

/* The votes that the client may count. */
static rl_node_set counted(const struct client *client, const struct claim *claim,
                           rl_node_set nodes)
{
    for (rl_node_set rest = nodes; rest && world.plan.fenced; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        const struct vote *vote = &claim->vote[node];
        bool bars = oracle_clock_bars(client, node, vote);
        if (!vote->seal.is_active || bars)
            nodes &= ~rl_bit(node);
    }
    return nodes;
}

/* The user's remaining hold, in true time. */
static int64_t held_for(const struct user *user)
{
    return oracle_true_span(user_valid_ms(user) * VIRTUAL_MS, client_rate(user->client));
}

void oracle_keeps(const struct user *user)
{
    if (user->is_held && user->is_known && user->claim)
        user->claim->kept_until = events_now() + held_for(user);
}

void oracle_judge_late_grant(struct claim *claim, unsigned node)
{
    if (covers(claim, node, held_for(claim->user)))
        claim->rests_on |= rl_bit(node);
}

static void judge_grants(const struct user *user, struct claim *claim)
{
    const struct client *client = user->client;
    int64_t held = held_for(user);
    rl_node_set latest = newest(claim, &claim->round), covering = 0;
    rl_node_set fair = counted(client, claim, latest);
    for (rl_node_set rest = fair; rest; rest &= rest - 1)
        if (covers(claim, rl_first(rest), held))
            covering |= rl_bit(rl_first(rest));
    unsigned granted = count_servers(claim, latest);
    claim->rests_on = covering;
    claim->succeeded_at = events_now();
    if (granted < world.plan.q)
        oracle_accuse(INVARIANT_QUORUM, "%.8s of client %u has %u grants", claim->token,
                      client->index + 1, granted);
    else if (count_servers(claim, fair) < world.plan.q)
        oracle_accuse(INVARIANT_BARRED, "%.8s of client %u: only %s may be counted",
                      claim->token, client->index + 1, trace_set(fair));
    else if (count_servers(claim, covering) < world.plan.q)
        oracle_accuse(INVARIANT_OUTLIVES, "%.8s of client %u: only %s keep it so long",
                      claim->token, client->index + 1, trace_set(covering));
}

/* --- fencing tokens --- */

/* Owners: when one server granted each, and the tokens. */
#define ORDER_MAX 16
static struct turn_order {
    unsigned count; /* ever: the latest are kept */
    struct {
        uint32_t memory, nth;
        int64_t first, last;
        bool shared;
    } grant[ORDER_MAX];
} orders[SERVERS_MAX][RESOURCES_MAX];

static struct highest {
    int64_t fence;
    struct claim *claim;
} highest[RESOURCES_MAX][2]; /* of writers, and of readers */

void oracle_holders_begin(void)
{
    memset(orders, 0, sizeof(orders));
    memset(highest, 0, sizeof(highest));
}

/* A client that acquires later shares a server with those, and meets the fence there. */
static void judge_settled(const struct claim *claim, int64_t last)
{
    unsigned stores = 0;
    for (rl_node_set rest = claim->granted; rest; rest &= rest - 1) {
        const struct vote *vote = &claim->vote[rl_first(rest)];
        const struct server *server = &world.server[vote->server];
        bool forgot = server->memory != vote->memory;
        stores += forgot || server_least_fence(server, claim->resources) >= last;
    }
    if (stores < world.plan.q)
        oracle_accuse(INVARIANT_SETTLED, "%u servers store that of client %u", stores,
                      claim->client + 1);
    if (world.plan.elects && rl_count(claim->with_term) < world.plan.q)
        oracle_accuse(INVARIANT_SETTLED, "client %u leads, and its term is on servers %s",
                      claim->client + 1, trace_set(claim->with_term));
}

/* If the quorums of two owners share a server, the one that it granted later has the larger
   tokens: also where the lock was broken meanwhile, so nothing is excused. */
static void judge_order(const struct claim *claim, unsigned resource,
                        const struct vote *vote, int64_t first, int64_t last)
{
    struct turn_order *order = &orders[vote->server][resource];
    for (unsigned i = 0; i < ORDER_MAX && i < order->count; i++) {
        bool later = vote->nth > order->grant[i].nth;
        bool rises = later ? first > order->grant[i].last : last < order->grant[i].first;
        bool both_read =
            order->grant[i].shared && claim->options.kind == REDLOCK_KIND_SHARED;
        if (order->grant[i].memory == vote->memory && !rises && !both_read)
            oracle_accuse(INVARIANT_RISING, "%lld of client %u, against server %u",
                          (long long)first, claim->client + 1, vote->server + 1);
    }
    unsigned at = order->count++ % ORDER_MAX;
    order->grant[at].memory = vote->memory;
    order->grant[at].nth = vote->nth;
    order->grant[at].first = first;
    order->grant[at].last = last;
    order->grant[at].shared = claim->options.kind == REDLOCK_KIND_SHARED;
}

/* Both held it, or could have, beyond the bounds; else the tokens had to rise. */
static void judge_above(const struct claim *claim, int64_t first,
                        const struct highest *earlier)
{
    bool by_clock = false;
    if (first > earlier->fence)
        return;
    if (all_excused(claim, earlier->claim, &by_clock))
        oracle_note_outside(by_clock ? BOUND_STEP : BOUND_MEMORY);
    else
        oracle_accuse(INVARIANT_RISING, "%lld of client %u is %lld too small",
                      (long long)first, claim->client + 1,
                      (long long)(earlier->fence - first + 1));
}

/* Fencing tokens rise in the order of the acquires: all that are reserved. Those of readers
   need not rise above those of other readers. */
static void judge_rise(const struct user *user, struct claim *claim, unsigned resource)
{
    int64_t first = redlock_fence(user->lease), last = first + claim->fences - 1;
    for (rl_node_set rest = claim->granted; rest; rest &= rest - 1)
        if (claim->vote[rl_first(rest)].fence >= last)
            judge_order(claim, resource, &claim->vote[rl_first(rest)], first, last);
    if (user_valid_ms(user) == 0) /* it was stopped, and got the news too late */
        return;
    struct highest *of_writers = &highest[resource][0], *of_readers = &highest[resource][1];
    judge_above(claim, first, of_writers);
    if (claim->options.kind != REDLOCK_KIND_SHARED)
        judge_above(claim, first, of_readers);
    struct highest *own =
        claim->options.kind == REDLOCK_KIND_SHARED ? of_readers : of_writers;
    if (last > own->fence)
        *own = (struct highest){last, claim};
}

static void judge_fence(const struct user *user, struct claim *claim)
{
    judge_settled(claim, redlock_fence(user->lease) + claim->fences - 1);
    for (unsigned rest = claim->resources; rest; rest &= rest - 1)
        judge_rise(user, claim, rl_first(rest));
}

/* --- how long --- */

/* The lag of the client's clock: RL_CLOCK_SPREAD, a glance, and it counts us. */
#define ROUNDING (150 * VIRTUAL_US)

/* The acquire or the adoption was at least so long ago, by the client's clock. ns */
static int64_t age(const struct claim *claim)
{
    return client_elapsed_since(&world.client[claim->client], claim->boot, claim->raw);
}

/* The validity by the slowest clock, of a key with this TTL. */
static int64_t validity_by(int64_t ttl_ms)
{
    int64_t ttl = ttl_ms * VIRTUAL_MS;
    return ttl - ttl / 1000000 * world.plan.drift_ppm - 2 * VIRTUAL_MS;
}

static int64_t validity_of(const struct claim *claim)
{
    return validity_by(claim->options.ttl_ms);
}

/* An eighth: what a clock that was not read for long may be ahead of its age. */
bool oracle_is_expired(const struct claim *claim)
{
    int64_t least = claim->options.min_validity_ms * VIRTUAL_MS;
    return age(claim) / 8 * 9 >= validity_of(claim) - least;
}

void oracle_judge_hold(const struct user *user)
{
    const struct claim *claim = user->claim;
    int64_t hold = claim->options.max_hold_ms,
            valid_ms = hold > 0 ? user_valid_ms(user) : 0;
    int64_t until = valid_ms * VIRTUAL_MS + age(claim) - ROUNDING;
    if (valid_ms > 0 && until > hold * VIRTUAL_MS)
        oracle_accuse(INVARIANT_HOLD,
                      "%.8s of client %u: %lld ms after %lld us, of %lld ms", claim->token,
                      claim->client + 1, (long long)valid_ms,
                      (long long)(age(claim) / VIRTUAL_US), (long long)hold);
}

/* Without an extension to less the longest hold ends first, if it is shorter than any TTL.
 */
void oracle_judge_end(const struct user *user, redlock_code code)
{
    const struct claim *claim = user->claim;
    int64_t hold = claim->options.max_hold_ms * VIRTUAL_MS;
    bool ends_first = hold > 0 && !claim->is_handed &&
                      hold < validity_by(claim->least_ttl_ms) - VIRTUAL_MS;
    if ((code == REDLOCK_MAX_HOLD && hold == 0) || (code == REDLOCK_EXPIRED && ends_first))
        oracle_accuse(INVARIANT_LOST, "%.8s of client %u: %s, of a hold of %lld ms",
                      claim->token, claim->client + 1, redlock_code_name(code),
                      (long long)claim->options.max_hold_ms);
}

static void judge_time(const struct user *user, const struct claim *claim,
                       const redlock_result *result, bool held)
{
    const struct process *process = &user->client->process;
    bool excused = process_was_interrupted(process);
    if (held && !excused && age(claim) >= validity_of(claim))
        oracle_accuse(INVARIANT_DEADLINE, "%.8s of client %u", claim->token,
                      claim->client + 1);
    if (!excused && result->valid_ms < claim->options.margin_ms)
        oracle_accuse(INVARIANT_DEADLINE, "%.8s of client %u: within the margin",
                      claim->token, claim->client + 1);
    if (held && !excused && result->valid_ms < claim->options.min_validity_ms)
        oracle_accuse(INVARIANT_DEADLINE, "too little is left to client %u",
                      claim->client + 1);
    oracle_judge_hold(user);
}

void oracle_judge_success(struct user *user, const redlock_result *result, bool held)
{
    struct claim *claim = user->claim;
    user->is_held = true;
    judge_grants(user, claim);
    judge_time(user, claim, result, held);
    if (held && world.plan.fenced)
        judge_fence(user, claim);
    if (user_valid_ms(user) == 0) /* it was stopped, and got the news too late */
        return;
    if (world.plan.fenced)
        oracle_judge_seats(claim);
    for_each_holder(claim, claim->resources, judge_other, claim);
}
