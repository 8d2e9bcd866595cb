/* The pace of a node's clock: what it may do, and what it is found out by. */
#include "core/pace.h"

#include "chance.h"
#include "desk.h"

#define PPM   500
#define SLACK (300 * RL_MS)
#define AHEAD (INT64_C(1700000000) * RL_SECOND) /* the time of day, of our clock */

/* A node whose clock is off by `off`, asked at each end of a span with no way between. */
struct node {
    struct rl_pace pace;
    rl_time now, off;
};

static bool ask_with(struct node *node, rl_time there, rl_time back)
{
    rl_time sent = node->now;
    node->now += there;
    rl_time told = node->now + AHEAD + node->off;
    node->now += back;
    return rl_pace_note(&node->pace, sent, node->now, told, PPM, SLACK);
}

static bool ask(struct node *node)
{
    return ask_with(node, 0, 0);
}

/* Asked first at 1 s. */
static struct node fresh(void)
{
    struct node node = {.now = RL_SECOND};
    cr_assert(ask(&node));
    return node;
}

/* What a clock may change in that time, by the rate alone. */
static rl_time allowed(rl_time span)
{
    return span / 1000000 * PPM + 1;
}

Test(pace, is_any_at_first)
{
    static const rl_time off[] = {-AHEAD, 0, 1, AHEAD};
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        struct node node = {.now = RL_SECOND, .off = off[i]};
        cr_assert(ask(&node));
        cr_assert(node.pace.known);
    }
}

/* To the microsecond, in both directions. */
Test(pace, bears_a_step_of_the_slack_and_no_more)
{
    for (int way = -1; way <= 1; way += 2)
        for (rl_time span = RL_SECOND; span <= 1000 * RL_SECOND; span *= 10) {
            rl_time most = SLACK + allowed(span);
            struct node node = fresh();
            node.now += span;
            node.off = way * most;
            cr_assert(ask(&node), "%d, after %jd", way, (intmax_t)span);
            node = fresh();
            node.now += span;
            node.off = way * (most + 1);
            cr_assert_not(ask(&node), "%d, after %jd", way, (intmax_t)span);
        }
}

Test(pace, finds_steps_of_all_sizes)
{
    for (int way = -1; way <= 1; way += 2)
        for (rl_time step = RL_MS; step < 10000 * RL_SECOND; step += step / 3) {
            struct node node = fresh();
            node.now += RL_SECOND;
            node.off = way * step;
            cr_assert_eq(ask(&node), step <= SLACK + allowed(RL_SECOND), "%jd",
                         (intmax_t)step);
        }
}

/* Steps that would each be borne add up. */
Test(pace, adds_up_what_is_done_in_parts)
{
    struct node node = fresh();
    unsigned steps = 0;
    rl_time step = 100 * RL_MS;
    do {
        node.now += RL_SECOND;
        node.off += step;
        steps++;
    } while (ask(&node) && steps < 100);
    cr_assert_eq(steps, 4, "%u of 100 ms were borne, of a slack of 300", steps - 1);
}

/* To and fro is twice the way, not none: a key may have been set at either end. */
Test(pace, adds_up_what_goes_to_and_fro)
{
    struct node node = fresh();
    unsigned steps = 0;
    do {
        node.now += RL_SECOND;
        node.off = steps++ % 2 ? 0 : 100 * RL_MS;
    } while (ask(&node) && steps < 100);
    cr_assert_eq(steps, 4);
}

Test(pace, forgives_with_time)
{
    rl_time rest = SLACK / PPM * 1000000; /* all of it has worn off by then */
    for (int late = 0; late <= 1; late++) {
        struct node node = fresh();
        node.now += RL_SECOND;
        node.off = SLACK;
        cr_assert(ask(&node));
        rl_time end = node.now + (late ? rest : rest / 2);
        while (node.now < end) {
            node.now += 10 * RL_SECOND;
            cr_assert(ask(&node));
        }
        node.off = 2 * SLACK;
        cr_assert_eq(ask(&node), late == 1);
    }
}

