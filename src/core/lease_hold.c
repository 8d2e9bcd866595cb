/* A lease that is held: extensions, restarts of nodes, and the loss of the lease. */
#include "lease_parts.h"

#include <assert.h>

/* No vote of this round is needed any more: a new round may begin, despite silent nodes. */
bool rl_lease_round_is_over(const struct rl_lease *lease)
{
    return lease->decided || !lease->round.waiting;
}

/* LOST is reported once, before any other report (safety.md, rule 6). */
void rl_lease_lose(struct rl_lease *lease, enum rl_cause cause, struct rl_update *update)
{
    assert(lease->state == RL_LEASE_HELD);
    if (lease->by_request || lease->request_waits)
        update->reports |= RL_REPORT_NOT_EXTENDED;
    lease->by_request = lease->request_waits = false;
    if (lease->timed)
        update->reports |= RL_REPORT_LOST;
    lease->state = RL_LEASE_LOST;
    lease->failed_to_extend = lease->cause == RL_CAUSE_NO_QUORUM;
    lease->cause = cause;
}

/* Too few nodes may vote, so that none is asked: those that may not are absent. */
static void note_absent(struct rl_lease *lease, const struct rl_view *view)
{
    for (unsigned node = 0; node < lease->params->n; node++)
        if (!(view->ready & rl_bit(node)))
            lease->ballot[node] = (struct rl_ballot){.vote = RL_VOTE_ABSENT, .pttl = -1};
}

static void report_not_extended(struct rl_lease *lease, struct rl_update *update)
{
    update->reports |= lease->by_request ? RL_REPORT_NOT_EXTENDED : RL_REPORT_NOT_RENEWED;
    lease->by_request = false;
}

/*
 * `ttl` is always the TTL of the last round that was sent. A win of an older round does not
 * confirm a longer TTL that the caller requested since (safety.md, rule 5).
 */
void rl_lease_begin_extend(struct rl_lease *lease, const struct rl_view *view,
                           struct rl_update *update)
{
    bool reachable = rl_count(view->ready & rl_all(lease->params->n)) >= lease->params->q;
    if (reachable && lease->requested_ttl > 0)
        lease->ttl = lease->requested_ttl;
    lease->by_request = lease->request_waits;
    lease->request_waits = false;
    lease->requested_ttl = 0;
    lease->next_round =
        rl_time_add_sat(view->now, rl_max(lease->ttl / RL_RETRY_SHARE, RL_MS));
    if (!reachable) {
        note_absent(lease, view);
        lease->cause = RL_CAUSE_NO_QUORUM;
        report_not_extended(lease, update);
        return;
    }
    bool repairs = lease->round.repair_due || (lease->round.repairs && !lease->won);
    rl_lease_begin_vote(lease, view, RL_CMD_EXTEND, update);
    lease->round.repairs = repairs;
    /* A bare token recreates no key. A shorter TTL takes effect at once, whether the round
       is won or lost (safety.md, rule 5). */
    update->recreate = lease->timed;
    if (lease->timed)
        lease->valid = rl_min(lease->valid, rl_lease_valid_until(lease, view->now));
}

/* A majority is known not to store our token: another client may hold the lock there
   (safety.md, rule 5). */
bool rl_lease_quorum_is_gone(const struct rl_lease *lease)
{
    return rl_count(lease->missing) >= rl_majority(lease->params->n);
}

void rl_lease_lose_quorum(struct rl_lease *lease, struct rl_update *update)
{
    bool taken = lease->round.command == RL_CMD_EXTEND &&
                 rl_lease_count_votes(lease, RL_VOTE_HELD) > 0;
    rl_lease_lose(lease, taken ? RL_CAUSE_TAKEN : RL_CAUSE_GONE, update);
}

/*
 * A reply to an earlier round has no vote in this one. But a node replies in order, so it
 * is the latest that is known of its key (safety.md, rules 2 and 5).
 */
void rl_lease_note_late(struct rl_lease *lease, const struct rl_lease_event *event,
                        struct rl_update *update)
{
    rl_lease_note_missing(lease, event);
    lease->holding &= ~lease->missing;
    if (rl_lease_quorum_is_gone(lease))
        rl_lease_lose_quorum(lease, update);
}

/*
 * The watchdog extends soon, the leases of a client one after the other. The spread of the
 * watchdog makes a lease earlier that is later here. Otherwise the leases would all be
 * extended at one time after that (safety.md, rule 7).
 */
static void extend_soon(struct rl_lease *lease, const struct rl_view *view,
                        struct rl_update *update)
{
    rl_time within =
        rl_clamp(lease->ttl / RL_RETRY_SHARE, RL_REPAIR_EACH * (rl_time)view->leases,
                 lease->ttl / RL_REPAIR_SHARE);
    rl_time at = rl_time_add_sat(view->now, within * (UINT8_MAX - lease->spread) / 256);
    lease->next_round = rl_min(lease->next_round, at);
    update->changed = true;
}

