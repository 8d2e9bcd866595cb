/* What a caller may ask of a lease: the functions of redlock.h that take or make one. */
#include <stdlib.h>
#include <string.h>

#include "handle.h"
#include "options.h"
#include "wards.h"

static bool is_usable(const redlock_lease *lease)
{
    return lease && lease->first.task.client && rl_client_is_ours(lease->first.task.client);
}

/* --- making --- */

/* One block, with its first attempt; NULL: no memory. */
static redlock_lease *allocate(redlock_client *client, struct rl_wish *wish,
                               struct rl_word key, size_t token_len)
{
    redlock_lease *lease =
        calloc(1, sizeof(*lease) + rl_attempt_room(wish, key.len, token_len));
    if (!lease)
        return NULL;
    lease->number = ++client->numbers;
    rl_attempt_init(&lease->first, wish, lease + 1, key, token_len);
    lease->first.lease.spread = rl_lease_spread(lease->number);
    if (!rl_task_init(&lease->first.task, client, &rl_handle_class)) {
        rl_attempt_clear(&lease->first);
        free(lease);
        return NULL;
    }
    return lease;
}

/* `token`: the one that it takes over; NULL: each attempt is to have its own. */
static redlock_code make_lease(redlock_client *client, const void *key, size_t key_len,
                               const redlock_lease_options *options, const char *token,
                               redlock_lease **ret_lease)
{
    char whole[REDLOCK_KEY_MAX];
    struct rl_word whole_key = {whole, 0};
    if (!rl_client_key(client, key, key_len, whole, &whole_key.len))
        return REDLOCK_BAD_KEY;
    struct rl_wish *wish;
    redlock_code code = rl_wish_read(client, options, &wish);
    if (code != REDLOCK_OK)
        return code;
    size_t token_len =
        token ? strlen(token) : rl_token_len(wish->kind->mark, client->options.label);
    *ret_lease = allocate(client, wish, whole_key, token_len);
    rl_wish_drop(wish);
    return *ret_lease ? REDLOCK_OK : REDLOCK_NO_MEMORY;
}

redlock_code redlock_acquire(redlock_client *client, const void *key, size_t key_len,
                             const redlock_lease_options *options,
                             redlock_lease_fn *callback, void *arg,
                             redlock_lease **ret_lease)
{
    redlock_code code = rl_client_call_untimed(client);
    if (code != REDLOCK_OK)
        return code;
    redlock_lease *lease;
    code = make_lease(client, key, key_len, options, NULL, &lease);
    if (code == REDLOCK_OK) {
        const struct rl_wish *wish = lease->first.wish;
        lease->behind = wish->waits && wish->options.behind;
        lease->acquire = (struct rl_pending){callback, arg};
        if (wish->kind->is_fenced)
            rl_wards_use(client);
        rl_handle_begin(lease);
        *ret_lease = lease;
    }
    rl_client_return(client);
    return code;
}

static redlock_code make_adopted(redlock_client *client, const void *key, size_t key_len,
                                 const char *token, int64_t valid_ms,
                                 const redlock_lease_options *options,
                                 redlock_lease **ret_lease)
{
    size_t token_len = strlen(token);
    if (token_len == 0 || token_len > REDLOCK_TOKEN_MAX)
        return REDLOCK_BAD_TOKEN;
    redlock_lease_options mine;
    redlock_code code = rl_lease_options_read(options, &mine, NULL);
    if (code != REDLOCK_OK)
        return code;
    int64_t fence = mine.fence;
    mine.fenced = rl_kind_of((struct rl_word){token, token_len})->is_fenced;
    mine.fence = mine.fences = 0; /* of this one alone */
    redlock_lease *lease;
    code = make_lease(client, key, key_len, &mine, token, &lease);
    if (code != REDLOCK_OK)
        return code;
    lease->phase = RL_PHASE_SETTLED;
    if (mine.fenced)
        rl_wards_use(client);
    lease->attempt = &lease->first;
    memcpy(rl_attempt_own(lease->attempt, lease), token, token_len + 1);
    rl_time valid = rl_min(valid_ms, REDLOCK_TTL_MAX_MS) * RL_MS;
    rl_attempt_step(lease->attempt,
                    &(struct rl_lease_event){
                        .type = RL_EVENT_ADOPT,
                        .deadline = valid_ms > 0 ? client->view.now + valid : 0,
                        .fence = mine.fenced ? fence : 0,
                    });
    *ret_lease = lease;
    return REDLOCK_OK;
}

redlock_code redlock_adopt(redlock_client *client, const void *key, size_t key_len,
                           const char *token, int64_t valid_ms,
                           const redlock_lease_options *options, redlock_lease **ret_lease)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = make_adopted(client, key, key_len, token, valid_ms, options, ret_lease);
    rl_client_return(client);
    return code;
}

