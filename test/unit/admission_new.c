/* A deployment of nodes that have none; and two operators who begin at once. */
#include <string.h>

#include "chance.h"
#include "steward_desk.h"

static void found(struct clerk *clerk, enum rl_admission how, uint64_t random)
{
    unsigned node = clerk->stores->n;
    cr_assert_eq(
        rl_steward_admit(&clerk->steward, how, &node, DESK_TTL, random, clerk->stores->now),
        RL_REFUSAL_NONE);
}

static void open_new(struct stores *stores, struct clerk *clerk, unsigned n,
                     enum rl_admission how)
{
    stores_init(stores, n);
    stores->at_once = how == RL_ADMIT_AT_ONCE;
    for (unsigned i = 0; i < n; i++)
        stores->store[i].forgot_at = stores->now; /* for all that is known */
    clerk_init_greeted(clerk, stores);
    found(clerk, how, 1);
}

static enum rl_progress progress(const struct clerk *clerk)
{
    return rl_steward_progress(&clerk->steward);
}

Test(admission_new, votes_at_once_where_that_was_asked_for)
{
    for (unsigned n = 1; n <= STORES_MAX; n++) {
        struct stores stores;
        struct clerk clerk;
        open_new(&stores, &clerk, n, RL_ADMIT_AT_ONCE);
        cr_assert_eq(progress(&clerk), RL_PROGRESS_OPEN);
        clerk_work(&clerk);
        cr_assert_eq(progress(&clerk), RL_PROGRESS_DONE);
        cr_assert_eq(clerk.writes, 2 * n, "all are founded, before one votes");
        for (unsigned i = 0; i < n; i++) {
            struct rl_marker marker = stores_marker(&stores, i);
            cr_assert(marker.sound);
            cr_assert_eq(marker.seat, i);
            cr_assert_eq(marker.roster.n, n);
            cr_assert_eq(marker.roster.max_ttl_ms, DESK_TTL);
            cr_assert_eq(rl_marker_self(&marker).generation, 1);
            for (unsigned j = 0; j < i; j++)
                cr_assert_neq(rl_marker_self(&marker).id, marker.roster.seat[j].id);
        }
    }
}

/* Any number, also one or two: where all are new, all have to vouch for each other. */
Test(admission_new, votes_after_a_quarantine)
{
    for (unsigned n = 1; n <= STORES_MAX; n++) {
        struct stores stores;
        struct clerk clerk;
        open_new(&stores, &clerk, n, RL_ADMIT_NEW);
        rl_time quarantine = rl_steward_quarantine(&clerk.steward);
        clerk_run(&clerk, quarantine - 1);
        cr_assert_eq(stores_sound(&stores), 0, "n %u", n);
        cr_assert_eq(progress(&clerk), RL_PROGRESS_OPEN);
        clerk_run(&clerk, RL_SECOND);
        cr_assert_eq(stores_sound(&stores), rl_all(n), "n %u", n);
        cr_assert_eq(progress(&clerk), RL_PROGRESS_DONE);
    }
}

/* A client that has no fenced locks yet gives no orders: until it admits. */
Test(admission_new, makes_the_steward_work)
{
    struct stores stores;
    struct clerk clerk;
    stores_init(&stores, 3);
    stores.at_once = true;
    clerk_init(&clerk, &stores);
    clerk.steward.active = false;
    clerk_greet_all(&clerk);
    found(&clerk, RL_ADMIT_AT_ONCE, 1);
    clerk_work(&clerk);
    cr_assert_eq(progress(&clerk), RL_PROGRESS_DONE);
}

Test(admission_new, makes_another_deployment_each_time)
{
    struct stores stores;
    struct clerk first, second;
    open_new(&stores, &first, 3, RL_ADMIT_NEW);
    clerk_init_greeted(&second, &stores);
    found(&second, RL_ADMIT_NEW, 2);
    cr_assert_neq(first.steward.roster.deployment, second.steward.roster.deployment);
    cr_assert_neq(first.steward.roster.deployment, 0);
    found(&second, RL_ADMIT_NEW, 0);
    cr_assert_neq(second.steward.roster.deployment, 0);
}

