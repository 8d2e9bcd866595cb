/* A client that acquires and releases repeatedly allocates handles, and nothing else. */
#include <criterion/criterion.h>

#include "alloc_faults.h"
#include "quorum.h"

#define CYCLES 1000
#define MANY   64
#define HANDLE 1  /* allocation of a lease */
#define SPARE  64 /* buffers that grow sometimes, and stay */

struct crowd {
    struct quorum s;
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

/* Runs CYCLES, `lanes` of them at once; returns their allocations. */
static unsigned long run(struct crowd *crowd, unsigned lanes)
{
    struct alloc_faults_calls before = alloc_faults_calls();
    crowd->begun = 0;
    crowd->running = lanes;
    for (unsigned i = 0; i < lanes; i++)
        begin_cycle(crowd);
    event_base_dispatch(crowd->s.base);
    struct alloc_faults_calls after = alloc_faults_calls();
    quorum_drain(&crowd->s);
    return after.malloc - before.malloc + after.calloc - before.calloc + after.realloc -
           before.realloc;
}

static void expect_handles_only(bool fenced, unsigned lanes)
{
    struct crowd crowd;
    if (fenced)
        quorum_open_fenced(&crowd.s, 5, NULL);
    else
        quorum_open(&crowd.s, 5);
    crowd.options = fenced ? quorum_fenced_options() : quorum_lease_options();
    run(&crowd, lanes);
    unsigned long allocations = run(&crowd, lanes);
    cr_assert_leq(allocations, HANDLE * CYCLES + SPARE, "%lu in %d cycles", allocations,
                  CYCLES);
    cr_assert_gt(allocations, 0, "nobody counts");
    quorum_close(&crowd.s);
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
