/* The sums of cycles, compared with a plain sum. */
#include <criterion/criterion.h>
#include <inttypes.h>

#include "cli/bench/order_stats.h"
#include "cli/bench/result.h"
#include "prng.h"

#define CYCLES 4000
#define MS     INT64_C(1000)

static struct bench_result bench_result;

/* Held if enough nodes grant; of the other nodes one is slow in turn. */
static struct cycle draw(struct prng *prng, unsigned n, unsigned q, int64_t at)
{
    struct cycle cycle = {.begun_us = at, .release_us = -1};
    unsigned granted = 0;
    for (unsigned i = 0; i < n; i++) {
        bool grants = prng_below(prng, 3) > 0;
        granted += grants;
        cycle.node[i] = (struct cycle_node){
            .answer = grants ? CYCLE_GRANTED
                             : (enum cycle_answer)(CYCLE_REFUSED + prng_below(prng, 4)),
            .latency_us = grants ? (int64_t)prng_below(prng, 1000) : -1,
            .fault = grants ? NULL : "a fault",
        };
    }
    cycle.acquired.code = granted >= q ? REDLOCK_OK : REDLOCK_NO_QUORUM;
    cycle.acquired.valid_ms = granted >= q ? 9000 + prng_below(prng, 900) : 0;
    cycle.acquire_us = 1 + prng_below(prng, 5000);
    cycle.released = prng_below(prng, 9) ? REDLOCK_OK : REDLOCK_UNCONFIRMED;
    cycle.release_us = prng_below(prng, 5000);
    return cycle;
}

/* What the timeline has besides is the same as in the whole run. */
static void compare_slots(unsigned n)
{
    uint64_t released = 0, completed = 0, failed = 0, granted[REDLOCK_NODES_MAX] = {0};
    int64_t valid_least = INT64_MAX, most = 0;
    for (size_t i = 0; i < TIMELINE_SLOTS; i++) {
        const struct timeline_slot *slot = &bench_result.timeline.slot[i];
        released += slot->release.total;
        completed += slot->qth.total;
        failed += slot->code[REDLOCK_NO_QUORUM];
        if (slot->acquire.total > 0 && slot->valid_least < valid_least)
            valid_least = slot->valid_least;
        for (unsigned k = 0; k < n; k++)
            granted[k] += slot->grant[k].total;
        most = slot->qth.most > most ? slot->qth.most : most;
    }
    cr_assert_eq(released, bench_result.release.total);
    cr_assert_eq(completed, bench_result.all.latency.total);
    cr_assert_eq(failed, bench_result.not_acquired[REDLOCK_NO_QUORUM]);
    cr_assert_eq(most, bench_result.all.latency.most);
    cr_assert_eq(valid_least, bench_result.valid.least);
    for (unsigned k = 0; k < n; k++)
        cr_assert_eq(granted[k], bench_result.node[k].granted);
}

static uint64_t sum_of_slots(unsigned n, uint64_t *ret_failed, uint64_t *ret_missed)
{
    uint64_t held = 0;
    *ret_failed = *ret_missed = 0;
    for (size_t i = 0; i < TIMELINE_SLOTS; i++) {
        const struct timeline_slot *slot = &bench_result.timeline.slot[i];
        held += slot->acquire.total;
        *ret_failed += slot->failed;
        for (unsigned k = 0; k < n; k++)
            *ret_missed += slot->silent[k] + slot->other[k];
    }
    return held;
}

