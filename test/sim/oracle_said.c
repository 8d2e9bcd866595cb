/* The oracle on what clients write. */
#include <stdio.h>

#include "oracle_parts.h"
#include "world.h"

#define FLOOD_MAX 3000 /* commands of one client in a second */

static void count_commands(struct client *client)
{
    int64_t second = events_now() / VIRTUAL_S;
    world.commands++;
    client->commands = second == client->second ? client->commands + 1 : 1;
    client->second = second;
    if (client->commands > FLOOD_MAX)
        oracle_accuse(INVARIANT_FLOOD, "client %u sends more than %u commands in a second",
                      client->index + 1, FLOOD_MAX);
}

/* Bytes that a socket did not take are written later; then only their order tells. */
static bool is_too_late(const struct command *command, const struct claim *claim)
{
    const struct client *client = &world.client[command->client];
    if (claim->told & rl_bit(command->node))
        return true;
    uint64_t iteration = client->process.iterations;
    bool is_over = (claim->is_lost && iteration > claim->lost_in) ||
                   (claim->is_over && iteration > claim->over_since);
    /* The release follows in the same write. */
    bool is_resent = command->ask == ASK_EXTEND && claim->resent_in == command->iteration;
    return is_over && !is_resent && world.plan.weight[FAULT_ROOM] == 0;
}

/* The node's marker changed, so its data may have: it is asked again once the marker was
   read. */
static void judge_nonce(const struct command *command)
{
    const struct acquainted *node = &world.client[command->client].node[command->node];
    if (node->refused != 0 && node->refused == command->said_nonce &&
        command->iteration > node->refused_in && world.plan.weight[FAULT_ROOM] == 0)
        oracle_accuse(INVARIANT_BARRED,
                      "client %u asks node %u under the marker that it refused",
                      command->client + 1, command->node + 1);
}

/* A node that keeps silent is not asked until it replies. */
static void judge_suspect(const struct command *command)
{
    struct acquainted *node = &world.client[command->client].node[command->node];
    bool asks = command->is_locking || command->ask == ASK_RAISE;
    if (asks && world.plan.weight[FAULT_ROOM] == 0 && node->suspect_in > 0 &&
        node->suspect_in < command->iteration)
        oracle_accuse(INVARIANT_BARRED, "client %u asks node %u, which is suspect",
                      command->client + 1, command->node + 1);
    if (command->ask >= ASK_ACQUIRE && command->ask != ASK_SUBSCRIBE &&
        node->awaits_since == 0)
        node->awaits_since = events_now();
}

/* By the client's clock, which may be faster, a node is suspect after 50 ms at least. */
#define SUSPECT_AFTER (40 * VIRTUAL_MS)

void oracle_note_suspects(struct client *client)
{
    redlock_node node[NODES_MAX];
    bool any = false;
    for (unsigned i = 0; i < world.plan.n; i++)
        any |= client->node[i].awaits_since > 0 &&
               events_now() >= client->node[i].awaits_since + SUSPECT_AFTER;
    size_t count = any ? redlock_client_explain(client->handle, node, NODES_MAX) : 0;
    for (size_t i = 0; i < world.plan.n; i++) {
        bool is_suspect = i < count && node[i].verdict == REDLOCK_VERDICT_SUSPECT;
        if (!is_suspect)
            client->node[i].suspect_in = 0;
        else if (client->node[i].suspect_in == 0)
            client->node[i].suspect_in = client->process.iterations;
    }
}

void oracle_note_ttl(struct claim *claim, int64_t ttl_ms)
{
    if (claim->least_ttl_ms == 0 || ttl_ms < claim->least_ttl_ms)
        claim->least_ttl_ms = ttl_ms;
}

