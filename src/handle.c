/* The public lease: a caller's wish to hold a lock, over as many attempts as it takes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "attempt.h"
#include "options.h"

enum phase {
    PHASE_WAITING, /* for the gate */
    PHASE_PAUSING, /* until the next attempt */
    PHASE_TRYING,
    PHASE_SETTLED, /* the acquire has ended, well or not */
};

/* An operation whose end is to be told. */
struct pending {
    redlock_lease_fn *callback;
    void *arg;
    bool started;
};

struct redlock_lease {
    struct rl_task task;
    struct rl_attempt *attempt; /* the last one; NULL before the first */
    enum phase phase : 8;
    bool cancelled : 1;
    bool freed : 1;
    bool waits : 1;                           /* a wait was asked for */
    bool extend_waits : 1, release_waits : 1; /* for the gate */
    unsigned attempts;
    unsigned news;        /* to be told at the end of the pass */
    redlock_code failure; /* why an attempt could not even be made */
    redlock_code loss;    /* why it was lost: a release has a cause of its own */
    rl_time give_up, next_attempt;
    int64_t extend_ttl_ms; /* of the extension that waits */
    struct rl_terms terms;
    struct rl_retry retry;
    redlock_retry_fn *retry_fn;
    void *retry_arg;
    struct pending acquire, extend, release;
    redlock_lease_fn *on_lost, *on_extended;
    void *lost_arg, *extended_arg;
    size_t key_len;
    char key[];
};

static redlock_lease *lease_of(struct rl_task *task)
{
    return (redlock_lease *)task;
}

static bool is_usable(const redlock_lease *lease)
{
    return lease && lease->task.client && rl_client_is_ours(lease->task.client);
}

static struct rl_lease *core_of(const redlock_lease *lease)
{
    return lease->attempt ? &lease->attempt->lease : NULL;
}

/* --- telling --- */

static redlock_code code_of(enum rl_cause cause)
{
    switch (cause) {
    case RL_CAUSE_NONE: return REDLOCK_OK;
    case RL_CAUSE_TAKEN: return REDLOCK_TAKEN;
    case RL_CAUSE_NO_QUORUM: return REDLOCK_NO_QUORUM;
    case RL_CAUSE_EXPIRED: return REDLOCK_EXPIRED;
    case RL_CAUSE_CANCELLED: return REDLOCK_CANCELLED;
    case RL_CAUSE_GONE: return REDLOCK_GONE;
    case RL_CAUSE_MAX_HOLD: return REDLOCK_MAX_HOLD;
    case RL_CAUSE_UNCONFIRMED: return REDLOCK_UNCONFIRMED;
    }
    return REDLOCK_NO_QUORUM;
}

static redlock_result result_of(const redlock_lease *lease, redlock_code code)
{
    const redlock_client *client = lease->task.client;
    const struct rl_lease *core = core_of(lease);
    redlock_result result = {
        .code = code,
        .nodes = lease->terms.n,
        .quorum = lease->terms.q,
        .attempts = lease->attempts,
        .remaining_ms = -1,
    };
    if (!core)
        return result;
    for (unsigned i = 0; i < core->terms.n; i++)
        result.granted += core->ballot[i].vote == RL_VOTE_GRANTED;
    if (core->state == RL_LEASE_HELD)
        result.granted = rl_count(core->holding);
    result.took_us = client->view.now - core->round.start;
    result.valid_ms = rl_lease_left(core, client->view.now) / RL_MS;
    result.remaining_ms = rl_free_in(core->ballot, core->terms.n, core->terms.q);
    return result;
}

/* The callback may take its time: what comes after it must not go by the old clock. */
static void call_back(redlock_lease *lease, redlock_lease_fn *callback, void *arg,
                      redlock_code code)
{
    redlock_client *client = lease->task.client;
    redlock_result result = result_of(lease, code);
    callback(lease, &result, arg);
    rl_client_read_clock(client);
}

static void tell(redlock_lease *lease, struct pending *pending, redlock_code code)
{
    struct pending told = *pending;
    *pending = (struct pending){0};
    if (!told.started || !told.callback || lease->freed)
        return;
    call_back(lease, told.callback, told.arg, code);
}

static void tell_event(redlock_lease *lease, redlock_lease_fn *callback, void *arg,
                       redlock_code code)
{
    if (callback && !lease->freed)
        call_back(lease, callback, arg, code);
}

