/* Which waiter is notified: every order and number of notifications, for every quorum. */
#include <criterion/criterion.h>

#include "core/waiter.h"

#define NOW   (7 * RL_SECOND)
#define GRACE (50 * RL_MS)

/* The expected result, computed in another way: notification by notification. */
static rl_time expected(unsigned firsts, unsigned calls, unsigned q)
{
    return firsts >= q ? NOW : calls >= q ? NOW + GRACE : NOW + 2 * GRACE;
}

/* Each node sends nothing, "first", "second", or one after the other. */
enum { NOTHING, FIRST, SECOND, BOTH, SAYINGS };

static void call_by(unsigned n, unsigned q, unsigned long pattern)
{
    struct rl_waiter turn = {0};
    rl_node_set first = 0, any = 0;
    for (unsigned node = 0; node < n; node++, pattern /= SAYINGS) {
        unsigned says = (unsigned)(pattern % SAYINGS);
        if (says == SECOND || says == BOTH) {
            any |= rl_bit(node);
            cr_assert_eq(rl_waiter_notified(&turn, q, node, RL_WAITER_SECOND, NOW, GRACE),
                         expected(rl_count(first), rl_count(any), q));
        }
        if (says == FIRST || says == BOTH) {
            any |= rl_bit(node);
            first |= rl_bit(node);
            cr_assert_eq(rl_waiter_notified(&turn, q, node, RL_WAITER_FIRST, NOW, GRACE),
                         expected(rl_count(first), rl_count(any), q));
        }
    }
}

Test(waiter, every_pattern_of_notifications)
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

/* One node that notifies repeatedly counts once. */
Test(waiter, a_node_counts_once)
{
    struct rl_waiter turn = {0};
    for (int i = 0; i < 10; i++)
        cr_assert_eq(rl_waiter_notified(&turn, 2, 1, RL_WAITER_FIRST, NOW, GRACE),
                     NOW + 2 * GRACE);
    cr_assert_eq(rl_waiter_notified(&turn, 2, 0, RL_WAITER_FIRST, NOW, GRACE), NOW);
}

/* A notification for an earlier attempt means nothing after it. */
Test(waiter, a_new_attempt_discards_notifications)
{
    struct rl_waiter turn = {0};
    rl_waiter_queued(&turn, 0);
    rl_waiter_notified(&turn, 2, 0, RL_WAITER_FIRST, NOW, GRACE);
    rl_waiter_attempt(&turn);
    cr_assert_not(rl_waiter_is_queued(&turn, 1));
    cr_assert_eq(rl_waiter_notified(&turn, 2, 1, RL_WAITER_FIRST, NOW, GRACE),
                 NOW + 2 * GRACE);
}

Test(waiter, a_queue_entry_counts_at_a_quorum_and_while_subscribed)
{
    struct rl_waiter turn = {0};
    rl_waiter_queued(&turn, 0);
    rl_waiter_queued(&turn, 31);
    rl_waiter_queued(&turn, 31);
    cr_assert_not(rl_waiter_is_queued(&turn, 3));
    cr_assert(rl_waiter_is_queued(&turn, 2));
    rl_waiter_dequeued(&turn, 31);
    cr_assert_not(rl_waiter_is_queued(&turn, 2));
    rl_waiter_dequeued(&turn, 5);
    cr_assert(rl_waiter_is_queued(&turn, 1));
}

Test(waiter, grace_is_never_over_at_the_end_of_time)
{
    struct rl_waiter turn = {0};
    cr_assert_eq(rl_waiter_notified(&turn, 1, 0, RL_WAITER_SECOND, NOW, RL_NEVER),
                 RL_NEVER);
}
