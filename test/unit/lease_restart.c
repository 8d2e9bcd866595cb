/* Nodes that were seen to restart while a lease relied on them. */
#include "desk.h"

static void forget(struct desk *desk, unsigned node)
{
    desk_step(desk,
              (struct rl_lease_event){.type = RL_EVENT_FORGOT, .node = (uint8_t)node});
}

Test(restarts, of_a_majority_lose_the_lease_at_once)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    forget(&desk, 0);
    forget(&desk, 0);
    forget(&desk, 1);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD, "another can have two of five");
    forget(&desk, 2);
    cr_assert_eq(desk.update.news, RL_NEWS_LOST);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_GONE);
    cr_assert_eq(rl_lease_left(&desk.lease, desk.view.now), 0);
}

Test(restarts, count_with_the_nodes_that_never_granted)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x7);
    desk_vote(&desk, 3, RL_VOTE_HELD);
    desk_vote(&desk, 4, RL_VOTE_ERROR);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
    forget(&desk, 0);
    cr_assert_eq(desk.update.news, RL_NEWS_LOST);
}

Test(restarts, of_a_node_whose_grant_is_not_used_yet_take_it_back)
{
    struct desk desk;
    desk_start(&desk, 3);
    desk_vote(&desk, 0, RL_VOTE_GRANTED);
    forget(&desk, 0);
    desk_vote(&desk, 1, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.state, RL_LEASE_ACQUIRING);
    desk_vote(&desk, 2, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.news, RL_NEWS_HELD);
}

/* A fresh client could have node 3, which did not answer us before, and two others. */
Test(restarts, before_a_node_has_answered_count_later)
{
    struct desk desk;
    desk_start(&desk, 5);
    forget(&desk, 3);
    desk_votes(&desk, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
    forget(&desk, 0);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
    forget(&desk, 1);
    cr_assert_eq(desk.lease.state, RL_LEASE_LOST);
}

Test(restarts, are_made_good_by_an_extension_that_the_node_grants)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    forget(&desk, 0);
    forget(&desk, 1);
    desk_say(&desk, RL_EVENT_EXTEND);
    for (unsigned node = 0; node < 5; node++)
        desk_vote(&desk, node, RL_VOTE_GRANTED);
    forget(&desk, 2);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
}

/* Its grant was given before it forgot: with two others it is no majority of three. */
Test(restarts, take_back_the_grant_of_an_extension_that_is_not_decided)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x07);
    rl_time before = desk.lease.valid;
    desk_wait(&desk, RL_SECOND);
    desk_extend(&desk, 0);
    desk_vote(&desk, 2, RL_VOTE_GRANTED);
    forget(&desk, 2);
    desk_votes(&desk, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 0);
    cr_assert_eq(desk.lease.valid, before);
    desk_vote(&desk, 3, RL_VOTE_GRANTED);
    cr_assert_eq(desk_told(&desk, RL_NEWS_EXTENDED), 1);
    cr_assert_eq(desk.lease.holding, 0x0b);
}

Test(restarts, may_decide_an_extension)
{
    struct desk desk;
    desk_hold(&desk, 3, 0x07);
    desk_extend(&desk, 0);
    desk_vote(&desk, 0, RL_VOTE_ERROR);
    desk_vote(&desk, 1, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.news, 0);
    forget(&desk, 1);
    cr_assert_eq(desk.update.news, RL_NEWS_NOT_EXTENDED);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
}

Test(restarts, are_not_undone_by_a_straggler)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x07);
    forget(&desk, 2);
    desk_vote(&desk, 3, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.holding, 0x0b);
}

Test(restarts, count_with_the_stragglers_that_refuse_later)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x07);
    forget(&desk, 0);
    desk_vote(&desk, 3, RL_VOTE_HELD);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
    desk_vote(&desk, 4, RL_VOTE_HELD);
    cr_assert_eq(desk.update.news, RL_NEWS_LOST, "three of five are not ours");
    cr_assert_eq(desk.lease.cause, RL_CAUSE_GONE);
}

Test(restarts, after_an_extension_was_won_leave_its_deadline)
{
    struct desk desk;
    desk_hold(&desk, 5, 0x1f);
    desk_extend(&desk, 0);
    desk_votes(&desk, 0x07, RL_VOTE_GRANTED);
    rl_time valid = desk.lease.valid;
    forget(&desk, 0);
    desk_vote(&desk, 3, RL_VOTE_ERROR);
    desk_vote(&desk, 4, RL_VOTE_ERROR);
    cr_assert_eq(desk.lease.valid, valid);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_NONE, "it was won, and is not lost afterwards");
    cr_assert_eq(desk.lease.holding, 0x06);
}
