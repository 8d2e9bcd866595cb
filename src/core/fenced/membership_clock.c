/*
 * The membership machine's judge of clocks: was a node's clock wrong, or ours (safety.md,
 * Clocks)?
 */
#include "core/quorum.h"
#include "membership_parts.h"

/* Allows half the drift that keys tolerate; the other half is for what no reply shows
   (safety.md, Clocks). */
static bool is_in_time(struct rl_membership *membership, struct rl_member *member,
                       rl_time sent, rl_time received, rl_time reported)
{
    rl_time ttl = membership->roster.max_ttl_ms * RL_MS;
    uint32_t ppm = membership->params.drift_ppm;
    if (ppm < RL_CLOCK_PPM)
        ppm = RL_CLOCK_PPM;
    rl_time slack = (ttl - rl_valid_until(0, ttl, ppm)) / 2;
    return rl_pace_note(&member->pace, sent, received, reported, ppm / 2, slack);
}

/* Finds out whose clock is wrong. A clock that stands still is wrong at every second reply,
   so the next look at all nodes comes a little later. */
static void look_at_all(struct rl_membership *membership, rl_time now)
{
    if (membership->look_at < now)
        membership->look_at =
            rl_max(now, rl_time_add_sat(membership->look_at, RL_MEMBER_POLL_INTERVAL));
    for (unsigned i = 0; i < membership->params.n; i++) {
        struct rl_member *member = &membership->member[i];
        member->look_at = rl_min(member->look_at, membership->look_at);
    }
}

/* --- was it our clock? --- */

/* The nodes whose clocks seem to have changed by this amount at this moment. */
static rl_node_set changed_at(const struct rl_membership *membership, rl_time moment,
                              rl_time amount)
{
    rl_node_set nodes = 0;
    for (unsigned i = 0; i < membership->params.n; i++) {
        const struct rl_member *member = &membership->member[i];
        const struct rl_pace_change *change = &member->doubt.change;
        if (membership->doubted & rl_bit(i) && change->after < moment &&
            moment <= change->until && change->least <= amount && amount <= change->most)
            nodes |= rl_bit(i);
    }
    return nodes;
}

/* One node alone cannot show that our clock was wrong, even if there is no other. */
static bool are_enough(const struct rl_membership *membership, rl_node_set nodes)
{
    unsigned count = rl_count(nodes);
    return count >= 2 && count >= rl_majority(membership->params.n);
}

/*
 * The clocks of a majority seem to have changed at the moment of the one change, by the
 * amount of the other: it was our clock, and these doubts are dropped. A node with further
 * wrong replies keeps its doubt.
 */
static bool drop_doubts_alike(struct rl_membership *membership, unsigned one,
                              unsigned other)
{
    rl_time moment = membership->member[one].doubt.change.until;
    rl_time amount = membership->member[other].doubt.change.least;
    rl_node_set nodes = changed_at(membership, moment, amount);
    if (!(membership->doubted & rl_bit(one)) || !(membership->doubted & rl_bit(other)) ||
        !are_enough(membership, nodes))
        return false;
    membership->erred_at = rl_max(membership->erred_at, moment);
    for (; nodes; nodes &= nodes - 1)
        if (!membership->member[rl_first(nodes)].doubt.repeated)
            membership->doubted &= ~rl_bit(rl_first(nodes));
    return true;
}

static void drop_doubts(struct rl_membership *membership)
{
    bool dropped = false;
    for (unsigned i = 0; i < membership->params.n && !dropped; i++)
        for (unsigned j = 0; j < membership->params.n && !dropped; j++)
            dropped = drop_doubts_alike(membership, i, j);
}

/* --- was it the node's clock? --- */

static void attest(struct rl_membership *membership, unsigned node, rl_time sent,
                   rl_time now)
{
    const struct rl_pace *pace = &membership->member[node].pace;
    rl_node_set others = membership->doubted & ~rl_bit(node);
    for (; others; others &= others - 1) {
        struct rl_doubt *doubt = &membership->member[rl_first(others)].doubt;
        if (sent >= doubt->first_at && rl_pace_attests(pace, now - sent, &doubt->change))
            doubt->attested |= rl_bit(node);
    }
}

bool rl_membership_is_clock_proven(const struct rl_membership *membership, unsigned node)
{
    return membership->doubted & rl_bit(node) &&
           rl_count(membership->member[node].doubt.attested) >=
               rl_majority(membership->params.n);
}

/* --- doubts --- */

/* In any state: the same reply, or one to an earlier command, may show an active marker. */
RL_RARE static void note_doubt(struct rl_membership *membership, unsigned node, rl_time now)
{
    struct rl_member *member = &membership->member[node];
    const struct rl_pace_change *change = &member->pace.change;
    struct rl_doubt *doubt = &member->doubt;
    doubt->last_at = now;
    if (member->watch.since != RL_NEVER)
        member->watch.since = now;
    if (membership->doubted & rl_bit(node)) {
        doubt->repeated = true;
    } else if (change->after >= membership->erred_at) {
        membership->doubted |= rl_bit(node);
        *doubt = (struct rl_doubt){.change = *change, .first_at = now, .last_at = now};
        drop_doubts(membership);
    }
    look_at_all(membership, now);
    rl_membership_update(membership, now);
}

rl_time rl_membership_doubts_until(const struct rl_membership *membership, unsigned node)
{
    rl_time last_at = membership->member[node].doubt.last_at;
    return membership->doubted & rl_bit(node)
               ? rl_time_add_sat(last_at, rl_membership_quarantine(membership))
               : RL_NEVER;
}

/* What the node may have forgotten early by then has ended. */
void rl_membership_end_doubts(struct rl_membership *membership, rl_time now)
{
    rl_node_set doubted = membership->doubted;
    for (rl_node_set rest = doubted; rest; rest &= rest - 1)
        if (now >= rl_membership_doubts_until(membership, rl_first(rest)))
            membership->doubted &= ~rl_bit(rl_first(rest));
    if (membership->doubted != doubted)
        rl_membership_update(membership, now);
}

/* (safety.md, Clocks) */
bool rl_membership_time(struct rl_membership *membership, unsigned node, rl_time sent,
                        rl_time now, rl_time unslewed, rl_time reported)
{
    rl_time sent_at = unslewed - (now - sent);
    bool is_bound = membership->roster.deployment > 0;
    if (is_bound &&
        !is_in_time(membership, &membership->member[node], sent_at, unslewed, reported)) {
        note_doubt(membership, node, now);
        return false;
    }
    if (is_bound)
        attest(membership, node, sent, now);
    /* After a reply that shows a wrong clock, replies sent with it are not trusted. */
    return !(membership->doubted & rl_bit(node));
}
