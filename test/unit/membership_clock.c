/*
 * Node clocks that are set: whether the node's or the client's clock stepped, and what the
 * node loses.
 */
#include "membership_fixture.h"

/* A reply that takes so long, and is executed when it arrives. */
static void vote_slowly(struct agent *agent, unsigned node, rl_time took)
{
    rl_time now = agent->stores->now;
    rl_membership_time(&agent->membership, node, now - took, now, now,
                       now + agent->stores->store[node].off);
}

/* Gives the membership the time in a node's vote. */
static bool vote(struct agent *agent, unsigned node)
{
    rl_time now = agent->stores->now;
    return rl_membership_time(&agent->membership, node, now, now, now,
                              now + agent->stores->store[node].off);
}

static rl_node_set vote_all(struct agent *agent)
{
    rl_node_set good = 0;
    for (unsigned i = 0; i < agent->stores->n; i++)
        if (vote(agent, i))
            good |= rl_bit(i);
    return good;
}

/* All clocks are known. */
static void open_timed(struct stores *stores, struct agent *agent, unsigned n)
{
    agent_open(agent, stores, n);
    cr_assert_eq(vote_all(agent), rl_all(n));
    stores->now += RL_SECOND;
    cr_assert_eq(vote_all(agent), rl_all(n));
    stores->now += RL_MS;
}

static void set_clock(struct stores *stores, unsigned i)
{
    stores->store[i].off += 100 * RL_SECOND;
    stores->store[i].forgot_at = stores->now; /* its keys may have ended */
}

Test(membership_clock, of_a_node_that_is_set_costs_its_vote_at_once)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    set_clock(&stores, 1);
    cr_assert_not(vote(&agent, 1));
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_CLOCK);
    cr_assert_eq(agent_active(&agent), 5);
    cr_assert_not(vote(&agent, 1), "it is known anew, but that gives no vote back");
    cr_assert_eq(agent_active(&agent), 5);
}

/* Its keys may have ended while no client was connected. */
Test(membership_clock, of_a_node_that_is_set_while_it_is_away_costs_its_vote)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_disconnected(&agent, 1);
    set_clock(&stores, 1);
    stores.now += RL_SECOND;
    agent_greet(&agent, 1);
    cr_assert_not(vote(&agent, 1), "by what it reported on the connection before");
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_CLOCK);
}

/* The server may run on another machine now. */
Test(membership_clock, of_another_process_is_measured_anew)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    stores_restart(&stores, 1, true);
    set_clock(&stores, 1);
    agent_greet_again(&agent, 1);
    cr_assert(vote(&agent, 1));
    agent_greet_again(&agent, 1);
    set_clock(&stores, 1);
    cr_assert_not(vote(&agent, 1));
}

/* What the client finds behind the address of node 1, whose clock it knows to be set. */
enum change {
    RESTARTED = 1,  /* another run_id; without: another master_replid */
    REASSIGNED = 2, /* another incarnation */
    BY_THEN = 4,    /* its marker is for the process before, and the node is durable */
};

static enum rl_member_state state_after(unsigned changes)
{
    struct stores stores;
    struct agent agent = {.stores = &stores};
    open_timed(&stores, &agent, 3);
    set_clock(&stores, 1);
    cr_assert_not(vote(&agent, 1));
    agent_disconnected(&agent, 1);
    struct rl_marker marker = stores_marker(&stores, 1);
    struct rl_process *process = &stores.store[1].process;
    if (changes & RESTARTED)
        stores_restart(&stores, 1, true);
    else
        process->replid[0] = process->replid[0] == '0' ? '1' : '0';
    if (changes & BY_THEN)
        marker.promises |= RL_PROMISE_DURABLE;
    else
        marker.process = *process;
    marker.roster.member[marker.index].generation += (changes & REASSIGNED) != 0;
    stores_put(&stores, 1, &marker);
    agent_greet(&agent, 1);
    agent_run(&agent, RL_SECOND);
    return agent_state(&agent, 1);
}

