/*
 * The oracle on repairs: where a node that may vote again lacks a held lease, the watchdog
 * extends soon, and once more if that stored the token again; and not more often.
 */
#include "core/lease.h"
#include "core/quorum.h"
#include "oracle_parts.h"
#include "world.h"

#define SLACK      (10 * VIRTUAL_MS)
#define SLOW_CLOCK 8 /* a client takes at most this part longer */
#define ROUNDS     2 /* that a node which may vote again is worth */

/* Less of the TTL than this between two extensions: the second one is no usual one. */
#define EARLY_SHARE 6

/* How long a round may last, and the time until the next one begins, of a few leases. */
static int64_t delay_of(const struct claim *claim)
{
    int64_t ttl = claim->options.ttl_ms * VIRTUAL_MS;
    ttl = ttl < claim->ttl_ms * VIRTUAL_MS ? claim->ttl_ms * VIRTUAL_MS : ttl;
    int64_t timeout = ttl / RL_NODE_TIMEOUT_SHARE;
    timeout = timeout < world.plan.node_timeout ? world.plan.node_timeout : timeout;
    int64_t delay = ttl / RL_RETRY_SHARE + timeout;
    return delay + delay / SLOW_CLOCK + SLACK;
}

static void refresh_votes(struct client *client)
{
    redlock_node node[NODES_MAX], link[NODES_MAX];
    bool fenced = world.plan.fenced;
    size_t count = redlock_client_explain(client->handle, link, NODES_MAX);
    client->voting = client->suspect = 0;
    if (fenced)
        redlock_client_members(client->handle, node, NODES_MAX);
    for (size_t i = 0; i < count; i++) {
        bool votes = fenced ? node[i].verdict == REDLOCK_VERDICT_ACTIVE
                            : link[i].verdict == REDLOCK_VERDICT_READY;
        client->voting |= votes ? rl_bit((unsigned)i) : 0;
        client->suspect |=
            link[i].verdict == REDLOCK_VERDICT_SUSPECT ? rl_bit((unsigned)i) : 0;
    }
}

/* The client knows that the node lacks the lease: it was not in the last won round. */
static bool lacks(const struct claim *claim, unsigned node)
{
    return !(claim->granted & rl_bit(node)) || claim->vote[node].iteration < claim->round;
}

/* NULL: it has none, or another user has adopted it. */
static struct claim *claim_watched(struct user *user)
{
    struct claim *claim = user->claim;
    return claim && claim->user == user && oracle_watches(claim) ? claim : NULL;
}

/* A node that was only slow has kept its keys, unless it has restarted and lacks this. */
static bool is_due(const struct client *client, const struct claim *claim, unsigned node,
                   bool was_suspect)
{
    bool restarted = client->node[node].quarantined_until > 0;
    return lacks(claim, node) && claim->repair.due[node] == 0 &&
           (!was_suspect || (restarted && claim->missing & rl_bit(node)));
}

/* These nodes may vote again; `lapsed`: those of them whose vote may have lapsed between
 * two looks, so that what they lack need not be due. */
static void begin_repairs(struct client *client, rl_node_set nodes, rl_node_set lapsed,
                          rl_node_set suspect)
{
    for (unsigned i = 0; i < client->users; i++) {
        struct claim *claim = claim_watched(&client->user[i]);
        for (rl_node_set rest = nodes; claim && rest; rest &= rest - 1) {
            unsigned node = rl_first(rest);
            bool is_sure = !(lapsed & rl_bit(node));
            claim->repair.credit += ROUNDS;
            if (is_sure && is_due(client, claim, node, suspect & rl_bit(node)))
                claim->repair.due[node] = events_now() + delay_of(claim);
        }
    }
}

/* A node whose marker has another nonce has no vote until the client confirms that, perhaps
 * in the same iteration. */
void oracle_note_voting(struct client *client)
{
    rl_node_set voted = client->voting, was_suspect = client->suspect;
    refresh_votes(client);
    rl_node_set lapsed = voted & client->new_nonce;
    begin_repairs(client, client->voting & (~voted | lapsed), lapsed, was_suspect);
    client->new_nonce = 0;
}

