#include "attempt.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/explain.h"

/* --- its block of memory --- */

static size_t suffix_len(const struct rl_lease_config *config)
{
    return config->kind->is_fenced ? sizeof(RL_FENCE_SUFFIX) - 1 : 0;
}

/* Where its parts begin in the room, and the size of all. */
struct layout {
    size_t ballots, token, size; /* the fences are the first, if it is fenced */
};

static struct layout layout_of(const struct rl_lease_config *config, size_t key_len,
                               size_t token_len)
{
    size_t fences = config->kind->is_fenced ? config->params.n + 1U : 0; /* proposed_of() */
    size_t slot_len = config->kind->type == REDLOCK_KIND_SLOT ? RL_SLOT_LEN_MAX : 0;
    size_t ballots = fences * sizeof(int64_t);
    size_t token = ballots + config->params.n * sizeof(struct rl_ballot);
    return (struct layout){
        .ballots = ballots,
        .token = token,
        .size = token + token_len + 1 + key_len + slot_len + suffix_len(config),
    };
}

size_t rl_attempt_room(const struct rl_lease_config *config, size_t key_len,
                       size_t token_len)
{
    return layout_of(config, key_len, token_len).size;
}

/* The key is its first `base_len` bytes, and then `end`. */
static void end_key(struct rl_attempt *attempt, size_t base_len, const char *end,
                    size_t end_len)
{
    char *key = attempt->token + attempt->token_len + 1;
    assert(base_len + end_len <= REDLOCK_KEY_MAX);
    memcpy(key + base_len, end, end_len);
    memcpy(key + base_len + end_len, RL_FENCE_SUFFIX, suffix_len(attempt->config));
    attempt->key_len = (uint16_t)(base_len + end_len);
}

void rl_attempt_init(struct rl_attempt *attempt, struct rl_lease_config *config, void *room,
                     struct rl_word key, struct rl_key_set *set, size_t token_len)
{
    const struct layout layout = layout_of(config, key.len, token_len);
    char *bytes = room;
    void *ballots = bytes + layout.ballots;
    assert(token_len <= REDLOCK_TOKEN_MAX);
    attempt->config = rl_lease_config_ref(config);
    attempt->set = set ? rl_key_set_ref(set) : NULL;
    attempt->token = bytes + layout.token;
    attempt->token_len = (uint8_t)token_len;
    end_key(attempt, 0, key.text, key.len);
    rl_lease_init(&attempt->lease, &config->params, ballots,
                  config->kind->is_fenced ? room : NULL);
}

void rl_attempt_clear(struct rl_attempt *attempt)
{
    free(attempt->value);
    attempt->value = NULL;
    if (attempt->set)
        rl_key_set_unref(attempt->set);
    attempt->set = NULL;
    rl_lease_config_unref(attempt->config);
    attempt->config = NULL;
}

void rl_attempt_choose_slot(struct rl_attempt *attempt, unsigned slot)
{
    char number[RL_DIGITS];
    int len = snprintf(number, sizeof(number), "!%u", slot);
    assert(slot >= 1 && slot <= RL_SLOTS_MAX);
    end_key(attempt, rl_attempt_base(attempt).len, number, (size_t)len);
    attempt->slot = (uint8_t)slot;
}

struct rl_word rl_attempt_fence_key(const struct rl_attempt *attempt)
{
    struct rl_word key = rl_attempt_key(attempt);
    return (struct rl_word){key.text, key.len + suffix_len(attempt->config)};
}

static rl_time *proposed_of(const struct rl_attempt *attempt)
{
    return attempt->lease.fences + attempt->lease.params->n;
}

rl_time rl_attempt_proposed(const struct rl_attempt *attempt)
{
    return *proposed_of(attempt);
}

char *rl_attempt_own(struct rl_attempt *attempt, struct rl_task *owner)
{
    const redlock_client *client = rl_client_of(&attempt->task);
    attempt->owner = owner;
    if (attempt->config->kind->is_fenced)
        *proposed_of(attempt) =
            rl_node_time_median(client->members.time, client->nodes.n, client->loop.now);
    attempt->token[0] = '\0';
    return attempt->token;
}

void rl_attempt_downgrade(struct rl_attempt *attempt, struct rl_lease_config *shared)
{
    rl_lease_config_ref(shared);
    rl_lease_config_unref(attempt->config);
    attempt->config = shared;
    attempt->lease.params = &shared->params;
    if (*attempt->token)
        *attempt->token = *shared->kind->mark;
}

void rl_attempt_describe(const struct rl_attempt *attempt, struct rl_lease_line *ret_line)
{
    *ret_line = (struct rl_lease_line){
        .number = attempt->number,
        .lease = &attempt->lease,
        .options = &attempt->config->options,
        .key = rl_attempt_key(attempt),
        .token = {attempt->token, attempt->token_len},
    };
}

/* --- what it saw on the nodes --- */

/* A digit for each slot of each node follows if it is a semaphore. */
static bool make_values(struct rl_attempt *attempt)
{
    size_t each = sizeof(*attempt->value);
    if (attempt->config->kind->type == REDLOCK_KIND_SLOT)
        each += RL_SLOTS_MAX;
    if (!attempt->value)
        attempt->value = calloc(attempt->lease.params->n, each);
    return attempt->value != NULL;
}

static char *free_slots_of(const struct rl_attempt *attempt, unsigned node)
{
    return (char *)(attempt->value + attempt->lease.params->n) +
           (size_t)node * RL_SLOTS_MAX;
}

bool rl_attempt_sees_free(const struct rl_attempt *attempt, unsigned node, unsigned slot)
{
    return attempt->value && free_slots_of(attempt, node)[slot - 1] == '1';
}

RL_RARE void rl_attempt_note_value(struct rl_attempt *attempt, unsigned node,
                                   struct rl_word value)
{
    if (make_values(attempt))
        rl_client_keep_value(value, attempt->value[node]);
}

RL_RARE void rl_attempt_note_free_slots(struct rl_attempt *attempt, unsigned node,
                                        struct rl_word free)
{
    if (make_values(attempt))
        memcpy(free_slots_of(attempt, node), free.text, free.len);
}