Test(membership_clock, of_a_server_before_is_not_held_against_a_new_incarnation)
{
    cr_assert_eq(state_after(RESTARTED | REASSIGNED), RL_MEMBER_ACTIVE);
    cr_assert_neq(state_after(RESTARTED), RL_MEMBER_ACTIVE);
}

/* The new incarnation may have granted locks before the clock was set. */
Test(membership_clock, of_a_server_is_held_against_each_incarnation_that_it_had)
{
    cr_assert_neq(state_after(REASSIGNED), RL_MEMBER_ACTIVE);
    cr_assert_neq(state_after(RESTARTED | REASSIGNED | BY_THEN), RL_MEMBER_ACTIVE);
}

Test(membership_clock, of_a_node_that_was_set_needs_a_new_incarnation)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    set_clock(&stores, 1);
    vote(&agent, 1);
    cr_assert_eq(agent_next_command(&agent), 7, "is it theirs, or ours?");
    for (unsigned i = 0; i < 3; i++)
        cr_assert_not(agent.transit[i].command.write);
    agent_carry(&agent, 1);
    agent_carry(&agent, 0);
    cr_assert_eq(agent_next_command(&agent), 0, "one attests");
    cr_assert_eq(stores_active(&stores), 7);
    agent_carry(&agent, 2);
    cr_assert_eq(agent_next_command(&agent), 2);
    agent_do(&agent, 1);
    struct rl_marker assigned = stores_marker(&stores, 1);
    cr_assert_not(assigned.active);
    cr_assert_eq(rl_marker_self(&assigned).generation, 2);
    cr_assert_eq(assigned.index, 1);
    agent_reply(&agent, 1);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_QUARANTINED);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 7);
    cr_assert_eq(agent_active(&agent), 7);
}

Test(membership_clock, of_a_node_in_quarantine_restarts_the_quarantine)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_greet_forgotten(&agent, 2);
    rl_time quarantine = rl_membership_quarantine(&agent.membership);
    agent_run(&agent, quarantine / 2);
    set_clock(&stores, 2);
    agent_run(&agent, RL_SECOND); /* a poll finds it */
    rl_time left = rl_membership_quarantine_left(&agent.membership, 2, stores.now);
    cr_assert_gt(left, quarantine - RL_SECOND - 1);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_QUARANTINED);
    agent_run(&agent, left - 1);
    cr_assert_not(stores_is_active(&stores, 2));
    agent_run(&agent, RL_SECOND);
    cr_assert(stores_is_active(&stores, 2));
}

/* The reply that reads "active" has the clock's time, too. */
Test(membership_clock, that_is_set_just_before_the_lift_costs_the_vote_again)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_greet_forgotten(&agent, 2);
    agent_work(&agent);
    agent_run(&agent, rl_membership_quarantine_left(&agent.membership, 2, stores.now) - 1);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_QUARANTINED);
    stores.store[2].off += 100 * RL_SECOND;
    stores.now++;
    agent_work(&agent);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_QUARANTINED);
    struct rl_marker marker = stores_marker(&stores, 2);
    cr_assert_eq(rl_marker_self(&marker).generation, 3);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 7);
}

/* Whose clock is wrong is asked now and then, not again at each reply. */
Test(membership_clock, that_is_wrong_at_every_reply_costs_few_commands)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 5);
    unsigned before = agent.commands;
    for (rl_time end = stores.now + RL_SECOND; stores.now < end; stores.now += RL_MS) {
        stores.store[1].off += RL_SECOND;
        cr_assert_not(vote(&agent, 1));
        agent_work(&agent);
    }
    cr_assert_leq(agent.commands - before,
                  2 * stores.n * RL_SECOND / RL_MEMBER_POLL_INTERVAL);
}

