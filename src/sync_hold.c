/* What the owner of a lock has in hand, and may ask. */
#include <stdlib.h>
#include <string.h>

#include "sync_parts.h"

static bool is_ours(const redlock_hold *hold)
{
    return hold->generation == rl_fork_generation();
}

/* --- from the inside --- */

redlock_hold *rl_hold_new(redlock_sync *sync, const redlock_lock_options *options)
{
    redlock_hold *hold = calloc(1, sizeof(*hold));
    if (!hold)
        return NULL;
    atomic_fetch_add(&sync->handles, 1);
    hold->sync = sync;
    hold->generation = sync->generation;
    hold->code = REDLOCK_NOT_HELD;
    hold->options = *options;
    atomic_store(&hold->lost, true);
    return hold;
}

void rl_hold_delete(redlock_hold *hold)
{
    redlock_sync *sync = hold->sync;
    free(hold);
    rl_sync_put(sync);
}

void rl_hold_show(redlock_hold *hold, struct rl_until until)
{
    atomic_store(&hold->boot, until.boot);
    atomic_store(&hold->unslewed, until.unslewed);
}

void rl_hold_take(redlock_hold *hold, struct rl_tenure *tenure)
{
    hold->tenure = tenure;
    tenure->owner = hold;
    hold->code = REDLOCK_OK;
    hold->fence = tenure->terms.fenced ? tenure->fence + tenure->handed : 0;
    memcpy(hold->token, tenure->token, sizeof(hold->token));
    rl_hold_show(hold, tenure->until);
    atomic_store(&hold->lost, false);
}

void rl_hold_lose(redlock_hold *hold, redlock_code why)
{
    hold->code = why;
    atomic_store(&hold->lost, true);
}

void rl_hold_tell(redlock_hold *hold, redlock_code why)
{
    redlock_sync *sync = hold->sync;
    if (!hold->options.on_lost)
        return;
    hold->why = why;
    hold->untold = true;
    TAILQ_INSERT_TAIL(&sync->untold, hold, in_untold);
    rl_drive_call_own(sync);
}

/* It is not to be told any more. */
static void hush(redlock_hold *hold)
{
    if (hold->untold)
        TAILQ_REMOVE(&hold->sync->untold, hold, in_untold);
    hold->untold = false;
}

static void tell(redlock_hold *hold)
{
    redlock_sync *sync = hold->sync;
    int64_t valid_ms = redlock_hold_valid_ms(hold);
    hush(hold);
    hold->telling = sync->calls_back = true;
    sync->relieved = false; /* who drives goes on, however long this takes */
    rl_sync_unlock(sync);
    hold->options.on_lost(hold, hold->why, valid_ms, hold->options.lost_arg);
    rl_sync_lock(sync);
    hold->telling = sync->calls_back = false;
    pthread_cond_broadcast(&sync->changed);
    if (hold->freed)
        rl_hold_delete(hold); /* not the last: this thread's client has a handle */
}

void rl_hold_tell_all(redlock_sync *sync)
{
    while (!TAILQ_EMPTY(&sync->untold))
        tell(TAILQ_FIRST(&sync->untold));
}

void rl_hold_abandon(redlock_hold *hold)
{
    if (!is_ours(hold))
        return;
    rl_sync_lock(hold->sync);
    struct rl_tenure *tenure = hold->tenure;
    if (hold->code == REDLOCK_OK)
        rl_hold_lose(hold, REDLOCK_NOT_HELD);
    hush(hold);
    if (tenure && tenure->key)
        rl_give_order(hold->sync, &tenure->key->order);
    if (tenure) {
        tenure->abandoned = true;
        rl_tenure_detach(tenure);
        rl_tenure_leave(tenure);
    }
    rl_sync_unlock(hold->sync);
}

/* --- giving it up --- */

/* Whatever becomes of the lock, it is this hold's no longer. */
static struct rl_tenure *take_tenure(redlock_hold *hold)
{
    struct rl_tenure *tenure = hold->tenure;
    rl_hold_lose(hold, REDLOCK_NOT_HELD);
    rl_hold_show(hold, (struct rl_until){0});
    hold->tenure = NULL;
    if (tenure)
        tenure->owner = NULL;
    return tenure;
}

static redlock_code await_confirmation(redlock_sync *sync, struct rl_tenure *tenure)
{
    struct rl_wait wait;
    rl_wait_begin(sync, &wait);
    tenure->confirmation = &wait;
    while (!wait.done)
        rl_wait_once(sync, &wait, RL_FOREVER);
    rl_wait_end(sync, &wait);
    return wait.code;
}

