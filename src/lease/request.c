/* The functions of redlock.h that make or take a lease, and their checks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/token.h"
#include "client/explain.h"
#include "hand_over.h"
#include "handle.h"
#include "telemetry.h"

static bool is_usable(const redlock_lease *lease)
{
    return lease && lease->first.task.loop && rl_loop_is_ours(lease->first.task.loop);
}

/* --- acquire and adopt --- */

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
static redlock_code make_lease_of(redlock_client *client, struct rl_word key,
                                  struct rl_key_set *set,
                                  const redlock_lease_options *options, unsigned fences,
                                  const char *token, redlock_lease **ret_lease)
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
    return *ret_lease ? REDLOCK_OK : rl_fail_by_code(REDLOCK_NO_MEMORY);
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

redlock_code redlock_acquire(redlock_client *client, const void *key, size_t key_len,
                             const redlock_lease_options *options,
                             redlock_lease_fn *callback, void *arg,
                             redlock_lease **ret_lease)
{
    const redlock_key one = {key, key_len};
    return redlock_acquire_many(client, &one, 1, options, callback, arg, ret_lease);
}

redlock_code redlock_acquire_many(redlock_client *client, const redlock_key *keys,
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
        if (slot == 0 && mine.slots > 0)
            return rl_fail_field(REDLOCK_BAD_KEY, REDLOCK_REASON_MALFORMED, "key",
                                 "does not end in the number of a slot, as \"!3\"");
        if (slot == 0) /* by chance the digits of an exclusive lock begin so */
            mine.kind = REDLOCK_KIND_EXCLUSIVE;
        else if (mine.slots == 0)
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

/* --- the caller's requests --- */

static redlock_code begin_request(redlock_lease *lease)
{
    if (!lease)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_NULL_HANDLE);
    if (!lease->first.task.loop)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_CLIENT_FREED);
    redlock_client *client = rl_client_of(&lease->first.task);
    redlock_code code = rl_client_call(client);
    if (code == REDLOCK_OK && lease->attempt &&
        rl_lease_next(rl_handle_core(lease)) <= client->loop.now)
        rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_EXPIRE});
    return code;
}

/* The lease has no lock to be extended or released. */
static redlock_code fail_not_held(const redlock_lease *lease)
{
    const struct rl_lease *core = rl_handle_core(lease);
    redlock_reason reason =
        lease->disowned ? REDLOCK_REASON_DISOWNED : REDLOCK_REASON_RELEASED;
    if (rl_handle_is_acquiring(lease))
        reason = REDLOCK_REASON_ACQUIRING;
    else if (rl_handle_is_settled(lease) && core && core->state == RL_LEASE_LOST)
        reason = REDLOCK_REASON_LOST;
    else if (rl_handle_is_settled(lease) && !(core && core->held))
        reason = REDLOCK_REASON_NOT_ACQUIRED;
    return rl_fail_by_reason(REDLOCK_NOT_HELD, reason);
}

static redlock_code check_ttl(const redlock_lease *lease, int64_t ttl_ms)
{
    redlock_client *client = rl_client_of(&lease->first.task);
    const struct rl_lease_config *config = lease->first.config;
    bool is_kept = config->options.kind == REDLOCK_KIND_RECORD;
    redlock_code code = rl_ttl_check(&client->options, &config->options, ttl_ms, is_kept);
    if (code == REDLOCK_OK && !is_kept)
        rl_nodes_use_ttl(&client->nodes, ttl_ms * RL_MS);
    if (code == REDLOCK_OK && config->kind->is_fenced &&
        !rl_members_allow_ttl(&client->members, ttl_ms * RL_MS))
        code = rl_fail_ttl(REDLOCK_REASON_TTL_ADMITTED, ttl_ms,
                           client->members.membership.roster.max_ttl_ms);
    return code;
}

static redlock_code check_held(const redlock_lease *lease)
{
    const struct rl_lease *core = rl_handle_core(lease);
    if (!rl_handle_is_settled(lease) || !core || core->state != RL_LEASE_HELD)
        return fail_not_held(lease);
    if (lease->state != RL_HANDLE_IDLE)
        return rl_fail(REDLOCK_BUSY, REDLOCK_REASON_RUNNING,
                       "another extension of this lease is running");
    return REDLOCK_OK;
}

static void begin_extension(redlock_lease *lease, int64_t ttl_ms,
                            redlock_lease_fn *callback, void *arg)
{
    lease->request = (struct rl_request){callback, arg};
    lease->extend_ttl_ms = ttl_ms;
    rl_telemetry_begins(lease, RL_OPERATION_EXTEND);
    rl_telemetry_asked(lease, RL_RECORD_EXTEND, ttl_ms);
    lease->state = RL_HANDLE_EXTEND_WAITS;
    if (rl_startup_barrier_is_open(&rl_client_of(&lease->first.task)->nodes.startup))
        rl_handle_extend(lease);
}

