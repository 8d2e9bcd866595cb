/* Where a majority has lost its memory: the rest vouches for itself, if an operator says
 * so.
 */
#include "steward_desk.h"

static void wait_for_all(struct clerk *clerk)
{
    unsigned node = clerk->stores->n;
    cr_assert_eq(
        rl_steward_admit(&clerk->steward, RL_ADMIT_WAIT, &node, 0, 1, clerk->stores->now),
        RL_REFUSAL_NONE);
}

static void open_lost(struct stores *stores, struct clerk *clerk, unsigned n, rl_nodes lost,
                      bool restarts)
{
    stores_init_founded(stores, n);
    clerk_init_greeted(clerk, stores);
    clerk_run(clerk, RL_SECOND);
    for (rl_nodes rest = lost; rest; rest &= rest - 1) {
        unsigned i = rl_first(rest);
        if (restarts)
            stores_restart(stores, i, true);
        else
            stores_forget(stores, i);
        clerk_greet_again(clerk, i);
    }
}

/* Whichever were lost, and however: without an operator a majority never comes back. */
Test(admission_recover, from_the_loss_of_any_nodes)
{
    for (unsigned n = 1; n <= 5; n++)
        for (rl_nodes lost = 1; lost <= rl_all(n); lost++)
            for (int restarts = 0; restarts < 2; restarts++) {
                struct stores stores;
                struct clerk clerk;
                open_lost(&stores, &clerk, n, lost, restarts);
                rl_time quarantine = rl_steward_quarantine(&clerk.steward);
                bool is_majority = n - rl_count(lost) < rl_majority(n);
                clerk_run(&clerk, quarantine + RL_SECOND);
                rl_nodes expected = rl_all(n) & ~(is_majority ? lost : 0);
                CHECK(clerk_sound(&clerk) == expected, "%u: %x", n, lost);
                if (!is_majority)
                    continue;
                wait_for_all(&clerk);
                clerk_run(&clerk, quarantine - 1);
                CHECK((clerk_sound(&clerk) & lost) == 0, "%u: %x: too early", n, lost);
                clerk_run(&clerk, RL_SECOND);
                CHECK(clerk_sound(&clerk) == rl_all(n), "%u: %x", n, lost);
                CHECK(rl_steward_progress(&clerk.steward) == RL_PROGRESS_DONE, "%u: %x", n,
                      lost);
            }
}

/* An operator's client saw none of them before: a restart leaves it the markers at least.
 */
Test(admission_recover, with_a_client_that_has_just_started)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    for (unsigned i = 0; i < 5; i++)
        stores_restart(&stores, i, true);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, 60 * RL_SECOND);
    cr_assert_eq(clerk.writes, 0);
    wait_for_all(&clerk);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(clerk_sound(&clerk), 31);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(stores_marker(&stores, i).seat, i, "each its own");
}

/* A minority is empty, and its seats are free. */
Test(admission_recover, seats_those_that_nobody_saw_before)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    stores_forget(&stores, 1);
    stores_forget(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    wait_for_all(&clerk);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(clerk_sound(&clerk), 31);
    rl_nodes seats = 0;
    for (unsigned i = 0; i < 5; i++)
        seats |= rl_bit(stores_marker(&stores, i).seat);
    cr_assert_eq(seats, 31, "each seat once");
}

/* An operator vouches for nodes that are there, not for one that may be somebody else. */
Test(admission_recover, seats_nobody_while_a_node_is_missing)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    stores_forget(&stores, 1);
    clerk_init_greeted(&clerk, &stores);
    wait_for_all(&clerk);
    clerk_gone(&clerk, 4);
    clerk_run(&clerk, 60 * RL_SECOND);
    cr_assert_eq(clerk.writes, 0);
    clerk_greet(&clerk, 4);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(clerk_sound(&clerk), 31);
}

/* Half of those that vouch for each other cannot do without the other half. */
Test(admission_recover, lifts_nobody_while_a_node_is_missing)
{
    for (unsigned missing = 0; missing < 5; missing++) {
        struct stores stores;
        struct clerk clerk;
        open_lost(&stores, &clerk, 5, 7, false);
        clerk_run(&clerk, RL_SECOND);
        wait_for_all(&clerk);
        clerk_gone(&clerk, missing);
        clerk_run(&clerk, 10 * rl_steward_quarantine(&clerk.steward));
        cr_assert_eq(stores_sound(&stores), 24, "without node %u", missing);
        clerk_greet(&clerk, missing);
        clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
        cr_assert_eq(stores_sound(&stores), 31);
    }
}

/* One forgets again meanwhile: it begins anew for that one alone, but it is known to all.
 */
Test(admission_recover, begins_anew_for_one_that_forgets_meanwhile)
{
    struct stores stores;
    struct clerk clerk;
    open_lost(&stores, &clerk, 3, 7, false);
    wait_for_all(&clerk);
    rl_time quarantine = rl_steward_quarantine(&clerk.steward);
    clerk_run(&clerk, quarantine / 2);
    stores_forget(&stores, 1);
    clerk_run(&clerk, quarantine / 2 + RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 5);
    clerk_run(&clerk, quarantine / 2);
    cr_assert_eq(stores_sound(&stores), 7);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned seat = 0; seat < 3; seat++)
            cr_assert_eq(stores_marker(&stores, i).roster.seat[seat].generation,
                         seat == 1 ? 3 : 2);
}

/* Two operators, and a client that is none: they do not hinder each other. */
Test(admission_recover, by_two_at_once)
{
    struct stores stores;
    struct clerk clerk, second, other;
    struct clerk *all[] = {&clerk, &second, &other};
    stores_init_founded(&stores, 5);
    for (unsigned j = 0; j < 3; j++)
        clerk_init_greeted(all[j], &stores);
    for (unsigned i = 0; i < 4; i++) {
        stores_forget(&stores, i);
        for (unsigned j = 0; j < 3; j++)
            clerk_greet_again(all[j], i);
    }
    wait_for_all(&clerk);
    wait_for_all(&second);
    clerks_run(all, 3, 2 * rl_steward_quarantine(&clerk.steward));
    cr_assert_eq(stores_sound(&stores), 31);
    for (unsigned j = 0; j < 3; j++)
        cr_assert_eq(clerk_sound(all[j]), 31);
}

/* The operator's word is for this once: it does not hold for what is lost later. */
Test(admission_recover, is_over_when_all_vote)
{
    struct stores stores;
    struct clerk clerk;
    open_lost(&stores, &clerk, 3, 3, false);
    wait_for_all(&clerk);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(rl_steward_progress(&clerk.steward), RL_PROGRESS_DONE);
    rl_admission_end(&clerk.steward);
    for (unsigned i = 0; i < 2; i++) {
        stores_forget(&stores, i);
        clerk_greet_again(&clerk, i);
    }
    clerk_run(&clerk, 600 * RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 4);
}
