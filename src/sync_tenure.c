/* A lease on the nodes, and how it goes from thread to thread. */
#include <stdio.h>
#include <stdlib.h>

#include "sync_parts.h"

/* --- beginning and ending --- */

static void carry_out(redlock_sync *sync, struct rl_order *order)
{
    (void)sync;
    rl_tenure_free((struct rl_tenure *)order);
}

void rl_tenure_init(struct rl_tenure *tenure, redlock_sync *sync,
                    const redlock_lock_options *terms)
{
    *tenure = (struct rl_tenure){
        .order.carry_out = carry_out,
        .sync = sync,
        .terms = *terms,
        .handoffs = terms->max_hold_ms > 0 ? 0 : terms->handoffs,
    };
}

void rl_tenure_detach(struct rl_tenure *tenure)
{
    if (tenure->key)
        tenure->key->tenure = NULL;
    tenure->key = NULL;
}

void rl_tenure_leave(struct rl_tenure *tenure)
{
    if (tenure->owner)
        tenure->owner->tenure = NULL;
    tenure->owner = NULL;
    tenure->state = RL_TENURE_LEFT;
    rl_give_order(tenure->sync, &tenure->order);
}

/* What became of the lock goes before what became of the extension. */
static void end_extension(struct rl_tenure *tenure, redlock_code code)
{
    struct rl_extension *extension = tenure->extension;
    tenure->extension = NULL;
    if (extension)
        rl_wait_done(&extension->wait,
                     extension->hold->code == REDLOCK_OK ? code : extension->hold->code);
}

static void confirm(struct rl_tenure *tenure, redlock_code code)
{
    struct rl_wait *confirmation = tenure->confirmation;
    tenure->confirmation = NULL;
    if (confirmation)
        rl_wait_done(confirmation, code == REDLOCK_CANCELLED ? REDLOCK_UNCONFIRMED : code);
}

/* Also from inside its own callbacks. */
static void end_lease(struct rl_tenure *tenure)
{
    rl_tenure_detach(tenure);
    LIST_REMOVE(tenure, all);
    if (tenure->abandoned)
        redlock_disown(tenure->lease);
    redlock_lease_free(tenure->lease);
    end_extension(tenure, REDLOCK_NOT_HELD);
    confirm(tenure, REDLOCK_UNCONFIRMED);
}

void rl_tenure_free(struct rl_tenure *tenure)
{
    end_lease(tenure);
    free(tenure);
}

void rl_tenure_note_validity(struct rl_tenure *tenure)
{
    struct rl_clocks now = rl_clocks_begin(); /* before the library looks at its clock */
    tenure->until = rl_until_after(now, redlock_valid_ms(tenure->lease));
    if (tenure->owner)
        rl_hold_show(tenure->owner, tenure->until);
}

/* --- passing it on --- */

static void give(struct rl_tenure *tenure, struct rl_waiter *waiter)
{
    tenure->state = RL_TENURE_HELD;
    rl_hold_take(waiter->hold, tenure);
    rl_key_answer(waiter, REDLOCK_OK);
    confirm(tenure, REDLOCK_OK);
}

/* The first who waits, if it wants what this lease is. */
static struct rl_waiter *find_heir(const struct rl_tenure *tenure)
{
    struct rl_waiter *waiter = TAILQ_FIRST(&tenure->key->waiters);
    const redlock_lock_options *a = &tenure->terms, *b = waiter ? waiter->options : NULL;
    bool agree = b && a->fenced == b->fenced && a->ttl_ms == b->ttl_ms &&
                 a->margin_ms == b->margin_ms && a->watchdog == b->watchdog &&
                 a->max_hold_ms == 0 && b->max_hold_ms == 0;
    return agree ? waiter : NULL;
}

static bool is_long_enough(const struct rl_tenure *tenure, const struct rl_waiter *heir)
{
    int64_t left = rl_until_left_ms(tenure->until);
    return left > 0 && left >= tenure->terms.ttl_ms / 3 && left > tenure->terms.margin_ms &&
           left >= heir->options->min_validity_ms;
}

static void hand_on(struct rl_tenure *tenure, struct rl_waiter *heir)
{
    tenure->handed++;
    give(tenure, heir);
}

static void begin_release(struct rl_tenure *tenure)
{
    tenure->state = RL_TENURE_RELEASING;
    tenure->begun = false;
}

