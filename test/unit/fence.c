/* What time it is on the nodes, from what each of them told. */
#include "core/fence.h"

#include "chance.h"
#include "desk.h"

static void note_all(struct rl_node_time *time, const rl_time *ahead, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        rl_node_time_note(&time[i], 1000, 1400, 1200 + ahead[i]);
}

Test(nodes_now, is_unknown_before_one_told)
{
    struct rl_node_time time[5] = {0};
    cr_assert_eq(rl_nodes_now(time, 5, 77), 0);
}

Test(nodes_now, takes_an_answer_for_told_halfway)
{
    struct rl_node_time time = {0};
    rl_node_time_note(&time, 100, 140, 5120);
    cr_assert_eq(rl_nodes_now(&time, 1, 1000), 6000);
    rl_node_time_note(&time, 200, 240, 220);
    cr_assert_eq(rl_nodes_now(&time, 1, 1000), 1000, "the latest counts");
}

/* A minority of wild clocks moves it by nothing that a sound one does not say. */
Test(nodes_now, goes_by_the_median)
{
    struct rl_node_time time[5] = {0};
    note_all(time, (const rl_time[]){10, 3600 * RL_SECOND, 30, -3600 * RL_SECOND, 20}, 5);
    cr_assert_eq(rl_nodes_now(time, 5, 1000), 1020);
    time[4].known = false;
    cr_assert_eq(rl_nodes_now(time, 5, 1000), 1010, "of an even number the lower one");
}

Test(nodes_now, is_what_a_majority_brackets)
{
    struct chance chance = {17};
    for (int i = 0; i < 100000; i++) {
        struct rl_node_time time[7] = {0};
        unsigned n = 1 + chance_below(&chance, 7), below = 0, above = 0;
        for (unsigned j = 0; j < n; j++) {
            time[j].known = true;
            time[j].ahead = chance_below(&chance, 5);
        }
        rl_time ahead = rl_nodes_now(time, n, 1000) - 1000;
        for (unsigned j = 0; j < n; j++) {
            below += time[j].ahead <= ahead;
            above += time[j].ahead >= ahead;
        }
        CHECK(2 * below >= n && 2 * above >= n, "run %d", i);
    }
}

/* What nodes store is the last of those that are reserved. */
Test(fence, reserved)
{
    cr_assert_eq(rl_fence_last(1000, 1), 1000);
    cr_assert_eq(rl_fence_last(1000, 64), 1063);
    cr_assert_eq(rl_fence_first(1063, 64), 1000);
    cr_assert_eq(rl_fence_first(1000, 1), 1000);
}
