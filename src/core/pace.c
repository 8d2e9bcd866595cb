#include "pace.h"

static rl_time share(rl_time span, uint32_t ppm)
{
    return span / 1000000 * ppm + span % 1000000 * ppm / 1000000;
}

static void start(struct rl_pace *pace, rl_time high, rl_time heard, rl_time told)
{
    *pace = (struct rl_pace){
        .known = true,
        .low = told - heard,
        .high = high,
        .at = heard,
        .told = told,
        .since = heard,
    };
}

/* How far apart the two are; 0: they share something. */
static rl_time gap_of(rl_time low, rl_time high, rl_time other_low, rl_time other_high)
{
    return rl_max(rl_max(low - other_high, other_low - high), 0);
}

bool rl_pace_note(struct rl_pace *pace, rl_time sent, rl_time heard, rl_time told,
                  uint32_t ppm, rl_time slack)
{
    /* It may have told that as soon as we asked, and have gained on us ever since. */
    rl_time most = told - sent + share(heard - sent, ppm);
    if (!pace->known) {
        start(pace, most, heard, told);
        return true;
    }
    rl_time allowed = share(heard - pace->at, ppm) + 1;
    rl_time low = pace->low - allowed;
    rl_time high = pace->high + allowed;
    rl_time gap = gap_of(low, high, told - heard, most);
    rl_time worn = rl_max(pace->worn - allowed, 0) + gap;
    rl_time since = told == pace->told ? pace->since : heard;
    if (worn > slack || sent - since >= RL_PACE_STILL) {
        start(pace, most, heard, told);
        return false;
    }
    bool ahead = told - heard > high;
    start(pace, most, heard, told);
    pace->worn = worn;
    pace->since = since;
    if (gap > 0) /* the nearest that it can be: what is worn is counted once */
        pace->low = pace->high = ahead ? pace->low : pace->high;
    else {
        pace->low = rl_max(pace->low, low);
        pace->high = rl_min(pace->high, high);
    }
    return true;
}