/* Its registration is not complete: nothing has to restart, and nothing is lost. */
Test(membership_clock, of_a_node_that_is_not_registered_changes_nothing)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_greet_forgotten(&agent, 2);
    agent_next_command(&agent);
    agent_carry(&agent, 2);
    set_clock(&stores, 2);
    cr_assert_not(vote(&agent, 2));
    cr_assert_eq(rl_membership_quarantine_left(&agent.membership, 2, stores.now), RL_NEVER);
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(stores_active(&stores), 7);
}

/*
 * If all clocks seem to be set at once, it was the client's clock; the new readings are
 * used from then on. If neither a majority is off nor so many others attest, it is not
 * known.
 */
Test(membership_clock, of_a_majority_at_once_means_the_clients_clock)
{
    for (unsigned n = 1; n <= 7; n++)
        for (unsigned off = 1; off <= n; off++) {
            struct stores stores;
            struct agent agent;
            open_timed(&stores, &agent, n);
            for (unsigned i = 0; i < off; i++)
                set_clock(&stores, i);
            vote(&agent, 0);
            agent_run(&agent, RL_SECOND); /* the others are polled */
            bool is_ours = off > n / 2 && n > 1;
            bool is_theirs = n - off > n / 2;
            for (unsigned i = 0; i < n; i++) {
                struct rl_marker marker = stores_marker(&stores, i);
                bool assigned = rl_marker_self(&marker).generation == 2;
                CHECK((i < off && is_theirs) == assigned, "%u of %u: %u", off, n, i);
            }
            CHECK((agent_active(&agent) == rl_all(n)) == is_ours, "%u of %u", off, n);
            CHECK(is_theirs || agent.writes == 0, "%u of %u", off, n);
        }
}

/* The replies come one by one, and the membership's next commands are taken after each. */
Test(membership_clock, of_all_nodes_one_after_the_other_means_the_clients_clock)
{
    for (unsigned n = 2; n <= 7; n++) {
        struct stores stores;
        struct agent agent;
        open_timed(&stores, &agent, n);
        for (unsigned i = 0; i < n; i++)
            set_clock(&stores, i);
        for (unsigned i = 0; i < n; i++) {
            stores.now += RL_MS;
            cr_assert_not(vote(&agent, i));
            agent_next_command(&agent);
        }
        agent_run(&agent, 10 * RL_SECOND);
        cr_assert_eq(agent_active(&agent), rl_all(n), "n %u", n);
        cr_assert_eq(agent.writes, 0, "n %u", n);
        set_clock(&stores, 0);
        cr_assert_not(vote(&agent, 0));
        cr_assert_eq(agent_active(&agent), rl_all(n) & ~rl_bit(0), "now it is theirs");
    }
}

/* --- a majority, or our clock? --- */

/* Nodes 0 and 1 of 3 are set, one after the other. Returns the nodes that vote then. */
static rl_node_set set_two(rl_time apart, rl_time amount)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_run(&agent, RL_SECOND);
    stores.store[0].off += 100 * RL_SECOND;
    if (apart == 0)
        stores.store[1].off += amount;
    vote(&agent, 0);
    agent_work(&agent);
    agent_run(&agent, apart);
    if (apart > 0)
        stores.store[1].off += amount;
    vote(&agent, 1);
    agent_run(&agent, RL_SECOND);
    cr_assert_eq(agent_state(&agent, 2), RL_MEMBER_ACTIVE);
    return agent_active(&agent);
}

/* After the first all nodes are read often: so the spans share no moment. */
Test(membership_clock, of_a_majority_one_by_one_means_the_nodes_clocks)
{
    cr_assert_eq(set_two(0, 100 * RL_SECOND), 7);
    cr_assert_eq(set_two(RL_MEMBER_POLL_INTERVAL + 1, 100 * RL_SECOND), 4);
    cr_assert_eq(set_two(5 * RL_SECOND, 100 * RL_SECOND), 4);
}

