/* The merge of two rosters, and which incarnation of an index is the later one. */
#include <string.h>

#include "core/marker.h"
#include "lease_fixture.h"

Test(roster, tells_processes_apart_by_both_ids)
{
    struct rl_process a = {"", ""}, b;
    memset(a.run_id, 'a', RL_RUN_ID);
    memset(a.replid, 'a', RL_RUN_ID);
    b = a;
    cr_assert(rl_process_equal(&a, &b));
    for (unsigned i = 0; i < RL_RUN_ID; i++) {
        b = a;
        b.run_id[i] = 'b';
        cr_assert_not(rl_process_equal(&a, &b));
        b = a;
        b.replid[i] = 'b';
        cr_assert_not(rl_process_equal(&a, &b));
    }
}

#define SMALL 4 /* generations and ids that are tried */

static struct rl_incarnation nth(unsigned i)
{
    return (struct rl_incarnation){i / SMALL, i % SMALL};
}

/* A strict total order: by the generation, then by the id. */
Test(roster, orders_the_incarnations_of_an_index)
{
    for (unsigned a = 0; a < SMALL * SMALL; a++)
        for (unsigned b = 0; b < SMALL * SMALL; b++) {
            cr_assert_eq(rl_incarnation_is_newer(nth(a), nth(b)), a > b, "%u %u", a, b);
            cr_assert_eq(rl_incarnation_equal(nth(a), nth(b)), a == b, "%u %u", a, b);
        }
    cr_assert(rl_incarnation_is_newer((struct rl_incarnation){UINT32_MAX, 0},
                                      (struct rl_incarnation){1, UINT64_MAX}));
}

#define LIVES 6 /* of each of two indexes */

static struct rl_roster small_roster(unsigned number)
{
    static const struct rl_incarnation lives[LIVES] = {{0, 0}, {1, 1},  {1, UINT64_MAX},
                                                       {2, 1}, {2, 77}, {3, 0}};
    return (struct rl_roster){
        .deployment = 7,
        .max_ttl_ms = 1000,
        .n = 2,
        .member = {lives[number % LIVES], lives[number / LIVES]},
    };
}

static struct rl_roster merge(struct rl_roster a, struct rl_roster b)
{
    rl_roster_merge(&a, &b);
    return a;
}

static bool same_roster(struct rl_roster a, struct rl_roster b)
{
    return a.deployment == b.deployment && a.max_ttl_ms == b.max_ttl_ms && a.n == b.n &&
           rl_incarnation_equal(a.member[0], b.member[0]) &&
           rl_incarnation_equal(a.member[1], b.member[1]);
}

/* So the result does not depend on the order or the number of merges. */
Test(roster, merges_rosters_in_any_order_to_the_same)
{
    unsigned all = LIVES * LIVES;
    for (unsigned i = 0; i < all; i++) {
        struct rl_roster a = small_roster(i);
        CHECK(same_roster(merge(a, a), a), "%u", i);
        for (unsigned j = 0; j < all; j++) {
            struct rl_roster b = small_roster(j), ab = merge(a, b);
            CHECK(same_roster(ab, merge(b, a)), "%u %u", i, j);
            for (unsigned k = 0; k < all; k++) {
                struct rl_roster c = small_roster(k);
                CHECK(same_roster(merge(ab, c), merge(a, merge(b, c))), "%u %u %u", i, j,
                      k);
            }
        }
    }
}

Test(roster, merges_each_index_separately)
{
    for (unsigned i = 0; i < LIVES * LIVES; i++)
        for (unsigned j = 0; j < LIVES * LIVES; j++) {
            struct rl_roster a = small_roster(i), b = small_roster(j), ab = merge(a, b);
            for (unsigned index = 0; index < 2; index++) {
                bool later = rl_incarnation_is_newer(b.member[index], a.member[index]);
                CHECK(rl_incarnation_equal(ab.member[index],
                                           later ? b.member[index] : a.member[index]),
                      "%u %u", i, j);
            }
        }
}

Test(roster, merges_all_indexes)
{
    struct rl_roster a = {.deployment = 7, .n = RL_NODES_MAX}, b = a;
    for (unsigned i = 0; i < RL_NODES_MAX; i++)
        (i % 2 ? &a : &b)->member[i].generation = i + 1;
    rl_roster_merge(&a, &b);
    for (unsigned i = 0; i < RL_NODES_MAX; i++)
        cr_assert_eq(a.member[i].generation, i + 1);
}
