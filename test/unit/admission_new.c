/* A new deployment of nodes that have none, and two operators who begin at once. */
#include <string.h>

#include "membership_fixture.h"
#include "prng.h"

static void found(struct agent *agent, enum rl_admission_mode how, uint64_t random)
{
    unsigned node = agent->stores->n;
    const struct rl_admission_request request = {.mode = how, .max_ttl_ms = FIXTURE_TTL};
    cr_assert_eq(
        rl_admission_begin(&agent->membership, &request, &node, random, agent->stores->now),
        RL_ADMISSION_OK);
}

static void open_new(struct stores *stores, struct agent *agent, unsigned n,
                     enum rl_admission_mode how)
{
    stores_init(stores, n);
    stores->at_once = how == RL_ADMIT_AT_ONCE;
    for (unsigned i = 0; i < n; i++)
        stores->store[i].forgot_at = stores->now; /* as far as any client can know */
    agent_init_greeted(agent, stores);
    found(agent, how, 1);
}

static enum rl_admission_state progress(const struct agent *agent)
{
    return rl_admission_progress(&agent->membership);
}

Test(admission_new, votes_at_once_without_a_quarantine)
{
    for (unsigned n = 1; n <= STORES_MAX; n++) {
        struct stores stores;
        struct agent agent;
        open_new(&stores, &agent, n, RL_ADMIT_AT_ONCE);
        cr_assert_eq(progress(&agent), RL_ADMISSION_RUNNING);
        agent_work(&agent);
        cr_assert_eq(progress(&agent), RL_ADMISSION_DONE);
        cr_assert_eq(agent.writes, 2 * n, "all are bootstrapped before one votes");
        for (unsigned i = 0; i < n; i++) {
            struct rl_marker marker = stores_marker(&stores, i);
            cr_assert(marker.active);
            cr_assert_eq(marker.index, i);
            cr_assert_eq(marker.roster.n, n);
            cr_assert_eq(marker.roster.max_ttl_ms, FIXTURE_TTL);
            cr_assert_eq(rl_marker_self(&marker).generation, 1);
            for (unsigned j = 0; j < i; j++)
                cr_assert_neq(rl_marker_self(&marker).id, marker.roster.member[j].id);
        }
    }
}

/* With any number of nodes, also one or two: all nodes must attest for each other. */
Test(admission_new, votes_after_a_quarantine)
{
    for (unsigned n = 1; n <= STORES_MAX; n++) {
        struct stores stores;
        struct agent agent;
        open_new(&stores, &agent, n, RL_ADMIT_NEW);
        rl_time quarantine = rl_membership_quarantine(&agent.membership);
        agent_run(&agent, quarantine - 1);
        cr_assert_eq(stores_active(&stores), 0, "n %u", n);
        cr_assert_eq(progress(&agent), RL_ADMISSION_RUNNING);
        agent_run(&agent, RL_SECOND);
        cr_assert_eq(stores_active(&stores), rl_all(n), "n %u", n);
        cr_assert_eq(progress(&agent), RL_ADMISSION_DONE);
    }
}

/* A client that uses no fenced locks sends no marker commands until it admits. */
Test(admission_new, enables_the_membership)
{
    struct stores stores;
    struct agent agent;
    stores_init(&stores, 3);
    stores.at_once = true;
    agent_init(&agent, &stores);
    agent.membership.active = false;
    agent_greet_all(&agent);
    found(&agent, RL_ADMIT_AT_ONCE, 1);
    agent_work(&agent);
    cr_assert_eq(progress(&agent), RL_ADMISSION_DONE);
}

Test(admission_new, creates_a_different_deployment_each_time)
{
    struct stores stores;
    struct agent first, second;
    open_new(&stores, &first, 3, RL_ADMIT_NEW);
    agent_init_greeted(&second, &stores);
    found(&second, RL_ADMIT_NEW, 2);
    cr_assert_neq(first.membership.roster.deployment, second.membership.roster.deployment);
    cr_assert_neq(first.membership.roster.deployment, 0);
    found(&second, RL_ADMIT_NEW, 0);
    cr_assert_neq(second.membership.roster.deployment, 0);
}

/* An operator stops halfway: another one continues by waiting. */
Test(admission_new, is_completed_by_another_client_that_waits)
{
    for (unsigned carried = 2; carried <= 3; carried++) {
        struct stores stores;
        struct agent agent, other;
        unsigned node = 3;
        open_new(&stores, &agent, 3, RL_ADMIT_NEW);
        agent_next_command(&agent);
        for (unsigned i = 0; i < carried; i++)
            agent_do(&agent, i);
        agent_init_greeted(&other, &stores);
        const struct rl_admission_request wait = {.mode = RL_ADMIT_READMIT};
        cr_assert_eq(rl_admission_begin(&other.membership, &wait, &node, 3, stores.now),
                     RL_ADMISSION_OK);
        agent_run(&other, rl_membership_quarantine(&other.membership) + RL_SECOND);
        cr_assert_eq(progress(&other), RL_ADMISSION_DONE, "%u", carried);
    }
}

/* --- events in between --- */

