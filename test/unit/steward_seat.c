/* Seated, registered, watched, lifted: how a node that forgot gets its vote back, and who
 * may give it a seat.
 */
#include "steward_desk.h"

/* What a quarantine is: the longest lock with its drift, or what fences need; and a tenth.
 */
Test(steward_seat, quarantine_is_as_long_as_the_longest_lock)
{
    static const struct {
        int64_t max_ttl_ms;
        rl_time least, most;
    } rows[] = {
        {1, 12100 * RL_MS, 12100 * RL_MS}, /* 2 * 5 s + 1 s, and a tenth */
        {10000, 12100 * RL_MS, 12100 * RL_MS},
        {10880, 12100 * RL_MS, 12100 * RL_MS},
        {11000, 12210 * RL_MS, 12230 * RL_MS},
        {60000, 66660 * RL_MS, 66670 * RL_MS},
        {86400000, 95990400 * RL_MS, 95990410 * RL_MS},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rl_steward steward;
        rl_steward_init(&steward, &(struct rl_steward_terms){.n = 3, .drift_ppm = 10000});
        steward.roster.max_ttl_ms = rows[i].max_ttl_ms;
        rl_time quarantine = rl_steward_quarantine(&steward);
        cr_assert(quarantine >= rows[i].least && quarantine <= rows[i].most, "%jd: %jd",
                  (intmax_t)rows[i].max_ttl_ms, (intmax_t)quarantine);
    }
}

/* Node 2 forgets, and the clerk hears of it. */
static void open_forgotten(struct stores *stores, struct clerk *clerk, unsigned n)
{
    stores_init_founded(stores, n);
    clerk_init_greeted(clerk, stores);
    clerk_run(clerk, RL_SECOND);
    stores_forget(stores, 2);
    clerk_greet_again(clerk, 2);
}

Test(steward_seat, step_by_step)
{
    struct stores stores;
    struct clerk clerk;
    open_forgotten(&stores, &clerk, 3);
    struct rl_incarnation was = stores_marker(&stores, 0).roster.seat[2];
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_UNMARKED);

    cr_assert_eq(clerk_ask(&clerk), 4, "it is seated");
    clerk_do(&clerk, 2);
    struct rl_marker seated = stores_marker(&stores, 2);
    cr_assert_not(seated.sound);
    cr_assert_eq(seated.seat, 2);
    cr_assert_eq(rl_marker_self(&seated).generation, was.generation + 1);
    cr_assert_neq(rl_marker_self(&seated).id, was.id);
    clerk_hear(&clerk, 2);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_BARRED);
    cr_assert_eq(rl_steward_left(&clerk.steward, 2, stores.now), RL_NEVER);

    struct rl_marker before[2] = {stores_marker(&stores, 0), stores_marker(&stores, 1)};
    cr_assert_eq(clerk_ask(&clerk), 3, "it is registered");
    stores.now += RL_MS;
    for (unsigned i = 0; i < 2; i++) {
        clerk_do(&clerk, i);
        struct rl_marker after = stores_marker(&stores, i);
        cr_assert(after.sound);
        cr_assert_eq(after.seat, i);
        cr_assert_neq(after.nonce, before[i].nonce, "a vote by the old one is refused");
        cr_assert(rl_same_incarnation(after.roster.seat[2], rl_marker_self(&seated)));
        clerk_hear(&clerk, i);
        cr_assert_eq(rl_steward_left(&clerk.steward, 2, stores.now), RL_NEVER);
    }
    rl_time registered = stores.now;
    cr_assert_eq(clerk_ask(&clerk), 3, "both are looked at once more");
    for (unsigned i = 0; i < 2; i++) {
        stores.now += RL_MS;
        cr_assert_not(clerk.errand[i].order.write);
        clerk_do(&clerk, i);
        clerk_hear(&clerk, i);
    }
    rl_time quarantine = rl_steward_quarantine(&clerk.steward);
    cr_assert_eq(rl_steward_left(&clerk.steward, 2, stores.now),
                 quarantine - (stores.now - registered));

    clerk_run(&clerk, registered + quarantine - 1 - stores.now);
    cr_assert_eq(stores_sound(&stores), 3, "not a microsecond too early");
    cr_assert_eq(rl_steward_left(&clerk.steward, 2, stores.now), 1);
    stores.now++;
    cr_assert_eq(clerk_ask(&clerk), 4, "it is lifted");
    clerk_do(&clerk, 2);
    struct rl_marker lifted = stores_marker(&stores, 2);
    cr_assert(lifted.sound);
    cr_assert_neq(lifted.nonce, seated.nonce);
    cr_assert(rl_same_incarnation(rl_marker_self(&lifted), rl_marker_self(&seated)));
    clerk_hear(&clerk, 2);
    cr_assert_eq(clerk_sound(&clerk), 7);
    clerk_work(&clerk);
    cr_assert_gt(rl_steward_next(&clerk.steward), stores.now);
    cr_assert_eq(rl_steward_left(&clerk.steward, 2, stores.now), RL_NEVER);
}

