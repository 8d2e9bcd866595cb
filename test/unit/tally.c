/* What cycles add up to, against adding them up here. */
#include <criterion/criterion.h>
#include <inttypes.h>

#include "chance.h"
#include "cli/orders.h"
#include "cli/tally.h"

#define CYCLES 4000
#define MS     INT64_C(1000)

static struct tally tally;

/* Held if enough grant; a node that does not is one of the others in turn. */
static struct cycle draw(struct chance *chance, unsigned n, unsigned q, int64_t at)
{
    struct cycle cycle = {.begun_us = at, .release_us = -1};
    unsigned granted = 0;
    for (unsigned i = 0; i < n; i++) {
        bool grants = chance_below(chance, 3) > 0;
        granted += grants;
        cycle.node[i] = (struct cycle_node){
            .answer = grants ? CYCLE_GRANTED
                             : (enum cycle_answer)(CYCLE_REFUSED + chance_below(chance, 4)),
            .latency_us = grants ? (int64_t)chance_below(chance, 1000) : -1,
            .fault = grants ? NULL : "a fault",
        };
    }
    cycle.acquired.code = granted >= q ? REDLOCK_OK : REDLOCK_NO_QUORUM;
    cycle.acquired.valid_ms = granted >= q ? 9000 + chance_below(chance, 900) : 0;
    cycle.acquire_us = 1 + chance_below(chance, 5000);
    cycle.released = chance_below(chance, 9) ? REDLOCK_OK : REDLOCK_UNCONFIRMED;
    cycle.release_us = chance_below(chance, 5000);
    return cycle;
}

static uint64_t sum_of_slots(unsigned n, uint64_t *ret_failed, uint64_t *ret_missed)
{
    uint64_t held = 0;
    *ret_failed = *ret_missed = 0;
    for (size_t i = 0; i < TIMELINE_SLOTS; i++) {
        const struct timeline_slot *slot = &tally.timeline.slot[i];
        held += slot->acquire.total;
        *ret_failed += slot->failed;
        for (unsigned k = 0; k < n; k++)
            *ret_missed += slot->silent[k] + slot->other[k];
    }
    return held;
}

Test(tally, counts_are_those_of_the_cycles_however_the_timeline_was_folded)
{
    struct chance chance = {1};
    for (unsigned n = 1; n <= 7; n++) {
        unsigned q = orders_majority(n);
        uint64_t held = 0, last = 0, missed = 0, slot_failed, slot_missed, released = 0;
        cr_assert(tally_init(&tally, n, q));
        tally.began_us = 77;
        for (int64_t i = 0; i < CYCLES; i++) {
            struct cycle cycle = draw(&chance, n, q, 77 + i * 13 * MS);
            tally_take(&tally, &cycle);
            held += cycle_is_held(&cycle);
            released += cycle_is_held(&cycle) && cycle.released == REDLOCK_OK;
        }
        for (unsigned i = 0; i < n; i++) {
            const struct tally_node *node = &tally.node[i];
            cr_assert_eq(node->asked + node->absent, CYCLES);
            cr_assert_eq(node->asked,
                         node->granted + node->refused + node->silent + node->broken);
            cr_assert_eq(node->latency.total, node->granted);
            cr_assert_eq(node->without.latency.total + node->without.never, CYCLES);
            cr_assert_str_eq(node->fault, "a fault");
            last += node->last;
            missed += CYCLES - node->granted;
        }
        cr_assert_eq(tally.cycles, CYCLES);
        cr_assert_eq(tally.held, held);
        cr_assert_eq(tally.not_acquired[REDLOCK_NO_QUORUM], CYCLES - held);
        cr_assert_eq(tally.acquire.total, held);
        cr_assert_eq(tally.release.total, released);
        cr_assert_eq(tally.not_released[REDLOCK_UNCONFIRMED], held - released);
        cr_assert_eq(last, held, "each that was held waited for one node");
        cr_assert_eq(tally.all.latency.total, held);
        cr_assert_eq(sum_of_slots(n, &slot_failed, &slot_missed), held);
        cr_assert_eq(slot_failed, CYCLES - held);
        cr_assert_eq(slot_missed, missed);
        cr_assert_leq(tally.timeline.used, TIMELINE_SLOTS);
        cr_assert_gt(tally.timeline.used, TIMELINE_SLOTS / 2);
        for (unsigned m = 1; m < n; m++)
            cr_assert_eq(tally.fewer[m].latency.total + tally.fewer[m].never,
                         CYCLES * orders_sets(n, m));
        tally_free(&tally);
    }
}

static struct cycle granted_in(const int64_t *latency, unsigned n)
{
    struct cycle cycle = {.acquire_us = 1, .release_us = 1};
    for (unsigned i = 0; i < n; i++)
        cycle.node[i] = (struct cycle_node){CYCLE_GRANTED, latency[i], NULL};
    return cycle;
}

static unsigned count_grants(const struct cycle *cycle, unsigned n)
{
    unsigned grants = 0;
    for (unsigned i = 0; i < n; i++)
        grants += cycle->node[i].answer == CYCLE_GRANTED;
    return grants;
}

Test(tally, of_a_cycle_that_failed_less_than_a_quorum_granted_and_those_the_fastest)
{
    struct chance chance = {2};
    for (unsigned run = 0; run < 20000; run++) {
        unsigned n = 1 + chance_below(&chance, 9), q = orders_majority(n);
        struct cycle before = draw(&chance, n, n + 1, 0);
        before.acquired.nodes = n;
        before.acquired.quorum = q;
        struct cycle after = before;
        cycle_drop_late(&after);
        unsigned granted = count_grants(&before, n), kept = count_grants(&after, n);
        cr_assert_eq(kept, granted < q ? granted : q - 1, "run %u", run);
        for (unsigned i = 0; i < n; i++) {
            bool dropped = before.node[i].answer != after.node[i].answer;
            cr_assert(!dropped || after.node[i].answer == CYCLE_SILENT, "run %u", run);
            for (unsigned k = 0; dropped && k < n; k++)
                cr_assert(after.node[k].answer != CYCLE_GRANTED ||
                              after.node[k].latency_us <= before.node[i].latency_us,
                          "run %u: %u was kept, %u was faster", run, k, i);
        }
    }
}

