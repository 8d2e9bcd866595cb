#include "quorum.h"

#include <assert.h>

unsigned rl_majority(unsigned n)
{
    return n / 2 + 1;
}

enum rl_result rl_round_result(const struct rl_round *round, unsigned q)
{
    assert((round->granted & round->waiting) == 0);
    if (rl_count(round->granted) >= q)
        return RL_WON;
    return rl_count(round->granted | round->waiting) < q ? RL_LOST : RL_OPEN;
}

void rl_round_count(struct rl_round *round, unsigned node, enum rl_vote vote)
{
    rl_nodes bit = rl_bit(node);
    round->waiting &= ~bit;
    if (vote == RL_VOTE_GRANTED)
        round->granted |= bit;
    else
        round->granted &= ~bit;
}

rl_time rl_valid_until(rl_time start, rl_time ttl, uint32_t drift_ppm)
{
    rl_time whole = ttl / 1000000 * drift_ppm;
    rl_time part = (ttl % 1000000 * drift_ppm + 999999) / 1000000;
    return rl_later(start, ttl) - whole - part - RL_DRIFT_FLOOR;
}

/* How many nodes hold another's key for at most `pttl`. */
static unsigned held_for_at_most(const struct rl_ballot *ballot, unsigned n, int32_t pttl)
{
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++)
        count +=
            ballot[i].vote == RL_VOTE_HELD && ballot[i].pttl >= 0 && ballot[i].pttl <= pttl;
    return count;
}

int64_t rl_free_in(const struct rl_ballot *ballot, unsigned n, unsigned q)
{
    unsigned free = 0;
    for (unsigned i = 0; i < n; i++)
        free += ballot[i].vote == RL_VOTE_GRANTED || ballot[i].vote == RL_VOTE_GONE;
    if (free >= q)
        return 0;
    int64_t best = -1;
    for (unsigned i = 0; i < n; i++) {
        int32_t pttl = ballot[i].pttl;
        if (ballot[i].vote != RL_VOTE_HELD || pttl < 0 || (best >= 0 && pttl >= best))
            continue;
        if (free + held_for_at_most(ballot, n, pttl) >= q)
            best = pttl;
    }
    return best;
}
