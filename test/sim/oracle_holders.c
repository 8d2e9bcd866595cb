/* The oracle on holders: who holds at one instant, on what, and for how long. */
#include "oracle_parts.h"

#include "world.h"

bool oracle_is_valid(const struct world *world, const struct client *client,
                     const struct attempt *attempt)
{
    const struct rl_lease *lease = &attempt->lease;
    bool ending = lease->state == RL_LEASE_LOST &&
                  (lease->cause == RL_CAUSE_EXPIRED || lease->cause == RL_CAUSE_MAX_HOLD);
    return attempt->used && (lease->state == RL_LEASE_HELD || ending) && lease->timed &&
           client_reading(world, client) < lease->valid;
}

/* The server gave up the first token's key early, and the other's client cannot know. */
static bool excuses(const struct world *world, const struct token *token, unsigned server,
                    unsigned node, const struct client *other)
{
    const struct loss *loss = &token->loss[server];
    if (world->swarm.fenced)
        return loss->broken;
    if (!loss->lost)
        return false;
    bool watched =
        loss->watchers & oracle_watcher(other->index, node) && other->born <= loss->at;
    return !loss->restart || world->swarm.durable || !watched;
}

static void note_outside(struct world *world, enum bound bound)
{
    world->verdict.outside[bound] = true;
}

/* A server that both rest on lost the key of one, and the other could not know. */
static bool is_excused(const struct world *world, const struct client *a,
                       const struct attempt *ours, unsigned our_node,
                       const struct client *b, const struct attempt *theirs,
                       unsigned their_node, bool *ret_by_clock)
{
    unsigned server = ours->server[our_node];
    if (excuses(world, &world->token[ours->token], server, our_node, b) ||
        excuses(world, &world->token[theirs->token], server, their_node, a))
        return true;
    *ret_by_clock = oracle_clock_excuses(world, ours, our_node, b) ||
                    oracle_clock_excuses(world, theirs, their_node, a);
    return *ret_by_clock;
}

/* Whether each server that both rest on has an excuse. */
static bool all_excused(const struct world *world, const struct client *a,
                        const struct attempt *ours, const struct client *b,
                        const struct attempt *theirs, bool *ret_by_clock)
{
    unsigned both = 0;
    for (rl_node_set rest = ours->rests_on; rest; rest &= rest - 1)
        for (rl_node_set others = theirs->rests_on; others; others &= others - 1) {
            unsigned our_node = rl_first(rest), their_node = rl_first(others);
            if (ours->server[our_node] != theirs->server[their_node])
                continue;
            both++;
            if (!is_excused(world, a, ours, our_node, b, theirs, their_node, ret_by_clock))
                return false;
        }
    return both > 0;
}

static void judge_pair(struct world *world, const struct client *a,
                       const struct attempt *ours, const struct client *b,
                       const struct attempt *theirs)
{
    bool by_clock = false;
    if (all_excused(world, a, ours, b, theirs, &by_clock))
        note_outside(world, by_clock ? BOUND_STEP : BOUND_MEMORY);
    else if (world->swarm.wild)
        note_outside(world, BOUND_CLOCK);
    else
        oracle_accuse(world, INVARIANT_EXCLUSION,
                      "%.*s of client %u and %.*s of client %u are valid", TOKEN_LEN,
                      world->token[ours->token].text, a->index + 1, TOKEN_LEN,
                      world->token[theirs->token].text, b->index + 1);
}

/* A lease is valid from now on, or for longer. */
static void judge_holder(struct world *world, const struct client *client,
                         const struct attempt *attempt)
{
    if (!oracle_is_valid(world, client, attempt))
        return;
    for (unsigned i = 0; i < world->swarm.clients; i++) {
        const struct client *other = &world->client[i];
        for (unsigned k = 0; other->alive && k < other->attempts; k++) {
            const struct attempt *theirs = &other->attempt[k];
            if (theirs->resource == attempt->resource && theirs->token != attempt->token &&
                oracle_is_valid(world, other, theirs))
                judge_pair(world, client, attempt, other, theirs);
        }
    }
}

