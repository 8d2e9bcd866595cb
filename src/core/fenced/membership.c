#include "membership_parts.h"

#include <string.h>

#include "admission.h"
#include "core/quorum.h"

void rl_membership_init(struct rl_membership *membership,
                        const struct rl_membership_params *params)
{
    memset(membership, 0, sizeof(*membership));
    membership->params = *params;
    for (unsigned i = 0; i < params->n; i++) {
        membership->member[i].look_at = RL_NEVER;
        membership->member[i].watch.since = RL_NEVER;
    }
}

/* (safety.md, The token) */
rl_time rl_membership_quarantine_for(const struct rl_membership *membership,
                                     int64_t max_ttl_ms)
{
    rl_time ttl = max_ttl_ms * RL_MS;
    rl_time drift = ttl - rl_valid_until(0, ttl, membership->params.drift_ppm);
    rl_time longest = rl_max(ttl + drift, 2 * RL_KAPPA + RL_SECOND);
    return longest + longest / RL_CLOCK_SHARE;
}

rl_time rl_membership_quarantine(const struct rl_membership *membership)
{
    return rl_membership_quarantine_for(membership, membership->roster.max_ttl_ms);
}

rl_node_set rl_membership_in_states(const struct rl_membership *membership, unsigned states)
{
    rl_node_set nodes = 0;
    for (unsigned i = 0; i < membership->params.n; i++)
        if (states >> membership->member[i].state & 1)
            nodes |= rl_bit(i);
    return nodes;
}

rl_node_set rl_membership_active(const struct rl_membership *membership)
{
    return rl_membership_in_states(membership, RL_STATE_BIT(ACTIVE));
}

bool rl_membership_has_majority(const struct rl_membership *membership)
{
    return rl_count(rl_membership_active(membership)) >= rl_majority(membership->params.n);
}

/* (safety.md, The marker) */
void rl_membership_nonce(const struct rl_membership *membership, unsigned node,
                         char ret_nonce[RL_NONCE])
{
    const struct rl_member *member = &membership->member[node];
    if (member->state == RL_MEMBER_ACTIVE)
        rl_marker_nonce(member->nonce, ret_nonce);
    else
        memset(ret_nonce, '-', RL_NONCE);
}

/* --- the state of each node --- */

static bool is_ours(const struct rl_membership *membership, const struct rl_member *member)
{
    const struct rl_roster *roster = &member->marker.roster;
    return member->marked && roster->n == membership->params.n &&
           roster->deployment == membership->roster.deployment;
}

/* The number of greeted nodes with a marker of this node's deployment. */
static unsigned count_same(const struct rl_membership *membership,
                           const struct rl_member *as)
{
    const struct rl_roster *roster = &as->marker.roster;
    unsigned same = 0;
    for (unsigned i = 0; i < membership->params.n; i++) {
        const struct rl_member *member = &membership->member[i];
        same += member->greeted && member->marked && member->marker.roster.n == roster->n &&
                member->marker.roster.deployment == roster->deployment;
    }
    return same;
}

/*
 * Binds the client to the deployment that the markers of a majority name. The client stays
 * bound until a majority names another one. Then the old deployment was lost and a new one
 * was made, and this client knows no more than a new client (safety.md, The marker).
 */
static void bind(struct rl_membership *membership)
{
    unsigned n = membership->params.n;
    bool founds =
        membership->bootstrapping | membership->rolling_back || membership->lost_race;
    for (unsigned i = 0; i < n && !founds; i++) {
        const struct rl_member *member = &membership->member[i];
        const struct rl_roster *roster = &member->marker.roster;
        if (!member->greeted || !member->marked || roster->n != n ||
            roster->deployment == membership->roster.deployment ||
            count_same(membership, member) < rl_majority(n))
            continue;
        membership->roster = *roster;
        for (unsigned j = 0; j < n; j++)
            membership->member[j].last.generation = 0;
        return;
    }
}

/* A node has the latest incarnation of this index, may still report it, or would get the
   index back. */
