/* A lease that is held: extensions, restarts, and how it is lost. */
#include "lease_parts.h"

#include <assert.h>

/* Nobody's vote is needed any more: a new round may begin, whoever is silent in the old. */
bool rl_lease_round_is_over(const struct rl_lease *lease)
{
    return lease->decided || !lease->round.waiting;
}

void rl_lease_lose(struct rl_lease *lease, enum rl_cause cause, struct rl_update *update)
{
    assert(lease->state == RL_LEASE_HELD);
    if (lease->asked || lease->wished)
        update->news |= RL_NEWS_NOT_EXTENDED;
    lease->asked = lease->wished = false;
    if (lease->timed)
        update->news |= RL_NEWS_LOST;
    lease->state = RL_LEASE_LOST;
    lease->cause = cause;
}

static void tell_not_extended(struct rl_lease *lease, struct rl_update *update)
{
    if (lease->asked)
        update->news |= RL_NEWS_NOT_EXTENDED;
    lease->asked = false;
}

/*
 * The TTL is always that of the last round that was sent: to win an older one says nothing
 * about a longer TTL that was wished for meanwhile.
 */
void rl_lease_begin_extend(struct rl_lease *lease, const struct rl_view *view,
                           struct rl_update *update)
{
    bool reachable = rl_count(view->ready & rl_all(lease->terms->n)) >= lease->terms->q;
    if (reachable && lease->wished_ttl > 0)
        lease->ttl = lease->wished_ttl;
    lease->asked = lease->wished;
    lease->wished = false;
    lease->wished_ttl = 0;
    lease->next_round = rl_later(view->now, rl_max(lease->ttl / RL_RETRY_SHARE, RL_MS));
    if (!reachable) {
        lease->cause = RL_CAUSE_NO_QUORUM;
        tell_not_extended(lease, update);
        return;
    }
    rl_lease_begin_vote(lease, view, RL_EXTEND, update);
    update->plant = lease->timed;
    /* A shorter TTL is what the caller wants, whether the round is won or lost. */
    if (lease->timed)
        lease->valid = rl_min(lease->valid, rl_lease_valid_until(lease, view->now));
}

/* Another may have got a majority, on nodes that are known not to have our key: LOST. */
bool rl_lease_majority_is_gone(const struct rl_lease *lease)
{
    return rl_count(lease->missing) >= rl_majority(lease->terms->n);
}

void rl_lease_lose_majority(struct rl_lease *lease, struct rl_update *update)
{
    bool taken =
        lease->round.text == RL_EXTEND && rl_lease_count_votes(lease, RL_VOTE_HELD) > 0;
    rl_lease_lose(lease, taken ? RL_CAUSE_TAKEN : RL_CAUSE_GONE, update);
}

/*
 * A planted key never counts in its own round. A node that was slow may still complete a
 * round that was thought lost, as long as the old deadline has not passed.
 */
void rl_lease_decide_extend(struct rl_lease *lease, const struct rl_view *view,
                            struct rl_update *update)
{
    if (rl_lease_majority_is_gone(lease)) {
        rl_lease_lose_majority(lease, update);
        return;
    }
    if (lease->won) {
        lease->holding = lease->round.granted;
        return;
    }
    enum rl_result result = rl_round_result(&lease->round, lease->terms->q);
    /* A bare token has no old deadline that would have ended the round in time. */
    bool late =
        view->now >= rl_lease_valid_until(lease, lease->round.start) - lease->terms->margin;
    switch (late && result == RL_WON ? RL_LOST : result) {
    case RL_OPEN: return;
    case RL_LOST:
        lease->decided = true;
        lease->cause = late ? RL_CAUSE_EXPIRED : RL_CAUSE_NO_QUORUM;
        tell_not_extended(lease, update);
        break;
    case RL_WON:
        lease->holding = lease->round.granted;
        lease->decided = lease->won = lease->timed = true;
        lease->valid = rl_lease_valid_until(lease, lease->round.start);
        lease->cause = RL_CAUSE_NONE;
        lease->next_round = rl_lease_extend_at(lease, lease->round.start);
        update->news |= lease->asked ? RL_NEWS_EXTENDED : RL_NEWS_RENEWED;
        lease->asked = false;
        break;
    }
    if (lease->wished)
        rl_lease_begin_extend(lease, view, update);
}

bool rl_lease_extension_is_due(const struct rl_lease *lease, rl_time now)
{
    return lease->terms->extend_every > 0 && lease->timed && now >= lease->next_round &&
           lease->valid < lease->hold_until;
}

void rl_lease_adopt(struct rl_lease *lease, const struct rl_view *view,
                    const struct rl_lease_event *event)
{
    assert(lease->state == RL_LEASE_NEW);
    lease->state = RL_LEASE_HELD;
    lease->touched = lease->dirty = rl_all(lease->terms->n);
    lease->decided = lease->held = true;
    lease->hold_until = rl_later(view->now, lease->terms->max_hold);
    lease->timed = event->deadline > 0;
    lease->valid = rl_min(event->deadline, lease->hold_until);
    lease->fence = event->fence;
    lease->until = rl_later(view->now, 2 * lease->ttl);
    lease->next_round = view->now;
}

/* The holder goes and the token stays. A release that was asked for is not taken back. */
void rl_lease_disown(struct rl_lease *lease, struct rl_update *update)
{
    if (lease->state != RL_LEASE_HELD && lease->state != RL_LEASE_LOST)
        return;
    if (lease->asked || lease->wished)
        update->news |= RL_NEWS_NOT_EXTENDED;
    lease->asked = lease->wished = false;
    lease->state = RL_LEASE_OVER;
}

void rl_lease_extend_vote(struct rl_lease *lease, const struct rl_view *view,
                          const struct rl_lease_event *event, struct rl_update *update)
{
    if (lease->state != RL_LEASE_HELD || event->seq != lease->round.seq)
        return;
    rl_lease_note_ballot(lease, event);
    rl_lease_note_missing(lease, event);
    rl_round_count(&lease->round, event->node, event->vote);
    rl_lease_decide_extend(lease, view, update);
}

/*
 * A restarted node's grant is void, whether the round is decided or not; and if it had not
 * answered yet, it does not store the token either.
 */
void rl_lease_forget(struct rl_lease *lease, const struct rl_view *view, unsigned node,
                     struct rl_update *update)
{
    rl_nodes bit = rl_bit(node);
    bool granted = lease->round.granted & bit;
    bool acquiring = lease->state == RL_LEASE_ACQUIRING;
    if (!acquiring && lease->state != RL_LEASE_HELD)
        return;
    lease->missing |= bit;
    lease->holding &= ~bit;
    if (granted) {
        lease->ballot[node].vote = RL_VOTE_GONE;
        rl_round_count(&lease->round, node, RL_VOTE_GONE);
    }
    if (acquiring)
        rl_lease_decide_acquire(lease, view, update);
    else if (rl_lease_majority_is_gone(lease))
        rl_lease_lose_majority(lease, update);
    else if (!lease->decided)
        rl_lease_decide_extend(lease, view, update);
}
