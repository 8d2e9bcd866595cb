/* What keeps a node from voting on fenced locks: the rules of that, as judge.c has others.
 */
#include "judge_parts.h"

static const struct rl_membership *member_of(const struct rl_judgement *all, unsigned node)
{
    return &all->facts[node].member;
}

/* Nodes of plain locks alone are not told that they could be more. */
static bool is_of_fenced_locks(const struct rl_judgement *all)
{
    bool marked = false;
    for (unsigned i = 0; i < all->n; i++)
        marked |= member_of(all, i)->standing > RL_STANDING_UNMARKED;
    return marked || all->fenced;
}

static bool stands(const struct rl_judgement *all, unsigned node, enum rl_standing standing)
{
    return is_of_fenced_locks(all) && member_of(all, node)->standing == standing;
}

static bool is_unmarked(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    return stands(all, node, RL_STANDING_UNMARKED);
}

static bool is_alone(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    return stands(all, node, RL_STANDING_ALONE);
}

static bool is_elsewhere(const struct rl_judgement *all, unsigned node, char *detail)
{
    const struct rl_membership *member = member_of(all, node);
    if (member->garbled)
        rl_detail_add(detail, "the key %s!marker holds something else", all->prefix);
    else if (member->seats != all->n)
        rl_detail_add(detail, "its deployment has %u nodes, and these are %u",
                      member->seats, all->n);
    else
        rl_detail_add(detail, "deployment %016llx, and most are of %016llx",
                      (unsigned long long)member->deployment,
                      (unsigned long long)member->usual);
    return stands(all, node, RL_STANDING_ELSEWHERE);
}

static bool is_replaced(const struct rl_judgement *all, unsigned node, char *detail)
{
    rl_detail_add(detail, "seat %lld is of generation %u, and this node of %lld",
                  (long long)all->nodes[node].seat, member_of(all, node)->latest,
                  (long long)all->nodes[node].generation);
    return stands(all, node, RL_STANDING_REPLACED);
}

static bool is_foreign(const struct rl_judgement *all, unsigned node, char *detail)
{
    rl_detail_add(detail, "%s",
                  member_of(all, node)->same_run ? "it failed over" : "it restarted");
    return stands(all, node, RL_STANDING_FOREIGN);
}

static bool is_barred(const struct rl_judgement *all, unsigned node, char *detail)
{
    int64_t left = all->nodes[node].quarantine_ms;
    if (left >= 0)
        rl_detail_add(detail, "another %.1f s", (double)left / 1e3);
    else
        rl_detail_add(detail, "%.1f s from when a client begins to wait for it",
                      (double)member_of(all, node)->quarantine / 1e6);
    return stands(all, node, RL_STANDING_BARRED);
}

static bool has_set_clock(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    return stands(all, node, RL_STANDING_CLOCK);
}

static bool is_behind(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    return stands(all, node, RL_STANDING_SOUND) && member_of(all, node)->behind;
}

/* --- the table --- */

const struct rl_rule rl_membership_rules[RL_MEMBERSHIP_RULES] = {
    {"unmarked", REDLOCK_WARNING, RL_FENCED_USE, is_unmarked,
     "it has no marker, and no vote on fenced locks: redlock admit --wait seats it, or "
     "--new if no node has one"},
    {"alone", REDLOCK_WARNING, RL_FENCED_USE, is_alone,
     "it has a marker, but too few nodes of its deployment were seen: name those of all "
     "other clients"},
    {"elsewhere", REDLOCK_WARNING, RL_FENCED_USE, is_elsewhere,
     "it belongs to another deployment of fenced locks: name the nodes that the others "
     "name"},
    {"replaced", REDLOCK_WARNING, RL_FENCED_USE, is_replaced,
     "another server has its seat, and its vote on fenced locks: name that one"},
    {"foreign", REDLOCK_WARNING, RL_FENCED_USE, is_foreign,
     "its marker was made for another process, and it has no vote on fenced locks: redlock "
     "admit --wait seats it"},
    {"barred", REDLOCK_WARNING, RL_FENCED_USE, is_barred,
     "it is in quarantine, and has no vote on fenced locks until that has passed: wait, by "
     "redlock admit --wait"},
    {"clock_set", REDLOCK_WARNING, RL_FENCED_USE, has_set_clock,
     "its clock was set, stands still or runs wrong, and it has no vote on fenced locks: "
     "mend the clock"},
    {"behind", REDLOCK_WARNING, RL_FENCED_USE, is_behind,
     "it does not know whom other nodes know to have a seat: see that all clients can "
     "reach "
     "it"},
};
