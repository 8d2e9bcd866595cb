/*
 * The lease machine: the steps of all states, the deadline of the lease (rule 6), and when
 * the machine wants to run next. The other parts have the rounds and the states.
 */
#include "lease_parts.h"

#include <assert.h>

void rl_lease_init(struct rl_lease *lease, const struct rl_lease_params *params,
                   struct rl_ballot *ballot, int64_t *fences)
{
    assert(params->n >= 1 && params->n <= RL_NODES_MAX);
    /* (safety.md, Why a majority excludes) */
    assert(params->q >= rl_majority(params->n) && params->q <= params->n);
    for (unsigned node = 0; node < params->n; node++) {
        ballot[node] = (struct rl_ballot){.vote = RL_VOTE_UNASKED, .pttl = -1};
        if (fences)
            fences[node] = 0;
    }
    *lease = (struct rl_lease){
        .params = params,
        .ballot = ballot,
        .fences = fences,
        .ttl = params->ttl,
        .hold_until = RL_NEVER,
    };
}

static void vote(struct rl_lease *lease, const struct rl_view *view,
                 const struct rl_lease_event *event, struct rl_update *update)
{
    assert(event->node < lease->params->n);
    switch (event->command) {
    case RL_CMD_ACQUIRE: rl_lease_acquire_vote(lease, view, event, update); break;
    case RL_CMD_RAISE_FENCE: rl_lease_raise_vote(lease, view, event, update); break;
    case RL_CMD_EXTEND: rl_lease_extend_vote(lease, view, event, update); break;
    case RL_CMD_RELEASE: rl_lease_release_vote(lease, view, event, update); break;
    default: assert(!"a lease never sends this");
    }
}

/* Counts nodes whose timeout has passed as SILENT, and decides the round (safety.md,
   rule 1). */
static void count_silent(struct rl_lease *lease, const struct rl_view *view,
                         struct rl_update *update)
{
    lease->round.due = RL_NEVER;
    for (rl_node_set rest = lease->round.waiting; rest; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        rl_time due = rl_lease_due(lease, view, node);
        if (view->now < due) {
            lease->round.due = rl_min(lease->round.due, due);
            continue;
        }
        rl_round_count(&lease->round, node, RL_VOTE_SILENT);
        update->silent |= rl_bit(node);
        if (lease->ballot[node].vote == RL_VOTE_WAITING) {
            lease->ballot[node].vote = RL_VOTE_SILENT;
            lease->ballot[node].fault = RL_FAULT_TIMEOUT;
        }
    }
    if (lease->state == RL_LEASE_ACQUIRING)
        rl_lease_decide_acquire(lease, view, update);
    else if (lease->state == RL_LEASE_HELD && lease->round.command == RL_CMD_EXTEND &&
             !lease->decided)
        rl_lease_decide_extend(lease, view, update);
    else if (lease->state == RL_LEASE_RELEASING)
        rl_lease_decide_release(lease, view, update);
    else if (lease->state == RL_LEASE_ABORTING && !lease->round.waiting)
        rl_lease_report_failed(lease, view, update);
}

static void lease_tick(struct rl_lease *lease, const struct rl_view *view,
                       struct rl_update *update)
{
    if (lease->round.waiting)
        count_silent(lease, view, update);
    /* (safety.md, rule 7) */
    if (lease->state == RL_LEASE_HELD && !update->send && rl_lease_round_is_over(lease) &&
        rl_lease_extension_is_due(lease, view->now))
        rl_lease_begin_extend(lease, view, update);
    /* (safety.md, rule 3) */
    if (lease->state == RL_LEASE_CLEANUP && view->now >= lease->next_round)
        rl_lease_release_again(lease, view, rl_all(lease->params->n), update);
}

/* First in every step: a deadline that has passed counts, whatever event arrived
   (safety.md, rule 6). */