Test(membership_clock, of_a_majority_at_once_by_different_amounts_means_the_nodes_clocks)
{
    cr_assert_eq(set_two(0, 101 * RL_SECOND), 4);
    cr_assert_eq(set_two(0, -100 * RL_SECOND), 4);
    cr_assert_eq(set_two(0, 100 * RL_SECOND + 50 * RL_MS), 7, "within the slack");
}

/* Longer than the slack, and less than the amount by which a clock is set below. */
#define FAR      (700 * RL_MS)
#define SET_AWAY (1500 * RL_MS)

static void vote_from_far(struct agent *agent, unsigned times)
{
    for (unsigned i = 0; i < times * 3; i++) {
        agent->stores->now += i % 3 ? 0 : RL_SECOND;
        vote_slowly(agent, i % 3, FAR);
    }
}

/* Nodes 0 and 1 of 3 are far away, and are set one after the other. */
Test(membership_clock, of_a_far_majority_one_by_one_means_the_nodes_clocks)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 3);
    vote_from_far(&agent, 3);
    stores.store[0].off += SET_AWAY;
    vote_from_far(&agent, 5);
    cr_assert_eq(agent_active(&agent), 6);
    stores.store[1].off += SET_AWAY;
    vote_from_far(&agent, 1);
    cr_assert_eq(agent_active(&agent), 4);
}

/* Our clock was wrong once; much later node 0 is set. */
Test(membership_clock, of_a_far_node_is_doubted_after_the_clients_was_wrong)
{
    struct stores stores;
    struct agent agent;
    agent_open(&agent, &stores, 3);
    vote_from_far(&agent, 3);
    for (unsigned i = 0; i < 3; i++)
        stores.store[i].off -= SET_AWAY;
    vote_from_far(&agent, 20);
    cr_assert_eq(agent_active(&agent), 7);
    stores.store[0].off += SET_AWAY;
    vote_from_far(&agent, 2);
    cr_assert_eq(agent_active(&agent), 6);
}

/* It is not known when the other one was set. */
Test(membership_clock, of_a_majority_within_one_interval_passes_for_the_clients_clock)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_run(&agent, RL_SECOND);
    set_clock(&stores, 0);
    stores.now += RL_MEMBER_PROBE_INTERVAL / 2;
    set_clock(&stores, 1);
    agent_run(&agent, RL_MEMBER_PROBE_INTERVAL);
    cr_assert_eq(agent_active(&agent), 7);
    cr_assert_eq(agent.writes, 0);
}

Test(membership_clock, that_is_wrong_again_is_not_forgiven_with_the_clients_clock)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    for (unsigned i = 0; i < 3; i++)
        set_clock(&stores, i);
    vote(&agent, 0);
    stores.now += RL_MS;
    set_clock(&stores, 0);
    vote(&agent, 0);
    vote(&agent, 1);
    cr_assert_eq(agent_active(&agent), 6);
}

/* Node 2 was read last before our clock was wrong, and is read again much later. */
Test(membership_clock, of_a_node_that_was_away_is_not_blamed_for_the_clients)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    agent_disconnected(&agent, 2);
    for (unsigned i = 0; i < 3; i++)
        set_clock(&stores, i);
    vote(&agent, 0);
    agent_run(&agent, 60 * RL_SECOND);
    agent_greet(&agent, 2);
    cr_assert_not(vote(&agent, 2), "that reply is not trusted");
    agent_run(&agent, RL_SECOND);
    cr_assert_eq(agent_active(&agent), 7);
    cr_assert_eq(agent.writes, 0);
    set_clock(&stores, 2);
    vote(&agent, 2);
    cr_assert_eq(agent_active(&agent), 3, "now it is theirs");
}

/* --- a client whose clocks all stood still, and replies that take long --- */

/* Polls until `end`: a command that is sent before takes `delay[node]`, before it is
   executed or after it. */
