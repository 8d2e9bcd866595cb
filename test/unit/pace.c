/* The pace of a node's clock: which deviations are allowed, and which are found. */
#include "core/fenced/pace.h"

#include "lease_fixture.h"
#include "prng.h"

#define PPM   500
#define SLACK (300 * RL_MS)
#define AHEAD (INT64_C(1700000000) * RL_SECOND) /* the time of day, of our clock */

/* A node whose clock is off by `off`, read at each end of a span with no round trip. */
struct node {
    struct rl_pace pace;
    rl_time now, off;
};

static bool read_clock_with(struct node *node, rl_time there, rl_time back)
{
    rl_time sent = node->now;
    node->now += there;
    rl_time reported = node->now + AHEAD + node->off;
    node->now += back;
    return rl_pace_note(&node->pace, sent, node->now, reported, PPM, SLACK);
}

static bool read_clock(struct node *node)
{
    return read_clock_with(node, 0, 0);
}

/* First read at 1 s. */
static struct node fresh(void)
{
    struct node node = {.now = RL_SECOND};
    cr_assert(read_clock(&node));
    return node;
}

/* How much a clock may change in that time, by the rate alone. */
static rl_time rate_allowance(rl_time span)
{
    return span / 1000000 * PPM + 1;
}

Test(pace, first_reading_may_be_anything)
{
    static const rl_time off[] = {-AHEAD, 0, 1, AHEAD};
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        struct node node = {.now = RL_SECOND, .off = off[i]};
        cr_assert(read_clock(&node));
        cr_assert(node.pace.known);
    }
}

/* To the microsecond, in both directions. */
Test(pace, allows_a_step_of_the_slack_and_no_more)
{
    for (int way = -1; way <= 1; way += 2)
        for (rl_time span = RL_SECOND; span <= 1000 * RL_SECOND; span *= 10) {
            rl_time most = SLACK + rate_allowance(span);
            struct node node = fresh();
            node.now += span;
            node.off = way * most;
            cr_assert(read_clock(&node), "%d, after %jd", way, (intmax_t)span);
            node = fresh();
            node.now += span;
            node.off = way * (most + 1);
            cr_assert_not(read_clock(&node), "%d, after %jd", way, (intmax_t)span);
        }
}

Test(pace, finds_steps_of_all_sizes)
{
    for (int way = -1; way <= 1; way += 2)
        for (rl_time step = RL_MS; step < 10000 * RL_SECOND; step += step / 3) {
            struct node node = fresh();
            node.now += RL_SECOND;
            node.off = way * step;
            cr_assert_eq(read_clock(&node), step <= SLACK + rate_allowance(RL_SECOND),
                         "%jd", (intmax_t)step);
        }
}

/* Steps that would each be allowed add up. */
Test(pace, adds_up_partial_steps)
{
    struct node node = fresh();
    unsigned steps = 0;
    rl_time step = 100 * RL_MS;
    do {
        node.now += RL_SECOND;
        node.off += step;
        steps++;
    } while (read_clock(&node) && steps < 100);
    cr_assert_eq(steps, 4, "%u of 100 ms were allowed, of a slack of 300", steps - 1);
}

/*
 * A step forward and back counts twice, not as none: a key may have been set between the
 * two.
 */
Test(pace, adds_up_steps_forward_and_back)
{
    struct node node = fresh();
    unsigned steps = 0;
    do {
        node.now += RL_SECOND;
        node.off = steps++ % 2 ? 0 : 100 * RL_MS;
    } while (read_clock(&node) && steps < 100);
    cr_assert_eq(steps, 4);
}

Test(pace, excess_decays_with_time)
{
    rl_time rest = SLACK / PPM * 1000000; /* all of the excess has decayed by then */
    for (int late = 0; late <= 1; late++) {
        struct node node = fresh();
        node.now += RL_SECOND;
        node.off = SLACK;
        cr_assert(read_clock(&node));
        rl_time end = node.now + (late ? rest : rest / 2);
        while (node.now < end) {
            node.now += 10 * RL_SECOND;
            cr_assert(read_clock(&node));
        }
        node.off = 2 * SLACK;
        cr_assert_eq(read_clock(&node), late == 1);
    }
}

