/* A lease that is being acquired. */
#include "lease_parts.h"

#include <assert.h>

void rl_lease_tell_failed(struct rl_lease *lease, const struct rl_view *view,
                          struct rl_update *update)
{
    if (lease->cause == RL_CAUSE_NONE) {
        unsigned held = rl_lease_count_votes(lease, RL_VOTE_HELD);
        unsigned granted = rl_lease_count_votes(lease, RL_VOTE_GRANTED);
        lease->cause = held > 0 && held + granted >= lease->terms->q ? RL_CAUSE_TAKEN
                                                                     : RL_CAUSE_NO_QUORUM;
    }
    update->news |= RL_NEWS_FAILED;
    rl_lease_linger(lease, view->now);
}

void rl_lease_back_out(struct rl_lease *lease, const struct rl_view *view,
                       enum rl_cause cause, struct rl_update *update)
{
    lease->cause = cause;
    lease->state = RL_LEASE_BACKING_OUT;
    rl_lease_begin_release(lease, view, update);
    if (cause == RL_CAUSE_CANCELLED || !lease->round.waiting)
        rl_lease_tell_failed(lease, view, update);
}

/* Who of the granting nodes stored just the lease's fence. */
static rl_nodes settled_nodes(const struct rl_lease *lease)
{
    rl_nodes settled = 0;
    for (rl_nodes rest = lease->holding; rest; rest &= rest - 1)
        if (lease->fences[rl_first(rest)] == lease->fence)
            settled |= rl_bit(rl_first(rest));
    return settled;
}

static void hold(struct rl_lease *lease, struct rl_update *update)
{
    lease->decided = true;
    lease->state = RL_LEASE_HELD;
    lease->timed = lease->held = true;
    update->news |= RL_NEWS_HELD;
}

/*
 * The fence is the largest that was granted. Whoever acquires later meets it, if a quorum
 * stores it: those that stored less are told, and the lease is not held before that.
 */
static void settle(struct rl_lease *lease, const struct rl_view *view,
                   struct rl_update *update)
{
    lease->holding = lease->round.granted;
    if (!lease->fences) {
        hold(lease, update);
        return;
    }
    for (rl_nodes rest = lease->holding; rest; rest &= rest - 1) {
        int64_t granted = lease->fences[rl_first(rest)];
        lease->fence = lease->fence > granted ? lease->fence : granted;
    }
    rl_nodes settled = settled_nodes(lease);
    if (rl_count(settled) >= lease->terms->q) {
        hold(lease, update);
        return;
    }
    rl_lease_begin_round(lease, view, RL_SETTLE, lease->holding & ~settled & view->ready,
                         update);
    lease->round.granted = settled;
    rl_lease_decide_acquire(lease, view, update);
}

void rl_lease_decide_acquire(struct rl_lease *lease, const struct rl_view *view,
                             struct rl_update *update)
{
    switch (rl_round_result(&lease->round, lease->terms->q)) {
    case RL_OPEN: break;
    case RL_LOST: rl_lease_back_out(lease, view, RL_CAUSE_NONE, update); break;
    case RL_WON:
        if (lease->round.text == RL_ACQUIRE)
            settle(lease, view, update);
        else
            hold(lease, update);
        break;
    }
}

void rl_lease_start(struct rl_lease *lease, const struct rl_view *view,
                    struct rl_update *update)
{
    assert(lease->state == RL_LEASE_NEW);
    lease->state = RL_LEASE_ACQUIRING;
    lease->hold_until = rl_later(view->now, lease->terms->max_hold);
    lease->valid = rl_lease_valid_until(lease, view->now);
    lease->next_round = rl_lease_extend_at(lease, view->now);
    if (rl_count(view->ready & rl_all(lease->terms->n)) < lease->terms->q) {
        struct rl_update nothing = {0};
        struct rl_view nobody = *view;
        nobody.ready = 0;
        rl_lease_begin_vote(lease, &nobody, RL_ACQUIRE, &nothing);
        rl_lease_tell_failed(lease, view, update);
        return;
    }
    rl_lease_begin_vote(lease, view, RL_ACQUIRE, update);
}

/* Nothing was stored; the release tells that it waits, and hears who holds the lock. */
void rl_lease_queue(struct rl_lease *lease, const struct rl_view *view,
                    struct rl_update *update)
{
    assert(lease->state == RL_LEASE_NEW);
    rl_nodes ask = view->open & rl_all(lease->terms->n);
    for (unsigned node = 0; node < lease->terms->n; node++)
        lease->ballot[node] = (struct rl_ballot){
            .vote = ask & rl_bit(node) ? RL_VOTE_WAITING : RL_VOTE_ABSENT,
            .pttl = -1,
        };
    lease->touched = ask;
    rl_lease_back_out(lease, view, RL_CAUSE_NONE, update);
}

/* What comes after the lease is held, and before the first extension. */
static void note_straggler(struct rl_lease *lease, const struct rl_lease_event *event,
                           struct rl_update *update)
{
    rl_nodes bit = rl_bit(event->node);
    rl_lease_note_ballot(lease, event);
    rl_lease_note_missing(lease, event);
    if (event->seq == lease->round.seq)
        rl_round_count(&lease->round, event->node, event->vote);
    lease->holding =
        event->vote == RL_VOTE_GRANTED ? lease->holding | bit : lease->holding & ~bit;
    if (event->vote != RL_VOTE_GRANTED && rl_lease_majority_is_gone(lease))
        rl_lease_lose_majority(lease, update);
}

void rl_lease_acquire_vote(struct rl_lease *lease, const struct rl_view *view,
                           const struct rl_lease_event *event, struct rl_update *update)
{
    bool stored_nothing = event->vote == RL_VOTE_HELD || event->vote == RL_VOTE_ERROR;
    if (stored_nothing && !(lease->extended & rl_bit(event->node)))
        lease->dirty &= ~rl_bit(event->node);
    switch (lease->state) {
    case RL_LEASE_ACQUIRING:
        rl_lease_note_ballot(lease, event);
        rl_lease_note_missing(lease, event);
        if (event->seq != lease->round.seq)
            break; /* it settles by now: who comes late has no part in that */
        rl_round_count(&lease->round, event->node, event->vote);
        rl_lease_decide_acquire(lease, view, update);
        break;
    case RL_LEASE_BACKING_OUT: rl_lease_note_ballot(lease, event); break;
    case RL_LEASE_HELD:
        if (lease->round.text != RL_EXTEND)
            note_straggler(lease, event, update);
        break;
    case RL_LEASE_LINGERING:
        if (!lease->dirty)
            lease->state = RL_LEASE_OVER;
        break;
    default: break;
    }
}

/* Where the token is gone by now, the fence was not raised: the grant is void. */
void rl_lease_settle_vote(struct rl_lease *lease, const struct rl_view *view,
                          const struct rl_lease_event *event, struct rl_update *update)
{
    if (event->seq != lease->round.seq)
        return;
    /* All that are asked are needed, so the round is open as long as one has to answer. */
    assert(lease->state == RL_LEASE_ACQUIRING);
    rl_lease_note_ballot(lease, event);
    rl_lease_note_missing(lease, event);
    if (event->vote != RL_VOTE_GRANTED)
        lease->holding &= ~rl_bit(event->node);
    rl_round_count(&lease->round, event->node, event->vote);
    rl_lease_decide_acquire(lease, view, update);
}
