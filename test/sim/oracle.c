#include "oracle_parts.h"

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

/* A second, and what the nodes' clocks and a client's notion of them may differ by. */
#define LATE_AT_MOST  (RL_SECOND + 1500 * RL_MS)
#define STEPS_AT_MOST (5 * RL_SECOND)

static void judge_lateness(struct world *world, const struct order *order)
{
    rl_time most = LATE_AT_MOST + (swarm_disturbs(&world->swarm) ? STEPS_AT_MOST : 0);
    if (world->swarm.fenced && !world->swarm.distant && world->now - order->left > most)
        oracle_accuse(world, INVARIANT_HELD_UP, "server %u, %lld ms after it was sent",
                      order->server + 1, (long long)((world->now - order->left) / RL_MS));
}

void oracle_ran(struct world *world, const struct order *order)
{
    struct server *server = &world->server[order->server];
    struct token *token = &world->token[order->token];
    bool stored = (order->text == RL_CMD_ACQUIRE && order->truth == RL_VOTE_GRANTED) ||
                  order->truth == RL_VOTE_RECREATED;
    bool extended = order->text == RL_CMD_EXTEND && order->truth == RL_VOTE_GRANTED;
    if (extended)
        judge_extension(world, order);
    if (world->swarm.fenced)
        oracle_judge_vote(world, order);
    int64_t now = server_time(world, server);
    const struct store_entry *entry =
        store_find(&server->store, world_key(token->resource), now);
    /* It is there again, and for as long as it was: an old order may have stored it. */
    if ((stored || extended) && entry &&
        entry->expires >= token->loss[order->server].expires)
        token->loss[order->server] = (struct loss){0};
    struct token *there =
        entry && entry->type == STORE_STRING ? world_token_of(world, entry->value) : NULL;
    if (order->truth == RL_VOTE_HELD && there && world->swarm.fenced) /* perhaps cut */
        there->expires[order->server] =
            rl_min(there->expires[order->server], entry->expires);
    if (!stored)
        return;
    token->node[order->server] = order->node;
    token->ghost[order->server] = order->straggles;
    if (!entry || entry->expires > now + order->ttl_ms)
        oracle_accuse(world, INVARIANT_TTL, "server %u stores %.*s for too long",
                      order->server + 1, TOKEN_LEN, token->text);
    else
        token->expires[order->server] = entry->expires;
    judge_lateness(world, order);
    oracle_judge_storing(world, order);
}

static uint32_t watchers(const struct world *world, unsigned server)
{
    uint32_t set = 0;
    for (unsigned i = 0; i < world->swarm.clients; i++)
        for (unsigned node = 0; world->client[i].alive && node < NODES; node++)
            if (world->client[i].member[node].life > 0 &&
                world->client[i].member[node].server == server)
                set |= oracle_watcher(i, node);
    return set;
}

void oracle_copied(struct world *world, const struct server *server)
{
    for (unsigned i = 0; i < STORE_KEYS; i++) {
        const struct store_entry *entry = &server->store.entry[i];
        struct token *token =
            entry->type == STORE_STRING ? world_token_of(world, entry->value) : NULL;
        if (token)
            token->ghost[server->index] = true;
    }
}

void oracle_compare(struct world *world, struct server *server, const struct store *before,
                    enum loss_cause cause)
{
    int64_t now = server_time(world, server);
    bool restart = cause == LOSS_RESTART;
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
                .expires = rl_max(entry->expires, token->loss[server->index].expires),
                .lost = true,
                .broken = token->loss[server->index].broken || cause == LOSS_BREAK,
                .restart = restart,
                .watchers = watchers(world, server->index),
            };
    }
    if (restart)
        oracle_copied(world, server);
}

/* --- what a client says and hears --- */

void oracle_says(struct world *world, struct client *client, struct attempt *attempt,
                 const struct rl_update *update, rl_node_set nodes)
{
    struct token *token = &world->token[attempt->token];
    if (update->command == RL_CMD_RELEASE)
        attempt->told |= nodes;
    if (update->command != RL_CMD_ACQUIRE && update->command != RL_CMD_EXTEND)
        return;
    bool has_deadline = attempt->rests_on != 0;
    /* Where a server did not know the script, it did not run. */
    bool again = update->command == RL_CMD_ACQUIRE && attempt->round != 0 &&
                 update->seq != attempt->round;
    if (attempt->over || attempt->lost || again || (update->recreate && !has_deadline))
        oracle_accuse(world, INVARIANT_AFTER, "%.*s of client %u", TOKEN_LEN, token->text,
                      client->index + 1);
    for (rl_node_set rest = nodes; rest; rest &= rest - 1) {
        const struct member *member = &client->member[rl_first(rest)];
        if (client->view.now < (world->swarm.fenced ? member->refused : member->barred))
            oracle_accuse(world, INVARIANT_BARRED, "client %u asks node %u",
                          client->index + 1, rl_first(rest) + 1);
    }
    if (update->seq == attempt->round)
        return;
    token->clean_until =
        rl_max(token->clean_until, client->view.now + 2 * attempt->lease.ttl);
    attempt->round = update->seq;
    attempt->granted = 0;
    if (update->command == RL_CMD_ACQUIRE)
        attempt->missing = rl_all(NODES) & ~nodes;
}

