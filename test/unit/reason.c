/* The reason of a result: which of several causes is told. */
#include "core/reason.h"
#include "lease_fixture.h"

/* In the order in which they are told. */
static const struct {
    struct rl_ballot ballot;
    redlock_reason reason;
} nodes[] = {
    {{.vote = RL_VOTE_ABSENT, .fault = RL_FAULT_WRONGPASS}, REDLOCK_REASON_PASSWORD},
    {{.vote = RL_VOTE_ERROR, .fault = RL_FAULT_NOPERM}, REDLOCK_REASON_PERMISSION},
    {{.vote = RL_VOTE_ABSENT, .fault = RL_FAULT_PROTECTED}, REDLOCK_REASON_PROTECTED},
    {{.vote = RL_VOTE_ABSENT, .fault = RL_FAULT_TLS_CA}, REDLOCK_REASON_CERTIFICATE},
    {{.vote = RL_VOTE_ABSENT, .fault = RL_FAULT_QUARANTINE}, REDLOCK_REASON_QUARANTINED},
    {{.vote = RL_VOTE_ABSENT, .fault = RL_FAULT_OTHER_PROCESS},
     REDLOCK_REASON_NOT_ADMITTED},
    {{.vote = RL_VOTE_ABSENT, .fault = RL_FAULT_CLOCK_FAST}, REDLOCK_REASON_CLOCK},
    {{.vote = RL_VOTE_ERROR, .fault = RL_FAULT_OOM}, REDLOCK_REASON_REFUSED},
    {{.vote = RL_VOTE_ERROR, .fault = RL_FAULT_MEMORY}, REDLOCK_REASON_RESOURCES},
    {{.vote = RL_VOTE_UNKNOWN, .fault = RL_FAULT_CLOSED}, REDLOCK_REASON_NOT_CONNECTED},
    {{.vote = RL_VOTE_SILENT, .fault = RL_FAULT_TIMEOUT}, REDLOCK_REASON_SILENT},
    {{.vote = RL_VOTE_RECREATED}, REDLOCK_REASON_MISSING},
};
#define COUNT (sizeof(nodes) / sizeof(nodes[0]))

Test(reason, the_first_in_the_order_is_told)
{
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert_eq(rl_reason_of_node(&nodes[i].ballot), nodes[i].reason, "%zu", i);
        for (size_t j = i; j < COUNT; j++) {
            const struct rl_ballot ballot[] = {
                {.vote = RL_VOTE_GRANTED}, nodes[j].ballot, nodes[i].ballot};
            cr_assert_eq(rl_reason_of_nodes(ballot, 3), nodes[i].reason, "%zu %zu", i, j);
        }
    }
}

Test(reason, each_fault_has_one)
{
    for (int fault = RL_FAULT_NONE + 1; fault < RL_FAULT_COUNT; fault++) {
        struct rl_ballot ballot = {.vote = RL_VOTE_ERROR, .fault = (enum rl_fault)fault};
        redlock_reason reason = rl_reason_of_node(&ballot);
        cr_assert(reason != REDLOCK_REASON_NONE && reason != REDLOCK_REASON_MISSING, "%s",
                  rl_fault_name((enum rl_fault)fault));
        cr_assert_eq(rl_reason_of_nodes(&ballot, 1), reason,
                     "it has no place in the order");
    }
}

Test(reason, grants_that_came_too_late)
{
    const struct rl_ballot ballot[] = {{.vote = RL_VOTE_GRANTED},
                                       {.vote = RL_VOTE_UNASKED}};
    cr_assert_eq(rl_reason_of_nodes(ballot, 2), REDLOCK_REASON_SILENT);
}

static redlock_reason reason_of(const struct lease_fixture *fixture)
{
    return rl_reason_of_lease(&fixture->lease, fixture->view.now);
}

