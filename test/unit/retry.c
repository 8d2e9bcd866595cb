/* When to retry, and when to give up. */
#include "core/retry.h"

#include "lease_fixture.h"
#include "prng.h"

static const rl_time now = 100 * RL_SECOND;

Test(retry, none_never_retries)
{
    struct rl_retry retry = {.kind = RL_RETRY_NONE, .base = 1, .cap = 1};
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, RL_NEVER), RL_NEVER);
}

Test(retry, fixed_waits_the_same_time)
{
    struct rl_retry retry = {.kind = RL_RETRY_FIXED, .base = 20 * RL_MS, .cap = RL_MS};
    for (unsigned attempt = 0; attempt < 100; attempt++)
        cr_assert_eq(rl_retry_at(&retry, attempt, attempt * 77, now, RL_NEVER),
                     now + 20 * RL_MS);
    retry.base = 0;
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, RL_NEVER), now, "at once");
    retry.base = RL_NEVER;
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, RL_NEVER), RL_NEVER);
}

Test(retry, full_jitter_is_between_zero_and_the_cap)
{
    struct rl_retry retry = {
        .kind = RL_RETRY_EXPONENTIAL, .base = 20 * RL_MS, .cap = 500 * RL_MS};
    struct prng prng = {5};
    for (unsigned attempt = 0; attempt < 12; attempt++) {
        rl_time span = attempt < 5 ? (20 * RL_MS) << attempt : 500 * RL_MS;
        rl_time low = RL_NEVER, high = 0;
        for (unsigned i = 0; i < 5000; i++) {
            rl_time delay =
                rl_retry_at(&retry, attempt, prng_bits(&prng), now, RL_NEVER) - now;
            CHECK(delay >= 0 && delay <= span, "attempt %u", attempt);
            low = rl_min(low, delay);
            high = rl_max(high, delay);
        }
        cr_assert_lt(low, span / 50, "the whole range is used, attempt %u", attempt);
        cr_assert_gt(high, span - span / 50, "attempt %u", attempt);
    }
}

Test(retry, backoff_grows_to_its_cap_and_no_further)
{
    cr_assert_eq(rl_backoff(10, 1000, 0), 10);
    cr_assert_eq(rl_backoff(10, 1000, 1), 20);
    cr_assert_eq(rl_backoff(10, 1000, 6), 640);
    cr_assert_eq(rl_backoff(10, 1000, 7), 1000);
    cr_assert_eq(rl_backoff(10, 1000, 1000), 1000);
    cr_assert_eq(rl_backoff(10, 1000, UINT32_MAX), 1000);
    cr_assert_eq(rl_backoff(2000, 1000, 0), 1000, "a base above the cap");
    cr_assert_eq(rl_backoff(0, 1000, 1000), 0);
    cr_assert_eq(rl_backoff(1, RL_NEVER, 62), INT64_C(1) << 62);
    cr_assert_eq(rl_backoff(1, RL_NEVER, 63), RL_NEVER, "and no overflow");
    cr_assert_eq(rl_backoff(1, RL_NEVER, 1000), RL_NEVER);
    cr_assert_eq(rl_backoff(RL_NEVER, RL_NEVER, 1000), RL_NEVER);
}

Test(retry, a_random_number_reaches_both_ends)
{
    cr_assert_eq(rl_uniform(0, 0), 0);
    cr_assert_eq(rl_uniform(UINT64_MAX, 0), 0);
    bool seen[4] = {0};
    for (uint64_t random = 0; random < 100; random++)
        seen[rl_uniform(random, 3)] = true;
    for (unsigned i = 0; i < 4; i++)
        cr_assert(seen[i], "%u", i);
    cr_assert_eq(rl_uniform(INT64_MAX, INT64_MAX), INT64_MAX);
    cr_assert_eq(rl_uniform(UINT64_MAX, INT64_MAX), INT64_MAX);
    cr_assert_eq(rl_uniform(UINT64_C(1) << 63, INT64_MAX), 0);
}

struct asked {
    unsigned attempt;
    uint64_t random;
    rl_time answer;
};

static rl_time custom(unsigned attempt, uint64_t random, void *arg)
{
    struct asked *asked = arg;
    asked->attempt = attempt;
    asked->random = random;
    return asked->answer;
}

Test(retry, custom_returns_the_callers_delay)
{
    struct asked asked = {.answer = 33};
    struct rl_retry retry = {.kind = RL_RETRY_CUSTOM, .custom = custom, .arg = &asked};
    cr_assert_eq(rl_retry_at(&retry, 1000, 42, now, RL_NEVER), now + 33);
    cr_assert_eq(asked.attempt, 1000);
    cr_assert_eq(asked.random, 42);
    asked.answer = 0;
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, RL_NEVER), now);
    asked.answer = -1;
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, RL_NEVER), RL_NEVER, "given up");
    asked.answer = INT64_MIN;
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, RL_NEVER), RL_NEVER);
    asked.answer = INT64_MAX;
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, RL_NEVER), RL_NEVER, "no overflow");
}

Test(retry, a_last_attempt_begins_when_the_wait_ends)
{
    struct rl_retry retry = {.kind = RL_RETRY_FIXED, .base = 10};
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, now + 11), now + 10);
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, now + 10), now + 10);
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, now + 9), now + 9);
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, now + 1), now + 1);
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, now), RL_NEVER, "that was the last one");
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, now - 1), RL_NEVER);
    retry.base = 0;
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, now + 1), now);
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, now), RL_NEVER);
    retry.kind = RL_RETRY_NONE;
    cr_assert_eq(rl_retry_at(&retry, 0, 0, now, now + 1), RL_NEVER, "if there is one");
}