void oracle_heard(struct world *world, struct attempt *attempt, const struct order *order,
                  enum rl_vote truth)
{
    rl_node_set bit = rl_bit(order->node);
    if (order->text == RL_CMD_RELEASE && truth == RL_VOTE_GRANTED)
        attempt->released |= bit;
    bool is_acquired = order->text == RL_CMD_ACQUIRE || order->text == RL_CMD_RAISE_FENCE;
    if (truth == RL_VOTE_GRANTED && is_acquired)
        attempt->stored[order->node] = order->fence;
    if (order->seq != attempt->round || order->text == RL_CMD_RELEASE)
        return;
    switch (truth) {
    case RL_VOTE_GRANTED:
        attempt->granted |= bit;
        if (world->swarm.fenced)
            oracle_judge_clock(world, &world->client[order->client], order);
        attempt->server[order->node] = order->server;
        attempt->memory[order->node] = order->memory;
        attempt->seal[order->node] = oracle_seal(order->marker);
        if (world->swarm.fenced && !attempt->seal[order->node].sound)
            oracle_accuse(world, INVARIANT_BARRED,
                          "client %u counts server %u, which ran it without a sound marker",
                          order->client + 1, order->server + 1);
        attempt->ran[order->node] = order->ran;
        attempt->nth[order->node] = order->nth;
        attempt->missing &= ~bit;
        if (attempt->won == attempt->round)
            attempt->rests_on |= bit;
        break;
    case RL_VOTE_ERROR:
        if (order->text == RL_CMD_ACQUIRE)
            attempt->missing |= bit;
        break;
    case RL_VOTE_HELD:
    case RL_VOTE_GONE:
    case RL_VOTE_RECREATED: attempt->missing |= bit; break;
    default: break;
    }
}

static void forget(struct attempt *attempt, unsigned node)
{
    attempt->missing |= rl_bit(node);
    attempt->granted &= ~rl_bit(node);
}

/* A client that greets another process than the last time must not count it for a while. */
void oracle_greeted(struct world *world, struct client *client, const struct order *order,
                    const struct rl_identity *identity)
{
    struct member *member = &client->member[order->node];
    bool accepted = identity->is_master && !identity->is_cluster && !identity->is_loading &&
                    !identity->is_duplicate && identity->denied == RL_FAULT_NONE &&
                    identity->process.run_id[0];
    if (identity->process.run_id[0]) {
        bool another = member->life != order->life || member->server != order->server;
        if (member->life != 0 && another && !world->swarm.durable) {
            member->quarantined_until = client->view.now + client_quarantine(world);
            member->forgot = true;
        }
        member->life = order->life;
        member->server = order->server;
    }
    member->barred = accepted ? member->quarantined_until : RL_NEVER;
    member->refused = accepted ? INT64_MIN : RL_NEVER;
    for (unsigned i = 0; member->forgot && i < client->attempts; i++)
        forget(&client->attempt[i], order->node);
    member->forgot &= !accepted; /* until then a lease may come that does not know it */
}

/* --- what a client makes of it --- */

/* How late a timer may be: what is left of a sleep, by the slower of two clocks. */
#define TIMER_SLACK (2 * RL_MS)

static void judge_loss(struct world *world, struct client *client, struct attempt *attempt)
{
    const struct rl_lease *lease = &attempt->lease;
    rl_time due = lease->valid - lease->params->margin, now = client->view.now;
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
    if (world->phase != PHASE_STORM || swarm->weights || swarm->wild || swarm->hasty ||
        swarm->spike || swarm->loss || swarm->stall)
        return;
    bool watched = lease->params->extend_every > 0 &&
                   !world->token[attempt->token].handed && /* it may have had little left */
                   lease->params->margin <= lease->ttl / 4;
    bool ran_out = news & RL_REPORT_LOST && lease->cause == RL_CAUSE_EXPIRED && watched;
    bool refused =
        news & RL_REPORT_NOT_EXTENDED && lease->state == RL_LEASE_HELD && lease->timed;
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
    const unsigned good = RL_REPORT_HELD | RL_REPORT_EXTENDED | RL_REPORT_RENEWED;
    const struct rl_lease *lease = &attempt->lease;
    if (update->reports & good)
        oracle_judge_good_news(world, client, attempt, update->reports & RL_REPORT_HELD);
    if (update->reports & RL_REPORT_LOST)
        judge_loss(world, client, attempt);
    judge_keeping(world, client, attempt, update->reports);
    if (update->reports & RL_REPORT_FAILED)
        oracle_left(world, attempt, true);
    judge_known(world, client, attempt);
    bool settles = lease->round.command == RL_CMD_RAISE_FENCE;
    if (lease->state == RL_LEASE_ACQUIRING && !settles &&
        rl_count(attempt->granted) >= world->swarm.q)
        oracle_accuse(world, INVARIANT_DECIDED, "client %u waits for more",
                      client->index + 1);
    if (lease->state == RL_LEASE_LOST && attempt->rests_on && !attempt->lost)
        oracle_accuse(world, INVARIANT_LOST, "client %u is not told", client->index + 1);
    if (update->reports & RL_REPORT_HELD) {
        world->acquisitions++;
        world->acquirers |= rl_bit(client->index);
        if (world->phase == PHASE_CALM) {
            world->wanted &= ~rl_bit(attempt->resource);
            world->waiting &= ~rl_bit(client->index);
        }
    }
}

void oracle_left(struct world *world, struct attempt *attempt, bool cleans)
{
    attempt->over = true;
    if (cleans)
        world->token[attempt->token].cleaned = true;
}

/* A user that disowns a lease is told first that it is not extended. */
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

/* At the end of a pass a user that holds what has run out was told. */
void oracle_passed(struct world *world, struct client *client)
{
    for (unsigned i = 0; i < client->attempts; i++) {
        const struct rl_lease *lease = &client->attempt[i].lease;
        if (client->attempt[i].used && lease->state == RL_LEASE_HELD && lease->timed &&
            client->view.now >= lease->valid - lease->params->margin)
            oracle_accuse(world, INVARIANT_LOST, "client %u is not told",
                          client->index + 1);
        judge_known(world, client, &client->attempt[i]);
    }
    oracle_judge_turns(world, client);
}