static bool is_open(const struct rl_membership *membership, unsigned index)
{
    struct rl_incarnation latest = membership->roster.member[index];
    for (unsigned i = 0; i < membership->params.n; i++) {
        const struct rl_member *member = &membership->member[i];
        bool had_it = member->index == index && rl_incarnation_equal(member->last, latest);
        bool reported_all = is_ours(membership, member) &&
                            member->nonce == member->marker.nonce && !member->unconfirmed;
        if (had_it || !reported_all ||
            !rl_incarnation_is_newer(latest, member->marker.roster.member[index]))
            return true;
    }
    return false;
}

/*
 * Drops incarnations that no node has. An incarnation can be lost before any other client
 * reads it. Its member index may then go to another server with an incarnation that is not
 * newer, and that server would never get a vote from this client. So if all nodes have
 * reported what they know and none has the incarnation, this client drops it, and also what
 * it watched of quarantines. It then knows no more than a new client, which has watched
 * nothing either (safety.md, How a node comes back).
 */
static void unlearn(struct rl_membership *membership)
{
    bool any = false;
    for (unsigned index = 0; index < membership->params.n; index++) {
        if (is_open(membership, index))
            continue;
        membership->roster.member[index] = (struct rl_incarnation){0};
        any = true;
    }
    for (unsigned i = 0; any && i < membership->params.n; i++)
        membership->member[i].watch = (struct rl_quarantine_watch){.since = RL_NEVER};
}

/* (safety.md, Promises) */
uint32_t rl_membership_promises(const struct rl_membership *membership, unsigned node)
{
    const struct rl_marker *last = &membership->member[node].marker;
    bool ours = membership->roster.deployment &&
                last->roster.deployment == membership->roster.deployment;
    return ours ? last->promises : 0;
}

bool rl_membership_is_promised(const struct rl_membership *membership, uint32_t promise)
{
    unsigned count = 0;
    for (unsigned i = 0; i < membership->params.n; i++)
        count += (rl_membership_promises(membership, i) & promise) != 0;
    return count >= rl_majority(membership->params.n);
}

/* Another node has the same marker: one of them is a copy. */
static bool has_twin(const struct rl_membership *membership, const struct rl_member *member)
{
    for (unsigned i = 0; i < membership->params.n; i++) {
        const struct rl_member *other = &membership->member[i];
        if (other != member && other->greeted && is_ours(membership, other) &&
            rl_incarnation_equal(rl_marker_self(&other->marker),
                                 rl_marker_self(&member->marker)))
            return true;
    }
    return false;
}

/* The marker was written for this process, or the operator promised that the node keeps
   its data, and nothing refutes that (safety.md, Durable nodes). */
static bool is_of_process(const struct rl_membership *membership,
                          const struct rl_member *member)
{
    if (rl_process_equal(&member->marker.process, &member->process))
        return true;
    return member->marker.promises & RL_PROMISE_DURABLE && member->keeps_data &&
           !has_twin(membership, member);
}

/* (safety.md, The marker) */
static enum rl_member_state membership_state_of(const struct rl_membership *membership,
                                                unsigned node)
{
    const struct rl_member *member = &membership->member[node];
    const struct rl_marker *marker = &member->marker;
    if (!member->greeted)
        return RL_MEMBER_UNSEEN;
    if (member->garbled || (member->marked && marker->roster.n != membership->params.n))
        return RL_MEMBER_OTHER_DEPLOYMENT;
    if (!member->marked)
        return RL_MEMBER_UNMARKED;
    if (marker->retired)
        return RL_MEMBER_REPLACED;
    if (!membership->roster.deployment)
        return RL_MEMBER_NO_MAJORITY;
    if (!is_ours(membership, member))
        return RL_MEMBER_OTHER_DEPLOYMENT;
    if (rl_incarnation_is_newer(membership->roster.member[marker->index],
                                rl_marker_self(marker)))
        return RL_MEMBER_REPLACED;
    if (!is_of_process(membership, member))
        return RL_MEMBER_OTHER_PROCESS;
    if (!marker->active)
        return RL_MEMBER_QUARANTINED;
    /* A command that assigns an index is under way: no vote, even if the clock is trusted
       again. */
    if (membership->doubted & rl_bit(node) || member->claims)
        return RL_MEMBER_CLOCK;
    return member->unconfirmed ? RL_MEMBER_UNCONFIRMED : RL_MEMBER_ACTIVE;
}

