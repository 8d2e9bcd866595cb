/* The oracle on holders: who holds at one instant, on what, and for how long. */
#include "oracle_parts.h"

#include "world.h"

/* By what its holder would be told if it asked now; LOST comes a margin before the end. */
static bool is_valid(const struct world *world, const struct client *client,
                     const struct attempt *attempt)
{
    const struct rl_lease *lease = &attempt->lease;
    bool ending = lease->state == RL_LEASE_LOST &&
                  (lease->cause == RL_CAUSE_EXPIRED || lease->cause == RL_CAUSE_MAX_HOLD);
    return attempt->used && (lease->state == RL_LEASE_HELD || ending) && lease->timed &&
           client_reading(world, client) < lease->valid;
}

/* The server gave up the first token's key early, and the other's client cannot know. */
static bool excuses(const struct world *world, const struct token *token, unsigned node,
                    const struct client *other)
{
    const struct loss *loss = &token->loss[world_server_of(world, node)];
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

/* Whether each node that both rest on has an excuse. */
static bool all_excused(const struct world *world, const struct client *a,
                        const struct attempt *ours, const struct client *b,
                        const struct attempt *theirs)
{
    rl_nodes both = ours->rests_on & theirs->rests_on;
    for (rl_nodes rest = both; rest; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        if (!excuses(world, &world->token[ours->token], node, b) &&
            !excuses(world, &world->token[theirs->token], node, a))
            return false;
    }
    return both != 0;
}

static void judge_pair(struct world *world, const struct client *a,
                       const struct attempt *ours, const struct client *b,
                       const struct attempt *theirs)
{
    if (all_excused(world, a, ours, b, theirs))
        note_outside(world, BOUND_MEMORY);
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
    if (!is_valid(world, client, attempt))
        return;
    for (unsigned i = 0; i < world->swarm.clients; i++) {
        const struct client *other = &world->client[i];
        for (unsigned k = 0; other->alive && k < other->attempts; k++) {
            const struct attempt *theirs = &other->attempt[k];
            if (theirs->resource == attempt->resource && theirs->token != attempt->token &&
                is_valid(world, other, theirs))
                judge_pair(world, client, attempt, other, theirs);
        }
    }
}

static bool rests_on_server(const struct world *world, const struct attempt *attempt,
                            unsigned server)
{
    for (rl_nodes rest = attempt->rests_on; rest; rest &= rest - 1)
        if (world_server_of(world, rl_first(rest)) == server)
            return true;
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
            if (theirs->resource != token->resource || theirs->token == order->token ||
                !rests_on_server(world, theirs, order->server) ||
                !is_valid(world, other, theirs))
                continue;
            if (world->swarm.wild)
                continue;
            if (!excuses(world, &world->token[theirs->token], order->node, client))
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
    for (rl_nodes rest = attempt->rests_on; rest && !world->swarm.wild; rest &= rest - 1) {
        const struct server *server =
            &world->server[world_server_of(world, rl_first(rest))];
        rl_time kept = true_span(left_there(world, token, server), server->clock.ppm);
        if (left > 0 && kept < held && !token->loss[server->index].lost)
            oracle_accuse(world, INVARIANT_OUTLIVES,
                          "%.*s of client %u on server %u by %lld us", TOKEN_LEN,
                          token->text, client->index + 1, server->index + 1,
                          (long long)(held - kept));
    }
}

/* Two nodes that are one server are one vote. */
static unsigned count_servers(const struct world *world, rl_nodes nodes)
{
    rl_nodes servers = 0;
    for (; nodes; nodes &= nodes - 1)
        servers |= rl_bit(world_server_of(world, rl_first(nodes)));
    return rl_count(servers);
}

/* Whoever acquires later shares a server with those, and meets the fence there. */
static void judge_settled(struct world *world, const struct client *client,
                          const struct attempt *attempt)
{
    unsigned stores = 0;
    for (rl_nodes rest = attempt->rests_on; rest; rest &= rest - 1) {
        const struct server *server =
            &world->server[world_server_of(world, rl_first(rest))];
        const struct store_entry *entry = store_find(
            &server->store, world_fence_key(attempt->resource), server_time(world, server));
        stores += entry && entry->fence >= attempt->lease.fence;
    }
    if (stores < world->swarm.q && !world->forgot)
        oracle_accuse(world, INVARIANT_SETTLED, "%u servers store that of client %u",
                      stores, client->index + 1);
}

/* In the order in which they were acquired, fencing tokens rise. */
static void judge_fence(struct world *world, const struct client *client,
                        const struct attempt *attempt)
{
    int64_t fence = attempt->lease.fence, *highest = &world->highest[attempt->resource];
    judge_settled(world, client, attempt);
    if (fence <= *highest && world->forgot)
        note_outside(world, BOUND_MEMORY);
    else if (fence <= *highest)
        oracle_accuse(world, INVARIANT_RISING, "%lld of client %u is %lld too small",
                      (long long)fence, client->index + 1,
                      (long long)(*highest - fence + 1));
    *highest = rl_max(*highest, fence);
}

void oracle_judge_good_news(struct world *world, struct client *client,
                            struct attempt *attempt, bool held)
{
    const struct rl_lease *lease = &attempt->lease;
    const struct token *token = &world->token[attempt->token];
    attempt->rests_on = attempt->granted;
    attempt->won = attempt->round;
    unsigned grants = count_servers(world, attempt->granted);
    if (grants < world->swarm.q)
        oracle_accuse(world, INVARIANT_QUORUM, "%.*s of client %u has %u grants", TOKEN_LEN,
                      token->text, client->index + 1, grants);
    if (client->view.now >= lease->valid - lease->terms.margin)
        oracle_accuse(world, INVARIANT_DEADLINE, "%.*s of client %u", TOKEN_LEN,
                      token->text, client->index + 1);
    if (held && lease->valid - client->view.now < lease->terms.min_validity)
        oracle_accuse(world, INVARIANT_DEADLINE, "too little is left to client %u",
                      client->index + 1);
    if (lease->valid > rl_later(attempt->begun, lease->terms.max_hold))
        oracle_accuse(world, INVARIANT_HOLD, "%.*s of client %u", TOKEN_LEN, token->text,
                      client->index + 1);
    judge_keys(world, client, attempt);
    if (held && world->swarm.fenced)
        judge_fence(world, client, attempt);
    judge_holder(world, client, attempt);
}
