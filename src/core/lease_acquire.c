/* The acquire of a lease. */
#include "lease_parts.h"

#include <assert.h>

void rl_lease_report_failed(struct rl_lease *lease, const struct rl_view *view,
                            struct rl_update *update)
{
    if (lease->cause == RL_CAUSE_NONE) {
        unsigned held = rl_lease_count_votes(lease, RL_VOTE_HELD);
        unsigned granted = rl_lease_count_votes(lease, RL_VOTE_GRANTED);
        lease->cause = held > 0 && held + granted >= lease->params->q ? RL_CAUSE_TAKEN
                                                                      : RL_CAUSE_NO_QUORUM;
    }
    update->reports |= RL_REPORT_FAILED;
    rl_lease_begin_cleanup(lease, view->now);
}

/* (safety.md, rule 3) */
void rl_lease_abort(struct rl_lease *lease, const struct rl_view *view, enum rl_cause cause,
                    struct rl_update *update)
{
    lease->cause = cause;
    lease->state = RL_LEASE_ABORTING;
    rl_lease_begin_release(lease, view, update);
    if (cause == RL_CAUSE_CANCELLED || !lease->round.waiting)
        rl_lease_report_failed(lease, view, update);
}

/* The granting nodes that stored exactly the fence of the lease. */
static rl_node_set nodes_with_fence(const struct rl_lease *lease)
{
    rl_node_set with_fence = 0;
    for (rl_node_set rest = lease->holding; rest; rest &= rest - 1)
        if (lease->fences[rl_first(rest)] == lease->fence)
            with_fence |= rl_bit(rl_first(rest));
    return with_fence;
}

static void hold(struct rl_lease *lease, struct rl_update *update)
{
    lease->decided = true;
    lease->state = RL_LEASE_HELD;
    lease->timed = lease->held = true;
    update->reports |= RL_REPORT_HELD;
}

/*
 * A plain lock is held now. The fence of a fenced lease is the largest fence of the grants.
 * If q nodes store it, a later acquire gets a larger one. So the granting nodes that stored
 * less are sent a raise, and the lease is held only when q nodes store the fence. A
 * leader's term is stored with it: so all of them are sent the raise (safety.md, The token,
 * Elections).
 */
static void acquire_round_won(struct rl_lease *lease, const struct rl_view *view,
                              struct rl_update *update)
{
    lease->holding = lease->round.granted;
    if (!lease->fences) {
        hold(lease, update);
        return;
    }
    for (rl_node_set rest = lease->holding; rest; rest &= rest - 1) {
        int64_t granted = lease->fences[rl_first(rest)];
        lease->fence = lease->fence > granted ? lease->fence : granted;
    }
    rl_node_set with_fence = lease->params->settles ? 0 : nodes_with_fence(lease);
    if (rl_count(with_fence) >= lease->params->q) {
        hold(lease, update);
        return;
    }
    rl_lease_begin_round(lease, view, RL_CMD_RAISE_FENCE,
                         lease->holding & ~with_fence & view->ready, update);
    lease->round.granted = with_fence;
    rl_lease_decide_acquire(lease, view, update);
}

