/* What all rounds of a lease share: how they begin, and how votes are noted. */
#include "lease_parts.h"

#define GOLDEN_STEP 159 /* of 256; odd, so that 256 in a row differ */

rl_time rl_lease_patience(rl_time node_timeout, rl_time ttl, rl_time round_trip)
{
    if (node_timeout > 0)
        return node_timeout;
    return rl_clamp(4 * round_trip, RL_PATIENCE_FLOOR, ttl / RL_PATIENCE_SHARE);
}

/* The validity that a won round must leave: enough to be worth it, and to be told LOST. */
rl_time rl_lease_least_validity(const struct rl_lease *lease)
{
    return rl_max(lease->terms->min_validity, lease->terms->margin + 1);
}

rl_time rl_lease_lost_at(const struct rl_lease *lease)
{
    return lease->timed ? lease->valid - lease->terms->margin : RL_NEVER;
}

rl_time rl_lease_valid_until(const struct rl_lease *lease, rl_time start)
{
    rl_time valid = rl_valid_until(start, lease->ttl, lease->terms->drift_ppm);
    return rl_min(valid, lease->hold_until);
}

uint8_t rl_lease_spread(uint64_t number)
{
    return (uint8_t)(number * GOLDEN_STEP);
}

/*
 * When the watchdog extends what was set at `start`. Leases that were acquired at one
 * moment are not all extended at one: more than the nodes can do in that would be late for
 * all.
 */
rl_time rl_lease_extend_at(const struct rl_lease *lease, rl_time start)
{
    rl_time every = rl_min(lease->terms->extend_every, lease->ttl / RL_WATCHDOG_SHARE);
    rl_time grid = rl_clamp(every / RL_EXTEND_SHARE, RL_EXTEND_GRID, RL_EXTEND_COARSE);
    rl_time early = every / RL_SPREAD_SHARE * lease->spread / 256;
    rl_time at = rl_later(start, every - early);
    return every >= 10 * RL_EXTEND_GRID ? at - at % grid : at;
}

/* When this node's answer to the round comes too late. */
rl_time rl_lease_due(const struct rl_lease *lease, const struct rl_view *view,
                     unsigned node)
{
    return rl_later(
        lease->round.start,
        rl_lease_patience(lease->terms->node_timeout, lease->ttl, view->round_trip[node]));
}

/* The least that any node may have, whatever its round trip. */
static rl_time least_patience(const struct rl_lease *lease)
{
    return rl_lease_patience(lease->terms->node_timeout, lease->ttl, 0);
}

/* Begins a round at the nodes of `ask`; a ballot is kept for each of the others too. */
void rl_lease_begin_round(struct rl_lease *lease, const struct rl_view *view,
                          enum rl_text text, rl_nodes ask, struct rl_update *update)
{
    lease->round = (struct rl_round){
        .start = view->now,
        .due = rl_later(view->now, least_patience(lease)),
        .text = text,
        .seq = lease->round.seq + 1,
        .waiting = ask,
    };
    lease->decided = lease->won = false;
    update->send = ask;
    update->text = text;
    update->seq = lease->round.seq;
    if (text == RL_ACQUIRE || text == RL_EXTEND) {
        lease->until = rl_max(lease->until, rl_later(view->now, 2 * lease->ttl));
        lease->touched |= ask;
        lease->dirty |= ask;
        lease->extended |= text == RL_EXTEND ? ask : 0;
    } else if (text == RL_RELEASE) {
        lease->unanswered |= ask;
    }
}

/* A round that asks for votes: every node gets a fresh ballot. */
void rl_lease_begin_vote(struct rl_lease *lease, const struct rl_view *view,
                         enum rl_text text, struct rl_update *update)
{
    for (unsigned node = 0; node < lease->terms->n; node++)
        lease->ballot[node] = (struct rl_ballot){
            .vote = view->ready & rl_bit(node) ? RL_VOTE_WAITING : RL_VOTE_ABSENT,
            .pttl = -1,
        };
    rl_lease_begin_round(lease, view, text, view->ready & rl_all(lease->terms->n), update);
    if (text == RL_ACQUIRE)
        lease->missing = rl_all(lease->terms->n) & ~view->ready;
}

unsigned rl_lease_count_votes(const struct rl_lease *lease, enum rl_vote vote)
{
    unsigned count = 0;
    for (unsigned node = 0; node < lease->terms->n; node++)
        count += lease->ballot[node].vote == vote;
    return count;
}

void rl_lease_note_ballot(struct rl_lease *lease, const struct rl_lease_event *event)
{
    struct rl_ballot *ballot = &lease->ballot[event->node];
    ballot->vote = event->vote;
    ballot->fault = event->fault;
    ballot->latency = (uint32_t)rl_min(event->took, UINT32_MAX);
    if (event->pttl >= 0)
        ballot->pttl = event->pttl;
    if (event->fence > 0)
        lease->fences[event->node] = event->fence;
}

/* What the vote says about whether the node stores our token. */
void rl_lease_note_missing(struct rl_lease *lease, const struct rl_lease_event *event)
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