Test(pace, begins_anew_after_it_was_found_out)
{
    struct node node = fresh();
    node.now += RL_SECOND;
    node.off = 10 * RL_SECOND;
    cr_assert_not(ask(&node));
    cr_assert(node.pace.known, "by the very answer that told so");
    node.now += RL_SECOND;
    cr_assert(ask(&node));
    node.now += RL_SECOND;
    node.off += SLACK; /* what was worn before is forgotten, too */
    cr_assert(ask(&node));
    node.now += RL_SECOND;
    node.off += SLACK;
    cr_assert_not(ask(&node));
}

/* --- rates --- */

/* How long a clock of that rate goes unnoticed, if it is asked so often; 0: for ever. */
static rl_time unnoticed(int64_t ppm, rl_time each, rl_time for_long)
{
    struct node node = fresh();
    rl_time begin = node.now;
    while (node.now - begin < for_long) {
        node.now += each;
        node.off = (node.now - begin) / 1000000 * ppm;
        if (!ask(&node))
            return node.now - begin;
    }
    return 0;
}

Test(pace, within_the_rate_is_never_found_fault_with)
{
    static const int64_t rates[] = {0, 1, PPM / 2, PPM, -1, -PPM / 2, -PPM};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        for (rl_time each = RL_SECOND; each <= 1000 * RL_SECOND; each *= 10)
            cr_assert_eq(unnoticed(rates[i], each, 100000 * each), 0, "%jd ppm",
                         (intmax_t)rates[i]);
}

/* What wears off is as much again as the rate: beyond the double all is found. */
Test(pace, beyond_twice_the_rate_is_found_as_soon_as_the_slack_is_used)
{
    static const int64_t rates[] = {3 * PPM,  10 * PPM,  100000,
                                    -3 * PPM, -10 * PPM, -100000};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        for (rl_time each = RL_SECOND; each <= 100 * RL_SECOND; each *= 10) {
            int64_t excess = (rates[i] < 0 ? -rates[i] : rates[i]) - 2 * PPM;
            rl_time found = unnoticed(rates[i], each, 100000 * each);
            rl_time expected = SLACK * 1000000 / excess;
            cr_assert_gt(found, 0, "%jd ppm, each %jd", (intmax_t)rates[i], (intmax_t)each);
            cr_assert_leq(found, expected + expected / 10 + 2 * each, "%jd ppm, each %jd",
                          (intmax_t)rates[i], (intmax_t)each);
        }
}

/* --- clocks that stand still --- */

Test(pace, finds_a_clock_that_stands_still)
{
    struct node node = fresh();
    rl_time begin = node.now;
    while (node.now < begin + RL_PACE_STILL - 10 * RL_MS) {
        node.now += 10 * RL_MS;
        node.off = begin - node.now;
        cr_assert(ask(&node), "%jd", (intmax_t)(node.now - begin));
    }
    node.now += 10 * RL_MS;
    node.off = begin - node.now;
    cr_assert_not(ask(&node));
}

/* Two answers on their way at once may be of the same moment. */
Test(pace, does_not_take_a_slow_way_for_a_clock_that_stands_still)
{
    struct node node = {.now = RL_SECOND};
    rl_time told = AHEAD + 5 * RL_SECOND;
    for (unsigned i = 0; i < 20; i++)
        cr_assert(rl_pace_note(&node.pace, RL_SECOND, 5 * RL_SECOND + i * RL_SECOND, told,
                               PPM, SLACK));
}

