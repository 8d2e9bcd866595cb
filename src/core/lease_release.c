/* A lease that is given back, and what may be left of it. */
#include "lease_parts.h"

/* The round that takes the token away, everywhere that it may be and can be said. */
void rl_lease_begin_release(struct rl_lease *lease, const struct rl_view *view,
                            struct rl_update *update)
{
    rl_lease_begin_round(lease, view, RL_RELEASE, lease->touched & view->open, update);
}

/* All is told. What may still store the token is released later, or expires. */
void rl_lease_linger(struct rl_lease *lease, rl_time now)
{
    if (!lease->dirty) {
        lease->state = RL_LEASE_OVER;
        return;
    }
    lease->state = RL_LEASE_LINGERING;
    lease->next_round = rl_later(now, RL_LINGER_GAP);
}

/* If fewer than q deleted our key. */
static enum rl_cause cause_of_release(const struct rl_lease *lease, unsigned done)
{
    unsigned q = lease->terms->q;
    unsigned taken = rl_lease_count_votes(lease, RL_VOTE_HELD);
    unsigned gone = rl_lease_count_votes(lease, RL_VOTE_GONE) +
                    rl_lease_count_votes(lease, RL_VOTE_UNASKED);
    if (done + gone + taken < q)
        return RL_CAUSE_UNCONFIRMED;
    if (done > 0 && taken < q)
        return RL_CAUSE_NONE;
    return taken > 0 ? RL_CAUSE_TAKEN : RL_CAUSE_GONE;
}

/* Judged once all have answered, or by q that deleted our key. */
void rl_lease_decide_release(struct rl_lease *lease, const struct rl_view *view,
                             struct rl_update *update)
{
    const struct rl_terms *terms = lease->terms;
    unsigned done = rl_count(lease->round.granted);
    if (done < terms->q && lease->round.waiting)
        return;
    lease->cause = done < terms->q ? cause_of_release(lease, done) : RL_CAUSE_NONE;
    update->news |= RL_NEWS_RELEASED;
    rl_lease_linger(lease, view->now);
}

void rl_lease_release(struct rl_lease *lease, const struct rl_view *view,
                      struct rl_update *update)
{
    switch (lease->state) {
    case RL_LEASE_NEW: lease->state = RL_LEASE_OVER; return;
    case RL_LEASE_ACQUIRING:
        rl_lease_back_out(lease, view, RL_CAUSE_CANCELLED, update);
        return;
    case RL_LEASE_BACKING_OUT:
        lease->cause = RL_CAUSE_CANCELLED;
        rl_lease_tell_failed(lease, view, update);
        return;
    case RL_LEASE_HELD:
    case RL_LEASE_LOST: break;
    default: return;
    }
    if (lease->asked || lease->wished)
        update->news |= RL_NEWS_NOT_EXTENDED;
    lease->asked = lease->wished = false;
    lease->state = RL_LEASE_RELEASING;
    for (unsigned node = 0; node < lease->terms->n; node++) {
        rl_nodes bit = rl_bit(node);
        lease->ballot[node] = (struct rl_ballot){
            .vote = !(lease->touched & bit) ? RL_VOTE_UNASKED
                    : view->open & bit      ? RL_VOTE_WAITING
                                            : RL_VOTE_ABSENT,
            .pttl = -1,
        };
    }
    rl_lease_begin_release(lease, view, update);
    if (!lease->round.waiting)
        rl_lease_decide_release(lease, view, update);
}

/* Says the release again where it was not confirmed and nothing is under way. */
void rl_lease_release_again(struct rl_lease *lease, const struct rl_view *view,
                            rl_nodes where, struct rl_update *update)
{
    rl_nodes again = where & lease->dirty & view->open & ~lease->unanswered;
    lease->next_round = rl_later(view->now, RL_LINGER_GAP);
    if (again)
        rl_lease_begin_round(lease, view, RL_RELEASE, again, update);
}

/* The ballots keep what the acquire was told, and learn when the node is free. */
static void note_what_is_there(struct rl_ballot *ballot, struct rl_lease *lease,
                               const struct rl_lease_event *event)
{
    if (ballot->vote == RL_VOTE_WAITING) { /* it was asked for nothing else */
        rl_lease_note_ballot(lease, event);
        return;
    }
    if (event->pttl >= 0)
        ballot->pttl = event->pttl;
    if (ballot->vote != RL_VOTE_HELD)
        return;
    if (event->vote == RL_VOTE_GONE)
        ballot->pttl = 0;
    else if (event->vote == RL_VOTE_HELD)
        ballot->fault = event->fault; /* what it is that is there */
}

void rl_lease_release_vote(struct rl_lease *lease, const struct rl_view *view,
                           const struct rl_lease_event *event, struct rl_update *update)
{
    rl_nodes bit = rl_bit(event->node);
    lease->unanswered &= ~bit;
    if (event->vote == RL_VOTE_GRANTED || event->vote == RL_VOTE_GONE ||
        event->vote == RL_VOTE_HELD)
        lease->dirty &= ~bit;
    switch (lease->state) {
    case RL_LEASE_BACKING_OUT:
        lease->round.waiting &= ~bit;
        note_what_is_there(&lease->ballot[event->node], lease, event);
        if (!lease->round.waiting)
            rl_lease_tell_failed(lease, view, update);
        break;
    case RL_LEASE_RELEASING:
        rl_lease_note_ballot(lease, event);
        rl_round_count(&lease->round, event->node, event->vote);
        rl_lease_decide_release(lease, view, update);
        break;
    case RL_LEASE_LINGERING:
        lease->round.waiting &= ~bit;
        if (!lease->dirty)
            lease->state = RL_LEASE_OVER;
        break;
    default: break;
    }
}
