/* What an operator may ask for, how far it is, and a server in another's stead. */
#include "steward_desk.h"

static enum rl_refusal admit(struct clerk *clerk, enum rl_admission how, unsigned *node)
{
    return rl_steward_admit(&clerk->steward, how, node, DESK_TTL, 12345,
                            clerk->stores->now);
}

/* It must be refused for this node, and nothing has changed. */
static void expect_refusal(struct clerk *clerk, enum rl_admission how, unsigned newcomer,
                           enum rl_refusal expected, unsigned expected_node)
{
    struct rl_steward before = clerk->steward;
    unsigned node = newcomer;
    enum rl_refusal refusal = admit(clerk, how, &node);
    cr_assert_eq(refusal, expected, "%d: %d, not %d", (int)how, (int)refusal,
                 (int)expected);
    cr_assert_eq(node, expected_node, "%u, not %u", node, expected_node);
    cr_assert_eq(clerk->steward.admission, before.admission);
    cr_assert_eq(clerk->steward.active, before.active);
    cr_assert_eq(clerk->steward.founding, before.founding);
    cr_assert_eq(clerk->steward.roster.deployment, before.roster.deployment);
}

static const enum rl_admission ways[] = {RL_ADMIT_NEW, RL_ADMIT_AT_ONCE, RL_ADMIT_WAIT,
                                         RL_ADMIT_REPLACE};

/* --- refusals --- */

Test(admission, needs_every_node)
{
    for (unsigned missing = 0; missing < 3; missing++)
        for (unsigned i = 0; i < 4; i++) {
            struct stores stores;
            struct clerk clerk;
            stores_init(&stores, 3);
            clerk_init(&clerk, &stores);
            clerk.steward.active = false;
            clerk_greet_all(&clerk);
            clerk_gone(&clerk, missing);
            expect_refusal(&clerk, ways[i], 0, RL_REFUSAL_UNSEEN, missing);
        }
}

Test(admission, of_new_nodes_finds_none_of_them_used)
{
    for (unsigned used = 0; used < 3; used++) {
        struct stores stores;
        struct clerk clerk;
        stores_init_founded(&stores, 3);
        for (unsigned i = 0; i < 3; i++)
            if (i != used)
                stores_forget(&stores, i);
        clerk_init_greeted(&clerk, &stores);
        expect_refusal(&clerk, RL_ADMIT_NEW, 3, RL_REFUSAL_USED, used);
        expect_refusal(&clerk, RL_ADMIT_AT_ONCE, 3, RL_REFUSAL_USED, used);
    }
}

/* What is no marker of ours is no reason to write one in its place. */
Test(admission, of_new_nodes_finds_no_garbage)
{
    struct stores stores;
    struct clerk clerk;
    stores_init(&stores, 3);
    stores.store[1].text[0] = 'x';
    stores.store[1].len = 1;
    clerk_init_greeted(&clerk, &stores);
    expect_refusal(&clerk, RL_ADMIT_NEW, 3, RL_REFUSAL_USED, 1);
}

Test(admission, of_those_that_wait_needs_a_deployment)
{
    struct stores stores;
    struct clerk clerk;
    stores_init(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    expect_refusal(&clerk, RL_ADMIT_WAIT, 3, RL_REFUSAL_UNMARKED, 0);
    stores_found(&stores, 7);
    stores_forget(&stores, 0);
    stores_forget(&stores, 1);
    clerk_init_greeted(&clerk, &stores);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_ALONE);
    expect_refusal(&clerk, RL_ADMIT_REPLACE, 1, RL_REFUSAL_UNMARKED, 1);
    struct rl_marker other = stores_marker(&stores, 2);
    other.roster.deployment++;
    stores_put(&stores, 1, &other);
    clerk_greet_again(&clerk, 1);
    expect_refusal(&clerk, RL_ADMIT_WAIT, 3, RL_REFUSAL_UNMARKED, 0);
}

