#include "outage.h"

static void close_at(struct outage *outage, int64_t at)
{
    int64_t took = at - outage->last;
    outage->sum += took;
    if (outage->longest < took)
        outage->longest = took;
    outage->failed = 0;
}

/*
 * Workers report a success after the release, so a later failure may have been reported
 * before.
 */
void outage_success(struct outage *outage, int64_t at)
{
    if (at <= outage->last)
        return;
    if (outage->failed > 0 && outage->failed <= at)
        close_at(outage, at);
    outage->last = at;
}

void outage_failure(struct outage *outage, int64_t at)
{
    if (at > outage->last && (outage->failed == 0 || at < outage->failed))
        outage->failed = at;
}

void outage_end(struct outage *outage, int64_t at)
{
    if (outage->failed > 0 && at > outage->last)
        close_at(outage, at);
}
