/* The commands of the membership machine: assign an index, register incarnations, lift a
   quarantine, read markers. */
#include "admission.h"
#include "membership_parts.h"

/* Another node has this member index, or a command assigns it to another node. */
static bool is_taken(const struct rl_membership *membership, unsigned node, unsigned index)
{
    for (unsigned i = 0; i < membership->params.n; i++) {
        const struct rl_member *member = &membership->member[i];
        bool has_it =
            member->state >= RL_MEMBER_OTHER_PROCESS && member->marker.index == index;
        if (i != node && (has_it || (member->claims && member->claimed == index)))
            return true;
    }
    return false;
}

/* The lowest member index that no other node has; n: none. */
static unsigned free_index(const struct rl_membership *membership, unsigned node)
{
    unsigned index = 0;
    while (index < membership->params.n && is_taken(membership, node, index))
        index++;
    return index;
}

bool rl_member_is_lost(const struct rl_member *member)
{
    bool is_other = !rl_process_equal(&member->marker.process, &member->process);
    switch (member->state) {
    case RL_MEMBER_UNMARKED:
    case RL_MEMBER_OTHER_PROCESS: return true;
    case RL_MEMBER_REPLACED:
        return !member->marker.retired && (is_other || !member->marker.active);
    default: return false;
    }
}

/* The index that the operator's request or promise gives to this node; n: none. The
   operator attests that these are the right nodes, so all of them must be greeted
   (safety.md, How a node comes back, Promises). */
static unsigned index_by_operator(const struct rl_membership *membership, unsigned node)
{
    const struct rl_member *member = &membership->member[node];
    const struct rl_admission_request *request = &membership->admission;
    bool is_newcomer = request->mode == RL_ADMIT_REPLACE && node == request->newcomer &&
                       member->state == RL_MEMBER_UNMARKED;
    bool is_wanted = request->mode == RL_ADMIT_READMIT && rl_member_is_lost(member);
    /* A marker may be older than the deployment knows, if all load older data. */
    bool is_sole = rl_membership_is_promised(membership, RL_PROMISE_SOLE) &&
                   (member->state == RL_MEMBER_OTHER_PROCESS ||
                    (rl_member_is_lost(member) && !rl_membership_has_majority(membership)));
    if ((!is_newcomer && !is_wanted && !is_sole) ||
        rl_membership_in_states(membership, RL_STATE_BIT(UNSEEN)))
        return membership->params.n;
    if (member->marked && !is_taken(membership, node, member->marker.index))
        return member->marker.index;
    bool may_be_empty =
        is_newcomer || (is_wanted && rl_admission_allows_empty(membership, node));
    return may_be_empty ? free_index(membership, node) : membership->params.n;
}

/*
 * The data of this empty durable node may come back, and no majority would know that it was
 * superseded: only an operator can say that it does not (safety.md, Durable nodes).
 */
static bool may_come_back(const struct rl_membership *membership, unsigned node)
{
    return !membership->member[node].marked &&
           rl_membership_promises(membership, node) & RL_PROMISE_DURABLE &&
           !rl_membership_is_promised(membership, RL_PROMISE_SOLE) &&
           !(membership->admission.forgotten & rl_bit(node)) &&
           !rl_membership_has_majority(membership);
}

/*
 * The member index to assign to this node with a new incarnation; n: none. A client that
 * finds an empty server may have a wrong address. So without an operator, a node gets an
 * index back only if this client saw that index last at the same address (safety.md, How a
 * node comes back).
 */
static unsigned index_for(const struct rl_membership *membership, unsigned node)
{
    const struct rl_member *member = &membership->member[node];
    switch (member->state) {
    case RL_MEMBER_CLOCK: /* (safety.md, Clocks) */
        return rl_membership_is_clock_proven(membership, node) ? member->marker.index
                                                               : membership->params.n;
    case RL_MEMBER_UNMARKED:
    case RL_MEMBER_REPLACED:
    case RL_MEMBER_OTHER_PROCESS: break;
    default: return membership->params.n;
    }
    if (member->marked && member->marker.retired) /* (safety.md, Replacing a node) */
        return membership->params.n;
    if (member->last.generation > 0 && !is_taken(membership, node, member->index) &&
        rl_incarnation_equal(member->last, membership->roster.member[member->index]) &&
        !may_come_back(membership, node))
        return member->index;
    return index_by_operator(membership, node);
}

static bool command_write(struct rl_membership *membership, unsigned node, bool active,
                          unsigned index, uint64_t nonce, struct rl_member_command *command)
{
    struct rl_member *member = &membership->member[node];
    *command = (struct rl_member_command){
        .node = (uint8_t)node,
        .write = true,
        .wanted =
            {
                .nonce = nonce,
                .active = active,
                .index = (uint8_t)index,
                .promises = rl_admission_promises(membership, node),
                .process = member->process,
                .roster = membership->roster,
            },
    };
    member->pending = true;
    member->nonce = nonce; /* later commands run after this one (safety.md, The marker) */
    return true;
}

