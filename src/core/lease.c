#include "lease.h"

#include <assert.h>
#include <string.h>

void rl_lease_init(struct rl_lease *lease, const struct rl_terms *terms,
                   struct rl_ballot *ballot)
{
    assert(terms->n >= 1 && terms->n <= RL_NODES_MAX);
    assert(terms->q >= rl_majority(terms->n) && terms->q <= terms->n);
    memset(lease, 0, sizeof(*lease));
    memset(ballot, 0, terms->n * sizeof(*ballot));
    lease->terms = *terms;
    lease->ballot = ballot;
    lease->hold_until = RL_NEVER;
}

rl_time rl_lease_patience(const struct rl_terms *terms, rl_time round_trip)
{
    if (terms->node_timeout > 0)
        return terms->node_timeout;
    return rl_clamp(4 * round_trip, RL_PATIENCE_FLOOR, terms->ttl / RL_PATIENCE_SHARE);
}

/* The validity that a won round must leave: enough to be worth it, and to be told LOST. */
static rl_time least_validity(const struct rl_lease *lease)
{
    return rl_max(lease->terms.min_validity, lease->terms.margin + 1);
}

static rl_time lost_at(const struct rl_lease *lease)
{
    return lease->timed ? lease->valid - lease->terms.margin : RL_NEVER;
}

static rl_time valid_until(const struct rl_lease *lease, rl_time start)
{
    rl_time valid = rl_valid_until(start, lease->terms.ttl, lease->terms.drift_ppm);
    return rl_min(valid, lease->hold_until);
}

/* When the watchdog extends what was set at `start`. */
static rl_time extend_at(const struct rl_lease *lease, rl_time start)
{
    rl_time every = rl_min(lease->terms.extend_every, lease->terms.ttl / RL_WATCHDOG_SHARE);
    rl_time at = rl_later(start, every);
    bool coarse = every >= 10 * RL_EXTEND_GRID;
    return coarse ? at - at % RL_EXTEND_GRID : at;
}

/* Begins a round at the nodes of `ask`; a ballot is kept for each of the others too. */
static void begin_round(struct rl_lease *lease, const struct rl_view *view,
                        enum rl_text text, rl_nodes ask, struct rl_update *update)
{
    const struct rl_terms *terms = &lease->terms;
    lease->round = (struct rl_round){
        .start = view->now,
        .text = text,
        .seq = lease->round.seq + 1,
        .waiting = ask,
        .refused = rl_all(terms->n) & ~ask,
    };
    lease->decided = lease->won = false;
    for (rl_nodes rest = ask; rest; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        rl_time patience = rl_lease_patience(terms, view->round_trip[node]);
        lease->ballot[node].patience = (uint32_t)rl_min(patience, UINT32_MAX);
    }
    update->send = ask;
    update->text = text;
    update->seq = lease->round.seq;
    if (text == RL_ACQUIRE || text == RL_EXTEND) {
        lease->until = rl_max(lease->until, rl_later(view->now, 2 * terms->ttl));
        lease->touched |= ask;
        lease->dirty |= ask;
        lease->extended |= text == RL_EXTEND ? ask : 0;
    } else {
        lease->unanswered |= ask;
    }
}

/* A round that asks for votes: every node gets a fresh ballot. */
static void begin_vote(struct rl_lease *lease, const struct rl_view *view,
                       enum rl_text text, struct rl_update *update)
{
    for (unsigned node = 0; node < lease->terms.n; node++)
        lease->ballot[node] = (struct rl_ballot){
            .vote = view->ready & rl_bit(node) ? RL_VOTE_WAITING : RL_VOTE_ABSENT,
            .pttl = -1,
        };
    begin_round(lease, view, text, view->ready & rl_all(lease->terms.n), update);
    if (text == RL_ACQUIRE)
        lease->missing = rl_all(lease->terms.n) & ~view->ready;
}

/* The round that takes the token away, everywhere that it may be and can be said. */
static void begin_release(struct rl_lease *lease, const struct rl_view *view,
                          struct rl_update *update)
{
    begin_round(lease, view, RL_RELEASE, lease->touched & view->open, update);
}

