#include "process_lease.h"

#include <stdio.h>
#include <stdlib.h>

#include "failure.h"
#include "lease/hand_over.h"

_Static_assert(REDLOCK_HANDOFFS_MAX < RL_FENCES_MAX, "each owner has its own fence");

/* A thread that waits for its lock to be extended. */
struct rl_extension {
    struct rl_call call;
    struct rl_process_lease *lease;
    redlock_hold *hold;
    int64_t ttl_ms;
    bool downgrades;
};

/* A thread that waits until the release is written. */
struct rl_unlock {
    struct rl_write write;          /* must be first */
    struct rl_process_lease *lease; /* NULL: it has ended */
};

static void advance_key(struct rl_key *key);

static struct rl_loop_owner *loop_of(const struct rl_process_lease *lease)
{
    return lease->leases->keys.loop;
}

/* --- beginning and ending --- */

static void detach(struct rl_process_lease *lease)
{
    if (lease->key)
        rl_key_detach(lease->key);
    lease->key = NULL;
}

static void set_owner(struct rl_process_lease *lease, redlock_hold *owner)
{
    int64_t fence = lease->fence > 0 ? lease->fence + lease->handoffs : 0;
    if (lease->owner)
        rl_hold_detach(lease->owner);
    lease->owner = owner;
    if (!owner)
        return;
    rl_hold_set_deadline(owner, lease->until);
    rl_hold_attach(owner, lease, lease->number, fence, lease->slot, lease->token);
}

/* The loop owner frees it. */
static void retire(struct rl_process_lease *lease)
{
    set_owner(lease, NULL);
    lease->state = RL_PROCESS_LEASE_RETIRED;
    rl_job_post(loop_of(lease), &lease->job);
}

static void finish(const struct rl_process_lease *lease, struct rl_wait *wait,
                   struct rl_end end)
{
    wait->reason = end.reason;
    rl_loop_owner_finish_wait(loop_of(lease), wait, end.code);
}

/* Keeps what the nodes said, for the thread that waits. */
static void note_failure(struct rl_wait *wait, const redlock_lease *handle,
                         const redlock_result *result)
{
    if (result->code == REDLOCK_OK)
        return;
    rl_failure_by_nodes(NULL, NULL, result->code, result->reason, handle,
                        result->remaining_ms);
    wait->error = *redlock_last_error();
}

/* If the hold lost the lock meanwhile, that code takes precedence over `code`. */
static void end_extension(struct rl_process_lease *lease, redlock_code code,
                          redlock_reason reason)
{
    struct rl_extension *extension = lease->extension;
    lease->extension = NULL;
    if (!extension)
        return;
    struct rl_end end = extension->hold->end;
    if (end.code == REDLOCK_OK)
        end = (struct rl_end){code, reason};
    finish(lease, &extension->call.wait, end);
}

static void confirm(struct rl_process_lease *lease, redlock_code code,
                    redlock_reason reason)
{
    struct rl_wait *confirmation = lease->confirmation;
    lease->confirmation = NULL;
    if (confirmation)
        finish(lease, confirmation,
               (struct rl_end){code == REDLOCK_CANCELLED ? REDLOCK_UNCONFIRMED : code,
                               reason});
}

/* Spans and events are those of the last one. Only the loop owner may use the handle. */
static void report_owners(struct rl_process_lease *lease)
{
    while (lease->next_owner) {
        struct rl_process_lease *next_owner = lease->next_owner;
        lease->next_owner = next_owner->next_owner;
        rl_hand_over_to(lease->handle, next_owner->options.user);
        free(next_owner);
    }
}

static void run_report_owners(struct rl_loop_owner *loop, struct rl_job *job)
{
    (void)loop;
    report_owners(
        (struct rl_process_lease *)((char *)job -
                                    offsetof(struct rl_process_lease, report_owners)));
}

/* May be called from inside its own callbacks. */
static void end_lease(struct rl_process_lease *lease)
{
    report_owners(lease);
    rl_job_cancel(&lease->report_owners);
    detach(lease);
    LIST_REMOVE(lease, link);
    if (lease->abandoned)
        redlock_disown(lease->handle);
    redlock_lease_free(lease->handle);
    end_extension(lease, REDLOCK_NOT_HELD, REDLOCK_REASON_RELEASED);
    confirm(lease, REDLOCK_UNCONFIRMED, REDLOCK_REASON_CLIENT_FREED);
    if (lease->unlock) {
        lease->unlock->lease = NULL;
        rl_loop_owner_check_writes(loop_of(lease));
    }
}

