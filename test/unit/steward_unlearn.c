/* What only one client has heard of, and no node knows any more. */
#include "steward_desk.h"

/*
 * Node 4 is seated as what only the clerk hears of, and empty again; then others swap the
 * seats of nodes 3 and 4, not knowing of that. An incarnation of the same number and a
 * smaller id is all that node 3 has, and may have its vote all the same.
 */
Test(steward_unlearn, what_no_node_knows)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    stores_forget(&stores, 0);
    clerk_greet_again(&clerk, 0);
    clerk_run(&clerk, RL_SECOND);
    cr_assert_neq(rl_steward_left(&clerk.steward, 0, stores.now), RL_NEVER);
    stores_forget(&stores, 4);
    clerk_greet_again(&clerk, 4);
    cr_assert_eq(clerk_ask(&clerk), 16);
    clerk_do(&clerk, 4);
    clerk_hear(&clerk, 4);
    struct rl_incarnation lost = clerk.steward.roster.seat[4];
    cr_assert_eq(lost.generation, 2);
    stores_forget(&stores, 4);

    for (unsigned i = 1; i < 5; i++) {
        struct rl_marker marker = stores_marker(&stores, i == 4 ? 3 : i);
        marker.seat = (uint8_t)(i < 3 ? i : 7 - i);
        marker.process = stores.store[i].process;
        marker.roster.seat[3].generation = 2;
        marker.roster.seat[4] = (struct rl_incarnation){2, lost.id - 1};
        stores_put(&stores, i, &marker);
    }
    struct store known = stores.store[1];
    stores_forget(&stores, 1);
    for (unsigned i = 1; i < 5; i++)
        clerk_greet_again(&clerk, i);
    clerk_greet_again(&clerk, 4);
    cr_assert_eq(clerk_sound(&clerk), 20, "node 1 may know, and has not said so");
    stores.store[1] = known;
    clerk_greet_again(&clerk, 1);
    cr_assert_eq(clerk_sound(&clerk), 30);
    rl_time quarantine = rl_steward_quarantine(&clerk.steward);
    clerk_run(&clerk, quarantine - 1);
    cr_assert_eq(stores_sound(&stores), 30, "who knows no more has watched no more");
    clerk_run(&clerk, RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 31);
}

/* Five founded stores and an empty one, and a clerk who has watched for a while. */
static void open_with_a_spare(struct stores *stores, struct clerk *clerk)
{
    stores_init(stores, 6);
    stores->n = 5;
    stores_found(stores, 7);
    clerk_init_greeted(clerk, stores);
    clerk_run(clerk, RL_SECOND);
}

/* The address of node 4 leads to the empty store, which is seated; only we hear of that. */
static void seat_the_spare(struct clerk *clerk)
{
    clerk->at[4] = 5;
    clerk_greet_again(clerk, 4);
    cr_assert(clerk_ask(clerk) & 16);
    clerk_do(clerk, 4);
    clerk_hear(clerk, 4);
    cr_assert_eq(clerk->steward.roster.seat[4].generation, 2);
}

/* Then addresses 3 and 4 lead to the old servers of seats 4 and 3. */
static void swap_addresses(struct clerk *clerk)
{
    clerk_gone(clerk, 3);
    clerk_gone(clerk, 4);
    clerk->at[3] = 4;
    clerk->at[4] = 3;
    clerk_greet(clerk, 3);
    clerk_greet(clerk, 4);
    clerk_greet_again(clerk, 3);
}

Test(steward_unlearn, what_was_seated_elsewhere)
{
    struct stores stores;
    struct clerk clerk;
    open_with_a_spare(&stores, &clerk);
    seat_the_spare(&clerk);
    swap_addresses(&clerk);
    cr_assert_eq(clerk.steward.roster.seat[4].generation, 1);
    cr_assert_eq(clerk_sound(&clerk), 31);
}

/* A majority knows it already, by orders of ours that are not answered yet. */
Test(steward_unlearn, nothing_that_is_being_told)
{
    struct stores stores;
    struct clerk clerk;
    open_with_a_spare(&stores, &clerk);
    seat_the_spare(&clerk);
    cr_assert_eq(clerk_ask(&clerk), 15);
    for (unsigned i = 0; i < 3; i++)
        clerk_do(&clerk, i);
    swap_addresses(&clerk);
    cr_assert_eq(clerk.steward.roster.seat[4].generation, 2);
    cr_assert_eq(clerk_standing(&clerk, 3), RL_STANDING_REPLACED);
    cr_assert_eq(clerk_sound(&clerk), 23);
}

/* Whoever returns to older data at the address that had the seat gets it back. */
Test(steward_unlearn, nothing_of_other_seats)
{
    struct stores stores;
    struct clerk clerk;
    open_with_a_spare(&stores, &clerk);
    struct rl_marker older = stores_marker(&stores, 2);
    stores_forget(&stores, 2);
    clerk_greet_again(&clerk, 2);
    cr_assert_eq(clerk_ask(&clerk), 4);
    clerk_do(&clerk, 2);
    clerk_hear(&clerk, 2);
    seat_the_spare(&clerk);
    for (unsigned i = 0; i < 4; i++)
        if (clerk.errand[i].out)
            clerk_refuse(&clerk, i);
    stores_put(&stores, 2, &older);
    stores_restart(&stores, 2, true);
    clerk_greet_again(&clerk, 2);
    swap_addresses(&clerk);
    cr_assert_eq(clerk.steward.roster.seat[2].generation, 2);
    cr_assert_eq(clerk.steward.roster.seat[4].generation, 1);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + 2 * RL_SECOND);
    cr_assert_eq(clerk_sound(&clerk), 31);
}
