#include "oracle.h"

#include <stdarg.h>
#include <stdio.h>

#include "world.h"

static const struct {
    const char *name, *text;
} invariants[] = {{"none", "all is well"},
#define X(name, text) {#name, text},
                  INVARIANTS(X)
#undef X
};

const char *invariant_name(enum invariant invariant)
{
    return invariants[invariant].name;
}

const char *invariant_text(enum invariant invariant)
{
    return invariants[invariant].text;
}

void oracle_accuse(struct world *world, enum invariant invariant, const char *format, ...)
{
    struct verdict *verdict = &world->verdict;
    if (verdict->broken != INVARIANT_NONE)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, arguments);
    va_end(arguments);
    verdict->broken = invariant;
    verdict->at = world->now;
}

/* --- who holds --- */

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

/* That the client has greeted the server by this of its names: a bit of `watchers`. */
static uint32_t watcher(unsigned client, unsigned node)
{
    _Static_assert(CLIENTS_MAX * NODES <= 32, "a bit for each");
    return UINT32_C(1) << (client * NODES + node);
}

/* The server gave up the first token's key early, and the other's client cannot know. */
static bool excuses(const struct world *world, const struct token *token, unsigned node,
                    const struct client *other)
{
    const struct loss *loss = &token->loss[world_server_of(world, node)];
    if (!loss->lost)
        return false;
    bool watched = loss->watchers & watcher(other->index, node) && other->born <= loss->at;
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
static void judge_storing(struct world *world, const struct order *order)
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

/* --- what the servers do --- */

/* What a server has lost, it may have got back as it was once. */
static void judge_extension(struct world *world, const struct order *order)
{
    const struct server *server = &world->server[order->server];
    struct token *token = &world->token[order->token];
    const struct store_entry *entry =
        store_find(&server->store, world_key(token->resource), server_time(world, server));
    int64_t expires = entry ? entry->expires : 0;
    if (expires < token->expires[order->server] && !token->loss[order->server].lost)
        oracle_accuse(world, INVARIANT_EARLIER, "%.*s on server %u by %lld ms", TOKEN_LEN,
                      token->text, order->server + 1,
                      (long long)(token->expires[order->server] - expires));
    token->expires[order->server] = expires;
}

void oracle_ran(struct world *world, const struct order *order)
{
    struct server *server = &world->server[order->server];
    struct token *token = &world->token[order->token];
    bool stored = (order->text == RL_ACQUIRE && order->truth == RL_VOTE_GRANTED) ||
                  order->truth == RL_VOTE_PLANTED;
    bool extended = order->text == RL_EXTEND && order->truth == RL_VOTE_GRANTED;
    if (extended)
        judge_extension(world, order);
    if (stored || extended) /* it is there, whatever was lost before */
        token->loss[order->server].lost = false;
    if (!stored)
        return;
    token->node[order->server] = order->node;
    token->ghost[order->server] = order->straggles;
    int64_t now = server_time(world, server);
    const struct store_entry *entry =
        store_find(&server->store, world_key(token->resource), now);
    if (!entry || entry->expires > now + order->ttl_ms)
        oracle_accuse(world, INVARIANT_TTL, "server %u stores %.*s for too long",
                      order->server + 1, TOKEN_LEN, token->text);
    else
        token->expires[order->server] = entry->expires;
    judge_storing(world, order);
}

static uint32_t watchers(const struct world *world, unsigned server)
{
    uint32_t set = 0;
    for (unsigned i = 0; i < world->swarm.clients; i++)
        for (unsigned node = 0; world->client[i].alive && node < NODES; node++)
            if (world_server_of(world, node) == server &&
                world->client[i].member[node].life > 0)
                set |= watcher(i, node);
    return set;
}

void oracle_compare(struct world *world, struct server *server, const struct store *before,
                    bool restart)
{
    int64_t now = server_time(world, server);
    for (unsigned i = 0; i < STORE_KEYS; i++) {
        const struct store_entry *entry = &before->entry[i];
        struct token *token =
            entry->type == STORE_STRING ? world_token_of(world, entry->value) : NULL;
        if (!token || entry->expires < now)
            continue;
        const struct store_entry *left = store_find(&server->store, entry->key, now);
        if (!left || left->type != STORE_STRING || left->value.text != entry->value.text ||
            left->expires < entry->expires)
            token->loss[server->index] = (struct loss){
                .at = world->now,
                .lost = true,
                .restart = restart,
                .watchers = watchers(world, server->index),
            };
    }
    for (unsigned i = 0; i < STORE_KEYS; i++) {
        const struct store_entry *entry = &server->store.entry[i];
        struct token *token =
            entry->type == STORE_STRING ? world_token_of(world, entry->value) : NULL;
        if (token && restart)
            token->ghost[server->index] = true;
    }
}

/* --- what a client says and hears --- */

void oracle_says(struct world *world, struct client *client, struct attempt *attempt,
                 const struct rl_update *update, rl_nodes nodes)
{
    struct token *token = &world->token[attempt->token];
    if (update->text != RL_ACQUIRE && update->text != RL_EXTEND)
        return;
    bool has_deadline = attempt->rests_on != 0;
    bool again = update->text == RL_ACQUIRE && attempt->round != 0;
    if (attempt->over || attempt->lost || again || (update->plant && !has_deadline))
        oracle_accuse(world, INVARIANT_AFTER, "%.*s of client %u", TOKEN_LEN, token->text,
                      client->index + 1);
    for (rl_nodes rest = nodes; rest; rest &= rest - 1) {
        const struct member *member = &client->member[rl_first(rest)];
        if (client->view.now < member->barred)
            oracle_accuse(world, INVARIANT_BARRED, "client %u asks node %u",
                          client->index + 1, rl_first(rest) + 1);
    }
    if (update->seq == attempt->round)
        return;
    token->clean_until =
        rl_max(token->clean_until, client->view.now + 2 * attempt->lease.terms.ttl);
    attempt->round = update->seq;
    attempt->granted = 0;
    if (update->text == RL_ACQUIRE)
        attempt->missing = rl_all(NODES) & ~nodes;
}

void oracle_heard(struct attempt *attempt, const struct order *order)
{
    rl_nodes bit = rl_bit(order->node);
    if (order->seq != attempt->round || order->text == RL_RELEASE)
        return;
    switch (order->truth) {
    case RL_VOTE_GRANTED:
        attempt->granted |= bit;
        attempt->missing &= ~bit;
        if (attempt->won == attempt->round)
            attempt->rests_on |= bit;
        break;
    case RL_VOTE_ERROR:
        if (order->text == RL_ACQUIRE)
            attempt->missing |= bit;
        break;
    case RL_VOTE_HELD:
    case RL_VOTE_GONE:
    case RL_VOTE_PLANTED: attempt->missing |= bit; break;
    default: break;
    }
}

static void forget(struct attempt *attempt, unsigned node)
{
    attempt->missing |= rl_bit(node);
    attempt->granted &= ~rl_bit(node);
}

/* Whoever greets another process than the last time must not count it for a while. */
void oracle_greeted(struct world *world, struct client *client, const struct order *order,
                    const struct rl_identity *identity)
{
    struct member *member = &client->member[order->node];
    bool accepted = identity->is_master && !identity->is_cluster && !identity->is_loading &&
                    !identity->is_duplicate && identity->denied == RL_FAULT_NONE &&
                    identity->run_id[0];
    if (identity->run_id[0]) {
        if (member->life != 0 && member->life != order->life && !world->swarm.durable) {
            member->quarantined_until = client->view.now + client_quarantine(world);
            member->forgot = true;
        }
        member->life = order->life;
    }
    member->barred = accepted ? member->quarantined_until : RL_NEVER;
    if (!accepted || !member->forgot)
        return;
    member->forgot = false;
    for (unsigned i = 0; i < client->attempts; i++)
        forget(&client->attempt[i], order->node);
}

/* --- what a client makes of it --- */

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

static void judge_good_news(struct world *world, struct client *client,
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
    judge_holder(world, client, attempt);
}

/* How late a timer may be: what is left of a sleep, by the slower of two clocks. */
#define TIMER_SLACK (2 * RL_MS)

static void judge_loss(struct world *world, struct client *client, struct attempt *attempt)
{
    const struct rl_lease *lease = &attempt->lease;
    rl_time due = lease->valid - lease->terms.margin, now = client->view.now;
    bool known = rl_count(attempt->missing) >= rl_majority(NODES);
    rl_time could = rl_max(due, rl_max(client->excuse, attempt->begun));
    bool ran_out = lease->cause == RL_CAUSE_EXPIRED || lease->cause == RL_CAUSE_MAX_HOLD;
    if (attempt->lost)
        oracle_accuse(world, INVARIANT_LOST, "client %u is told twice", client->index + 1);
    if (ran_out && (now < due || now > could + TIMER_SLACK))
        oracle_accuse(world, INVARIANT_LOST, "client %u is told %lld us after it was due",
                      client->index + 1, (long long)(now - due));
    if (!ran_out && !known)
        oracle_accuse(world, INVARIANT_LOST, "client %u may still have a majority",
                      client->index + 1);
    attempt->lost = true;
}

/* Where nothing goes wrong the watchdog keeps what it watches, and who asks is served. */
static void judge_keeping(struct world *world, const struct client *client,
                          const struct attempt *attempt, unsigned news)
{
    const struct rl_lease *lease = &attempt->lease;
    const struct swarm *swarm = &world->swarm;
    if (world->phase != PHASE_STORM || swarm->weights || swarm->wild || swarm->spike ||
        swarm->loss || swarm->stall)
        return;
    bool watched = lease->terms.extend_every > 0 &&
                   !world->token[attempt->token].handed && /* it may have had little left */
                   lease->terms.margin <= lease->terms.ttl / 4;
    bool ran_out = news & RL_NEWS_LOST && lease->cause == RL_CAUSE_EXPIRED && watched;
    bool refused =
        news & RL_NEWS_NOT_EXTENDED && lease->state == RL_LEASE_HELD && lease->timed;
    if (ran_out || refused)
        oracle_accuse(world, INVARIANT_LIVENESS, "%.*s of client %u is not extended",
                      TOKEN_LEN, world->token[attempt->token].text, client->index + 1);
}

static void judge_known(struct world *world, const struct client *client,
                        const struct attempt *attempt)
{
    if (attempt->used && attempt->lease.state == RL_LEASE_HELD &&
        rl_count(attempt->missing) >= rl_majority(NODES))
        oracle_accuse(world, INVARIANT_KNOWN, "%.*s of client %u", TOKEN_LEN,
                      world->token[attempt->token].text, client->index + 1);
}

void oracle_stepped(struct world *world, struct client *client, struct attempt *attempt,
                    const struct rl_update *update)
{
    const unsigned good = RL_NEWS_HELD | RL_NEWS_EXTENDED | RL_NEWS_RENEWED;
    const struct rl_lease *lease = &attempt->lease;
    if (update->news & good)
        judge_good_news(world, client, attempt, update->news & RL_NEWS_HELD);
    if (update->news & RL_NEWS_LOST)
        judge_loss(world, client, attempt);
    judge_keeping(world, client, attempt, update->news);
    if (update->news & RL_NEWS_FAILED)
        oracle_left(world, attempt, true);
    judge_known(world, client, attempt);
    if (lease->state == RL_LEASE_ACQUIRING && rl_count(attempt->granted) >= world->swarm.q)
        oracle_accuse(world, INVARIANT_DECIDED, "client %u waits for more",
                      client->index + 1);
    if (lease->state == RL_LEASE_LOST && attempt->rests_on && !attempt->lost)
        oracle_accuse(world, INVARIANT_LOST, "client %u is not told", client->index + 1);
    if (update->news & RL_NEWS_HELD) {
        world->acquisitions++;
        world->acquirers |= rl_bit(client->index);
        if (world->phase == PHASE_CALM) {
            world->wanted &= ~rl_bit(attempt->resource);
            world->waiting &= ~rl_bit(client->index);
        }
    }
}

/* How long the lock is surely held, as each callback says. */
static void judge_left(struct world *world, const struct client *client,
                       const struct user *user)
{
    const struct rl_lease *lease = &user->attempt->lease;
    rl_time left = rl_lease_left(lease, client->view.now);
    bool held = lease->state == RL_LEASE_HELD && lease->timed;
    bool ran_out = lease->state == RL_LEASE_LOST &&
                   (lease->cause == RL_CAUSE_EXPIRED || lease->cause == RL_CAUSE_MAX_HOLD);
    rl_time most = held || ran_out ? rl_max(lease->valid - client->view.now, 0) : 0;
    if (left != most)
        oracle_accuse(world, INVARIANT_TOLD, "client %u: held for %lld us",
                      client->index + 1, (long long)left);
}

void oracle_told(struct world *world, struct client *client, struct user *user,
                 enum rl_news news)
{
    bool expected = true;
    switch (news) {
    case RL_NEWS_HELD:
    case RL_NEWS_FAILED: expected = user->phase == USER_TRYING && user->acquiring; break;
    case RL_NEWS_EXTENDED:
    case RL_NEWS_NOT_EXTENDED: expected = user->extending; break;
    case RL_NEWS_RENEWED:
    case RL_NEWS_LOST: expected = user->phase == USER_HOLDING && !user->lost; break;
    case RL_NEWS_RELEASED: expected = user->releasing; break;
    }
    judge_left(world, client, user);
    if (!expected)
        oracle_accuse(world, INVARIANT_CALLBACK, "client %u, user %u, news %u",
                      client->index + 1, user->index + 1, news);
}

/* How many nodes are or will be free in so many ms, as far as this attempt was told. */
static unsigned free_by(const struct rl_ballot *ballot, int64_t in)
{
    unsigned free = 0;
    for (unsigned i = 0; i < NODES; i++) {
        bool leaves = ballot[i].vote == RL_VOTE_HELD && ballot[i].pttl >= 0;
        free += ballot[i].vote == RL_VOTE_GRANTED || ballot[i].vote == RL_VOTE_GONE ||
                (leaves && ballot[i].pttl <= in);
    }
    return free;
}

void oracle_promised(struct world *world, const struct client *client,
                     const struct user *user, int64_t free_in)
{
    const struct rl_ballot *ballot = user->attempt->ballot;
    unsigned q = world->swarm.q;
    bool right = free_in < 0 ? free_in == -1 && free_by(ballot, INT64_MAX) < q
                             : free_by(ballot, free_in) >= q &&
                                   (free_in == 0 || free_by(ballot, free_in - 1) < q);
    if (!right)
        oracle_accuse(world, INVARIANT_TOLD, "client %u: free in %lld ms",
                      client->index + 1, (long long)free_in);
}

void oracle_operated(struct world *world, const struct server *server, unsigned resource,
                     const struct store *before, const struct rl_answer *there,
                     const struct rl_answer *broken)
{
    int64_t now = server_time(world, server);
    struct rl_word key = world_key(resource);
    const struct store_entry *entry = store_find(before, key, now);
    bool is_list = entry && entry->type == STORE_LIST;
    bool is_value = entry && entry->type == STORE_STRING;
    bool told = is_value && there->value.text == entry->value.text &&
                broken->value.text == entry->value.text && there->pttl == broken->pttl &&
                there->pttl <= rl_max(entry->expires - now, -1);
    bool right = entry ? there->vote == RL_VOTE_HELD : there->vote == RL_VOTE_GONE;
    right = right && (!is_value || told);
    right = right && (!is_list || broken->vote == RL_VOTE_ERROR);
    right = right && is_list == (store_find(&server->store, key, now) != NULL);
    if (!right)
        oracle_accuse(world, INVARIANT_TOLD, "server %u, \"%s\"", server->index + 1,
                      key.text);
}

void oracle_left(struct world *world, struct attempt *attempt, bool cleans)
{
    attempt->over = true;
    if (cleans)
        world->token[attempt->token].cleaned = true;
}

/* Whoever disowns a lease is told first that it is not extended. */
void oracle_disowned(struct world *world, const struct client *client,
                     const struct user *user)
{
    if (user->extending)
        oracle_accuse(world, INVARIANT_CALLBACK, "client %u, user %u disowns in vain",
                      client->index + 1, user->index + 1);
}

void oracle_adopted(struct world *world, struct attempt *attempt)
{
    world->token[attempt->token].handed = true;
}

/* At the end of a pass whoever holds what has run out was told. */
void oracle_passed(struct world *world, struct client *client)
{
    for (unsigned i = 0; i < client->attempts; i++) {
        const struct rl_lease *lease = &client->attempt[i].lease;
        if (client->attempt[i].used && lease->state == RL_LEASE_HELD && lease->timed &&
            client->view.now >= lease->valid - lease->terms.margin)
            oracle_accuse(world, INVARIANT_LOST, "client %u is not told",
                          client->index + 1);
        judge_known(world, client, &client->attempt[i]);
    }
}

/* --- the end --- */

static bool is_told(const struct user *user)
{
    return !user->acquiring && !user->extending && !user->releasing;
}

/* Its client had a second and more to say the release to the node that stored it. */
static bool should_be_clean(const struct world *world, const struct token *token,
                            unsigned server)
{
    const struct client *client = &world->client[token->client];
    if (!token->cleaned || token->handed || token->ghost[server] ||
        client->born > token->made || client_reading(world, client) >= token->clean_until)
        return false;
    return rl_link_is_open(&client->member[token->node[server]].link);
}

/* A node that is well, owes nothing and is not barred may vote again. */
static void judge_links(struct world *world, const struct client *client)
{
    for (unsigned node = 0; node < NODES; node++) {
        const struct member *member = &client->member[node];
        bool healed = world->healed & rl_bit(world_server_of(world, node));
        if (healed && rl_link_is_open(&member->link) && !rl_link_is_ready(&member->link) &&
            member->owed == 0 && client->view.now >= member->barred)
            oracle_accuse(world, INVARIANT_LIVENESS, "client %u does not ask node %u",
                          client->index + 1, node + 1);
    }
}

void oracle_finish(struct world *world)
{
    for (unsigned c = 0; c < world->swarm.clients; c++)
        judge_links(world, &world->client[c]);
    for (unsigned c = 0; c < world->swarm.clients; c++)
        for (unsigned u = 0; u < world->swarm.users; u++)
            if (!is_told(&world->client[c].user[u]))
                oracle_accuse(world, INVARIANT_CALLBACK, "client %u, user %u waits in vain",
                              c + 1, u + 1);
    for (rl_nodes rest = world->healed; rest; rest &= rest - 1) {
        const struct server *server = &world->server[rl_first(rest)];
        for (unsigned r = 0; r < world->swarm.resources; r++) {
            const struct store_entry *entry =
                store_find(&server->store, world_key(r), server_time(world, server));
            const struct token *token = entry && entry->type == STORE_STRING
                                            ? world_token_of(world, entry->value)
                                            : NULL;
            if (token && should_be_clean(world, token, server->index))
                oracle_accuse(world, INVARIANT_LEFT, "%.*s on server %u", TOKEN_LEN,
                              token->text, server->index + 1);
        }
    }
}