static void free_lease(struct rl_process_lease *lease)
{
    end_lease(lease);
    free(lease);
}

static void run_job(struct rl_loop_owner *loop, struct rl_job *job)
{
    (void)loop;
    free_lease((struct rl_process_lease *)job);
}

void rl_process_leases_init(struct rl_process_leases *leases, struct rl_loop_owner *loop,
                            redlock_client *client, bool traced)
{
    rl_keys_init(&leases->keys, loop, advance_key);
    leases->client = client;
    leases->traced = traced;
}

static bool may_be_handed_over(const redlock_lock_options *options)
{
    return options->kind != REDLOCK_KIND_SHARED && options->kind != REDLOCK_KIND_SLOT &&
           options->kind != REDLOCK_KIND_ELECTION;
}

void rl_process_lease_init(struct rl_process_lease *lease, struct rl_process_leases *leases,
                           const redlock_lock_options *options)
{
    *lease = (struct rl_process_lease){
        .job.run = run_job,
        .report_owners.run = run_report_owners,
        .leases = leases,
        .options = *options,
        .handoffs_max = options->max_hold_ms > 0 || !may_be_handed_over(options)
                            ? 0
                            : options->handoffs,
    };
}

/* Reads from the lease how long it is held. */
static void note_validity(struct rl_process_lease *lease)
{
    struct rl_clocks now = rl_clocks_begin(); /* before redlock_valid_ms() reads a clock */
    lease->until = rl_until_after(now, redlock_valid_ms(lease->handle));
    if (lease->owner)
        rl_hold_set_deadline(lease->owner, lease->until);
}

/* --- handing it off --- */

/* Another waiter gets the lock than the one that it was acquired for. */
static void note_owner(struct rl_process_lease *lease, struct rl_key_waiter *waiter)
{
    struct rl_process_lease **last = &lease->next_owner;
    void *user = waiter->options->user;
    if (!lease->leases->traced && user == lease->options.user)
        return;
    lease->options.user = user;
    while (*last)
        last = &(*last)->next_owner;
    *last = waiter->lease;
    waiter->lease = NULL;
    rl_job_post(loop_of(lease), &lease->report_owners);
}

static void give(struct rl_process_lease *lease, struct rl_key_waiter *waiter)
{
    lease->state = RL_PROCESS_LEASE_HELD;
    lease->abandoned = false;
    set_owner(lease, waiter->hold);
    rl_key_answer(waiter, REDLOCK_OK);
    confirm(lease, REDLOCK_OK, REDLOCK_REASON_NONE);
}

/* The first waiter, if its options agree with those of this lease; otherwise NULL. */
static struct rl_key_waiter *find_next_waiter(const struct rl_process_lease *lease)
{
    struct rl_key_waiter *waiter = TAILQ_FIRST(&lease->key->waiters);
    const redlock_lock_options *a = &lease->options, *b = waiter ? waiter->options : NULL;
    bool agree = b && !waiter->token && a->fenced == b->fenced && a->kind == b->kind &&
                 a->ttl_ms == b->ttl_ms && a->margin_ms == b->margin_ms &&
                 a->watchdog == b->watchdog && a->max_hold_ms == 0 && b->max_hold_ms == 0;
    return agree ? waiter : NULL;
}

bool rl_process_lease_has_left(const struct rl_process_lease *lease,
                               int64_t min_validity_ms)
{
    int64_t left = rl_until_left_ms(lease->until);
    return left > 0 && left >= lease->options.ttl_ms / 3 &&
           left > lease->options.margin_ms && left >= min_validity_ms;
}

static bool is_long_enough(const struct rl_process_lease *lease,
                           const struct rl_key_waiter *next_waiter)
{
    return rl_process_lease_has_left(lease, next_waiter->options->min_validity_ms);
}

static void hand_on(struct rl_process_lease *lease, struct rl_key_waiter *next_waiter)
{
    lease->handoffs++;
    note_owner(lease, next_waiter);
    give(lease, next_waiter);
}

static void begin_release(struct rl_process_lease *lease)
{
    lease->state = RL_PROCESS_LEASE_RELEASING;
    lease->operation_begun = false;
}

