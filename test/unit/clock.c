/* The client's clock, made from two clocks that are each wrong in their own way. */
#include "core/clock.h"

#include "lease_fixture.h"
#include "prng.h"

static struct rl_clock made(rl_time boot, rl_time raw)
{
    struct rl_clock clock;
    rl_clock_init(&clock, boot, raw);
    return clock;
}

Test(clock, begins_at_the_boot_clock)
{
    struct rl_clock clock = made(1000, 7);
    cr_assert_eq(clock.now, 1000);
    cr_assert_eq(rl_clock_advance(&clock, 1000, 7), 1000, "no time has passed");
}

Test(clock, takes_the_larger_step)
{
    struct rl_clock clock = made(0, 7);
    rl_time fold = RL_CLOCK_FOLD;
    cr_assert_eq(rl_clock_advance(&clock, fold - 9, fold + 7), fold, "boot is slower");
    cr_assert_eq(rl_clock_advance(&clock, 2 * fold + 2, 2 * fold + 7), 2 * fold + 11,
                 "and faster");
}

/* Two rounded clocks tick at different moments: no tick may count twice. */
Test(clock, does_not_run_fast_when_it_is_read_often)
{
    struct rl_clock clock = made(0, 0);
    rl_time end = 10 * RL_SECOND;
    for (rl_time half = 0; half <= 2 * end; half++)
        rl_clock_advance(&clock, half / 2, (half + 1) / 2);
    cr_assert_leq(clock.now, end + end / RL_CLOCK_FOLD + 1);
}

Test(clock, counts_suspension)
{
    struct rl_clock clock = made(1000, 1000);
    rl_clock_advance(&clock, 1010 + 3600 * RL_SECOND, 1010); /* raw stood still */
    cr_assert_eq(clock.now, 1010 + 3600 * RL_SECOND);
    cr_assert_eq(rl_clock_advance(&clock, 1020 + 3600 * RL_SECOND, 1020),
                 1020 + 3600 * RL_SECOND, "once");
}

/* A process is stopped for a second between its two readings, again and again. */
Test(clock, does_not_count_a_stop_between_two_readings_twice)
{
    struct rl_clock clock = made(0, 0);
    rl_time stop = RL_SECOND, now = 0;
    for (int i = 0; i < 10; i++, now += stop) {
        cr_assert_eq(rl_clock_advance_apart(&clock, now, now + stop), now + stop);
        cr_assert_eq(rl_clock_advance_apart(&clock, now + stop, now), now + stop);
    }
    cr_assert_eq(rl_clock_advance(&clock, now, now), now);
}

Test(clock, never_goes_back)
{
    struct rl_clock clock = made(1000, 1000);
    cr_assert_eq(rl_clock_advance(&clock, 900, 900), 1000);
    cr_assert_eq(rl_clock_advance(&clock, 910, 910), 1010, "from there on");
    cr_assert_eq(rl_clock_advance(&clock, 0, 920), 1020, "one of them only");
    cr_assert_eq(rl_clock_advance(&clock, 5, 0), 1025);
}

Test(clock, stops_at_the_end_of_time)
{
    struct rl_clock clock = made(RL_NEVER - 10, 0);
    cr_assert_eq(rl_clock_advance(&clock, RL_NEVER - 10, 100), RL_NEVER);
}

/* Against two clocks of a known true time: the result may be early, never late. */
Test(clock, is_never_slower_than_the_faster_of_the_two)
{
    struct prng prng = {11};
    for (unsigned run = 0; run < 200; run++) {
        rl_time boot = prng_below(&prng, 1000000), raw = prng_below(&prng, 1000000);
        rl_time boot_first = boot, raw_first = raw;
        struct rl_clock clock = made(boot, raw);
        rl_time last = clock.now;
        for (unsigned step = 0; step < 200; step++) {
            unsigned passed = prng_below(&prng, 100000);
            bool asleep = prng_below(&prng, 20) == 0;
            boot += passed + prng_below(&prng, passed / 1000 + 1);
            raw += asleep ? 0 : passed;
            rl_time now = rl_clock_advance(&clock, boot, raw);
            CHECK(now >= last, "it went back");
            CHECK(now - boot_first >= boot - boot_first, "slower than the boot clock");
            CHECK(now - boot_first >= raw - raw_first, "slower than the raw clock");
            last = now;
        }
    }
}

#define READINGS 200
/* Clocks that are slewed as fast as that differ by RL_CLOCK_SPREAD after so long. */
#define SLEW_MAX     100500 /* ppm */
#define FOLDED_AFTER (RL_CLOCK_SPREAD * 1000000 / SLEW_MAX)