/* Why the acquire failed, in the caller's words. */
static redlock_code failure_of(const redlock_lease *lease)
{
    const struct rl_lease *core = core_of(lease);
    if (lease->failure != REDLOCK_OK)
        return lease->failure;
    if (lease->cancelled || !core)
        return REDLOCK_CANCELLED;
    if (core->cause == RL_CAUSE_NO_QUORUM &&
        rl_client_is_denied(lease->task.client, core->ballot))
        return REDLOCK_DENIED;
    return code_of(core->cause);
}

static void settle(redlock_lease *lease, redlock_code code)
{
    lease->phase = PHASE_SETTLED;
    rl_heap_drop(&lease->task.client->heap, &lease->task.due);
    if (code == REDLOCK_TAKEN && lease->waits &&
        lease->task.client->view.now >= lease->give_up)
        code = REDLOCK_TIMEOUT;
    tell(lease, &lease->acquire, code);
}

static bool is_worth_a_retry(redlock_code code)
{
    return code == REDLOCK_TAKEN || code == REDLOCK_NO_QUORUM || code == REDLOCK_EXPIRED;
}

/* Tries again later, or ends the acquire. */
static void attempt_failed(redlock_lease *lease)
{
    redlock_client *client = lease->task.client;
    redlock_code code = failure_of(lease);
    rl_time at = RL_NEVER;
    if (is_worth_a_retry(code))
        at = rl_retry_at(&lease->retry, lease->attempts - 1, rl_client_random(client),
                         client->view.now, lease->give_up);
    if (lease->cancelled) /* by the caller's retry_fn */
        code = REDLOCK_CANCELLED;
    if (at == RL_NEVER || lease->cancelled) {
        settle(lease, code);
        return;
    }
    lease->phase = PHASE_PAUSING;
    lease->next_attempt = at;
    rl_task_due(&lease->task, at);
}

static redlock_code code_of_lost_extension(const redlock_lease *lease)
{
    const struct rl_lease *core = core_of(lease);
    if (core->state == RL_LEASE_LOST)
        return code_of(core->cause);
    if (core->state != RL_LEASE_HELD || lease->release.started)
        return REDLOCK_CANCELLED;
    return rl_client_is_denied(lease->task.client, core->ballot) ? REDLOCK_DENIED
                                                                 : REDLOCK_NO_QUORUM;
}

/* Losses first: nothing may be told to a holder before it knows that it is none. */
static void tell_one(redlock_lease *lease, enum rl_news news)
{
    switch (news) {
    case RL_NEWS_LOST:
        tell_event(lease, lease->on_lost, lease->lost_arg, lease->loss);
        break;
    case RL_NEWS_HELD: settle(lease, REDLOCK_OK); break;
    case RL_NEWS_FAILED: attempt_failed(lease); break;
    case RL_NEWS_NOT_EXTENDED:
        tell(lease, &lease->extend, code_of_lost_extension(lease));
        break;
    case RL_NEWS_EXTENDED: tell(lease, &lease->extend, REDLOCK_OK); break;
    case RL_NEWS_RENEWED:
        tell_event(lease, lease->on_extended, lease->extended_arg, REDLOCK_OK);
        break;
    case RL_NEWS_RELEASED:
        tell(lease, &lease->release, code_of(core_of(lease)->cause));
        break;
    }
}

/* Each callback may free the lease or the client: then the rest is not told. */
static void tell_news(redlock_lease *lease, unsigned news)
{
    static const enum rl_news order[] = {
        RL_NEWS_LOST,     RL_NEWS_HELD,    RL_NEWS_FAILED,   RL_NEWS_NOT_EXTENDED,
        RL_NEWS_EXTENDED, RL_NEWS_RENEWED, RL_NEWS_RELEASED,
    };
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (news & order[i] && !lease->freed && !lease->task.client->closing)
            tell_one(lease, order[i]);
}

void rl_owner_note(redlock_lease *lease, unsigned news)
{
    redlock_client *client = lease->task.client;
    if (news & RL_NEWS_LOST)
        lease->loss = code_of(core_of(lease)->cause);
    if (news & RL_NEWS_LOST && lease->extend_waits) {
        lease->extend_waits = false;
        news |= RL_NEWS_NOT_EXTENDED;
    }
    if (client->api > 0) {
        lease->news |= news;
        rl_task_due(&lease->task, client->view.now);
        return;
    }
    news |= lease->news;
    lease->news = 0;
    tell_news(lease, news);
}