/* (safety.md, rule 1) */
void rl_lease_decide_acquire(struct rl_lease *lease, const struct rl_view *view,
                             struct rl_update *update)
{
    switch (rl_round_evaluate(&lease->round, lease->params->q)) {
    case RL_ROUND_OPEN: break;
    case RL_ROUND_LOST: rl_lease_abort(lease, view, RL_CAUSE_NONE, update); break;
    case RL_ROUND_WON:
        if (lease->round.command == RL_CMD_ACQUIRE)
            acquire_round_won(lease, view, update);
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
    lease->hold_until = rl_time_add_sat(view->now, lease->params->max_hold);
    lease->valid = rl_lease_valid_until(lease, view->now);
    lease->next_round = rl_lease_extend_at(lease, view->now);
    /* (safety.md, rule 1) */
    if (rl_count(view->ready & rl_all(lease->params->n)) < lease->params->q) {
        struct rl_update nothing = {0};
        struct rl_view none_ready = *view;
        none_ready.ready = 0;
        rl_lease_begin_vote(lease, &none_ready, RL_CMD_ACQUIRE, &nothing);
        rl_lease_report_failed(lease, view, update);
        return;
    }
    rl_lease_begin_vote(lease, view, RL_CMD_ACQUIRE, update);
}

/*
 * No node stores the token. The release queues the waiter and gets the holder's value.
 * Nodes that may not vote get nothing: a queue on a node without a marker would prevent
 * admission (safety.md, Waiting).
 */
void rl_lease_enqueue(struct rl_lease *lease, const struct rl_view *view,
                      struct rl_update *update)
{
    assert(lease->state == RL_LEASE_NEW);
    rl_node_set ask = view->ready & rl_all(lease->params->n);
    for (unsigned node = 0; node < lease->params->n; node++)
        lease->ballot[node] = (struct rl_ballot){
            .vote = ask & rl_bit(node) ? RL_VOTE_WAITING : RL_VOTE_ABSENT,
            .pttl = -1,
        };
    lease->touched = ask;
    rl_lease_abort(lease, view, RL_CAUSE_NONE, update);
}

/* A reply to the acquire that arrives after the lease is held, before any extension
   (safety.md, rule 5). */
static void note_straggler(struct rl_lease *lease, const struct rl_lease_event *event,
                           struct rl_update *update)
{
    rl_node_set bit = rl_bit(event->node);
    rl_lease_note_ballot(lease, event);
    rl_lease_note_missing(lease, event);
    if (event->seq == lease->round.seq)
        rl_round_count(&lease->round, event->node, event->vote);
    lease->holding =
        event->vote == RL_VOTE_GRANTED ? lease->holding | bit : lease->holding & ~bit;
    if (event->vote != RL_VOTE_GRANTED && rl_lease_quorum_is_gone(lease))
        rl_lease_lose_quorum(lease, update);
}

void rl_lease_acquire_vote(struct rl_lease *lease, const struct rl_view *view,
                           const struct rl_lease_event *event, struct rl_update *update)
{
    bool stored_nothing = event->vote == RL_VOTE_HELD || event->vote == RL_VOTE_ERROR;
    /* (safety.md, rule 3) */
    if (stored_nothing && !(lease->extended & rl_bit(event->node)))
        lease->dirty &= ~rl_bit(event->node);
    switch (lease->state) {
    case RL_LEASE_ACQUIRING:
        rl_lease_note_ballot(lease, event);
        rl_lease_note_missing(lease, event);
        if (event->seq != lease->round.seq)
            break; /* it is no vote on raising the fence (safety.md, rule 2) */
        rl_round_count(&lease->round, event->node, event->vote);
        rl_lease_decide_acquire(lease, view, update);
        break;
    case RL_LEASE_ABORTING: rl_lease_note_ballot(lease, event); break;
    case RL_LEASE_HELD:
        if (lease->round.command == RL_CMD_EXTEND)
            rl_lease_note_late(lease, event, update);
        else
            note_straggler(lease, event, update);
        break;
    case RL_LEASE_CLEANUP:
        if (!lease->dirty)
            lease->state = RL_LEASE_OVER;
        break;
    default: break;
    }
}

/* If the token is gone from the node, it did not raise the fence: its grant is void
   (safety.md, The token). */
void rl_lease_raise_vote(struct rl_lease *lease, const struct rl_view *view,
                         const struct rl_lease_event *event, struct rl_update *update)
{
    if (event->seq != lease->round.seq)
        return;
    /* Every asked node is needed, so the round is open until the last reply. */
    assert(lease->state == RL_LEASE_ACQUIRING);
    rl_lease_note_ballot(lease, event);
    rl_lease_note_missing(lease, event);
    if (event->vote != RL_VOTE_GRANTED)
        lease->holding &= ~rl_bit(event->node);
    rl_round_count(&lease->round, event->node, event->vote);
    rl_lease_decide_acquire(lease, view, update);
}