Test(pace, starts_again_after_a_fault_was_found)
{
    struct node node = fresh();
    node.now += RL_SECOND;
    node.off = 10 * RL_SECOND;
    cr_assert_not(read_clock(&node));
    cr_assert(node.pace.known, "by the same reply");
    node.now += RL_SECOND;
    cr_assert(read_clock(&node));
    node.now += RL_SECOND;
    node.off += SLACK; /* the earlier excess is forgotten, too */
    cr_assert(read_clock(&node));
    node.now += RL_SECOND;
    node.off += SLACK;
    cr_assert_not(read_clock(&node));
}

/* --- rates --- */

/*
 * How long a clock of that rate is not found, if it is read at this interval; 0: for ever.
 */
static rl_time time_until_found(int64_t ppm, rl_time each, rl_time for_long)
{
    struct node node = fresh();
    rl_time begin = node.now;
    while (node.now - begin < for_long) {
        node.now += each;
        node.off = (node.now - begin) / 1000000 * ppm;
        if (!read_clock(&node))
            return node.now - begin;
    }
    return 0;
}

Test(pace, a_clock_within_the_rate_is_never_found_faulty)
{
    static const int64_t rates[] = {0, 1, PPM / 2, PPM, -1, -PPM / 2, -PPM};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        for (rl_time each = RL_SECOND; each <= 1000 * RL_SECOND; each *= 10)
            cr_assert_eq(time_until_found(rates[i], each, 100000 * each), 0, "%jd ppm",
                         (intmax_t)rates[i]);
}

/*
 * The slack recovers as fast as the rate uses it: beyond twice the rate every clock is
 * found.
 */
Test(pace, a_clock_beyond_twice_the_rate_is_found_when_the_slack_is_exceeded)
{
    static const int64_t rates[] = {3 * PPM,  10 * PPM,  100000,
                                    -3 * PPM, -10 * PPM, -100000};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        for (rl_time each = RL_SECOND; each <= 100 * RL_SECOND; each *= 10) {
            int64_t excess = (rates[i] < 0 ? -rates[i] : rates[i]) - 2 * PPM;
            rl_time found = time_until_found(rates[i], each, 100000 * each);
            rl_time expected = SLACK * 1000000 / excess;
            cr_assert_gt(found, 0, "%jd ppm, each %jd", (intmax_t)rates[i], (intmax_t)each);
            cr_assert_leq(found, expected + expected / 10 + 2 * each, "%jd ppm, each %jd",
                          (intmax_t)rates[i], (intmax_t)each);
        }
}

/* Valkey 9.1: up to 1 ms ahead, for as long at most, and back again. */
Test(pace, allows_a_clock_that_is_read_ahead_now_and_then)
{
    struct node node = fresh();
    for (unsigned i = 0; i < 1000; i++) {
        node.now += 10 * RL_SECOND;
        node.off = RL_MS;
        cr_assert(read_clock(&node), "%u", i);
        node.now += RL_MS;
        node.off = 0;
        cr_assert(read_clock(&node), "%u", i);
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
        cr_assert(read_clock(&node), "%jd", (intmax_t)(node.now - begin));
    }
    node.now += 10 * RL_MS;
    node.off = begin - node.now;
    cr_assert_not(read_clock(&node));
}

/* Two replies under way at once may be of the same moment. */
Test(pace, does_not_take_a_slow_network_for_a_clock_that_stands_still)
{
    struct node node = {.now = RL_SECOND};
    rl_time reported = AHEAD + 5 * RL_SECOND;
    for (unsigned i = 0; i < 20; i++)
        cr_assert(rl_pace_note(&node.pace, RL_SECOND, 5 * RL_SECOND + i * RL_SECOND,
                               reported, PPM, SLACK));
}

Test(pace, counts_standing_still_from_the_last_reply_that_differed)
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

/* --- the round trip --- */

