#include "claim.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "oracle.h"
#include "world.h"

#define SLOTS (2 * CLAIMS_MAX)

static struct claim claims[CLAIMS_MAX];
static uint16_t slot[SLOTS]; /* 1 + the claim's number; 0: free */
static size_t count;

void claims_begin(void)
{
    memset(slot, 0, sizeof(slot));
    count = 0;
}

/* The first letter of a reader's token, and of the writer's that it was. */
static char before_downgrade(char letter)
{
    return (char)(letter == 's' ? 'p' : letter == 'g' ? 'f' : letter);
}

bool claim_token_is(struct rl_word a, struct rl_word b)
{
    return a.len == b.len && a.len > 0 &&
           before_downgrade(*a.text) == before_downgrade(*b.text) &&
           memcmp(a.text + 1, b.text + 1, a.len - 1) == 0;
}

static size_t slot_of(struct rl_word token)
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 1; i < token.len; i++)
        hash = (hash ^ (unsigned char)token.text[i]) * UINT32_C(16777619);
    size_t at = hash % SLOTS;
    while (slot[at] && !claim_token_is(claim_word(&claims[slot[at] - 1]), token))
        at = (at + 1) % SLOTS;
    return at;
}

void claim_downgrade(struct claim *claim)
{
    claim->options.kind = REDLOCK_KIND_SHARED;
    claim->token[0] = claim->token[0] == 'p' ? 's' : 'g';
}

struct claim *claim_of(struct rl_word token)
{
    size_t at = slot_of(token);
    return slot[at] ? &claims[slot[at] - 1] : NULL;
}

struct claim *claim_at(size_t i)
{
    return &claims[i];
}

size_t claims_count(void)
{
    return count;
}

/* Whose attempt it is: the handle knows its token. */
static struct user *user_of(struct client *client, const struct claim *claim)
{
    for (unsigned i = 0; i < client->users; i++) {
        struct user *user = &client->user[i];
        if (user->lease && strcmp(redlock_token(user->lease), claim->token) == 0)
            return user;
    }
    return NULL;
}

struct claim *claim_new(const struct command *command, struct rl_word token)
{
    struct client *client = &world.client[command->client];
    if (count == CLAIMS_MAX || token.len > REDLOCK_TOKEN_MAX)
        abort();
    struct claim *claim = &claims[count];
    memset(claim, 0, sizeof(*claim));
    memcpy(claim->token, token.text, token.len);
    claim->len = token.len;
    slot[slot_of(token)] = (uint16_t)(++count);
    claim->client = command->client;
    claim->client_number = client->number;
    claim->resources = command->resources;
    claim->made = command->said;
    claim->ttl_ms = command->ttl_ms;
    claim->fences = 1;
    claim->failures = client->process.failed_allocations;
    claim->missing = rl_all(world.plan.n);
    claim->surely_missing = client_barred_nodes(client);
    claim->lost_due = CLOCK_NEVER;
    claim->boot = client_boot(client);
    claim->raw = client_raw(client);
    for (unsigned i = 0; i < NODES_MAX; i++)
        claim->pttl[i] = -1;
    claim->user = user_of(client, claim);
    if (claim->user) {
        claim->options = claim->user->options;
        if (claim->options.slots > 0 && /* the library chooses one */
            claim->resources & ~world_semaphore_of(rl_first(claim->user->resources)))
            oracle_accuse(INVARIANT_EXCLUSION, "client %u wants a slot beyond %u",
                          client->index + 1, claim->options.slots);
        if (claim->options.slots > 0)
            claim->user->resources = claim->resources;
        claim->fences = claim->user->fences;
        if (claim->user->claim && claim->user->claim->user == claim->user)
            claim_leave(claim->user->claim, true); /* its attempt has failed */
        claim->user->claim = claim;
        claim->user->attempts += command->ask == ASK_ACQUIRE;
    } else { /* its handle was freed meanwhile */
        claim->options.kind = redlock_token_kind(claim->token, NULL);
        claim_leave(claim, true);
    }
    return claim;
}

bool claim_is_former(const struct claim *claim, const struct command *command)
{
    return claim->client != command->client ||
           claim->client_number != command->client_number;
}

void claim_leave(struct claim *claim, bool cleaned)
{
    if (!claim->is_over)
        claim->over_since = world.client[claim->client].process.iterations;
    claim->is_over = true;
    claim->is_cleaned |= cleaned;
    claim->user = NULL;
}
