#include "user.h"

#include <string.h>

#include "client/loop.h"
#include "lease/hand_over.h"
#include "oracle.h"
#include "world.h"

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg);
static void on_extension(redlock_lease *lease, const redlock_result *result, void *arg);
static void on_released(redlock_lease *lease, const redlock_result *result, void *arg);
static void extend(struct user *user);
static void end_hold(struct user *user);

/* --- times --- */

void user_plan(struct user *user)
{
    int64_t at = CLOCK_NEVER;
    switch (user->phase) {
    case USER_IDLE: at = user->next; break;
    case USER_ACQUIRING: at = user->cancel_at; break;
    case USER_HOLDING:
        at = user->extend_at < user->end_at ? user->extend_at : user->end_at;
        break;
    case USER_RELEASING: break;
    }
    if (at == CLOCK_NEVER)
        event_cancel(&user->due);
    else
        event_at(&user->due, at);
}

#define RESTED VIRTUAL_S /* between two quarantines there are not too many events */

static void rest(struct user *user)
{
    bool storm = world.phase == PHASE_STORM;
    int64_t longest = storm ? world.plan.ttl_min : 50 * VIRTUAL_MS;
    int64_t least = storm && world.plan.recovers ? RESTED : world.plan.near;
    bool idles = storm && world.plan.idle > 0 && (world.plan.slow || draw_once_in(6));
    if (idles && longest < world.plan.idle)
        longest = world.plan.idle;
    user->phase = USER_IDLE;
    user->next =
        world.phase == PHASE_END ? CLOCK_NEVER : events_now() + draw_span(least, longest);
    user_plan(user);
}

/* --- questions --- */

struct question {
    const struct user *user;
    int64_t valid_ms;
};

/*
 * The client's clock advances at each look: a copy is put back, so that a question of the
 * oracle changes nothing.
 */
static void ask_valid(void *arg)
{
    struct question *question = arg;
    struct rl_loop *loop = (struct rl_loop *)question->user->client->handle;
    const int64_t now = loop->now, boot = loop->boot, unslewed = loop->unslewed;
    const struct rl_clock clock = loop->clock;
    const bool stale = loop->stale;
    question->valid_ms = redlock_valid_ms(question->user->lease);
    loop->clock = clock;
    loop->now = now;
    loop->boot = boot;
    loop->unslewed = unslewed;
    loop->stale = stale;
}

int64_t user_valid_ms(const struct user *user)
{
    struct question question = {.user = user};
    if (user->lease && user->client->handle)
        process_ask(&user->client->process, ask_valid, &question);
    return question.valid_ms;
}

/* --- giving up --- */

static void free_lease(struct user *user)
{
    redlock_lease *lease = user->lease;
    user->lease = NULL;
    user->is_acquiring = user->is_extending = user->is_releasing = false;
    redlock_lease_free(lease);
}

/* The lease is freed now, or when the user acts next. */
static void finish(struct user *user)
{
    if (user->frees_inside)
        free_lease(user);
    rest(user);
}

void user_end(struct user *user, bool freed)
{
    event_cancel(&user->due);
    oracle_leaves(user, false);
    bool waits = user->is_acquiring || user->is_extending || user->is_releasing;
    if (freed && waits && !user->client->handle)
        oracle_accuse(INVARIANT_CALLBACK, "client %u, user %u is not told of the end",
                      user->client->index + 1, user->index + 1);
    free_lease(user);
    user->phase = USER_IDLE;
}

/* --- acquiring --- */

/* Nothing may be told of a lease that was freed. */
static bool is_expected_from(const struct user *user, const redlock_lease *lease)
{
    if (lease == user->lease)
        return true;
    oracle_accuse(INVARIANT_CALLBACK, "client %u, user %u: of another lease",
                  user->client->index + 1, user->index + 1);
    return false;
}

