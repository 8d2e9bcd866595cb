#include "admission.h"

#include "quorum.h"
#include "steward_parts.h"

/* Different numbers from one (splitmix64). Source: https://prng.di.unimi.it/splitmix64.c */
static uint64_t mix(uint64_t random, unsigned i)
{
    uint64_t z = random + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The first node that does not stand as it must; n: none. */
static unsigned find_other(const struct rl_steward *steward, rl_nodes fit)
{
    rl_nodes other = rl_all(steward->terms.n) & ~fit;
    return other ? rl_first(other) : steward->terms.n;
}

static enum rl_refusal refuse_new(const struct rl_steward *steward, unsigned *node)
{
    *node = find_other(steward, rl_steward_standing(steward, RL_STANDS(UNMARKED)));
    return *node < steward->terms.n ? RL_REFUSAL_USED : RL_REFUSAL_NONE;
}

/* The roster of the one deployment that there is a marker of; NULL: of none, or of two. */
static const struct rl_roster *find_only(const struct rl_steward *steward)
{
    const struct rl_roster *only = NULL;
    for (unsigned i = 0; i < steward->terms.n; i++) {
        const struct rl_ward *ward = &steward->ward[i];
        if (!ward->marked)
            continue;
        if (only && only->deployment != ward->marker.roster.deployment)
            return NULL;
        only = &ward->marker.roster;
    }
    return only;
}

static enum rl_refusal refuse_wait(const struct rl_steward *steward, unsigned *node)
{
    *node = find_other(
        steward, ~rl_steward_standing(steward, RL_STANDS(ELSEWHERE) | RL_STANDS(REPLACED)));
    if (*node < steward->terms.n)
        return RL_REFUSAL_MEMBERS;
    *node = find_other(
        steward, ~rl_steward_standing(steward, RL_STANDS(UNMARKED) | RL_STANDS(ALONE)));
    bool is_known = steward->roster.deployment || find_only(steward);
    return is_known ? RL_REFUSAL_NONE : RL_REFUSAL_UNMARKED;
}

static enum rl_refusal refuse_replace(const struct rl_steward *steward, unsigned *node)
{
    unsigned newcomer = *node;
    if (!steward->roster.deployment)
        return RL_REFUSAL_UNMARKED;
    if (steward->ward[newcomer].standing != RL_STANDING_UNMARKED)
        return RL_REFUSAL_USED;
    *node = find_other(steward, rl_steward_sound(steward) | rl_bit(newcomer));
    if (*node < steward->terms.n)
        return RL_REFUSAL_UNSOUND;
    *node = newcomer;
    return RL_REFUSAL_NONE;
}

static enum rl_refusal refuse(const struct rl_steward *steward, enum rl_admission how,
                              unsigned *node)
{
    unsigned unseen = find_other(steward, ~rl_steward_standing(steward, RL_STANDS(UNSEEN)));
    if (unseen < steward->terms.n) {
        *node = unseen;
        return RL_REFUSAL_UNSEEN;
    }
    switch (how) {
    case RL_ADMIT_WAIT: return refuse_wait(steward, node);
    case RL_ADMIT_REPLACE: return refuse_replace(steward, node);
    default: return refuse_new(steward, node);
    }
}

enum rl_refusal rl_steward_admit(struct rl_steward *steward, enum rl_admission how,
                                 unsigned *node, int64_t max_ttl_ms, uint64_t random,
                                 rl_time now)
{
    enum rl_refusal refusal = refuse(steward, how, node);
    if (refusal != RL_REFUSAL_NONE)
        return refusal;
    steward->admission = how;
    steward->outrun = false;
    steward->active = true;
    if (how == RL_ADMIT_REPLACE)
        steward->newcomer = (uint8_t)*node;
    if (how == RL_ADMIT_WAIT && !steward->roster.deployment)
        steward->roster =
            *find_only(steward); /* few are left, but he says they are right */
    for (unsigned i = 0; i < steward->terms.n; i++)
        steward->ward[i].look_at = 0; /* what was known may be old */
    rl_steward_review(steward, now);
    if (how != RL_ADMIT_NEW && how != RL_ADMIT_AT_ONCE)
        return refusal;
    steward->founding = rl_all(steward->terms.n);
    steward->roster = (struct rl_roster){
        .deployment = mix(random, steward->terms.n) | 1,
        .max_ttl_ms = max_ttl_ms,
        .n = steward->terms.n,
    };
    for (unsigned i = 0; i < steward->terms.n; i++)
        steward->roster.seat[i] = (struct rl_incarnation){1, mix(random, i)};
    return refusal;
}

void rl_admission_end(struct rl_steward *steward)
{
    steward->admission = RL_ADMIT_NOTHING;
    steward->outrun = false;
}

/* Where another was first, nobody is to stay with a part of two deployments. */
static void give_up(struct rl_steward *steward, unsigned node)
{
    steward->undoing = rl_all(steward->terms.n) & ~rl_bit(node);
    steward->founding = 0;
    steward->outrun = true;
}

void rl_admission_learned(struct rl_steward *steward, unsigned node)
{
    const struct rl_ward *ward = &steward->ward[node];
    rl_nodes bit = rl_bit(node);
    bool is_empty = !ward->marked && !ward->garbled;
    bool is_ours =
        ward->marked && ward->marker.roster.deployment == steward->roster.deployment;
    if (!is_ours)
        steward->undoing &= ~bit;
    if (is_ours)
        steward->founding &= ~bit;
    else if (steward->founding & bit && !is_empty)
        give_up(steward, node);
    if (steward->outrun && !steward->undoing)
        steward->roster = (struct rl_roster){0}; /* nobody is to be seated there again */
}

enum rl_progress rl_steward_progress(const struct rl_steward *steward)
{
    if (steward->outrun)
        return steward->undoing ? RL_PROGRESS_OPEN : RL_PROGRESS_FAILED;
    return rl_steward_sound(steward) == rl_all(steward->terms.n) ? RL_PROGRESS_DONE
                                                                 : RL_PROGRESS_OPEN;
}

rl_time rl_steward_left(const struct rl_steward *steward, unsigned node, rl_time now)
{
    const struct rl_ward *ward = &steward->ward[node];
    rl_time until = rl_later(ward->watch.since, rl_steward_quarantine(steward));
    if (ward->standing != RL_STANDING_BARRED || until == RL_NEVER)
        return RL_NEVER;
    return rl_max(until - now, 0);
}
