/* The oracle on what servers execute, and on what they lose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kind.h"
#include "oracle_parts.h"
#include "world.h"

/* --- what the servers do --- */

/* A server may have got back lost data, as they were once. */
static void judge_extension(const struct command *command, struct claim *claim)
{
    int64_t before = claim->expires[command->server];
    if (command->expires < before && !claim->loss[command->server].is_lost)
        oracle_accuse(INVARIANT_EARLIER, "%.8s on server %u by %lld ms", claim->token,
                      command->server + 1, (long long)(before - command->expires));
    claim->expires[command->server] = command->expires;
}

/* A second, and what the nodes' clocks and a client's notion of them may differ by. */
#define LATE_MAX  (VIRTUAL_S + 1500 * VIRTUAL_MS)
#define STEPS_MAX (5 * VIRTUAL_S)

static void judge_lateness(const struct command *command)
{
    int64_t most = LATE_MAX + (plan_disturbs(&world.plan) ? STEPS_MAX : 0);
    int64_t late = command->ran - command->said;
    if (world.plan.fenced && !world.plan.distant && late > most)
        oracle_accuse(INVARIANT_HELD_UP, "server %u, %lld ms after it was sent",
                      command->server + 1, (long long)(late / VIRTUAL_MS));
}

static void store(const struct command *command, struct claim *claim)
{
    const struct server *server = &world.server[command->server];
    rl_node_set bit = rl_bit(command->server);
    int64_t most = server_ms(server) + command->ttl_ms;
    claim->node[command->server] = command->node;
    claim->is_ghost =
        command->is_straggler ? claim->is_ghost | bit : claim->is_ghost & ~bit;
    if (command->expires == 0 || command->expires > most)
        oracle_accuse(INVARIANT_TTL, "server %u stores %.8s to %lld, and not to %lld",
                      command->server + 1, claim->token, (long long)command->expires,
                      (long long)most);
    else
        claim->expires[command->server] = command->expires;
    judge_lateness(command);
    oracle_judge_storing(command);
}

/* A script of fenced locks cuts the TTL of a key that a clock has made too long. */
static void note_cut(const struct command *command)
{
    const struct server *server = &world.server[command->server];
    const struct key *lock = server_lock(server, command->taken);
    int64_t longest = server_ms(server) + world.plan.ttl_max / VIRTUAL_MS - 1;
    struct token_there there;
    for (size_t i = 0; lock && server_holder(lock, i, &there); i++) {
        struct claim *claim = claim_of(there.token);
        bool may_cut = lock->type != KEY_ZSET || there.expires >= longest;
        if (claim && claim != command->claim && may_cut &&
            there.expires < claim->expires[command->server])
            claim->expires[command->server] = there.expires;
    }
}

/* All of a set or nothing: a node grants the whole of it, and a refusal stores nothing. */
static void judge_whole(const struct command *command, const struct claim *claim)
{
    const struct server *server = &world.server[command->server];
    bool granted = command->truth == TRUTH_GRANTED && command->ask != ASK_RELEASE;
    bool refused = command->truth == TRUTH_HELD && command->ask == ASK_ACQUIRE;
    if (granted && command->expires == 0)
        oracle_accuse(INVARIANT_WHOLE, "server %u grants %.8s, and lacks it at some key",
                      command->server + 1, claim->token);
    for (unsigned rest = command->resources; refused && rest; rest &= rest - 1)
        if (claim->acquires[command->node] <= 1 && !claim->is_handed &&
            server_expires(server, rest & -rest, claim_word(claim)) > 0)
            oracle_accuse(INVARIANT_WHOLE, "server %u refuses %.8s, and stores it",
                          command->server + 1, claim->token);
}

/*
 * A term comes after the lock, with each extension that knows it, and ends with it. In the
 * last millisecond of the lock 0 ms are left: for so long nothing can be stored.
 */
