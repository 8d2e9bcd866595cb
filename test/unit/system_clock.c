/*
 * The deadlines of holds, and the client's clock, on system clocks that this program
 * simulates: slewed, suspended, and advancing between any two reads.
 */
#include "base/system_clock.h"
#include "io/system.h"

#include "core/clock.h"
#include "lease_fixture.h"
#include "prng.h"
#include "sync/time.h"

#define US     INT64_C(1000) /* in ns, as are all that follow */
#define MS     (1000 * US)
#define SECOND (1000 * MS)

#define SLEW_MOST 100500 /* ppm: the kernel's limit */

/* --- the machine --- */

static struct {
    int64_t now, suspended; /* the true time, and how much of it was a suspension */
    int64_t mono, raw;      /* clocks that stand still in a suspension */
    int mono_ppm, raw_ppm;  /* what they gain */
    struct prng *prng;      /* time passes at each read; NULL: it does not */

} machine;

static void run_for(int64_t ns)
{
    machine.now += ns;
    machine.mono += ns + ns / US * machine.mono_ppm / 1000;
    machine.raw += ns + ns / US * machine.raw_ppm / 1000;
}

static void suspend_for(int64_t ns)
{
    machine.now += ns;
    machine.suspended += ns;
}

/* Clocks go on from case to case, because a thread remembers what it read. */
static void set_rates(int mono_ppm, int raw_ppm)
{
    machine.prng = NULL;
    machine.mono_ppm = machine.raw_ppm = 0;
    run_for(3600 * SECOND);
    machine.mono_ppm = mono_ppm;
    machine.raw_ppm = raw_ppm;
}

/* Between two reads the thread may be descheduled, and the machine suspended. */
static void advance_clocks(void)
{
    struct prng *prng = machine.prng;
    if (!prng)
        return;
    run_for(prng_below(prng, 2) ? 40 : prng_below(prng, 3 * MS));
    if (prng_below(prng, 50) == 0)
        suspend_for(prng_below(prng, SECOND));
}

int made_clock_gettime(clockid_t id, struct timespec *ret);

/* clock_gettime() of the sources under test. */
int made_clock_gettime(clockid_t id, struct timespec *ret)
{
    advance_clocks();
    int64_t at = id == CLOCK_MONOTONIC_RAW ? machine.raw
                 : id == CLOCK_BOOTTIME    ? machine.mono + machine.suspended
                                           : machine.mono;
    *ret = (struct timespec){.tv_sec = at / SECOND, .tv_nsec = at % SECOND};
    return 0;
}

/* --- a hold --- */

/*
 * The deadline of a client without errors: this long after a moment that follows the clock
 * reads.
 */
struct hold {
    int64_t end; /* the true time */
    struct rl_until until;
    int64_t boot, raw; /* the same by two clocks, one of which misses suspensions */
};

static struct hold take(int64_t valid_ms)
{
    struct hold hold = {.until = rl_until_after(rl_clocks_begin(), valid_ms)};
    advance_clocks();
    hold.end = machine.now + valid_ms * MS;
    hold.boot = machine.mono + machine.suspended + valid_ms * MS;
    hold.raw = machine.raw + valid_ms * MS;
    return hold;
}

static int64_t left_by_two_totals(const struct hold *hold)
{
    return rl_min(hold->boot - machine.mono - machine.suspended, hold->raw - machine.raw);
}

static void check_hold(const struct hold *hold)
{
    int64_t left = hold->end - machine.now; /* as of the beginning of the call */
    int64_t reported = rl_until_left_ms(hold->until);
    CHECK(reported == 0 || reported * MS <= left, "%lld ms, and %lld us are left",
          (long long)reported, (long long)(left / US));
}

/* --- one suspension, and a slew --- */

/* 27.5 s pass by CLOCK_BOOTTIME in 30 s, and the other clock misses the suspension. */
Test(system_clock, deadline_is_not_late_after_a_slew_and_a_suspension)
{
    set_rates(-83333, 0);
    struct hold hold = take(30000);
    run_for(15 * SECOND);
    suspend_for(SECOND);
    run_for(14 * SECOND - 10 * MS);
    cr_assert_geq(rl_until_left_ms(hold.until), 9, "10 ms are left");
    cr_assert_leq(rl_until_left_ms(hold.until), 10);
    run_for(10 * MS);
    cr_assert_eq(rl_until_left_ms(hold.until), 0, "%lld", (long long)hold.end);
    cr_assert_gt(left_by_two_totals(&hold), 990 * MS,
                 "two separate clocks are late by this");
}

