/* Who acquires and releases again and again has handles allocated, and nothing else. */
#include <criterion/criterion.h>

#include "scarce.h"
#include "stage.h"

#define CYCLES 1000
#define MANY   64
#define HANDLE 1  /* allocation of a lease */
#define SPARE  64 /* of what grows now and then, and stays */

struct crowd {
    struct stage s;
    redlock_lease_options options;
    unsigned begun, running;
};

static void begin_cycle(struct crowd *crowd);

static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct crowd *crowd = arg;
    cr_assert_eq(result->code, REDLOCK_OK, "%s", redlock_code_name(result->code));
    redlock_lease_free(lease);
    if (crowd->begun < CYCLES)
        begin_cycle(crowd);
    else if (--crowd->running == 0)
        event_base_loopbreak(crowd->s.base);
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    cr_assert_eq(result->code, REDLOCK_OK, "%s", redlock_code_name(result->code));
    cr_assert_eq(redlock_release(lease, on_released, arg), REDLOCK_OK);
}

static void begin_cycle(struct crowd *crowd)
{
    redlock_lease *lease;
    unsigned key = crowd->begun++;
    cr_assert_eq(redlock_acquire(crowd->s.client, &key, sizeof(key), &crowd->options,
                                 on_acquired, crowd, &lease),
                 REDLOCK_OK);
}

/* Runs CYCLES, so many at once; the allocations that they took. */
static unsigned long run(struct crowd *crowd, unsigned lanes)
{
    struct scarce_calls before = scarce_calls();
    crowd->begun = 0;
    crowd->running = lanes;
    for (unsigned i = 0; i < lanes; i++)
        begin_cycle(crowd);
    event_base_dispatch(crowd->s.base);
    struct scarce_calls after = scarce_calls();
    stage_drain(&crowd->s);
    return after.malloc - before.malloc + after.calloc - before.calloc + after.realloc -
           before.realloc;
}

static void expect_handles_only(bool fenced, unsigned lanes)
{
    struct crowd crowd;
    if (fenced)
        stage_open_fenced(&crowd.s, 5, NULL);
    else
        stage_open(&crowd.s, 5);
    crowd.options = fenced ? stage_fenced_options() : stage_lease_options();
    run(&crowd, lanes);
    unsigned long allocations = run(&crowd, lanes);
    cr_assert_leq(allocations, HANDLE * CYCLES + SPARE, "%lu in %d cycles", allocations,
                  CYCLES);
    cr_assert_gt(allocations, 0, "nobody counts");
    stage_close(&crowd.s);
}

Test(allocations, one_lock_after_the_other)
{
    expect_handles_only(false, 1);
}

Test(allocations, many_at_once)
{
    expect_handles_only(false, MANY);
}

Test(allocations, fenced_locks)
{
    expect_handles_only(true, 1);
}
