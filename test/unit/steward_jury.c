/* Who vouches for a node in quarantine, and what makes it begin anew. */
#include "steward_desk.h"

/* The last nodes forget, all others are sound; the clerk has seated them, and no more. */
static void open_seated(struct stores *stores, struct clerk *clerk, unsigned n,
                        unsigned forgotten)
{
    stores_init_founded(stores, n);
    clerk_init_greeted(clerk, stores);
    clerk_run(clerk, RL_SECOND);
    for (unsigned i = n - forgotten; i < n; i++) {
        stores_forget(stores, i);
        clerk_greet_again(clerk, i);
    }
    clerk_ask(clerk);
    for (unsigned i = n - forgotten; i < n; i++) {
        clerk_do(clerk, i);
        clerk_hear(clerk, i);
        cr_assert_eq(clerk_standing(clerk, i), RL_STANDING_BARRED);
    }
}

static void carry(struct clerk *clerk, unsigned node)
{
    clerk_do(clerk, node);
    clerk_hear(clerk, node);
}

static bool is_registered(const struct clerk *clerk, unsigned node)
{
    return rl_steward_left(&clerk->steward, node, clerk->stores->now) != RL_NEVER;
}

/* --- at one moment --- */

/* One forgets as soon as it knew; by the time that the other knows, no majority does. */
Test(steward_jury, must_know_at_one_moment)
{
    struct stores stores;
    struct clerk clerk;
    open_seated(&stores, &clerk, 3, 1);
    cr_assert_eq(clerk_ask(&clerk), 3);
    carry(&clerk, 0);
    stores_forget(&stores, 0);
    stores.now += RL_MS;
    carry(&clerk, 1);
    cr_assert_not(is_registered(&clerk, 2), "only one of them knows it");
    cr_assert_eq(clerk_ask(&clerk), 3, "both are asked whether they still know");
    carry(&clerk, 1);
    cr_assert_not(is_registered(&clerk, 2));
    carry(&clerk, 0);
    clerk_run(&clerk, 600 * RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 2, "nobody was left to vouch for the other");
}

/* The same, but what was forgotten is seen only at each possible moment afterwards. */
Test(steward_jury, does_not_count_who_forgot_before_the_second_look)
{
    for (unsigned forgetful = 0; forgetful < 3; forgetful++)
        for (unsigned first = 0; first < 3; first++) {
            struct stores stores;
            struct clerk clerk;
            open_seated(&stores, &clerk, 5, 2);
            cr_assert_eq(clerk_ask(&clerk) & 7, 7);
            for (unsigned i = 0; i < 3; i++)
                carry(&clerk, i);
            stores_forget(&stores, forgetful);
            stores.now += RL_MS;
            cr_assert_eq(clerk_ask(&clerk) & 7, 7);
            for (unsigned i = 0; i < 3; i++)
                carry(&clerk, (first + i) % 3);
            cr_assert_not(is_registered(&clerk, 3), "%u %u", forgetful, first);
            cr_assert_not(is_registered(&clerk, 4), "%u %u", forgetful, first);
            clerk_run(&clerk, 600 * RL_SECOND);
            cr_assert_eq(stores_sound(&stores), 7 & ~rl_bit(forgetful));
        }
}

/* It knew, forgot, and knows again: what it knew in between, nobody can tell. */
Test(steward_jury, does_not_count_who_lives_anew)
{
    struct stores stores;
    struct clerk clerk;
    open_seated(&stores, &clerk, 3, 1);
    clerk_ask(&clerk);
    carry(&clerk, 0);
    carry(&clerk, 1);
    struct rl_marker marker = stores_marker(&stores, 0);
    marker.roster.seat[0] = (struct rl_incarnation){2, 99};
    marker.nonce++;
    stores_put(&stores, 0, &marker); /* another client has done all of it */
    stores.now += RL_MS;
    clerk_ask(&clerk);
    carry(&clerk, 0);
    carry(&clerk, 1);
    cr_assert_not(is_registered(&clerk, 2));
    clerk_work(&clerk); /* and now they know it at one moment */
    cr_assert(is_registered(&clerk, 2));
}