Test(system_clock, client_is_not_late_after_a_slew_and_a_suspension)
{
    set_rates(-83333, 0);
    int64_t begin = machine.now;
    struct rl_clocks first = rl_clocks_begin();
    struct rl_clock clock, without;
    rl_clock_init(&clock, first.boot, first.unslewed);
    rl_clock_init(&without, first.boot, machine.raw / US);
    run_for(15 * SECOND);
    suspend_for(SECOND);
    run_for(15 * SECOND);
    struct rl_clocks last = rl_clocks_begin();
    rl_time passed = (machine.now - begin) / US;
    cr_assert_eq(rl_clock_advance(&clock, last.boot, last.unslewed) - first.boot, passed);
    cr_assert_lt(rl_clock_advance(&without, last.boot, machine.raw / US) - first.boot,
                 passed - 990 * RL_MS, "without the suspended time it is late by this");
}

/* --- any slews and suspensions --- */

static void live_on(struct prng *prng, bool slews_mono)
{
    int ppm = (int)prng_below(prng, 2 * SLEW_MOST + 1) - SLEW_MOST;
    if (prng_below(prng, 4) == 0)
        *(slews_mono ? &machine.mono_ppm : &machine.raw_ppm) = ppm;
    switch (prng_below(prng, 4)) {
    case 0: run_for(prng_below(prng, 300 * US)); break;
    case 1: run_for(prng_below(prng, 200 * MS)); break;
    case 2: run_for(prng_below(prng, 5000) * MS); break;
    default: suspend_for(prng_below(prng, 2) ? prng_below(prng, 5000) * MS : 0);
    }
}

/*
 * One of the two clocks is correct throughout; the other is slewed as fast as the kernel
 * can, either way. The time between reads is random, and clocks advance between the two
 * reads.
 */
static void live(uint64_t seed, bool slews_mono)
{
    struct prng prng = {seed}, readings = {~seed};
    set_rates(0, 0);
    machine.prng = prng_below(&prng, 2) ? &readings : NULL;
    struct hold hold = take(1 + prng_below(&prng, 60000));
    struct rl_clocks first = rl_clocks_begin();
    int64_t begin = machine.now;
    struct rl_clock clock;
    rl_clock_init(&clock, first.boot, first.unslewed);
    while (machine.now < hold.end + SECOND) {
        live_on(&prng, slews_mono);
        check_hold(&hold);
        int64_t passed = (machine.now - begin) / US - 1;
        int64_t boot = rl_system_clock_ns(CLOCK_BOOTTIME), later;
        rl_time reported =
            rl_clock_advance(&clock, boot / US, rl_clock_unslewed_ns(&later) / US);
        CHECK(reported - first.boot >= passed, "%lld us, not %lld", (long long)reported,
              (long long)passed);
    }
    machine.prng = NULL;
}

#define LIVES 20000

Test(system_clock, never_late_if_boottime_is_slewed)
{
    for (uint64_t seed = 0; seed < LIVES; seed++)
        live(seed, true);
}

Test(system_clock, never_late_if_only_boottime_is_right)
{
    for (uint64_t seed = 0; seed < LIVES; seed++)
        live(seed, false);
}

/* --- and not early, either --- */

Test(system_clock, remaining_time_is_exact_with_correct_clocks)
{
    set_rates(0, 0);
    struct hold hold = take(30000);
    for (unsigned i = 0; i < 100000; i++) {
        run_for(300 * US / (1 + i % 7));
        suspend_for(i % 100 == 0 ? 50 * MS : 0);
        int64_t left = (hold.end - machine.now) / US;
        int64_t reported = rl_until_left_ms(hold.until);
        CHECK(reported >= (left - 1000 - 40) / 1000, "%lld ms, and %lld us are left",
              (long long)reported, (long long)left);
    }
}

/* Descheduled for any time, between any two reads. */
Test(system_clock, reading_is_bounded_by_its_call)
{
    struct prng prng = {5};
    set_rates(0, 0);
    machine.prng = &prng;
    for (unsigned i = 0; i < 100000; i++) {
        machine.mono_ppm = (int)prng_below(&prng, 2 * SLEW_MOST + 1) - SLEW_MOST;
        struct rl_clocks begin = rl_clocks_begin();
        int64_t before = machine.raw + machine.suspended, later;
        CHECK(begin.unslewed <= before / US, "a start in the future");
        CHECK(begin.boot <= (machine.mono + machine.suspended) / US, "the same");
        CHECK(rl_clock_unslewed_ns(&later) >= before, "an end before it was requested");
        before = machine.raw + machine.suspended;
        CHECK(rl_clocks_end().unslewed >= before / US, "the same");
    }
    machine.prng = NULL;
}

Test(system_clock, end_soon_after_another_reads_one_clock)
{
    set_rates(0, 0);
    rl_clocks_end();
    for (unsigned i = 0; i < RL_CLOCK_GLANCE - 1; i++) {
        run_for(US);
        machine.raw = 0; /* nothing reads it */
        cr_assert_gt(rl_clocks_end().unslewed, 3600 * RL_SECOND);
    }
    run_for(US);
    cr_assert_leq(rl_clocks_end().unslewed, 1, "then all are read");
}