/* The node may vote now (safety.md, rule 7). */
void rl_lease_repair(struct rl_lease *lease, const struct rl_view *view, unsigned node,
                     struct rl_update *update)
{
    if (!(view->ready & rl_bit(node) & ~lease->holding))
        return;
    lease->round.repair_due = true;
    extend_soon(lease, view, update);
}

/* The round is won. A key that it recreated is no vote before the next one (safety.md,
   rules 5 and 7). */
static void extend_round_won(struct rl_lease *lease, const struct rl_view *view,
                             struct rl_update *update)
{
    lease->holding = lease->round.granted;
    if (lease->round.repair_due ||
        (lease->round.repairs && rl_lease_count_votes(lease, RL_VOTE_RECREATED) > 0))
        extend_soon(lease, view, update);
}

/*
 * A recreated key never counts in the round that recreated it. A late reply may still win a
 * round that was lost, if the old deadline has not passed (safety.md, rule 5).
 */
void rl_lease_decide_extend(struct rl_lease *lease, const struct rl_view *view,
                            struct rl_update *update)
{
    if (rl_lease_quorum_is_gone(lease)) {
        rl_lease_lose_quorum(lease, update);
        return;
    }
    if (lease->won) {
        extend_round_won(lease, view, update);
        return;
    }
    enum rl_round_state result = rl_round_evaluate(&lease->round, lease->params->q);
    /* A bare token has no old deadline that could end the round in time. */
    bool late = view->now >=
                rl_lease_valid_until(lease, lease->round.start) - lease->params->margin;
    switch (late && result == RL_ROUND_WON ? RL_ROUND_LOST : result) {
    case RL_ROUND_OPEN: return;
    case RL_ROUND_LOST:
        lease->decided = true;
        lease->cause = late ? RL_CAUSE_EXPIRED : RL_CAUSE_NO_QUORUM;
        report_not_extended(lease, update);
        break;
    case RL_ROUND_WON:
        lease->decided = lease->won = lease->timed = true;
        lease->valid = rl_lease_valid_until(lease, lease->round.start);
        lease->cause = RL_CAUSE_NONE;
        lease->next_round = rl_lease_extend_at(lease, lease->round.start);
        extend_round_won(lease, view, update);
        update->reports |= lease->by_request ? RL_REPORT_EXTENDED : RL_REPORT_RENEWED;
        lease->by_request = false;
        break;
    }
    if (lease->request_waits && !lease->leaving)
        rl_lease_begin_extend(lease, view, update);
}

/* (safety.md, rule 7) */
bool rl_lease_extension_is_due(const struct rl_lease *lease, rl_time now)
{
    return lease->params->extend_every > 0 && lease->timed && now >= lease->next_round &&
           lease->valid < lease->hold_until && !lease->leaving;
}

/* A deadline that is not known is not assumed (safety.md, rule 5). */
void rl_lease_adopt(struct rl_lease *lease, const struct rl_view *view,
                    const struct rl_lease_event *event)
{
    assert(lease->state == RL_LEASE_NEW);
    lease->state = RL_LEASE_HELD;
    lease->touched = lease->dirty = rl_all(lease->params->n);
    lease->decided = lease->held = true;
    lease->hold_until = rl_time_add_sat(view->now, lease->params->max_hold);
    lease->timed = event->deadline > 0;
    lease->valid = rl_min(event->deadline, lease->hold_until);
    lease->fence = event->fence;
    rl_time left = rl_max(lease->ttl, event->deadline - view->now);
    lease->until = rl_time_add_sat(view->now, 2 * left);
    lease->next_round = view->now;
}

/* The token stays on the nodes. A release that was requested is not undone
   (safety.md, rule 7). */
void rl_lease_disown(struct rl_lease *lease, struct rl_update *update)
{
    if (lease->state != RL_LEASE_HELD && lease->state != RL_LEASE_LOST)
        return;
    if (lease->by_request || lease->request_waits)
        update->reports |= RL_REPORT_NOT_EXTENDED;
    lease->by_request = lease->request_waits = false;
    lease->state = RL_LEASE_OVER;
}

void rl_lease_extend_vote(struct rl_lease *lease, const struct rl_view *view,
                          const struct rl_lease_event *event, struct rl_update *update)
{
    if (lease->state != RL_LEASE_HELD)
        return;
    /* (safety.md, rule 2) */
    if (event->seq != lease->round.seq) {
        rl_lease_note_late(lease, event, update);
        return;
    }
    rl_lease_note_ballot(lease, event);
    rl_lease_note_missing(lease, event);
    rl_round_count(&lease->round, event->node, event->vote);
    rl_lease_decide_extend(lease, view, update);
}

/*
 * The grant of a restarted node is void, whether the round is decided or not. If the node
 * has not replied yet, it does not store the token either (safety.md, rules 5 and 8).
 */
void rl_lease_node_restarted(struct rl_lease *lease, const struct rl_view *view,
                             unsigned node, struct rl_update *update)
{
    rl_node_set bit = rl_bit(node);
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
    else if (rl_lease_quorum_is_gone(lease))
        rl_lease_lose_quorum(lease, update);
    else if (!lease->decided)
        rl_lease_decide_extend(lease, view, update);
}