/* Where one marker is left it tells what they were: nobody has to delete it by hand. */
Test(admission, of_those_that_wait_goes_by_the_last_marker)
{
    struct stores stores;
    struct clerk clerk;
    unsigned node = 3;
    stores_init_founded(&stores, 3);
    stores_forget(&stores, 1);
    stores_forget(&stores, 2);
    clerk_init_greeted(&clerk, &stores);
    cr_assert_eq(admit(&clerk, RL_ADMIT_WAIT, &node), RL_REFUSAL_NONE);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) / 2);
    cr_assert_eq(rl_steward_progress(&clerk.steward), RL_PROGRESS_OPEN);
    cr_assert_eq(stores_sound(&stores), 1, "it takes a quarantine");
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward));
    cr_assert_eq(rl_steward_progress(&clerk.steward), RL_PROGRESS_DONE);
    cr_assert_eq(stores_sound(&stores), 7);
    struct rl_marker last = stores_marker(&stores, 0);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stores_marker(&stores, i).roster.deployment, last.roster.deployment);
    cr_assert_eq(rl_marker_self(&last).generation, 1, "its seat was nobody else's");
}

Test(admission, of_those_that_wait_finds_no_stranger)
{
    for (unsigned i = 0; i < 3; i++) {
        struct stores stores;
        struct clerk clerk;
        stores_init_founded(&stores, 3);
        struct rl_marker marker = stores_marker(&stores, i);
        marker.roster.deployment++;
        stores_put(&stores, i, &marker);
        clerk_init_greeted(&clerk, &stores);
        expect_refusal(&clerk, RL_ADMIT_WAIT, 3, RL_REFUSAL_MEMBERS, i);
        marker.roster.deployment--;
        stores_put(&stores, i, &marker);
        struct rl_marker other = stores_marker(&stores, (i + 1) % 3);
        other.roster.seat[i].generation++;
        stores_put(&stores, (i + 1) % 3, &other);
        clerk_init_greeted(&clerk, &stores);
        cr_assert_eq(clerk_standing(&clerk, i), RL_STANDING_REPLACED);
        expect_refusal(&clerk, RL_ADMIT_WAIT, 3, RL_REFUSAL_MEMBERS, i);
    }
}

Test(admission, of_a_newcomer_finds_it_empty_and_all_others_sound)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    expect_refusal(&clerk, RL_ADMIT_REPLACE, 1, RL_REFUSAL_USED, 1);
    stores_forget(&stores, 1);
    struct rl_marker marker = stores_marker(&stores, 2);
    marker.sound = false;
    stores_put(&stores, 2, &marker);
    clerk_init_greeted(&clerk, &stores);
    expect_refusal(&clerk, RL_ADMIT_REPLACE, 1, RL_REFUSAL_UNSOUND, 2);
    marker.sound = true;
    stores_put(&stores, 2, &marker);
    clerk_init_greeted(&clerk, &stores);
    unsigned node = 1;
    cr_assert_eq(admit(&clerk, RL_ADMIT_REPLACE, &node), RL_REFUSAL_NONE);
    cr_assert_eq(node, 1);
    cr_assert(clerk.steward.active);
}

/* --- a server in another's stead --- */

Test(admission, of_a_newcomer_gives_it_the_seat_that_nobody_has)
{
    for (unsigned seat = 0; seat < 5; seat++)
        for (unsigned at = 0; at < 5; at++) { /* the clients may list them in any order */
            struct stores stores;
            struct clerk clerk;
            stores_init_founded(&stores, 5);
            stores_restart(&stores, seat, false);
            clerk_init(&clerk, &stores);
            clerk.at[at] = seat;
            clerk.at[seat] = at;
            clerk_greet_all(&clerk);
            unsigned node = at;
            cr_assert_eq(admit(&clerk, RL_ADMIT_REPLACE, &node), RL_REFUSAL_NONE);
            cr_assert_eq(rl_steward_progress(&clerk.steward), RL_PROGRESS_OPEN);
            rl_time quarantine = rl_steward_quarantine(&clerk.steward);
            clerk_run(&clerk, quarantine - 1);
            cr_assert_eq(rl_steward_progress(&clerk.steward), RL_PROGRESS_OPEN);
            clerk_run(&clerk, RL_SECOND);
            cr_assert_eq(rl_steward_progress(&clerk.steward), RL_PROGRESS_DONE);
            struct rl_marker marker = stores_marker(&stores, seat);
            cr_assert_eq(marker.seat, seat);
            cr_assert_eq(rl_marker_self(&marker).generation, 2);
        }
}