/* One that forgets later has no part in it any more: what it knew had spread. */
Test(steward_jury, may_forget_after_the_second_look)
{
    struct stores stores;
    struct clerk clerk;
    open_seated(&stores, &clerk, 5, 1);
    clerk_work(&clerk);
    cr_assert(is_registered(&clerk, 4));
    stores_forget(&stores, 0);
    stores_forget(&stores, 1);
    clerk_greet_again(&clerk, 0);
    clerk_gone(&clerk, 1);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward));
    cr_assert(stores_is_sound(&stores, 4));
}

/* It was asked before the others knew, and has forgotten since: that it knew is no news. */
Test(steward_jury, is_not_told_by_what_was_said_before)
{
    struct stores stores;
    struct clerk clerk, late;
    open_seated(&stores, &clerk, 3, 1);
    clerk_work(&clerk);
    clerk_init(&late, &stores);
    clerk_greet(&late, 0);
    clerk_greet(&late, 1);
    stores.now += RL_STEWARD_REST;
    cr_assert_eq(clerk_ask(&late), 1);
    clerk_do(&late, 0);
    stores_forget(&stores, 0);
    stores.now += RL_MS;
    clerk_greet(&late, 2);
    stores.now += RL_MS;
    clerk_hear(&late, 0);
    clerk_ask(&late);
    carry(&late, 1);
    cr_assert_not(is_registered(&late, 2));
    clerk_work(&late);
    cr_assert_not(is_registered(&late, 2));
}

/* An answer of before, that comes when the second look is due, must not take its place. */
Test(steward_jury, is_looked_at_though_another_look_is_under_way)
{
    struct stores stores;
    struct clerk clerk, late;
    open_seated(&stores, &clerk, 3, 1);
    clerk_work(&clerk);
    clerk_init(&late, &stores);
    clerk_greet(&late, 0);
    clerk_greet(&late, 1);
    stores.now += RL_STEWARD_REST;
    cr_assert_eq(clerk_ask(&late), 1, "it was alone at first");
    stores.now += RL_MS;
    clerk_greet(&late, 2);
    stores.now += RL_MS;
    carry(&late, 0);
    clerk_work(&late);
    cr_assert(is_registered(&late, 2));
}

/* --- what begins anew --- */

static void open_halfway(struct stores *stores, struct clerk *clerk)
{
    open_seated(stores, clerk, 3, 1);
    clerk_work(clerk);
    clerk_run(clerk, rl_steward_quarantine(&clerk->steward) / 2);
    cr_assert(is_registered(clerk, 2));
}

/* From now on the whole quarantine passes. */
static void expect_whole_quarantine(struct clerk *clerk)
{
    rl_time quarantine = rl_steward_quarantine(&clerk->steward);
    clerk_run(clerk, quarantine - 1);
    cr_assert_not(stores_is_sound(clerk->stores, 2), "too early");
    clerk_run(clerk, RL_SECOND);
    cr_assert(stores_is_sound(clerk->stores, 2));
}

Test(steward_jury, begins_anew_over_another_connection)
{
    struct stores stores;
    struct clerk clerk;
    open_halfway(&stores, &clerk);
    clerk_greet_again(&clerk, 2);
    expect_whole_quarantine(&clerk);
}

Test(steward_jury, begins_anew_with_another_life)
{
    struct stores stores;
    struct clerk clerk;
    open_halfway(&stores, &clerk);
    struct rl_marker marker = stores_marker(&stores, 2);
    marker.roster.seat[2] = (struct rl_incarnation){5, 5};
    stores_put(&stores, 2, &marker);
    stores.store[2].forgot_at = stores.now;
    expect_whole_quarantine(&clerk);
}

