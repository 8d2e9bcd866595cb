/* The times of day of the nodes, compared. */
#include "judge.h"

/* Its time of day less our clock, from the middle of the round trip; and the doubt. */
static int64_t offset_of(const struct rl_facts *facts)
{
    return facts->time - facts->asked - (facts->answered - facts->asked) / 2;
}

static int64_t doubt_of(const struct rl_facts *facts)
{
    return (facts->answered - facts->asked + 1) / 2;
}

/* The node in the middle, the lower one of two; n: none told its time. */
static unsigned find_median(const struct rl_facts *facts, unsigned n)
{
    unsigned timed = 0;
    for (unsigned i = 0; i < n; i++)
        timed += facts[i].time != 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned below = 0;
        if (!facts[i].time)
            continue;
        for (unsigned j = 0; j < n; j++)
            below +=
                facts[j].time && (offset_of(&facts[j]) < offset_of(&facts[i]) ||
                                  (offset_of(&facts[j]) == offset_of(&facts[i]) && j < i));
        if (below == (timed - 1) / 2)
            return i;
    }
    return n;
}

void rl_judge_clocks(const struct rl_facts *facts, redlock_fitness *nodes, unsigned n)
{
    unsigned median = find_median(facts, n);
    for (unsigned i = 0; i < n; i++) {
        nodes[i].timed = facts[i].time != 0;
        nodes[i].offset_us = nodes[i].offset_err_us = 0;
        if (!nodes[i].timed || i == median)
            continue;
        nodes[i].offset_us = offset_of(&facts[i]) - offset_of(&facts[median]);
        nodes[i].offset_err_us = doubt_of(&facts[i]) + doubt_of(&facts[median]);
    }
}
