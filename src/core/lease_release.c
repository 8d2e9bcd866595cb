/* The release of a lease, and the cleanup of tokens that nodes may still store. */
#include "lease_parts.h"

/* Sends the release to every open node that was sent the token (safety.md, rule 3). */
void rl_lease_begin_release(struct rl_lease *lease, const struct rl_view *view,
                            struct rl_update *update)
{
    rl_lease_begin_round(lease, view, RL_CMD_RELEASE, lease->touched & view->open, update);
}

/* The outcome is reported. Tokens that remain on nodes are released later, or expire
   (safety.md, rule 3). */
void rl_lease_begin_cleanup(struct rl_lease *lease, rl_time now)
{
    if (!lease->dirty) {
        lease->state = RL_LEASE_OVER;
        return;
    }
    lease->state = RL_LEASE_CLEANUP;
    lease->next_round = rl_time_add_sat(now, RL_CLEANUP_INTERVAL);
}

/* The cause if fewer than q nodes deleted our key. */
static enum rl_cause cause_of_release(const struct rl_lease *lease, unsigned done)
{
    unsigned q = lease->params->q;
    unsigned taken = rl_lease_count_votes(lease, RL_VOTE_HELD);
    unsigned gone = rl_lease_count_votes(lease, RL_VOTE_GONE) +
                    rl_lease_count_votes(lease, RL_VOTE_UNASKED);
    if (done + gone + taken < q)
        return RL_CAUSE_UNCONFIRMED;
    if (done > 0 && taken < q)
        return RL_CAUSE_NONE;
    return taken > 0 ? RL_CAUSE_TAKEN : RL_CAUSE_GONE;
}

/* Decided when q nodes deleted our key, or when no reply is outstanding (safety.md,
   rule 1). */
void rl_lease_decide_release(struct rl_lease *lease, const struct rl_view *view,
                             struct rl_update *update)
{
    const struct rl_lease_params *params = lease->params;
    unsigned done = rl_count(lease->round.granted);
    if (done < params->q && lease->round.waiting)
        return;
    lease->cause = done < params->q ? cause_of_release(lease, done) : RL_CAUSE_NONE;
    update->reports |= RL_REPORT_RELEASED;
    rl_lease_begin_cleanup(lease, view->now);
}

void rl_lease_release(struct rl_lease *lease, const struct rl_view *view,
                      struct rl_update *update)
{
    switch (lease->state) {
    case RL_LEASE_NEW: lease->state = RL_LEASE_OVER; return;
    case RL_LEASE_ACQUIRING:
        rl_lease_abort(lease, view, RL_CAUSE_CANCELLED, update);
        return;
    case RL_LEASE_ABORTING:
        lease->cause = RL_CAUSE_CANCELLED;
        rl_lease_report_failed(lease, view, update);
        return;
    case RL_LEASE_HELD:
    case RL_LEASE_LOST: break;
    default: return;
    }
    if (lease->by_request || lease->request_waits)
        update->reports |= RL_REPORT_NOT_EXTENDED;
    lease->by_request = lease->request_waits = false;
    lease->state = RL_LEASE_RELEASING;
    for (unsigned node = 0; node < lease->params->n; node++) {
        rl_node_set bit = rl_bit(node);
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

/* Sends the release again to nodes that did not confirm it and have none outstanding
   (safety.md, rule 3). */
void rl_lease_release_again(struct rl_lease *lease, const struct rl_view *view,
                            rl_node_set where, struct rl_update *update)
{
    rl_node_set again = where & lease->dirty & view->open & ~lease->unanswered;
    lease->next_round = rl_time_add_sat(view->now, RL_CLEANUP_INTERVAL);
    if (again)
        rl_lease_begin_round(lease, view, RL_CMD_RELEASE, again, update);
}

/* Keeps the vote of the acquire in the ballot, and records when the node is free. */
static void note_what_is_there(struct rl_ballot *ballot, struct rl_lease *lease,
                               const struct rl_lease_event *event)
{
    bool was_replaced = ballot->vote == RL_VOTE_GRANTED && event->vote == RL_VOTE_HELD;
    /* WAITING: the release was its only command. */
    if (ballot->vote == RL_VOTE_WAITING || was_replaced) {
        rl_lease_note_ballot(lease, event);
        return;
    }
    if (event->pttl >= 0)
        ballot->pttl = event->pttl;
    if (ballot->vote != RL_VOTE_HELD)
        return;
    if (event->vote == RL_VOTE_GONE) {
        ballot->pttl = 0;
    } else if (event->vote == RL_VOTE_HELD) { /* perhaps another key, or without expiry */
        ballot->fault = event->fault;
        ballot->key = event->key;
        ballot->pttl = event->pttl;
    }
}

void rl_lease_release_vote(struct rl_lease *lease, const struct rl_view *view,
                           const struct rl_lease_event *event, struct rl_update *update)
{
    rl_node_set bit = rl_bit(event->node);
    lease->unanswered &= ~bit;
    /* These confirm the release (safety.md, rule 3). */
    if (event->vote == RL_VOTE_GRANTED || event->vote == RL_VOTE_GONE ||
        event->vote == RL_VOTE_HELD)
        lease->dirty &= ~bit;
    switch (lease->state) {
    case RL_LEASE_ABORTING:
        lease->round.waiting &= ~bit;
        note_what_is_there(&lease->ballot[event->node], lease, event);
        if (!lease->round.waiting)
            rl_lease_report_failed(lease, view, update);
        break;
    case RL_LEASE_RELEASING:
        rl_lease_note_ballot(lease, event);
        rl_round_count(&lease->round, event->node, event->vote);
        rl_lease_decide_release(lease, view, update);
        break;
    case RL_LEASE_CLEANUP:
        lease->round.waiting &= ~bit;
        if (!lease->dirty)
            lease->state = RL_LEASE_OVER;
        break;
    default: break;
    }
}