static void run_slowly(struct agent *agent, const rl_time delay[], bool before,
                       rl_time slow, rl_time end)
{
    struct stores *stores = agent->stores;
    for (; stores->now < end; stores->now += 10 * RL_MS) {
        agent_next_command(agent);
        for (unsigned i = 0; i < stores->n; i++) {
            struct transit *transit = &agent->transit[i];
            bool is_due = stores->now >= rl_min(transit->sent, slow) + delay[i];
            if (transit->out && !transit->done && (is_due || !before))
                agent_do(agent, i);
            if (transit->out && transit->done && is_due)
                agent_reply(agent, i);
        }
    }
}

static void stop_clocks(unsigned n, rl_time stopped, rl_time spread, bool before)
{
    struct stores stores;
    struct agent agent;
    rl_time delay[STORES_MAX];
    open_timed(&stores, &agent, n);
    agent_run(&agent, RL_SECOND);
    for (unsigned i = 0; i < n; i++) {
        stores.store[i].off += stopped;
        delay[i] = spread * i / (n - 1);
        agent.membership.member[i].look_at = stores.now;
    }
    run_slowly(&agent, delay, before, stores.now, stores.now + spread + RL_SECOND);
    agent_run(&agent, RL_SECOND);
    CHECK(agent.writes == 0, "n %u, %jd us apart, %d", n, (intmax_t)spread, before);
    CHECK(agent_active(&agent) == rl_all(n), "n %u, %jd us apart, %d: %x", n,
          (intmax_t)spread, before, agent_active(&agent));
}

Test(membership_clock, of_a_client_that_stood_still_bars_no_node)
{
    static const rl_time spreads[] = {0, RL_SECOND / 10, 6 * RL_SECOND / 10, 3 * RL_SECOND,
                                      6 * RL_SECOND};
    for (unsigned n = 2; n <= 7; n++)
        for (unsigned i = 0; i < sizeof(spreads) / sizeof(spreads[0]); i++)
            for (int before = 0; before <= 1; before++) {
                stop_clocks(n, 3 * RL_SECOND, spreads[i], before);
                stop_clocks(n, 300 * RL_MS, spreads[i], before);
            }
}

/* --- who attests --- */

static bool is_assigned(struct agent *agent, unsigned node)
{
    return agent_next_command(agent) & rl_bit(node) && agent->transit[node].command.write;
}

/* Node 0 was set by 300 ms; all commands of the membership are under way. */
static void open_doubtful(struct stores *stores, struct agent *agent)
{
    open_timed(stores, agent, 3);
    stores->now += RL_SECOND;
    stores->store[0].off += 300 * RL_MS;
    vote(agent, 0);
    agent_next_command(agent);
    agent_carry(agent, 0);
    agent_carry(agent, 1);
    stores->now += RL_SECOND;
}

Test(membership_clock, is_attested_by_quick_replies_to_later_commands)
{
    static const struct {
        rl_time took;
        bool attests;
    } rows[] = {
        {0, true}, {240 * RL_MS, true}, {300 * RL_MS, false}, {1001 * RL_MS, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct stores stores;
        struct agent agent;
        open_doubtful(&stores, &agent);
        cr_assert_not(is_assigned(&agent, 0));
        agent_carry(&agent, 0);
        vote_slowly(&agent, 2, rows[i].took);
        cr_assert_eq(is_assigned(&agent, 0), rows[i].attests, "row %zu", i);
    }
}

/* The node may have read its clock before ours was wrong. */
Test(membership_clock, is_not_attested_by_a_reply_to_an_earlier_command)
{
    for (rl_time earlier = 0; earlier <= 1; earlier++) {
        struct stores stores;
        struct agent agent;
        open_timed(&stores, &agent, 3);
        stores.store[0].off += 300 * RL_MS;
        vote(&agent, 0);
        stores.now += RL_MS;
        vote_slowly(&agent, 1, RL_MS + earlier);
        vote_slowly(&agent, 2, RL_MS);
        cr_assert_eq(is_assigned(&agent, 0), earlier == 0);
    }
}

/* Our clock may have been wrong before the reading after the fault. */
Test(membership_clock, is_not_attested_by_a_node_that_was_wrong_meanwhile)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, 3);
    stores.now += RL_SECOND;
    stores.store[2].off += 300 * RL_MS;
    vote(&agent, 2);
    cr_assert_eq(agent_active(&agent), 3);
    stores.store[0].off -= 300 * RL_MS; /* its last reply is older than the fault */
    vote(&agent, 0);
    stores.now += RL_SECOND;
    vote_all(&agent);
    cr_assert_not(is_assigned(&agent, 0));
    agent_run(&agent, rl_membership_quarantine(&agent.membership) + RL_SECOND);
    cr_assert_eq(agent.writes, 0);
    cr_assert_eq(agent_active(&agent), 7);
}