Test(tally, other_nodes_by_hand)
{
    const int64_t latency[] = {30, 10, 50, 20, 40};
    struct cycle cycle = granted_in(latency, 5);
    cr_assert(tally_init(&tally, 5, 3));
    tally_take(&tally, &cycle);
    cr_assert_eq(tally.node[0].last, 1, "30 is the third");
    cr_assert_eq(histogram_at(&tally.all.latency, 500000), 30);
    const int64_t without[] = {40, 40, 30, 40, 30};
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(histogram_at(&tally.node[i].without.latency, 500000), without[i]);
    /* Of three, the second: 20 in 3 sets, 30 in 4, 40 in 3. */
    cr_assert_eq(tally.fewer[3].latency.total, 10);
    cr_assert_eq(histogram_at(&tally.fewer[3].latency, 300000), 20);
    cr_assert_eq(histogram_at(&tally.fewer[3].latency, 700000), 30);
    cr_assert_eq(histogram_at(&tally.fewer[3].latency, 700001), 40);
    /* Of two, both: the slower one. */
    cr_assert_eq(histogram_at(&tally.fewer[2].latency, 100000), 20);
    cr_assert_eq(histogram_at(&tally.fewer[2].latency, 600001), 50);
    tally_free(&tally);
}

/* Two of five could have been asked, but nobody was. */
Test(tally, who_is_ready_would_have_granted)
{
    struct cycle cycle = {.acquired = {.code = REDLOCK_NO_QUORUM}, .release_us = -1};
    for (unsigned i = 0; i < 5; i++)
        cycle.node[i] = (struct cycle_node){i < 3 ? CYCLE_ABSENT : CYCLE_READY, -1,
                                            i < 3 ? "a fault" : NULL};
    cr_assert(tally_init(&tally, 5, 3));
    tally_take(&tally, &cycle);
    cr_assert_eq(tally.all.never, 1);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_eq(tally.node[i].without.never, 1);
        cr_assert_eq(tally.node[i].ready, i >= 3);
        cr_assert_eq(tally.node[i].absent, i < 3);
        cr_assert_eq(tally.node[i].asked, 0);
        cr_assert_eq(tally.node[i].failing, i < 3);
        cr_assert_eq(tally.timeline.slot[0].other[i], i < 3);
    }
    /* Of one, that one; of two and three, both of the two. */
    const uint64_t untimed[] = {0, 2, 1, 3}, never[] = {0, 3, 9, 7};
    for (unsigned m = 1; m <= 3; m++) {
        cr_assert_eq(tally.fewer[m].untimed, untimed[m]);
        cr_assert_eq(tally.fewer[m].never, never[m]);
        cr_assert_eq(tally.fewer[m].latency.total, 0);
    }
    tally_free(&tally);
}

static void expect_gap(const struct gap *gap, int64_t sum, int64_t longest)
{
    cr_assert_eq(gap->sum, sum, "%" PRId64, gap->sum);
    cr_assert_eq(gap->longest, longest, "%" PRId64, gap->longest);
}

Test(tally, a_gap_is_from_one_to_the_next_if_it_failed_between_them)
{
    struct gap gap = {0};
    gap_came(&gap, 10);
    gap_came(&gap, 50);
    expect_gap(&gap, 0, 0);
    gap_failed(&gap, 60);
    gap_failed(&gap, 70);
    gap_came(&gap, 100);
    expect_gap(&gap, 50, 50);
    gap_came(&gap, 120);
    expect_gap(&gap, 50, 50);
    gap_failed(&gap, 125);
    gap_end(&gap, 140);
    expect_gap(&gap, 70, 50);
}

Test(tally, a_gap_may_be_told_out_of_order)
{
    struct gap gap = {0};
    gap_came(&gap, 100);
    gap_failed(&gap, 90);
    gap_came(&gap, 80);
    gap_came(&gap, 200);
    expect_gap(&gap, 0, 0);
    gap_failed(&gap, 250);
    gap_came(&gap, 240);
    expect_gap(&gap, 0, 0);
    gap_came(&gap, 260);
    expect_gap(&gap, 20, 20);
}

Test(tally, a_gap_may_be_all_there_is)
{
    struct gap gap = {0};
    gap_failed(&gap, 7);
    gap_end(&gap, 30);
    expect_gap(&gap, 30, 30);
}

Test(tally, times_of_a_day_have_a_slot_each_and_in_order)
{
    static struct timeline timeline;
    cr_assert(timeline_init(&timeline));
    for (int64_t s = 0; s < 86400; s++)
        timeline_slot(&timeline, s * 1000000)->failed++;
    uint64_t sum = 0;
    int64_t per_slot = timeline.interval_ms / 1000;
    for (size_t i = 0; i + 1 < timeline.used; i++) {
        int64_t failed = (int64_t)timeline.slot[i].failed;
        cr_assert_leq(failed - per_slot, 1, "slot %zu", i);
        cr_assert_leq(per_slot - failed, 1, "slot %zu", i);
        sum += timeline.slot[i].failed;
    }
    cr_assert_eq(sum + timeline.slot[timeline.used - 1].failed, 86400);
    timeline_free(&timeline);
}