Test(bench_result, counts_do_not_depend_on_the_folding_of_the_timeline)
{
    struct prng prng = {1};
    for (unsigned n = 1; n <= 7; n++) {
        unsigned q = order_stats_majority(n);
        uint64_t held = 0, last = 0, missed = 0, slot_failed, slot_missed, released = 0;
        cr_assert(bench_result_init(&bench_result, n, q));
        bench_result.began_us = 77;
        for (int64_t i = 0; i < CYCLES; i++) {
            struct cycle cycle = draw(&prng, n, q, 77 + i * 13 * MS);
            bench_result_take(&bench_result, &cycle);
            held += cycle_is_held(&cycle);
            released += cycle_is_held(&cycle) && cycle.released == REDLOCK_OK;
        }
        for (unsigned i = 0; i < n; i++) {
            const struct bench_result_node *node = &bench_result.node[i];
            cr_assert_eq(node->asked + node->absent, CYCLES);
            cr_assert_eq(node->asked,
                         node->granted + node->refused + node->silent + node->broken);
            cr_assert_eq(node->latency.total, node->granted);
            cr_assert_eq(node->without.latency.total + node->without.never, CYCLES);
            cr_assert_str_eq(node->fault, "a fault");
            last += node->last;
            missed += CYCLES - node->granted;
        }
        cr_assert_eq(bench_result.cycles, CYCLES);
        cr_assert_eq(bench_result.held, held);
        cr_assert_eq(bench_result.not_acquired[REDLOCK_NO_QUORUM], CYCLES - held);
        cr_assert_eq(bench_result.acquire.total, held);
        cr_assert_eq(bench_result.release.total, released);
        cr_assert_eq(bench_result.not_released[REDLOCK_UNCONFIRMED], held - released);
        cr_assert_eq(last, held, "each held cycle waited for one node");
        cr_assert_eq(bench_result.all.latency.total, held);
        cr_assert_eq(sum_of_slots(n, &slot_failed, &slot_missed), held);
        cr_assert_eq(slot_failed, CYCLES - held);
        cr_assert_eq(slot_missed, missed);
        compare_slots(n);
        cr_assert_leq(bench_result.timeline.used, TIMELINE_SLOTS);
        cr_assert_gt(bench_result.timeline.used, TIMELINE_SLOTS / 2);
        for (unsigned m = 1; m < n; m++)
            cr_assert_eq(bench_result.fewer[m].latency.total + bench_result.fewer[m].never,
                         CYCLES * order_stats_sets(n, m));
        bench_result_free(&bench_result);
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

Test(bench_result, in_a_failed_cycle_only_the_fastest_nodes_granted)
{
    struct prng prng = {2};
    for (unsigned run = 0; run < 20000; run++) {
        unsigned n = 1 + prng_below(&prng, 9), q = order_stats_majority(n);
        struct cycle before = draw(&prng, n, n + 1, 0);
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

Test(bench_result, results_of_other_nodes_match_a_hand_computed_case)
{
    const int64_t latency[] = {30, 10, 50, 20, 40};
    struct cycle cycle = granted_in(latency, 5);
    cr_assert(bench_result_init(&bench_result, 5, 3));
    bench_result_take(&bench_result, &cycle);
    cr_assert_eq(bench_result.node[0].last, 1, "30 is the third");
    cr_assert_eq(histogram_at(&bench_result.all.latency, 500000), 30);
    const int64_t without[] = {40, 40, 30, 40, 30};
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(histogram_at(&bench_result.node[i].without.latency, 500000),
                     without[i]);
    /* The second of three nodes: 20 in 3 sets, 30 in 4, 40 in 3. */
    cr_assert_eq(bench_result.fewer[3].latency.total, 10);
    cr_assert_eq(histogram_at(&bench_result.fewer[3].latency, 300000), 20);
    cr_assert_eq(histogram_at(&bench_result.fewer[3].latency, 700000), 30);
    cr_assert_eq(histogram_at(&bench_result.fewer[3].latency, 700001), 40);
    /* Both of two nodes: the slower one. */
    cr_assert_eq(histogram_at(&bench_result.fewer[2].latency, 100000), 20);
    cr_assert_eq(histogram_at(&bench_result.fewer[2].latency, 600001), 50);
    bench_result_free(&bench_result);
}

/* Two of five were ready, but got no command. */
Test(bench_result, a_ready_node_counts_as_one_that_would_have_granted)
{
    struct cycle cycle = {.acquired = {.code = REDLOCK_NO_QUORUM}, .release_us = -1};
    for (unsigned i = 0; i < 5; i++)
        cycle.node[i] = (struct cycle_node){i < 3 ? CYCLE_ABSENT : CYCLE_READY, -1,
                                            i < 3 ? "a fault" : NULL};
    cr_assert(bench_result_init(&bench_result, 5, 3));
    bench_result_take(&bench_result, &cycle);
    cr_assert_eq(bench_result.all.never, 1);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_eq(bench_result.node[i].without.never, 1);
        cr_assert_eq(bench_result.node[i].ready, i >= 3);
        cr_assert_eq(bench_result.node[i].absent, i < 3);
        cr_assert_eq(bench_result.node[i].asked, 0);
        cr_assert_eq(bench_result.node[i].failing, i < 3);
        cr_assert_eq(bench_result.timeline.slot[0].other[i], i < 3);
    }
    /* One of one; of two and three, both of the two. */
    const uint64_t untimed[] = {0, 2, 1, 3}, never[] = {0, 3, 9, 7};
    for (unsigned m = 1; m <= 3; m++) {
        cr_assert_eq(bench_result.fewer[m].untimed, untimed[m]);
        cr_assert_eq(bench_result.fewer[m].never, never[m]);
        cr_assert_eq(bench_result.fewer[m].latency.total, 0);
    }
    bench_result_free(&bench_result);
}

static void expect_gap(const struct outage *outage, int64_t sum, int64_t longest)
{
    cr_assert_eq(outage->sum, sum, "%" PRId64, outage->sum);
    cr_assert_eq(outage->longest, longest, "%" PRId64, outage->longest);
}

Test(bench_result, an_outage_lasts_from_one_success_to_the_next)
{
    struct outage outage = {0};
    outage_success(&outage, 10);
    outage_success(&outage, 50);
    expect_gap(&outage, 0, 0);
    outage_failure(&outage, 60);
    outage_failure(&outage, 70);
    outage_success(&outage, 100);
    expect_gap(&outage, 50, 50);
    outage_success(&outage, 120);
    expect_gap(&outage, 50, 50);
    outage_failure(&outage, 125);
    outage_end(&outage, 140);
    expect_gap(&outage, 70, 50);
}

Test(bench_result, an_outage_may_be_reported_out_of_order)
{
    struct outage outage = {0};
    outage_success(&outage, 100);
    outage_failure(&outage, 90);
    outage_success(&outage, 80);
    outage_success(&outage, 200);
    expect_gap(&outage, 0, 0);
    outage_failure(&outage, 250);
    outage_success(&outage, 240);
    expect_gap(&outage, 0, 0);
    outage_success(&outage, 260);
    expect_gap(&outage, 20, 20);
}

Test(bench_result, an_outage_may_be_the_only_event)
{
    struct outage outage = {0};
    outage_failure(&outage, 7);
    outage_end(&outage, 30);
    expect_gap(&outage, 30, 30);
}

Test(bench_result, percentiles_of_each_node_survive_longer_intervals)
{
    static struct timeline timeline;
    cr_assert(timeline_init(&timeline, 2));
    for (int64_t s = 0; s < 86400; s++) {
        struct timeline_slot *slot = timeline_slot(&timeline, s * 1000000);
        histogram_add(&slot->grant[0], s % 50 == 0 ? 9000 : 1000, 1);
        histogram_add(&slot->grant[1], 7, 1);
    }
    for (size_t i = 0; i + 1 < timeline.used; i++) {
        const struct histogram *grant = timeline.slot[i].grant;
        cr_assert_float_eq(histogram_at(&grant[0], HISTOGRAM_ALL / 2), 1016, 16, "slot %zu",
                           i);
        cr_assert_eq(histogram_at(&grant[0], HISTOGRAM_ALL / 100 * 99), 9000, "slot %zu",
                     i);
        cr_assert_eq(grant[0].total, grant[1].total, "slot %zu", i);
        cr_assert_eq(histogram_at(&grant[1], HISTOGRAM_ALL / 100 * 99), 7, "slot %zu", i);
    }
    timeline_free(&timeline);
}

Test(bench_result, times_of_one_day_get_one_slot_each_in_order)
{
    static struct timeline timeline;
    cr_assert(timeline_init(&timeline, 0));
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
