/* How a caller gets a lease: by an acquire, or by adopting a token. */
#include <string.h>

#include "base/options.h"
#include "base/token.h"
#include "hand_over.h"
#include "telemetry.h"

/* Allocates a handle and its first attempt in one block. NULL: no memory. */
static redlock_lease *allocate(redlock_client *client, struct rl_lease_config *config,
                               struct rl_word key, struct rl_key_set *set, size_t token_len)
{
    redlock_lease *lease =
        rl_task_new(sizeof(*lease) + rl_attempt_room(config, key.len, token_len),
                    &client->loop, &rl_handle_class.task);
    if (!lease)
        return NULL;
    rl_attempt_init(&lease->first, config, lease + 1, key, set, token_len);
    lease->first.lease.spread = rl_lease_spread(++client->leases);
    lease->first.number = rl_record_lease(client->leases);
    return lease;
}

/* `set`: NULL, or the keys, of which `key` is the first. */
RL_HOT static redlock_code make_lease_of(redlock_client *client, struct rl_word key,
                                         struct rl_key_set *set,
                                         const redlock_lease_options *options,
                                         unsigned fences, const char *token,
                                         redlock_lease **ret_lease)
{
    struct rl_lease_config *config;
    redlock_code code = rl_lease_config_get(client, options, fences, set != NULL, &config);
    if (code != REDLOCK_OK)
        return code;
    if (config->kind->type == REDLOCK_KIND_SLOT &&
        key.len > REDLOCK_KEY_MAX - RL_SLOT_LEN_MAX) {
        rl_lease_config_unref(config);
        return rl_check_len(REDLOCK_BAD_KEY, "key", key.len,
                            REDLOCK_KEY_MAX - RL_SLOT_LEN_MAX);
    }
    size_t token_len =
        token ? strlen(token) : rl_token_len(config->kind->mark, client->options.label);
    *ret_lease = allocate(client, config, key, set, token_len);
    rl_lease_config_unref(config);
    if (!*ret_lease)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    (*ret_lease)->user = options ? options->user : NULL;
    return REDLOCK_OK;
}

/* `token`: the token to adopt; NULL: each attempt makes its own. */
static redlock_code make_lease(redlock_client *client, const redlock_key *keys,
                               size_t count, const redlock_lease_options *options,
                               unsigned fences, const char *token,
                               redlock_lease **ret_lease)
{
    if (count == 1) {
        char whole[REDLOCK_KEY_MAX];
        struct rl_word key = {whole, 0};
        redlock_code code = rl_client_key(client, keys->bytes, keys->len, whole, &key.len);
        return code != REDLOCK_OK
                   ? code
                   : make_lease_of(client, key, NULL, options, fences, token, ret_lease);
    }
    struct rl_key_set *set;
    redlock_code code = rl_key_set_new(client, keys, count, &set);
    if (code != REDLOCK_OK)
        return code;
    code = make_lease_of(client, set->word[0], set, options, fences, token, ret_lease);
    rl_key_set_unref(set);
    return code;
}

redlock_code rl_hand_over_acquire(redlock_client *client, const redlock_key *keys,
                                  size_t count, const redlock_lease_options *options,
                                  const struct rl_hand_over *hand_over,
                                  redlock_lease_fn *callback, void *arg,
                                  redlock_lease **ret_lease)
{
    redlock_code code = rl_client_call_untimed(client);
    if (code != REDLOCK_OK)
        return code;
    redlock_lease *lease;
    code = make_lease(client, keys, count, options, hand_over->fences, NULL, &lease);
    if (code == REDLOCK_OK) {
        const struct rl_lease_config *config = lease->first.config;
        lease->waiting.joins_tail = config->waits && hand_over->joins_tail;
        lease->request = (struct rl_request){callback, arg};
        if (config->kind->is_fenced)
            rl_members_enable(&client->members);
        rl_telemetry_begins(lease, RL_OPERATION_ACQUIRE);
        rl_handle_begin_soon(lease);
        *ret_lease = lease;
    }
    rl_loop_return(&client->loop);
    return code;
}

RL_HOT redlock_code redlock_acquire(redlock_client *client, const void *key, size_t key_len,
                                    const redlock_lease_options *options,
                                    redlock_lease_fn *callback, void *arg,
                                    redlock_lease **ret_lease)
{
    const redlock_key one = {key, key_len};
    return redlock_acquire_many(client, &one, 1, options, callback, arg, ret_lease);
}

