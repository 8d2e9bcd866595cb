#include "steward_parts.h"

#include <string.h>

#include "admission.h"
#include "quorum.h"

void rl_steward_init(struct rl_steward *steward, const struct rl_steward_terms *terms)
{
    memset(steward, 0, sizeof(*steward));
    steward->terms = *terms;
    for (unsigned i = 0; i < terms->n; i++) {
        steward->ward[i].look_at = RL_NEVER;
        steward->ward[i].watch.since = RL_NEVER;
    }
}

rl_time rl_steward_quarantine(const struct rl_steward *steward)
{
    rl_time ttl = steward->roster.max_ttl_ms * RL_MS;
    rl_time drift = ttl - rl_valid_until(0, ttl, steward->terms.drift_ppm);
    rl_time longest = rl_max(ttl + drift, 2 * RL_KAPPA + RL_SECOND);
    return longest + longest / RL_CLOCK_SHARE;
}

rl_nodes rl_steward_standing(const struct rl_steward *steward, unsigned standings)
{
    rl_nodes nodes = 0;
    for (unsigned i = 0; i < steward->terms.n; i++)
        if (standings >> steward->ward[i].standing & 1)
            nodes |= rl_bit(i);
    return nodes;
}

rl_nodes rl_steward_sound(const struct rl_steward *steward)
{
    return rl_steward_standing(steward, RL_STANDS(SOUND));
}

void rl_steward_nonce(const struct rl_steward *steward, unsigned node,
                      char ret_nonce[RL_NONCE])
{
    const struct rl_ward *ward = &steward->ward[node];
    if (ward->standing == RL_STANDING_SOUND)
        rl_marker_nonce(ward->nonce, ret_nonce);
    else
        memset(ret_nonce, '-', RL_NONCE);
}

/* --- who stands how --- */

static bool is_ours(const struct rl_steward *steward, const struct rl_ward *ward)
{
    const struct rl_roster *roster = &ward->marker.roster;
    return ward->marked && roster->n == steward->terms.n &&
           roster->deployment == steward->roster.deployment;
}

/* How many nodes that we can see are of the same deployment as this one. */
static unsigned count_same(const struct rl_steward *steward, const struct rl_ward *as)
{
    const struct rl_roster *roster = &as->marker.roster;
    unsigned same = 0;
    for (unsigned i = 0; i < steward->terms.n; i++) {
        const struct rl_ward *ward = &steward->ward[i];
        same += ward->greeted && ward->marked && ward->marker.roster.n == roster->n &&
                ward->marker.roster.deployment == roster->deployment;
    }
    return same;
}

/*
 * The deployment of which a majority is seen is ours; it stays so until a majority is of
 * another one: then all was lost and founded anew, and we are no wiser than a fresh client.
 */
static void bind(struct rl_steward *steward)
{
    unsigned n = steward->terms.n;
    bool founds = steward->founding | steward->undoing || steward->outrun;
    for (unsigned i = 0; i < n && !founds; i++) {
        const struct rl_ward *ward = &steward->ward[i];
        const struct rl_roster *roster = &ward->marker.roster;
        if (!ward->greeted || !ward->marked || roster->n != n ||
            roster->deployment == steward->roster.deployment ||
            count_same(steward, ward) < rl_majority(n))
            continue;
        steward->roster = *roster;
        for (unsigned j = 0; j < n; j++)
            steward->ward[j].last.generation = 0;
        return;
    }
}

/* Whether a node knows the latest of this seat, may yet say so, or would get it back. */
static bool is_open(const struct rl_steward *steward, unsigned seat)
{
    struct rl_incarnation latest = steward->roster.seat[seat];
    for (unsigned i = 0; i < steward->terms.n; i++) {
        const struct rl_ward *ward = &steward->ward[i];
        bool had_it = ward->seat == seat && rl_same_incarnation(ward->last, latest);
        bool told_all = is_ours(steward, ward) && ward->nonce == ward->marker.nonce &&
                        !ward->unconfirmed;
        if (had_it || !told_all ||
            !rl_later_incarnation(latest, ward->marker.roster.seat[seat]))
            return true;
    }
    return false;
}

/*
 * An incarnation may be lost before anybody but us has heard of it, and its seat be given
 * to another server, by one that is not later: that would never have a vote from us. So
 * where all nodes have said what they know, and none knows of ours, we are no wiser than a
 * fresh client, who has watched nothing either.
 */
