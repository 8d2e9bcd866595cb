/* A heap, compared with a linear search of a plain array. */
#include "base/heap.h"

#include "lease_fixture.h"
#include "prng.h"

#define MEMBERS 300
#define STEPS   200000
#define TIMES   500

static struct rl_heap heap;
static struct rl_due due[MEMBERS];
static rl_time model[MEMBERS];

static rl_time earliest(void)
{
    rl_time first = RL_NEVER;
    for (unsigned i = 0; i < MEMBERS; i++)
        first = rl_min(first, model[i]);
    return first;
}

/* Each member that is due is in the list once, and nothing else is. */
static void expect_list(rl_time now)
{
    bool seen[MEMBERS] = {false};
    for (const struct rl_due *one = rl_heap_list(&heap, now); one; one = one->next) {
        size_t i = (size_t)(one - due);
        CHECK(!seen[i] && model[i] <= now, "%zu is in the list", i);
        seen[i] = true;
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        CHECK(seen[i] == (model[i] <= now), "%u is not in the list", i);
}

static void step(struct prng *prng)
{
    unsigned i = prng_below(prng, MEMBERS);
    if (prng_below(prng, 3) == 0) {
        rl_heap_drop(&heap, &due[i]);
        model[i] = RL_NEVER;
    } else {
        model[i] = prng_below(prng, TIMES);
        rl_heap_set(&heap, &due[i], model[i]);
    }
    CHECK(rl_heap_when(&heap, &due[i]) == model[i], "when %u is due", i);
    CHECK(rl_heap_first(&heap) == earliest(), "the earliest");
}

Test(heap, equals_a_plain_array)
{
    struct prng prng = {3};
    cr_assert_eq(rl_heap_first(&heap), RL_NEVER);
    cr_assert_null(rl_heap_list(&heap, RL_NEVER));
    for (unsigned i = 0; i < MEMBERS; i++) {
        model[i] = RL_NEVER;
        cr_assert(rl_heap_reserve(&heap, i + 1));
    }
    for (unsigned run = 0; run < STEPS; run++) {
        step(&prng);
        if (run % 64 == 0)
            expect_list(prng_below(&prng, TIMES));
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        CHECK(rl_heap_when(&heap, &due[i]) == model[i], "when %u is due", i);
        rl_heap_drop(&heap, &due[i]);
        rl_heap_drop(&heap, &due[i]);
    }
    cr_assert_eq(rl_heap_first(&heap), RL_NEVER);
    rl_heap_free(&heap);
}
