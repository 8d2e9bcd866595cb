#include "handle.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "listen.h"
#include "wards.h"

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
    const redlock_client *client = lease->first.task.client;
    const struct rl_lease *core = rl_handle_core(lease);
    redlock_result result = {
        .code = code,
        .nodes = lease->first.wish->terms.n,
        .quorum = lease->first.wish->terms.q,
        .attempts = lease->attempts,
        .remaining_ms = -1,
    };
    if (!core || core->state == RL_LEASE_NEW)
        return result;
    unsigned n = core->terms->n;
    bool held = core->state == RL_LEASE_HELD;
    for (unsigned i = 0; !held && i < n; i++)
        result.granted += core->ballot[i].vote == RL_VOTE_GRANTED;
    if (held)
        result.granted = rl_count(core->holding);
    bool enough = held ? code == REDLOCK_OK : result.granted >= core->terms->q;
    result.took_us = client->view.now - core->round.start;
    result.valid_ms =
        lease->release_waits ? 0 : rl_lease_left(core, client->view.now) / RL_MS;
    result.remaining_ms = enough ? 0 : rl_quorum_in(core->ballot, n, core->terms->q);
    result.awaited = lease->attempt->awaited;
    return result;
}

static void tell(redlock_lease *lease, redlock_lease_fn *callback, void *arg,
                 redlock_code code)
{
    redlock_client *client = lease->first.task.client;
    if (!callback || lease->freed)
        return;
    rl_client_freshen(client);
    redlock_result result = result_of(lease, code);
    callback(lease, &result, arg);
    rl_client_called_back(client);
}

static void tell_extended(redlock_lease *lease, redlock_code code)
{
    if (!lease->extends)
        return;
    lease->extends = false;
    tell(lease, lease->extend.callback, lease->extend.arg, code);
}

static void tell_released(redlock_lease *lease, redlock_code code)
{
    if (!lease->releases)
        return;
    lease->releases = false;
    tell(lease, lease->release.callback, lease->release.arg, code);
}

/* Why the acquire failed, in the caller's words. */
static redlock_code failure_of(const redlock_lease *lease)
{
    const struct rl_lease *core = rl_handle_core(lease);
    if (lease->failure != REDLOCK_OK)
        return lease->failure;
    if (lease->cancelled || !core)
        return REDLOCK_CANCELLED;
    if (core->cause == RL_CAUSE_NO_QUORUM &&
        rl_client_is_denied(lease->first.task.client, core->ballot))
        return REDLOCK_DENIED;
    return code_of(core->cause);
}

static void settle(redlock_lease *lease, redlock_code code)
{
    assert(lease->phase != RL_PHASE_SETTLED);
    struct rl_pending acquire = lease->acquire;
    if (code == REDLOCK_TAKEN && lease->first.wish->waits &&
        lease->first.task.client->view.now >= lease->give_up)
        code = REDLOCK_TIMEOUT;
    lease->phase = RL_PHASE_SETTLED;
    /* Its last release may have said that it goes on: a call would be lost on it. */
    if (code != REDLOCK_OK && lease->entered && lease->attempt && !lease->cancelled)
        rl_attempt_withdraw(lease->attempt);
    tell(lease, acquire.callback, acquire.arg, code);
}

static bool is_worth_a_retry(redlock_code code)
{
    return code == REDLOCK_TAKEN || code == REDLOCK_NO_QUORUM || code == REDLOCK_EXPIRED;
}

/* Tries again later, or ends the acquire. */
static void attempt_failed(redlock_lease *lease)
{
    redlock_client *client = lease->first.task.client;
    redlock_code code = failure_of(lease);
    rl_time at = RL_NEVER;
    rl_client_freshen(client);
    if (is_worth_a_retry(code)) {
        if (lease->first.wish->waits)
            rl_listen_begin(client);
        at = rl_turns_next(lease);
    }
    if (lease->phase == RL_PHASE_SETTLED) /* freed by the caller's retry_fn */
        return;
    if (lease->cancelled) /* by the caller's retry_fn */
        code = REDLOCK_CANCELLED;
    if (at == RL_NEVER || lease->cancelled) {
        settle(lease, code);
        return;
    }
    lease->phase = RL_PHASE_PAUSING;
    lease->next_attempt = at;
    rl_task_due(&lease->first.task, at);
}

/* The nodes forget locks that are longer than they were admitted for. */
static bool is_too_long(const redlock_lease *lease)
{
    rl_time ttl = lease->extend_ttl_ms > 0 ? lease->extend_ttl_ms * RL_MS
                                           : rl_handle_core(lease)->ttl;
    return lease->first.wish->kind->is_fenced &&
           !rl_wards_bear(lease->first.task.client, ttl);
}

