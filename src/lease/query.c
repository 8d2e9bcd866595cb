/* What a caller may know of a lease: its validity, token, fence and slot, and its nodes. */
#include <stdio.h>

#include "client/explain.h"
#include "hand_over.h"
#include "handle.h"

static bool is_usable(const redlock_lease *lease)
{
    return lease && lease->first.task.loop && rl_loop_is_ours(lease->first.task.loop);
}

int64_t redlock_valid_ms(const redlock_lease *lease)
{
    const struct rl_lease *core = is_usable(lease) ? rl_handle_core(lease) : NULL;
    if (!core || lease->state == RL_HANDLE_RELEASE_WAITS)
        return 0;
    return rl_lease_left(core, rl_loop_read_clock(lease->first.task.loop)) / RL_MS;
}

unsigned redlock_slot(const redlock_lease *lease)
{
    return lease && lease->attempt ? lease->attempt->slot : 0;
}

const char *redlock_token(const redlock_lease *lease)
{
    return lease && lease->attempt ? lease->attempt->token : "";
}

uint64_t redlock_lease_number(const redlock_lease *lease)
{
    return lease ? rl_record_lease_of(lease->first.number) : 0;
}

int64_t redlock_fence(const redlock_lease *lease)
{
    const struct rl_attempt *attempt = lease ? lease->attempt : NULL;
    int64_t last = attempt ? rl_lease_fence(&attempt->lease) : 0;
    return last > 0 ? rl_fence_first(last, attempt->config->fences) : 0;
}

bool rl_hand_over_is_queued(const redlock_lease *lease)
{
    return lease->state == RL_HANDLE_RELEASE_WAITS;
}

bool rl_hand_over_is_awaited(const redlock_lease *lease)
{
    return lease->attempt && lease->attempt->has_waiters;
}

/* The node's reply came too late to count, or has not come. */
static bool is_late(const struct rl_attempt *attempt, unsigned node)
{
    const struct rl_lease *lease = &attempt->lease;
    const struct rl_ballot *ballot = &lease->ballot[node];
    rl_time timeout =
        rl_lease_node_timeout(lease->params->node_timeout, lease->ttl,
                              rl_client_of(&attempt->task)->nodes.round_trip[node]);
    bool granted = ballot->vote == RL_VOTE_GRANTED && lease->cause == RL_CAUSE_NO_QUORUM;
    return ballot->vote == RL_VOTE_SILENT || (granted && ballot->latency > timeout);
}

/* The limit that the node exceeded. */
static const char *limit_of(const struct rl_attempt *attempt, unsigned node)
{
    const struct rl_lease *lease = &attempt->lease;
    rl_time round_trip = rl_client_of(&attempt->task)->nodes.round_trip[node];
    if (lease->params->node_timeout > 0)
        return "no reply within the node timeout";
    if (rl_max(4 * round_trip, RL_NODE_TIMEOUT_MIN) > lease->ttl / RL_NODE_TIMEOUT_SHARE)
        return "no reply within a tenth of the TTL";
    return "no reply within 4 round trips, at least 50 ms";
}

size_t redlock_explain_sized(const redlock_lease *lease, redlock_node *nodes, size_t room,
                             size_t size)
{
    if (!is_usable(lease) || !lease->attempt)
        return 0;
    const struct rl_attempt *attempt = lease->attempt;
    const struct rl_key_set *set = attempt->set;
    for (unsigned i = 0; i < lease->first.config->params.n && i < room; i++) {
        redlock_node node;
        rl_client_describe(rl_client_of(&lease->first.task), i, &attempt->lease.ballot[i],
                           attempt->value ? attempt->value[i] : NULL, &node);
        if (is_late(attempt, i)) {
            node.fault = REDLOCK_FAULT_TIMEOUT;
            snprintf(node.text, sizeof(node.text), "%s", limit_of(attempt, i));
        }
        if (set && node.verdict == REDLOCK_VERDICT_HELD)
            node.key = set->order[attempt->lease.ballot[i].key];
        rl_client_put_node(&node, i, nodes, size);
    }
    return lease->first.config->params.n;
}