static void unlearn(struct rl_steward *steward)
{
    bool any = false;
    for (unsigned seat = 0; seat < steward->terms.n; seat++) {
        if (is_open(steward, seat))
            continue;
        steward->roster.seat[seat] = (struct rl_incarnation){0};
        any = true;
    }
    for (unsigned i = 0; any && i < steward->terms.n; i++)
        steward->ward[i].watch = (struct rl_watch){.since = RL_NEVER};
}

static enum rl_standing standing_of(const struct rl_steward *steward,
                                    const struct rl_ward *ward)
{
    const struct rl_marker *marker = &ward->marker;
    if (!ward->greeted)
        return RL_STANDING_UNSEEN;
    if (ward->garbled || (ward->marked && marker->roster.n != steward->terms.n))
        return RL_STANDING_ELSEWHERE;
    if (!ward->marked)
        return RL_STANDING_UNMARKED;
    if (!steward->roster.deployment)
        return RL_STANDING_ALONE;
    if (!is_ours(steward, ward))
        return RL_STANDING_ELSEWHERE;
    if (rl_later_incarnation(steward->roster.seat[marker->seat], rl_marker_self(marker)))
        return RL_STANDING_REPLACED;
    if (!rl_same_process(&marker->process, &ward->process))
        return RL_STANDING_FOREIGN;
    if (!marker->sound)
        return RL_STANDING_BARRED;
    /* An order under way bars the node, even if its clock is trusted again by now. */
    if (ward->off || ward->claims)
        return RL_STANDING_CLOCK;
    return ward->unconfirmed ? RL_STANDING_UNCONFIRMED : RL_STANDING_SOUND;
}

bool rl_steward_is_recovering(const struct rl_steward *steward)
{
    if (steward->admission < RL_ADMIT_NEW || steward->admission > RL_ADMIT_WAIT)
        return false;
    rl_nodes sound = rl_steward_sound(steward);
    rl_nodes barred = rl_steward_standing(steward, RL_STANDS(BARRED));
    return rl_count(sound) < rl_majority(steward->terms.n) &&
           (sound | barred) == rl_all(steward->terms.n);
}

rl_nodes rl_steward_knowing(const struct rl_steward *steward, unsigned node)
{
    const struct rl_marker *newest = &steward->ward[node].marker;
    struct rl_incarnation self = rl_marker_self(newest);
    rl_nodes fit = rl_steward_is_recovering(steward)
                       ? rl_all(steward->terms.n)
                       : rl_steward_sound(steward) & ~rl_bit(node);
    rl_nodes nodes = 0;
    for (rl_nodes rest = fit; rest; rest &= rest - 1) {
        unsigned i = rl_first(rest);
        const struct rl_roster *roster = &steward->ward[i].marker.roster;
        if (!rl_later_incarnation(self, roster->seat[newest->seat]))
            nodes |= rl_bit(i);
    }
    return nodes;
}

/*
 * Registered is an incarnation when a majority knows it *at one moment*: else one that knew
 * it might have forgotten by the time that the next one learns of it. So whoever knows is
 * looked at once more, and the moment is in between.
 */
static void watch(struct rl_steward *steward, unsigned node, rl_time now)
{
    struct rl_ward *ward = &steward->ward[node];
    struct rl_watch *watch = &ward->watch;
    struct rl_incarnation self = rl_marker_self(&ward->marker);
    if (ward->standing != RL_STANDING_BARRED || !rl_same_incarnation(watch->of, self))
        *watch = (struct rl_watch){.of = self, .since = RL_NEVER};
    if (ward->standing != RL_STANDING_BARRED || watch->since != RL_NEVER)
        return;
    unsigned enough = rl_steward_is_recovering(steward) ? steward->terms.n
                                                        : rl_majority(steward->terms.n);
    rl_nodes nodes = rl_steward_knowing(steward, node);
    watch->jury &= nodes;
    if (rl_count(watch->jury & watch->told) >= enough) {
        watch->since = watch->asked;
    } else if (rl_count(watch->jury) < enough && rl_count(nodes) >= enough) {
        watch->jury = nodes;
        watch->told = 0;
        watch->asked = now;
        for (; nodes; nodes &= nodes - 1)
            steward->ward[rl_first(nodes)].look_at = now;
    }
}