/* The client has read each node once, node 0 first. */
static void set_after_start(rl_time apart, bool expect_assigned)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init_greeted(&agent, &stores);
    cr_assert(vote(&agent, 0));
    stores.now += apart;
    cr_assert(vote(&agent, 1));
    cr_assert(vote(&agent, 2));
    stores.store[0].off += 300 * RL_MS;
    stores.now += RL_MS;
    cr_assert_not(vote(&agent, 0));
    agent_run(&agent, RL_SECOND);
    cr_assert_eq(agent.writes > 0, expect_assigned, "%jd us apart", (intmax_t)apart);
}

Test(membership_clock, is_attested_by_first_replies_that_come_a_second_later)
{
    set_after_start(RL_MS, true);
    set_after_start(RL_PACE_FIRST, true);
    set_after_start(RL_PACE_FIRST + 1, false);
}

/* Nodes 1 and 2 were slow to reply first. */
static void set_after_slow_start(rl_time took, bool expect_assigned)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init_greeted(&agent, &stores);
    vote_slowly(&agent, 1, took);
    vote_slowly(&agent, 2, took);
    vote(&agent, 0);
    stores.now += RL_MS;
    stores.store[0].off += 300 * RL_MS;
    cr_assert_not(vote(&agent, 0));
    agent_run(&agent, 5 * RL_SECOND);
    cr_assert_eq(agent.writes > 0, expect_assigned, "%jd us", (intmax_t)took);
}

Test(membership_clock, is_attested_by_nodes_whose_first_replies_exclude_the_change)
{
    set_after_slow_start(60 * RL_MS, true);
    set_after_slow_start(290 * RL_MS, true);
    set_after_slow_start(300 * RL_MS, false);
}

/* --- no vote at this client --- */

/* Too few others can attest: the marker stays as it is. */
static void wait_it_out(unsigned n)
{
    struct stores stores;
    struct agent agent;
    open_timed(&stores, &agent, n);
    stores.store[0].off += 400 * RL_MS;
    cr_assert_not(vote(&agent, 0));
    agent_run(&agent, RL_SECOND);
    stores.store[0].off += 400 * RL_MS;
    cr_assert_not(vote(&agent, 0));
    agent_run(&agent, rl_membership_quarantine(&agent.membership) - 1);
    cr_assert_not(vote(&agent, 0), "a quarantine after the last wrong reply");
    cr_assert_eq(agent_active(&agent), rl_all(n) & ~rl_bit(0));
    stores.now++;
    agent_work(&agent);
    cr_assert(vote(&agent, 0));
    cr_assert_eq(agent_active(&agent), rl_all(n));
    cr_assert_eq(agent.writes, 0);
}

Test(membership_clock, of_one_of_few_nodes_costs_its_vote_at_this_client_only)
{
    wait_it_out(1);
    wait_it_out(2);
}