/* (safety.md, How a node comes back) */
bool rl_membership_is_recovering(const struct rl_membership *membership)
{
    enum rl_admission_mode mode = membership->admission.mode;
    bool attested = mode >= RL_ADMIT_NEW && mode <= RL_ADMIT_READMIT;
    if (!attested && !rl_membership_is_promised(membership, RL_PROMISE_SOLE))
        return false;
    rl_node_set active = rl_membership_active(membership);
    rl_node_set quarantined =
        rl_membership_in_states(membership, RL_STATE_BIT(QUARANTINED));
    return !rl_membership_has_majority(membership) &&
           (active | quarantined) == rl_all(membership->params.n);
}

/* (safety.md, How a node comes back) */
rl_node_set rl_membership_knowing(const struct rl_membership *membership, unsigned node)
{
    const struct rl_marker *newest = &membership->member[node].marker;
    struct rl_incarnation self = rl_marker_self(newest);
    rl_node_set fit = rl_membership_is_recovering(membership)
                          ? rl_all(membership->params.n)
                          : rl_membership_active(membership) & ~rl_bit(node);
    rl_node_set nodes = 0;
    for (rl_node_set rest = fit; rest; rest &= rest - 1) {
        unsigned i = rl_first(rest);
        const struct rl_roster *roster = &membership->member[i].marker.roster;
        if (!rl_incarnation_is_newer(self, roster->member[newest->index]))
            nodes |= rl_bit(i);
    }
    return nodes;
}

/*
 * An incarnation is registered when a majority has it *at one moment*. Otherwise a node
 * that had it could forget it before the next node gets it. So when enough nodes have it,
 * the client reads their markers once more: the moment lies between the two reads
 * (safety.md, How a node comes back).
 */
static void watch(struct rl_membership *membership, unsigned node, rl_time now)
{
    struct rl_member *member = &membership->member[node];
    struct rl_quarantine_watch *watch = &member->watch;
    struct rl_incarnation self = rl_marker_self(&member->marker);
    if (member->state != RL_MEMBER_QUARANTINED || !rl_incarnation_equal(watch->of, self))
        *watch = (struct rl_quarantine_watch){.of = self, .since = RL_NEVER};
    if (member->state != RL_MEMBER_QUARANTINED || watch->since != RL_NEVER)
        return;
    unsigned enough = rl_membership_is_recovering(membership)
                          ? membership->params.n
                          : rl_majority(membership->params.n);
    rl_node_set nodes = rl_membership_knowing(membership, node);
    watch->witnesses &= nodes;
    if (rl_count(watch->witnesses & watch->confirmed) >= enough) {
        watch->since = watch->asked;
        return;
    }
    if (rl_count(watch->witnesses) < enough && rl_count(nodes) >= enough) {
        watch->witnesses = nodes;
        watch->confirmed = 0;
        watch->asked = now + 1; /* of two events with equal times any may be the first */
    }
    for (nodes = watch->witnesses & ~watch->confirmed; nodes; nodes &= nodes - 1) {
        struct rl_member *witness = &membership->member[rl_first(nodes)];
        witness->look_at = rl_min(witness->look_at, watch->asked);
    }
}

/* A clock was found wrong less than a quarantine ago. While the nodes are read often, what
   changes at different moments is not taken for one change of our clock. */
static bool is_wary(const struct rl_membership *membership, rl_time now)
{
    rl_time last = 0;
    for (unsigned i = 0; i < membership->params.n; i++)
        last = rl_max(last, membership->member[i].doubt.last_at);
    return last > 0 && now < last + rl_membership_quarantine(membership);
}

