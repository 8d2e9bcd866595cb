#include "admission.h"

#include "core/quorum.h"
#include "membership_parts.h"

/* Makes different numbers from one random number (splitmix64).
   Source: https://prng.di.unimi.it/splitmix64.c */
static uint64_t mix(uint64_t random, unsigned i)
{
    uint64_t z = random + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The first node that is not in `fit`; n: none. */
static unsigned find_other(const struct rl_membership *membership, rl_node_set fit)
{
    rl_node_set other = rl_all(membership->params.n) & ~fit;
    return other ? rl_first(other) : membership->params.n;
}

/* All nodes are empty (safety.md, A deployment of fenced locks). */
static enum rl_admission_error refuse_new(const struct rl_membership *membership,
                                          unsigned *node)
{
    *node =
        find_other(membership, rl_membership_in_states(membership, RL_STATE_BIT(UNMARKED)));
    return *node < membership->params.n ? RL_ADMISSION_NOT_EMPTY : RL_ADMISSION_OK;
}

/* The roster of the only deployment that markers name; NULL: they name none, or several. */
static const struct rl_roster *find_only(const struct rl_membership *membership)
{
    const struct rl_roster *only = NULL;
    for (unsigned i = 0; i < membership->params.n; i++) {
        const struct rl_member *member = &membership->member[i];
        if (!member->marked)
            continue;
        if (only && only->deployment != member->marker.roster.deployment)
            return NULL;
        only = &member->marker.roster;
    }
    return only;
}

/* (safety.md, Durable nodes) */
static bool is_durable(const struct rl_membership *membership)
{
    uint32_t all = 0;
    for (unsigned i = 0; i < membership->params.n; i++)
        if (membership->member[i].marked)
            all |= membership->member[i].marker.promises;
    return all & RL_PROMISE_DURABLE;
}

/* (safety.md, How a node comes back, Promises) */
static enum rl_admission_error refuse_wait(const struct rl_membership *membership,
                                           const struct rl_admission_request *request,
                                           unsigned *node)
{
    rl_node_set empty = rl_membership_in_states(membership, RL_STATE_BIT(UNMARKED));
    *node = find_other(membership,
                       ~rl_membership_in_states(membership, RL_STATE_BIT(OTHER_DEPLOYMENT) |
                                                                RL_STATE_BIT(REPLACED)));
    if (*node < membership->params.n)
        return RL_ADMISSION_WRONG_DEPLOYMENT;
    *node = find_other(membership, ~(empty & ~request->forgotten));
    if (*node < membership->params.n && is_durable(membership))
        return RL_ADMISSION_EMPTY;
    *node = find_other(membership, rl_membership_active(membership));
    if (*node < membership->params.n && request->sets_promises)
        return RL_ADMISSION_MEMBER_INACTIVE;
    *node = find_other(membership, ~(empty | rl_membership_in_states(
                                                 membership, RL_STATE_BIT(NO_MAJORITY))));
    bool is_known = membership->roster.deployment || find_only(membership);
    return is_known ? RL_ADMISSION_OK : RL_ADMISSION_UNADMITTED;
}

/* (safety.md, Replacing a node) */
static enum rl_admission_error refuse_replace(const struct rl_membership *membership,
                                              unsigned newcomer, unsigned *node)
{
    *node = newcomer;
    if (!membership->roster.deployment)
        return RL_ADMISSION_UNADMITTED;
    if (membership->member[newcomer].state != RL_MEMBER_UNMARKED)
        return RL_ADMISSION_NOT_EMPTY;
    *node = find_other(membership, rl_membership_active(membership) | rl_bit(newcomer));
    return *node < membership->params.n ? RL_ADMISSION_MEMBER_INACTIVE : RL_ADMISSION_OK;
}

/* Its address may lead to another member by now, or to another deployment. */
static enum rl_admission_error refuse_retire(const struct rl_membership *membership,
                                             unsigned replaced, unsigned *node)
{
    *node = replaced;
    switch (membership->member[replaced].state) {
    case RL_MEMBER_UNSEEN: return RL_ADMISSION_UNREACHED;
    case RL_MEMBER_REPLACED: return RL_ADMISSION_OK;
    default: return RL_ADMISSION_UNADMITTED;
    }
}

static enum rl_admission_error admission_refuse(const struct rl_membership *membership,
                                                const struct rl_admission_request *request,
                                                unsigned *node)
{
    if (request->mode == RL_ADMIT_RETIRE)
        return refuse_retire(membership, request->newcomer, node);
    unsigned unseen =
        find_other(membership, ~rl_membership_in_states(membership, RL_STATE_BIT(UNSEEN)));
    if (unseen < membership->params.n) {
        *node = unseen;
        return RL_ADMISSION_UNREACHED;
    }
    switch (request->mode) {
    case RL_ADMIT_READMIT: return refuse_wait(membership, request, node);
    case RL_ADMIT_REPLACE: return refuse_replace(membership, request->newcomer, node);
    default: return refuse_new(membership, node);
    }
}

void rl_admission_look(struct rl_membership *membership, rl_time now)
{
    membership->admission = (struct rl_admission_request){.mode = RL_ADMIT_LOOK};
    for (unsigned i = 0; i < membership->params.n; i++)
        membership->member[i].look_at = now;
}

bool rl_admission_is_looking(const struct rl_membership *membership, rl_time since)
{
    bool is = false;
    for (unsigned i = 0; i < membership->params.n; i++) {
        const struct rl_member *member = &membership->member[i];
        is |= member->greeted && (member->unconfirmed || member->looked_at < since);
    }
    return is;
}

enum rl_admission_error rl_admission_begin(struct rl_membership *membership,
                                           const struct rl_admission_request *request,
                                           unsigned *ret_node, uint64_t random, rl_time now)
{
    enum rl_admission_error refusal = admission_refuse(membership, request, ret_node);
    if (refusal != RL_ADMISSION_OK)
        return refusal;
    membership->admission = *request;
    membership->lost_race = false;
    membership->active = true;
    if (request->mode == RL_ADMIT_READMIT && !membership->roster.deployment)
        /* Few markers are left, but the operator attests them. */
        membership->roster = *find_only(membership);
    rl_membership_update(membership, now);
    if (request->mode != RL_ADMIT_NEW && request->mode != RL_ADMIT_AT_ONCE)
        return refusal;
    membership->bootstrapping = rl_all(membership->params.n);
    membership->roster = (struct rl_roster){
        .deployment = mix(random, membership->params.n) | 1,
        .max_ttl_ms = request->max_ttl_ms,
        .n = membership->params.n,
    };
    for (unsigned i = 0; i < membership->params.n; i++)
        membership->roster.member[i] = (struct rl_incarnation){1, mix(random, i)};
    return refusal;
}

void rl_admission_end(struct rl_membership *membership)
{
    membership->admission = (struct rl_admission_request){.mode = RL_ADMIT_NOTHING};
    membership->lost_race = false;
}

bool rl_admission_allows_empty(const struct rl_membership *membership, unsigned node)
{
    return membership->admission.forgotten & rl_bit(node) || !is_durable(membership);
}

/* The promises of a node without a marker: those of the lost one, if this client read it,
   and of all other markers. An operator may have taken one back meanwhile. */
static uint32_t common_promises(const struct rl_membership *membership, unsigned node)
{
    bool known =
        membership->member[node].marker.roster.deployment == membership->roster.deployment;
    uint32_t common = known ? membership->member[node].marker.promises : ~UINT32_C(0);
    for (unsigned i = 0; i < membership->params.n; i++)
        if (membership->member[i].state >= RL_MEMBER_OTHER_PROCESS) {
            common &= rl_membership_promises(membership, i);
            known = true;
        }
    return known ? common : 0;
}

uint32_t rl_admission_promises(const struct rl_membership *membership, unsigned node)
{
    const struct rl_member *member = &membership->member[node];
    bool founds = membership->admission.mode == RL_ADMIT_NEW ||
                  membership->admission.mode == RL_ADMIT_AT_ONCE;
    uint32_t has =
        member->marked ? member->marker.promises : common_promises(membership, node);
    if (!founds && !membership->admission.sets_promises)
        return has;
    return (founds ? 0 : has & ~(uint32_t)RL_PROMISES) | membership->admission.promises;
}

bool rl_admission_has_to_promise(const struct rl_membership *membership, unsigned node)
{
    const struct rl_member *member = &membership->member[node];
    return member->state == RL_MEMBER_ACTIVE &&
           rl_admission_promises(membership, node) != member->marker.promises;
}

/* Another client was first: our markers must not stay on a part of the nodes (safety.md,
   A deployment of fenced locks). */
static void admission_give_up(struct rl_membership *membership, unsigned node)
{
    membership->rolling_back = rl_all(membership->params.n) & ~rl_bit(node);
    membership->bootstrapping = 0;
    membership->lost_race = true;
}

void rl_admission_marker_read(struct rl_membership *membership, unsigned node)
{
    const struct rl_member *member = &membership->member[node];
    rl_node_set bit = rl_bit(node);
    bool is_empty = !member->marked && !member->garbled;
    bool is_ours =
        member->marked && member->marker.roster.deployment == membership->roster.deployment;
    if (!is_ours)
        membership->rolling_back &= ~bit;
    if (is_ours)
        membership->bootstrapping &= ~bit;
    else if (membership->bootstrapping & bit && !is_empty)
        admission_give_up(membership, node);
    if (membership->lost_race && !membership->rolling_back)
        /* No node may get a member index of our own deployment any more. */
        membership->roster = (struct rl_roster){0};
}

/* This node has what was requested. */
static bool is_done(const struct rl_membership *membership, unsigned node)
{
    const struct rl_member *member = &membership->member[node];
    if (membership->admission.mode == RL_ADMIT_RETIRE)
        return node != membership->admission.newcomer ||
               (member->marked && member->marker.retired);
    return member->state == RL_MEMBER_ACTIVE &&
           !rl_admission_has_to_promise(membership, node);
}

enum rl_admission_state rl_admission_progress(const struct rl_membership *membership)
{
    if (membership->lost_race)
        return membership->rolling_back ? RL_ADMISSION_RUNNING : RL_ADMISSION_LOST_RACE;
    unsigned done = 0;
    for (unsigned i = 0; i < membership->params.n; i++)
        done += is_done(membership, i);
    return done == membership->params.n ? RL_ADMISSION_DONE : RL_ADMISSION_RUNNING;
}

rl_time rl_membership_quarantine_left(const struct rl_membership *membership, unsigned node,
                                      rl_time now)
{
    const struct rl_member *member = &membership->member[node];
    rl_time until =
        rl_time_add_sat(member->watch.since, rl_membership_quarantine(membership));
    if (member->state != RL_MEMBER_QUARANTINED || until == RL_NEVER)
        return RL_NEVER;
    return rl_max(until - now, 0);
}
