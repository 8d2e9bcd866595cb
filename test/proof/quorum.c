/* Votes are counted once per node, a round is won by a majority alone, and two majorities
   share a node (safety.md, rule 1; Why a majority excludes). */
#include "core/quorum.h"

#include "proof.h"

static unsigned slow_count(rl_node_set set)
{
    unsigned count = 0;
    for (unsigned i = 0; i < RL_NODES_MAX; i++)
        count += set >> i & 1;
    return count;
}

/* cbmc: --unwind 33 */
void proof_count_is_the_number_of_bits(void)
{
    rl_node_set set = nondet_u32();
    assert(rl_count(set) == slow_count(set));
}

/* cbmc: --unwind 33 */
void proof_two_majorities_share_a_node(void)
{
    unsigned n = nondet_unsigned();
    assume(n >= 1 && n <= RL_NODES_MAX);
    rl_node_set a = nondet_u32() & rl_all(n), b = nondet_u32() & rl_all(n);
    assume(rl_count(a) >= rl_majority(n) && rl_count(b) >= rl_majority(n));
    assert((a & b) != 0);
}

/* cbmc: --unwind 33 */
void proof_round_is_won_by_q_grants_alone(void)
{
    unsigned n = nondet_unsigned();
    assume(n >= 1 && n <= RL_NODES_MAX);
    unsigned q = rl_majority(n);
    struct rl_round round = {.waiting = nondet_u32() & rl_all(n),
                             .granted = nondet_u32() & rl_all(n)};
    assume((round.granted & round.waiting) == 0);
    unsigned node = nondet_unsigned(), vote = nondet_unsigned();
    assume(node < n && vote <= RL_VOTE_ABSENT);
    struct rl_round before = round;

    rl_round_count(&round, node, (enum rl_vote)vote);

    rl_node_set bit = rl_bit(node), has = vote == RL_VOTE_GRANTED ? bit : 0;
    assert(round.granted == ((before.granted & ~bit) | has));
    assert(round.waiting == (before.waiting & ~bit));
    enum rl_round_state state = rl_round_evaluate(&round, q);
    assert((state == RL_ROUND_WON) == (slow_count(round.granted) >= q));
    assert((state == RL_ROUND_LOST) == (slow_count(round.granted | round.waiting) < q));
}

/* A lock is never reported as free earlier than q nodes can be free. */
/* cbmc: --unwind 8 */
void proof_free_in_is_a_time_of_q_nodes(void)
{
    struct rl_ballot ballot[7];
    unsigned n = nondet_unsigned();
    assume(n >= 1 && n <= 7);
    for (unsigned i = 0; i < n; i++) {
        unsigned vote = nondet_unsigned();
        assume(vote <= RL_VOTE_ABSENT);
        ballot[i].vote = (enum rl_vote)vote;
        ballot[i].pttl = (int32_t)nondet_u32();
        assume(ballot[i].pttl >= -1);
    }
    unsigned q = rl_majority(n), free = 0;
    int64_t in = rl_free_in(ballot, n, q);
    assert(in >= -1);
    for (unsigned i = 0; i < n && in >= 0; i++)
        free +=
            ballot[i].vote == RL_VOTE_GONE ||
            (ballot[i].vote == RL_VOTE_GRANTED && ballot[i].pttl <= in) ||
            (ballot[i].vote == RL_VOTE_HELD && ballot[i].pttl >= 0 && ballot[i].pttl <= in);
    assert(in < 0 || free >= q);
}