void oracle_repairs_left(struct client *client)
{
    for (unsigned i = 0; i < client->users; i++) {
        struct claim *claim = claim_watched(&client->user[i]);
        if (claim)
            claim->repair.credit += ROUNDS;
    }
}

/* --- what must be sent --- */

static void judge_due(struct claim *claim, unsigned node, const struct process *process)
{
    int64_t due = claim->repair.due[node];
    if (due < process->resumed + SLACK)
        due = process->resumed + SLACK;
    if (events_now() > due)
        oracle_accuse(INVARIANT_LIVENESS,
                      "%.8s of client %u is not extended at node %u, which may vote again",
                      claim->token, claim->client + 1, node + 1);
}

/* While fewer than q nodes vote, nothing is sent; and what no voter is asked is not due. */
void oracle_repairs_iterated(struct client *client)
{
    oracle_note_voting(client);
    bool can = rl_count(client->voting) >= world.plan.q;
    for (unsigned i = 0; i < client->users; i++) {
        struct claim *claim = claim_watched(&client->user[i]);
        for (unsigned node = 0; claim && node < world.plan.n; node++) {
            int64_t *due = &claim->repair.due[node];
            if (*due == 0 || !(client->voting & rl_bit(node)) ||
                claim->extension.is_unsure ||
                client->process.failed_allocations != client->failures)
                *due = 0;
            else if (!can)
                *due = events_now() + delay_of(claim);
            else
                judge_due(claim, node, &client->process);
        }
    }
}

/* --- what is sent --- */

/* A round begins: nobody asked for it, and the last one was won a moment ago. */
static void judge_early(struct claim *claim, const struct command *command)
{
    struct repair *repair = &claim->repair;
    int64_t ttl_ms = claim->options.ttl_ms;
    int64_t ttl = (ttl_ms < command->ttl_ms ? ttl_ms : command->ttl_ms) * VIRTUAL_MS;
    bool is_won = claim->succeeded_at > repair->began && claim->round == repair->iteration;
    bool is_early = repair->began > 0 && events_now() < repair->began + ttl / EARLY_SHARE;
    /* One round in between was lost before anything was sent. */
    bool lacked = claim->extension.failures !=
                  world.client[command->client].process.failed_allocations;
    if (!is_won || !is_early || lacked || claim->is_handed || claim->user->is_extending ||
        claim->extension.is_unsure)
        return;
    if (repair->credit == 0)
        oracle_accuse(INVARIANT_FLOOD, "%.8s of client %u is extended for no reason",
                      claim->token, claim->client + 1);
    else
        repair->credit--;
}

void oracle_say_repair(const struct command *command, struct claim *claim)
{
    struct client *client = &world.client[command->client];
    struct repair *repair = &claim->repair;
    rl_node_set bit = rl_bit(command->node);
    bool is_resent = claim->resent_in == command->iteration; /* it belongs to the round */
    if (repair->iteration != command->iteration && !is_resent) {
        oracle_note_voting(client);
        if (oracle_watches(claim))
            judge_early(claim, command);
        repair->iteration = command->iteration;
        repair->began = events_now();
        repair->first = 0;
    }
    if (repair->due[command->node] > 0)
        repair->first |= bit & ~repair->again;
    repair->again &= ~bit;
    repair->due[command->node] = 0;
}

/* A key that was stored again is no vote in that round. That a clock may be wrong by the
 * same reply makes it unknown what was stored. */
void oracle_hear_repair(const struct command *command, struct claim *claim)
{
    const struct client *client = &world.client[command->client];
    bool is_trusted = client->node[command->node].sample.fault_at != events_now();
    struct repair *repair = &claim->repair;
    rl_node_set bit = rl_bit(command->node);
    bool is_first = command->iteration == repair->iteration && repair->first & bit;
    if (!is_first || !is_trusted || command->truth != TRUTH_RECREATED ||
        command->is_unsure || claim->garbled & bit)
        return;
    repair->again |= bit;
    repair->due[command->node] = events_now() + delay_of(claim);
}
