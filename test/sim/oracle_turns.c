/*
 * The oracle on turns: no reader comes before a writer that has waited longer, as long as
 * the writer says that it waits. What each server was told of that is kept here, whatever
 * its keys are by now.
 */
#include <stdio.h>
#include <string.h>

#include "oracle_parts.h"
#include "world.h"

#define TURNS_MAX  32   /* of a server: the oldest is overwritten */
#define ROUNDING   1001 /* us: keys expire in whole ms */
#define FIRST_RATE 1    /* the change with which each server's clock begins */
#define INTENT_END "!intent"

static struct turn {
    char entry[96]; /* "": none */
    unsigned resource;
    uint32_t memory;      /* of the server ... */
    uint32_t changes;     /* ... and of its clock: what expired does not come back */
    bool is_waived;       /* perhaps: it need not go first, and may */
    int64_t since, until; /* us of its clock */
} turns[SERVERS_MAX][TURNS_MAX];

static unsigned next[SERVERS_MAX];

void oracle_turns_begin(void)
{
    memset(turns, 0, sizeof(turns));
    memset(next, 0, sizeof(next));
}

/* This entry's, or one that nobody uses. */
static struct turn *turn_of(unsigned server, const char *entry, bool adds)
{
    for (unsigned i = 0; i < TURNS_MAX; i++)
        if (strcmp(turns[server][i].entry, entry) == 0)
            return &turns[server][i];
    return adds ? &turns[server][next[server]++ % TURNS_MAX] : NULL;
}

static bool has_intent(const struct command *command)
{
    const struct server *server = &world.server[command->server];
    char name[64];
    snprintf(name, sizeof(name), "%s" INTENT_END, world_key(command->queue));
    const struct key *key = server_key(server, name);
    struct rl_word own = {command->entry, strlen(command->entry)};
    if (key && key->expires == KEY_FOREVER)
        oracle_accuse(INVARIANT_TTL, "\"%s\" on server %u never expires", name,
                      command->server + 1);
    return key && key->type == KEY_ZSET && zset_find(&key->zset, own) < key->zset.items;
}

void oracle_turn_begins(const struct command *command)
{
    const struct server *server = &world.server[command->server];
    int64_t now = node_now(&server->node);
    if (command->reads || command->is_of_set)
        return;
    struct turn *turn = turn_of(command->server, command->entry, command->intent_ms > 0);
    if (turn && command->intent_ms == 0) /* it has too few nodes, and lets readers pass */
        *turn = (struct turn){0};
    if (command->intent_ms == 0)
        return;
    *turn = (struct turn){
        .resource = command->queue,
        .memory = server->memory,
        .changes = server->node.clock.changes,
        .since = now - command->waited_us,
        .until = now + command->intent_ms * 1000,
    };
    snprintf(turn->entry, sizeof(turn->entry), "%s", command->entry);
}

void oracle_turn_is_waived(const struct command *command)
{
    struct turn *turn = turn_of(command->server, command->entry, false);
    if (turn)
        turn->is_waived = true;
}

void oracle_turn_ends(const struct command *command, bool is_sure)
{
    char entry[sizeof(command->entry)];
    int len = snprintf(entry, sizeof(entry), "%s", command->entry);
    if (len > 2 && strcmp(entry + len - 2, " r") == 0) /* perhaps it has downgraded */
        entry[len - 2] = '\0';
    struct turn *turn = turn_of(command->server, entry, false);
    if (turn && is_sure)
        *turn = (struct turn){0};
    else if (turn)
        turn->is_waived = true;
    if (is_sure && !world.plan.weight[FAULT_RIGHT] && has_intent(command))
        oracle_accuse(INVARIANT_LEFT, "an intent of client %u on server %u",
                      command->client + 1, command->server + 1);
}

/* The writer that goes before the reader of this command; NULL: none. */
static const struct turn *turn_before(const struct command *command, int64_t rounding)
{
    const struct server *server = &world.server[command->server];
    int64_t now = node_now(&server->node), since = now - command->waited_us;
    for (unsigned i = 0; i < TURNS_MAX; i++) {
        const struct turn *turn = &turns[command->server][i];
        if (turn->entry[0] && turn->resource == command->taken &&
            turn->memory == server->memory && turn->changes == server->node.clock.changes &&
            turn->until > now + rounding && turn->since + rounding < since)
            return turn;
    }
    return NULL;
}

/* Twice: the client's clock may be fast. */
static void judge_age(const struct command *command)
{
    const struct user *user = command->claim->user;
    if (!user || user->claim != command->claim || !user->is_acquiring)
        return;
    int64_t age = (events_now() - user->began) / VIRTUAL_US;
    if (command->waited_us > 2 * age + ROUNDING)
        oracle_accuse(INVARIANT_TURN, "client %u has waited for %lld us, and says %lld",
                      command->client + 1, (long long)age, (long long)command->waited_us);
}

void oracle_judge_turn(const struct command *command)
{
    judge_age(command);
    bool is_lame = world.plan.weight[FAULT_RIGHT] > 0 || world.is_audited;
    const struct turn *turn = turn_before(command, ROUNDING);
    int64_t now = node_now(&world.server[command->server].node);
    if (turn && !turn->is_waived && !is_lame)
        oracle_accuse(
            INVARIANT_TURN,
            "server %u grants %.8s, though \"%s\" has waited for %lld us, and does "
            "for %lld us more",
            command->server + 1, command->claim->token, turn->entry,
            (long long)(now - turn->since), (long long)(turn->until - now));
}

void oracle_judge_refusal(const struct command *command)
{
    const struct server *server = &world.server[command->server];
    /* Others may have got a copy of the data, with intents in it. */
    bool is_sure = server->memory == 0 && server->index < world.plan.n &&
                   server->node.clock.changes <= FIRST_RATE &&
                   world.plan.weight[FAULT_RIGHT] == 0 &&
                   next[command->server] <= TURNS_MAX;
    if (is_sure && command->claim && !turn_before(command, -ROUNDING))
        oracle_accuse(INVARIANT_TOLD,
                      "server %u refuses %.8s for a writer that does not wait",
                      command->server + 1, command->claim->token);
}