/* --- trying --- */

static void fail_attempt(redlock_lease *lease, redlock_code code)
{
    lease->failure = code;
    rl_owner_note(lease, RL_NEWS_FAILED);
}

static void begin_attempt(redlock_lease *lease)
{
    redlock_client *client = lease->task.client;
    char token[REDLOCK_TOKEN_MAX + 1];
    lease->phase = PHASE_TRYING;
    lease->attempts++;
    if (lease->attempt)
        rl_attempt_leave(lease->attempt);
    lease->attempt = NULL;
    if (!rl_token_make('p', client->options.label, token)) {
        fail_attempt(lease, REDLOCK_SYSTEM);
        return;
    }
    lease->attempt = rl_attempt_new(client, lease, &lease->terms,
                                    (struct rl_word){lease->key, lease->key_len},
                                    (struct rl_word){token, strlen(token)});
    if (!lease->attempt) {
        fail_attempt(lease, REDLOCK_NO_MEMORY);
        return;
    }
    rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_START});
}

static void tick(struct rl_task *task)
{
    redlock_lease *lease = lease_of(task);
    rl_heap_drop(&task->client->heap, &task->due);
    unsigned news = lease->news;
    lease->news = 0;
    if (news)
        tell_news(lease, news);
    else if (lease->phase == PHASE_PAUSING && task->client->view.now < lease->next_attempt)
        rl_task_due(task, lease->next_attempt);
    else if (lease->phase == PHASE_PAUSING)
        begin_attempt(lease);
}

static void begin_extension(redlock_lease *lease, int64_t ttl_ms)
{
    lease->extend_waits = false;
    rl_attempt_step(lease->attempt, &(struct rl_lease_event){
                                        .type = RL_EVENT_EXTEND,
                                        .ttl = ttl_ms * RL_MS,
                                    });
}

static void begin_release(redlock_lease *lease)
{
    lease->release_waits = false;
    if (lease->extend_waits)
        rl_owner_note(lease, RL_NEWS_NOT_EXTENDED);
    lease->extend_waits = false;
    rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
}

/* The first attempt may begin: at the end of this pass, never inside the caller's call. */
static void open_gate(struct rl_task *task)
{
    redlock_lease *lease = lease_of(task);
    if (lease->release_waits)
        begin_release(lease);
    else if (lease->extend_waits)
        begin_extension(lease, lease->extend_ttl_ms);
    if (lease->phase != PHASE_WAITING)
        return;
    lease->phase = PHASE_PAUSING;
    lease->next_attempt = task->client->view.now;
    rl_task_due(task, lease->next_attempt);
}

static void close_lease(struct rl_task *task)
{
    redlock_lease *lease = lease_of(task);
    lease->cancelled = true;
    lease->phase = PHASE_SETTLED;
    tell(lease, &lease->acquire, REDLOCK_CANCELLED);
    tell(lease, &lease->extend, REDLOCK_CANCELLED);
    tell(lease, &lease->release, REDLOCK_CANCELLED);
}

/* The handle is the caller's: it stays, without its client, until the caller frees it. */
static void destroy(struct rl_task *task)
{
    redlock_lease *lease = lease_of(task);
    task->client = NULL;
    lease->attempt = NULL;
    if (lease->freed)
        free(lease);
}

static const struct rl_task_class lease_class = {
    .tick = tick,
    .open = open_gate,
    .close = close_lease,
    .destroy = destroy,
};

/* --- making --- */

static rl_time custom_delay(unsigned attempt, uint64_t random, void *arg)
{
    redlock_lease *lease = arg;
    int64_t ms = lease->retry_fn(attempt, random, lease->retry_arg);
    return ms < 0 ? -1 : rl_min(ms, REDLOCK_TTL_MAX_MS) * RL_MS;
}

static void read_retry(redlock_lease *lease, const redlock_lease_options *options)
{
    static const enum rl_retry_kind kinds[] = {
        [REDLOCK_RETRY_EXPONENTIAL] = RL_RETRY_EXPONENTIAL,
        [REDLOCK_RETRY_FIXED] = RL_RETRY_FIXED,
        [REDLOCK_RETRY_NONE] = RL_RETRY_NONE,
        [REDLOCK_RETRY_CUSTOM] = RL_RETRY_CUSTOM,
    };
    lease->retry = (struct rl_retry){
        .kind = kinds[options->retry],
        .base = options->retry_base_ms * RL_MS,
        .cap = options->retry_cap_ms * RL_MS,
        .custom = custom_delay,
        .arg = lease,
    };
    lease->retry_fn = options->retry_fn;
    lease->retry_arg = options->retry_arg;
}

