/* The history of the monitor's canary, and what it computes for other nodes. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "cli/bench/order_stats.h"
#include "cli/monitor/whatif.h"
#include "prng.h"

#define N   5
#define Q   3
#define S   INT64_C(1000000)
#define DAY 86400

static struct history history;
static struct bench_result result;

/* Each node is slower than the one before; every 50th cycle fails, because three are away.
 */
static struct cycle draw(struct prng *prng, int64_t number)
{
    bool fails = number % 50 == 49;
    struct cycle cycle = {.counted = true, .begun_us = number * S, .release_us = -1};
    for (unsigned i = 0; i < N; i++) {
        bool grants = i < 2 || !fails;
        cycle.node[i] = (struct cycle_node){
            .answer = grants   ? CYCLE_GRANTED
                      : i == 4 ? CYCLE_SILENT
                               : CYCLE_ABSENT,
            .latency_us = grants ? (int64_t)(1000 * (i + 1) + prng_below(prng, 100)) : -1,
            .fault = grants   ? NULL
                     : i == 4 ? "no answer in time"
                              : "cannot connect",
        };
    }
    cycle.acquired.code = fails ? REDLOCK_NO_QUORUM : REDLOCK_OK;
    cycle.acquired.valid_ms = fails ? 0 : 9000 + prng_below(prng, 900);
    cycle.acquire_us = 3100;
    if (!fails)
        cycle.release_us = 900 + prng_below(prng, 100);
    return cycle;
}

static void fill(struct prng *prng, size_t room, int64_t cycles)
{
    cr_assert(history_init(&history, N, room));
    for (int64_t i = 0; i < cycles; i++) {
        struct cycle cycle = draw(prng, i);
        history_add(&history, &cycle);
    }
}

static void compare(const struct cycle *got, const struct cycle *wanted)
{
    cr_assert_eq(got->begun_us, wanted->begun_us);
    cr_assert_eq(got->acquire_us, wanted->acquire_us);
    cr_assert_eq(got->release_us, wanted->release_us);
    cr_assert_eq(got->acquired.code, wanted->acquired.code);
    cr_assert_eq(got->acquired.valid_ms, wanted->acquired.valid_ms);
    cr_assert_eq(got->released, wanted->released);
    for (unsigned i = 0; i < N; i++) {
        cr_assert_eq(got->node[i].answer, wanted->node[i].answer);
        cr_assert_eq(got->node[i].latency_us, wanted->node[i].latency_us);
        cr_assert_eq(!got->node[i].fault, !wanted->node[i].fault);
        if (wanted->node[i].fault)
            cr_assert_str_eq(got->node[i].fault, wanted->node[i].fault);
    }
}

Test(history, the_last_cycles_are_kept_as_they_were)
{
    struct prng prng = {1}, again = {1};
    fill(&prng, 100, 250);
    cr_assert_eq(history.count, 100);
    cr_assert_eq(history.added, 250);
    for (int64_t i = 0; i < 250; i++) {
        struct cycle wanted = draw(&again, i), got;
        if (i < 150)
            continue;
        history_get(&history, (size_t)(i - 150), &got);
        compare(&got, &wanted);
    }
    cr_assert_eq(history_from(&history, 0), 0);
    cr_assert_eq(history_from(&history, 150 * S), 0);
    cr_assert_eq(history_from(&history, 200 * S - 1), 50);
    cr_assert_eq(history_from(&history, 200 * S), 50);
    cr_assert_eq(history_from(&history, 249 * S + 1), 100);
    history_free(&history);
}

Test(history, a_time_that_is_too_long_counts_as_the_longest)
{
    struct cycle cycle = {.acquire_us = INT64_C(1) << 40, .release_us = -1}, got;
    cycle.node[0] = (struct cycle_node){CYCLE_GRANTED, UINT32_MAX, NULL};
    cr_assert(history_init(&history, 1, 1));
    history_add(&history, &cycle);
    history_get(&history, 0, &got);
    cr_assert_eq(got.acquire_us, UINT32_MAX - 1);
    cr_assert_eq(got.release_us, -1);
    cr_assert_eq(got.node[0].latency_us, UINT32_MAX - 1);
    history_free(&history);
}

Test(history, any_number_of_texts_fits)
{
    char text[600][16];
    struct cycle cycle = {.release_us = -1}, got;
    cr_assert(history_init(&history, 1, 600));
    for (int i = 0; i < 600; i++) {
        snprintf(text[i], sizeof(text[i]), "fault %d", i);
        cycle.node[0] = (struct cycle_node){CYCLE_REFUSED, -1, text[i]};
        history_add(&history, &cycle);
    }
    history_get(&history, 100, &got);
    cr_assert_str_eq(got.node[0].fault, "fault 100");
    history_get(&history, 599, &got);
    cr_assert_str_eq(got.node[0].fault, "fault 599");
    history_free(&history);
}

static double cpu_ms(void)
{
    return (double)clock() * 1000 / CLOCKS_PER_SEC;
}

/* 24 h at a cycle each second: as much as the monitor keeps. */
Test(history, a_day_takes_less_than_six_megabytes)
{
    struct prng prng = {2};
    struct cycle cycle;
    fill(&prng, DAY, 2 * DAY);
    cr_assert_eq(history.count, DAY);
    cr_assert_leq(history_bytes(&history), 6000000);
    double begun = cpu_ms();
    cr_assert(bench_result_init(&result, N, Q));
    result.began_us = DAY * S;
    for (size_t i = 0; i < history.count; i++) {
        history_get(&history, i, &cycle);
        bench_result_take(&result, &cycle);
    }
    fprintf(stderr, "# %zu bytes, %.0f ms for the result\n", history_bytes(&history),
            cpu_ms() - begun);
    cr_assert_eq(result.cycles, DAY);
    cr_assert_eq(result.not_acquired[REDLOCK_NO_QUORUM], DAY / 50);
    cr_assert_eq(result.held, DAY - DAY / 50);
    cr_assert_eq(result.node[4].silent, DAY / 50);
    cr_assert_eq(result.node[3].absent, DAY / 50);
    cr_assert_leq(result.timeline.used, TIMELINE_SLOTS);
    bench_result_free(&result);
    history_free(&history);
}