static redlock_code ask_extension(redlock_lease *lease, int64_t ttl_ms,
                                  redlock_lease_fn *callback, void *arg)
{
    redlock_code code = check_held(lease);
    if (code == REDLOCK_OK && ttl_ms != REDLOCK_AUTO)
        code = check_ttl(lease, ttl_ms);
    if (code == REDLOCK_OK)
        begin_extension(lease, ttl_ms, callback, arg);
    return code;
}

redlock_code redlock_extend(redlock_lease *lease, int64_t ttl_ms,
                            redlock_lease_fn *callback, void *arg)
{
    redlock_code code = begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    code = ask_extension(lease, ttl_ms, callback, arg);
    rl_loop_return(lease->first.task.loop);
    return code;
}

static redlock_code ask_downgrade(redlock_lease *lease, redlock_lease_fn *callback,
                                  void *arg)
{
    const struct rl_lease_config *config = lease->first.config;
    redlock_lease_options options = config->options;
    struct rl_lease_config *shared;
    redlock_code code = check_held(lease);
    if (code != REDLOCK_OK)
        return code;
    if (config->kind->type != REDLOCK_KIND_EXCLUSIVE)
        return rl_fail(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT,
                       "the lease is no exclusive lock of one key");
    if (!rl_token_is_ours(lease->attempt->token))
        return rl_fail_field(REDLOCK_BAD_TOKEN, REDLOCK_REASON_FOREIGN, "token",
                             "is not one of this library");
    options.kind = REDLOCK_KIND_SHARED;
    code = rl_lease_config_get(rl_client_of(&lease->first.task), &options, config->fences,
                               false, &shared);
    if (code != REDLOCK_OK)
        return code;
    if (lease->attempt != &lease->first)
        rl_attempt_downgrade(lease->attempt, shared);
    rl_attempt_downgrade(&lease->first, shared);
    rl_lease_config_unref(shared);
    lease->downgrades = true;
    begin_extension(lease, REDLOCK_AUTO, callback, arg);
    return REDLOCK_OK;
}

redlock_code redlock_downgrade(redlock_lease *lease, redlock_lease_fn *callback, void *arg)
{
    redlock_code code = begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    code = ask_downgrade(lease, callback, arg);
    rl_loop_return(lease->first.task.loop);
    return code;
}

/* The caller gives the lock up while an extension is pending. */
static void end_extension(redlock_lease *lease)
{
    if (lease->state != RL_HANDLE_IDLE)
        rl_handle_report(&lease->first.task, RL_REPORT_NOT_EXTENDED);
}

redlock_code redlock_release(redlock_lease *lease, redlock_lease_fn *callback, void *arg)
{
    redlock_client *client = lease ? rl_client_of(&lease->first.task) : NULL;
    bool in_callback = client && client->loop.depth > 0; /* the clock was read before it */
    redlock_code code = in_callback ? rl_client_call_untimed(client) : begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    const struct rl_lease *core = rl_handle_core(lease);
    if (rl_handle_is_settled(lease) && core &&
        (core->state == RL_LEASE_HELD || core->state == RL_LEASE_LOST)) {
        end_extension(lease);
        lease->release = (struct rl_request){callback, arg};
        lease->state = RL_HANDLE_RELEASE_WAITS;
        rl_telemetry_begins(lease, RL_OPERATION_RELEASE);
        rl_task_schedule_soon(&lease->first.task);
    } else {
        code = fail_not_held(lease);
    }
    rl_loop_return(&client->loop);
    return code;
}

void redlock_cancel(redlock_lease *lease)
{
    if (begin_request(lease) != REDLOCK_OK)
        return;
    bool tries = rl_handle_is_trying(lease);
    if (rl_handle_is_acquiring(lease) && lease->state != RL_HANDLE_CANCELLED) {
        rl_telemetry_asked(lease, RL_RECORD_CANCEL, 0);
        lease->state = RL_HANDLE_CANCELLED;
        if (tries)
            rl_attempt_release(lease->attempt);
        else
            rl_handle_report(&lease->first.task, RL_REPORT_FAILED);
    }
    rl_loop_return(lease->first.task.loop);
}

void redlock_disown(redlock_lease *lease)
{
    if (begin_request(lease) != REDLOCK_OK)
        return;
    if (rl_handle_is_settled(lease) && lease->attempt) {
        rl_telemetry_asked(lease, RL_RECORD_DISOWN, 0);
        end_extension(lease);
        if (!rl_attempt_is_past(lease->attempt))
            rl_handle_withdraw(lease, ~(rl_node_set)0);
        rl_attempt_disown(lease->attempt);
        lease->disowned = true;
    }
    rl_loop_return(lease->first.task.loop);
}

/*
 * Detaches the last attempt. Most leases are over by then and need no command and no clock.
 */