/* Who is soon to vote, who is lost for now, and who votes: there a vote would tell. */
static rl_time gap_of(enum rl_standing standing)
{
    if (standing == RL_STANDING_SOUND)
        return RL_STEWARD_PROBE;
    return standing >= RL_STANDING_BARRED ? RL_STEWARD_GAP : RL_STEWARD_REST;
}

void rl_steward_review(struct rl_steward *steward, rl_time now)
{
    struct rl_roster known = steward->roster;
    bind(steward);
    unlearn(steward);
    for (unsigned i = 0; i < steward->terms.n; i++)
        if (steward->roster.deployment && is_ours(steward, &steward->ward[i]))
            rl_roster_merge(&steward->roster, &steward->ward[i].marker.roster);
    if (memcmp(&known, &steward->roster, sizeof(known)) != 0)
        steward->learned_at = now;
    for (unsigned i = 0; i < steward->terms.n; i++) {
        struct rl_ward *ward = &steward->ward[i];
        ward->standing = standing_of(steward, ward);
        if (ward->greeted && ward->standing != RL_STANDING_SOUND)
            ward->look_at = rl_min(ward->look_at, rl_later(now, gap_of(ward->standing)));
        if (ward->standing >= RL_STANDING_BARRED) {
            ward->seat = ward->marker.seat;
            ward->last = rl_marker_self(&ward->marker);
        }
    }
    for (unsigned i = 0; i < steward->terms.n; i++)
        watch(steward, i, now);
}

/* --- what happens --- */

/* Returns whether that is another marker than was read last, or written by us. */
static bool learn(struct rl_steward *steward, unsigned node, struct rl_word text)
{
    struct rl_ward *ward = &steward->ward[node];
    struct rl_marker marker;
    bool read = text.len > 0 && rl_marker_read(text, &marker);
    uint64_t nonce = read ? marker.nonce : 0;
    bool is_another = nonce != ward->nonce || ward->garbled != (text.len > 0 && !read);
    if (!read || !ward->marked ||
        !rl_same_incarnation(rl_marker_self(&marker), rl_marker_self(&ward->marker)))
        for (unsigned i = 0; i < steward->terms.n; i++)
            steward->ward[i].watch.jury &= ~rl_bit(node); /* it has forgotten meanwhile */
    ward->marked = read;
    ward->garbled = text.len > 0 && !read;
    ward->nonce = nonce;
    if (read)
        ward->marker = marker;
    if (!read || !marker.sound)
        ward->off = false;
    rl_admission_learned(steward, node);
    return is_another;
}

/* No vote, and no order but a look, until the node's history is confirmed behind that. */
static void doubt_history(struct rl_ward *ward, rl_time now)
{
    ward->unconfirmed = true;
    if (!ward->confirming)
        ward->look_at = now;
}

/* A look that became due after this was sent is still due. */
static void look_later(struct rl_steward *steward, unsigned node, rl_time sent, rl_time now)
{
    struct rl_ward *ward = &steward->ward[node];
    if (ward->look_at <= sent || ward->look_at > now)
        ward->look_at = RL_NEVER;
    rl_steward_review(steward, now);
    ward->look_at = rl_min(ward->look_at, rl_later(now, gap_of(ward->standing)));
}

void rl_steward_greeted(struct rl_steward *steward, unsigned node,
                        const struct rl_process *process, struct rl_word marker,
                        rl_time now)
{
    struct rl_ward *ward = &steward->ward[node];
    ward->greeted = true;
    ward->owed = ward->claims = ward->unconfirmed = ward->confirming = false;
    ward->rest_until = 0;
    if (!rl_same_process(&ward->process, process))
        ward->pace.known = false; /* another machine's clock, perhaps */
    ward->process = *process;
    learn(steward, node, marker);
    look_later(steward, node, now, now);
}

void rl_steward_gone(struct rl_steward *steward, unsigned node, rl_time now)
{
    struct rl_ward *ward = &steward->ward[node];
    ward->greeted = ward->owed = ward->claims = false;
    rl_steward_review(steward, now);
}

void rl_steward_answered(struct rl_steward *steward, unsigned node, struct rl_word marker,
                         rl_time sent, rl_time now)
{
    struct rl_ward *ward = &steward->ward[node];
    ward->owed = ward->claims = false;
    bool is_another = learn(steward, node, marker);
    if (is_another) {
        ward->unconfirmed = true;
        ward->changed_at = now;
    }
    for (unsigned i = 0; i < steward->terms.n; i++)
        if (steward->ward[i].watch.asked > 0 && sent >= steward->ward[i].watch.asked)
            steward->ward[i].watch.told |= rl_bit(node);
    look_later(steward, node, sent, now);
    if (ward->unconfirmed)
        doubt_history(ward, now);
}

