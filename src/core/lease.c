#include "lease_parts.h"

#include <assert.h>

void rl_lease_init(struct rl_lease *lease, const struct rl_terms *terms,
                   struct rl_ballot *ballot, int64_t *fences)
{
    assert(terms->n >= 1 && terms->n <= RL_NODES_MAX);
    assert(terms->q >= rl_majority(terms->n) && terms->q <= terms->n);
    for (unsigned node = 0; node < terms->n; node++) {
        ballot[node] = (struct rl_ballot){.vote = RL_VOTE_UNASKED, .pttl = -1};
        if (fences)
            fences[node] = 0;
    }
    *lease = (struct rl_lease){
        .terms = terms,
        .ballot = ballot,
        .fences = fences,
        .ttl = terms->ttl,
        .hold_until = RL_NEVER,
    };
}

static void vote(struct rl_lease *lease, const struct rl_view *view,
                 const struct rl_lease_event *event, struct rl_update *update)
{
    assert(event->node < lease->terms->n);
    switch (event->text) {
    case RL_ACQUIRE: rl_lease_acquire_vote(lease, view, event, update); break;
    case RL_SETTLE: rl_lease_settle_vote(lease, view, event, update); break;
    case RL_EXTEND: rl_lease_extend_vote(lease, view, event, update); break;
    case RL_RELEASE: rl_lease_release_vote(lease, view, event, update); break;
    default: assert(!"a lease never says this");
    }
}

/* Nodes that did not answer in time are votes too. */
static void count_silent(struct rl_lease *lease, const struct rl_view *view,
                         struct rl_update *update)
{
    lease->round.due = RL_NEVER;
    for (rl_nodes rest = lease->round.waiting; rest; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        rl_time due = rl_lease_due(lease, view, node);
        if (view->now < due) {
            lease->round.due = rl_min(lease->round.due, due);
            continue;
        }
        rl_round_count(&lease->round, node, RL_VOTE_SILENT);
        if (lease->ballot[node].vote == RL_VOTE_WAITING) {
            lease->ballot[node].vote = RL_VOTE_SILENT;
            lease->ballot[node].fault = RL_FAULT_TIMEOUT;
        }
    }
    if (lease->state == RL_LEASE_ACQUIRING)
        rl_lease_decide_acquire(lease, view, update);
    else if (lease->state == RL_LEASE_HELD && lease->round.text == RL_EXTEND &&
             !lease->decided)
        rl_lease_decide_extend(lease, view, update);
    else if (lease->state == RL_LEASE_RELEASING)
        rl_lease_decide_release(lease, view, update);
    else if (lease->state == RL_LEASE_BACKING_OUT && !lease->round.waiting)
        rl_lease_tell_failed(lease, view, update);
}

static void tick(struct rl_lease *lease, const struct rl_view *view,
                 struct rl_update *update)
{
    if (lease->round.waiting)
        count_silent(lease, view, update);
    if (lease->state == RL_LEASE_HELD && !update->send && rl_lease_round_is_over(lease) &&
        rl_lease_extension_is_due(lease, view->now))
        rl_lease_begin_extend(lease, view, update);
    if (lease->state == RL_LEASE_LINGERING && view->now >= lease->next_round)
        rl_lease_release_again(lease, view, rl_all(lease->terms->n), update);
}

/* Before anything else: what has run out, has run out, whatever arrived meanwhile. */
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
        rl_lease_back_out(lease, view, RL_CAUSE_EXPIRED, update);
    else if (lease->state == RL_LEASE_LINGERING && now >= lease->until)
        lease->state = RL_LEASE_OVER;
}

struct rl_update rl_lease_step(struct rl_lease *lease, const struct rl_view *view,
                               const struct rl_lease_event *event)
{
    enum rl_lease_state state = lease->state;
    bool decided = lease->decided;
    struct rl_update update = {0};
    expire(lease, view, &update);
    switch (event->type) {
    case RL_EVENT_START: rl_lease_start(lease, view, &update); break;
    case RL_EVENT_QUEUE: rl_lease_queue(lease, view, &update); break;
    case RL_EVENT_ADOPT: rl_lease_adopt(lease, view, event); break;
    case RL_EVENT_VOTE: vote(lease, view, event, &update); break;
    case RL_EVENT_READY:
        if (lease->state == RL_LEASE_LINGERING)
            rl_lease_release_again(lease, view, rl_bit(event->node), &update);
        break;
    case RL_EVENT_FORGOT: rl_lease_forget(lease, view, event->node, &update); break;
    case RL_EVENT_EXTEND:
        if (lease->state != RL_LEASE_HELD)
            break;
        lease->wished_ttl = event->ttl;
        lease->wished = true;
        if (rl_lease_round_is_over(lease))
            rl_lease_begin_extend(lease, view, &update);
        break;
    case RL_EVENT_RELEASE: rl_lease_release(lease, view, &update); break;
    case RL_EVENT_DISOWN: rl_lease_disown(lease, &update); break;
    case RL_EVENT_EXPIRE: break;
    case RL_EVENT_TICK: tick(lease, view, &update); break;
    }
    update.sooner = update.send || update.news || lease->state != state ||
                    lease->decided != decided || event->type == RL_EVENT_TICK;
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
    case RL_LEASE_BACKING_OUT:
    case RL_LEASE_RELEASING: return next;
    case RL_LEASE_LINGERING: return rl_min(lease->next_round, lease->until);
    default: return RL_NEVER;
    }
}

bool rl_lease_wants(const struct rl_lease *lease, enum rl_text text, uint32_t seq)
{
    bool goes_on = lease->state == RL_LEASE_ACQUIRING || lease->state == RL_LEASE_HELD;
    return text == RL_RELEASE || (goes_on && seq == lease->round.seq);
}

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
