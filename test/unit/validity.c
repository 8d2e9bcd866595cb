/* How long a lock is surely held, at the limits of the arithmetic. */
#include "lease_fixture.h"
#include "prng.h"

#include <inttypes.h>

/* The drift by long division, in digits of 32 bits, where nothing can overflow; rounded to
   the safe side. Not every platform has integers of 128 bits. */
static rl_time oracle(rl_time start, rl_time ttl, uint32_t ppm)
{
    uint64_t low = ((uint64_t)ttl & UINT32_MAX) * ppm + 999999;
    uint64_t high = ((uint64_t)ttl >> 32) * ppm + (low >> 32);
    uint64_t digit = ((high % 1000000 << 32) + (low & UINT32_MAX)) / 1000000;
    uint64_t drift = (high / 1000000 << 32) + digit + 2000;
    uint64_t end = (uint64_t)start + (uint64_t)ttl;
    if (end > RL_NEVER)
        end = RL_NEVER;
    return (rl_time)(end - drift);
}

Test(validity, known_values)
{
    static const struct {
        rl_time start, ttl;
        uint32_t ppm;
        rl_time valid;
    } known[] = {
        {0, 10 * RL_SECOND, 10000, 9898 * RL_MS},
        {RL_SECOND, 30 * RL_SECOND, 10000, 30698 * RL_MS},
        {0, 10 * RL_SECOND, 0, 9998 * RL_MS},
        {0, 10 * RL_SECOND, 1000000, -2 * RL_MS}, /* all of it may be drift */
        {0, 0, 10000, -2 * RL_MS},
        {0, 1, 10000, 1 - 1 - 2 * RL_MS},     /* a part of a microsecond counts as one */
        {0, 100, 10000, 100 - 1 - 2 * RL_MS}, /* exactly one */
        {0, 101, 10000, 101 - 2 - 2 * RL_MS},
        {0, 86400 * RL_SECOND, 10000, INT64_C(85535998000)},
        {5, RL_NEVER, 0, RL_NEVER - 2 * RL_MS},
        {RL_NEVER, RL_NEVER, 1000000, -2 * RL_MS},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        cr_assert_eq(rl_valid_until(known[i].start, known[i].ttl, known[i].ppm),
                     known[i].valid, "row %zu", i);
}

Test(validity, at_every_limit_and_around_it)
{
    static const rl_time ttls[] = {0,
                                   1,
                                   999999,
                                   1000000,
                                   1000001,
                                   RL_SECOND,
                                   INT64_C(1) << 31,
                                   INT64_C(1) << 32,
                                   INT64_C(1) << 53,
                                   RL_NEVER / 1000000,
                                   RL_NEVER / 1000000 + 1,
                                   RL_NEVER / 2,
                                   RL_NEVER - 1,
                                   RL_NEVER};
    static const uint32_t ppms[] = {0, 1, 2, 9999, 10000, 500000, 999999, 1000000};
    static const rl_time starts[] = {0, 1, RL_SECOND, RL_NEVER / 2, RL_NEVER};
    for (size_t t = 0; t < sizeof(ttls) / sizeof(ttls[0]); t++)
        for (size_t p = 0; p < sizeof(ppms) / sizeof(ppms[0]); p++)
            for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++)
                cr_assert_eq(rl_valid_until(starts[s], ttls[t], ppms[p]),
                             oracle(starts[s], ttls[t], ppms[p]), "row %zu %zu %zu", t, p,
                             s);
}

Test(validity, at_random)
{
    struct prng prng = {3};
    for (unsigned i = 0; i < 200000; i++) {
        rl_time start = (rl_time)(prng_bits(&prng) >> (1 + prng_below(&prng, 60)));
        rl_time ttl = (rl_time)(prng_bits(&prng) >> (1 + prng_below(&prng, 60)));
        uint32_t ppm = prng_below(&prng, 1000001);
        CHECK(rl_valid_until(start, ttl, ppm) == oracle(start, ttl, ppm),
              "%" PRId64 " %" PRId64 " %u", start, ttl, ppm);
    }
}

Test(validity, more_drift_never_makes_it_longer)
{
    rl_time last = RL_NEVER;
    for (uint32_t ppm = 0; ppm <= 1000000; ppm += 111) {
        rl_time valid = rl_valid_until(RL_SECOND, 12345678, ppm);
        CHECK(valid <= last, "ppm %u", ppm);
        last = valid;
    }
}

Test(times, sums_saturate_at_never)
{
    cr_assert_eq(rl_time_add_sat(1, 2), 3);
    cr_assert_eq(rl_time_add_sat(RL_NEVER, 0), RL_NEVER);
    cr_assert_eq(rl_time_add_sat(RL_NEVER, 1), RL_NEVER);
    cr_assert_eq(rl_time_add_sat(1, RL_NEVER), RL_NEVER);
    cr_assert_eq(rl_time_add_sat(RL_NEVER, RL_NEVER), RL_NEVER);
    cr_assert_eq(rl_time_add_sat(RL_NEVER - 5, 5), RL_NEVER);
    cr_assert_eq(rl_time_add_sat(RL_NEVER - 5, 4), RL_NEVER - 1);
}

Test(times, bounds)
{
    cr_assert_eq(rl_clamp(5, 1, 9), 5);
    cr_assert_eq(rl_clamp(0, 1, 9), 1);
    cr_assert_eq(rl_clamp(10, 1, 9), 9);
    cr_assert_eq(rl_clamp(5, 9, 1), 1, "where they cross the upper one counts");
    cr_assert_eq(rl_clamp(0, 9, 1), 1);
    cr_assert_eq(rl_min(-1, 1), -1);
    cr_assert_eq(rl_max(-1, 1), 1);
}
