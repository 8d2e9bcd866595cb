/* The count of votes, compared with a naive count. */
#include "lease_fixture.h"
#include "prng.h"

enum { GRANT, REFUSE, SILENCE };

/* How the nodes reply, as the digits of a number to the base 3. */
static unsigned power(unsigned base, unsigned exponent)
{
    unsigned result = 1;
    while (exponent-- > 0)
        result *= base;
    return result;
}

static void read_pattern(unsigned pattern, unsigned n, int *ret_answer)
{
    for (unsigned i = 0; i < n; i++, pattern /= 3)
        ret_answer[i] = (int)(pattern % 3);
}

/* q of n grant, when the silent nodes vote as the bits of `future`. */
static bool would_win(const int *answer, unsigned n, unsigned q, unsigned future)
{
    unsigned grants = 0;
    for (unsigned i = 0; i < n; i++) {
        if (answer[i] == GRANT)
            grants++;
        else if (answer[i] == SILENCE && (future >> i & 1))
            grants++;
    }
    return grants >= q;
}

/* Tries every future of the silent nodes: a result is decided if all futures agree. */
static enum rl_round_state oracle(const int *answer, unsigned n, unsigned q)
{
    bool can_win = false, can_lose = false;
    for (unsigned future = 0; future < 1u << n; future++) {
        if (would_win(answer, n, q, future))
            can_win = true;
        else
            can_lose = true;
    }
    return !can_lose ? RL_ROUND_WON : !can_win ? RL_ROUND_LOST : RL_ROUND_OPEN;
}

static struct rl_round fresh_round(unsigned n)
{
    return (struct rl_round){.waiting = rl_all(n)};
}

/*
 * Plays a pattern in this order; the result must be the oracle's after every single vote.
 */
static void play(const int *answer, const unsigned *order, unsigned n, unsigned q)
{
    struct rl_round round = fresh_round(n);
    int so_far[RL_NODES_MAX];
    for (unsigned i = 0; i < n; i++)
        so_far[i] = SILENCE;
    CHECK(rl_round_evaluate(&round, q) == RL_ROUND_OPEN, "decided before any vote");
    for (unsigned i = 0; i < n; i++) {
        unsigned node = order[i];
        if (answer[node] == SILENCE)
            continue;
        so_far[node] = answer[node];
        rl_round_count(&round, node,
                       answer[node] == GRANT ? RL_VOTE_GRANTED : RL_VOTE_HELD);
        CHECK(rl_round_evaluate(&round, q) == oracle(so_far, n, q), "n %u, q %u, vote %u",
              n, q, i);
    }
}

static void play_all(unsigned n)
{
    struct prng prng = {n};
    for (unsigned pattern = 0; pattern < power(3, n); pattern++) {
        int answer[RL_NODES_MAX];
        unsigned order[RL_NODES_MAX];
        read_pattern(pattern, n, answer);
        for (unsigned q = rl_majority(n); q <= n; q++) {
            for (unsigned i = 0; i < 3; i++) {
                prng_shuffle(&prng, order, n);
                play(answer, order, n, q);
            }
        }
    }
}

Test(quorum, every_pattern_of_1_to_4_nodes)
{
    for (unsigned n = 1; n <= 4; n++)
        play_all(n);
}

Test(quorum, every_pattern_of_5_nodes)
{
    play_all(5);
}

Test(quorum, every_pattern_of_6_nodes)
{
    play_all(6);
}

Test(quorum, every_pattern_of_7_nodes)
{
    play_all(7);
}

/* Too many futures to try: by counting. */
Test(quorum, random_patterns_up_to_the_most_nodes)
{
    struct prng prng = {1};
    for (unsigned run = 0; run < 20000; run++) {
        unsigned n = 1 + prng_below(&prng, RL_NODES_MAX);
        unsigned q = rl_majority(n) + prng_below(&prng, n - rl_majority(n) + 1);
        unsigned order[RL_NODES_MAX], grants = 0, refusals = 0;
        unsigned bias = 1 + prng_below(&prng, 9);
        struct rl_round round = fresh_round(n);
        prng_shuffle(&prng, order, n);
        for (unsigned i = 0; i < n; i++) {
            bool grant = prng_below(&prng, 10) < bias;
            rl_round_count(&round, order[i], grant ? RL_VOTE_GRANTED : RL_VOTE_ERROR);
            grants += grant;
            refusals += !grant;
            enum rl_round_state expected = grants >= q        ? RL_ROUND_WON
                                           : refusals > n - q ? RL_ROUND_LOST
                                                              : RL_ROUND_OPEN;
            CHECK(rl_round_evaluate(&round, q) == expected, "run %u, vote %u", run, i);
        }
    }
}