static void note_term(const struct command *command, struct claim *claim)
{
    const struct server *server = &world.server[command->server];
    char name[64], text[REDLOCK_TOKEN_MAX + 32];
    snprintf(name, sizeof(name), "%s!term", world_key(command->taken));
    const struct key *key = server_key(server, name);
    struct rl_word word =
        key && key->type == KEY_STRING ? bytes_word(&key->string) : (struct rl_word){"", 0};
    snprintf(text, sizeof(text), "%.*s", (int)word.len, word.text);
    const char *token = strchr(text, ' ');
    bool is_there = token && strcmp(token + 1, claim->token) == 0;
    bool granted = command->truth == TRUTH_GRANTED, ends = command->ask == ASK_RELEASE;
    bool comes = (command->ask == ASK_RAISE && granted) ||
                 (command->ask == ASK_EXTEND && !command->is_bare &&
                  (granted || command->truth == TRUTH_RECREATED));
    bool ends_now = command->expires <= server_ms(server);
    if (comes && !is_there && !ends_now && world.plan.weight[FAULT_RIGHT] == 0)
        oracle_accuse(INVARIANT_SETTLED, "server %u: %.8s has no term", command->server + 1,
                      claim->token);
    /* A late acquire of a token that was handed over may find what was stored again. */
    bool early = command->ask == ASK_ACQUIRE && !claim->is_handed;
    if (is_there && (early || (ends && granted)))
        oracle_accuse(INVARIANT_LEFT, "server %u: %.8s has a term %s", command->server + 1,
                      claim->token, ends ? "after its release" : "before it leads");
    if (comes && ends_now)
        claim->with_term |= rl_bit(command->server);
    if (!is_there)
        return;
    if (comes && key->expires + 1 < command->expires && world.plan.weight[FAULT_RIGHT] == 0)
        oracle_accuse(INVARIANT_SETTLED, "server %u: the term of %.8s ends before the lock",
                      command->server + 1, claim->token);
    claim->term = strtoll(text, NULL, 10);
    claim->with_term |= rl_bit(command->server);
}

static void run_locking(const struct command *command, struct claim *claim)
{
    bool granted = command->truth == TRUTH_GRANTED;
    bool stored =
        (command->ask == ASK_ACQUIRE && granted) || command->truth == TRUTH_RECREATED;
    bool extended = command->ask == ASK_EXTEND && granted;
    struct loss *loss = &claim->loss[command->server];
    bool executed = command->truth != TRUTH_ERROR && command->truth != TRUTH_UNKNOWN;
    if (command->truth == TRUTH_RECREATED && !command->recreates)
        oracle_accuse(INVARIANT_AFTER,
                      "%.8s is stored anew on server %u against the command", claim->token,
                      command->server + 1);
    if (command->ask == ASK_ACQUIRE && executed && ++claim->acquires[command->node] > 1)
        oracle_accuse(INVARIANT_AFTER, "%.8s of client %u, twice at node %u", claim->token,
                      command->client + 1, command->node + 1);
    if (command->expires == KEY_FOREVER)
        oracle_accuse(INVARIANT_TTL, "server %u keeps %.8s for ever", command->server + 1,
                      claim->token);
    if (extended && command->expired == 0)
        oracle_accuse(INVARIANT_QUORUM, "server %u extends %.8s, which it did not have",
                      command->server + 1, claim->token);
    if (extended)
        judge_extension(command, claim);
    if (world.plan.fenced)
        oracle_judge_vote(command);
    /* The key is there again, and for as long as it was: an old message may have stored it.
     */
    if ((stored || extended) && command->expires >= loss->expires)
        *loss = (struct loss){0};
    if (stored)
        store(command, claim);
    if (command->reads && command->ask == ASK_ACQUIRE && granted)
        oracle_judge_turn(command);
}

#define UNNAMED "a value of another type" /* where the script has no right to ask */

/* A key's value, as a reply names it. */
static struct rl_word shown(const struct key *key)
{
    static const struct rl_word list = {"a list", 6}, hash = {"a hash", 6};
    if (key->type == KEY_ZSET)
        return bytes_word(&key->zset.item[0].member);
    struct rl_word token = server_token(key);
    return key->type == KEY_LIST                      ? list
           : token.len > 0 || key->type == KEY_STRING ? token
                                                      : hash;
}