static void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct user *user = arg;
    if (!is_expected_from(user, lease))
        return;
    oracle_told(user, NEWS_LOST, result);
    user->is_held = false;
    user->is_lost = true;
    if (user->phase != USER_HOLDING)
        return;
    user->end =
        draw_once_in(8) && world.plan.model == MODEL_NONE ? USER_DISOWNS : USER_RELEASES;
    if (draw_once_in(4)) { /* inside the callback */
        end_hold(user);
        return;
    }
    user->end_at = events_now();
    if (world.phase != PHASE_END && draw_once_in(3))
        user->end_at += draw_span(VIRTUAL_US, world.plan.ttl_min);
    user->extend_at = draw_once_in(4) ? events_now() + VIRTUAL_US : CLOCK_NEVER;
    if (world.plan.model != MODEL_NONE)
        user->extend_at = CLOCK_NEVER;
    user_plan(user);
}

static void on_renewed(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct user *user = arg;
    if (!is_expected_from(user, lease))
        return;
    if (user->phase != USER_HOLDING)
        oracle_accuse(INVARIANT_CALLBACK,
                      "client %u, user %u: an extension of what is over",
                      user->client->index + 1, user->index + 1);
    oracle_told(user, NEWS_RENEWED, result);
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct user *user = arg;
    bool held = result->code == REDLOCK_OK;
    if (!is_expected_from(user, lease))
        return;
    oracle_told(user, held ? NEWS_HELD : NEWS_FAILED, result);
    unsigned slot = world_slot(rl_first(user->resources));
    if (held && user->options.slots > 0 && redlock_slot(lease) != slot)
        oracle_accuse(INVARIANT_TOLD, "client %u, user %u has slot %u, and is told %u",
                      user->client->index + 1, user->index + 1, slot, redlock_slot(lease));
    user->is_acquiring = false;
    if (held)
        user_plan_hold(user);
    else
        finish(user);
}

static bool may_fail(const struct user *user, redlock_code code)
{
    return code == REDLOCK_NO_MEMORY && user->client->process.failed_allocations > 0;
}

/* The keys of a set of resources. */
static size_t keys_of(unsigned resources, redlock_key ret_key[RESOURCES_MAX])
{
    size_t count = 0;
    for (unsigned rest = resources; rest; rest &= rest - 1) {
        const char *name = world_key(rl_first(rest));
        ret_key[count++] = (redlock_key){name, strlen(name)};
    }
    return count;
}

static void acquire(struct user *user)
{
    redlock_key key[RESOURCES_MAX];
    size_t keys = keys_of(user->resources, key);
    const char *semaphore = world_queue_key(rl_first(user->resources));
    if (user->options.slots > 0) /* any slot of it */
        key[0] = (redlock_key){semaphore, strlen(semaphore)};
    struct rl_hand_over hand_over = {user->fences, user->joins_tail};
    redlock_code code;
    void *number = user->options.user = oracle_next_lease(user->client);
    oracle_wants(user);
    user->is_calling = true;
    if (user->fences > 1 || user->joins_tail)
        code = rl_hand_over_acquire(user->client->handle, key, keys, &user->options,
                                    &hand_over, on_acquired, user, &user->lease);
    else if (keys > 1)
        code = redlock_acquire_many(user->client->handle, key, keys, &user->options,
                                    on_acquired, user, &user->lease);
    else
        code = redlock_acquire(user->client->handle, key->bytes, key->len, &user->options,
                               on_acquired, user, &user->lease);
    user->is_calling = false;
    TRACE("client %u, user %u wants %s for %lld ms, waits %lld ms: %s",
          user->client->index + 1, user->index + 1, world_names(user->resources),
          (long long)user->options.ttl_ms, (long long)user->options.wait_ms,
          redlock_code_name(code));
    if (code != REDLOCK_OK && !may_fail(user, code))
        oracle_accuse(INVARIANT_TOLD, "client %u: %s", user->client->index + 1,
                      redlock_last_error()->text);
    user->is_acquiring = code == REDLOCK_OK;
    if (user->is_acquiring && redlock_lease_number(user->lease) != (uintptr_t)number)
        oracle_accuse(INVARIANT_TOLD, "client %u: a lease has another number",
                      user->client->index + 1);
    if (user->is_acquiring)
        oracle_asked(user->client, WISH_ACQUIRE);
    user->phase = user->is_acquiring ? USER_ACQUIRING : USER_IDLE;
    if (!user->is_acquiring)
        rest(user);
    user_plan(user);
}

