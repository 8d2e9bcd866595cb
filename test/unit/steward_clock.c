/* Clocks that are set: whose it was, and what becomes of a node whose it was. */
#include "steward_desk.h"

/* A node's vote tells its time. */
static bool vote(struct clerk *clerk, unsigned node)
{
    rl_time now = clerk->stores->now;
    return rl_steward_time(&clerk->steward, node, now, now, now,
                           now + clerk->stores->store[node].off);
}

static rl_nodes vote_all(struct clerk *clerk)
{
    rl_nodes good = 0;
    for (unsigned i = 0; i < clerk->stores->n; i++)
        if (vote(clerk, i))
            good |= rl_bit(i);
    return good;
}

/* All clocks are known. */
static void open_timed(struct stores *stores, struct clerk *clerk, unsigned n)
{
    stores_init_founded(stores, n);
    clerk_init_greeted(clerk, stores);
    clerk_run(clerk, RL_SECOND);
    cr_assert_eq(vote_all(clerk), rl_all(n));
    stores->now += RL_SECOND;
    cr_assert_eq(vote_all(clerk), rl_all(n));
}

static void set_clock(struct stores *stores, unsigned i)
{
    stores->store[i].off += 100 * RL_SECOND;
    stores->store[i].forgot_at = stores->now; /* its keys may have ended */
}

Test(steward_clock, that_is_set_costs_the_vote_at_once)
{
    struct stores stores;
    struct clerk clerk;
    open_timed(&stores, &clerk, 3);
    set_clock(&stores, 1);
    cr_assert_not(vote(&clerk, 1));
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_CLOCK);
    cr_assert_eq(clerk_sound(&clerk), 5);
    cr_assert_not(vote(&clerk, 1), "it is known anew, but that gives no vote back");
    cr_assert_eq(clerk_sound(&clerk), 5);
}

Test(steward_clock, that_was_set_is_a_new_life_after_a_pause)
{
    struct stores stores;
    struct clerk clerk;
    open_timed(&stores, &clerk, 3);
    set_clock(&stores, 1);
    vote(&clerk, 1);
    cr_assert_eq(clerk_ask(&clerk), 7, "is it theirs, or ours?");
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_not(clerk.errand[i].order.write);
        clerk_do(&clerk, i);
        clerk_hear(&clerk, i);
    }
    clerk_run(&clerk, RL_CLOCK_PAUSE - 1);
    cr_assert_eq(clerk.writes, 0);
    cr_assert_eq(stores_sound(&stores), 7);
    stores.now++;
    cr_assert_eq(clerk_ask(&clerk) & 2, 2);
    clerk_do(&clerk, 1);
    struct rl_marker seated = stores_marker(&stores, 1);
    cr_assert_not(seated.sound);
    cr_assert_eq(rl_marker_self(&seated).generation, 2);
    cr_assert_eq(seated.seat, 1);
    clerk_hear(&clerk, 1);
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_BARRED);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 7);
    cr_assert_eq(clerk_sound(&clerk), 7);
}

Test(steward_clock, of_a_node_in_quarantine_begins_that_anew)
{
    struct stores stores;
    struct clerk clerk;
    open_timed(&stores, &clerk, 3);
    stores_forget(&stores, 2);
    clerk_greet_again(&clerk, 2);
    rl_time quarantine = rl_steward_quarantine(&clerk.steward);
    clerk_run(&clerk, quarantine / 2);
    set_clock(&stores, 2);
    clerk_run(&clerk, RL_SECOND); /* it is looked at, and that is noticed */
    rl_time left = rl_steward_left(&clerk.steward, 2, stores.now);
    cr_assert_gt(left, quarantine - RL_SECOND - 1);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_BARRED);
    clerk_run(&clerk, left - 1);
    cr_assert_not(stores_is_sound(&stores, 2));
    clerk_run(&clerk, RL_SECOND);
    cr_assert(stores_is_sound(&stores, 2));
}