/* The old server comes back, for clients that still know it: it has no vote. */
Test(admission, of_a_newcomer_is_the_end_of_whom_it_replaces)
{
    struct stores stores;
    struct clerk clerk, old;
    unsigned node = 2;
    stores_init_founded(&stores, 4);
    struct stores three = stores;
    three.n = 3; /* the fourth is to take the place of the third */
    for (unsigned i = 0; i < 3; i++) {
        struct rl_marker marker = stores_marker(&stores, i);
        marker.roster.n = 3;
        stores_put(&three, i, &marker);
    }
    stores_forget(&three, 3);
    clerk_init(&old, &three);
    clerk_greet_all(&old);
    cr_assert_eq(clerk_sound(&old), 7);
    clerk_init(&clerk, &three);
    clerk.at[2] = 3;
    clerk_greet_all(&clerk);
    cr_assert_eq(admit(&clerk, RL_ADMIT_REPLACE, &node), RL_REFUSAL_NONE);
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(rl_steward_progress(&clerk.steward), RL_PROGRESS_DONE);
    clerk_greet_again(&old, 0);
    cr_assert_eq(clerk_standing(&old, 2), RL_STANDING_REPLACED);
    clerk_run(&old, 60 * RL_SECOND);
    cr_assert_eq(clerk_standing(&old, 2), RL_STANDING_REPLACED);
    cr_assert_eq(clerk_sound(&clerk), 7);
}

/* Only the newcomer: another that turns up empty meanwhile is none. */
Test(admission, of_a_newcomer_is_of_no_other)
{
    struct stores stores;
    struct clerk clerk;
    unsigned node = 1;
    stores_init_founded(&stores, 5);
    stores_forget(&stores, 1);
    clerk_init_greeted(&clerk, &stores);
    cr_assert_eq(admit(&clerk, RL_ADMIT_REPLACE, &node), RL_REFUSAL_NONE);
    clerk.steward.ward[2].last.generation = 0; /* as if it had never been seen before */
    clerk_gone(&clerk, 2);
    stores_restart(&stores, 2, false);
    clerk_greet(&clerk, 2);
    clerk_run(&clerk, 60 * RL_SECOND);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_UNMARKED);
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_SOUND);
}

/* --- how far it is --- */

Test(admission, is_done_when_all_vote_and_not_before)
{
    for (unsigned sound = 0; sound < 8; sound++) {
        struct stores stores;
        struct clerk clerk;
        stores_init_founded(&stores, 3);
        for (unsigned i = 0; i < 3; i++) {
            struct rl_marker marker = stores_marker(&stores, i);
            marker.sound = sound & rl_bit(i);
            stores_put(&stores, i, &marker);
        }
        clerk_init_greeted(&clerk, &stores);
        cr_assert_eq(rl_steward_progress(&clerk.steward),
                     sound == 7 ? RL_PROGRESS_DONE : RL_PROGRESS_OPEN);
    }
}

Test(admission, tells_how_much_is_left_of_a_quarantine)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    struct rl_marker marker = stores_marker(&stores, 1);
    marker.sound = false;
    stores_put(&stores, 1, &marker);
    clerk_init_greeted(&clerk, &stores);
    cr_assert_eq(rl_steward_left(&clerk.steward, 0, stores.now), RL_NEVER, "it votes");
    cr_assert_eq(rl_steward_left(&clerk.steward, 1, stores.now), RL_NEVER);
    clerk_work(&clerk);
    rl_time quarantine = rl_steward_quarantine(&clerk.steward);
    cr_assert_eq(rl_steward_left(&clerk.steward, 1, stores.now), quarantine);
    cr_assert_eq(rl_steward_left(&clerk.steward, 1, stores.now + quarantine - 1), 1);
    cr_assert_eq(rl_steward_left(&clerk.steward, 1, stores.now + 2 * quarantine), 0);
    clerk_gone(&clerk, 1);
    cr_assert_eq(rl_steward_left(&clerk.steward, 1, stores.now), RL_NEVER);
}