/* --- what if --- */

static int64_t median_of(const struct whatif *whatif, double *ret_never)
{
    struct bench_result_model model;
    cr_assert(whatif_compute(whatif, &history, 0, &model));
    int64_t median = histogram_at(&model.latency, HISTOGRAM_ALL / 2);
    uint64_t all = model.latency.total + model.never + model.untimed;
    *ret_never = (double)model.never / (double)all;
    histogram_free(&model.latency);
    return median;
}

static void expect(const struct whatif *whatif, int64_t from, int64_t to, double never)
{
    double share;
    int64_t median = median_of(whatif, &share);
    cr_assert_geq(median, from, "%" PRId64, median);
    cr_assert_leq(median, to, "%" PRId64, median);
    cr_assert_float_eq(share, never, 1e-9, "%f", share);
}

Test(whatif, without_changes_it_is_what_was_measured)
{
    struct prng prng = {3};
    struct whatif whatif;
    struct cycle cycle;
    struct bench_result_model model;
    fill(&prng, 1000, 1000);
    cr_assert(bench_result_init(&result, N, Q));
    for (size_t i = 0; i < history.count; i++) {
        history_get(&history, i, &cycle);
        bench_result_take(&result, &cycle);
    }
    whatif_init(&whatif, N, Q);
    cr_assert(whatif_compute(&whatif, &history, 0, &model));
    cr_assert_eq(model.never, result.all.never);
    cr_assert_eq(model.untimed, result.all.untimed);
    cr_assert_eq(model.latency.total, result.all.latency.total);
    for (size_t i = 0; i < histogram_buckets(&model.latency); i++)
        cr_assert_eq(model.latency.count[i], result.all.latency.count[i]);
    histogram_free(&model.latency);
    whatif_init(&whatif, N, Q);
    whatif.without[1] = true;
    cr_assert(whatif_compute(&whatif, &history, 0, &model));
    cr_assert_eq(model.never, result.node[1].without.never);
    cr_assert_eq(histogram_at(&model.latency, 990000),
                 histogram_at(&result.node[1].without.latency, 990000));
    histogram_free(&model.latency);
    for (unsigned m = 1; m < N; m++) {
        whatif_init(&whatif, m, order_stats_majority(m));
        cr_assert(whatif_compute(&whatif, &history, 0, &model));
        cr_assert_eq(model.never, result.fewer[m].never);
        cr_assert_eq(model.latency.total, result.fewer[m].latency.total);
        cr_assert_eq(histogram_at(&model.latency, 500000),
                     histogram_at(&result.fewer[m].latency, 500000));
        histogram_free(&model.latency);
    }
    bench_result_free(&result);
    history_free(&history);
}

Test(whatif, other_nodes_and_quorums_match_what_the_cycles_imply)
{
    struct prng prng = {4};
    struct whatif whatif;
    fill(&prng, 1000, 1000);
    whatif_init(&whatif, N, Q);
    expect(&whatif, 3000, 3100, 0.02);
    whatif_init(&whatif, N, 5);
    expect(&whatif, 5000, 5100, 0.02);
    whatif_init(&whatif, N, Q); /* 2 of the remaining 4 failed in those cycles */
    whatif.without[0] = true;
    expect(&whatif, 4000, 4100, 0.02);
    whatif.without[1] = whatif.without[2] = true;
    expect(&whatif, -1, -1, 1);
    history_free(&history);
}

/* Of ten, each time is there twice: the sixth is that of the third node. */
Test(whatif, added_nodes_reply_as_the_measured_ones_did_at_another_time)
{
    struct prng prng = {6};
    struct whatif whatif;
    fill(&prng, 1000, 1000); /* a failed cycle meets a failed one */
    whatif_init(&whatif, 2 * N, 6);
    expect(&whatif, 3000, 3100, 0.02);
    history_free(&history);
    fill(&prng, 1010, 1010); /* it meets one that was held: 7 of 10 grant */
    expect(&whatif, 3000, 3100, 0);
    whatif_init(&whatif, 2 * N, 8);
    expect(&whatif, 4000, 4100, 40.0 / 1010);
    history_free(&history);
}

Test(whatif, a_node_that_is_moved_gets_the_median_that_was_asked)
{
    struct prng prng = {5};
    struct whatif whatif;
    fill(&prng, 1000, 1000);
    whatif_init(&whatif, N, Q);
    cr_assert(whatif_move(&whatif, &history, 0, 0, 30000)); /* 2, 3 and 4 ms are left */
    expect(&whatif, 4000, 4100, 0.02);
    cr_assert(whatif_move(&whatif, &history, 0, 4, 1));
    cr_assert(whatif_move(&whatif, &history, 0, 3, 1)); /* 0, 0 and 2 ms */
    expect(&whatif, 2000, 2100, 0.02);
    history_free(&history);
}

Test(whatif, an_empty_history_has_no_times)
{
    struct whatif whatif;
    struct bench_result_model model;
    cr_assert(history_init(&history, N, 10));
    whatif_init(&whatif, 9, 5);
    cr_assert(whatif_move(&whatif, &history, 0, 0, 30000));
    cr_assert(whatif_compute(&whatif, &history, 0, &model));
    cr_assert_eq(histogram_at(&model.latency, 500000), -1);
    histogram_free(&model.latency);
    history_free(&history);
}