/* rl_client_key() refused it. */
static redlock_code explain_key(const redlock_client *client, size_t len,
                                redlock_error *ret_error)
{
    size_t prefix = client->options.prefix ? strlen(client->options.prefix) : 0;
    if (len == 0)
        return rl_fail(ret_error, REDLOCK_BAD_KEY, "the key is empty");
    if (len > REDLOCK_KEY_MAX - prefix)
        return rl_fail(ret_error, REDLOCK_BAD_KEY,
                       "the key has %zu bytes and the prefix %zu: together at most %d are "
                       "possible",
                       len, prefix, REDLOCK_KEY_MAX);
    return rl_fail(ret_error, REDLOCK_BAD_KEY,
                   "the key ends as those of this library do: !fence, !marker, !queue");
}

redlock_code redlock_acquire_explain(const redlock_client *client, const void *key,
                                     size_t key_len, const redlock_lease_options *options,
                                     redlock_error *ret_error)
{
    char whole[REDLOCK_KEY_MAX];
    size_t whole_len;
    redlock_lease_options mine;
    if (!client)
        return rl_fail(ret_error, REDLOCK_CLOSED, "there is no client");
    if (!rl_client_key(client, key, key_len, whole, &whole_len))
        return explain_key(client, key_len, ret_error);
    redlock_code code = rl_lease_options_read(options, &mine, ret_error);
    if (code != REDLOCK_OK)
        return code;
    return rl_ttl_check(&client->options, &mine, mine.ttl_ms, ret_error);
}

/* --- the caller's requests --- */

static redlock_code begin_request(redlock_lease *lease)
{
    if (!lease || !lease->first.task.client)
        return REDLOCK_CLOSED;
    redlock_client *client = lease->first.task.client;
    redlock_code code = rl_client_call(client);
    if (code == REDLOCK_OK && lease->attempt &&
        rl_lease_next(rl_handle_core(lease)) <= client->view.now)
        rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_EXPIRE});
    return code;
}

static redlock_code ask_extension(redlock_lease *lease, int64_t ttl_ms,
                                  redlock_lease_fn *callback, void *arg)
{
    const struct rl_lease *core = rl_handle_core(lease);
    bool settled = lease->phase == RL_PHASE_SETTLED;
    if (!settled || !core || core->state != RL_LEASE_HELD || lease->releases)
        return REDLOCK_NOT_HELD;
    if (lease->extends)
        return REDLOCK_BUSY;
    if (ttl_ms < 0 || ttl_ms > REDLOCK_TTL_MAX_MS)
        return REDLOCK_BAD_TTL;
    if (ttl_ms > 0) {
        redlock_client *client = lease->first.task.client;
        rl_time ttl = ttl_ms * RL_MS;
        redlock_code code = rl_wish_check_ttl(lease->first.wish, client, ttl);
        if (code == REDLOCK_OK && lease->first.wish->kind->is_fenced &&
            !rl_wards_bear(client, ttl))
            code = REDLOCK_BAD_TTL;
        if (code != REDLOCK_OK)
            return code;
    }
    lease->extends = true;
    lease->extend = (struct rl_pending){callback, arg};
    lease->extend_ttl_ms = ttl_ms;
    lease->extend_waits = !rl_gate_is_open(&lease->first.task.client->gate);
    if (!lease->extend_waits)
        rl_handle_extend(lease, ttl_ms);
    return REDLOCK_OK;
}

redlock_code redlock_extend(redlock_lease *lease, int64_t ttl_ms,
                            redlock_lease_fn *callback, void *arg)
{
    redlock_code code = begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    redlock_client *client = lease->first.task.client;
    code = ask_extension(lease, ttl_ms, callback, arg);
    rl_client_return(client);
    return code;
}

redlock_code redlock_release(redlock_lease *lease, redlock_lease_fn *callback, void *arg)
{
    redlock_client *client = lease ? lease->first.task.client : NULL;
    bool in_callback = client && client->depth > 0; /* that has begun by a fresh clock */
    redlock_code code = in_callback ? rl_client_call_untimed(client) : begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    const struct rl_lease *core = rl_handle_core(lease);
    bool held = lease->phase == RL_PHASE_SETTLED && core &&
                (core->state == RL_LEASE_HELD || core->state == RL_LEASE_LOST);
    if (held && !lease->releases) {
        lease->releases = true;
        lease->release = (struct rl_pending){callback, arg};
        lease->release_waits = true;
        rl_task_soon(&lease->first.task);
    } else {
        code = REDLOCK_NOT_HELD;
    }
    rl_client_return(client);
    return code;
}

void redlock_cancel(redlock_lease *lease)
{
    if (!is_usable(lease) || lease->phase == RL_PHASE_SETTLED || lease->cancelled ||
        begin_request(lease) != REDLOCK_OK)
        return;
    redlock_client *client = lease->first.task.client;
    lease->cancelled = true;
    if (lease->phase == RL_PHASE_TRYING)
        rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
    else
        rl_owner_note(lease, RL_NEWS_FAILED);
    if (lease->entered)
        rl_attempt_withdraw(lease->attempt);
    rl_client_return(client);
}