RL_HOT redlock_code redlock_acquire_many(redlock_client *client, const redlock_key *keys,
                                         size_t count, const redlock_lease_options *options,
                                         redlock_lease_fn *callback, void *arg,
                                         redlock_lease **ret_lease)
{
    static const struct rl_hand_over one_owner = {.fences = 1};
    return rl_hand_over_acquire(client, keys, count, options, &one_owner, callback, arg,
                                ret_lease);
}

/* "KEY!3": the slot, and where its number begins; 0: it is none of so many slots. */
static unsigned read_slot(const redlock_key *key, unsigned slots, size_t *ret_len)
{
    const char *text = key->bytes;
    size_t at = key->len;
    unsigned slot = 0, scale = 1;
    for (; at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && scale <= 100; at--) {
        slot += (unsigned)(text[at - 1] - '0') * scale;
        scale *= 10;
    }
    bool is_slot = at > 1 && text[at - 1] == '!' && slot > 0 && slot <= slots &&
                   at < key->len && text[at] != '0';
    *ret_len = is_slot ? at - 1 : key->len;
    return is_slot ? slot : 0;
}

static redlock_code make_adopted(redlock_client *client, const redlock_key *keys,
                                 size_t count, const char *token, int64_t valid_ms,
                                 const redlock_lease_options *options,
                                 redlock_lease **ret_lease)
{
    redlock_lease_options mine;
    redlock_code code = rl_check_token(token);
    if (code == REDLOCK_OK)
        code = rl_lease_options_read(options, &mine);
    if (code == REDLOCK_OK)
        code = rl_check_valid_ms(valid_ms);
    if (code != REDLOCK_OK)
        return code;
    size_t token_len = strlen(token);
    int64_t fence = mine.fence;
    mine.kind = rl_token_kind_to_adopt(token, &mine.fenced);
    mine.fence = 0; /* not part of the shared config */
    redlock_lease *lease;
    unsigned slot = 0;
    redlock_key base;
    if (mine.kind != REDLOCK_KIND_SLOT) {
        mine.slots = 0;
    } else if (count == 1) {
        base = keys[0];
        slot = read_slot(keys, mine.slots > 0 ? mine.slots : REDLOCK_SLOTS_MAX, &base.len);
        if (slot == 0)
            return rl_fail_field(REDLOCK_BAD_KEY, REDLOCK_REASON_MALFORMED, "key",
                                 "does not end in the number of a slot, as \"!3\"");
        if (mine.slots == 0)
            mine.slots = slot;
        keys = &base;
    }
    code = make_lease(client, keys, count, &mine, 1, token, &lease);
    if (code != REDLOCK_OK)
        return code;
    if (slot > 0)
        rl_attempt_choose_slot(&lease->first, slot);
    lease->state = RL_HANDLE_IDLE;
    if (mine.fenced)
        rl_members_enable(&client->members);
    lease->attempt = &lease->first;
    memcpy(rl_attempt_own(lease->attempt, &lease->first.task), token, token_len + 1);
    rl_telemetry_asked(lease, RL_RECORD_ADOPT, valid_ms);
    rl_time valid = rl_min(valid_ms, REDLOCK_TTL_MAX_MS) * RL_MS;
    rl_attempt_step(lease->attempt,
                    &(struct rl_lease_event){
                        .type = RL_EVENT_ADOPT,
                        .deadline = valid_ms > 0 ? client->loop.now + valid : 0,
                        .fence = mine.fenced ? fence : 0,
                    });
    *ret_lease = lease;
    return REDLOCK_OK;
}

redlock_code redlock_adopt(redlock_client *client, const void *key, size_t key_len,
                           const char *token, int64_t valid_ms,
                           const redlock_lease_options *options, redlock_lease **ret_lease)
{
    const redlock_key one = {key, key_len};
    return redlock_adopt_many(client, &one, 1, token, valid_ms, options, ret_lease);
}

redlock_code redlock_adopt_many(redlock_client *client, const redlock_key *keys,
                                size_t count, const char *token, int64_t valid_ms,
                                const redlock_lease_options *options,
                                redlock_lease **ret_lease)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = make_adopted(client, keys, count, token, valid_ms, options, ret_lease);
    rl_loop_return(&client->loop);
    return code;
}
