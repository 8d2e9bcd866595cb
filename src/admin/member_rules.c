/* The rules for what keeps a node from voting on fenced locks; others: health_rules.c. */
#include "health_rules_parts.h"

#include <string.h>

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

/* --- what brings a node back --- */

static unsigned count_in(const struct rl_health_context *all, unsigned states)
{
    unsigned count = 0;
    for (unsigned i = 0; i < all->n; i++)
        count += states >> member_of(all, i)->state & 1;
    return count;
}

static bool has_majority(const struct rl_health_context *all)
{
    return count_in(all, RL_STATE_BIT(ACTIVE)) > all->n / 2;
}

/* A majority votes when the nodes that cannot be reached are back. */
static bool may_have_majority(const struct rl_health_context *all)
{
    return count_in(all, RL_STATE_BIT(ACTIVE) | RL_STATE_BIT(UNSEEN) |
                             RL_STATE_BIT(NO_MAJORITY)) > all->n / 2;
}

static bool is_marked(const struct rl_health_context *all, unsigned node)
{
    return member_of(all, node)->members > 0;
}

/* The promises in more than half of the markers. */
static unsigned usual_promises(const struct rl_health_context *all)
{
    unsigned marked = 0, durable = 0, sole = 0;
    for (unsigned i = 0; i < all->n; i++) {
        marked += is_marked(all, i);
        durable += (all->nodes[i].promises & REDLOCK_PROMISE_DURABLE) != 0;
        sole += (all->nodes[i].promises & REDLOCK_PROMISE_SOLE) != 0;
    }
    return (2 * durable > marked ? REDLOCK_PROMISE_DURABLE : 0) |
           (2 * sole > marked ? REDLOCK_PROMISE_SOLE : 0);
}

/* A client that watches the nodes begins within RL_MEMBER_RETRY_DELAY. */
static void add_longest(const struct rl_health_context *all, unsigned node, char *detail)
{
    rl_time longest = member_of(all, node)->quarantine + RL_MEMBER_RETRY_DELAY;
    rl_detail_add(detail, " in %.1f s at most", (double)longest / RL_SECOND);
}

/* Who lets the node vote again. `knew`: which client, if a majority votes; `any`: if none
   does, and the operator promised `sole` (safety.md, How a node comes back, Promises). */
static void add_return(const struct rl_health_context *all, unsigned node, const char *knew,
                       const char *any, char *detail)
{
    bool may_vote = may_have_majority(all);
    const char *when = has_majority(all) ? ""
                       : may_vote        ? "once a majority votes, "
                                         : "once all nodes reply, ";
    if (may_vote || usual_promises(all) & REDLOCK_PROMISE_SOLE)
        rl_detail_add(detail, "%sredlock monitor or a client of fenced locks%s readmits it",
                      when, may_vote ? knew : any);
    else
        rl_detail_add(detail, "an operator has to readmit it,");
    add_longest(all, node, detail);
}

static bool show_unmarked(const struct rl_health_context *all, unsigned node, char *detail)
{
    unsigned marked = 0, promised = 0;
    for (unsigned i = 0; i < all->n; i++) {
        marked += is_marked(all, i);
        promised |= all->nodes[i].promises;
    }
    if (marked == 0)
        rl_detail_add(detail,
                      "no node that replied has one: an operator has to admit all, unless "
                      "a client still knows them by the promise sole");
    else if (promised & REDLOCK_PROMISE_DURABLE && !may_have_majority(all) &&
             !(promised & REDLOCK_PROMISE_SOLE))
        rl_detail_add(
            detail,
            "an operator has to readmit it, and to say that what it had never comes back");
    else
        add_return(all, node, " that knew it", " that knew it", detail);
    return true;
}

/* --- the states --- */

static bool show_deployment(const struct rl_health_context *all, unsigned node,
                            char *detail)
{
    const struct rl_member_probe *member = member_of(all, node);
    if (member->garbled)
        rl_detail_add(
            detail,
            "the key %s!marker holds no valid marker: it was replaced, or a later "
            "release wrote it",
            all->prefix);
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
                  member_of(all, node)->same_run ? "its master_replid changed; "
                                                 : "its run_id changed; ");
    add_return(all, node, " that knew it", "", detail);
    return true;
}

static bool show_quarantine(const struct rl_health_context *all, unsigned node,
                            char *detail)
{
    int64_t left = all->nodes[node].quarantine_us;
    if (left >= 0) {
        rl_detail_add(detail, "%.1f s left", (double)left / 1e6);
        return true;
    }
    if (!member_of(all, node)->registered)
        rl_detail_add(detail, "its registration is not complete; ");
    add_return(all, node, "", "", detail);
    return true;
}

static bool show_clock(const struct rl_health_context *all, unsigned node, char *detail)
{
    rl_detail_add(detail, "when its clock is right, it votes again");
    add_longest(all, node, detail);
    return true;
}

static bool member_rules_is_outdated(const struct rl_health_context *all, unsigned node,
                                     char *detail)
{
    (void)detail;
    return member_of(all, node)->outdated;
}