Test(reason, too_little_is_left_after_an_acquire)
{
    struct lease_fixture fixture;
    struct rl_lease_params params = fixture_params(3, 2);
    params.min_validity = 9 * RL_SECOND;
    params.node_timeout = 5 * RL_SECOND;
    fixture_start_with(&fixture, &params);
    fixture_wait(&fixture, RL_SECOND);
    fixture_event(&fixture, RL_EVENT_TICK);
    cr_assert_eq(fixture.lease.cause, RL_CAUSE_EXPIRED);
    cr_assert_eq(reason_of(&fixture), REDLOCK_REASON_SILENT);
    fixture_votes(&fixture, 0x03, RL_VOTE_GRANTED);
    cr_assert_eq(reason_of(&fixture), REDLOCK_REASON_LATE);
}

/* Held by three nodes, at `span` after the acquire. */
static void lose(struct lease_fixture *fixture, rl_time margin, rl_time span)
{
    struct rl_lease_params params = fixture_params(3, 2);
    params.margin = margin;
    fixture_start_with(fixture, &params);
    fixture_votes(fixture, 0x07, RL_VOTE_GRANTED);
    fixture_wait(fixture, span);
    fixture_event(fixture, RL_EVENT_EXPIRE);
    cr_assert_eq(fixture->lease.state, RL_LEASE_LOST);
    cr_assert_eq(fixture->lease.cause, RL_CAUSE_EXPIRED);
}

Test(reason, of_a_lock_that_nobody_extended)
{
    struct lease_fixture fixture;
    lose(&fixture, RL_SECOND, 9 * RL_SECOND);
    cr_assert_eq(reason_of(&fixture), REDLOCK_REASON_MARGIN);
    lose(&fixture, RL_SECOND, 11 * RL_SECOND);
    cr_assert_eq(reason_of(&fixture), REDLOCK_REASON_DEADLINE);
    lose(&fixture, 0, 10 * RL_SECOND);
    cr_assert_eq(reason_of(&fixture), REDLOCK_REASON_DEADLINE);
}

/* An extension fails, the lock ends: the reason is that of the extension. */
Test(reason, of_a_lock_that_could_not_be_extended)
{
    struct lease_fixture fixture;
    fixture_hold(&fixture, 3, 0x07);
    fixture_wait(&fixture, 3 * RL_SECOND);
    fixture_extend(&fixture, 0);
    fixture_vote(&fixture, 0, RL_VOTE_GRANTED);
    fixture_wait(&fixture, 2 * RL_SECOND);
    fixture_event(&fixture, RL_EVENT_TICK);
    cr_assert_eq(fixture.lease.cause, RL_CAUSE_NO_QUORUM);
    cr_assert_eq(reason_of(&fixture), REDLOCK_REASON_SILENT);
    fixture_wait(&fixture, 10 * RL_SECOND);
    fixture_event(&fixture, RL_EVENT_EXPIRE);
    cr_assert_eq(fixture.lease.cause, RL_CAUSE_EXPIRED);
    cr_assert_eq(reason_of(&fixture), REDLOCK_REASON_SILENT);
}

/* The extension of a bare token is granted when too little of it is left. */
Test(reason, of_an_extension_that_came_too_late)
{
    struct lease_fixture fixture;
    struct rl_lease_params params = fixture_params(3, 2);
    params.node_timeout = 20 * RL_SECOND;
    fixture_init(&fixture, &params);
    fixture_adopt(&fixture, 0);
    fixture_extend(&fixture, 0);
    fixture_wait(&fixture, 10 * RL_SECOND);
    fixture_votes(&fixture, 0x07, RL_VOTE_GRANTED);
    cr_assert_eq(fixture.lease.state, RL_LEASE_HELD);
    cr_assert_eq(reason_of(&fixture), REDLOCK_REASON_LATE);
}

Test(reason, a_grant_of_the_last_extension_leaves_the_time)
{
    struct lease_fixture fixture;
    fixture_hold(&fixture, 3, 0x07);
    fixture_wait(&fixture, 3 * RL_SECOND);
    fixture_extend(&fixture, 0);
    fixture_votes(&fixture, 0x07, RL_VOTE_GRANTED);
    fixture_wait(&fixture, 10 * RL_SECOND);
    fixture_event(&fixture, RL_EVENT_EXPIRE);
    cr_assert_eq(reason_of(&fixture), REDLOCK_REASON_DEADLINE);
}