/* A reply names the key's other value, and how long it will be. */
static void judge_told_key(const struct command *command, const struct server *server)
{
    const struct key *key = server_key(server, world_key(command->taken));
    if (command->truth != TRUTH_HELD || !command->value[0] || command->ask == ASK_OBSERVE)
        return;
    if (command->ask == ASK_BREAK) {
        if (key && server_token(key).len > 0)
            oracle_accuse(INVARIANT_TOLD, "server %u still has what was broken",
                          server->index + 1);
        return;
    }
    struct rl_word there = key ? shown(key) : (struct rl_word){"", 0};
    bool ends = key && key->expires != KEY_FOREVER;
    int64_t left = ends ? key->expires - server_ms(server) : -1;
    int64_t off = left - command->pttl;
    size_t len = strlen(command->value);
    if (command->reads && strcmp(command->value, REDLOCK_WAITING_WRITER) == 0) {
        oracle_judge_refusal(command);
        return;
    }
    bool is_vague =
        strcmp(command->value, UNNAMED) == 0 ||
        (strcmp(command->value, "a hash") == 0 &&
         (world.plan.weight[FAULT_RIGHT] > 0 || world.is_audited)); /* it lacks a right */
    is_vague |= strcmp(command->value, "a zset") == 0 && world.plan.weight[FAULT_RIGHT] > 0;
    struct rl_word told = {command->value, len};
    bool is_reader = key && key->type == KEY_ZSET &&
                     zset_find(&key->zset, told) < key->zset.items; /* its own token */
    if (key && key->type != KEY_STRING && (is_vague || is_reader))
        there = (struct rl_word){command->value, len};
    bool same = key && len <= there.len && memcmp(there.text, command->value, len) == 0 &&
                (len == there.len || len == REDLOCK_TOKEN_MAX);
    if (!same || off < -1 || off > 1)
        oracle_accuse(INVARIANT_TOLD,
                      "server %u has %.*s for %lld ms, and tells %s, %lld ms",
                      server->index + 1, (int)there.len, there.text, (long long)left,
                      command->value, (long long)command->pttl);
}

#define REDISSON_MARK 'r' /* begins the tokens of this kind of lock */

/* Redisson's clients wait for this message, the first; it needs a right. */
static void judge_message(const struct command *command, const struct server *server)
{
    char wanted[96];
    struct rl_word said = bytes_word(&server->node.redis->published);
    int len = snprintf(wanted, sizeof(wanted), "redisson_lock__channel:{%s} 0\n",
                       world_key(command->taken));
    bool lacks_rights = world.plan.weight[FAULT_RIGHT] > 0 || world.is_audited;
    if (!lacks_rights &&
        (said.len < (size_t)len || memcmp(said.text, wanted, (size_t)len) != 0))
        oracle_accuse(INVARIANT_LIVENESS,
                      "server %u releases %.8s, and does not publish it", server->index + 1,
                      command->claim->token);
}

/* Nothing was wrong with the server, and it did not delete the token. */
static void judge_release(const struct command *command, const struct server *server)
{
    bool stays = server_expires(server, command->resources, claim_word(command->claim)) > 0;
    bool excused = command->is_no_script || server->error_until > events_now() ||
                   server->denied_until > events_now() || server->denied_call > 0 ||
                   server->node.redis->config.is_replica ||
                   server->node.redis->config.is_loading ||
                   world.plan.weight[FAULT_FOREIGN] > 0 || world.is_audited;
    if (command->truth == TRUTH_GRANTED && stays)
        oracle_accuse(INVARIANT_LEFT, "server %u says that it released %.8s, and has it",
                      server->index + 1, command->claim->token);
    if (command->truth == TRUTH_GRANTED && command->claim->token[0] == REDISSON_MARK)
        judge_message(command, server);
    if (command->truth == TRUTH_ERROR && !excused && stays)
        oracle_accuse(INVARIANT_LEFT, "server %u refuses to release %.8s",
                      server->index + 1, command->claim->token);
}

void oracle_ran(struct command *command)
{
    struct server *server = &world.server[command->server];
    if (command->ask != ASK_OTHER)
        judge_told_key(command, server);
    if (command->ask == ASK_MARKER) {
        oracle_judge_marker(server);
        oracle_ran_marker();
    }
    if (command->node >= world.plan.n)
        return;
    if (command->ask == ASK_EXTEND && command->entry[0])
        oracle_judge_downgrade(command);
    if (command->joins && command->truth != TRUTH_ERROR)
        oracle_judge_joining(command);
    if (command->leaves && command->truth != TRUTH_ERROR)
        oracle_judge_leaving(command);
    if (command->claim && command->is_locking)
        run_locking(command, command->claim);
    if (command->claim && command->ask == ASK_RELEASE)
        judge_release(command, server);
    if (command->claim && command->is_fenced)
        oracle_judge_fences(command);
    if (command->claim && world.plan.elects)
        note_term(command, command->claim);
    if (command->claim && command->is_of_set)
        judge_whole(command, command->claim);
    if (command->ask != ASK_OTHER && world.plan.fenced)
        note_cut(command);
}

