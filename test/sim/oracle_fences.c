/* The oracle on what a server keeps of a fenced lock, and under whose marker. */
#include "oracle_parts.h"
#include "world.h"

#define FENCE_LIFE INT64_C(86400000) /* ms: for a day after the last holder */

/* The fences of a server right before it executes a command. */
static struct fence {
    int64_t value, expires; /* 0: none */
} before[RESOURCES_MAX];

static struct fence fence_of(const struct server *server, unsigned resource)
{
    const struct key *key = server_key(server, world_fence_key(resource));
    return (struct fence){server_fence(server, resource), key ? key->expires : 0};
}

void oracle_note_fences(const struct command *command)
{
    for (unsigned rest = command->resources; rest; rest &= rest - 1)
        before[rl_first(rest)] = fence_of(&world.server[command->server], rl_first(rest));
}

/* A fence that is forgotten sooner than a client may be late could be given out again. */
static void judge_life(const struct command *command, unsigned resource)
{
    const struct server *server = &world.server[command->server];
    struct fence now = fence_of(server, resource);
    bool is_new = now.value != before[resource].value;
    int64_t least = server_ms(server) + FENCE_LIFE;
    if (!is_new && before[resource].expires < least)
        least = before[resource].expires;
    if (now.value > 0 && now.expires < least)
        oracle_accuse(INVARIANT_SETTLED,
                      "server %u keeps the fence of %.8s for %lld ms less than it must",
                      server->index + 1, command->claim->token,
                      (long long)(least - now.expires));
}

/* The client means the node that had this marker. */
static void judge_nonce(const struct command *command)
{
    bool votes = command->truth == TRUTH_GRANTED || command->truth == TRUTH_RECREATED;
    if (votes && command->ask != ASK_RELEASE && command->said_nonce != command->nonce)
        oracle_accuse(INVARIANT_BARRED,
                      "server %u votes for %.8s, under another marker than it names",
                      command->server + 1, command->claim->token);
}

void oracle_judge_fences(const struct command *command)
{
    for (unsigned rest = command->resources; rest; rest &= rest - 1)
        judge_life(command, rl_first(rest));
    judge_nonce(command);
}