/* What is to be released is written, or confirmed, before this returns. */
static redlock_code give_up(redlock_hold *hold, unsigned how)
{
    redlock_sync *sync = hold->sync;
    redlock_code code = hold->code;
    struct rl_tenure *tenure = take_tenure(hold);
    if (!tenure)
        return code;
    if (tenure->state == RL_TENURE_LOST) {
        rl_tenure_leave(tenure);
        rl_drive_until_written(sync);
        return code;
    }
    if (rl_until_left_ms(tenure->until) == 0)
        code = REDLOCK_EXPIRED; /* the client does not know yet */
    if (tenure->handoffs > hold->options.handoffs)
        tenure->handoffs = hold->options.handoffs;
    rl_tenure_pass(tenure);
    if (code == REDLOCK_OK && how & REDLOCK_CONFIRM && tenure->state != RL_TENURE_HELD)
        code = await_confirmation(sync, tenure);
    else if (tenure->state == RL_TENURE_RELEASING)
        rl_drive_until_written(sync);
    return code;
}

redlock_code redlock_unlock(redlock_hold *hold, unsigned how)
{
    if (!is_ours(hold))
        return REDLOCK_FORKED;
    if (how & ~(unsigned)REDLOCK_CONFIRM)
        return REDLOCK_BAD_OPTION;
    if (how & REDLOCK_CONFIRM && rl_sync_is_loop())
        return REDLOCK_LOOP;
    redlock_sync *sync = hold->sync; /* of a hold that is freed in its callback meanwhile */
    rl_thread_unbind(hold);
    rl_sync_lock(sync);
    redlock_code code = give_up(hold, how);
    rl_sync_unlock(sync);
    return code;
}

/* Until its callback has returned, unless this is inside it. True: it may be deleted. */
static bool is_told(redlock_hold *hold)
{
    redlock_sync *sync = hold->sync;
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    rl_sync_lock(sync);
    while (hold->telling && !rl_sync_is_loop())
        pthread_cond_wait(&sync->changed, &sync->mutex);
    hush(hold);
    hold->freed = true;
    bool told = !hold->telling;
    rl_sync_unlock(sync);
    pthread_setcancelstate(state, NULL);
    return told;
}

void redlock_hold_free(redlock_hold *hold)
{
    if (!hold)
        return;
    if (!is_ours(hold)) {
        rl_thread_unbind(hold);
        rl_hold_delete(hold);
        return;
    }
    (void)redlock_unlock(hold, 0);
    if (is_told(hold))
        rl_hold_delete(hold);
}

/* --- extending --- */

static redlock_code extend(redlock_hold *hold, int64_t ttl_ms)
{
    redlock_sync *sync = hold->sync;
    struct rl_extension extension = {.hold = hold, .ttl_ms = ttl_ms};
    if (hold->code != REDLOCK_OK)
        return hold->code;
    if (hold->tenure->extension)
        return REDLOCK_BUSY;
    rl_wait_begin(sync, &extension.wait);
    rl_tenure_extend(hold->tenure, &extension);
    while (!extension.wait.done)
        rl_wait_once(sync, &extension.wait, RL_FOREVER);
    rl_withdraw_order(sync, &extension.order);
    rl_wait_end(sync, &extension.wait);
    return extension.wait.code;
}

redlock_code redlock_hold_extend(redlock_hold *hold, int64_t ttl_ms)
{
    if (!is_ours(hold))
        return REDLOCK_FORKED;
    if (rl_sync_is_loop())
        return REDLOCK_LOOP;
    if (ttl_ms < 0 || ttl_ms > REDLOCK_TTL_MAX_MS)
        return REDLOCK_BAD_TTL;
    rl_sync_lock(hold->sync);
    redlock_code code = extend(hold, ttl_ms);
    rl_sync_unlock(hold->sync);
    return code;
}

/* --- looking --- */

bool redlock_hold_lost(const redlock_hold *hold)
{
    return atomic_load(&hold->lost) || !is_ours(hold);
}

int64_t redlock_hold_valid_ms(const redlock_hold *hold)
{
    struct rl_until until = {atomic_load(&hold->boot), atomic_load(&hold->unslewed)};
    return is_ours(hold) ? rl_until_left_ms(until) : 0;
}

int64_t redlock_hold_fence(const redlock_hold *hold)
{
    return hold->fence;
}

const char *redlock_hold_token(const redlock_hold *hold)
{
    return hold->token;
}
