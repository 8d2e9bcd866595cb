#include "member_probe.h"

#include "client/client.h"

_Static_assert((int)REDLOCK_MEMBER_ACTIVE == RL_MEMBER_ACTIVE, "in the same order");

/* True if some node knows a newer incarnation of a member than this marker's roster. */
static bool marker_is_outdated(const struct rl_roster *known,
                               const struct rl_roster *roster)
{
    for (unsigned i = 0; i < roster->n; i++)
        if (roster->deployment == known->deployment && roster->n == known->n &&
            rl_incarnation_is_newer(known->member[i], roster->member[i]))
            return true;
    return false;
}

static unsigned promises_of(const struct rl_marker *marker)
{
    return (marker->promises & RL_PROMISE_DURABLE ? REDLOCK_PROMISE_DURABLE : 0) |
           (marker->promises & RL_PROMISE_SOLE ? REDLOCK_PROMISE_SOLE : 0);
}

static void note_marker(const struct rl_membership *membership,
                        const struct rl_member *member, struct rl_member_probe *shown,
                        redlock_node_health *node)
{
    const struct rl_roster *roster = &member->marker.roster;
    bool is_ours = roster->deployment == membership->roster.deployment;
    shown->members = roster->n;
    shown->deployment = roster->deployment;
    shown->majority_deployment = membership->roster.deployment;
    shown->outdated = marker_is_outdated(&membership->roster, roster);
    shown->latest =
        is_ours ? membership->roster.member[member->marker.index].generation : 0;
    shown->same_run = rl_process_is_same_run(&member->marker.process, &member->process);
    node->member_index = member->marker.index;
    node->generation = rl_marker_self(&member->marker).generation;
    node->max_ttl_us = roster->max_ttl_ms * RL_MS;
    node->promises = promises_of(&member->marker);
}

/* Enough nodes know the incarnation of this node. */
static bool is_registered(const struct rl_membership *membership, unsigned node)
{
    return rl_count(rl_membership_knowing(membership, node)) >=
           rl_majority(membership->params.n);
}

/* The longest TTL in the markers, also if they are too few for a deployment. */
static int64_t longest_ttl_ms(const struct rl_membership *membership)
{
    int64_t longest = 0;
    for (unsigned i = 0; i < membership->params.n; i++)
        if (membership->member[i].marked)
            longest = rl_max(longest, membership->member[i].marker.roster.max_ttl_ms);
    return longest;
}

void rl_member_probe_note(const redlock_client *client, struct rl_probe *probes,
                          redlock_node_health *health)
{
    const struct rl_membership *membership = &client->members.membership;
    rl_time quarantine =
        rl_membership_quarantine_for(membership, longest_ttl_ms(membership));
    for (unsigned i = 0; i < client->nodes.n; i++) {
        const struct rl_member *member = &membership->member[i];
        struct rl_member_probe *shown = &probes[i].member;
        rl_time left = rl_membership_quarantine_left(membership, i, client->loop.now);
        shown->state = member->state;
        shown->clock = member->pace.change.error;
        shown->garbled = member->garbled;
        shown->no_run_id = client->members.refusal[i] == RL_FAULT_NO_RUN_ID;
        shown->registered = is_registered(membership, i);
        shown->quarantine = quarantine;
        health[i].member_state = (redlock_member_state)member->state;
        if (left != RL_NEVER)
            health[i].quarantine_us = left;
        if (member->greeted && member->marked)
            note_marker(membership, member, shown, &health[i]);
    }
}
