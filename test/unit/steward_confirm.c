/* A marker that changes on a connection: it is read anew, and the node's history with it.
 */
#include "steward_desk.h"

static const struct rl_word untold = {"", 0};

/* Node 2 forgets, and another client registers that at nodes 0 and 1. */
static void open_registered(struct stores *stores, struct clerk *clerk)
{
    struct clerk other;
    stores_init_founded(stores, 3);
    clerk_init_greeted(clerk, stores);
    clerk_run(clerk, RL_SECOND);
    clerk_init_greeted(&other, stores);
    stores_forget(stores, 2);
    clerk_greet_again(&other, 2);
    stores->now += RL_SECOND;
    clerk_work(&other);
    cr_assert_gt(stores->store[0].writes, 0);
    cr_assert_not(clerk_may_have_a_grant(clerk, 0));
}

static void dispute(struct clerk *clerk, unsigned node)
{
    rl_steward_disputed(&clerk->steward, node, clerk->stores->now, clerk->stores->now);
}

Test(steward_confirm, what_another_client_wrote_is_read_on_the_same_connection)
{
    struct stores stores;
    struct clerk clerk;
    open_registered(&stores, &clerk);
    dispute(&clerk, 0);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_UNCONFIRMED);
    cr_assert_eq(clerk_sound(&clerk), 6);
    cr_assert_eq(clerk_ask(&clerk), 1);
    cr_assert_not(clerk.errand[0].order.write);
    clerk_do(&clerk, 0);
    clerk_hear_marker(&clerk, 0);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_UNCONFIRMED);
    cr_assert_not(clerk_may_have_a_grant(&clerk, 0), "before its history is confirmed");
    cr_assert_eq(clerk_ask(&clerk) & 1, 0, "the answer is under way");
    cr_assert(clerk_hear_history(&clerk, 0));
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_SOUND);
    cr_assert(clerk_may_have_a_grant(&clerk, 0));
}

Test(steward_confirm, a_node_with_another_history_gets_no_vote_back)
{
    struct stores stores;
    struct clerk clerk;
    open_registered(&stores, &clerk);
    dispute(&clerk, 0);
    clerk_ask(&clerk);
    stores.store[0].process.replid[0] ^= 1;
    clerk_do(&clerk, 0);
    clerk_hear_marker(&clerk, 0);
    cr_assert_not(clerk_hear_history(&clerk, 0), "the connection is to be made anew");
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_UNCONFIRMED);
    clerk_greet_again(&clerk, 0);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_FOREIGN);
}

Test(steward_confirm, a_history_that_is_not_told_matters_only_while_it_is_needed)
{
    struct stores stores;
    struct clerk clerk;
    open_registered(&stores, &clerk);
    cr_assert(rl_steward_history(&clerk.steward, 0, untold, stores.now));
    dispute(&clerk, 0);
    clerk_ask(&clerk);
    clerk_do(&clerk, 0);
    clerk_hear_marker(&clerk, 0);
    cr_assert_not(rl_steward_history(&clerk.steward, 0, untold, stores.now));
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_UNCONFIRMED);
}

/* The question behind it was answered, but the marker was not read. */
Test(steward_confirm, a_look_that_is_refused_confirms_nothing)
{
    struct stores stores;
    struct clerk clerk;
    open_registered(&stores, &clerk);
    dispute(&clerk, 0);
    clerk_ask(&clerk);
    clerk_do(&clerk, 0);
    clerk_refuse(&clerk, 0);
    cr_assert(clerk_hear_history(&clerk, 0));
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_UNCONFIRMED);
    clerk_run(&clerk, 2 * RL_STEWARD_REST);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_SOUND);
}

Test(steward_confirm, a_refusal_of_what_was_sent_before_the_change_was_read_is_ignored)
{
    struct stores stores;
    struct clerk clerk;
    open_registered(&stores, &clerk);
    rl_time sent = stores.now;
    dispute(&clerk, 0);
    stores.now += RL_MS;
    clerk_work(&clerk);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_SOUND);
    rl_steward_disputed(&clerk.steward, 0, sent, stores.now);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_SOUND);
    rl_steward_disputed(&clerk.steward, 0, stores.now, stores.now);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_UNCONFIRMED);
}

/* A look in the usual course finds another marker: it may have come with older data. */
Test(steward_confirm, a_change_that_a_look_finds_is_confirmed_first)
{
    struct stores stores;
    struct clerk clerk;
    open_registered(&stores, &clerk);
    stores.now += RL_STEWARD_PROBE;
    cr_assert_eq(clerk_ask(&clerk) & 1, 1);
    clerk_do(&clerk, 0);
    clerk_hear_marker(&clerk, 0);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_UNCONFIRMED);
    clerk_hear_history(&clerk, 0);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_SOUND);
}

/* A marker for the process of the greeting would be wrong on a node of another history. */
Test(steward_confirm, nothing_is_written_to_a_node_before_its_history_is_confirmed)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    stores_forget(&stores, 0);
    dispute(&clerk, 0);
    clerk_ask(&clerk);
    clerk_do(&clerk, 0);
    clerk_hear_marker(&clerk, 0);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_UNMARKED);
    stores.now += RL_STEWARD_REST;
    clerk_ask(&clerk);
    cr_assert_eq(clerk.writes, 0);
    clerk_do(&clerk, 0);
    clerk_hear(&clerk, 0);
    cr_assert_eq(clerk_ask(&clerk) & 1, 1);
    cr_assert_eq(clerk.writes, 1, "it is seated");
}

Test(steward_confirm, what_we_wrote_ourselves_needs_no_confirmation)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    stores_forget(&stores, 2);
    clerk_greet_again(&clerk, 2);
    clerk_ask(&clerk);
    clerk_do(&clerk, 2);
    clerk_hear(&clerk, 2);
    rl_nodes asked = clerk_ask(&clerk);
    cr_assert_eq(asked & 3, 3);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert(clerk.errand[i].order.write);
        cr_assert_eq(clerk_standing(&clerk, i), RL_STANDING_SOUND);
        clerk_do(&clerk, i);
        cr_assert(clerk_may_have_a_grant(&clerk, i), "what is sent now comes behind it");
        clerk_hear(&clerk, i);
        cr_assert_eq(clerk_standing(&clerk, i), RL_STANDING_SOUND);
    }
}

Test(steward_confirm, a_grant_that_is_heard_meanwhile_counts_as_unknown)
{
    struct stores stores;
    struct clerk clerk;
    open_registered(&stores, &clerk);
    struct rl_answer grant = {.vote = RL_VOTE_GRANTED}, held = {.vote = RL_VOTE_HELD};
    rl_steward_weigh(&clerk.steward, 0, RL_EXTEND, &grant);
    cr_assert_eq(grant.vote, RL_VOTE_GRANTED);
    dispute(&clerk, 0);
    rl_steward_weigh(&clerk.steward, 0, RL_EXTEND, &held);
    cr_assert_eq(held.vote, RL_VOTE_HELD);
    rl_steward_weigh(&clerk.steward, 0, RL_RELEASE, &grant);
    cr_assert_eq(grant.vote, RL_VOTE_GRANTED);
    rl_steward_weigh(&clerk.steward, 0, RL_EXTEND, &grant);
    cr_assert_eq(grant.vote, RL_VOTE_UNKNOWN);
    cr_assert_eq(grant.fault, RL_FAULT_MARKER);
}