static void hand_off(struct rl_process_lease *lease)
{
    struct rl_key_waiter *next_waiter = find_next_waiter(lease);
    bool may = next_waiter && lease->handoffs < lease->handoffs_max && !lease->extension;
    if (may && is_long_enough(lease, next_waiter)) {
        hand_on(lease, next_waiter);
        return;
    }
    begin_release(lease);
    if (may && rl_until_left_ms(lease->until) > 0)
        lease->state = RL_PROCESS_LEASE_HANDING_OFF;
    rl_key_schedule(lease->key);
}

static bool is_queued(const struct rl_write *write)
{
    const struct rl_process_lease *lease = ((const struct rl_unlock *)write)->lease;
    return lease && rl_hand_over_is_queued(lease->handle);
}

/* A release that had to be queued has ended when this returns, so it was written. */
static void await_written(struct rl_process_lease *lease)
{
    struct rl_unlock unlock = {.write.is_queued = is_queued, .lease = lease};
    lease->unlock = &unlock;
    rl_loop_owner_flush(loop_of(lease), &unlock.write);
    if (unlock.lease)
        unlock.lease->unlock = NULL;
}

/* The release is written to the sockets, or confirmed, before this returns. */
redlock_code rl_process_lease_give_up(struct rl_process_lease *lease, bool confirm)
{
    struct rl_loop_owner *loop = loop_of(lease);
    unsigned handoffs_max = lease->owner->options.handoffs;
    struct rl_end end = {REDLOCK_OK, REDLOCK_REASON_NONE};
    struct rl_wait wait;
    if (rl_until_left_ms(lease->until) == 0)
        end = (struct rl_end){REDLOCK_EXPIRED, REDLOCK_REASON_DEADLINE};
    if (lease->state == RL_PROCESS_LEASE_LOST) {
        end = lease->owner->end;
        retire(lease);
        rl_loop_owner_flush(loop, &(struct rl_write){0});
        return rl_fail_by_reason(end.code, end.reason);
    }
    set_owner(lease, NULL);
    if (lease->handoffs_max > handoffs_max)
        lease->handoffs_max = handoffs_max;
    hand_off(lease);
    if (end.code == REDLOCK_OK && confirm && !rl_process_lease_is_held(lease)) {
        rl_loop_owner_begin_wait(loop, &wait);
        lease->confirmation = &wait;
        return rl_loop_owner_await(loop, &wait);
    }
    if (lease->state == RL_PROCESS_LEASE_RELEASING)
        await_written(lease);
    return rl_fail_by_reason(end.code, end.reason);
}

void rl_process_lease_abandon(struct rl_process_lease *lease)
{
    if (lease->key)
        rl_key_schedule(lease->key);
    lease->abandoned = true;
    detach(lease);
    retire(lease);
}

/*
 * Takes one lock from its owner. It stays on the nodes until its TTL ends, unless the owner
 * set `release_on_free`.
 */
static void take_from_owner(struct rl_process_lease *lease)
{
    redlock_hold *owner = lease->owner;
    bool held = rl_process_lease_is_held(lease);
    if (held)
        rl_hold_lose(owner, (struct rl_end){REDLOCK_CLOSED, REDLOCK_REASON_CLIENT_FREED});
    lease->abandoned = !owner->options.release_on_free;
    if (!lease->abandoned)
        rl_hold_set_deadline(owner, (struct rl_until){0});
    detach(lease);
    retire(lease);
    if (held)
        rl_hold_report_lost(
            owner, (struct rl_end){REDLOCK_CANCELLED, REDLOCK_REASON_CLIENT_FREED});
}

void rl_process_leases_take_all(struct rl_process_leases *leases)
{
    struct rl_process_lease *lease;
    LIST_FOREACH (lease, &leases->all, link)
        if (lease->owner)
            take_from_owner(lease);
}

/* --- callbacks of the lease, in the loop owner --- */

static void on_lost(redlock_lease *handle, const redlock_result *result, void *arg)
{
    struct rl_process_lease *lease = arg;
    struct rl_loop_owner *loop = loop_of(lease);
    rl_loop_owner_lock(loop);
    struct rl_key *key = lease->key;
    redlock_hold *owner = lease->owner;
    note_validity(lease);
    if (lease->state == RL_PROCESS_LEASE_HELD) {
        lease->state = RL_PROCESS_LEASE_LOST;
        detach(lease);
        rl_hold_keep_nodes(owner, handle);
        rl_hold_lose(owner, (struct rl_end){result->code, result->reason});
        rl_hold_report_lost(owner, owner->end);
        advance_key(key);
    } else if (lease->state == RL_PROCESS_LEASE_HANDING_OFF) {
        free_lease(lease);
        advance_key(key);
    } else if (lease->state == RL_PROCESS_LEASE_ACQUIRING) {
        lease->until = (struct rl_until){0}; /* on_acquired() follows, and reports it */
        lease->state = RL_PROCESS_LEASE_LOST;
    }
    rl_loop_owner_unlock(loop);
}