static redlock_code code_of_lost_extension(const redlock_lease *lease)
{
    const struct rl_lease *core = rl_handle_core(lease);
    if (lease->releases)
        return REDLOCK_CANCELLED;
    if (core->state == RL_LEASE_LOST)
        return code_of(core->cause);
    if (core->state != RL_LEASE_HELD)
        return REDLOCK_CANCELLED;
    if (is_too_long(lease))
        return REDLOCK_BAD_TTL;
    return rl_client_is_denied(lease->first.task.client, core->ballot) ? REDLOCK_DENIED
                                                                       : REDLOCK_NO_QUORUM;
}

static void tell_one(redlock_lease *lease, enum rl_news news)
{
    const redlock_lease_options *wish = &lease->first.wish->options;
    switch (news) {
    case RL_NEWS_LOST: tell(lease, wish->on_lost, wish->lost_arg, lease->loss); break;
    case RL_NEWS_HELD: settle(lease, REDLOCK_OK); break;
    case RL_NEWS_FAILED: attempt_failed(lease); break;
    case RL_NEWS_NOT_EXTENDED: tell_extended(lease, code_of_lost_extension(lease)); break;
    case RL_NEWS_EXTENDED: tell_extended(lease, REDLOCK_OK); break;
    case RL_NEWS_RENEWED:
        tell(lease, wish->on_extended, wish->extended_arg, REDLOCK_OK);
        break;
    case RL_NEWS_RELEASED:
        tell_released(lease, code_of(rl_handle_core(lease)->cause));
        break;
    }
}

/* Each callback may free the lease or the client: then the rest is not told. */
static void tell_news(redlock_lease *lease, unsigned news)
{
    for (; news && !lease->freed && !lease->first.task.client->closing; news &= news - 1)
        tell_one(lease, news & -news);
}

/* Whoever has asked for the release holds nothing any more. */
static unsigned withhold(unsigned news)
{
    if (news & RL_NEWS_EXTENDED)
        news |= RL_NEWS_NOT_EXTENDED;
    return news & ~(unsigned)(RL_NEWS_LOST | RL_NEWS_EXTENDED | RL_NEWS_RENEWED);
}

