/* Why the canary of redlock monitor is no sign that a lock can be taken. */
#include <criterion/criterion.h>

#include "cli/monitor/canary.h"

#define EVERY_MS  1000
#define LATEST_MS 18000 /* three of these, and 15 s */

/* A canary whose last cycle has ended with this code, so long ago. */
static struct canary ended(redlock_code code, char *why, int64_t ago_ms)
{
    int64_t at_us = cli_clock_us(CLOCK_MONOTONIC) - ago_ms * 1000;
    return (struct canary){.every_ms = EVERY_MS,
                           .code = code,
                           .why = why,
                           .is_denied = code == REDLOCK_DENIED,
                           .begun_us = at_us,
                           .ended_us = at_us};
}

static void expect_failure(struct canary canary, const char *expected)
{
    const char *found = canary_failure(&canary);
    cr_assert_str_eq(found ? found : "none", expected);
}

#define OVERDUE "no cycle of the canary has ended in time"

Test(canary, fails_with_the_reason_of_the_last_cycle)
{
    expect_failure(ended(REDLOCK_OK, NULL, 0), "none");
    expect_failure(ended(REDLOCK_NO_QUORUM, (char[]){"3 of 5"}, 0), "3 of 5");
    expect_failure(ended(REDLOCK_TAKEN, (char[]){"another"}, 0), "none");
    expect_failure(ended(REDLOCK_DENIED, (char[]){"a right"}, 0), "none");
}

Test(canary, is_overdue_if_no_cycle_ends)
{
    expect_failure(ended(REDLOCK_OK, NULL, LATEST_MS - 5000), "none");
    expect_failure(ended(REDLOCK_OK, NULL, LATEST_MS + 1), OVERDUE);
    expect_failure(ended(REDLOCK_NO_QUORUM, (char[]){"3 of 5"}, LATEST_MS + 1), OVERDUE);
}

Test(canary, is_overdue_if_one_cycle_runs_for_too_long)
{
    struct canary canary = ended(REDLOCK_OK, NULL, LATEST_MS + 1);
    canary.workers.busy = 1;
    expect_failure(canary, OVERDUE);
    canary.begun_us += 5000000; /* it was idle before for longer */
    expect_failure(canary, "none");
}

Test(canary, rests_longer_if_its_user_may_not_write)
{
    expect_failure(ended(REDLOCK_DENIED, (char[]){"a right"}, 3 * LATEST_MS), "none");
    expect_failure(ended(REDLOCK_DENIED, (char[]){"a right"}, 60 * EVERY_MS + 1), OVERDUE);
}