void rl_tenure_pass(struct rl_tenure *tenure)
{
    struct rl_waiter *heir = find_heir(tenure);
    bool may = heir && tenure->handed < tenure->handoffs && !tenure->extension;
    if (may && is_long_enough(tenure, heir)) {
        hand_on(tenure, heir);
        return;
    }
    begin_release(tenure);
    if (may && rl_until_left_ms(tenure->until) > 0)
        tenure->state = RL_TENURE_PASSING;
    rl_give_order(tenure->sync, &tenure->key->order);
}

/* --- what the driver is told of a lease --- */

static void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct rl_tenure *tenure = arg;
    redlock_sync *sync = tenure->sync;
    (void)lease;
    rl_sync_lock(sync);
    struct rl_key *key = tenure->key;
    redlock_hold *owner = tenure->owner;
    rl_tenure_note_validity(tenure);
    if (tenure->state == RL_TENURE_HELD) {
        tenure->state = RL_TENURE_LOST;
        rl_tenure_detach(tenure);
        rl_hold_lose(owner, result->code);
        rl_hold_tell(owner, result->code);
        rl_key_serve(sync, key);
    } else if (tenure->state == RL_TENURE_PASSING) {
        rl_tenure_free(tenure);
        rl_key_serve(sync, key);
    } else if (tenure->state == RL_TENURE_ACQUIRING) {
        tenure->until = (struct rl_until){0}; /* it is told of that right after this */
        tenure->state = RL_TENURE_LOST;
    }
    rl_sync_unlock(sync);
}

static void on_renewed(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct rl_tenure *tenure = arg;
    (void)lease;
    (void)result;
    rl_sync_lock(tenure->sync);
    rl_tenure_note_validity(tenure);
    rl_sync_unlock(tenure->sync);
}

static void on_extended(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct rl_tenure *tenure = arg;
    redlock_sync *sync = tenure->sync;
    (void)lease;
    rl_sync_lock(sync);
    rl_tenure_note_validity(tenure);
    end_extension(tenure, result->code);
    if (tenure->state == RL_TENURE_PASSING) {
        struct rl_waiter *heir = find_heir(tenure);
        if (heir && is_long_enough(tenure, heir))
            hand_on(tenure, heir);
        else
            begin_release(tenure);
        rl_key_serve(sync, tenure->key);
    }
    rl_sync_unlock(sync);
}

static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct rl_tenure *tenure = arg;
    struct rl_key *key = tenure->key;
    redlock_sync *sync = tenure->sync;
    (void)lease;
    rl_sync_lock(sync);
    key->behind_until = result->awaited ? rl_now_ms() + RL_BEHIND : 0;
    confirm(tenure, result->code);
    rl_tenure_free(tenure);
    rl_key_serve(sync, key);
    rl_sync_unlock(sync);
}

/* --- extending --- */

static void begin_extension(redlock_sync *sync, struct rl_order *order)
{
    struct rl_extension *extension = (struct rl_extension *)order;
    struct rl_tenure *tenure = extension->tenure;
    redlock_code code;
    (void)sync;
    if (extension->wait.done)
        return;
    if (extension->hold->code != REDLOCK_OK) {
        end_extension(tenure, REDLOCK_NOT_HELD);
        return;
    }
    code = redlock_extend(tenure->lease, extension->ttl_ms, on_extended, tenure);
    if (code == REDLOCK_OK && extension->ttl_ms > 0)
        tenure->terms.ttl_ms = extension->ttl_ms;
    rl_tenure_note_validity(tenure); /* a shorter TTL counts at once */
    if (code != REDLOCK_OK)          /* it was lost, and that is about to be told */
        end_extension(tenure, code == REDLOCK_NOT_HELD ? REDLOCK_EXPIRED : code);
}

void rl_tenure_extend(struct rl_tenure *tenure, struct rl_extension *extension)
{
    extension->order = (struct rl_order){.carry_out = begin_extension};
    extension->tenure = tenure;
    tenure->extension = extension;
    rl_give_order(tenure->sync, &extension->order);
}

/* --- acquiring --- */

/* It was lost as soon as it was acquired: who waits for as long as it takes goes on. */
static bool tries_again(struct rl_tenure *tenure, struct rl_waiter *waiter,
                        redlock_code code)
{
    if (code != REDLOCK_EXPIRED || waiter->tries || waiter->deadline != RL_FOREVER ||
        tenure->sync->closing)
        return false;
    end_lease(tenure);
    rl_tenure_init(tenure, tenure->sync, waiter->options);
    waiter->tenure = tenure;
    return true;
}

