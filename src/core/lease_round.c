/* Common to all rounds of a lease: how they begin, and how votes are recorded. */
#include "lease_parts.h"

/* The golden ratio of 256. It is odd, so 256 consecutive values differ. */
#define GOLDEN_STEP 159

/* (safety.md, How to operate it) */
rl_time rl_lease_node_timeout(rl_time node_timeout, rl_time ttl, rl_time round_trip)
{
    if (node_timeout > 0)
        return node_timeout;
    return rl_clamp(4 * round_trip, RL_NODE_TIMEOUT_MIN, ttl / RL_NODE_TIMEOUT_SHARE);
}

/* The validity that a won acquire must leave: min_validity, and more than the margin
   (safety.md, The validity and the clock). */
rl_time rl_lease_least_validity(const struct rl_lease *lease)
{
    return rl_max(lease->params->min_validity, lease->params->margin + 1);
}

/* (safety.md, rule 6) */
rl_time rl_lease_lost_at(const struct rl_lease *lease)
{
    return lease->timed ? lease->valid - lease->params->margin : RL_NEVER;
}

/* (safety.md, The validity and the clock, rule 7) */
rl_time rl_lease_valid_until(const struct rl_lease *lease, rl_time start)
{
    rl_time valid = rl_valid_until(start, lease->ttl, lease->params->drift_ppm);
    return rl_min(valid, lease->hold_until);
}

uint8_t rl_lease_spread(uint64_t number)
{
    return (uint8_t)(number * GOLDEN_STEP);
}

/*
 * When the watchdog extends a key that was set at `start`. Leases that were acquired at one
 * moment are extended at different times. Otherwise their number could exceed what the
 * nodes can process, and the extensions that the nodes process last would be late
 * (safety.md, rule 7).
 */
rl_time rl_lease_extend_at(const struct rl_lease *lease, rl_time start)
{
    rl_time every = rl_min(lease->params->extend_every, lease->ttl / RL_WATCHDOG_SHARE);
    rl_time grid = rl_clamp(every / RL_EXTEND_SHARE, RL_EXTEND_GRID, RL_EXTEND_COARSE);
    rl_time early = every / RL_SPREAD_SHARE * lease->spread / 256;
    rl_time at = rl_time_add_sat(start, every - early);
    return every >= 10 * RL_EXTEND_GRID ? at - at % grid : at;
}

/* When the reply of this node to the round is too late. */
rl_time rl_lease_due(const struct rl_lease *lease, const struct rl_view *view,
                     unsigned node)
{
    return rl_time_add_sat(lease->round.start,
                           rl_lease_node_timeout(lease->params->node_timeout, lease->ttl,
                                                 view->round_trip[node]));
}

/* The shortest timeout of any node, whatever its round trip. */
static rl_time least_timeout(const struct rl_lease *lease)
{
    return rl_lease_node_timeout(lease->params->node_timeout, lease->ttl, 0);
}

/* Begins a round at the nodes of `ask`; leaves all ballots unchanged. A vote of an
   earlier round does not count in it (safety.md, rule 2). */
void rl_lease_begin_round(struct rl_lease *lease, const struct rl_view *view,
                          enum rl_command command, rl_node_set ask,
                          struct rl_update *update)
{
    lease->round = (struct rl_round){
        .start = view->now,
        .due = rl_time_add_sat(view->now, least_timeout(lease)),
        .command = command,
        .seq = lease->round.seq + 1,
        .waiting = ask,
    };
    lease->decided = lease->won = false;
    update->send = ask;
    update->command = command;
    update->seq = lease->round.seq;
    if (command == RL_CMD_ACQUIRE || command == RL_CMD_EXTEND) { /* (safety.md, rule 3) */
        lease->until = rl_max(lease->until, rl_time_add_sat(view->now, 2 * lease->ttl));
        lease->touched |= ask;
        lease->dirty |= ask;
        lease->extended |= command == RL_CMD_EXTEND ? ask : 0;
    } else if (command == RL_CMD_RELEASE) {
        lease->unanswered |= ask;
    }
}

/* Begins a round that asks for votes: resets the ballot of every node. A node that
   is not ready refuses (safety.md, rules 1 and 8). */
void rl_lease_begin_vote(struct rl_lease *lease, const struct rl_view *view,
                         enum rl_command command, struct rl_update *update)
{
    for (unsigned node = 0; node < lease->params->n; node++)
        lease->ballot[node] = (struct rl_ballot){
            .vote = view->ready & rl_bit(node) ? RL_VOTE_WAITING : RL_VOTE_ABSENT,
            .pttl = -1,
        };
    rl_lease_begin_round(lease, view, command, view->ready & rl_all(lease->params->n),
                         update);
    if (command == RL_CMD_ACQUIRE)
        lease->missing = rl_all(lease->params->n) & ~view->ready;
}

unsigned rl_lease_count_votes(const struct rl_lease *lease, enum rl_vote vote)
{
    unsigned count = 0;
    for (unsigned node = 0; node < lease->params->n; node++)
        count += lease->ballot[node].vote == vote;
    return count;
}

void rl_lease_note_ballot(struct rl_lease *lease, const struct rl_lease_event *event)
{
    struct rl_ballot *ballot = &lease->ballot[event->node];
    ballot->vote = event->vote;
    ballot->fault = event->fault;
    ballot->key = event->key;
    ballot->latency = (uint32_t)rl_min(event->took, UINT32_MAX);
    if (event->pttl >= 0)
        ballot->pttl = event->pttl;
    if (event->fence > 0)
        lease->fences[event->node] = event->fence;
}

/* Records whether the vote shows that the node stores our token (safety.md, rule 5). */
void rl_lease_note_missing(struct rl_lease *lease, const struct rl_lease_event *event)
{
    rl_node_set bit = rl_bit(event->node);
    switch (event->vote) {
    case RL_VOTE_GRANTED: lease->missing &= ~bit; break;
    case RL_VOTE_ERROR:
        if (event->command == RL_CMD_ACQUIRE)
            lease->missing |= bit;
        break;
    case RL_VOTE_HELD:
    case RL_VOTE_GONE:
    case RL_VOTE_RECREATED: lease->missing |= bit; break;
    default: break;
    }
}
