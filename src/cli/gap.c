#include "gap.h"

static void close_at(struct gap *gap, int64_t at)
{
    int64_t took = at - gap->last;
    gap->sum += took;
    if (gap->longest < took)
        gap->longest = took;
    gap->failed = 0;
}

/* Lanes tell this when they have released: what failed later may have been told before. */
void gap_came(struct gap *gap, int64_t at)
{
    if (at <= gap->last)
        return;
    if (gap->failed > 0 && gap->failed <= at)
        close_at(gap, at);
    gap->last = at;
}

void gap_failed(struct gap *gap, int64_t at)
{
    if (at > gap->last && (gap->failed == 0 || at < gap->failed))
        gap->failed = at;
}

void gap_end(struct gap *gap, int64_t at)
{
    if (gap->failed > 0 && at > gap->last)
        close_at(gap, at);
}