static void judge_asking(const struct command *command, struct claim *claim)
{
    const struct client *client = &world.client[command->client];
    const struct acquainted *node = &client->node[command->node];
    bool is_late = (claim->is_handed && world.plan.weight[FAULT_ROOM] > 0) ||
                   claim->handed_in == command->iteration; /* the former user's */
    bool is_reserved = command->recreates && !claim->has_deadline && !is_late;
    bool wrong = is_too_late(command, claim) || is_reserved;
    if (wrong && !claim_is_former(claim, command))
        oracle_accuse(INVARIANT_AFTER, "%.8s of client %u, at node %u: it is %s",
                      claim->token, command->client + 1, command->node + 1,
                      is_reserved      ? "stored without a deadline"
                      : claim->is_lost ? "lost"
                      : claim->is_over ? "given up"
                                       : "released there");
    if (node->process > 0 && !node->is_doubtful &&
        client_barred_nodes(client) & rl_bit(command->node))
        oracle_accuse(INVARIANT_BARRED, "client %u asks node %u, %s", command->client + 1,
                      command->node + 1,
                      node->barred_until == CLOCK_NEVER ? "which it must not use"
                                                        : "which is quarantined");
    judge_nonce(command);
    claim->asked_last = command->iteration;
    int64_t until = events_now() + 2 * command->ttl_ms * VIRTUAL_MS;
    claim->clean_until = claim->clean_until > until ? claim->clean_until : until;
    claim->ttl_ms = claim->ttl_ms > command->ttl_ms ? claim->ttl_ms : command->ttl_ms;
    oracle_note_ttl(claim, command->ttl_ms);
}

/* Bytes that a socket did not take are written later. */
static void judge_wait(const struct user *user)
{
    bool is_late = user->overdue_in && user->client->process.iterations > user->overdue_in;
    if (is_late && user->attempts > 1 && world.plan.weight[FAULT_ROOM] == 0)
        oracle_accuse(INVARIANT_AFTER, "client %u, user %u tries again after its wait",
                      user->client->index + 1, user->index + 1);
}

static void say_acquire(const struct command *command, struct claim *claim)
{
    if (claim->user && claim->asked == 0) {
        judge_wait(claim->user);
        oracle_judge_recheck(claim->user);
        claim->user->is_trying = true;
        claim->user->notifiable = 0;
        claim->user->notifiable_until = 0;
        claim->user->failures = process_failures(&world.client[command->client].process);
        oracle_forget_calls(claim->user);
    }
    claim->asked |= rl_bit(command->node);
    claim->missing &= ~rl_bit(command->node);
    claim->surely_missing &= ~rl_bit(command->node);
}

/* A queue would be a key on a server that is to be admitted as an empty one. */
static void judge_joining(const struct command *command, const struct claim *claim)
{
    const struct acquainted *node = &world.client[command->client].node[command->node];
    if (world.plan.fenced && command->joins && !claim->asked && !node->was_marked)
        oracle_accuse(INVARIANT_BARRED,
                      "client %u queues at node %u, which never had a marker",
                      command->client + 1, command->node + 1);
}

/* A release of what a client has waited for removes its entry. */
static void judge_entry(const struct command *command, const struct claim *claim,
                        const struct user *user)
{
    bool waited = user && user->claim == claim && user->entry[0] && !user->is_acquiring;
    bool is_first = !(claim->told & rl_bit(command->node));
    if (waited && is_first && !command->joins && !command->leaves)
        oracle_accuse(INVARIANT_LEFT, "client %u, user %u leaves an entry at node %u",
                      command->client + 1, user->index + 1, command->node + 1);
}

static void say_release(const struct command *command, struct claim *claim)
{
    struct user *user = claim->user;
    judge_joining(command, claim);
    judge_entry(command, claim, user);
    if (user && user->claim == claim && user->is_held && !user->is_releasing)
        oracle_accuse(INVARIANT_AFTER, "client %u releases %.8s, which is held",
                      command->client + 1, claim->token);
    if (user && user->is_acquiring) {
        snprintf(user->entry, sizeof(user->entry), "%s",
                 command->joins ? command->entry : "");
        user->tried_at = events_now();
        oracle_attempt_ends(user);
    }
    claim->told |= rl_bit(command->node);
    claim_leave(claim, true);
}

void oracle_said(struct command *command)
{
    struct client *client = &world.client[command->client];
    struct claim *claim = command->claim;
    count_commands(client);
    if (command->ask == ASK_GREETING)
        oracle_note_greeting(command);
    if (command->ask == ASK_RELEASE)
        oracle_note_entry(command);
    if (command->ask == ASK_MARKER && command->node < world.plan.n)
        oracle_say_marker(command);
    if (!claim || command->node >= world.plan.n)
        return;
    judge_suspect(command);
    oracle_judge_again(command, claim);
    if (command->is_locking)
        judge_asking(command, claim);
    if (command->ask == ASK_EXTEND) {
        oracle_say_repair(command, claim);
        oracle_say_extension(command, claim);
    }
    if (command->ask == ASK_ACQUIRE)
        say_acquire(command, claim);
    if (command->ask == ASK_RELEASE)
        say_release(command, claim);
}