/* An operator who gives up halfway: another one goes on by waiting. */
Test(admission_new, is_ended_by_another_who_waits)
{
    for (unsigned carried = 2; carried <= 3; carried++) {
        struct stores stores;
        struct clerk clerk, other;
        unsigned node = 3;
        open_new(&stores, &clerk, 3, RL_ADMIT_NEW);
        clerk_ask(&clerk);
        for (unsigned i = 0; i < carried; i++)
            clerk_do(&clerk, i);
        clerk_init_greeted(&other, &stores);
        cr_assert_eq(
            rl_steward_admit(&other.steward, RL_ADMIT_WAIT, &node, 0, 3, stores.now),
            RL_REFUSAL_NONE);
        clerk_run(&other, rl_steward_quarantine(&other.steward) + RL_SECOND);
        cr_assert_eq(progress(&other), RL_PROGRESS_DONE, "%u", carried);
    }
}

/* --- what may come in between --- */

/* A client that wanted locks before looks at its nodes: that is no answer to the founding.
 */
Test(admission_new, is_not_confused_by_a_look_that_was_under_way)
{
    struct stores stores;
    struct clerk clerk;
    stores_init(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    stores.now += RL_SECOND;
    cr_assert_eq(clerk_ask(&clerk), 7);
    found(&clerk, RL_ADMIT_NEW, 1);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(progress(&clerk), RL_PROGRESS_DONE);
}

Test(admission_new, goes_on_over_another_connection)
{
    for (unsigned way = 0; way < 8; way++) {
        struct stores stores;
        struct clerk clerk;
        open_new(&stores, &clerk, 3, RL_ADMIT_NEW);
        clerk_ask(&clerk);
        for (unsigned i = 0; i < 3; i++)
            if (way & rl_bit(i))
                clerk_do(&clerk, i); /* done, and never heard of */
        for (unsigned i = 0; i < 3; i++)
            clerk_greet_again(&clerk, i);
        clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
        cr_assert_eq(progress(&clerk), RL_PROGRESS_DONE, "%u", way);
    }
}

Test(admission_new, rests_after_a_refusal_and_goes_on)
{
    struct stores stores;
    struct clerk clerk;
    open_new(&stores, &clerk, 3, RL_ADMIT_AT_ONCE);
    clerk_ask(&clerk);
    for (unsigned i = 0; i < 3; i++)
        clerk_refuse(&clerk, i);
    cr_assert_eq(clerk_ask(&clerk), 0);
    clerk_run(&clerk, RL_STEWARD_REST);
    cr_assert_eq(progress(&clerk), RL_PROGRESS_DONE);
}

/* Another admitted a node whose connection had ended: his marker is not written over. */
Test(admission_new, does_not_write_over_anothers_marker)
{
    struct stores stores;
    struct clerk clerk, other;
    open_new(&stores, &clerk, 3, RL_ADMIT_AT_ONCE);
    for (unsigned i = 0; i < 3; i++)
        clerk_gone(&clerk, i);
    clerk_init_greeted(&other, &stores);
    found(&other, RL_ADMIT_AT_ONCE, 2);
    clerk_work(&other);
    cr_assert_eq(progress(&other), RL_PROGRESS_DONE);
    struct rl_marker marker[3];
    for (unsigned i = 0; i < 3; i++) {
        marker[i] = stores_marker(&stores, i);
        clerk_greet(&clerk, i);
        clerk_work(&clerk);
    }
    cr_assert_eq(progress(&clerk), RL_PROGRESS_FAILED);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stores_marker(&stores, i).nonce, marker[i].nonce, "node %u", i);
}

