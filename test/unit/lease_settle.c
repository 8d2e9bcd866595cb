/* Grants that carry fences: the largest is the lease's, and a quorum must store it. */
#include "desk.h"

#define N 5
#define Q 3

static void grant(struct desk *desk, struct rl_update round, unsigned node, int64_t fence)
{
    desk_step(desk, (struct rl_lease_event){
                        .type = RL_EVENT_VOTE,
                        .node = (uint8_t)node,
                        .seq = round.seq,
                        .text = round.text,
                        .vote = RL_VOTE_GRANTED,
                        .pttl = -1,
                        .fence = fence,
                    });
}

/* Node 0 has stored 8 and two others 7, and are asked to settle; returns the acquire. */
static struct rl_update begin_settling(struct desk *desk)
{
    desk_start(desk, N);
    struct rl_update acquire = desk->sent;
    for (unsigned node = 0; node < Q; node++)
        grant(desk, acquire, node, node == 0 ? 8 : 7);
    cr_assert_eq(desk->sent.text, RL_SETTLE);
    cr_assert_eq(desk->sent.send, 0x06);
    return acquire;
}

Test(settle, is_not_needed_where_a_quorum_stored_the_same)
{
    struct desk desk;
    desk_start(&desk, N);
    for (unsigned node = 0; node < Q; node++)
        grant(&desk, desk.sent, node, 7);
    cr_assert_eq(desk.update.news, RL_NEWS_HELD);
    cr_assert_eq(desk.lease.fence, 7);
    cr_assert_eq(desk.ever[RL_SETTLE], 0);
}

Test(settle, is_not_needed_where_there_are_no_fences)
{
    struct desk desk;
    desk_hold(&desk, N, 0x07);
    cr_assert_eq(desk.lease.fence, 0);
    cr_assert_eq(desk.ever[RL_SETTLE], 0);
}

Test(settle, tells_the_largest_to_those_that_stored_less)
{
    struct desk desk;
    desk_start(&desk, N);
    struct rl_update acquire = desk.sent;
    rl_time valid = desk.lease.valid;
    desk_wait(&desk, 100 * RL_MS);
    grant(&desk, acquire, 0, 7);
    grant(&desk, acquire, 1, 9);
    grant(&desk, acquire, 2, 8);
    cr_assert_eq(desk.update.news, 0);
    cr_assert_eq(desk.update.text, RL_SETTLE);
    cr_assert_eq(desk.update.send, 0x05);
    desk_vote(&desk, 0, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.state, RL_LEASE_ACQUIRING);
    desk_vote(&desk, 2, RL_VOTE_GRANTED);
    cr_assert_eq(desk.update.news, RL_NEWS_HELD);
    cr_assert_eq(desk.lease.fence, 9);
    cr_assert_eq(desk.lease.holding, 0x07);
    cr_assert_eq(desk.lease.valid, valid, "it counts from the acquire");
}

Test(settle, that_fails_loses_the_attempt)
{
    struct desk desk;
    begin_settling(&desk);
    desk_vote(&desk, 1, RL_VOTE_GONE);
    cr_assert_eq(desk.lease.state, RL_LEASE_BACKING_OUT);
    cr_assert_eq(desk.update.text, RL_RELEASE);
    cr_assert_eq(desk.update.send, 0x1f);
}

/* A fence that no quorum stores could be handed out twice. */
Test(settle, has_no_fencing_token_before_the_lease_is_held)
{
    struct desk desk;
    begin_settling(&desk);
    cr_assert_eq(rl_lease_fence(&desk.lease), 0);
    desk_vote(&desk, 1, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_fence(&desk.lease), 0);
    desk_vote(&desk, 2, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_fence(&desk.lease), 8);
    desk_step(&desk, (struct rl_lease_event){.type = RL_EVENT_RELEASE});
    cr_assert_eq(rl_lease_fence(&desk.lease), 8, "it still names the hold that ended");

    begin_settling(&desk);
    desk_vote(&desk, 1, RL_VOTE_GONE);
    cr_assert_eq(rl_lease_fence(&desk.lease), 0);
    for (unsigned node = 0; node < N; node++)
        desk_vote(&desk, node, RL_VOTE_GRANTED);
    cr_assert_eq(desk_told(&desk, RL_NEWS_FAILED), 1);
    cr_assert_eq(rl_lease_fence(&desk.lease), 0);
}