/* The answer that says "sound" tells of the clock, too. */
Test(steward_clock, that_is_set_just_before_the_lift_costs_the_vote_again)
{
    struct stores stores;
    struct clerk clerk;
    open_timed(&stores, &clerk, 3);
    stores_forget(&stores, 2);
    clerk_greet_again(&clerk, 2);
    clerk_work(&clerk);
    clerk_run(&clerk, rl_steward_left(&clerk.steward, 2, stores.now) - 1);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_BARRED);
    stores.store[2].off += 100 * RL_SECOND;
    stores.now++;
    clerk_work(&clerk);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_CLOCK);
    clerk_run(&clerk, RL_SECOND);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_BARRED);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 7);
}

/* Its registration is not complete: there is nothing to begin anew, and nothing is lost. */
Test(steward_clock, of_a_node_that_is_not_registered_changes_nothing)
{
    struct stores stores;
    struct clerk clerk;
    open_timed(&stores, &clerk, 3);
    stores_forget(&stores, 2);
    clerk_greet_again(&clerk, 2);
    clerk_ask(&clerk);
    clerk_do(&clerk, 2);
    clerk_hear(&clerk, 2);
    set_clock(&stores, 2);
    cr_assert_not(vote(&clerk, 2));
    cr_assert_eq(rl_steward_left(&clerk.steward, 2, stores.now), RL_NEVER);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 7);
}

/* If all seem to be set at once, it was ours: and that is good enough for what follows. */
Test(steward_clock, of_a_majority_at_once_is_ours)
{
    for (unsigned n = 3; n <= 7; n++)
        for (unsigned off = 1; off <= n; off++) {
            struct stores stores;
            struct clerk clerk;
            open_timed(&stores, &clerk, n);
            for (unsigned i = 0; i < off; i++)
                set_clock(&stores, i);
            vote(&clerk, 0);
            clerk_run(&clerk, 2 * RL_CLOCK_PAUSE); /* the others are looked at */
            bool is_ours = off > n / 2;
            for (unsigned i = 0; i < n; i++) {
                struct rl_marker marker = stores_marker(&stores, i);
                bool seated = rl_marker_self(&marker).generation == 2;
                CHECK((i < off && !is_ours) == seated, "%u of %u: %u", off, n, i);
            }
            CHECK(!is_ours || clerk_sound(&clerk) == rl_all(n), "%u of %u", off, n);
            CHECK(!is_ours || clerk.writes == 0, "%u of %u", off, n);
        }
}

/* The answers come one by one, and orders are asked for after each. */
Test(steward_clock, of_all_nodes_one_after_the_other_is_ours)
{
    for (unsigned n = 2; n <= 7; n++) {
        struct stores stores;
        struct clerk clerk;
        open_timed(&stores, &clerk, n);
        for (unsigned i = 0; i < n; i++)
            set_clock(&stores, i);
        for (unsigned i = 0; i < n; i++) {
            stores.now += RL_MS;
            cr_assert_not(vote(&clerk, i));
            clerk_ask(&clerk);
        }
        clerk_run(&clerk, 10 * RL_SECOND);
        cr_assert_eq(clerk_sound(&clerk), rl_all(n), "n %u", n);
        cr_assert_eq(clerk.writes, 0, "n %u", n);
        set_clock(&stores, 0);
        cr_assert_not(vote(&clerk, 0));
        cr_assert_eq(clerk_sound(&clerk), rl_all(n) & ~rl_bit(0), "now it is theirs");
    }
}

/* A node's order is refused, so that it stays as it is: long ago is not at once. */
static void find_two(rl_time apart, bool expect_ours)
{
    struct stores stores;
    struct clerk clerk;
    open_timed(&stores, &clerk, 3);
    set_clock(&stores, 0);
    vote(&clerk, 0);
    rl_time second = stores.now + apart;
    while (stores.now < second) {
        rl_nodes out = clerk_ask(&clerk);
        for (; out; out &= out - 1)
            clerk_refuse(&clerk, rl_first(out));
        stores.now = rl_min(second, rl_steward_next(&clerk.steward));
    }
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_CLOCK);
    set_clock(&stores, 1);
    vote(&clerk, 1);
    clerk_run(&clerk, RL_CLOCK_PAUSE + 2 * RL_STEWARD_REST);
    cr_assert_eq(clerk_sound(&clerk), expect_ours ? 7 : 4);
}