static void expire(struct rl_lease *lease, const struct rl_view *view,
                   struct rl_update *update)
{
    rl_time now = view->now;
    if (lease->state == RL_LEASE_HELD && now >= rl_lease_lost_at(lease))
        rl_lease_lose(
            lease, lease->valid >= lease->hold_until ? RL_CAUSE_MAX_HOLD : RL_CAUSE_EXPIRED,
            update);
    else if (lease->state == RL_LEASE_ACQUIRING &&
             now >= lease->valid - rl_lease_least_validity(lease))
        /* (safety.md, The validity and the clock) */
        rl_lease_abort(lease, view, RL_CAUSE_EXPIRED, update);
    else if (lease->state == RL_LEASE_CLEANUP && now >= lease->until)
        lease->state = RL_LEASE_OVER; /* every copy has expired (safety.md, rule 3) */
}

struct rl_update rl_lease_step(struct rl_lease *lease, const struct rl_view *view,
                               const struct rl_lease_event *event)
{
    enum rl_lease_state state = lease->state;
    struct rl_update update = {0};
    expire(lease, view, &update);
    switch (event->type) {
    case RL_EVENT_START: rl_lease_start(lease, view, &update); break;
    case RL_EVENT_ENQUEUE: rl_lease_enqueue(lease, view, &update); break;
    case RL_EVENT_ADOPT: rl_lease_adopt(lease, view, event); break;
    case RL_EVENT_VOTE: vote(lease, view, event, &update); break;
    case RL_EVENT_READY:
        if (lease->state == RL_LEASE_CLEANUP) /* (safety.md, rule 3) */
            rl_lease_release_again(lease, view, rl_bit(event->node), &update);
        else if (lease->state == RL_LEASE_HELD)
            rl_lease_repair(lease, view, event->node, &update);
        break;
    case RL_EVENT_RESTARTED:
        rl_lease_node_restarted(lease, view, event->node, &update);
        break;
    case RL_EVENT_EXTEND:
        if (lease->state != RL_LEASE_HELD)
            break;
        lease->requested_ttl = event->ttl;
        lease->request_waits = true;
        if (rl_lease_round_is_over(lease))
            rl_lease_begin_extend(lease, view, &update);
        break;
    case RL_EVENT_RELEASE: rl_lease_release(lease, view, &update); break;
    case RL_EVENT_DISOWN: rl_lease_disown(lease, &update); break;
    case RL_EVENT_EXPIRE: break;
    case RL_EVENT_TICK: lease_tick(lease, view, &update); break;
    }
    update.changed |= update.send || update.reports || lease->state != state ||
                      event->type == RL_EVENT_TICK;
    return update;
}

rl_time rl_lease_next(const struct rl_lease *lease)
{
    rl_time next = lease->round.waiting ? lease->round.due : RL_NEVER;
    switch (lease->state) {
    case RL_LEASE_ACQUIRING:
        return rl_min(next, lease->valid - rl_lease_least_validity(lease));
    case RL_LEASE_HELD:
        if (rl_lease_round_is_over(lease) &&
            rl_lease_extension_is_due(lease, lease->next_round))
            next = rl_min(next, lease->next_round);
        return rl_min(next, rl_lease_lost_at(lease));
    case RL_LEASE_ABORTING:
    case RL_LEASE_RELEASING: return next;
    case RL_LEASE_CLEANUP: return rl_min(lease->next_round, lease->until);
    default: return RL_NEVER;
    }
}

/* (safety.md, rules 2 and 3) */
bool rl_lease_resend_is_safe(const struct rl_lease *lease, enum rl_command command,
                             uint32_t seq)
{
    bool goes_on = lease->state == RL_LEASE_ACQUIRING || lease->state == RL_LEASE_HELD;
    return command == RL_CMD_RELEASE || (goes_on && seq == lease->round.seq);
}

/* (safety.md, rule 6) */
rl_time rl_lease_left(const struct rl_lease *lease, rl_time now)
{
    bool held = lease->state == RL_LEASE_HELD;
    bool ending = lease->state == RL_LEASE_LOST &&
                  (lease->cause == RL_CAUSE_EXPIRED || lease->cause == RL_CAUSE_MAX_HOLD);
    return lease->timed && (held || ending) ? rl_max(lease->valid - now, 0) : 0;
}

int64_t rl_lease_fence(const struct rl_lease *lease)
{
    return lease->held ? lease->fence : 0;
}