/* The interval between reads of a marker: long for an ACTIVE node, because a vote would
   show a change; short for a node that may vote soon. */
static rl_time poll_interval(const struct rl_membership *membership,
                             enum rl_member_state state, rl_time now)
{
    if (state == RL_MEMBER_ACTIVE && !is_wary(membership, now))
        return RL_MEMBER_PROBE_INTERVAL;
    return state >= RL_MEMBER_QUARANTINED ? RL_MEMBER_POLL_INTERVAL : RL_MEMBER_RETRY_DELAY;
}

/* Not by memcmp(): an incarnation has padding, which an assignment need not copy. */
static bool roster_equal(const struct rl_roster *a, const struct rl_roster *b)
{
    if (a->deployment != b->deployment || a->max_ttl_ms != b->max_ttl_ms || a->n != b->n)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (!rl_incarnation_equal(a->member[i], b->member[i]))
            return false;
    return true;
}

void rl_membership_update(struct rl_membership *membership, rl_time now)
{
    struct rl_roster known = membership->roster;
    bind(membership);
    unlearn(membership);
    for (unsigned i = 0; i < membership->params.n; i++)
        if (membership->roster.deployment && is_ours(membership, &membership->member[i]))
            rl_roster_merge(&membership->roster, &membership->member[i].marker.roster);
    if (!roster_equal(&known, &membership->roster))
        membership->learned_at = now;
    for (unsigned i = 0; i < membership->params.n; i++) {
        struct rl_member *member = &membership->member[i];
        member->state = membership_state_of(membership, i);
        if (member->greeted && member->state != RL_MEMBER_ACTIVE)
            member->look_at =
                rl_min(member->look_at,
                       rl_time_add_sat(now, poll_interval(membership, member->state, now)));
        if (member->state >= RL_MEMBER_QUARANTINED) {
            member->index = member->marker.index;
            member->last = rl_marker_self(&member->marker);
        }
    }
    for (unsigned i = 0; i < membership->params.n; i++)
        watch(membership, i, now);
}

/* --- events --- */

/* Records a marker. Returns whether it differs from the one that the client read last or
   writes. */
static bool learn(struct rl_membership *membership, unsigned node, struct rl_word text)
{
    struct rl_member *member = &membership->member[node];
    struct rl_marker marker;
    bool read = text.len > 0 && rl_marker_read(text, &marker);
    uint64_t nonce = read ? marker.nonce : 0;
    bool is_another = nonce != member->nonce || member->garbled != (text.len > 0 && !read);
    if (!read || !member->marked ||
        !rl_incarnation_equal(rl_marker_self(&marker), rl_marker_self(&member->marker)))
        for (unsigned i = 0; i < membership->params.n; i++)
            membership->member[i].watch.witnesses &=
                ~rl_bit(node); /* it forgot the incarnation */
    member->marked = read;
    member->garbled = text.len > 0 && !read;
    member->nonce = nonce;
    if (read)
        member->marker = marker;
    if (!read || !marker.active)
        membership->doubted &= ~rl_bit(node);
    rl_admission_marker_read(membership, node);
    return is_another;
}

/* Until the node's history is confirmed, the node has no vote, and the client only reads
   its marker. The request for the history follows that read (safety.md, The marker). */
static void require_history(struct rl_member *member, rl_time now)
{
    member->unconfirmed = true;
    if (!member->confirming)
        member->look_at = now;
}

/* Schedules the next read of the marker. A read that became due after `sent` stays due. */
static void look_later(struct rl_membership *membership, unsigned node, rl_time sent,
                       rl_time now)
{
    struct rl_member *member = &membership->member[node];
    if (member->look_at <= sent || member->look_at > now)
        member->look_at = RL_NEVER;
    rl_membership_update(membership, now);
    member->look_at =
        rl_min(member->look_at,
               rl_time_add_sat(now, poll_interval(membership, member->state, now)));
}