Test(steward_clock, of_a_majority_one_by_one_is_theirs)
{
    find_two(RL_CLOCK_RECENT - 1, true);
    find_two(RL_CLOCK_RECENT, false);
    find_two(10 * RL_CLOCK_RECENT, false);
}

/* Half of the drift that is allowed for the longest lock, and what is rounded. */
Test(steward_clock, may_be_off_by_half_the_drift_of_the_longest_lock)
{
    rl_time slack = DESK_TTL * RL_MS / 100 / 2; /* 50 ms of 10 s */
    for (int way = -1; way <= 1; way += 2) {
        struct stores stores;
        struct clerk clerk;
        open_timed(&stores, &clerk, 3);
        stores.store[0].off = way * slack;
        cr_assert(vote(&clerk, 0));
        open_timed(&stores, &clerk, 3);
        stores.store[0].off = way * (slack + slack / 10);
        cr_assert_not(vote(&clerk, 0));
    }
}

/* A half of the drift is the rate's, and never less than clocks may have anyway. */
static rl_time unnoticed(uint32_t drift_ppm, int64_t ppm)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init(&clerk, &stores);
    clerk.steward.terms.drift_ppm = drift_ppm;
    clerk_greet_all(&clerk);
    rl_time begin = stores.now;
    for (unsigned i = 0; i < 100000; i++) {
        stores.now += RL_SECOND;
        stores.store[0].off = (stores.now - begin) / 1000000 * ppm;
        if (!vote(&clerk, 0))
            return stores.now - begin;
    }
    return 0;
}

Test(steward_clock, may_drift_by_as_much_as_was_agreed)
{
    cr_assert_eq(unnoticed(10000, 9900), 0);
    cr_assert_gt(unnoticed(10000, 11000), 0);
    cr_assert_eq(unnoticed(0, RL_CLOCK_PPM - 10), 0);
    cr_assert_gt(unnoticed(0, 2 * RL_CLOCK_PPM), 0);
    cr_assert_eq(unnoticed(500000, 400000), 0);
}

Test(steward_clock, of_nodes_of_no_deployment_does_not_matter)
{
    struct stores stores;
    struct clerk clerk;
    stores_init(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    cr_assert_eq(vote_all(&clerk), 7);
    set_clock(&stores, 0);
    cr_assert_eq(vote_all(&clerk), 7);
}

/* --- a node that is being barred when our own clock is found out --- */

/* The order that bars node 1 is under way; then node 0 seems off, too: two of three. */
static void open_barring(struct stores *stores, struct clerk *clerk)
{
    open_timed(stores, clerk, 3);
    set_clock(stores, 1);
    vote(clerk, 1);
    clerk_run(clerk, RL_CLOCK_PAUSE - 1);
    stores->now++;
    cr_assert_eq(clerk_ask(clerk) & 2, 2);
    cr_assert(clerk->errand[1].order.write);
    cr_assert_not(clerk->errand[1].order.wanted.sound);
    set_clock(stores, 0);
    vote(clerk, 0);
    clerk_ask(clerk);
    cr_assert_not(clerk->steward.ward[1].off, "it was our clock");
    cr_assert_eq(clerk_sound(clerk), 5);
}

Test(steward_clock, that_is_ours_gives_no_vote_to_a_node_that_is_being_barred)
{
    struct stores stores;
    struct clerk clerk;
    open_barring(&stores, &clerk);
    cr_assert_not(clerk_may_have_a_grant(&clerk, 1), "before the order has run");
    clerk_do(&clerk, 1);
    cr_assert_not(clerk_may_have_a_grant(&clerk, 1), "after it has run");
    clerk_hear(&clerk, 1);
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_BARRED);
    cr_assert_not(clerk_may_have_a_grant(&clerk, 1), "after its answer");
}

Test(steward_clock, that_is_ours_gives_the_vote_back_if_the_order_was_refused)
{
    struct stores stores;
    struct clerk clerk;
    open_barring(&stores, &clerk);
    clerk_refuse(&clerk, 1);
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_SOUND);
    cr_assert(clerk_may_have_a_grant(&clerk, 1));
}