/* The rest of the deadline, if it is the same process; UNKNOWN: the user does not know. */
static int64_t left_of(const struct gift *gift, const struct client *client)
{
    if (gift->process != client->number || draw_once_in(3))
        return REDLOCK_UNKNOWN;
    int64_t passed = client_elapsed_since(client, gift->boot, gift->raw);
    int64_t left = gift->valid_ms - passed / VIRTUAL_MS - 1;
    return left > 0 ? left : REDLOCK_UNKNOWN;
}

static void adopt(struct user *user)
{
    struct gift gift = world.gift; /* there may be another one, after the call */
    struct client *client = user->client;
    redlock_key key[RESOURCES_MAX];
    size_t keys = keys_of(gift.resources, key);
    int64_t left = left_of(&gift, client);
    world.gift.is_there = false;
    user->resources = gift.resources;
    if (world.plan.elects && draw_once_in(4)) /* `redlock extend` of a bare token */
        gift.fence = 0;
    user->options.fence = gift.fence;
    user->options.kind = gift.claim->options.kind;
    redlock_lease_options untold = user->options; /* what the token says by itself */
    untold.kind = REDLOCK_KIND_EXCLUSIVE;
    untold.fenced = false;
    untold.slots = 0;
    untold.user = oracle_next_lease(client);
    oracle_wants(user);
    /* The time until the library hears of the deadline is the caller's to subtract. */
    unsigned stall = client->process.faults.stall;
    client->process.faults.stall = 0;
    redlock_code code = redlock_adopt_many(client->handle, key, keys, gift.claim->token,
                                           left, &untold, &user->lease);
    client->process.faults.stall = stall;
    TRACE("client %u, user %u adopts %.8s with %lld ms: %s", client->index + 1,
          user->index + 1, gift.claim->token, (long long)left, redlock_code_name(code));
    if (code != REDLOCK_OK) {
        if (!may_fail(user, code))
            oracle_accuse(INVARIANT_TOLD, "client %u: %s", client->index + 1,
                          redlock_last_error()->text);
        rest(user);
        return;
    }
    oracle_asked(client, WISH_ADOPT);
    oracle_adopted(user, gift.claim, left > 0);
    if (redlock_fence(user->lease) != gift.fence)
        oracle_accuse(INVARIANT_TOLD, "client %u adopts a fence of %lld as %lld",
                      client->index + 1, (long long)gift.fence,
                      (long long)redlock_fence(user->lease));
    user_plan_hold(user);
    user->extend_at = events_now();
    if (left <= 0 && user->end == USER_LETS_EXPIRE) { /* it knows no end of that */
        user->end = USER_RELEASES;
        user->end_at = events_now() + user->options.ttl_ms * VIRTUAL_MS;
    }
    user_plan(user);
    /* The replies to its extension are read when they mean nothing any more, or when only
       the margin is left. */
    const redlock_lease_options *options = &user->options;
    int64_t late_ms = options->margin_ms > 0 ? options->ttl_ms - options->margin_ms / 2
                                             : 2 * options->ttl_ms;
    if (world.plan.weight[FAULT_PAUSE] > 0 && draw_once_in(8)) {
        extend(user);
        process_stop(&client->process, events_now() + late_ms * VIRTUAL_MS);
    }
}

