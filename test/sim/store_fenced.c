/* The scripts of a fenced lock, as the model of a server runs them. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/marker.h"
#include "store_parts.h"

#define KAPPA    (5 * RL_SECOND)
#define LATENESS RL_SECOND
#define FENCE_MS INT64_C(86400000)

#define LATE   "LATE to lock anything"
#define AHEAD  "AHEAD of the clock"
#define FENCE  "FENCE is no number"
#define MARKER "MARKER is another"

static struct rl_reply an_integer(int64_t integer)
{
    return (struct rl_reply){.type = RL_REPLY_INTEGER, .integer = integer};
}

/* "code seconds microseconds stored" */
static void answer_code(const struct call *call, int64_t code)
{
    struct store_reply *ret = call->ret;
    int len = snprintf(ret->text, sizeof(ret->text), "%lld %lld %lld %lld", (long long)code,
                       (long long)(call->us / RL_SECOND), (long long)(call->us % RL_SECOND),
                       (long long)call->stored);
    ret->reply =
        (struct rl_reply){.type = RL_REPLY_STRING, .text = ret->text, .len = (size_t)len};
}

/* --- what they begin with --- */

bool store_guard(struct call *call)
{
    const struct store_entry *entry = store_live(call->store, call->fence_key);
    if (entry && entry->type == STORE_LIST) {
        ANSWER(call->ret, RL_REPLY_ERROR, WRONGTYPE);
        return false;
    }
    if (entry && entry->type != STORE_FENCE) {
        ANSWER(call->ret, RL_REPLY_ERROR, FENCE);
        return false;
    }
    call->stored = entry ? entry->fence : 0;
    call->fence = store_whole_number(call->argument[1]);
    call->ahead = call->fence > call->us + KAPPA;
    return true;
}

enum marked { MARKED, UNMARKED, NO_MARKER };

static enum marked look_at_marker(const struct call *call)
{
    const struct store_entry *entry = store_live(call->store, call->marker_key);
    if (entry && entry->type == STORE_LIST)
        return NO_MARKER;
    struct rl_word marker = entry ? entry->value : (struct rl_word){"", 0};
    marker.len = marker.len < RL_NONCE ? marker.len : RL_NONCE;
    return store_same(marker, call->argument[call->arguments - 1]) ? MARKED : UNMARKED;
}

/* False: it has answered with an error. */
static bool marked(const struct call *call)
{
    enum marked found = look_at_marker(call);
    if (found == NO_MARKER)
        ANSWER(call->ret, RL_REPLY_ERROR, WRONGTYPE);
    else if (found == UNMARKED)
        ANSWER(call->ret, RL_REPLY_ERROR, MARKER);
    return found == MARKED;
}

/* {value, pttl, now}; what is there for longer than any lock is cut. */
static void answer_held(const struct call *call)
{
    struct store_entry *entry = call->entry;
    int64_t most = store_whole_number(call->argument[2]);
    bool fenced = entry->value.len >= 2 && memcmp(entry->value.text, "f:", 2) == 0;
    if (fenced && entry->expires != STORE_NO_EXPIRY &&
        entry->expires - call->store->now > most) {
        enum marked found = look_at_marker(call);
        if (found == NO_MARKER) {
            ANSWER(call->ret, RL_REPLY_ERROR, WRONGTYPE);
            return;
        }
        if (found == MARKED)
            entry->expires = call->store->now + most;
    }
    store_answer_entry(call);
    call->ret->item[2] = an_integer(call->us);
    call->ret->reply.items = 3;
}

static void raise_fence(struct call *call, int64_t to)
{
    if (to <= call->stored)
        return;
    store_put_fence(call->store, call->fence_key, to, call->store->now + FENCE_MS);
    call->stored = to;
}

static bool is_ours(const struct call *call)
{
    return call->entry && store_same(call->entry->value, call->argument[0]);
}

static void store_token(struct call *call)
{
    store_put(call->store, STORE_STRING, call->key, call->argument[0],
              call->store->now + store_number(call->argument[3]));
}

static bool is_late(const struct call *call)
{
    return call->us - store_whole_number(call->argument[4]) > LATENESS;
}

/* --- what they do --- */

void store_fenced_acquire(struct call *call)
{
    int64_t next = call->stored + store_number(call->argument[5]);
    int64_t fence = next > call->fence ? next : call->fence;
    if (!marked(call))
        return;
    if (is_late(call)) {
        ANSWER(call->ret, RL_REPLY_ERROR, LATE);
    } else if (call->entry) {
        if (store_is_readable(call))
            answer_held(call);
    } else if (fence > call->us + KAPPA) {
        ANSWER(call->ret, RL_REPLY_ERROR, AHEAD);
    } else {
        store_token(call);
        raise_fence(call, fence);
        answer_code(call, 1);
    }
}

void store_fenced_settle(struct call *call)
{
    if (!store_is_readable(call) || !marked(call))
        return;
    if (call->ahead) {
        ANSWER(call->ret, RL_REPLY_ERROR, AHEAD);
    } else if (is_ours(call)) {
        raise_fence(call, call->fence);
        answer_code(call, 1);
    } else if (call->entry) {
        answer_held(call);
    } else {
        answer_code(call, 0);
    }
}

static void plant(struct call *call)
{
    if (*call->argument[5].text != '1') {
        answer_code(call, 0);
    } else if (is_late(call)) {
        ANSWER(call->ret, RL_REPLY_ERROR, LATE);
    } else {
        store_token(call);
        raise_fence(call, call->fence);
        answer_code(call, 2);
    }
}

void store_fenced_extend(struct call *call)
{
    if (!store_is_readable(call) || !marked(call))
        return;
    if (call->ahead) {
        ANSWER(call->ret, RL_REPLY_ERROR, AHEAD);
    } else if (is_ours(call)) {
        store_raise_expiry(call, call->argument[3]);
        raise_fence(call, call->fence);
        answer_code(call, 1);
    } else if (call->entry) {
        answer_held(call);
    } else {
        plant(call);
    }
}

void store_fenced_release(struct call *call)
{
    if (!store_is_readable(call))
        return;
    bool ours = is_ours(call);
    if (!call->ahead)
        raise_fence(call, call->fence);
    if (ours)
        call->entry->type = STORE_NOTHING;
    bool entered =
        call->arguments == 4 || store_enter(call, call->argument[3], call->argument[4]);
    bool goes_on = call->arguments > 4 && call->argument[4].len > 0;
    if (ours) {
        answer_code(call, !goes_on && store_call_first(call) ? 2 : 1);
    } else if (call->entry) {
        answer_held(call);
        if (!entered && call->ret->reply.type == RL_REPLY_ARRAY)
            store_answer_unplaced(call);
    } else {
        answer_code(call, 0);
    }
}

/* --- the marker --- */

/* {marker, now} */
void store_fenced_marker(struct call *call)
{
    struct store_reply *ret = call->ret;
    struct rl_word marker = call->entry ? call->entry->value : (struct rl_word){"", 0};
    if (call->arguments > 0 && store_same(marker, call->argument[0])) {
        marker = call->argument[1];
        if (marker.len == 0)
            store_drop(call->store, call->key);
        else
            store_put(call->store, STORE_STRING, call->key, marker, STORE_NO_EXPIRY);
    }
    ret->item[0] =
        (struct rl_reply){.type = RL_REPLY_STRING, .text = marker.text, .len = marker.len};
    ret->item[1] = an_integer(call->us);
    ret->reply = (struct rl_reply){.type = RL_REPLY_ARRAY, .item = ret->item, .items = 2};
}