/* A TTL must leave some validity after drift, margin and what the caller wants at least. */
static redlock_code check_ttl(redlock_client *client, const struct rl_terms *terms)
{
    rl_time least = rl_max(terms->margin, terms->min_validity);
    if (terms->ttl <= 0 || terms->ttl > REDLOCK_TTL_MAX_MS * RL_MS ||
        rl_valid_until(0, terms->ttl, terms->drift_ppm) <= least)
        return REDLOCK_BAD_TTL;
    return rl_client_use_ttl(client, terms->ttl / RL_MS);
}

static redlock_code make_lease(redlock_client *client, const void *key, size_t key_len,
                               const redlock_lease_options *options,
                               redlock_lease **ret_lease)
{
    char whole[REDLOCK_KEY_MAX];
    size_t whole_len;
    redlock_lease_options mine;
    struct rl_terms terms;
    if (!rl_client_key(client, key, key_len, whole, &whole_len))
        return REDLOCK_BAD_KEY;
    redlock_code code = rl_lease_options_read(options, &mine);
    if (code != REDLOCK_OK)
        return code;
    if (mine.ttl_ms <= 0 || mine.ttl_ms > REDLOCK_TTL_MAX_MS)
        return REDLOCK_BAD_TTL;
    rl_terms_of(&mine, &client->options, client->n, client->q, &terms);
    code = check_ttl(client, &terms);
    if (code != REDLOCK_OK)
        return code;
    redlock_lease *lease = calloc(1, sizeof(*lease) + whole_len);
    if (!lease || !rl_task_init(&lease->task, client, &lease_class)) {
        free(lease);
        return REDLOCK_NO_MEMORY;
    }
    lease->terms = terms;
    read_retry(lease, &mine);
    lease->waits = mine.wait_ms != 0;
    lease->give_up =
        mine.wait_ms < 0 ? RL_NEVER : rl_later(client->view.now, mine.wait_ms * RL_MS);
    lease->on_lost = mine.on_lost;
    lease->lost_arg = mine.lost_arg;
    lease->on_extended = mine.on_extended;
    lease->extended_arg = mine.extended_arg;
    lease->key_len = whole_len;
    memcpy(lease->key, whole, whole_len);
    *ret_lease = lease;
    return REDLOCK_OK;
}