static void fail(struct rl_tenure *tenure, struct rl_waiter *waiter, redlock_code code)
{
    if (waiter && tries_again(tenure, waiter, code))
        return;
    if (waiter && code == REDLOCK_TAKEN && !waiter->tries)
        code = REDLOCK_TIMEOUT; /* there was no time left for more than one attempt */
    if (waiter)
        rl_key_answer(waiter, code);
    rl_tenure_free(tenure);
}

/* Whoever it was acquired for may have gone. */
static void welcome(struct rl_tenure *tenure, struct rl_waiter *waiter)
{
    struct rl_waiter *heir = find_heir(tenure);
    tenure->fence = redlock_fence(tenure->lease);
    snprintf(tenure->token, sizeof(tenure->token), "%s", redlock_token(tenure->lease));
    if (waiter)
        give(tenure, waiter);
    else if (heir && is_long_enough(tenure, heir))
        give(tenure, heir);
    else
        begin_release(tenure);
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct rl_tenure *tenure = arg;
    redlock_sync *sync = tenure->sync;
    struct rl_key *key = tenure->key;
    redlock_code code = result->code;
    (void)lease;
    rl_sync_lock(sync);
    struct rl_waiter *waiter = tenure->waiter; /* it may have been stopped just now */
    rl_tenure_note_validity(tenure);
    if (code == REDLOCK_OK &&
        (tenure->state == RL_TENURE_LOST || rl_until_left_ms(tenure->until) == 0))
        code = REDLOCK_EXPIRED;
    tenure->waiter = NULL;
    if (code != REDLOCK_OK)
        fail(tenure, waiter, code);
    else
        welcome(tenure, waiter);
    rl_key_serve(sync, key);
    rl_sync_unlock(sync);
}

static redlock_lease_options lease_options(const struct rl_key *key,
                                           const struct rl_waiter *waiter,
                                           struct rl_tenure *tenure)
{
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.fenced = tenure->terms.fenced;
    options.fences = tenure->terms.fenced ? tenure->handoffs + 1 : 0;
    options.ttl_ms = tenure->terms.ttl_ms;
    options.wait_ms = waiter->tries ? 0 : rl_left_ms(waiter->deadline);
    options.min_validity_ms = tenure->terms.min_validity_ms;
    options.margin_ms = tenure->terms.margin_ms;
    options.watchdog = tenure->terms.watchdog;
    options.max_hold_ms = tenure->terms.max_hold_ms;
    options.behind = key->behind_until > rl_now_ms();
    options.on_lost = on_lost;
    options.on_extended = on_renewed;
    options.lost_arg = options.extended_arg = tenure;
    return options;
}

void rl_tenure_acquire(struct rl_key *key, struct rl_waiter *waiter)
{
    struct rl_tenure *tenure = waiter->tenure;
    redlock_lease_options options = lease_options(key, waiter, tenure);
    redlock_code code = redlock_acquire(tenure->sync->client, key->text, key->len, &options,
                                        on_acquired, tenure, &tenure->lease);
    if (code != REDLOCK_OK) {
        rl_key_answer(waiter, code);
        return;
    }
    tenure->state = RL_TENURE_ACQUIRING;
    tenure->key = key;
    tenure->waiter = waiter;
    key->tenure = tenure;
    waiter->tenure = NULL;
    LIST_INSERT_HEAD(&tenure->sync->tenures, tenure, all);
}

/* --- doing what the state wants --- */

static bool starts(struct rl_tenure *tenure)
{
    switch (tenure->state) {
    case RL_TENURE_ACQUIRING: redlock_cancel(tenure->lease); return true;
    case RL_TENURE_PASSING:
        return redlock_extend(tenure->lease, 0, on_extended, tenure) == REDLOCK_OK;
    case RL_TENURE_RELEASING:
        return redlock_release(tenure->lease, on_released, tenure) == REDLOCK_OK;
    default: return true;
    }
}

void rl_tenure_serve(struct rl_tenure *tenure)
{
    redlock_sync *sync = tenure->sync;
    struct rl_key *key = tenure->key;
    bool is_awaited = tenure->state == RL_TENURE_ACQUIRING && tenure->waiter;
    if (tenure->begun || is_awaited || tenure->state == RL_TENURE_HELD)
        return;
    tenure->begun = true;
    if (starts(tenure))
        return;
    if (tenure->state == RL_TENURE_PASSING) {
        begin_release(tenure);
        rl_tenure_serve(tenure);
    } else {
        rl_tenure_free(tenure);
        rl_key_serve(sync, key);
    }
}