/* All is told. What may still store the token is released later, or expires. */
static void linger(struct rl_lease *lease, rl_time now)
{
    if (!lease->dirty) {
        lease->state = RL_LEASE_OVER;
        return;
    }
    lease->state = RL_LEASE_LINGERING;
    lease->next_linger = rl_later(now, RL_LINGER_GAP);
}

/* --- acquiring --- */

static unsigned count_votes(const struct rl_lease *lease, enum rl_vote vote)
{
    unsigned count = 0;
    for (unsigned node = 0; node < lease->terms.n; node++)
        count += lease->ballot[node].vote == vote;
    return count;
}

static void tell_failed(struct rl_lease *lease, const struct rl_view *view,
                        struct rl_update *update)
{
    if (lease->cause == RL_CAUSE_NONE) {
        unsigned held = count_votes(lease, RL_VOTE_HELD);
        unsigned granted = count_votes(lease, RL_VOTE_GRANTED);
        lease->cause = held > 0 && held + granted >= lease->terms.q ? RL_CAUSE_TAKEN
                                                                    : RL_CAUSE_NO_QUORUM;
    }
    update->news |= RL_NEWS_FAILED;
    linger(lease, view->now);
}

static void back_out(struct rl_lease *lease, const struct rl_view *view,
                     enum rl_cause cause, struct rl_update *update)
{
    lease->cause = cause;
    lease->state = RL_LEASE_BACKING_OUT;
    begin_release(lease, view, update);
    if (cause == RL_CAUSE_CANCELLED || !lease->round.waiting)
        tell_failed(lease, view, update);
}

static void decide_acquire(struct rl_lease *lease, const struct rl_view *view,
                           struct rl_update *update)
{
    switch (rl_round_result(&lease->round, lease->terms.q)) {
    case RL_OPEN: return;
    case RL_LOST: back_out(lease, view, RL_CAUSE_NONE, update); return;
    case RL_WON: break;
    }
    lease->decided = true;
    lease->state = RL_LEASE_HELD;
    lease->timed = true;
    lease->holding = lease->round.granted;
    lease->next_extend = extend_at(lease, lease->round.start);
    update->news |= RL_NEWS_HELD;
}

static void start(struct rl_lease *lease, const struct rl_view *view,
                  struct rl_update *update)
{
    assert(lease->state == RL_LEASE_NEW);
    lease->state = RL_LEASE_ACQUIRING;
    lease->hold_until = rl_later(view->now, lease->terms.max_hold);
    lease->valid = valid_until(lease, view->now);
    if (rl_count(view->ready & rl_all(lease->terms.n)) < lease->terms.q) {
        struct rl_update nothing = {0};
        struct rl_view nobody = *view;
        nobody.ready = 0;
        begin_vote(lease, &nobody, RL_ACQUIRE, &nothing);
        tell_failed(lease, view, update);
        return;
    }
    begin_vote(lease, view, RL_ACQUIRE, update);
}

/* --- held --- */

/* Nobody's vote is needed any more: a new round may begin, whoever is silent in the old. */
static bool round_is_over(const struct rl_lease *lease)
{
    return lease->decided || !lease->round.waiting;
}

static void lose(struct rl_lease *lease, enum rl_cause cause, struct rl_update *update)
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
static void begin_extend(struct rl_lease *lease, const struct rl_view *view,
                         struct rl_update *update)
{
    bool reachable = rl_count(view->ready & rl_all(lease->terms.n)) >= lease->terms.q;
    if (reachable && lease->wished_ttl > 0)
        lease->terms.ttl = lease->wished_ttl;
    lease->asked = lease->wished;
    lease->wished = false;
    lease->wished_ttl = 0;
    lease->next_extend =
        rl_later(view->now, rl_max(lease->terms.ttl / RL_RETRY_SHARE, RL_MS));
    if (!reachable) {
        lease->cause = RL_CAUSE_NO_QUORUM;
        tell_not_extended(lease, update);
        return;
    }
    begin_vote(lease, view, RL_EXTEND, update);
    update->plant = lease->timed;
    /* A shorter TTL takes effect wherever it arrives, won or lost. */
    if (lease->timed)
        lease->valid = rl_min(lease->valid, valid_until(lease, view->now));
}