static bool lacks_run_id(const struct rl_health_context *all, unsigned node, char *detail)
{
    (void)detail;
    return member_of(all, node)->no_run_id;
}

/* --- the promises --- */

static void add_item(char *detail, const char *item)
{
    rl_detail_add(detail, "%s%s", detail[0] ? ", " : "", item);
}

/* Settings that contradict the promise `durable` (safety.md, Durable nodes). */
static bool is_not_durable(const struct rl_health_context *all, unsigned node, char *detail)
{
    const struct rl_probe *probe = &all->probes[node];
    const redlock_node_health *it = &all->nodes[node];
    if (!(it->promises & REDLOCK_PROMISE_DURABLE))
        return false;
    if (probe->appendonly == RL_NO)
        add_item(detail, "appendonly no");
    else if (it->fsync[0] && strcmp(it->fsync, "always") != 0)
        rl_detail_add(detail, "appendfsync %s", it->fsync);
    if (probe->appendonly == RL_YES && probe->unsynced_rewrite == RL_YES)
        add_item(detail, "no-appendfsync-on-rewrite yes");
    if (it->replicas > 0) {
        add_item(detail, "connected_slaves");
        rl_detail_add(detail, " %lld", (long long)it->replicas);
    }
    return detail[0] != '\0';
}

static void add_promises(unsigned promises, char *detail)
{
    static const char *const names[] = {"none", "durable", "sole", "durable, sole"};
    rl_detail_add(detail, "%s",
                  names[(promises & REDLOCK_PROMISE_DURABLE ? 1 : 0) +
                        (promises & REDLOCK_PROMISE_SOLE ? 2 : 0)]);
}

static bool promises_differ(const struct rl_health_context *all, unsigned node,
                            char *detail)
{
    unsigned promises = all->nodes[node].promises, usual = usual_promises(all);
    if (!is_marked(all, node) || promises == usual)
        return false;
    add_promises(promises, detail);
    rl_detail_add(detail, "; most markers: ");
    add_promises(usual, detail);
    return true;
}

/* --- the table --- */

const struct rl_rule rl_member_rules[RL_MEMBER_RULES] = {
    {"unmarked", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(UNMARKED), show_unmarked,
     "the node has no marker and no vote on fenced locks: it was never admitted, or has "
     "lost its memory"},
    {"no_majority", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(NO_MAJORITY), NULL,
     "too few nodes of the node's deployment were found: correct the findings of the other "
     "nodes, or configure the same nodes as all other clients"},
    {"other_deployment", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(OTHER_DEPLOYMENT),
     show_deployment,
     "the node belongs to another deployment of fenced locks: configure the same nodes as "
     "all other clients"},
    {"replaced", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(REPLACED), show_generations,
     "this node's member index was assigned again: configure the server that replaced it, "
     "or if none did, delete its key !marker and readmit it"},
    {"other_process", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(OTHER_PROCESS),
     show_loss,
     "the node's marker was made for another process, so the node has no vote on fenced "
     "locks until it is readmitted"},
    {"quarantined", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(QUARANTINED),
     show_quarantine,
     "the node is in quarantine and has no vote on fenced locks: a client has to watch it "
     "until the quarantine ends"},
    {"clock_set", REDLOCK_WARNING, RL_FENCED_USE, CLOCK_BIT(SET), show_clock,
     "the node's clock jumped, so the node has no vote on fenced locks: fix the clock"},
    {"clock_still", REDLOCK_WARNING, RL_FENCED_USE, CLOCK_BIT(STILL), show_clock,
     "the node's clock stands still, so the node has no vote on fenced locks: fix the "
     "clock"},
    {"clock_fast", REDLOCK_WARNING, RL_FENCED_USE, CLOCK_BIT(FAST), show_clock,
     "the node's clock gains on this client's, so the node has no vote on fenced locks: "
     "fix the clock"},
    {"clock_slow", REDLOCK_WARNING, RL_FENCED_USE, CLOCK_BIT(SLOW), show_clock,
     "the node's clock falls behind this client's, so the node has no vote on fenced "
     "locks: fix the clock"},
    {"behind", REDLOCK_WARNING, RL_FENCED_USE, RL_STATE_BIT(ACTIVE),
     member_rules_is_outdated,
     "the node does not know the latest members of its deployment, which other nodes know: "
     "make sure that all clients can reach it"},
    {"no_run_id", REDLOCK_WARNING, RL_FENCED_USE, 0, lacks_run_id,
     "INFO has no run_id, so the node has no vote on fenced locks, and a restart that does "
     "not change its master_replid goes unnoticed: use it for plain locks only"},
    {"not_durable", REDLOCK_DEFECT, RL_ANY_USE, 0, is_not_durable,
     "the node's settings contradict the promise durable, so a lock may get two holders: "
     "correct them, or take the promise back"},
    {"promises_differ", REDLOCK_DEFECT, RL_ANY_USE, 0, promises_differ,
     "the nodes' markers have different promises: set them again"},
};