/* The same, of what is to be undone: another has written there since. */
Test(admission_new, does_not_erase_anothers_marker)
{
    struct stores stores;
    struct clerk clerk, other;
    open_new(&stores, &clerk, 3, RL_ADMIT_AT_ONCE);
    clerk_ask(&clerk);
    clerk_gone(&clerk, 1);
    clerk_init_greeted(&other, &stores);
    found(&other, RL_ADMIT_AT_ONCE, 2);
    clerk_ask(&other);
    for (unsigned i = 0; i < 3; i++)
        clerk_do(&other, i); /* the clerk comes too late everywhere */
    clerk_do(&clerk, 0);
    clerk_hear(&clerk, 0);
    clerk_greet(&clerk, 1);
    clerk_work(&clerk);
    clerk_work(&other);
    cr_assert_eq(progress(&other), RL_PROGRESS_DONE);
    cr_assert_eq(progress(&clerk), RL_PROGRESS_FAILED);
    cr_assert_eq(stores_sound(&stores), 7);
}

/* That it failed is told when nothing is left of it, and not before. */
Test(admission_new, has_failed_when_all_is_undone)
{
    struct stores stores;
    struct clerk clerk, other;
    open_new(&stores, &clerk, 3, RL_ADMIT_AT_ONCE);
    clerk_init_greeted(&other, &stores);
    found(&other, RL_ADMIT_AT_ONCE, 2);
    clerk_ask(&other);
    clerk_do(&other, 2);
    clerk_ask(&clerk);
    for (unsigned i = 0; i < 3; i++) {
        clerk_do(&clerk, i);
        clerk_hear(&clerk, i);
    }
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(progress(&clerk), RL_PROGRESS_OPEN);
        clerk_ask(&clerk);
        clerk_do(&clerk, i);
        clerk_hear(&clerk, i);
    }
    cr_assert_eq(progress(&clerk), RL_PROGRESS_FAILED);
    cr_assert_eq(stores_sound(&stores), 0, "nobody votes before all are founded");
}

/* --- two at once --- */

static unsigned markers_of(const struct stores *stores, uint64_t deployment)
{
    unsigned count = 0;
    for (unsigned i = 0; i < stores->n; i++)
        count += stores->store[i].len > 0 &&
                 stores_marker(stores, i).roster.deployment == deployment;
    return count;
}

/* Each node is reached first by the one or by the other. */
Test(admission_new, of_two_at_once_leaves_one_deployment_or_none)
{
    unsigned won = 0, none = 0;
    for (unsigned n = 1; n <= 5; n++)
        for (unsigned way = 0; way < rl_bit(n); way++) {
            struct stores stores;
            struct clerk a, b;
            struct clerk *both[] = {&a, &b};
            open_new(&stores, &a, n, RL_ADMIT_AT_ONCE);
            clerk_init_greeted(&b, &stores);
            found(&b, RL_ADMIT_AT_ONCE, 2);
            uint64_t of_a = a.steward.roster.deployment;
            uint64_t of_b = b.steward.roster.deployment;
            clerk_ask(&a);
            clerk_ask(&b);
            for (unsigned i = 0; i < n; i++) {
                clerk_do(way & rl_bit(i) ? &a : &b, i);
                clerk_do(way & rl_bit(i) ? &b : &a, i);
            }
            clerks_run(both, 2, 10 * RL_SECOND);
            bool a_won = way == rl_all(n), b_won = way == 0;
            CHECK(markers_of(&stores, of_a) == (a_won ? n : 0), "%u %x", n, way);
            CHECK(markers_of(&stores, of_b) == (b_won ? n : 0), "%u %x", n, way);
            CHECK(progress(&a) == (a_won ? RL_PROGRESS_DONE : RL_PROGRESS_FAILED), "%u %x",
                  n, way);
            CHECK(progress(&b) == (b_won ? RL_PROGRESS_DONE : RL_PROGRESS_FAILED), "%u %x",
                  n, way);
            won += a_won || b_won;
            none += !a_won && !b_won;
        }
    cr_assert(won > 0 && none > 0);
}

