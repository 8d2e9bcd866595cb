/*
 * Grants that carry fences: the largest is the lease's fence, and a quorum must store it.
 */
#include "lease_fixture.h"

#define N 5
#define Q 3

static void grant(struct lease_fixture *lease_fixture, struct rl_update round,
                  unsigned node, int64_t fence)
{
    fixture_step(lease_fixture, (struct rl_lease_event){
                                    .type = RL_EVENT_VOTE,
                                    .node = (uint8_t)node,
                                    .seq = round.seq,
                                    .command = round.command,
                                    .vote = RL_VOTE_GRANTED,
                                    .pttl = -1,
                                    .fence = fence,
                                });
}

/*
 * Node 0 has stored fence 8 and two others 7; those get a raise-fence command. Returns the
 * acquire's round.
 */
static struct rl_update begin_raise_fence(struct lease_fixture *lease_fixture)
{
    fixture_start(lease_fixture, N);
    struct rl_update acquire = lease_fixture->sent;
    for (unsigned node = 0; node < Q; node++)
        grant(lease_fixture, acquire, node, node == 0 ? 8 : 7);
    cr_assert_eq(lease_fixture->sent.command, RL_CMD_RAISE_FENCE);
    cr_assert_eq(lease_fixture->sent.send, 0x06);
    return acquire;
}

Test(raise_fence, is_not_needed_if_a_quorum_stored_the_same)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, N);
    for (unsigned node = 0; node < Q; node++)
        grant(&lease_fixture, lease_fixture.sent, node, 7);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_HELD);
    cr_assert_eq(lease_fixture.lease.fence, 7);
    cr_assert_eq(lease_fixture.ever[RL_CMD_RAISE_FENCE], 0);
}

Test(raise_fence, is_not_needed_without_fences)
{
    struct lease_fixture lease_fixture;
    fixture_hold(&lease_fixture, N, 0x07);
    cr_assert_eq(lease_fixture.lease.fence, 0);
    cr_assert_eq(lease_fixture.ever[RL_CMD_RAISE_FENCE], 0);
}

Test(raise_fence, sends_the_largest_to_those_that_stored_less)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, N);
    struct rl_update acquire = lease_fixture.sent;
    rl_time valid = lease_fixture.lease.valid;
    fixture_wait(&lease_fixture, 100 * RL_MS);
    grant(&lease_fixture, acquire, 0, 7);
    grant(&lease_fixture, acquire, 1, 9);
    grant(&lease_fixture, acquire, 2, 8);
    cr_assert_eq(lease_fixture.update.reports, 0);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_RAISE_FENCE);
    cr_assert_eq(lease_fixture.update.send, 0x05);
    fixture_vote(&lease_fixture, 0, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ACQUIRING);
    fixture_vote(&lease_fixture, 2, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.update.reports, RL_REPORT_HELD);
    cr_assert_eq(lease_fixture.lease.fence, 9);
    cr_assert_eq(lease_fixture.lease.holding, 0x07);
    cr_assert_eq(lease_fixture.lease.valid, valid, "it counts from the acquire");
}

Test(raise_fence, that_fails_loses_the_attempt)
{
    struct lease_fixture lease_fixture;
    begin_raise_fence(&lease_fixture);
    fixture_vote(&lease_fixture, 1, RL_VOTE_GONE);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ABORTING);
    cr_assert_eq(lease_fixture.update.command, RL_CMD_RELEASE);
    cr_assert_eq(lease_fixture.update.send, 0x1f);
}

/* Two holders could get a fence that no quorum stores. */
Test(raise_fence, has_no_fencing_token_before_the_lease_is_held)
{
    struct lease_fixture lease_fixture;
    begin_raise_fence(&lease_fixture);
    cr_assert_eq(rl_lease_fence(&lease_fixture.lease), 0);
    fixture_vote(&lease_fixture, 1, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_fence(&lease_fixture.lease), 0);
    fixture_vote(&lease_fixture, 2, RL_VOTE_GRANTED);
    cr_assert_eq(rl_lease_fence(&lease_fixture.lease), 8);
    fixture_step(&lease_fixture, (struct rl_lease_event){.type = RL_EVENT_RELEASE});
    cr_assert_eq(rl_lease_fence(&lease_fixture.lease), 8,
                 "it still has the token of the hold that ended");

    begin_raise_fence(&lease_fixture);
    fixture_vote(&lease_fixture, 1, RL_VOTE_GONE);
    cr_assert_eq(rl_lease_fence(&lease_fixture.lease), 0);
    for (unsigned node = 0; node < N; node++)
        fixture_vote(&lease_fixture, node, RL_VOTE_GRANTED);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_FAILED), 1);
    cr_assert_eq(rl_lease_fence(&lease_fixture.lease), 0);
}