static bool holds_readers(const struct key *key)
{
    struct token_there there;
    return key->type == KEY_ZSET && key->expires != KEY_FOREVER &&
           server_holder(key, 0, &there) && claim_of(there.token);
}

/* A value that is no token is another program's. */
static void judge_foreign(const struct command *command, const struct key *before,
                          const char *name)
{
    struct token_there there;
    const struct key *key = server_key(&world.server[command->server], name);
    if (server_holder(before, 0, &there) && claim_of(there.token))
        return;
    /* A fenced lock of any client: one that lasts too long is cut (held.lua). */
    bool may_cut = before->type == KEY_STRING && before->string.len > 1 &&
                   memcmp(before->string.data, "f:", 2) == 0;
    if (key && may_cut && key->expires < before->expires)
        return;
    if (!key || key->expires != before->expires)
        oracle_accuse(INVARIANT_STOLEN, "server %u lets go of another program's \"%s\"",
                      command->server + 1, name);
}

/* Whatever is there is another's, also a list or another program's value. */
void oracle_judge_taken(const struct command *command, const struct keyspace *before)
{
    int64_t now = server_ms(&world.server[command->server]);
    for (unsigned rest = command->resources; rest; rest &= rest - 1) {
        const char *name = world_key(rl_first(rest));
        const struct key *key =
            keyspace_peek(before, 0, (struct rl_word){name, strlen(name)}, now);
        if (key)
            judge_foreign(command, key, name);
        if (command->truth == TRUTH_GRANTED && key &&
            !(command->claim->options.kind == REDLOCK_KIND_SHARED && holds_readers(key)))
            oracle_accuse(INVARIANT_STOLEN, "server %u grants %.8s where \"%s\" is taken",
                          command->server + 1, command->claim->token, name);
    }
}

/* --- what servers lose --- */

static uint64_t watchers(unsigned server)
{
    uint64_t set = 0;
    for (unsigned i = 0; i < world.plan.clients; i++)
        for (unsigned node = 0; world.client[i].is_alive && node < world.plan.n; node++)
            if (world.client[i].node[node].process > 0 &&
                world.client[i].node[node].server == server)
                set |= oracle_watcher(i, node);
    return set;
}

void oracle_copied(const struct server *server)
{
    const struct keyspace *keyspace = &server->node.redis->keyspace;
    for (size_t i = 0; i < keyspace->keys; i++) {
        struct token_there there;
        for (size_t k = 0; server_holder(&keyspace->key[i], k, &there); k++) {
            struct claim *claim = claim_of(there.token);
            if (claim)
                claim->is_ghost |= rl_bit(server->index);
        }
    }
}

static void compare(struct server *server, const struct key *key,
                    const struct token_there *had, enum loss_cause cause)
{
    struct claim *claim = claim_of(had->token);
    const struct key *left = keyspace_peek(&server->node.redis->keyspace, 0,
                                           bytes_word(&key->name), server_ms(server));
    struct token_there there;
    size_t i = 0;
    if (!claim)
        return;
    while (left && server_holder(left, i, &there) && !word_is(there.token, had->token))
        i++;
    bool same = left && server_holder(left, i, &there);
    struct loss *loss = &claim->loss[server->index];
    if (same && there.expires >= had->expires)
        return;
    bool again = loss->is_lost;
    *loss = (struct loss){
        .first = again ? loss->first : events_now(),
        .at = events_now(),
        .expires = had->expires > loss->expires ? had->expires : loss->expires,
        .is_lost = true,
        .is_broken = loss->is_broken || cause == LOSS_BREAK,
        .is_restart = cause == LOSS_RESTART && (!again || loss->is_restart),
        .watchers = watchers(server->index) & (again ? loss->watchers : UINT64_MAX),
    };
}

void oracle_compare(struct server *server, const struct keyspace *before,
                    enum loss_cause cause)
{
    for (size_t i = 0; i < before->keys; i++) {
        const struct key *key = &before->key[i];
        struct token_there there;
        if (keyspace_is_expired(before, key, server_ms(server)))
            continue;
        for (size_t k = 0; server_holder(key, k, &there); k++)
            compare(server, key, &there, cause);
    }
    if (cause == LOSS_RESTART)
        oracle_copied(server);
}