/* Another may have got a majority, on nodes that are known not to have our key: LOST. */
static bool majority_is_gone(const struct rl_lease *lease)
{
    return rl_count(lease->missing) >= rl_majority(lease->terms.n);
}

static void lose_majority(struct rl_lease *lease, struct rl_update *update)
{
    bool taken = lease->round.text == RL_EXTEND && count_votes(lease, RL_VOTE_HELD) > 0;
    lose(lease, taken ? RL_CAUSE_TAKEN : RL_CAUSE_GONE, update);
}

/*
 * A planted key never counts in its own round. A node that was slow may still complete a
 * round that was thought lost, as long as the old deadline has not passed.
 */
static void decide_extend(struct rl_lease *lease, const struct rl_view *view,
                          struct rl_update *update)
{
    if (majority_is_gone(lease)) {
        lose_majority(lease, update);
        return;
    }
    if (lease->won) {
        lease->holding = lease->round.granted;
        return;
    }
    enum rl_result result = rl_round_result(&lease->round, lease->terms.q);
    /* A bare token has no old deadline that would have ended the round in time. */
    bool late = view->now >= valid_until(lease, lease->round.start) - lease->terms.margin;
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
        lease->valid = valid_until(lease, lease->round.start);
        lease->cause = RL_CAUSE_NONE;
        lease->next_extend = extend_at(lease, lease->round.start);
        update->news |= lease->asked ? RL_NEWS_EXTENDED : RL_NEWS_RENEWED;
        lease->asked = false;
        break;
    }
    if (lease->wished)
        begin_extend(lease, view, update);
}

/* --- releasing --- */

/* Judged once all have answered, or by q that deleted our key. */
static void decide_release(struct rl_lease *lease, const struct rl_view *view,
                           struct rl_update *update)
{
    const struct rl_terms *terms = &lease->terms;
    unsigned done = count_votes(lease, RL_VOTE_GRANTED);
    if (done < terms->q && lease->round.waiting)
        return;
    unsigned taken = count_votes(lease, RL_VOTE_HELD);
    unsigned gone = count_votes(lease, RL_VOTE_GONE) + count_votes(lease, RL_VOTE_UNASKED);
    if (done + gone + taken < terms->q)
        lease->cause = RL_CAUSE_UNCONFIRMED;
    else if (done > 0 && taken < terms->q)
        lease->cause = RL_CAUSE_NONE;
    else
        lease->cause = taken > 0 ? RL_CAUSE_TAKEN : RL_CAUSE_GONE;
    update->news |= RL_NEWS_RELEASED;
    linger(lease, view->now);
}

static void release(struct rl_lease *lease, const struct rl_view *view,
                    struct rl_update *update)
{
    switch (lease->state) {
    case RL_LEASE_NEW: lease->state = RL_LEASE_OVER; return;
    case RL_LEASE_ACQUIRING: back_out(lease, view, RL_CAUSE_CANCELLED, update); return;
    case RL_LEASE_BACKING_OUT:
        lease->cause = RL_CAUSE_CANCELLED;
        tell_failed(lease, view, update);
        return;
    case RL_LEASE_HELD:
    case RL_LEASE_LOST: break;
    default: return;
    }
    if (lease->asked || lease->wished)
        update->news |= RL_NEWS_NOT_EXTENDED;
    lease->asked = lease->wished = false;
    lease->state = RL_LEASE_RELEASING;
    for (unsigned node = 0; node < lease->terms.n; node++) {
        rl_nodes bit = rl_bit(node);
        lease->ballot[node] = (struct rl_ballot){
            .vote = !(lease->touched & bit) ? RL_VOTE_UNASKED
                    : view->open & bit      ? RL_VOTE_WAITING
                                            : RL_VOTE_ABSENT,
            .pttl = -1,
        };
    }
    begin_release(lease, view, update);
    decide_release(lease, view, update);
}

