#include "quorum.h"

#include <assert.h>

/* (safety.md, Why a majority excludes) */
unsigned rl_majority(unsigned n)
{
    return n / 2 + 1;
}

/* (safety.md, rule 1) */
enum rl_round_state rl_round_evaluate(const struct rl_round *round, unsigned q)
{
    assert((round->granted & round->waiting) == 0);
    if (rl_count(round->granted) >= q)
        return RL_ROUND_WON;
    return rl_count(round->granted | round->waiting) < q ? RL_ROUND_LOST : RL_ROUND_OPEN;
}

/* (safety.md, rule 1) */
void rl_round_count(struct rl_round *round, unsigned node, enum rl_vote vote)
{
    rl_node_set bit = rl_bit(node);
    round->waiting &= ~bit;
    if (vote == RL_VOTE_GRANTED)
        round->granted |= bit;
    else
        round->granted &= ~bit;
}

/* (safety.md, The validity and the clock) */
rl_time rl_valid_until(rl_time start, rl_time ttl, uint32_t drift_ppm)
{
    rl_time whole = ttl / 1000000 * drift_ppm;
    rl_time part = (ttl % 1000000 * drift_ppm + 999999) / 1000000;
    return rl_time_add_sat(start, ttl) - whole - part - RL_DRIFT_FLOOR;
}

/* The node granted, and did not report another client's key when the token was released. */
static bool is_free(const struct rl_ballot *ballot)
{
    return ballot->vote == RL_VOTE_GONE ||
           (ballot->vote == RL_VOTE_GRANTED && ballot->pttl < 0);
}

/* The node will be able to grant after `pttl`: another client's key expires there or, if
   `absent`, the node may vote again. */
static bool is_timed(const struct rl_ballot *ballot, bool absent)
{
    return ballot->pttl >= 0 &&
           (ballot->vote == RL_VOTE_HELD || ballot->vote == RL_VOTE_GRANTED ||
            (absent && ballot->vote == RL_VOTE_ABSENT));
}

static unsigned timed_for_at_most(const struct rl_ballot *ballot, unsigned n, bool absent,
                                  int32_t pttl)
{
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++)
        count += is_timed(&ballot[i], absent) && ballot[i].pttl <= pttl;
    return count;
}

static int64_t free_in(const struct rl_ballot *ballot, unsigned n, unsigned q, bool absent)
{
    unsigned free = 0;
    for (unsigned i = 0; i < n; i++)
        free += is_free(&ballot[i]);
    if (free >= q)
        return 0;
    int64_t best = -1;
    for (unsigned i = 0; i < n; i++) {
        int32_t pttl = ballot[i].pttl;
        if (!is_timed(&ballot[i], absent) || (best >= 0 && pttl >= best))
            continue;
        if (free + timed_for_at_most(ballot, n, absent, pttl) >= q)
            best = pttl;
    }
    return best;
}

/* (safety.md, Waiting) */
int64_t rl_free_in(const struct rl_ballot *ballot, unsigned n, unsigned q)
{
    return free_in(ballot, n, q, false);
}

int64_t rl_quorum_in(const struct rl_ballot *ballot, unsigned n, unsigned q)
{
    return free_in(ballot, n, q, true);
}

bool rl_replies_decide(unsigned n, unsigned q, unsigned held, unsigned free,
                       unsigned agreeing)
{
    unsigned silent = n - held - free;
    return held + free >= q && (agreeing >= q || free >= q || agreeing + silent < q);
}
