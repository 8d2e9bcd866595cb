#include "hold.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"

static void call_on_lost(struct rl_loop_owner *loop, struct rl_job *job)
{
    redlock_hold *hold = (redlock_hold *)job;
    int64_t valid_ms = redlock_hold_valid_ms(hold);
    hold->in_callback = true;
    rl_loop_owner_unlock(loop);
    hold->options.on_lost(hold, hold->why.code, hold->why.reason, valid_ms,
                          hold->options.lost_arg);
    rl_loop_owner_lock(loop);
    hold->in_callback = false;
    if (hold->freed)
        rl_hold_delete(hold); /* not the last reference: the client has one */
}

redlock_hold *rl_hold_new(struct rl_loop_owner *loop, const redlock_lock_options *options)
{
    redlock_hold *hold = calloc(1, sizeof(*hold));
    if (!hold)
        return NULL;
    rl_loop_owner_ref(loop);
    hold->report.run = call_on_lost;
    hold->loop = loop;
    hold->end = (struct rl_end){REDLOCK_NOT_HELD, REDLOCK_REASON_NOT_ACQUIRED};
    hold->options = *options;
    atomic_store(&hold->uses, ((struct rl_uses){1, 1}));
    atomic_store(&hold->lost, true);
    return hold;
}

bool rl_hold_enter(redlock_hold *hold)
{
    struct rl_uses then, uses = atomic_load(&hold->uses);
    do {
        if (uses.levels == 0)
            return false;
        then = (struct rl_uses){uses.handles + 1, uses.levels + 1};
    } while (!atomic_compare_exchange_weak(&hold->uses, &uses, then));
    return true;
}

struct rl_uses rl_hold_leave(redlock_hold *hold)
{
    struct rl_uses then, uses = atomic_load(&hold->uses);
    do
        then = (struct rl_uses){uses.handles, uses.levels - (uses.levels > 0)};
    while (!atomic_compare_exchange_weak(&hold->uses, &uses, then));
    return uses;
}

struct rl_uses rl_hold_drop(redlock_hold *hold)
{
    struct rl_uses then, uses = atomic_load(&hold->uses);
    do
        then =
            (struct rl_uses){uses.handles - 1, uses.levels - (uses.levels == uses.handles)};
    while (!atomic_compare_exchange_weak(&hold->uses, &uses, then));
    return uses;
}

void rl_hold_delete(redlock_hold *hold)
{
    struct rl_loop_owner *loop = hold->loop;
    free(hold->nodes);
    free(hold);
    rl_loop_owner_unref(loop);
}

void rl_hold_attach(redlock_hold *hold, struct rl_process_lease *lease, uint64_t number,
                    int64_t fence, unsigned slot, const char *token)
{
    hold->lease = lease;
    hold->end = (struct rl_end){REDLOCK_OK, REDLOCK_REASON_NONE};
    hold->number = number;
    hold->fence = fence;
    hold->slot = slot;
    memcpy(hold->token, token, sizeof(hold->token));
    atomic_store(&hold->lost, false);
}

void rl_hold_detach(redlock_hold *hold)
{
    hold->lease = NULL;
}

void rl_hold_set_deadline(redlock_hold *hold, struct rl_until until)
{
    atomic_store(&hold->boot, until.boot);
    atomic_store(&hold->unslewed, until.unslewed);
}

size_t rl_hold_nodes(const redlock_hold *hold, const redlock_lease *lease,
                     redlock_node *ret_nodes)
{
    size_t count = redlock_explain(lease, ret_nodes, REDLOCK_NODES_MAX);
    for (size_t i = 0; hold && i < count; i++)
        if (ret_nodes[i].verdict == REDLOCK_VERDICT_HELD)
            ret_nodes[i].key = hold->order[ret_nodes[i].key];
    return count;
}

void rl_nodes_put(const redlock_node *from, size_t count, redlock_node *ret_nodes,
                  size_t room, size_t size)
{
    for (size_t i = 0; i < count && i < room; i++)
        rl_copy_sized((char *)ret_nodes + i * size, size, &from[i], sizeof(from[i]));
}

void rl_hold_keep_nodes(redlock_hold *hold, const redlock_lease *lease)
{
    size_t count = redlock_explain(lease, NULL, 0);
    hold->nodes = calloc(count, sizeof(*hold->nodes));
    if (hold->nodes)
        hold->node_count = rl_hold_nodes(hold, lease, hold->nodes);
}

void rl_hold_lose(redlock_hold *hold, struct rl_end why)
{
    hold->end = why;
    atomic_store(&hold->lost, true);
}

void rl_hold_report_lost(redlock_hold *hold, struct rl_end why)
{
    hold->why = why;
    if (hold->options.on_lost)
        rl_job_post_report(hold->loop, &hold->report);
}

void rl_hold_withdraw_report(redlock_hold *hold)
{
    rl_job_cancel(&hold->report);
}

bool rl_hold_finish_report(redlock_hold *hold)
{
    while (hold->in_callback && !rl_loop_owner_in_any_thread())
        rl_loop_owner_await_change(hold->loop);
    rl_hold_withdraw_report(hold);
    hold->freed = true;
    return !hold->in_callback;
}

/* --- queries --- */

bool redlock_hold_lost(const redlock_hold *hold)
{
    return atomic_load(&hold->lost) || !rl_hold_is_ours(hold);
}

int64_t redlock_hold_valid_ms(const redlock_hold *hold)
{
    struct rl_until until = {atomic_load(&hold->boot), atomic_load(&hold->unslewed)};
    return rl_hold_is_ours(hold) ? rl_until_left_ms(until) : 0;
}

int64_t redlock_hold_fence(const redlock_hold *hold)
{
    return hold->fence;
}

unsigned redlock_hold_slot(const redlock_hold *hold)
{
    return hold->slot;
}

const char *redlock_hold_token(const redlock_hold *hold)
{
    return hold->token;
}

uint64_t redlock_hold_number(const redlock_hold *hold)
{
    return hold->number;
}