static bool rests_on_server(const struct attempt *attempt, unsigned server,
                            rl_time *ret_since)
{
    for (rl_node_set rest = attempt->rests_on; rest; rest &= rest - 1) {
        *ret_since = attempt->ran[rl_first(rest)];
        if (attempt->server[rl_first(rest)] == server)
            return true;
    }
    return false;
}

/* A server stores a token anew: no valid lease may rest on it. */
void oracle_judge_storing(struct world *world, const struct order *order)
{
    const struct client *client = &world->client[order->client];
    const struct token *token = &world->token[order->token];
    for (unsigned i = 0; i < world->swarm.clients; i++) {
        const struct client *other = &world->client[i];
        for (unsigned k = 0; other->alive && k < other->attempts; k++) {
            const struct attempt *theirs = &other->attempt[k];
            rl_time since;
            if (theirs->resource != token->resource || theirs->token == order->token ||
                !rests_on_server(theirs, order->server, &since) ||
                !oracle_is_valid(world, other, theirs))
                continue;
            if (world->swarm.wild)
                continue;
            if (world->swarm.fenced && oracle_ran_ahead(world, order->server, since))
                continue;
            if (!excuses(world, &world->token[theirs->token], order->server, order->node,
                         client))
                oracle_accuse(world, INVARIANT_STOLEN,
                              "server %u stores %.*s, but %.*s of client %u is valid",
                              order->server + 1, TOKEN_LEN, token->text, TOKEN_LEN,
                              world->token[theirs->token].text, i + 1);
        }
    }
}

/* A key is there to the end of its last millisecond. */
static rl_time left_there(const struct world *world, const struct token *token,
                          const struct server *server)
{
    rl_time now = skew_read(&server->clock, world->now);
    const struct store_entry *entry =
        store_find(&server->store, world_key(token->resource), now / RL_MS);
    bool ours = entry && entry->type == STORE_STRING && entry->value.text == token->text;
    return ours ? (entry->expires + 1) * RL_MS - now : 0;
}

/* How long a clock of this rate takes for it. */
static rl_time true_span(rl_time span, int32_t ppm)
{
    return ppm <= SKEW_FROZEN ? RL_NEVER : span * 1000000 / (1000000 + ppm);
}

static void judge_keys(struct world *world, const struct client *client,
                       const struct attempt *attempt)
{
    const struct token *token = &world->token[attempt->token];
    rl_time left = attempt->lease.valid - client_reading(world, client);
    rl_time held = true_span(left, (int32_t)rl_max(client->boot.ppm, client->raw.ppm));
    for (rl_node_set rest = attempt->rests_on; rest && !world->swarm.wild;
         rest &= rest - 1) {
        const struct server *server = &world->server[attempt->server[rl_first(rest)]];
        rl_time kept = true_span(left_there(world, token, server), server->clock.ppm);
        if (oracle_ran_ahead(world, server->index, attempt->ran[rl_first(rest)]))
            continue;
        if (left > 0 && kept < held && !token->loss[server->index].lost)
            oracle_accuse(world, INVARIANT_OUTLIVES,
                          "%.*s of client %u on server %u by %lld us", TOKEN_LEN,
                          token->text, client->index + 1, server->index + 1,
                          (long long)(held - kept));
    }
}

/* Two nodes that are one server are one vote. */
static unsigned count_servers(const struct attempt *attempt)
{
    rl_node_set servers = 0;
    for (rl_node_set rest = attempt->granted; rest; rest &= rest - 1)
        servers |= rl_bit(attempt->server[rl_first(rest)]);
    return rl_count(servers);
}

/* A client that acquires later shares a server with those, and meets the fence there. */
static void judge_settled(struct world *world, const struct client *client,
                          const struct attempt *attempt)
{
    unsigned stores = 0;
    for (rl_node_set rest = attempt->rests_on; rest; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        const struct server *server = &world->server[attempt->server[node]];
        const struct store_entry *entry = store_find(
            &server->store, world_fence_key(attempt->resource), server_time(world, server));
        bool forgot = server->memory != attempt->memory[node];
        stores += forgot || (entry && entry->fence >= attempt->lease.fence);
    }
    if (stores < world->swarm.q)
        oracle_accuse(world, INVARIANT_SETTLED, "%u servers store that of client %u",
                      stores, client->index + 1);
}