/* Says the release again where it was not confirmed and nothing is under way. */
static void release_again(struct rl_lease *lease, const struct rl_view *view,
                          rl_nodes where, struct rl_update *update)
{
    rl_nodes again = where & lease->dirty & view->open & ~lease->unanswered;
    lease->next_linger = rl_later(view->now, RL_LINGER_GAP);
    if (again)
        begin_round(lease, view, RL_RELEASE, again, update);
}

/* The holder goes and the token stays. A release that was asked for is not taken back. */
static void disown(struct rl_lease *lease, struct rl_update *update)
{
    if (lease->state != RL_LEASE_HELD && lease->state != RL_LEASE_LOST)
        return;
    if (lease->asked || lease->wished)
        update->news |= RL_NEWS_NOT_EXTENDED;
    lease->asked = lease->wished = false;
    lease->state = RL_LEASE_OVER;
}

/* --- events --- */

static void note_ballot(struct rl_lease *lease, const struct rl_lease_event *event)
{
    struct rl_ballot *ballot = &lease->ballot[event->node];
    ballot->vote = event->vote;
    ballot->fault = event->fault;
    ballot->latency = (uint32_t)rl_min(event->took, UINT32_MAX);
    if (event->pttl >= 0)
        ballot->pttl = event->pttl;
}

/* What the vote says about whether the node stores our token. */
static void note_missing(struct rl_lease *lease, const struct rl_lease_event *event)
{
    rl_nodes bit = rl_bit(event->node);
    switch (event->vote) {
    case RL_VOTE_GRANTED: lease->missing &= ~bit; break;
    case RL_VOTE_ERROR:
        if (event->text == RL_ACQUIRE)
            lease->missing |= bit;
        break;
    case RL_VOTE_HELD:
    case RL_VOTE_GONE:
    case RL_VOTE_PLANTED: lease->missing |= bit; break;
    default: break;
    }
}

/* A restarted node's grant is void, whether the round is decided or not. */
static void forget(struct rl_lease *lease, const struct rl_view *view, unsigned node,
                   struct rl_update *update)
{
    rl_nodes bit = rl_bit(node);
    bool granted = lease->round.granted & bit;
    bool acquiring = lease->state == RL_LEASE_ACQUIRING && granted;
    if (!acquiring && lease->state != RL_LEASE_HELD)
        return;
    lease->missing |= bit;
    lease->holding &= ~bit;
    if (granted) {
        lease->ballot[node].vote = RL_VOTE_GONE;
        rl_round_count(&lease->round, node, RL_VOTE_GONE);
    }
    if (acquiring)
        decide_acquire(lease, view, update);
    else if (majority_is_gone(lease))
        lose_majority(lease, update);
    else if (!lease->decided)
        decide_extend(lease, view, update);
}

static void acquire_vote(struct rl_lease *lease, const struct rl_view *view,
                         const struct rl_lease_event *event, struct rl_update *update)
{
    bool stored_nothing = event->vote == RL_VOTE_HELD || event->vote == RL_VOTE_ERROR;
    if (stored_nothing && !(lease->extended & rl_bit(event->node)))
        lease->dirty &= ~rl_bit(event->node);
    switch (lease->state) {
    case RL_LEASE_ACQUIRING:
        note_ballot(lease, event);
        note_missing(lease, event);
        rl_round_count(&lease->round, event->node, event->vote);
        decide_acquire(lease, view, update);
        break;
    case RL_LEASE_BACKING_OUT: note_ballot(lease, event); break;
    case RL_LEASE_HELD:
        if (event->seq != lease->round.seq)
            break;
        note_ballot(lease, event);
        note_missing(lease, event);
        rl_round_count(&lease->round, event->node, event->vote);
        lease->holding = lease->round.granted;
        if (majority_is_gone(lease))
            lose_majority(lease, update);
        break;
    case RL_LEASE_LINGERING:
        if (!lease->dirty)
            lease->state = RL_LEASE_OVER;
        break;
    default: break;
    }
}