void redlock_disown(redlock_lease *lease)
{
    if (!is_usable(lease) || lease->phase != RL_PHASE_SETTLED ||
        begin_request(lease) != REDLOCK_OK)
        return;
    redlock_client *client = lease->first.task.client;
    if (lease->attempt && !lease->releases) {
        if (lease->extend_waits)
            rl_owner_note(lease, RL_NEWS_NOT_EXTENDED);
        lease->extend_waits = false;
        rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_DISOWN});
    }
    rl_client_return(client);
}

/* Of most leases all is told by then: there is nothing to say, and nothing to time. */
static void let_go(redlock_lease *lease)
{
    redlock_client *client = lease->first.task.client;
    bool waits = lease->entered && lease->phase != RL_PHASE_SETTLED;
    if (!waits && rl_attempt_is_past(lease->attempt)) {
        rl_attempt_leave(lease->attempt);
        return;
    }
    if (rl_client_call(client) != REDLOCK_OK)
        return;
    if (waits)
        rl_attempt_withdraw(lease->attempt);
    lease->release_waits = false;
    rl_attempt_leave(lease->attempt);
    rl_client_return(client);
}

void redlock_lease_free(redlock_lease *lease)
{
    if (!lease)
        return;
    redlock_client *client = lease->first.task.client;
    lease->freed = true;
    if (!client) {
        free(lease);
        return;
    }
    if (!rl_client_is_ours(client))
        return; /* goes with the client */
    rl_client_enter(client);
    if (lease->attempt && !client->closing)
        let_go(lease);
    else if (lease->release_waits)
        rl_handle_release(lease);
    lease->attempt = NULL;
    lease->phase = RL_PHASE_SETTLED; /* nothing is begun any more */
    rl_handle_over(&lease->first.task);
    rl_client_leave(client);
}

/* --- looking --- */

int64_t redlock_valid_ms(const redlock_lease *lease)
{
    const struct rl_lease *core = is_usable(lease) ? rl_handle_core(lease) : NULL;
    if (!core || lease->release_waits)
        return 0;
    return rl_lease_left(core, rl_client_read_clock(lease->first.task.client)) / RL_MS;
}

const char *redlock_token(const redlock_lease *lease)
{
    return lease && lease->attempt ? rl_attempt_token(lease->attempt) : "";
}

int64_t redlock_fence(const redlock_lease *lease)
{
    const struct rl_attempt *attempt = lease ? lease->attempt : NULL;
    int64_t last = attempt ? rl_lease_fence(&attempt->lease) : 0;
    return last > 0 ? rl_fence_first(last, attempt->wish->fences) : 0;
}

/* Its answer came too late to count, or has not come. */
static bool is_late(const struct rl_attempt *attempt, unsigned node)
{
    const struct rl_lease *lease = &attempt->lease;
    const struct rl_ballot *ballot = &lease->ballot[node];
    rl_time patience = rl_lease_patience(lease->terms->node_timeout, lease->ttl,
                                         attempt->task.client->round_trip[node]);
    bool granted = ballot->vote == RL_VOTE_GRANTED && lease->cause == RL_CAUSE_NO_QUORUM;
    return ballot->vote == RL_VOTE_SILENT || (granted && ballot->latency > patience);
}

/* Which limit it missed, and what moves that. */
static const char *limit_of(const struct rl_attempt *attempt, unsigned node)
{
    const struct rl_lease *lease = &attempt->lease;
    rl_time round_trip = attempt->task.client->round_trip[node];
    if (lease->terms->node_timeout > 0)
        return "no answer within node_timeout_ms (--timeout)";
    if (rl_max(4 * round_trip, RL_PATIENCE_FLOOR) > lease->ttl / RL_PATIENCE_SHARE)
        return "no answer within a tenth of the TTL: a longer TTL, or node_timeout_ms "
               "(--timeout), gives a node more time";
    return "no answer within 4 round trips, at least 50 ms: node_timeout_ms (--timeout) "
           "gives a node more time";
}

size_t redlock_explain(const redlock_lease *lease, redlock_node *nodes, size_t room)
{
    if (!is_usable(lease) || !lease->attempt)
        return 0;
    const struct rl_attempt *attempt = lease->attempt;
    for (unsigned i = 0; i < lease->first.wish->terms.n && i < room; i++) {
        rl_client_describe(lease->first.task.client, i, &attempt->lease.ballot[i],
                           attempt->value ? attempt->value[i] : NULL, &nodes[i]);
        if (!is_late(attempt, i))
            continue;
        nodes[i].fault = rl_fault_name(RL_FAULT_TIMEOUT);
        nodes[i].text = limit_of(attempt, i);
    }
    return lease->first.wish->terms.n;
}