void rl_steward_disputed(struct rl_steward *steward, unsigned node, rl_time sent,
                         rl_time now)
{
    struct rl_ward *ward = &steward->ward[node];
    if (ward->changed_at > sent)
        return; /* what the command said is known to be outdated */
    doubt_history(ward, now);
    rl_steward_review(steward, now);
}

bool rl_steward_history(struct rl_steward *steward, unsigned node, struct rl_word replid,
                        rl_time now)
{
    struct rl_ward *ward = &steward->ward[node];
    bool is_told = replid.len == RL_RUN_ID;
    bool is_same = is_told && memcmp(replid.text, ward->process.replid, RL_RUN_ID) == 0;
    bool confirms = ward->confirming && is_same;
    ward->confirming = false;
    if (ward->unconfirmed && confirms) {
        ward->unconfirmed = false;
        look_later(steward, node, now, now);
    }
    return is_same || (!is_told && !ward->unconfirmed);
}

void rl_steward_weigh(const struct rl_steward *steward, unsigned node, enum rl_text text,
                      struct rl_answer *answer)
{
    if (!steward->ward[node].unconfirmed || text == RL_RELEASE ||
        answer->vote != RL_VOTE_GRANTED)
        return;
    answer->vote = RL_VOTE_UNKNOWN;
    answer->fault = RL_FAULT_MARKER;
}

void rl_steward_refused(struct rl_steward *steward, unsigned node, bool again, rl_time now)
{
    struct rl_ward *ward = &steward->ward[node];
    ward->owed = ward->claims = ward->confirming = false;
    ward->nonce = ward->marked ? ward->marker.nonce : 0;
    rl_steward_review(steward, now);
    ward->look_at = ward->rest_until = again ? now : rl_later(now, RL_STEWARD_REST);
}

/* Half of what keys can bear; the other half is for what no answer shows. */
static bool is_in_time(struct rl_steward *steward, struct rl_ward *ward, rl_time took,
                       rl_time raw, rl_time told)
{
    rl_time ttl = steward->roster.max_ttl_ms * RL_MS;
    uint32_t ppm = steward->terms.drift_ppm;
    if (ppm < RL_CLOCK_PPM)
        ppm = RL_CLOCK_PPM;
    rl_time slack = (ttl - rl_valid_until(0, ttl, ppm)) / 2;
    return rl_pace_note(&ward->pace, raw - took, raw, told, ppm / 2, slack);
}

/* What was known of the node's clock is from before ours was found out. */
static bool is_our_fault(const struct rl_steward *steward, rl_time known_at, rl_time now)
{
    return steward->doubted_at > 0 && known_at <= steward->doubted_at &&
           now < steward->doubted_at + RL_CLOCK_RECENT;
}

bool rl_steward_time(struct rl_steward *steward, unsigned node, rl_time sent, rl_time now,
                     rl_time raw, rl_time told)
{
    struct rl_ward *ward = &steward->ward[node];
    rl_time known_at = now - (raw - ward->pace.at);
    if (!steward->roster.deployment || is_in_time(steward, ward, now - sent, raw, told))
        return !ward->off; /* what was sent with the answer that told so is no better */
    if (ward->watch.since != RL_NEVER)
        ward->watch.since = now;
    /* The same answer may say that it votes, as may one to what was said when it did; and
       it may be found out at each look. */
    if (!ward->off && !is_our_fault(steward, known_at, now)) {
        ward->off = true;
        ward->off_at = now;
    }
    for (unsigned i = 0; i < steward->terms.n; i++)
        steward->ward[i].look_at = now; /* is it theirs, or ours? */
    rl_steward_review(steward, now);
    return false;
}

void rl_steward_doubt(struct rl_steward *steward, rl_time now)
{
    unsigned off = 0;
    for (unsigned i = 0; i < steward->terms.n; i++)
        off += steward->ward[i].off && now < steward->ward[i].off_at + RL_CLOCK_RECENT;
    if (off < rl_majority(steward->terms.n))
        return;
    for (unsigned i = 0; i < steward->terms.n; i++)
        steward->ward[i].off = false;
    steward->doubted_at = now; /* who was not heard since will seem off, too */
    rl_steward_review(steward, now);
}