static void extend_vote(struct rl_lease *lease, const struct rl_view *view,
                        const struct rl_lease_event *event, struct rl_update *update)
{
    if (lease->state != RL_LEASE_HELD || event->seq != lease->round.seq)
        return;
    note_ballot(lease, event);
    note_missing(lease, event);
    rl_round_count(&lease->round, event->node, event->vote);
    decide_extend(lease, view, update);
}

static void release_vote(struct rl_lease *lease, const struct rl_view *view,
                         const struct rl_lease_event *event, struct rl_update *update)
{
    rl_nodes bit = rl_bit(event->node);
    lease->unanswered &= ~bit;
    if (event->vote == RL_VOTE_GRANTED || event->vote == RL_VOTE_GONE ||
        event->vote == RL_VOTE_HELD)
        lease->dirty &= ~bit;
    switch (lease->state) {
    case RL_LEASE_BACKING_OUT: /* the ballots keep what the acquire was told */
        lease->round.waiting &= ~bit;
        if (event->pttl >= 0)
            lease->ballot[event->node].pttl = event->pttl;
        if (event->vote == RL_VOTE_HELD && lease->ballot[event->node].vote == RL_VOTE_HELD)
            lease->ballot[event->node].fault = event->fault; /* what it is that is there */
        if (!lease->round.waiting)
            tell_failed(lease, view, update);
        break;
    case RL_LEASE_RELEASING:
        note_ballot(lease, event);
        rl_round_count(&lease->round, event->node, event->vote);
        decide_release(lease, view, update);
        break;
    case RL_LEASE_LINGERING:
        lease->round.waiting &= ~bit;
        if (!lease->dirty)
            lease->state = RL_LEASE_OVER;
        break;
    default: break;
    }
}

static void vote(struct rl_lease *lease, const struct rl_view *view,
                 const struct rl_lease_event *event, struct rl_update *update)
{
    assert(event->node < lease->terms.n);
    switch (event->text) {
    case RL_ACQUIRE: acquire_vote(lease, view, event, update); break;
    case RL_EXTEND: extend_vote(lease, view, event, update); break;
    case RL_RELEASE: release_vote(lease, view, event, update); break;
    default: assert(!"a lease never says this");
    }
}

/* Nodes that did not answer in time are votes too. */
static void count_silent(struct rl_lease *lease, const struct rl_view *view,
                         struct rl_update *update)
{
    for (rl_nodes rest = lease->round.waiting; rest; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        rl_time due = lease->round.start + lease->ballot[node].patience;
        if (view->now < due)
            continue;
        rl_round_count(&lease->round, node, RL_VOTE_SILENT);
        if (lease->ballot[node].vote == RL_VOTE_WAITING) {
            lease->ballot[node].vote = RL_VOTE_SILENT;
            lease->ballot[node].fault = RL_FAULT_TIMEOUT;
        }
    }
    if (lease->state == RL_LEASE_ACQUIRING)
        decide_acquire(lease, view, update);
    else if (lease->state == RL_LEASE_HELD && lease->round.text == RL_EXTEND &&
             !lease->decided)
        decide_extend(lease, view, update);
    else if (lease->state == RL_LEASE_RELEASING)
        decide_release(lease, view, update);
    else if (lease->state == RL_LEASE_BACKING_OUT && !lease->round.waiting)
        tell_failed(lease, view, update);
}

static bool extension_is_due(const struct rl_lease *lease, rl_time now)
{
    return lease->terms.extend_every > 0 && lease->timed && now >= lease->next_extend &&
           lease->valid < lease->hold_until;
}

static void tick(struct rl_lease *lease, const struct rl_view *view,
                 struct rl_update *update)
{
    if (lease->round.waiting)
        count_silent(lease, view, update);
    if (lease->state == RL_LEASE_HELD && !update->send && round_is_over(lease) &&
        extension_is_due(lease, view->now))
        begin_extend(lease, view, update);
    if (lease->state == RL_LEASE_LINGERING && view->now >= lease->next_linger)
        release_again(lease, view, rl_all(lease->terms.n), update);
}