/* Half of the drift that is allowed for the longest lock, and the rounding. */
Test(membership_clock, may_be_off_by_half_the_drift_of_the_longest_lock)
{
    rl_time slack = FIXTURE_TTL * RL_MS / 100 / 2; /* 50 ms of 10 s */
    for (int way = -1; way <= 1; way += 2) {
        struct stores stores;
        struct agent agent;
        open_timed(&stores, &agent, 3);
        stores.store[0].off = way * slack;
        cr_assert(vote(&agent, 0));
        open_timed(&stores, &agent, 3);
        stores.store[0].off = way * (slack + slack / 10);
        cr_assert_not(vote(&agent, 0));
    }
}

/* Half of the drift belongs to the rate, and at least what clocks may have anyway. */
static rl_time time_until_found(uint32_t drift_ppm, int64_t ppm)
{
    struct stores stores;
    struct agent agent;
    stores_init_bootstrapped(&stores, 3);
    agent_init(&agent, &stores);
    agent.membership.params.drift_ppm = drift_ppm;
    agent_greet_all(&agent);
    rl_time begin = stores.now;
    for (unsigned i = 0; i < 100000; i++) {
        stores.now += RL_SECOND;
        stores.store[0].off = (stores.now - begin) / 1000000 * ppm;
        if (!vote(&agent, 0))
            return stores.now - begin;
    }
    return 0;
}

Test(membership_clock, may_drift_by_the_configured_bound)
{
    cr_assert_eq(time_until_found(10000, 9900), 0);
    cr_assert_gt(time_until_found(10000, 11000), 0);
    cr_assert_eq(time_until_found(0, RL_CLOCK_PPM - 10), 0);
    cr_assert_gt(time_until_found(0, 2 * RL_CLOCK_PPM), 0);
    cr_assert_eq(time_until_found(500000, 400000), 0);
}

Test(membership_clock, of_nodes_of_no_deployment_does_not_matter)
{
    struct stores stores;
    struct agent agent;
    stores_init(&stores, 3);
    agent_init_greeted(&agent, &stores);
    cr_assert_eq(vote_all(&agent), 7);
    set_clock(&stores, 0);
    cr_assert_eq(vote_all(&agent), 7);
}

/*
 * --- a node that is being quarantined when the client's own clock turns out to have
 * stepped ---
 */

/*
 * The command that quarantines node 1 is under way; then node 0 seems off, too: two of
 * three. Its reply before that took so long that it attests node 1's change, but just so.
 */
static void open_quarantining(struct stores *stores, struct agent *agent)
{
    const rl_time change = 2 * RL_SECOND, took = change - 20 * RL_MS;
    open_timed(stores, agent, 3);
    stores->store[1].off += change;
    vote(agent, 1);
    stores->now += took;
    vote_slowly(agent, 0, took);
    vote_slowly(agent, 2, took);
    cr_assert_eq(agent_next_command(agent) & 2, 2);
    cr_assert(agent->transit[1].command.write);
    cr_assert_not(agent->transit[1].command.wanted.active);
    stores->store[0].off += change;
    vote(agent, 0);
    agent_next_command(agent);
    cr_assert_not(agent->membership.doubted & 2, "it was our clock");
    cr_assert_eq(agent_active(agent), 5);
}

Test(membership_clock, step_of_the_client_gives_no_vote_to_a_node_that_is_being_quarantined)
{
    struct stores stores;
    struct agent agent;
    open_quarantining(&stores, &agent);
    cr_assert_not(agent_may_have_a_grant(&agent, 1), "before the command was executed");
    agent_do(&agent, 1);
    cr_assert_not(agent_may_have_a_grant(&agent, 1), "after it was executed");
    agent_reply(&agent, 1);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_QUARANTINED);
    cr_assert_not(agent_may_have_a_grant(&agent, 1), "after its reply");
}

Test(membership_clock, step_of_the_client_gives_the_vote_back_if_the_command_failed)
{
    struct stores stores;
    struct agent agent;
    open_quarantining(&stores, &agent);
    agent_refuse(&agent, 1);
    cr_assert_eq(agent_state(&agent, 1), RL_MEMBER_ACTIVE);
    cr_assert(agent_may_have_a_grant(&agent, 1));
}