static void begin(struct user *user)
{
    bool served = world.phase == PHASE_CALM && world.plan.each && !world.wanted &&
                  !(world.waiting & 1U << user->client->index);
    if (user->lease)
        free_lease(user);
    user->claim = NULL;
    user->is_held = user->is_lost = user->is_known = false;
    if (world.phase == PHASE_END || served) {
        rest(user);
        return;
    }
    user_want(user);
    user->options.on_lost = on_lost;
    user->options.on_extended = on_renewed;
    user->options.lost_arg = user->options.extended_arg = user;
    if (world.gift.is_there && draw_once_in(2))
        adopt(user);
    else
        acquire(user);
}

static void cancel(struct user *user)
{
    user->cancel_at = CLOCK_NEVER;
    TRACE("client %u, user %u cancels", user->client->index + 1, user->index + 1);
    if (draw_once_in(4)) { /* without a callback */
        oracle_leaves(user, true);
        free_lease(user);
        rest(user);
        return;
    }
    redlock_cancel(user->lease);
}

/* --- holding --- */

static void on_extension(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct user *user = arg;
    if (!is_expected_from(user, lease))
        return;
    oracle_told(user, result->code == REDLOCK_OK ? NEWS_EXTENDED : NEWS_NOT_EXTENDED,
                result);
    user->is_extending = false;
    bool disowned = user->phase == USER_RELEASING && !user->is_releasing;
    if (disowned)
        finish(user);
    if (user->phase != USER_HOLDING || result->code == REDLOCK_CANCELLED)
        return; /* cancelled: the client is freed */
    if (user->is_held && draw_once_in(8))
        extend(user);
    else if (draw_once_in(8))
        end_hold(user);
}

/* A writer of shared locks may be content to read. */
static redlock_code ask_extension(struct user *user, int64_t ttl)
{
    bool downgrades = world.plan.kind == KIND_SHARED &&
                      user->options.kind != REDLOCK_KIND_SHARED && draw_once_in(2);
    if (!downgrades)
        return redlock_extend(user->lease, ttl, on_extension, user);
    redlock_code code = redlock_downgrade(user->lease, on_extension, user);
    if (code == REDLOCK_OK) {
        user->options.kind = REDLOCK_KIND_SHARED;
        claim_downgrade(user->claim);
    }
    return code;
}

static void extend(struct user *user)
{
    int64_t ttl = draw_once_in(2) ? user_draw_ttl() : REDLOCK_AUTO;
    if (user->options.kind == REDLOCK_KIND_RECORD && world.phase == PHASE_STORM)
        ttl = user_draw_record();
    user->extend_at = CLOCK_NEVER;
    if (draw_once_in(2))
        user->extend_at = events_now() + draw_span(world.plan.near, world.plan.ttl_max);
    bool was_extending = user->is_extending, was_lost = user->is_lost;
    redlock_kind kind = user->options.kind; /* another one after a downgrade */
    bool holds =
        user->is_held && user->is_known && user_valid_ms(user) > user->options.margin_ms;
    user->is_calling = true;
    redlock_code code = ask_extension(user, ttl);
    user->is_calling = false;
    TRACE("client %u, user %u extends to %lld ms: %s", user->client->index + 1,
          user->index + 1, (long long)ttl, redlock_code_name(code));
    if (code == REDLOCK_OK) {
        user->is_extending = true;
        user->asked_ttl = user->options.kind == kind && ttl != REDLOCK_AUTO ? ttl : 0;
        user->asked_in = user->client->process.iterations;
        if (user->asked_ttl > 0) /* its round may end the lease, and never be sent */
            oracle_note_ttl(user->claim, user->asked_ttl);
        oracle_asked(user->client, WISH_EXTEND);
    }
    bool wrong = (code == REDLOCK_BUSY && !was_extending) ||
                 (code == REDLOCK_OK && (was_extending || was_lost)) ||
                 (code == REDLOCK_NOT_HELD && holds &&
                  !process_was_interrupted(&user->client->process));
    if (wrong)
        oracle_accuse(INVARIANT_TOLD, "client %u: an extension: %s",
                      user->client->index + 1, redlock_code_name(code));
    user_plan(user);
}

