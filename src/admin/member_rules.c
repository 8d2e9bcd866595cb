/* The rules for what keeps a node from voting on fenced locks; others: health_rules.c. */
#include "health_rules_parts.h"

static const struct rl_member_probe *member_of(const struct rl_health_context *all,
                                               unsigned node)
{
    return &all->probes[node].member;
}

/* A node whose clock cannot be trusted has a bit for the error, behind those of states. */
#define CLOCK_BIT_OF(error) (UINT64_C(1) << (RL_MEMBER_ACTIVE + 1 + (error)))
#define CLOCK_BIT(name)     CLOCK_BIT_OF(RL_CLOCK_##name)

/* Nodes that are used only for plain locks get no findings about fenced locks. */
uint64_t rl_member_state_bit(const struct rl_health_context *all, unsigned node)
{
    const struct rl_member_probe *member = member_of(all, node);
    bool fenced = all->fenced;
    for (unsigned i = 0; i < all->n; i++)
        fenced |= member_of(all, i)->state > RL_MEMBER_UNMARKED;
    if (!fenced)
        return 0;
    return member->state == RL_MEMBER_CLOCK ? CLOCK_BIT_OF(member->clock)
                                            : UINT64_C(1) << member->state;
}

static bool show_deployment(const struct rl_health_context *all, unsigned node,
                            char *detail)
{
    const struct rl_member_probe *member = member_of(all, node);
    if (member->garbled)
        rl_detail_add(detail, "the key %s!marker holds no valid marker", all->prefix);
    else if (member->members != all->n)
        rl_detail_add(detail, "its deployment has %u nodes, but %u are configured",
                      member->members, all->n);
    else
        rl_detail_add(detail, "deployment %016llx; most nodes belong to %016llx",
                      (unsigned long long)member->deployment,
                      (unsigned long long)member->majority_deployment);
    return true;
}

static bool show_generations(const struct rl_health_context *all, unsigned node,
                             char *detail)
{
    rl_detail_add(detail, "member index %lld has generation %u, and this node %lld",
                  (long long)all->nodes[node].member_index, member_of(all, node)->latest,
                  (long long)all->nodes[node].generation);
    return true;
}

static bool show_loss(const struct rl_health_context *all, unsigned node, char *detail)
{
    rl_detail_add(detail, "%s",
                  member_of(all, node)->same_run ? "its master_replid changed"
                                                 : "its run_id changed");
    return true;
}

static bool show_quarantine(const struct rl_health_context *all, unsigned node,
                            char *detail)
{
    int64_t left = all->nodes[node].quarantine_us;
    if (left >= 0)
        rl_detail_add(detail, "%.1f s left", (double)left / 1e6);
    else
        rl_detail_add(detail, "%.1f s from when a client starts to wait for it",
                      (double)member_of(all, node)->quarantine / 1e6);
    return true;
}

static bool member_rules_is_outdated(const struct rl_health_context *all, unsigned node,
                                     char *detail)
{
    (void)detail;
    return member_of(all, node)->outdated;
}

/* --- the table --- */

const struct rl_rule rl_member_rules[RL_MEMBER_RULES] = {
    {"unmarked", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(UNMARKED), NULL,
     "the node has no marker and no vote on fenced locks: admit it again, or all "
     "nodes if none has a marker, see redlock-admit(1)"},
    {"no_majority", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(NO_MAJORITY), NULL,
     "too few nodes of the node's deployment were found: correct the findings of the other "
     "nodes, or configure the same nodes as all other clients"},
    {"other_deployment", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(OTHER_DEPLOYMENT),
     show_deployment,
     "the node belongs to another deployment of fenced locks: configure the same nodes as "
     "all other clients"},
    {"replaced", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(REPLACED), show_generations,
     "this node's member index was assigned again: configure the server that replaced it, "
     "or if none did, delete its key !marker, see redlock-admit(1)"},
    {"other_process", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(OTHER_PROCESS),
     show_loss,
     "the node's marker was made for another process, so the node has no vote on fenced "
     "locks: admit it again, see redlock-admit(1)"},
    {"quarantined", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(QUARANTINED),
     show_quarantine,
     "the node is in quarantine and has no vote on fenced locks until the quarantine ends: "
     "wait"},
    {"clock_set", REDLOCK_WARNING, RL_FENCED_USE, CLOCK_BIT(SET), NULL,
     "the node's clock jumped, so the node has no vote on fenced locks: fix the clock"},
    {"clock_still", REDLOCK_WARNING, RL_FENCED_USE, CLOCK_BIT(STILL), NULL,
     "the node's clock stands still, so the node has no vote on fenced locks: fix the "
     "clock"},
    {"clock_fast", REDLOCK_WARNING, RL_FENCED_USE, CLOCK_BIT(FAST), NULL,
     "the node's clock gains on this client's, so the node has no vote on fenced locks: "
     "fix the clock"},
    {"clock_slow", REDLOCK_WARNING, RL_FENCED_USE, CLOCK_BIT(SLOW), NULL,
     "the node's clock falls behind this client's, so the node has no vote on fenced "
     "locks: fix the clock"},
    {"behind", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(ACTIVE),
     member_rules_is_outdated,
     "the node does not know the latest members of its deployment, which other nodes know: "
     "make sure that all clients can reach it"},
};