/*
 * Of two who acquired, and whose quorums share a server, the one that it granted later has
 * the larger tokens: also where somebody broke the lock meanwhile, so nothing is excused.
 */
static void judge_order(struct world *world, const struct client *client,
                        const struct attempt *attempt, unsigned node)
{
    unsigned server = attempt->server[node];
    struct turn_order *order = &world->order[server][attempt->resource];
    int64_t last = attempt->lease.fence, first = rl_fence_first(last, attempt->fences);
    for (unsigned i = 0; i < ORDER_MAX && i < order->count; i++) {
        bool later = attempt->nth[node] > order->grant[i].nth;
        bool rises = later ? first > order->grant[i].last : last < order->grant[i].first;
        if (order->grant[i].memory == attempt->memory[node] && !rises)
            oracle_accuse(world, INVARIANT_RISING,
                          "%lld of client %u, against the order of server %u",
                          (long long)first, client->index + 1, server + 1);
    }
    unsigned at = order->count++ % ORDER_MAX;
    order->grant[at].memory = attempt->memory[node];
    order->grant[at].nth = attempt->nth[node];
    order->grant[at].first = first;
    order->grant[at].last = last;
}

static void judge_orders(struct world *world, const struct client *client,
                         const struct attempt *attempt)
{
    for (rl_node_set rest = attempt->rests_on; rest; rest &= rest - 1)
        if (attempt->stored[rl_first(rest)] >= attempt->lease.fence)
            judge_order(world, client, attempt, rl_first(rest));
}

/* In the order in which they were acquired, fencing tokens rise: all that are reserved. */
static void judge_fence(struct world *world, const struct client *client,
                        const struct attempt *attempt)
{
    int64_t last = attempt->lease.fence, *highest = &world->highest[attempt->resource];
    int64_t fence = rl_fence_first(last, attempt->fences);
    judge_settled(world, client, attempt);
    judge_orders(world, client, attempt);
    struct attempt *first = &world->first[attempt->resource];
    if (fence > *highest) {
        *highest = last;
        *first = *attempt;
        return;
    }
    /* Both held it, or could have, beyond the bounds. */
    const struct client *other = &world->client[world->token[first->token].client];
    bool by_clock = false;
    if (all_excused(world, client, attempt, other, first, &by_clock))
        note_outside(world, by_clock ? BOUND_STEP : BOUND_MEMORY);
    else
        oracle_accuse(world, INVARIANT_RISING, "%lld of client %u is %lld too small",
                      (long long)fence, client->index + 1,
                      (long long)(*highest - fence + 1));
}

void oracle_judge_good_news(struct world *world, struct client *client,
                            struct attempt *attempt, bool held)
{
    const struct rl_lease *lease = &attempt->lease;
    const struct token *token = &world->token[attempt->token];
    attempt->rests_on = attempt->granted;
    attempt->won = attempt->round;
    unsigned grants = count_servers(attempt);
    if (grants < world->swarm.q)
        oracle_accuse(world, INVARIANT_QUORUM, "%.*s of client %u has %u grants", TOKEN_LEN,
                      token->text, client->index + 1, grants);
    if (client->view.now >= lease->valid - lease->params->margin)
        oracle_accuse(world, INVARIANT_DEADLINE, "%.*s of client %u", TOKEN_LEN,
                      token->text, client->index + 1);
    if (held && lease->valid - client->view.now < lease->params->min_validity)
        oracle_accuse(world, INVARIANT_DEADLINE, "too little is left to client %u",
                      client->index + 1);
    if (lease->valid > rl_time_add_sat(attempt->begun, lease->params->max_hold))
        oracle_accuse(world, INVARIANT_HOLD, "%.*s of client %u", TOKEN_LEN, token->text,
                      client->index + 1);
    judge_keys(world, client, attempt);
    if (held && world->swarm.fenced)
        judge_fence(world, client, attempt);
    if (world->swarm.fenced)
        oracle_judge_seats(world, attempt);
    judge_holder(world, client, attempt);
}