static void on_renewed(redlock_lease *handle, const redlock_result *result, void *arg)
{
    struct rl_process_lease *lease = arg;
    (void)handle;
    (void)result;
    rl_loop_owner_lock(loop_of(lease));
    note_validity(lease);
    rl_loop_owner_unlock(loop_of(lease));
}

static void on_extended(redlock_lease *handle, const redlock_result *result, void *arg)
{
    struct rl_process_lease *lease = arg;
    struct rl_loop_owner *loop = loop_of(lease);
    rl_loop_owner_lock(loop);
    note_validity(lease);
    if (lease->extension)
        note_failure(&lease->extension->call.wait, handle, result);
    end_extension(lease, result->code, result->reason);
    if (lease->state == RL_PROCESS_LEASE_HANDING_OFF) {
        struct rl_key_waiter *next_waiter = find_next_waiter(lease);
        if (next_waiter && is_long_enough(lease, next_waiter))
            hand_on(lease, next_waiter);
        else
            begin_release(lease);
        advance_key(lease->key);
    }
    rl_loop_owner_unlock(loop);
}

static void process_lease_on_released(redlock_lease *handle, const redlock_result *result,
                                      void *arg)
{
    struct rl_process_lease *lease = arg;
    struct rl_key *key = lease->key;
    struct rl_loop_owner *loop = loop_of(lease);
    rl_loop_owner_lock(loop);
    rl_key_note_release(key, rl_hand_over_is_awaited(handle));
    if (lease->confirmation)
        note_failure(lease->confirmation, handle, result);
    confirm(lease, result->code, result->reason);
    free_lease(lease);
    advance_key(key);
    rl_loop_owner_unlock(loop);
}

/* --- extending --- */

/* A reader has a key of its own; the next waiter of the former one wants to write. */
static redlock_code begin_downgrade(struct rl_process_lease *lease)
{
    struct rl_key *former = lease->key;
    struct rl_key *own = rl_key_get(&lease->leases->keys, former->of, former->count, true);
    if (!own)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    redlock_code code = redlock_downgrade(lease->handle, on_extended, lease);
    if (code != REDLOCK_OK) {
        rl_key_retire(own);
        return code;
    }
    rl_key_detach(former);
    rl_key_schedule(former);
    lease->key = own;
    rl_key_attach(own, lease, NULL);
    lease->options.kind = REDLOCK_KIND_SHARED;
    lease->handoffs_max = 0;
    snprintf(lease->token, sizeof(lease->token), "%s", redlock_token(lease->handle));
    rl_hold_attach(lease->owner, lease, lease->number, lease->owner->fence, 0,
                   lease->token);
    return REDLOCK_OK;
}

static void begin_extension(struct rl_loop_owner *loop, struct rl_job *job)
{
    struct rl_extension *extension = (struct rl_extension *)job;
    struct rl_process_lease *lease = extension->lease;
    redlock_code code;
    (void)loop;
    if (extension->call.wait.done)
        return;
    if (extension->hold->end.code != REDLOCK_OK) {
        end_extension(lease, REDLOCK_NOT_HELD, REDLOCK_REASON_RELEASED);
        return;
    }
    code = extension->downgrades
               ? begin_downgrade(lease)
               : redlock_extend(lease->handle, extension->ttl_ms, on_extended, lease);
    if (code == REDLOCK_OK && extension->ttl_ms > 0)
        lease->options.ttl_ms = extension->ttl_ms;
    note_validity(lease); /* a shorter TTL counts at once */
    if (code == REDLOCK_OK)
        return;
    extension->call.wait.error = *redlock_last_error();
    /* NOT_HELD: it was lost, and on_lost() is about to report it. */
    end_extension(lease, code == REDLOCK_NOT_HELD ? REDLOCK_EXPIRED : code,
                  redlock_last_error()->reason);
}