/* A later incarnation, in quarantine (safety.md, How a node comes back). */
static bool command_assign(struct rl_membership *membership, unsigned node, unsigned index,
                           const uint64_t random[2], struct rl_member_command *command)
{
    struct rl_member *member = &membership->member[node];
    command_write(membership, node, false, index, random[0], command);
    member->claims = true;
    member->claimed = (uint8_t)index;
    struct rl_incarnation *self = &command->wanted.roster.member[index];
    *self = (struct rl_incarnation){self->generation + 1, random[1]};
    return true;
}

/* The marker of this node lacks the incarnation of a quarantined node (safety.md, How a
   node comes back). */
static bool has_to_learn(const struct rl_membership *membership, unsigned node)
{
    const struct rl_member *member = &membership->member[node];
    if (member->state != RL_MEMBER_ACTIVE && !(member->state == RL_MEMBER_QUARANTINED &&
                                               rl_membership_is_recovering(membership)))
        return false;
    for (rl_node_set rest = rl_membership_in_states(membership, RL_STATE_BIT(QUARANTINED));
         rest; rest &= rest - 1) {
        unsigned i = rl_first(rest);
        if (i != node && !(rl_membership_knowing(membership, i) & rl_bit(node)))
            return true;
    }
    return false;
}

/* (safety.md, The marker) */
static bool command_look(struct rl_membership *membership, unsigned node, rl_time now,
                         struct rl_member_command *command)
{
    struct rl_member *member = &membership->member[node];
    if (now < member->look_at)
        return false;
    *command = (struct rl_member_command){.node = (uint8_t)node};
    if (member->unconfirmed || member->state == RL_MEMBER_ACTIVE)
        command->history = member->confirming = ++member->requests;
    member->pending = true;
    return true;
}

/* Its quarantine is over; or AT_ONCE has marked all nodes, and no quarantine is needed
   (safety.md, How a node comes back, A deployment of fenced locks). */
static bool is_to_be_lifted(const struct rl_membership *membership,
                            const struct rl_member *member, rl_time now)
{
    bool at_once = membership->admission.mode == RL_ADMIT_AT_ONCE &&
                   !membership->lost_race && !membership->bootstrapping &&
                   rl_marker_self(&member->marker).generation == 1;
    rl_time until =
        rl_time_add_sat(member->watch.since, rl_membership_quarantine(membership));
    return member->state == RL_MEMBER_QUARANTINED && (at_once || now >= until);
}

static bool command_for(struct rl_membership *membership, unsigned node, rl_time now,
                        const uint64_t random[2], struct rl_member_command *command)
{
    struct rl_member *member = &membership->member[node];
    if ((membership->bootstrapping | membership->rolling_back) & rl_bit(node)) {
        command_write(membership, node, false, node, random[0], command);
        command->erase = membership->rolling_back;
        return true;
    }
    if (membership->admission.mode == RL_ADMIT_RETIRE &&
        node == membership->admission.newcomer && member->state == RL_MEMBER_REPLACED &&
        !member->marker.retired) {
        command_write(membership, node, false, member->marker.index, random[0], command);
        command->wanted = member->marker;
        command->wanted.nonce = random[0];
        command->wanted.retired = true;
        return true;
    }
    bool leave = membership->admission.mode == RL_ADMIT_LOOK ||
                 !membership->roster.deployment ||
                 membership->rolling_back; /* removed markers must stay removed */
    if (leave || member->unconfirmed)
        return command_look(membership, node, now, command);
    unsigned index = index_for(membership, node);
    if (index < membership->params.n)
        return command_assign(membership, node, index, random, command);
    bool lift = is_to_be_lifted(membership, member, now);
    if (lift || has_to_learn(membership, node) ||
        rl_admission_has_to_promise(membership, node))
        return command_write(membership, node, lift || member->marker.active,
                             member->marker.index, random[0], command);
    return command_look(membership, node, now, command);
}

bool rl_membership_is_active(const struct rl_membership *membership)
{
    return membership->active || membership->admission.mode == RL_ADMIT_LOOK;
}

bool rl_membership_next_command(struct rl_membership *membership, rl_time now,
                                const uint64_t random[2],
                                struct rl_member_command *ret_command)
{
    if (!rl_membership_is_active(membership))
        return false;
    rl_membership_end_doubts(membership, now);
    for (unsigned i = 0; i < membership->params.n; i++) {
        const struct rl_member *member = &membership->member[i];
        if (member->greeted && !member->pending && now >= member->retry_at &&
            command_for(membership, i, now, random, ret_command))
            return true;
    }
    return false;
}

rl_time rl_membership_next(const struct rl_membership *membership)
{
    rl_time first = RL_NEVER;
    if (!rl_membership_is_active(membership))
        return RL_NEVER;
    for (unsigned i = 0; i < membership->params.n; i++) {
        const struct rl_member *member = &membership->member[i];
        rl_time next = member->look_at;
        if (!member->greeted || member->pending)
            continue;
        if (member->state == RL_MEMBER_QUARANTINED)
            next = rl_min(next, rl_time_add_sat(member->watch.since,
                                                rl_membership_quarantine(membership)));
        next = rl_min(next, rl_membership_doubts_until(membership, i));
        first = rl_min(first, rl_max(next, member->retry_at));
    }
    return first;
}
