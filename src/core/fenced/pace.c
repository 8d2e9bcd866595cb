#include "pace.h"

static rl_time share(rl_time span, uint32_t ppm)
{
    return span / 1000000 * ppm + span % 1000000 * ppm / 1000000;
}

/* Later replies are compared with this one. */
RL_RARE static void pace_start(struct rl_pace *pace, rl_time high, rl_time sent,
                               rl_time received, rl_time reported)
{
    struct rl_pace_agreement first = {received, received - sent};
    *pace = (struct rl_pace){
        .known = true,
        .low = reported - received,
        .high = high,
        .at = received,
        .reported = reported,
        .since = received,
        .agree = first,
        .quick = first,
        .sent = sent,
        .agreed_at = sent,
        .change = pace->change,
    };
}

/* The distance between two intervals; 0: they overlap. */
static rl_time gap_of(rl_time low, rl_time high, rl_time other_low, rl_time other_high)
{
    return rl_max(rl_max(low - other_high, other_low - high), 0);
}

static enum rl_clock_error clock_error(const struct rl_pace *pace, rl_time received,
                                       rl_time reported, rl_time gap)
{
    if (reported == pace->reported)
        return RL_CLOCK_STILL;
    if (gap > (received - pace->at) / 8)
        return RL_CLOCK_SET;
    return reported - received > pace->high ? RL_CLOCK_FAST : RL_CLOCK_SLOW;
}

/* A reply that took long agrees with much: it is no proof that nothing changed before it.
 */
static void note_agreement(struct rl_pace *pace, rl_time low, rl_time high, rl_time slack)
{
    rl_time took = pace->at - pace->sent;
    if (pace->low - low <= slack && high - pace->high <= slack)
        pace->agreed_at = pace->sent;
    if (pace->quick.width > slack && took <= pace->quick.width / 2)
        pace->quick = (struct rl_pace_agreement){pace->at, took};
}

/* The request of the last right reply that would have shown a change before it. */
RL_RARE static rl_time changed_after(const struct rl_pace *pace, rl_time low, rl_time high,
                                     uint32_t ppm, rl_time allowed, rl_time slack)
{
    rl_time last_low = pace->reported - pace->at;
    rl_time last_high = pace->reported - pace->sent + share(pace->at - pace->sent, ppm);
    rl_time gap = gap_of(last_low - allowed, last_high + allowed, low, high);
    return gap > slack ? pace->sent : pace->agreed_at;
}

/* (safety.md, Clocks) */
bool rl_pace_note(struct rl_pace *pace, rl_time sent, rl_time received, rl_time reported,
                  uint32_t ppm, rl_time slack)
{
    /* The node may have read its clock right after `sent`, and gained on us since then. */
    rl_time most = reported - sent + share(received - sent, ppm);
    if (!pace->known) {
        pace_start(pace, most, sent, received, reported);
        pace->agree.since = pace->quick.since = received - RL_PACE_FIRST;
        return true;
    }
    rl_time allowed = share(received - pace->at, ppm) + 1;
    rl_time low = pace->low - allowed;
    rl_time high = pace->high + allowed;
    rl_time gap = gap_of(low, high, reported - received, most);
    rl_time excess = rl_max(pace->excess - allowed, 0) + gap;
    rl_time since = reported == pace->reported ? pace->since : received;
    if (excess > slack || sent - since >= RL_PACE_STILL) {
        pace->change = (struct rl_pace_change){
            .error = clock_error(pace, received, reported, gap),
            .after = changed_after(pace, reported - received, most, ppm, allowed, slack),
            .until = received,
            .least = reported - received - high - slack,
            .most = most - low + slack,
            .size = rl_max(excess, sent - since),
        };
        pace_start(pace, most, sent, received, reported);
        return false;
    }
    bool ahead = reported - received > high;
    pace->sent = sent;
    pace->at = received;
    pace->reported = reported;
    pace->since = since;
    pace->excess = excess;
    if (gap > 0) { /* the nearest possible offset: the change counts only once */
        pace->low = pace->high = ahead ? reported - received : most;
    } else {
        pace->low = rl_max(reported - received, low);
        pace->high = rl_min(most, high);
    }
    note_agreement(pace, reported - received, most, slack);
    return true;
}

static bool excludes(const struct rl_pace *pace, struct rl_pace_agreement agreement,
                     rl_time took, const struct rl_pace_change *change)
{
    return agreement.since <= change->after &&
           agreement.width + took + pace->excess < change->size;
}

/* (safety.md, Clocks) */
bool rl_pace_attests(const struct rl_pace *pace, rl_time took,
                     const struct rl_pace_change *change)
{
    return excludes(pace, pace->agree, took, change) ||
           excludes(pace, pace->quick, took, change);
}