static redlock_code process_lease_extend(struct rl_process_lease *lease,
                                         struct rl_extension extension)
{
    extension.call.job.run = begin_extension;
    extension.lease = lease;
    extension.hold = lease->owner;
    if (lease->extension)
        return rl_fail(REDLOCK_BUSY, REDLOCK_REASON_RUNNING,
                       "another thread is extending this lock");
    lease->extension = &extension;
    return rl_loop_owner_call(loop_of(lease), &extension.call);
}

redlock_code rl_process_lease_extend(struct rl_process_lease *lease, int64_t ttl_ms)
{
    return process_lease_extend(lease, (struct rl_extension){.ttl_ms = ttl_ms});
}

redlock_code rl_process_lease_downgrade(struct rl_process_lease *lease)
{
    return process_lease_extend(lease, (struct rl_extension){.downgrades = true});
}

/* --- acquiring --- */

/* It was lost as soon as it was acquired: a waiter without a deadline tries again. */
static bool try_again(struct rl_process_lease *lease, struct rl_key_waiter *waiter,
                      redlock_code code)
{
    if (code != REDLOCK_EXPIRED || waiter->one_attempt || waiter->deadline != RL_FOREVER ||
        loop_of(lease)->closing)
        return false;
    end_lease(lease);
    rl_process_lease_init(lease, lease->leases, waiter->options);
    waiter->lease = lease;
    return true;
}

static void process_lease_fail(struct rl_process_lease *lease, struct rl_key_waiter *waiter,
                               redlock_code code, redlock_reason reason,
                               int64_t remaining_ms)
{
    if (waiter && try_again(lease, waiter, code))
        return;
    if (waiter && code == REDLOCK_EXPIRED && !waiter->one_attempt &&
        waiter->deadline == RL_FOREVER) { /* it would try again, but for the end */
        code = REDLOCK_CANCELLED;
        reason = REDLOCK_REASON_CLIENT_FREED;
    }
    if (waiter && code == REDLOCK_TAKEN && !waiter->one_attempt)
        code = REDLOCK_TIMEOUT; /* the wait time was too short for a second attempt */
    if (waiter) {
        rl_failure_by_nodes(waiter->options->failure, waiter->hold, code, reason,
                            lease->handle, remaining_ms);
        waiter->wait.error = *redlock_last_error();
        rl_key_answer(waiter, code);
    }
    free_lease(lease);
}

/* `waiter`: it was acquired for this one; NULL: that waiter has ended. */
static void on_success(struct rl_process_lease *lease, struct rl_key_waiter *waiter)
{
    struct rl_key_waiter *next_waiter = find_next_waiter(lease);
    lease->fence = redlock_fence(lease->handle);
    lease->number = redlock_lease_number(lease->handle);
    lease->slot = redlock_slot(lease->handle);
    snprintf(lease->token, sizeof(lease->token), "%s", redlock_token(lease->handle));
    if (waiter)
        give(lease, waiter);
    else if (lease->abandoned)
        free_lease(lease); /* adopted for a waiter that has ended: it is not ours */
    else if (next_waiter && is_long_enough(lease, next_waiter)) {
        note_owner(lease, next_waiter);
        give(lease, next_waiter);
    } else
        begin_release(lease);
}

static void on_acquired(redlock_lease *handle, const redlock_result *result, void *arg)
{
    struct rl_process_lease *lease = arg;
    struct rl_loop_owner *loop = loop_of(lease);
    struct rl_key *key = lease->key;
    redlock_code code = result->code;
    redlock_reason reason = result->reason;
    (void)handle;
    rl_loop_owner_lock(loop);
    struct rl_key_waiter *waiter = rl_key_end_serving(key); /* NULL: it was stopped */
    note_validity(lease);
    bool is_late = lease->state == RL_PROCESS_LEASE_LOST ||
                   rl_until_left_ms(lease->until) == 0 ||
                   (waiter && waiter->timed && rl_until_left_ms(waiter->valid) == 0);
    if (code == REDLOCK_OK && is_late) {
        code = REDLOCK_EXPIRED;
        reason = REDLOCK_REASON_LATE;
    }
    if (code != REDLOCK_OK)
        process_lease_fail(lease, waiter, code, reason, result->remaining_ms);
    else
        on_success(lease, waiter);
    advance_key(key);
    rl_loop_owner_unlock(loop);
}