/* It forgets, and the clerk sees so only when he looks. */
Test(steward_jury, begins_anew_where_all_was_forgotten)
{
    struct stores stores;
    struct clerk clerk;
    open_halfway(&stores, &clerk);
    stores_forget(&stores, 2);
    expect_whole_quarantine(&clerk);
}

Test(steward_jury, goes_on_though_the_others_come_and_go)
{
    struct stores stores;
    struct clerk clerk;
    open_halfway(&stores, &clerk);
    clerk_gone(&clerk, 0);
    clerk_gone(&clerk, 1);
    rl_time left = rl_steward_left(&clerk.steward, 2, stores.now);
    clerk_run(&clerk, left - 1);
    cr_assert_not(stores_is_sound(&stores, 2));
    clerk_run(&clerk, 1);
    cr_assert(stores_is_sound(&stores, 2));
}

/* A node that is gone does not vouch, whatever it knew. */
Test(steward_jury, has_to_be_there)
{
    struct stores stores;
    struct clerk clerk;
    open_seated(&stores, &clerk, 3, 1);
    clerk_ask(&clerk);
    carry(&clerk, 0);
    carry(&clerk, 1);
    clerk_ask(&clerk);
    carry(&clerk, 0);
    clerk_gone(&clerk, 1);
    clerk_run(&clerk, 60 * RL_SECOND);
    cr_assert_not(is_registered(&clerk, 2));
    clerk_greet(&clerk, 1);
    expect_whole_quarantine(&clerk);
}

/* --- all of them --- */

enum other { SOUND, BARRED, UNMARKED, FOREIGN, REPLACED, ELSEWHERE, UNSEEN, OTHERS };

static void make_other(struct stores *stores, unsigned i, enum other other)
{
    struct rl_marker marker = stores_marker(stores, i);
    switch (other) {
    case BARRED: marker.sound = false; break;
    case ELSEWHERE: marker.roster.deployment++; break;
    case FOREIGN: stores_restart(stores, i, true); break;
    default: break;
    }
    stores_put(stores, i, &marker);
    if (other == UNMARKED)
        stores_forget(stores, i);
}

/* Whether the last node, in quarantine, is lifted among such others. */
static bool is_lifted(unsigned n, const enum other *other)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, n);
    struct rl_marker last = stores_marker(&stores, n - 1);
    last.sound = false;
    for (unsigned i = 0; i < n - 1; i++) {
        make_other(&stores, i, other[i]);
        last.roster.seat[i].generation += other[i] == REPLACED;
    }
    stores_put(&stores, n - 1, &last);
    clerk_init(&clerk, &stores);
    for (unsigned i = 0; i < n; i++)
        if (i == n - 1 || other[i] != UNSEEN)
            clerk_greet(&clerk, i);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) - 1);
    CHECK(!stores_is_sound(&stores, n - 1), "too early");
    clerk_run(&clerk, RL_SECOND);
    return stores_is_sound(&stores, n - 1);
}

/* In every company: a majority of the whole that is sound, besides itself. */
Test(steward_jury, is_a_majority_of_others_that_are_sound)
{
    unsigned lifted = 0;
    for (unsigned n = 2; n <= 5; n++) {
        unsigned ways = 1;
        for (unsigned i = 0; i < n - 1; i++)
            ways *= OTHERS;
        for (unsigned way = 0; way < ways; way++) {
            enum other other[STORES_MAX];
            unsigned sound = 0;
            for (unsigned i = 0, rest = way; i < n - 1; i++, rest /= OTHERS) {
                other[i] = (enum other)(rest % OTHERS);
                sound += other[i] == SOUND;
            }
            bool expected = sound > n / 2;
            CHECK(is_lifted(n, other) == expected, "n %u, way %u", n, way);
            lifted += expected;
        }
    }
    cr_assert_gt(lifted, 20);
}