/*
 * A client that used locks before reads its nodes' markers: that reply must not count for
 * the bootstrap.
 */
Test(admission_new, ignores_the_reply_to_an_earlier_read)
{
    struct stores stores;
    struct agent agent;
    stores_init(&stores, 3);
    agent_init_greeted(&agent, &stores);
    stores.now += RL_SECOND;
    cr_assert_eq(agent_next_command(&agent), 7);
    found(&agent, RL_ADMIT_NEW, 1);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(progress(&agent), RL_ADMISSION_DONE);
}

Test(admission_new, continues_on_a_new_connection)
{
    for (unsigned way = 0; way < 8; way++) {
        struct stores stores;
        struct agent agent;
        open_new(&stores, &agent, 3, RL_ADMIT_NEW);
        agent_next_command(&agent);
        for (unsigned i = 0; i < 3; i++)
            if (way & rl_bit(i))
                agent_do(&agent, i); /* executed, but the reply was lost */
        for (unsigned i = 0; i < 3; i++)
            agent_greet_again(&agent, i);
        agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
        cr_assert_eq(progress(&agent), RL_ADMISSION_DONE, "%u", way);
    }
}

Test(admission_new, pauses_after_an_error_and_continues)
{
    struct stores stores;
    struct agent agent;
    open_new(&stores, &agent, 3, RL_ADMIT_AT_ONCE);
    agent_next_command(&agent);
    for (unsigned i = 0; i < 3; i++)
        agent_refuse(&agent, i);
    cr_assert_eq(agent_next_command(&agent), 0);
    agent_run(&agent, RL_MEMBER_RETRY_DELAY);
    cr_assert_eq(progress(&agent), RL_ADMISSION_DONE);
}

/*
 * Another client admitted a node whose connection had ended: its marker is not overwritten.
 */
Test(admission_new, does_not_overwrite_another_clients_marker)
{
    struct stores stores;
    struct agent agent, other;
    open_new(&stores, &agent, 3, RL_ADMIT_AT_ONCE);
    for (unsigned i = 0; i < 3; i++)
        agent_disconnected(&agent, i);
    agent_init_greeted(&other, &stores);
    found(&other, RL_ADMIT_AT_ONCE, 2);
    agent_work(&other);
    cr_assert_eq(progress(&other), RL_ADMISSION_DONE);
    struct rl_marker marker[3];
    for (unsigned i = 0; i < 3; i++) {
        marker[i] = stores_marker(&stores, i);
        agent_greet(&agent, i);
        agent_work(&agent);
    }
    cr_assert_eq(progress(&agent), RL_ADMISSION_LOST_RACE);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stores_marker(&stores, i).nonce, marker[i].nonce, "node %u", i);
}

/* A rollback: another client has written there since. */
Test(admission_new, does_not_erase_another_clients_marker)
{
    struct stores stores;
    struct agent agent, other;
    open_new(&stores, &agent, 3, RL_ADMIT_AT_ONCE);
    agent_next_command(&agent);
    agent_disconnected(&agent, 1);
    agent_init_greeted(&other, &stores);
    found(&other, RL_ADMIT_AT_ONCE, 2);
    agent_next_command(&other);
    for (unsigned i = 0; i < 3; i++)
        agent_do(&other, i); /* the client is too late on every node */
    agent_carry(&agent, 0);
    agent_greet(&agent, 1);
    agent_work(&agent);
    agent_work(&other);
    cr_assert_eq(progress(&other), RL_ADMISSION_DONE);
    cr_assert_eq(progress(&agent), RL_ADMISSION_LOST_RACE);
    cr_assert_eq(stores_active(&stores), 7);
}

/* The failure is reported when nothing is left of the admission, and not before. */
Test(admission_new, has_failed_when_the_rollback_is_complete)
{
    struct stores stores;
    struct agent agent, other;
    open_new(&stores, &agent, 3, RL_ADMIT_AT_ONCE);
    agent_init_greeted(&other, &stores);
    found(&other, RL_ADMIT_AT_ONCE, 2);
    agent_next_command(&other);
    agent_do(&other, 2);
    agent_next_command(&agent);
    for (unsigned i = 0; i < 3; i++)
        agent_carry(&agent, i);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(progress(&agent), RL_ADMISSION_RUNNING);
        agent_next_command(&agent);
        agent_carry(&agent, i);
    }
    cr_assert_eq(progress(&agent), RL_ADMISSION_LOST_RACE);
    cr_assert_eq(stores_active(&stores), 0, "no node votes before all are bootstrapped");
}

/* --- two at once --- */

static unsigned markers_of(const struct stores *stores, uint64_t deployment)
{
    unsigned count = 0;
    for (unsigned i = 0; i < stores->n; i++)
        count += stores->store[i].len > 0 &&
                 stores_marker(stores, i).roster.deployment == deployment;
    return count;
}