Test(quorum, two_majorities_always_overlap)
{
    for (unsigned n = 1; n <= 32; n++) {
        cr_assert_gt(2 * rl_majority(n), n);
        cr_assert_leq(2 * (rl_majority(n) - 1), n, "the least that do");
    }
    static const unsigned known[][2] = {{1, 1}, {2, 2}, {3, 2}, {4, 3},
                                        {5, 3}, {6, 4}, {7, 4}, {32, 17}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        cr_assert_eq(rl_majority(known[i][0]), known[i][1]);
}

Test(quorum, a_node_is_counted_once_however_often_it_votes)
{
    struct rl_round round = fresh_round(5);
    for (unsigned i = 0; i < 10; i++) {
        rl_round_count(&round, 4, RL_VOTE_GRANTED);
        rl_round_count(&round, 1, RL_VOTE_HELD);
    }
    cr_assert_eq(rl_count(round.granted), 1);
    cr_assert_eq(rl_round_evaluate(&round, 3), RL_ROUND_OPEN);
}

Test(quorum, only_a_grant_is_a_grant)
{
    for (int vote = RL_VOTE_UNASKED; vote <= RL_VOTE_ABSENT; vote++) {
        struct rl_round round = fresh_round(1);
        rl_round_count(&round, 0, (enum rl_vote)vote);
        cr_assert_eq(rl_round_evaluate(&round, 1),
                     vote == RL_VOTE_GRANTED ? RL_ROUND_WON : RL_ROUND_LOST, "vote %d",
                     vote);
    }
}

Test(quorum, a_node_that_timed_out_may_still_grant)
{
    struct rl_round round = fresh_round(3);
    rl_round_count(&round, 0, RL_VOTE_GRANTED);
    rl_round_count(&round, 1, RL_VOTE_SILENT);
    cr_assert_eq(rl_round_evaluate(&round, 2), RL_ROUND_OPEN);
    rl_round_count(&round, 1, RL_VOTE_GRANTED);
    cr_assert_eq(rl_round_evaluate(&round, 2), RL_ROUND_WON);
}

Test(quorum, a_node_that_got_no_command_counts_against_winning)
{
    struct rl_round round = {.waiting = 0x3};
    cr_assert_eq(rl_round_evaluate(&round, 3), RL_ROUND_LOST);
    round = (struct rl_round){.waiting = 0x7};
    cr_assert_eq(rl_round_evaluate(&round, 3), RL_ROUND_OPEN);
    cr_assert_eq(rl_round_evaluate(&round, 4), RL_ROUND_LOST,
                 "a quorum above the majority");
}

Test(quorum, a_set_of_nodes)
{
    cr_assert_eq(rl_all(1), 1u);
    cr_assert_eq(rl_all(31), 0x7fffffffu);
    cr_assert_eq(rl_all(32), 0xffffffffu);
    cr_assert_eq(rl_bit(31), 0x80000000u);
    cr_assert_eq(rl_count(rl_all(32)), 32);
    cr_assert_eq(rl_first(rl_bit(31)), 31);
}

/* --- when a quorum will be free --- */

#define HELD_FOR(ms)                                                                       \
    {                                                                                      \
        .vote = RL_VOTE_HELD, .pttl = (ms)                                                 \
    }
#define NODE(v)                                                                            \
    {                                                                                      \
        .vote = RL_VOTE_##v, .pttl = -1                                                    \
    }

static void check_free(const struct rl_ballot ballot[5], int64_t expected)
{
    struct prng prng = {4};
    for (unsigned i = 0; i < 20; i++) {
        struct rl_ballot shuffled[5];
        unsigned order[5];
        prng_shuffle(&prng, order, 5);
        for (unsigned node = 0; node < 5; node++)
            shuffled[node] = ballot[order[node]];
        cr_assert_eq(rl_free_in(shuffled, 5, 3), expected, "the first of them");
    }
}

/* A node that was absent counts from the time when it may vote, if that is requested. */
Test(free_in, absent_nodes)
{
    struct rl_ballot all[5] = {HELD_FOR(10), NODE(ABSENT), NODE(ABSENT), HELD_FOR(40),
                               NODE(SILENT)};
    all[1].pttl = 20;
    cr_assert_eq(rl_free_in(all, 5, 3), -1);
    cr_assert_eq(rl_quorum_in(all, 5, 3), 40);
    all[2].pttl = 0;
    cr_assert_eq(rl_free_in(all, 5, 3), -1);
    cr_assert_eq(rl_quorum_in(all, 5, 3), 20);
    all[4].vote = RL_VOTE_GRANTED;
    cr_assert_eq(rl_quorum_in(all, 5, 3), 10);
    cr_assert_eq(rl_free_in(all, 5, 3), 40);
}

Test(free_in, is_when_the_last_key_that_blocks_a_quorum_expires)
{
    struct rl_ballot all[5] = {HELD_FOR(10), HELD_FOR(20), HELD_FOR(30), HELD_FOR(40),
                               HELD_FOR(50)};
    check_free(all, 30);
    struct rl_ballot same[5] = {HELD_FOR(7), HELD_FOR(7), HELD_FOR(7), HELD_FOR(7),
                                HELD_FOR(9)};
    check_free(same, 7);
    struct rl_ballot some[5] = {NODE(GRANTED), NODE(GONE), HELD_FOR(30), HELD_FOR(40),
                                HELD_FOR(50)};
    check_free(some, 30);
    struct rl_ballot now[5] = {NODE(GRANTED), NODE(GONE), NODE(GONE), HELD_FOR(40),
                               HELD_FOR(0)};
    check_free(now, 0);
    struct rl_ballot ours_was_lost[5] = {NODE(GRANTED), NODE(GONE), NODE(GRANTED),
                                         HELD_FOR(40), HELD_FOR(60)};
    ours_was_lost[2].pttl = 50; /* of another key, reported by the release */
    check_free(ours_was_lost, 40);
}

Test(free_in, is_unknown_if_too_few_report_it)
{
    struct rl_ballot few[5] = {HELD_FOR(10), HELD_FOR(20), HELD_FOR(-1), NODE(SILENT),
                               NODE(ERROR)};
    check_free(few, -1);
    struct rl_ballot absent[5] = {NODE(ABSENT), NODE(ABSENT), NODE(ABSENT), NODE(GONE),
                                  NODE(GONE)};
    check_free(absent, -1);
    struct rl_ballot enough[5] = {HELD_FOR(10), HELD_FOR(20), HELD_FOR(-1), NODE(SILENT),
                                  NODE(GONE)};
    check_free(enough, 20);
    /* A report of an earlier round does not count if the node is silent now. */
    struct rl_ballot stale[5] = {
        HELD_FOR(10), HELD_FOR(20), {.vote = RL_VOTE_SILENT}, NODE(ERROR), NODE(ERROR)};
    check_free(stale, -1);
}

enum { NO_VALUE = 2 };

/* What the nodes store, each as a digit to the base 3: one value, another, none. */
static unsigned standing_of(unsigned stored, unsigned n, unsigned q)
{
    unsigned count[3] = {0};
    for (unsigned i = 0; i < n; i++, stored /= 3)
        count[stored % 3]++;
    return count[0] >= q || count[1] >= q;
}

/* Tries all that the silent nodes may store: the replies decide if it never matters. */
static void check_replies(unsigned n, unsigned q, unsigned stored, unsigned silent)
{
    unsigned count[3] = {0}, seen[2] = {0}, digit = stored;
    for (unsigned i = 0; i < n; i++, digit /= 3)
        if (!(silent >> i & 1))
            count[digit % 3]++;
    for (unsigned future = 0; future < power(3, n); future++) {
        unsigned together = 0, old = stored, new = future;
        for (unsigned i = 0; i < n; i++, old /= 3, new /= 3)
            together += power(3, i) * ((silent >> i & 1) ? new % 3 : old % 3);
        seen[standing_of(together, n, q)]++;
    }
    unsigned held = count[0] + count[1];
    unsigned agreeing = count[0] > count[1] ? count[0] : count[1];
    bool decides = (seen[0] == 0 || seen[1] == 0) && held + count[NO_VALUE] >= q;
    cr_assert_eq(rl_replies_decide(n, q, held, count[NO_VALUE], agreeing), decides,
                 "%u held, %u free, %u agree, of %u", held, count[NO_VALUE], agreeing, n);
}

Test(inspection, is_decided_only_if_silent_nodes_do_not_matter)
{
    for (unsigned n = 1; n <= 4; n++)
        for (unsigned stored = 0; stored < power(3, n); stored++)
            for (unsigned silent = 0; silent < 1u << n; silent++)
                check_replies(n, rl_majority(n), stored, silent);
}
