/* Whose turn it is: every order and number of calls, for every quorum. */
#include <criterion/criterion.h>

#include "core/turn.h"

#define NOW   (7 * RL_SECOND)
#define GRACE (50 * RL_MS)

/* What has to come out, counted by another way: call by call. */
static rl_time expected(unsigned firsts, unsigned calls, unsigned q)
{
    return firsts >= q ? NOW : calls >= q ? NOW + GRACE : NOW + 2 * GRACE;
}

/* Each node says nothing, "first", "second", or one after the other. */
enum { NOTHING, FIRST, SECOND, BOTH, SAYINGS };

static void call_by(unsigned n, unsigned q, unsigned long pattern)
{
    struct rl_turn turn = {0};
    rl_nodes first = 0, any = 0;
    for (unsigned node = 0; node < n; node++, pattern /= SAYINGS) {
        unsigned says = (unsigned)(pattern % SAYINGS);
        if (says == SECOND || says == BOTH) {
            any |= rl_bit(node);
            cr_assert_eq(rl_turn_call(&turn, q, node, RL_TURN_SECOND, NOW, GRACE),
                         expected(rl_count(first), rl_count(any), q));
        }
        if (says == FIRST || says == BOTH) {
            any |= rl_bit(node);
            first |= rl_bit(node);
            cr_assert_eq(rl_turn_call(&turn, q, node, RL_TURN_FIRST, NOW, GRACE),
                         expected(rl_count(first), rl_count(any), q));
        }
    }
}

Test(turn, every_pattern_of_calls)
{
    for (unsigned n = 1; n <= 7; n++)
        for (unsigned q = rl_majority(n); q <= n; q++) {
            unsigned long patterns = 1;
            for (unsigned i = 0; i < n; i++)
                patterns *= SAYINGS;
            for (unsigned long pattern = 0; pattern < patterns; pattern++)
                call_by(n, q, pattern);
        }
}

/* One node that calls again and again is one node. */
Test(turn, a_node_counts_once)
{
    struct rl_turn turn = {0};
    for (int i = 0; i < 10; i++)
        cr_assert_eq(rl_turn_call(&turn, 2, 1, RL_TURN_FIRST, NOW, GRACE), NOW + 2 * GRACE);
    cr_assert_eq(rl_turn_call(&turn, 2, 0, RL_TURN_FIRST, NOW, GRACE), NOW);
}

/* What was called for an earlier attempt says nothing after it. */
Test(turn, an_attempt_begins_anew)
{
    struct rl_turn turn = {0};
    rl_turn_place(&turn, 0);
    rl_turn_call(&turn, 2, 0, RL_TURN_FIRST, NOW, GRACE);
    rl_turn_try(&turn);
    cr_assert_not(rl_turn_is_placed(&turn, 1));
    cr_assert_eq(rl_turn_call(&turn, 2, 1, RL_TURN_FIRST, NOW, GRACE), NOW + 2 * GRACE);
}

Test(turn, a_place_counts_at_a_quorum_and_as_long_as_it_is_heard)
{
    struct rl_turn turn = {0};
    rl_turn_place(&turn, 0);
    rl_turn_place(&turn, 31);
    rl_turn_place(&turn, 31);
    cr_assert_not(rl_turn_is_placed(&turn, 3));
    cr_assert(rl_turn_is_placed(&turn, 2));
    rl_turn_lose(&turn, 31);
    cr_assert_not(rl_turn_is_placed(&turn, 2));
    rl_turn_lose(&turn, 5);
    cr_assert(rl_turn_is_placed(&turn, 1));
}

Test(turn, grace_has_no_end_beyond_all_time)
{
    struct rl_turn turn = {0};
    cr_assert_eq(rl_turn_call(&turn, 1, 0, RL_TURN_SECOND, NOW, RL_NEVER), RL_NEVER);
}