Test(settle, is_not_asked_of_who_can_not_vote_any_more)
{
    struct desk desk;
    desk_start(&desk, N);
    struct rl_update acquire = desk.sent;
    grant(&desk, acquire, 0, 7);
    grant(&desk, acquire, 1, 8);
    desk.view.ready &= ~rl_bit(0);
    grant(&desk, acquire, 2, 8);
    cr_assert_eq(desk.lease.state, RL_LEASE_BACKING_OUT);
    cr_assert_eq(desk.ever[RL_SETTLE], 0);
}

/* Its fence may be larger: nothing rests on it. */
Test(settle, leaves_out_whoever_grants_later)
{
    struct desk desk;
    struct rl_update acquire = begin_settling(&desk);
    grant(&desk, acquire, 3, 99);
    cr_assert_eq(desk.lease.state, RL_LEASE_ACQUIRING);
    desk_vote(&desk, 1, RL_VOTE_GRANTED);
    desk_vote(&desk, 2, RL_VOTE_GRANTED);
    cr_assert_eq(desk.lease.fence, 8);
    cr_assert_eq(desk_told(&desk, RL_NEWS_HELD), 1);
}

Test(settle, knows_who_restarts_meanwhile)
{
    struct desk desk;
    begin_settling(&desk);
    desk_step(&desk, (struct rl_lease_event){.type = RL_EVENT_FORGOT, .node = 0});
    cr_assert_eq(desk.lease.state, RL_LEASE_BACKING_OUT);
}

Test(settle, hears_refusals_of_the_acquire_that_come_late)
{
    struct desk desk;
    struct rl_update acquire = begin_settling(&desk);
    desk_vote(&desk, 1, RL_VOTE_GRANTED);
    desk_vote(&desk, 2, RL_VOTE_GRANTED);
    desk_answer(&desk, acquire, 3, RL_VOTE_HELD, -1);
    desk_answer(&desk, acquire, 4, RL_VOTE_HELD, -1);
    cr_assert_eq(desk.lease.state, RL_LEASE_HELD);
    desk_step(&desk, (struct rl_lease_event){.type = RL_EVENT_FORGOT, .node = 0});
    cr_assert_eq(desk.lease.state, RL_LEASE_LOST, "three of five are not ours");
}

Test(settle, ends_when_the_validity_does)
{
    struct desk desk;
    begin_settling(&desk);
    struct rl_update settle = desk.sent;
    desk_at(&desk, desk.lease.valid);
    desk_answer(&desk, settle, 1, RL_VOTE_GRANTED, -1);
    cr_assert_eq(desk.lease.state, RL_LEASE_BACKING_OUT);
    cr_assert_eq(desk.lease.cause, RL_CAUSE_EXPIRED);
}

/* Every way for three nodes to store one of three fences, and to answer the settle round.
 */
Test(settle, is_held_only_if_a_quorum_stores_the_largest)
{
    static const enum rl_vote answers[] = {RL_VOTE_GRANTED, RL_VOTE_GONE, RL_VOTE_UNKNOWN};
    for (unsigned way = 0; way < 27 * 27; way++) {
        struct desk desk;
        int64_t stored[Q], largest = 0;
        desk_start(&desk, N);
        struct rl_update acquire = desk.sent;
        for (unsigned node = 0, rest = way % 27; node < Q; node++, rest /= 3) {
            stored[node] = 1 + rest % 3;
            largest = stored[node] > largest ? stored[node] : largest;
            grant(&desk, acquire, node, stored[node]);
        }
        struct rl_update round = desk.sent;
        for (unsigned node = 0, rest = way / 27; node < Q; node++, rest /= 3) {
            if (round.text != RL_SETTLE || !(round.send & rl_bit(node)))
                continue;
            if (answers[rest % 3] == RL_VOTE_GRANTED)
                stored[node] = largest;
            desk_answer(&desk, round, node, answers[rest % 3], -1);
        }
        bool all = stored[0] == largest && stored[1] == largest && stored[2] == largest;
        CHECK((desk.lease.state == RL_LEASE_HELD) == all, "way %u", way);
        CHECK(!all || desk.lease.fence == largest, "way %u", way);
    }
}