redlock_code redlock_acquire(redlock_client *client, const void *key, size_t key_len,
                             const redlock_lease_options *options,
                             redlock_lease_fn *callback, void *arg,
                             redlock_lease **ret_lease)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    redlock_lease *lease;
    code = make_lease(client, key, key_len, options, &lease);
    if (code == REDLOCK_OK) {
        lease->acquire = (struct pending){callback, arg, true};
        if (client->gate.opened_at != RL_NEVER)
            open_gate(&lease->task);
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
    redlock_lease *lease;
    redlock_code code = make_lease(client, key, key_len, options, &lease);
    if (code != REDLOCK_OK)
        return code;
    lease->phase = PHASE_SETTLED;
    lease->attempt = rl_attempt_new(client, lease, &lease->terms,
                                    (struct rl_word){lease->key, lease->key_len},
                                    (struct rl_word){token, token_len});
    if (!lease->attempt) {
        lease->freed = true;
        rl_task_end(&lease->task);
        return REDLOCK_NO_MEMORY;
    }
    rl_time valid = rl_min(valid_ms, REDLOCK_TTL_MAX_MS) * RL_MS;
    rl_attempt_step(lease->attempt,
                    &(struct rl_lease_event){
                        .type = RL_EVENT_ADOPT,
                        .deadline = valid_ms > 0 ? client->view.now + valid : 0,
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

/* --- the caller's requests --- */

static redlock_code begin_request(redlock_lease *lease)
{
    if (!lease || !lease->task.client)
        return REDLOCK_CLOSED;
    redlock_code code = rl_client_call(lease->task.client);
    if (code == REDLOCK_OK && lease->attempt)
        rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_EXPIRE});
    return code;
}

static redlock_code ask_extension(redlock_lease *lease, int64_t ttl_ms,
                                  redlock_lease_fn *callback, void *arg)
{
    const struct rl_lease *core = core_of(lease);
    if (!core || core->state != RL_LEASE_HELD || lease->release.started)
        return REDLOCK_NOT_HELD;
    if (lease->extend.started)
        return REDLOCK_BUSY;
    if (ttl_ms < 0 || ttl_ms > REDLOCK_TTL_MAX_MS)
        return REDLOCK_BAD_TTL;
    if (ttl_ms > 0) {
        struct rl_terms terms = core->terms;
        terms.ttl = ttl_ms * RL_MS;
        redlock_code code = check_ttl(lease->task.client, &terms);
        if (code != REDLOCK_OK)
            return code;
    }
    lease->extend = (struct pending){callback, arg, true};
    lease->extend_ttl_ms = ttl_ms;
    lease->extend_waits = lease->task.client->gate.opened_at == RL_NEVER;
    if (!lease->extend_waits)
        begin_extension(lease, ttl_ms);
    return REDLOCK_OK;
}

redlock_code redlock_extend(redlock_lease *lease, int64_t ttl_ms,
                            redlock_lease_fn *callback, void *arg)
{
    redlock_code code = begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    redlock_client *client = lease->task.client;
    code = ask_extension(lease, ttl_ms, callback, arg);
    rl_client_return(client);
    return code;
}

redlock_code redlock_release(redlock_lease *lease, redlock_lease_fn *callback, void *arg)
{
    redlock_code code = begin_request(lease);
    if (code != REDLOCK_OK)
        return code;
    redlock_client *client = lease->task.client;
    const struct rl_lease *core = core_of(lease);
    bool held = core && (core->state == RL_LEASE_HELD || core->state == RL_LEASE_LOST);
    if (held && !lease->release.started) {
        lease->release = (struct pending){callback, arg, true};
        lease->release_waits = client->gate.opened_at == RL_NEVER;
        if (!lease->release_waits)
            begin_release(lease);
    } else {
        code = REDLOCK_NOT_HELD;
    }
    rl_client_return(client);
    return code;
}

void redlock_cancel(redlock_lease *lease)
{
    if (!is_usable(lease) || lease->phase == PHASE_SETTLED || lease->cancelled ||
        begin_request(lease) != REDLOCK_OK)
        return;
    redlock_client *client = lease->task.client;
    lease->cancelled = true;
    if (lease->phase == PHASE_TRYING)
        rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
    else
        rl_owner_note(lease, RL_NEWS_FAILED);
    rl_client_return(client);
}

void redlock_disown(redlock_lease *lease)
{
    if (!is_usable(lease) || lease->phase != PHASE_SETTLED ||
        begin_request(lease) != REDLOCK_OK)
        return;
    redlock_client *client = lease->task.client;
    if (lease->attempt && !lease->release.started) {
        if (lease->extend_waits)
            rl_owner_note(lease, RL_NEWS_NOT_EXTENDED);
        lease->extend_waits = false;
        rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_DISOWN});
    }
    rl_client_return(client);
}

void redlock_lease_free(redlock_lease *lease)
{
    if (!lease)
        return;
    redlock_client *client = lease->task.client;
    lease->freed = true;
    if (!client) {
        free(lease);
        return;
    }
    if (!rl_client_is_ours(client))
        return; /* goes with the client */
    bool open = rl_client_call(client) == REDLOCK_OK;
    if (lease->attempt && open)
        rl_attempt_leave(lease->attempt);
    lease->attempt = NULL;
    rl_task_end(&lease->task);
    if (open)
        rl_client_return(client);
}

/* --- looking --- */

int64_t redlock_valid_ms(const redlock_lease *lease)
{
    const struct rl_lease *core = is_usable(lease) ? core_of(lease) : NULL;
    if (!core)
        return 0;
    return rl_lease_left(core, rl_client_read_clock(lease->task.client)) / RL_MS;
}

const char *redlock_token(const redlock_lease *lease)
{
    return lease && lease->attempt ? lease->attempt->token.text : "";
}

size_t redlock_explain(const redlock_lease *lease, redlock_node *nodes, size_t room)
{
    if (!is_usable(lease) || !lease->attempt)
        return 0;
    const struct rl_attempt *attempt = lease->attempt;
    for (unsigned i = 0; i < lease->terms.n && i < room; i++)
        rl_client_describe(lease->task.client, i, &attempt->ballot[i],
                           attempt->value ? attempt->value[i] : NULL, &nodes[i]);
    return lease->terms.n;
}