/* Before anything else: what has run out, has run out, whatever arrived meanwhile. */
static void expire(struct rl_lease *lease, const struct rl_view *view,
                   struct rl_update *update)
{
    rl_time now = view->now;
    if (lease->state == RL_LEASE_HELD && now >= lost_at(lease))
        lose(lease,
             lease->valid >= lease->hold_until ? RL_CAUSE_MAX_HOLD : RL_CAUSE_EXPIRED,
             update);
    else if (lease->state == RL_LEASE_ACQUIRING &&
             now >= lease->valid - least_validity(lease))
        back_out(lease, view, RL_CAUSE_EXPIRED, update);
    else if (lease->state == RL_LEASE_LINGERING && now >= lease->until)
        lease->state = RL_LEASE_OVER;
}

static void adopt(struct rl_lease *lease, const struct rl_view *view, rl_time deadline)
{
    assert(lease->state == RL_LEASE_NEW);
    lease->state = RL_LEASE_HELD;
    lease->touched = lease->dirty = rl_all(lease->terms.n);
    lease->decided = true;
    lease->hold_until = rl_later(view->now, lease->terms.max_hold);
    lease->timed = deadline > 0;
    lease->valid = rl_min(deadline, lease->hold_until);
    lease->until = rl_later(view->now, 2 * lease->terms.ttl);
    lease->next_extend = view->now;
}

struct rl_update rl_lease_step(struct rl_lease *lease, const struct rl_view *view,
                               const struct rl_lease_event *event)
{
    struct rl_update update = {0};
    expire(lease, view, &update);
    switch (event->type) {
    case RL_EVENT_START: start(lease, view, &update); break;
    case RL_EVENT_ADOPT: adopt(lease, view, event->deadline); break;
    case RL_EVENT_VOTE: vote(lease, view, event, &update); break;
    case RL_EVENT_READY:
        if (lease->state == RL_LEASE_LINGERING)
            release_again(lease, view, rl_bit(event->node), &update);
        break;
    case RL_EVENT_FORGOT: forget(lease, view, event->node, &update); break;
    case RL_EVENT_EXTEND:
        if (lease->state != RL_LEASE_HELD)
            break;
        lease->wished_ttl = event->ttl;
        lease->wished = true;
        if (round_is_over(lease))
            begin_extend(lease, view, &update);
        break;
    case RL_EVENT_RELEASE: release(lease, view, &update); break;
    case RL_EVENT_DISOWN: disown(lease, &update); break;
    case RL_EVENT_EXPIRE: break;
    case RL_EVENT_TICK: tick(lease, view, &update); break;
    }
    return update;
}

rl_time rl_lease_next(const struct rl_lease *lease)
{
    rl_time next = RL_NEVER;
    for (rl_nodes rest = lease->round.waiting; rest; rest &= rest - 1)
        next = rl_min(next, lease->round.start + lease->ballot[rl_first(rest)].patience);
    switch (lease->state) {
    case RL_LEASE_ACQUIRING: return rl_min(next, lease->valid - least_validity(lease));
    case RL_LEASE_HELD:
        if (round_is_over(lease) && extension_is_due(lease, lease->next_extend))
            next = rl_min(next, lease->next_extend);
        return rl_min(next, lost_at(lease));
    case RL_LEASE_BACKING_OUT:
    case RL_LEASE_RELEASING: return next;
    case RL_LEASE_LINGERING: return rl_min(lease->next_linger, lease->until);
    default: return RL_NEVER;
    }
}

rl_time rl_lease_left(const struct rl_lease *lease, rl_time now)
{
    bool held = lease->state == RL_LEASE_HELD;
    bool ending = lease->state == RL_LEASE_LOST &&
                  (lease->cause == RL_CAUSE_EXPIRED || lease->cause == RL_CAUSE_MAX_HOLD);
    return lease->timed && (held || ending) ? rl_max(lease->valid - now, 0) : 0;
}