redlock_lease_options rl_process_lease_options(const redlock_lock_options *options)
{
    redlock_lease_options lease;
    redlock_lease_options_init(&lease);
    lease.fenced = options->fenced;
    lease.kind = options->kind;
    lease.slots = options->slots;
    lease.fence = options->fence;
    lease.ttl_ms = options->ttl_ms;
    lease.min_validity_ms = options->min_validity_ms;
    lease.margin_ms = options->margin_ms;
    lease.watchdog = options->watchdog;
    lease.max_hold_ms = options->max_hold_ms;
    lease.user = options->user;
    return lease;
}

/*
 * The lock belongs to another holder of the token until it is extended. The first extension
 * must not recreate keys, for nothing would release them if it failed: so the validity is
 * unknown to the lease, and on_acquired() compares it.
 */
static redlock_code begin_adoption(const struct rl_key *key,
                                   const struct rl_key_waiter *waiter,
                                   const redlock_lease_options *options)
{
    struct rl_process_lease *lease = waiter->lease;
    redlock_code code =
        redlock_adopt_many(lease->leases->client, key->of, key->count, waiter->token,
                           REDLOCK_UNKNOWN, options, &lease->handle);
    if (code != REDLOCK_OK)
        return code;
    lease->abandoned = true;
    lease->handoffs_max = 0;
    code = redlock_extend(lease->handle, 0, on_acquired, lease);
    if (code != REDLOCK_OK) {
        redlock_disown(lease->handle);
        redlock_lease_free(lease->handle);
    }
    return code;
}

static redlock_code begin_acquire(const struct rl_key *key,
                                  const struct rl_key_waiter *waiter)
{
    struct rl_process_lease *lease = waiter->lease;
    redlock_client *client = lease->leases->client;
    redlock_lease_options options = rl_process_lease_options(&lease->options);
    if (!waiter->token)
        options.fence = 0;
    options.wait_ms = waiter->one_attempt ? 0 : rl_left_ms(waiter->deadline);
    options.on_lost = on_lost;
    options.on_extended = on_renewed;
    options.lost_arg = options.extended_arg = lease;
    struct rl_hand_over hand_over = {
        .fences = lease->options.fenced ? lease->handoffs_max + 1 : 1,
        .joins_tail = key->others_wait_until > rl_now_ms(),
    };
    return waiter->token
               ? begin_adoption(key, waiter, &options)
               : rl_hand_over_acquire(client, key->of, key->count, &options, &hand_over,
                                      on_acquired, lease, &lease->handle);
}

static void acquire(struct rl_key *key, struct rl_key_waiter *waiter)
{
    struct rl_process_lease *lease = waiter->lease;
    redlock_code code = begin_acquire(key, waiter);
    if (code != REDLOCK_OK) {
        waiter->wait.error = *redlock_last_error();
        rl_key_answer(waiter, code);
        return;
    }
    lease->state = RL_PROCESS_LEASE_ACQUIRING;
    lease->key = key;
    rl_key_attach(key, lease, waiter);
    waiter->lease = NULL;
    LIST_INSERT_HEAD(&lease->leases->all, lease, link);
}

/* --- the operation of the state --- */

static bool begin_operation(struct rl_process_lease *lease)
{
    report_owners(lease); /* the operation is the last one's */
    switch (lease->state) {
    case RL_PROCESS_LEASE_ACQUIRING: redlock_cancel(lease->handle); return true;
    case RL_PROCESS_LEASE_HANDING_OFF:
        return redlock_extend(lease->handle, 0, on_extended, lease) == REDLOCK_OK;
    case RL_PROCESS_LEASE_RELEASING:
        return redlock_release(lease->handle, process_lease_on_released, lease) ==
               REDLOCK_OK;
    default: return true;
    }
}

static void advance(struct rl_process_lease *lease)
{
    struct rl_key *key = lease->key;
    bool is_waited_for = lease->state == RL_PROCESS_LEASE_ACQUIRING && key->served;
    if (lease->operation_begun || is_waited_for || rl_process_lease_is_held(lease))
        return;
    lease->operation_begun = true;
    if (begin_operation(lease))
        return;
    if (lease->state == RL_PROCESS_LEASE_HANDING_OFF) {
        begin_release(lease);
        advance(lease);
    } else {
        free_lease(lease);
        advance_key(key);
    }
}

/* Does what is due for the key. This may free the key. */
static void advance_key(struct rl_key *key)
{
    while (!key->lease && !TAILQ_EMPTY(&key->waiters))
        acquire(key, TAILQ_FIRST(&key->waiters));
    if (key->lease)
        advance(key->lease);
    else
        rl_key_retire(key);
}