/* In any order, with connections that end: both hear how it ended, and never both won. */
Test(admission_new, of_two_in_any_order_ends)
{
    unsigned ended[3] = {0};
    for (unsigned seed = 1; seed <= 2000; seed++) {
        struct chance chance = {seed};
        struct stores stores;
        struct clerk clerk[2];
        struct clerk *both[] = {&clerk[0], &clerk[1]};
        open_new(&stores, &clerk[0], 1 + chance_below(&chance, 5), RL_ADMIT_AT_ONCE);
        clerk_init_greeted(&clerk[1], &stores);
        found(&clerk[1], RL_ADMIT_AT_ONCE, 2);
        for (unsigned step = 0; step < 60; step++) {
            struct clerk *who = both[chance_below(&chance, 2)];
            unsigned i = chance_below(&chance, stores.n);
            clerk_ask(who);
            if (!who->errand[i].out)
                continue;
            if (chance_below(&chance, 10) == 0)
                clerk_greet_again(who, i);
            else if (!who->errand[i].done)
                clerk_do(who, i);
            else
                clerk_hear(who, i);
            stores.now += chance_below(&chance, 1000);
        }
        clerks_run(both, 2, 10 * RL_SECOND);
        unsigned done = 0;
        for (unsigned i = 0; i < 2; i++) {
            CHECK(progress(both[i]) != RL_PROGRESS_OPEN, "seed %u: %u", seed, i);
            done += progress(both[i]) == RL_PROGRESS_DONE;
        }
        CHECK(done <= 1, "seed %u: both won", seed);
        CHECK(stores_sound(&stores) == (done ? rl_all(stores.n) : 0), "seed %u", seed);
        ended[done]++;
    }
    cr_assert(ended[0] > 0 && ended[1] > 0, "%u %u", ended[0], ended[1]);
}

static void open_outrun(struct stores *stores, struct clerk *clerk)
{
    struct clerk other;
    open_new(stores, clerk, 3, RL_ADMIT_AT_ONCE);
    clerk_init_greeted(&other, stores);
    found(&other, RL_ADMIT_AT_ONCE, 2);
    clerk_work(&other);
    clerk_run(clerk, 10 * RL_SECOND);
    cr_assert_eq(progress(clerk), RL_PROGRESS_FAILED);
    cr_assert_eq(clerk_sound(clerk), 0);
    cr_assert_eq(stores_sound(stores), 7);
}

Test(admission_new, that_was_outrun_may_use_what_the_other_founded)
{
    struct stores stores;
    struct clerk clerk;
    open_outrun(&stores, &clerk);
    rl_admission_end(&clerk.steward);
    clerk_run(&clerk, RL_SECOND);
    cr_assert_eq(clerk_sound(&clerk), 7);
    struct rl_marker marker = stores_marker(&stores, 1);
    marker.roster.seat[0].generation++;
    stores_put(&stores, 1, &marker);
    clerk_greet_again(&clerk, 1);
    clerk_gone(&clerk, 1);
    clerk_greet_again(&clerk, 2);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_REPLACED, "it is bound for good");
}

Test(admission_new, that_was_outrun_can_be_tried_again)
{
    for (int told = 0; told < 2; told++) {
        struct stores stores;
        struct clerk clerk;
        open_outrun(&stores, &clerk);
        if (told)
            rl_admission_end(&clerk.steward);
        for (unsigned i = 0; i < 3; i++) {
            stores_forget(&stores, i);
            clerk_greet_again(&clerk, i);
        }
        found(&clerk, RL_ADMIT_AT_ONCE, 3);
        cr_assert_eq(progress(&clerk), RL_PROGRESS_OPEN);
        clerk_work(&clerk);
        cr_assert_eq(progress(&clerk), RL_PROGRESS_DONE);
    }
}