void rl_owner_note(redlock_lease *lease, unsigned news)
{
    redlock_client *client = lease->first.task.client;
    if (news & RL_NEWS_LOST)
        lease->loss = code_of(rl_handle_core(lease)->cause);
    if (news & RL_NEWS_LOST && lease->extend_waits) {
        lease->extend_waits = false;
        news |= RL_NEWS_NOT_EXTENDED;
    }
    if (lease->release_waits)
        news = withhold(news);
    if (client->api > 0) {
        lease->news |= (uint8_t)news;
        rl_task_soon(&lease->first.task);
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
    redlock_client *client = lease->first.task.client;
    lease->phase = RL_PHASE_TRYING;
    lease->queues = lease->behind;
    lease->behind = false;
    lease->attempts += !lease->queues;
    rl_turn_try(&lease->turn);
    lease->called = RL_NEVER;
    if (lease->attempt)
        rl_attempt_leave(lease->attempt);
    lease->attempt = NULL;
    if (lease->first.wish->kind->is_fenced &&
        !rl_wards_bear(client, lease->first.wish->terms.ttl)) {
        fail_attempt(lease, REDLOCK_BAD_TTL);
        return;
    }
    bool is_first = lease->first.lease.state == RL_LEASE_NEW;
    lease->attempt = is_first ? &lease->first : rl_attempt_another(&lease->first);
    if (!lease->attempt) {
        fail_attempt(lease, REDLOCK_NO_MEMORY);
        return;
    }
    char *token = rl_attempt_own(lease->attempt, lease);
    if (!rl_token_make(&client->token_bits, lease->first.wish->kind->mark,
                       client->options.label, token)) {
        memset(token, 0, lease->attempt->token_len); /* it is said to leave a queue */
        fail_attempt(lease, REDLOCK_SYSTEM);
        return;
    }
    rl_attempt_step(
        lease->attempt,
        &(struct rl_lease_event){.type = lease->queues ? RL_EVENT_QUEUE : RL_EVENT_START});
}

/* Who is to stand behind others and could not be called gives them a chance all the same.
 */
static void begin(redlock_lease *lease)
{
    redlock_client *client = lease->first.task.client;
    bool can_queue = rl_count(rl_listen_where(client)) >= lease->first.wish->terms.q;
    if (!lease->behind || can_queue) {
        begin_attempt(lease);
        return;
    }
    rl_listen_begin(client);
    lease->phase = RL_PHASE_PAUSING;
    lease->behind = false;
    rl_time at = rl_turns_policy(lease);
    lease->next_attempt = at == RL_NEVER ? client->view.now : at;
    rl_task_due(&lease->first.task, lease->next_attempt);
}

/* Of the time that it may wait, this is a part. */
static void wait_for_gate(redlock_lease *lease)
{
    rl_time now = lease->first.task.client->view.now;
    rl_time wait = lease->first.wish->options.wait_ms * RL_MS;
    if (lease->began == RL_NEVER) {
        lease->began = now;
        lease->give_up = wait < 0 ? RL_NEVER : rl_later(now, wait);
    }
    if (rl_gate_is_open(&lease->first.task.client->gate))
        begin(lease);
}

void rl_handle_release(redlock_lease *lease)
{
    bool extend_waits = lease->extend_waits;
    lease->extend_waits = false;
    rl_attempt_step(lease->attempt, &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
    lease->release_waits = false;
    if (extend_waits) /* last: its callback may free the lease */
        rl_owner_note(lease, RL_NEWS_NOT_EXTENDED);
}

static void tick(struct rl_task *task)
{
    redlock_lease *lease = rl_handle_of(task);
    if (lease->release_waits && rl_gate_is_open(&task->client->gate))
        rl_handle_release(lease);
    else
        rl_attempt_tick(task);
    if (task->dead)
        return;
    unsigned news = lease->news;
    lease->news = 0;
    if (news)
        tell_news(lease, news);
    else if (lease->phase == RL_PHASE_WAITING)
        wait_for_gate(lease);
    else if (lease->phase == RL_PHASE_PAUSING &&
             task->client->view.now < lease->next_attempt)
        rl_task_due(task, lease->next_attempt);
    else if (lease->phase == RL_PHASE_PAUSING)
        begin(lease);
}

void rl_handle_extend(redlock_lease *lease, int64_t ttl_ms)
{
    lease->extend_waits = false;
    if (is_too_long(lease)) {
        rl_owner_note(lease, RL_NEWS_NOT_EXTENDED);
        return;
    }
    rl_attempt_step(lease->attempt, &(struct rl_lease_event){
                                        .type = RL_EVENT_EXTEND,
                                        .ttl = ttl_ms * RL_MS,
                                    });
    const struct rl_lease *core = rl_handle_core(lease);
    if (core && core->state == RL_LEASE_LOST) /* before it could begin */
        rl_owner_note(lease, RL_NEWS_NOT_EXTENDED);
}

static void begin_soon(redlock_lease *lease)
{
    lease->first.task.client->token_bits.wanted++;
    rl_task_soon(&lease->first.task);
}

void rl_handle_begin(redlock_lease *lease)
{
    lease->began = RL_NEVER;
    begin_soon(lease);
}

static void open_gate(struct rl_task *task)
{
    redlock_lease *lease = rl_handle_of(task);
    if (lease->freed)
        return;
    if (lease->extend_waits && !lease->release_waits)
        rl_handle_extend(lease, lease->extend_ttl_ms);
    if (lease->phase == RL_PHASE_WAITING)
        begin_soon(lease);
    if (lease->release_waits)
        rl_task_soon(&lease->first.task);
}

static void close_lease(struct rl_task *task)
{
    redlock_lease *lease = rl_handle_of(task);
    lease->cancelled = true;
    if (lease->release_waits && rl_gate_is_open(&task->client->gate))
        rl_handle_release(lease);
    if (lease->phase != RL_PHASE_SETTLED)
        settle(lease, REDLOCK_CANCELLED);
    tell_extended(lease, REDLOCK_CANCELLED);
    tell_released(lease, REDLOCK_CANCELLED);
    rl_attempt_close(task);
}

void rl_handle_over(struct rl_task *task)
{
    const redlock_lease *lease = rl_handle_of(task);
    enum rl_lease_state state = lease->first.lease.state;
    if (lease->freed && (state == RL_LEASE_NEW || state == RL_LEASE_OVER))
        rl_task_end(task);
}

/* The handle is the caller's: it stays, without its client, until the caller frees it. */
static void destroy(struct rl_task *task)
{
    redlock_lease *lease = rl_handle_of(task);
    task->client = NULL;
    lease->attempt = NULL;
    rl_attempt_clear(&lease->first);
    if (lease->freed)
        free(lease);
}

const struct rl_task_class rl_handle_class = {
    .tick = tick,
    .expire = rl_attempt_expire,
    .forgot = rl_attempt_forgot,
    .ready = rl_attempt_ready,
    .open = open_gate,
    .answer = rl_attempt_answer,
    .called = rl_turns_called,
    .hears = rl_turns_hear,
    .unsettled = rl_attempt_unsettled,
    .over = rl_handle_over,
    .close = close_lease,
    .destroy = destroy,
};