/* Two clerks of one store, who do each step at once: it ends as with one. */
Test(steward_seat, by_two_at_once)
{
    struct stores stores;
    struct clerk first, second;
    struct clerk *both[] = {&first, &second};
    stores_init_founded(&stores, 5);
    clerk_init_greeted(&first, &stores);
    clerk_init_greeted(&second, &stores);
    clerks_run(both, 2, RL_SECOND);
    stores_forget(&stores, 3);
    rl_time forgot = stores.now;
    clerk_greet_again(&first, 3);
    clerk_greet_again(&second, 3);
    cr_assert_eq(clerk_ask(&first), 8);
    cr_assert_eq(clerk_ask(&second), 8);
    clerk_do(&second, 3);
    clerk_do(&first, 3); /* it finds another's marker, and leaves it there */
    struct rl_marker seated = stores_marker(&stores, 3);
    clerk_hear(&first, 3);
    clerk_hear(&second, 3);
    cr_assert_eq(clerk_standing(&first, 3), RL_STANDING_BARRED);
    clerks_run(both, 2, rl_steward_quarantine(&first.steward) + RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 31);
    struct rl_marker lifted = stores_marker(&stores, 3);
    cr_assert(rl_same_incarnation(rl_marker_self(&lifted), rl_marker_self(&seated)));
    cr_assert_geq(stores.now - forgot, rl_steward_quarantine(&first.steward));
    clerk_greet_again(&first, 3);
    clerk_greet_again(&second, 3);
    cr_assert_eq(clerk_sound(&first), 31);
    cr_assert_eq(clerk_sound(&second), 31);
}

/* A clerk who leaves halfway: any other goes on, and watches for himself. */
Test(steward_seat, is_continued_by_another)
{
    for (unsigned step = 1; step < 8; step++) {
        struct stores stores;
        struct clerk clerk, heir;
        open_forgotten(&stores, &clerk, 3);
        for (unsigned i = 0; i < step; i++) {
            rl_nodes out = clerk_ask(&clerk);
            if (!out) {
                clerk_run(&clerk, 3 * RL_SECOND);
                break;
            }
            clerk_do(&clerk, rl_first(out));
            clerk_hear(&clerk, rl_first(out));
            for (unsigned j = 0; j < 3; j++) /* the others are cut off */
                if (clerk.errand[j].out)
                    clerk_greet_again(&clerk, j);
        }
        clerk_init_greeted(&heir, &stores);
        rl_time quarantine = rl_steward_quarantine(&heir.steward);
        clerk_run(&heir, quarantine - 1);
        cr_assert_eq(stores_sound(&stores), 3, "step %u", step);
        clerk_run(&heir, RL_SECOND);
        cr_assert_eq(stores_sound(&stores), 7, "step %u", step);
    }
}

/* --- who may seat --- */

static void expect_never_seated(struct clerk *clerk, unsigned node)
{
    unsigned writes = clerk->stores->store[clerk->at[node]].writes;
    clerk_run(clerk, 60 * RL_SECOND);
    cr_assert_eq(clerk->stores->store[clerk->at[node]].writes, writes);
    cr_assert_not(clerk_sound(clerk) & rl_bit(node));
}

/* Who connects to an empty server for the first time may have mistaken the address. */
Test(steward_seat, is_not_given_to_an_address_that_never_had_one)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    stores_forget(&stores, 1);
    clerk_init_greeted(&clerk, &stores);
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_UNMARKED);
    expect_never_seated(&clerk, 1);
    stores_restart(&stores, 2, true);
    clerk_init_greeted(&clerk, &stores);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_FOREIGN);
    expect_never_seated(&clerk, 2);
}