static void give(struct user *user)
{
    struct client *client = user->client;
    if (!user->is_held || !user->claim || world.phase != PHASE_STORM)
        return;
    /* Read first: the process may be stopped in the middle of redlock_valid_ms(). */
    const int64_t boot = client_boot(client), raw = client_raw(client);
    world.gift = (struct gift){
        .is_there = true,
        .resources = user->resources,
        .client = client->index,
        .process = client->number,
        .claim = user->claim,
        .valid_ms = user->is_known ? redlock_valid_ms(user->lease) : 0,
        .boot = boot,
        .raw = raw,
        .fence = redlock_fence(user->lease),
    };
}

static void disown(struct user *user)
{
    give(user);
    oracle_keeps(user);
    oracle_leaves(user, false);
    redlock_disown(user->lease);
    user->phase = USER_RELEASING;
    if (!user->is_extending)
        finish(user);
}

static void release(struct user *user)
{
    oracle_leaves(user, true);
    user->is_calling = true;
    redlock_code code = redlock_release(user->lease, on_released, user);
    user->is_calling = false;
    user->is_releasing = code == REDLOCK_OK;
    if (user->is_releasing)
        oracle_asked(user->client, WISH_RELEASE);
    user->phase = USER_RELEASING;
    if (user_valid_ms(user) != 0)
        oracle_accuse(INVARIANT_TOLD, "client %u holds what it releases",
                      user->client->index + 1);
    if (code != REDLOCK_OK) {
        oracle_accuse(INVARIANT_TOLD, "client %u: a release: %s", user->client->index + 1,
                      redlock_code_name(code));
        finish(user);
    }
}

static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct user *user = arg;
    if (!is_expected_from(user, lease))
        return;
    oracle_told(user, NEWS_RELEASED, result);
    user->is_releasing = false;
    if (user->is_extending)
        oracle_accuse(INVARIANT_CALLBACK,
                      "client %u, user %u: an extension is never told of",
                      user->client->index + 1, user->index + 1);
    finish(user);
}

static void end_hold(struct user *user)
{
    static const char *const ends[] = {"releases", "disowns", "frees", "lets expire"};
    TRACE("client %u, user %u %s %.8s", user->client->index + 1, user->index + 1,
          ends[user->end], redlock_token(user->lease));
    user->end_at = user->extend_at = CLOCK_NEVER;
    switch (user->end) {
    case USER_DISOWNS: disown(user); break;
    case USER_FREES:
        oracle_leaves(user, true);
        free_lease(user);
        rest(user);
        break;
    default: release(user); break;
    }
    user_plan(user);
}

/* --- being woken --- */

static void act(void *arg)
{
    struct user *user = arg;
    int64_t now = events_now();
    if (!user->client->handle)
        return;
    switch (user->phase) {
    case USER_IDLE:
        if (user->next <= now)
            begin(user);
        break;
    case USER_ACQUIRING:
        if (user->cancel_at <= now)
            cancel(user);
        break;
    case USER_HOLDING:
        if (user->end_at <= now)
            end_hold(user);
        else if (user->extend_at <= now)
            extend(user);
        break;
    case USER_RELEASING: break;
    }
    user_plan(user);
}

static void on_due(void *arg)
{
    struct user *user = arg;
    process_make_ready(&user->client->process, &user->ready);
}

void user_stop(struct user *user)
{
    user->cancel_at = user->end_at = events_now();
    if (user->end == USER_LETS_EXPIRE)
        user->end = USER_RELEASES;
    if (user->phase == USER_IDLE)
        user->next = CLOCK_NEVER;
    user_plan(user);
}

void user_begin(struct user *user, struct client *client, unsigned index)
{
    *user = (struct user){.client = client, .index = index};
    user->due = (struct event){.happen = on_due, .arg = user};
    user->ready = (struct ready){.run = act, .arg = user};
    user->called_due = user->extend_at = user->end_at = user->cancel_at = CLOCK_NEVER;
    rest(user);
}