void rl_membership_greeted(struct rl_membership *membership, unsigned node,
                           const struct rl_process *process, bool keeps_data,
                           struct rl_word marker, rl_time now)
{
    struct rl_member *member = &membership->member[node];
    struct rl_incarnation before = member->last;
    bool is_another = !rl_process_equal(&member->process, process);
    bool is_another_run = !rl_process_is_same_run(&member->process, process);
    member->greeted = true;
    member->keeps_data = keeps_data;
    member->pending = member->claims = member->unconfirmed = false;
    member->confirming = 0;
    member->retry_at = 0;
    member->looked_at = now;
    member->process = *process;
    learn(membership, node, marker);
    member->kept = member->marked && is_of_process(membership, member) &&
                   before.generation > 0 &&
                   rl_incarnation_equal(before, rl_marker_self(&member->marker));
    if (is_another && !member->kept)
        member->pace.known = false; /* it may be the clock of another machine */
    if (is_another_run && before.generation > 0 &&
        rl_process_equal(&member->marker.process, process) &&
        !rl_incarnation_equal(before, rl_marker_self(&member->marker)))
        membership->doubted &= ~rl_bit(node); /* (safety.md, Clocks) */
    look_later(membership, node, now, now);
}

void rl_membership_disconnected(struct rl_membership *membership, unsigned node,
                                rl_time now)
{
    struct rl_member *member = &membership->member[node];
    member->greeted = member->pending = member->claims = false;
    rl_membership_update(membership, now);
}

void rl_membership_replied(struct rl_membership *membership, unsigned node,
                           struct rl_word marker, rl_time sent, rl_time now)
{
    struct rl_member *member = &membership->member[node];
    member->pending = member->claims = false;
    member->looked_at = sent;
    bool is_another = learn(membership, node, marker);
    if (is_another) {
        member->unconfirmed = true;
        member->changed_at = now;
    }
    for (unsigned i = 0; i < membership->params.n; i++)
        if (membership->member[i].watch.asked > 0 &&
            sent >= membership->member[i].watch.asked)
            membership->member[i].watch.confirmed |= rl_bit(node);
    look_later(membership, node, sent, now);
    if (member->unconfirmed)
        require_history(member, now);
}

void rl_membership_marker_mismatch(struct rl_membership *membership, unsigned node,
                                   rl_time sent, rl_time now)
{
    struct rl_member *member = &membership->member[node];
    if (member->changed_at > sent)
        return; /* the marker in the command is known to be outdated */
    require_history(member, now);
    rl_membership_update(membership, now);
}

/* (safety.md, The marker) */
bool rl_membership_history(struct rl_membership *membership, unsigned node,
                           uint32_t request, struct rl_word replid, rl_time now)
{
    struct rl_member *member = &membership->member[node];
    bool is_reported = replid.len == RL_RUN_ID;
    bool is_same =
        is_reported && memcmp(replid.text, member->process.replid, RL_RUN_ID) == 0;
    bool is_latest = request == member->confirming;
    if (is_latest)
        member->confirming = 0;
    if (member->unconfirmed && is_latest && is_same) {
        member->unconfirmed = false;
        look_later(membership, node, now, now);
    }
    return is_same || (!is_reported && !member->unconfirmed);
}

/* (safety.md, The marker) */
void rl_membership_check_grant(const struct rl_membership *membership, unsigned node,
                               enum rl_command command, struct rl_answer *answer)
{
    if (!membership->member[node].unconfirmed || command == RL_CMD_RELEASE ||
        answer->vote != RL_VOTE_GRANTED)
        return;
    answer->vote = RL_VOTE_UNKNOWN;
    answer->fault = RL_FAULT_MARKER;
}

void rl_membership_command_failed(struct rl_membership *membership, unsigned node,
                                  bool again, rl_time now)
{
    struct rl_member *member = &membership->member[node];
    member->pending = member->claims = false;
    member->confirming = 0;
    member->nonce = member->marked ? member->marker.nonce : 0;
    rl_membership_update(membership, now);
    member->look_at = member->retry_at =
        again ? now : rl_time_add_sat(now, RL_MEMBER_RETRY_DELAY);
    if (!again)
        member->looked_at = now;
}
