/* The time on the nodes, from the replies of each of them. */
#include "core/fence.h"

#include "lease_fixture.h"
#include "prng.h"

static void note_all(struct rl_node_time *time, const rl_time *ahead, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        rl_node_time_note(&time[i], 1000, 1400, 1200 + ahead[i]);
}

Test(node_time, is_unknown_before_the_first_reply)
{
    struct rl_node_time time[5] = {0};
    cr_assert_eq(rl_node_time_median(time, 5, 77), 0);
}

Test(node_time, assumes_that_a_reply_was_made_halfway)
{
    struct rl_node_time time = {0};
    rl_node_time_note(&time, 100, 140, 5120);
    cr_assert_eq(rl_node_time_median(&time, 1, 1000), 6000);
    rl_node_time_note(&time, 200, 240, 220);
    cr_assert_eq(rl_node_time_median(&time, 1, 1000), 1000, "the latest counts");
}

/* A minority of wild clocks moves it no further than a correct clock could. */
Test(node_time, is_the_median)
{
    struct rl_node_time time[5] = {0};
    note_all(time, (const rl_time[]){10, 3600 * RL_SECOND, 30, -3600 * RL_SECOND, 20}, 5);
    cr_assert_eq(rl_node_time_median(time, 5, 1000), 1020);
    time[4].known = false;
    cr_assert_eq(rl_node_time_median(time, 5, 1000), 1010,
                 "of an even number the lower one");
}

Test(node_time, lies_within_a_majority)
{
    struct prng prng = {17};
    for (int i = 0; i < 100000; i++) {
        struct rl_node_time time[7] = {0};
        unsigned n = 1 + prng_below(&prng, 7), below = 0, above = 0;
        for (unsigned j = 0; j < n; j++) {
            time[j].known = true;
            time[j].ahead = prng_below(&prng, 5);
        }
        rl_time ahead = rl_node_time_median(time, n, 1000) - 1000;
        for (unsigned j = 0; j < n; j++) {
            below += time[j].ahead <= ahead;
            above += time[j].ahead >= ahead;
        }
        CHECK(2 * below >= n && 2 * above >= n, "run %d", i);
    }
}

/* The nodes store the last of the reserved fences. */
Test(fence, reserved_fences_end_at_the_stored_one)
{
    cr_assert_eq(rl_fence_last(1000, 1), 1000);
    cr_assert_eq(rl_fence_last(1000, 64), 1063);
    cr_assert_eq(rl_fence_first(1063, 64), 1000);
    cr_assert_eq(rl_fence_first(1000, 1), 1000);
}