/* However long the command and the reply take: a correct clock stays correct. */
Test(pace, is_independent_of_the_round_trip)
{
    struct prng prng = {3};
    for (unsigned run = 0; run < 2000; run++) {
        unsigned longest = 1u << prng_below(&prng, 24);
        struct node node = {.now = RL_SECOND};
        int64_t drift = (int64_t)prng_below(&prng, 2 * PPM + 1) - PPM;
        rl_time begin = node.now;
        for (unsigned i = 0; i < 200; i++) {
            rl_time there = prng_below(&prng, longest);
            rl_time back = prng_below(&prng, longest);
            node.now += prng_below(&prng, 10 * longest);
            node.off = (node.now + there - begin) * drift / 1000000;
            CHECK(read_clock_with(&node, there, back), "run %u, answer %u", run, i);
            CHECK(node.pace.excess == 0, "run %u, answer %u: %jd", run, i,
                  (intmax_t)node.pace.excess);
        }
    }
}

/* The client is stopped while a reply is waiting: the node's clock goes on at its rate. */
Test(pace, allows_the_rate_while_a_reply_is_not_read)
{
    static const int64_t rates[] = {PPM, -PPM};
    rl_time stopped = 4 * SLACK / PPM * 1000000;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        for (int known = 0; known <= 1; known++) {
            struct node node = {.now = RL_SECOND};
            cr_assert(!known || read_clock(&node));
            cr_assert(read_clock_with(&node, 0, stopped));
            node.off = stopped / 1000000 * rates[i];
            cr_assert(read_clock(&node), "%jd ppm", (intmax_t)rates[i]);
            cr_assert_eq(node.pace.excess, 0);
        }
}

/* Counted from the command, because a lease is valid from there, too. */
Test(pace, finds_what_exceeds_the_rate_while_a_reply_is_not_read)
{
    rl_time stopped = 4 * SLACK / PPM * 1000000;
    for (int late = 0; late <= 1; late++) {
        struct node node = fresh();
        cr_assert(read_clock_with(&node, 0, stopped));
        node.off = rate_allowance(stopped) + SLACK + late;
        cr_assert_eq(read_clock(&node), late == 0);
    }
}

/* A precise reply is kept: an imprecise one that follows does not hide a step. */
Test(pace, is_as_precise_as_the_best_reply)
{
    struct node node = fresh();
    for (unsigned i = 0; i < 10; i++) {
        node.now += RL_SECOND;
        cr_assert(read_clock_with(&node, 2 * RL_SECOND, 2 * RL_SECOND));
    }
    cr_assert_leq(node.pace.high - node.pace.low, 2 * rate_allowance(100 * RL_SECOND));
    node.now += RL_SECOND;
    node.off = 2 * SLACK;
    cr_assert_not(read_clock(&node));
}

/* A difference that the round trip can explain counts as no step. */
Test(pace, gives_the_node_the_benefit_of_the_round_trip)
{
    struct node node = fresh();
    node.now += RL_SECOND;
    node.off = SLACK + RL_SECOND;
    cr_assert(read_clock_with(&node, 0, RL_SECOND));
    node = fresh();
    node.now += RL_SECOND;
    node.off = -SLACK - RL_SECOND;
    cr_assert(read_clock_with(&node, RL_SECOND, 0));
    node = fresh();
    node.now += RL_SECOND;
    node.off = SLACK + RL_SECOND;
    cr_assert_not(read_clock_with(&node, RL_SECOND / 2, RL_SECOND / 4));
}

/* Read every 100 ms: 400 ms more or less at once, 5 % too fast or too slow, or not at all.
 */
Test(pace, names_what_is_wrong)
{
    static const struct {
        rl_time step, each;
        enum rl_clock_error error;
    } rows[] = {
        {400 * RL_MS, 0, RL_CLOCK_SET},    {-400 * RL_MS, 0, RL_CLOCK_SET},
        {0, 5 * RL_MS, RL_CLOCK_FAST},     {0, -5 * RL_MS, RL_CLOCK_SLOW},
        {0, -100 * RL_MS, RL_CLOCK_STILL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct node node = fresh();
        node.off = rows[i].step;
        do {
            node.now += 100 * RL_MS;
            node.off += rows[i].each;
        } while (read_clock(&node));
        cr_assert_eq(node.pace.change.error, rows[i].error, "row %zu: %d", i,
                     node.pace.change.error);
    }
}