/* A span may begin and end at any reading, also where the slew changes its direction. */
Test(clock, between_any_two_readings_is_hardly_slower_than_either_clock)
{
    struct prng prng = {5};
    for (unsigned run = 0; run < 200; run++) {
        rl_time raw[READINGS] = {0}, boot[READINGS] = {0}, now[READINGS] = {0};
        struct rl_clock clock = made(0, 0);
        int64_t ppm = 0;
        for (unsigned i = 1; i < READINGS; i++) {
            rl_time passed = prng_below(&prng, prng_below(&prng, 2) ? 1000 : 60000);
            if (prng_below(&prng, 4) == 0)
                ppm = (int64_t)prng_below(&prng, 2 * SLEW_MAX) - SLEW_MAX;
            raw[i] = raw[i - 1] + passed;
            boot[i] = boot[i - 1] + passed + passed * ppm / 1000000;
            now[i] = rl_clock_advance(&clock, boot[i], raw[i]);
            for (unsigned j = 0; j < i; j++) {
                rl_time span = rl_max(raw[i] - raw[j], boot[i] - boot[j]);
                CHECK(now[i] - now[j] >= span - RL_CLOCK_SPREAD, "%lld instead of %lld",
                      (long long)(now[i] - now[j]), (long long)span);
            }
        }
    }
}

/* How many single reads lie between two reads of both clocks. */
#define GLANCES 8

/*
 * One clock is slewed as fast as the kernel can, either way, and is read alone meanwhile.
 */
Test(clock, a_single_read_is_never_slower_than_the_unslewed_clock)
{
    static const int slews[] = {-SLEW_MAX, -83333, -100, 0, 83333, SLEW_MAX}; /* ppm */
    for (size_t i = 0; i < sizeof(slews) / sizeof(slews[0]); i++) {
        struct prng prng = {7 + i};
        rl_time nanos = 0, early = 0; /* of the true time; by how much it was fast */
        struct rl_clock clock = made(0, 0);
        for (unsigned reading = 0; reading < 100000; reading++) {
            nanos += prng_below(&prng, 2000 * RL_CLOCK_GLANCE / GLANCES);
            rl_time raw = nanos / 1000,
                    boot = nanos / 1000 * (1000000 + slews[i]) / 1000000;
            rl_time before = clock.now;
            if (!rl_clock_glance(&clock, boot))
                rl_clock_advance(&clock, boot, raw);
            CHECK(clock.now >= raw && clock.now >= boot, "%lld after %lld",
                  (long long)clock.now, (long long)raw);
            CHECK(clock.now >= before, "it went back");
            early = rl_max(early, clock.now - rl_max(raw, boot) - raw / FOLDED_AFTER);
        }
        CHECK(early <= RL_CLOCK_GLANCE / RL_CLOCK_SLEWED_PART + 2, "%lld us fast",
              (long long)early);
    }
}

/* The two clocks tick at different moments, and the reads of both are rounded. */
Test(clock, a_single_read_is_never_slower_than_a_read_of_both)
{
    struct prng prng = {3};
    for (unsigned run = 0; run < 1000000; run++) {
        rl_time boot = prng_below(&prng, 1000), raw = prng_below(&prng, 1000);
        rl_time took = prng_below(&prng, 2000 * RL_CLOCK_GLANCE); /* ns */
        struct rl_clock glances = made(0, 0), looks = glances;
        rl_time later = (boot + took * (1000000 - 100500) / 1000000) / 1000;
        if (!rl_clock_glance(&glances, later))
            continue;
        rl_clock_advance(&looks, later, (raw + took) / 1000);
        CHECK(glances.now >= looks.now, "%lld instead of %lld", (long long)glances.now,
              (long long)looks.now);
        CHECK(glances.now <= looks.now + RL_CLOCK_GLANCE / RL_CLOCK_SLEWED_PART + 2,
              "%lld, and it was %lld", (long long)glances.now, (long long)looks.now);
    }
}

Test(clock, after_a_suspension_both_clocks_are_read)
{
    struct rl_clock clock = made(1000, 1000);
    cr_assert(rl_clock_glance(&clock, 1000 + RL_CLOCK_GLANCE - 1));
    cr_assert(!rl_clock_glance(&clock, 1000 + RL_CLOCK_GLANCE));
    cr_assert(!rl_clock_glance(&clock, 999), "it went back");
}