Test(raise_fence, is_not_sent_to_nodes_that_may_no_longer_vote)
{
    struct lease_fixture lease_fixture;
    fixture_start(&lease_fixture, N);
    struct rl_update acquire = lease_fixture.sent;
    grant(&lease_fixture, acquire, 0, 7);
    grant(&lease_fixture, acquire, 1, 8);
    lease_fixture.view.ready &= ~rl_bit(0);
    grant(&lease_fixture, acquire, 2, 8);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ABORTING);
    cr_assert_eq(lease_fixture.ever[RL_CMD_RAISE_FENCE], 0);
}

/* Its fence may be larger: nothing depends on it. */
Test(raise_fence, ignores_nodes_that_grant_later)
{
    struct lease_fixture lease_fixture;
    struct rl_update acquire = begin_raise_fence(&lease_fixture);
    grant(&lease_fixture, acquire, 3, 99);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ACQUIRING);
    fixture_vote(&lease_fixture, 1, RL_VOTE_GRANTED);
    fixture_vote(&lease_fixture, 2, RL_VOTE_GRANTED);
    cr_assert_eq(lease_fixture.lease.fence, 8);
    cr_assert_eq(fixture_reports(&lease_fixture, RL_REPORT_HELD), 1);
}

Test(raise_fence, counts_nodes_that_restart_meanwhile)
{
    struct lease_fixture lease_fixture;
    begin_raise_fence(&lease_fixture);
    fixture_step(&lease_fixture,
                 (struct rl_lease_event){.type = RL_EVENT_RESTARTED, .node = 0});
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ABORTING);
}

Test(raise_fence, counts_late_refusals_of_the_acquire)
{
    struct lease_fixture lease_fixture;
    struct rl_update acquire = begin_raise_fence(&lease_fixture);
    fixture_vote(&lease_fixture, 1, RL_VOTE_GRANTED);
    fixture_vote(&lease_fixture, 2, RL_VOTE_GRANTED);
    fixture_answer(&lease_fixture, acquire, 3, RL_VOTE_HELD, -1);
    fixture_answer(&lease_fixture, acquire, 4, RL_VOTE_HELD, -1);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_HELD);
    fixture_step(&lease_fixture,
                 (struct rl_lease_event){.type = RL_EVENT_RESTARTED, .node = 0});
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_LOST,
                 "another client holds three of five");
}

Test(raise_fence, ends_when_the_validity_does)
{
    struct lease_fixture lease_fixture;
    begin_raise_fence(&lease_fixture);
    struct rl_update settle = lease_fixture.sent;
    fixture_at(&lease_fixture, lease_fixture.lease.valid);
    fixture_answer(&lease_fixture, settle, 1, RL_VOTE_GRANTED, -1);
    cr_assert_eq(lease_fixture.lease.state, RL_LEASE_ABORTING);
    cr_assert_eq(lease_fixture.lease.cause, RL_CAUSE_EXPIRED);
}

/*
 * Every way for three nodes to store one of three fences, and to reply to the raise-fence
 * round.
 */
Test(raise_fence, is_held_only_if_a_quorum_stores_the_largest)
{
    static const enum rl_vote answers[] = {RL_VOTE_GRANTED, RL_VOTE_GONE, RL_VOTE_UNKNOWN};
    for (unsigned way = 0; way < 27 * 27; way++) {
        struct lease_fixture lease_fixture;
        int64_t stored[Q], largest = 0;
        fixture_start(&lease_fixture, N);
        struct rl_update acquire = lease_fixture.sent;
        for (unsigned node = 0, rest = way % 27; node < Q; node++, rest /= 3) {
            stored[node] = 1 + rest % 3;
            largest = stored[node] > largest ? stored[node] : largest;
            grant(&lease_fixture, acquire, node, stored[node]);
        }
        struct rl_update round = lease_fixture.sent;
        for (unsigned node = 0, rest = way / 27; node < Q; node++, rest /= 3) {
            if (round.command != RL_CMD_RAISE_FENCE || !(round.send & rl_bit(node)))
                continue;
            if (answers[rest % 3] == RL_VOTE_GRANTED)
                stored[node] = largest;
            fixture_answer(&lease_fixture, round, node, answers[rest % 3], -1);
        }
        bool all = stored[0] == largest && stored[1] == largest && stored[2] == largest;
        CHECK((lease_fixture.lease.state == RL_LEASE_HELD) == all, "way %u", way);
        CHECK(!all || lease_fixture.lease.fence == largest, "way %u", way);
    }
}