Test(pace, counts_standing_still_from_the_last_answer_that_differed)
{
    struct node node = fresh();
    for (unsigned i = 0; i < 100; i++) { /* it goes on just in time */
        rl_time begin = node.now;
        node.now += RL_PACE_STILL - 1;
        node.off -= RL_PACE_STILL - 1;
        rl_pace_note(&node.pace, node.now, node.now, node.now + AHEAD + node.off, PPM,
                     RL_NEVER / 2);
        cr_assert(node.pace.known, "%u", i);
        node.off = 0;
        node.now = begin + RL_PACE_STILL;
        cr_assert(rl_pace_note(&node.pace, node.now, node.now, node.now + AHEAD, PPM,
                               RL_NEVER / 2));
    }
}

/* --- what is between us --- */

/* However long the answers take, there and back: as long as the clock is good, it is. */
Test(pace, is_not_confused_by_the_way)
{
    struct chance chance = {3};
    for (unsigned run = 0; run < 2000; run++) {
        unsigned longest = 1u << chance_below(&chance, 24);
        struct node node = {.now = RL_SECOND};
        int64_t drift = (int64_t)chance_below(&chance, 2 * PPM + 1) - PPM;
        rl_time begin = node.now;
        for (unsigned i = 0; i < 200; i++) {
            rl_time there = chance_below(&chance, longest);
            rl_time back = chance_below(&chance, longest);
            node.now += chance_below(&chance, 10 * longest);
            node.off = (node.now + there - begin) * drift / 1000000;
            CHECK(ask_with(&node, there, back), "run %u, answer %u", run, i);
            CHECK(node.pace.worn == 0, "run %u, answer %u: %jd", run, i,
                  (intmax_t)node.pace.worn);
        }
    }
}

/* We are stopped while an answer is there already: its clock has gone on at its rate. */
Test(pace, bears_the_rate_while_an_answer_is_not_heard)
{
    static const int64_t rates[] = {PPM, -PPM};
    rl_time stopped = 4 * SLACK / PPM * 1000000;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        for (int known = 0; known <= 1; known++) {
            struct node node = {.now = RL_SECOND};
            cr_assert(!known || ask(&node));
            cr_assert(ask_with(&node, 0, stopped));
            node.off = stopped / 1000000 * rates[i];
            cr_assert(ask(&node), "%jd ppm", (intmax_t)rates[i]);
            cr_assert_eq(node.pace.worn, 0);
        }
}

/* And no more than that: from the question on, for a lease is valid from there, too. */
Test(pace, finds_what_goes_beyond_the_rate_while_an_answer_is_not_heard)
{
    rl_time stopped = 4 * SLACK / PPM * 1000000;
    for (int late = 0; late <= 1; late++) {
        struct node node = fresh();
        cr_assert(ask_with(&node, 0, stopped));
        node.off = allowed(stopped) + SLACK + late;
        cr_assert_eq(ask(&node), late == 0);
    }
}

/* A good answer is remembered: a bad one that follows does not hide a step. */
Test(pace, knows_as_much_as_the_best_answer)
{
    struct node node = fresh();
    for (unsigned i = 0; i < 10; i++) {
        node.now += RL_SECOND;
        cr_assert(ask_with(&node, 2 * RL_SECOND, 2 * RL_SECOND));
    }
    cr_assert_leq(node.pace.high - node.pace.low, 2 * allowed(100 * RL_SECOND));
    node.now += RL_SECOND;
    node.off = 2 * SLACK;
    cr_assert_not(ask(&node));
}

/* As far as the round trip hides it, a step may have been none. */
Test(pace, gives_the_node_the_benefit_of_the_round_trip)
{
    struct node node = fresh();
    node.now += RL_SECOND;
    node.off = SLACK + RL_SECOND;
    cr_assert(ask_with(&node, 0, RL_SECOND));
    node = fresh();
    node.now += RL_SECOND;
    node.off = -SLACK - RL_SECOND;
    cr_assert(ask_with(&node, RL_SECOND, 0));
    node = fresh();
    node.now += RL_SECOND;
    node.off = SLACK + RL_SECOND;
    cr_assert_not(ask_with(&node, RL_SECOND / 2, RL_SECOND / 4));
}