/* Each node is reached first by one client or by the other. */
Test(admission_new, of_two_at_once_leaves_one_deployment_or_none)
{
    unsigned won = 0, none = 0;
    for (unsigned n = 1; n <= 5; n++)
        for (unsigned way = 0; way < rl_bit(n); way++) {
            struct stores stores;
            struct agent a, b;
            struct agent *both[] = {&a, &b};
            open_new(&stores, &a, n, RL_ADMIT_AT_ONCE);
            agent_init_greeted(&b, &stores);
            found(&b, RL_ADMIT_AT_ONCE, 2);
            uint64_t of_a = a.membership.roster.deployment;
            uint64_t of_b = b.membership.roster.deployment;
            agent_next_command(&a);
            agent_next_command(&b);
            for (unsigned i = 0; i < n; i++) {
                agent_do(way & rl_bit(i) ? &a : &b, i);
                agent_do(way & rl_bit(i) ? &b : &a, i);
            }
            agents_run(both, 2, 10 * RL_SECOND);
            bool a_won = way == rl_all(n), b_won = way == 0;
            CHECK(markers_of(&stores, of_a) == (a_won ? n : 0), "%u %x", n, way);
            CHECK(markers_of(&stores, of_b) == (b_won ? n : 0), "%u %x", n, way);
            CHECK(progress(&a) == (a_won ? RL_ADMISSION_DONE : RL_ADMISSION_LOST_RACE),
                  "%u %x", n, way);
            CHECK(progress(&b) == (b_won ? RL_ADMISSION_DONE : RL_ADMISSION_LOST_RACE),
                  "%u %x", n, way);
            won += a_won || b_won;
            none += !a_won && !b_won;
        }
    cr_assert(won > 0 && none > 0);
}

/* In any order, with connections that end: both get a result, and at most one wins. */
Test(admission_new, of_two_in_any_order_ends)
{
    unsigned ended[3] = {0};
    for (unsigned seed = 1; seed <= 2000; seed++) {
        struct prng prng = {seed};
        struct stores stores;
        struct agent agent[2];
        struct agent *both[] = {&agent[0], &agent[1]};
        open_new(&stores, &agent[0], 1 + prng_below(&prng, 5), RL_ADMIT_AT_ONCE);
        agent_init_greeted(&agent[1], &stores);
        found(&agent[1], RL_ADMIT_AT_ONCE, 2);
        for (unsigned step = 0; step < 60; step++) {
            struct agent *who = both[prng_below(&prng, 2)];
            unsigned i = prng_below(&prng, stores.n);
            agent_next_command(who);
            if (!who->transit[i].out)
                continue;
            if (prng_below(&prng, 10) == 0)
                agent_greet_again(who, i);
            else if (!who->transit[i].done)
                agent_do(who, i);
            else
                agent_reply(who, i);
            stores.now += prng_below(&prng, 1000);
        }
        agents_run(both, 2, 10 * RL_SECOND);
        unsigned done = 0;
        for (unsigned i = 0; i < 2; i++) {
            CHECK(progress(both[i]) != RL_ADMISSION_RUNNING, "seed %u: %u", seed, i);
            done += progress(both[i]) == RL_ADMISSION_DONE;
        }
        CHECK(done <= 1, "seed %u: both won", seed);
        CHECK(stores_active(&stores) == (done ? rl_all(stores.n) : 0), "seed %u", seed);
        ended[done]++;
    }
    cr_assert(ended[0] > 0 && ended[1] > 0, "%u %u", ended[0], ended[1]);
}

static void open_lost_race(struct stores *stores, struct agent *agent)
{
    struct agent other;
    open_new(stores, agent, 3, RL_ADMIT_AT_ONCE);
    agent_init_greeted(&other, stores);
    found(&other, RL_ADMIT_AT_ONCE, 2);
    agent_work(&other);
    agent_run(agent, 10 * RL_SECOND);
    cr_assert_eq(progress(agent), RL_ADMISSION_LOST_RACE);
    cr_assert_eq(agent_active(agent), 0);
    cr_assert_eq(stores_active(stores), 7);
}

Test(admission_new, that_lost_the_race_may_use_the_winners_deployment)
{
    struct stores stores;
    struct agent agent;
    open_lost_race(&stores, &agent);
    rl_admission_end(&agent.membership);
    agent_run(&agent, RL_SECOND);
    cr_assert_eq(agent_active(&agent), 7);
    struct rl_marker marker = stores_marker(&stores, 1);
    marker.roster.member[0].generation++;
    stores_put(&stores, 1, &marker);
    agent_greet_again(&agent, 1);
    agent_disconnected(&agent, 1);
    agent_greet_again(&agent, 2);
    cr_assert_eq(agent_state(&agent, 0), RL_MEMBER_REPLACED, "the binding is final");
}

Test(admission_new, that_lost_the_race_can_be_tried_again)
{
    for (int reported = 0; reported < 2; reported++) {
        struct stores stores;
        struct agent agent;
        open_lost_race(&stores, &agent);
        if (reported)
            rl_admission_end(&agent.membership);
        for (unsigned i = 0; i < 3; i++)
            agent_greet_forgotten(&agent, i);
        found(&agent, RL_ADMIT_AT_ONCE, 3);
        cr_assert_eq(progress(&agent), RL_ADMISSION_RUNNING);
        agent_work(&agent);
        cr_assert_eq(progress(&agent), RL_ADMISSION_DONE);
    }
}
