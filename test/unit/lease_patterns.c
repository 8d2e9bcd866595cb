/* Every pattern of grants, refusals and silence, through the whole life of a lease. */
#include "lease_fixture.h"
#include "prng.h"

enum { GRANT, REFUSE, SILENCE };

/* One attempt: how the nodes reply, in which order, and the result. */
struct attempt {
    unsigned n, q;
    int answer[RL_NODES_MAX];
    enum rl_vote refusal[RL_NODES_MAX]; /* the refusing nodes: HELD or ERROR */
    unsigned order[RL_NODES_MAX];
    rl_node_set grants, refusals, silent, held;
};

static void make(struct attempt *attempt, unsigned pattern, struct prng *prng)
{
    attempt->grants = attempt->refusals = attempt->silent = attempt->held = 0;
    prng_shuffle(prng, attempt->order, attempt->n);
    for (unsigned node = 0; node < attempt->n; node++, pattern /= 3) {
        rl_node_set bit = rl_bit(node);
        attempt->answer[node] = (int)(pattern % 3);
        attempt->refusal[node] = prng_below(prng, 3) ? RL_VOTE_HELD : RL_VOTE_ERROR;
        switch (attempt->answer[node]) {
        case GRANT: attempt->grants |= bit; break;
        case REFUSE:
            attempt->refusals |= bit;
            if (attempt->refusal[node] == RL_VOTE_HELD)
                attempt->held |= bit;
            break;
        default: attempt->silent |= bit; break;
        }
    }
}

static enum rl_vote vote_of(const struct attempt *attempt, unsigned node)
{
    return attempt->answer[node] == GRANT ? RL_VOTE_GRANTED : attempt->refusal[node];
}

/* The votes as they come; the decision must come with the vote that decides. */
static void vote_all(struct lease_fixture *lease_fixture, const struct attempt *attempt)
{
    struct rl_update round = lease_fixture->sent;
    unsigned grants = 0, refusals = 0;
    for (unsigned i = 0; i < attempt->n; i++) {
        unsigned node = attempt->order[i];
        if (attempt->answer[node] == SILENCE)
            continue;
        fixture_answer(lease_fixture, round, node, vote_of(attempt, node), -1);
        if (attempt->answer[node] == GRANT)
            grants++;
        else
            refusals++;
        bool won = grants >= attempt->q, lost = refusals > attempt->n - attempt->q;
        enum rl_lease_state state = won    ? RL_LEASE_HELD
                                    : lost ? RL_LEASE_ABORTING
                                           : RL_LEASE_ACQUIRING;
        CHECK(lease_fixture->lease.state == state, "n %u, vote %u", attempt->n, i);
        CHECK(fixture_reports(lease_fixture, RL_REPORT_HELD) == won, "n %u, vote %u",
              attempt->n, i);
    }
    if (lease_fixture->lease.state == RL_LEASE_ACQUIRING)
        fixture_tick(lease_fixture); /* the other nodes are silent */
}

static void check_won(struct lease_fixture *lease_fixture, const struct attempt *attempt)
{
    CHECK(lease_fixture->lease.state == RL_LEASE_HELD, "a quorum granted");
    CHECK(lease_fixture->lease.holding == attempt->grants, "who granted");
    CHECK(lease_fixture->ever[RL_CMD_RELEASE] == 0, "a held lock is not released");
    CHECK((lease_fixture->lease.dirty & attempt->refusals) == 0,
          "a node that refused stores nothing");
    fixture_event(lease_fixture, RL_EVENT_RELEASE);
    CHECK(lease_fixture->update.send == rl_all(attempt->n), "the release goes to all");
    fixture_votes(lease_fixture, rl_all(attempt->n), RL_VOTE_GRANTED);
    CHECK(fixture_reports(lease_fixture, RL_REPORT_RELEASED) == 1, "a release is reported");
}

static void check_lost(struct lease_fixture *lease_fixture, const struct attempt *attempt)
{
    rl_node_set all = rl_all(attempt->n);
    CHECK(lease_fixture->lease.state == RL_LEASE_ABORTING, "no quorum granted");
    CHECK(lease_fixture->ever[RL_CMD_RELEASE] == all,
          "the release goes to all, the silent ones too");
    CHECK(fixture_reports(lease_fixture, RL_REPORT_FAILED) == 0,
          "it is reported after its releases");
    fixture_votes(lease_fixture, attempt->grants, RL_VOTE_GRANTED);
    fixture_votes(lease_fixture, attempt->held, RL_VOTE_HELD);
    fixture_votes(lease_fixture, attempt->refusals & ~attempt->held, RL_VOTE_GONE);
    if (attempt->silent) {
        CHECK(lease_fixture->lease.state == RL_LEASE_ABORTING, "it waits for silent nodes");
        fixture_tick(lease_fixture);
    }
    CHECK(fixture_reports(lease_fixture, RL_REPORT_FAILED) == 1, "told once");
    CHECK(lease_fixture->lease.dirty == attempt->silent, "what may still store the token");
    CHECK(lease_fixture->lease.state ==
              (attempt->silent ? RL_LEASE_CLEANUP : RL_LEASE_OVER),
          "over when nothing is left");
    unsigned held = rl_count(attempt->held), grants = rl_count(attempt->grants);
    enum rl_cause cause =
        held > 0 && held + grants >= attempt->q ? RL_CAUSE_TAKEN : RL_CAUSE_NO_QUORUM;
    CHECK(lease_fixture->lease.cause == cause, "%u held, %u grants of %u", held, grants,
          attempt->q);
}

static void run(struct attempt *attempt)
{
    struct lease_fixture lease_fixture;
    struct rl_lease_params params = fixture_params(attempt->n, attempt->q);
    fixture_start_with(&lease_fixture, &params);
    CHECK(lease_fixture.sent.send == rl_all(attempt->n), "the acquire goes to all");
    vote_all(&lease_fixture, attempt);
    if (rl_count(attempt->grants) >= attempt->q)
        check_won(&lease_fixture, attempt);
    else
        check_lost(&lease_fixture, attempt);
    unsigned ends = fixture_reports(&lease_fixture, RL_REPORT_HELD) +
                    fixture_reports(&lease_fixture, RL_REPORT_FAILED);
    CHECK(ends == 1, "an acquire ends once");
}

static void run_all(unsigned n)
{
    struct prng prng = {n};
    struct attempt attempt = {.n = n};
    unsigned patterns = 1;
    for (unsigned i = 0; i < n; i++)
        patterns *= 3;
    for (attempt.q = rl_majority(n); attempt.q <= n; attempt.q++) {
        for (unsigned pattern = 0; pattern < patterns; pattern++) {
            for (unsigned order = 0; order < 3; order++) {
                make(&attempt, pattern, &prng);
                run(&attempt);
            }
        }
    }
}

Test(patterns, of_1_to_4_nodes)
{
    for (unsigned n = 1; n <= 4; n++)
        run_all(n);
}

Test(patterns, of_5_nodes)
{
    run_all(5);
}

Test(patterns, of_6_nodes)
{
    run_all(6);
}

Test(patterns, of_7_nodes)
{
    run_all(7);
}

Test(patterns, at_random_up_to_the_most_nodes)
{
    struct prng prng = {7};
    for (unsigned i = 0; i < 5000; i++) {
        struct attempt attempt = {.n = 1 + prng_below(&prng, RL_NODES_MAX)};
        unsigned least = rl_majority(attempt.n);
        attempt.q = least + prng_below(&prng, attempt.n - least + 1);
        make(&attempt, (unsigned)prng_bits(&prng), &prng);
        run(&attempt);
    }
}