static void let_go(redlock_lease *lease, bool was_queued)
{
    redlock_client *client = rl_client_of(&lease->first.task);
    if (!was_queued && rl_attempt_is_past(lease->attempt)) {
        rl_attempt_leave(lease->attempt);
        return;
    }
    if (rl_client_call(client) != REDLOCK_OK)
        return;
    rl_telemetry_asked(lease, RL_RECORD_FREE, 0);
    if (was_queued)
        rl_handle_withdraw(lease, ~(rl_node_set)0);
    rl_attempt_leave(lease->attempt);
    rl_loop_return(&client->loop);
}

void redlock_lease_free(redlock_lease *lease)
{
    if (!lease)
        return;
    struct rl_loop *loop = lease->first.task.loop;
    bool was_queued =
        lease->waiting.number && lease->attempt &&
        (rl_handle_is_acquiring(lease) || !rl_attempt_is_past(lease->attempt));
    enum rl_handle_state state = lease->state;
    lease->state = RL_HANDLE_FREED;
    if (!loop) {
        free(lease);
        return;
    }
    if (!rl_loop_is_ours(loop))
        return; /* redlock_client_free() frees it */
    rl_loop_enter(loop);
    rl_telemetry_freed(lease, state);
    if (lease->attempt && !loop->closing)
        let_go(lease, was_queued);
    else if (state == RL_HANDLE_RELEASE_WAITS)
        rl_attempt_release(lease->attempt);
    lease->attempt = NULL;
    rl_handle_attempt_over(&lease->first.task);
    rl_loop_leave(loop);
}

/* --- queries --- */

int64_t redlock_valid_ms(const redlock_lease *lease)
{
    const struct rl_lease *core = is_usable(lease) ? rl_handle_core(lease) : NULL;
    if (!core || lease->state == RL_HANDLE_RELEASE_WAITS)
        return 0;
    return rl_lease_left(core, rl_loop_read_clock(lease->first.task.loop)) / RL_MS;
}

unsigned redlock_slot(const redlock_lease *lease)
{
    return lease && lease->attempt ? lease->attempt->slot : 0;
}

const char *redlock_token(const redlock_lease *lease)
{
    return lease && lease->attempt ? lease->attempt->token : "";
}

int64_t redlock_fence(const redlock_lease *lease)
{
    const struct rl_attempt *attempt = lease ? lease->attempt : NULL;
    int64_t last = attempt ? rl_lease_fence(&attempt->lease) : 0;
    return last > 0 ? rl_fence_first(last, attempt->config->fences) : 0;
}

bool rl_hand_over_is_awaited(const redlock_lease *lease)
{
    return lease->attempt && lease->attempt->has_waiters;
}

/* The node's reply came too late to count, or has not come. */
static bool is_late(const struct rl_attempt *attempt, unsigned node)
{
    const struct rl_lease *lease = &attempt->lease;
    const struct rl_ballot *ballot = &lease->ballot[node];
    rl_time timeout =
        rl_lease_node_timeout(lease->params->node_timeout, lease->ttl,
                              rl_client_of(&attempt->task)->nodes.round_trip[node]);
    bool granted = ballot->vote == RL_VOTE_GRANTED && lease->cause == RL_CAUSE_NO_QUORUM;
    return ballot->vote == RL_VOTE_SILENT || (granted && ballot->latency > timeout);
}

/* The limit that the node exceeded. */
static const char *limit_of(const struct rl_attempt *attempt, unsigned node)
{
    const struct rl_lease *lease = &attempt->lease;
    rl_time round_trip = rl_client_of(&attempt->task)->nodes.round_trip[node];
    if (lease->params->node_timeout > 0)
        return "no reply within the node timeout";
    if (rl_max(4 * round_trip, RL_NODE_TIMEOUT_MIN) > lease->ttl / RL_NODE_TIMEOUT_SHARE)
        return "no reply within a tenth of the TTL";
    return "no reply within 4 round trips, at least 50 ms";
}

size_t redlock_explain_sized(const redlock_lease *lease, redlock_node *nodes, size_t room,
                             size_t size)
{
    if (!is_usable(lease) || !lease->attempt)
        return 0;
    const struct rl_attempt *attempt = lease->attempt;
    const struct rl_key_set *set = attempt->set;
    for (unsigned i = 0; i < lease->first.config->params.n && i < room; i++) {
        redlock_node node;
        rl_client_describe(rl_client_of(&lease->first.task), i, &attempt->lease.ballot[i],
                           attempt->value ? attempt->value[i] : NULL, &node);
        if (is_late(attempt, i)) {
            node.fault = REDLOCK_FAULT_TIMEOUT;
            snprintf(node.text, sizeof(node.text), "%s", limit_of(attempt, i));
        }
        if (set && node.verdict == REDLOCK_VERDICT_HELD)
            node.key = set->order[attempt->lease.ballot[i].key];
        rl_client_put_node(&node, i, nodes, size);
    }
    return lease->first.config->params.n;
}