/* The last one who had the seat has another life, wherever that is: let it be. */
Test(steward_seat, is_not_given_back_to_one_that_was_replaced)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    for (unsigned i = 0; i < 5;
         i++) { /* an operator replaced node 1 by a server elsewhere */
        struct rl_marker marker = stores_marker(&stores, i);
        marker.roster.seat[1].generation++;
        if (i != 1)
            stores_put(&stores, i, &marker);
        clerk_greet_again(&clerk, i);
    }
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_REPLACED);
    expect_never_seated(&clerk, 1);
    stores_forget(&stores, 1);
    clerk_greet_again(&clerk, 1);
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_UNMARKED);
    expect_never_seated(&clerk, 1);
}

/* Emptied, restarted with or without its data, failed over: each at the same address. */
Test(steward_seat, is_given_back_to_the_address_that_had_it_last)
{
    for (unsigned way = 0; way < 4; way++) {
        struct stores stores;
        struct clerk clerk;
        stores_init_founded(&stores, 5);
        clerk_init_greeted(&clerk, &stores);
        clerk_run(&clerk, RL_SECOND);
        struct rl_incarnation was = clerk.steward.roster.seat[4];
        stores.store[4].forgot_at = stores.now;
        if (way == 0)
            stores_forget(&stores, 4);
        else if (way < 3)
            stores_restart(&stores, 4, way == 1);
        else
            stores.store[4].process.replid[0] ^= 1;
        clerk_greet_again(&clerk, 4);
        cr_assert_eq(clerk_standing(&clerk, 4),
                     way % 2 ? RL_STANDING_FOREIGN : RL_STANDING_UNMARKED);
        clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
        struct rl_marker marker = stores_marker(&stores, 4);
        cr_assert(marker.sound);
        cr_assert_eq(marker.seat, 4);
        cr_assert(rl_later_incarnation(rl_marker_self(&marker), was));
        cr_assert(rl_same_process(&marker.process, &stores.store[4].process));
    }
}

/* Also while it is in quarantine: it had the seat, if not the vote. */
Test(steward_seat, is_given_back_to_one_that_forgets_in_quarantine)
{
    struct stores stores;
    struct clerk clerk;
    open_forgotten(&stores, &clerk, 3);
    for (unsigned generation = 2; generation < 8; generation++) {
        clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) / 2);
        struct rl_marker marker = stores_marker(&stores, 2);
        cr_assert_eq(rl_marker_self(&marker).generation, generation);
        cr_assert_not(marker.sound);
        stores_forget(&stores, 2);
        clerk_greet_again(&clerk, 2);
    }
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 7);
}

/* With a marker of before its quarantine, of which nobody else has heard yet. */
Test(steward_seat, is_given_back_to_one_that_returns_to_older_data)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    struct rl_marker older = stores_marker(&stores, 4);
    stores_forget(&stores, 4);
    clerk_greet_again(&clerk, 4);
    cr_assert_eq(clerk_ask(&clerk), 16);
    clerk_do(&clerk, 4);
    clerk_hear(&clerk, 4);
    stores_put(&stores, 4, &older);
    stores_restart(&stores, 4, true);
    clerk_greet_again(&clerk, 4);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(clerk_sound(&clerk), 31);
}

/* A server that is cut off from here, but not from all: its address is another's now. */
Test(steward_seat, that_another_node_has_is_not_given_twice)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    struct rl_marker marker = stores_marker(&stores, 1);
    marker.seat = 0; /* two addresses were swapped, and one of them lost its data */
    marker.roster.seat[0] = stores_marker(&stores, 0).roster.seat[0];
    stores_put(&stores, 1, &marker);
    stores_forget(&stores, 0);
    clerk_greet_again(&clerk, 1);
    clerk_greet_again(&clerk, 0);
    expect_never_seated(&clerk, 0);
}

Test(steward_seat, of_two_that_forget_at_once_are_both_given_back)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    stores_forget(&stores, 0);
    stores_restart(&stores, 1, true);
    clerk_greet_again(&clerk, 0);
    clerk_greet_again(&clerk, 1);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 31);
}

/* Three of five: nobody can vouch for anybody, until an operator does. */
Test(steward_seat, of_a_majority_is_given_but_no_vote)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    for (unsigned i = 0; i < 3; i++) {
        stores_forget(&stores, i);
        clerk_greet_again(&clerk, i);
    }
    clerk_run(&clerk, 600 * RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 24);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(clerk_standing(&clerk, i), RL_STANDING_BARRED);
}
