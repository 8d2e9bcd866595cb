/* Every pattern of grant, refusal and silence, through a whole lease. */
#include "chance.h"
#include "desk.h"

enum { GRANT, REFUSE, SILENCE };

/* One attempt: how the nodes answer, in which order, and what came of it. */
struct attempt {
    unsigned n, q;
    int answer[RL_NODES_MAX];
    enum rl_vote refusal[RL_NODES_MAX]; /* of those who refuse: HELD or ERROR */
    unsigned order[RL_NODES_MAX];
    rl_nodes grants, refusals, silent, held;
};

static void make(struct attempt *attempt, unsigned pattern, struct chance *chance)
{
    attempt->grants = attempt->refusals = attempt->silent = attempt->held = 0;
    chance_order(chance, attempt->order, attempt->n);
    for (unsigned node = 0; node < attempt->n; node++, pattern /= 3) {
        rl_nodes bit = rl_bit(node);
        attempt->answer[node] = (int)(pattern % 3);
        attempt->refusal[node] = chance_below(chance, 3) ? RL_VOTE_HELD : RL_VOTE_ERROR;
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

/* The votes as they come; the verdict must fall with the very vote that decides. */
static void vote_all(struct desk *desk, const struct attempt *attempt)
{
    struct rl_update round = desk->sent;
    unsigned grants = 0, refusals = 0;
    for (unsigned i = 0; i < attempt->n; i++) {
        unsigned node = attempt->order[i];
        if (attempt->answer[node] == SILENCE)
            continue;
        desk_answer(desk, round, node, vote_of(attempt, node), -1);
        if (attempt->answer[node] == GRANT)
            grants++;
        else
            refusals++;
        bool won = grants >= attempt->q, lost = refusals > attempt->n - attempt->q;
        enum rl_lease_state state = won    ? RL_LEASE_HELD
                                    : lost ? RL_LEASE_BACKING_OUT
                                           : RL_LEASE_ACQUIRING;
        CHECK(desk->lease.state == state, "n %u, vote %u", attempt->n, i);
        CHECK(desk_told(desk, RL_NEWS_HELD) == won, "n %u, vote %u", attempt->n, i);
    }
    if (desk->lease.state == RL_LEASE_ACQUIRING)
        desk_tick(desk); /* the others are silent */
}

static void check_won(struct desk *desk, const struct attempt *attempt)
{
    CHECK(desk->lease.state == RL_LEASE_HELD, "a quorum granted");
    CHECK(desk->lease.holding == attempt->grants, "who granted");
    CHECK(desk->ever[RL_RELEASE] == 0, "a held lock is not released");
    CHECK((desk->lease.dirty & attempt->refusals) == 0, "who refused stores nothing");
    desk_say(desk, RL_EVENT_RELEASE);
    CHECK(desk->update.send == rl_all(attempt->n), "the release goes to all");
    desk_votes(desk, rl_all(attempt->n), RL_VOTE_GRANTED);
    CHECK(desk_told(desk, RL_NEWS_RELEASED) == 1, "a release is told");
}

static void check_lost(struct desk *desk, const struct attempt *attempt)
{
    rl_nodes all = rl_all(attempt->n);
    CHECK(desk->lease.state == RL_LEASE_BACKING_OUT, "no quorum granted");
    CHECK(desk->ever[RL_RELEASE] == all, "the release goes to all, the silent ones too");
    CHECK(desk_told(desk, RL_NEWS_FAILED) == 0, "it is told after its releases");
    desk_votes(desk, attempt->grants, RL_VOTE_GRANTED);
    desk_votes(desk, attempt->held, RL_VOTE_HELD);
    desk_votes(desk, attempt->refusals & ~attempt->held, RL_VOTE_GONE);
    if (attempt->silent) {
        CHECK(desk->lease.state == RL_LEASE_BACKING_OUT, "silent nodes are waited for");
        desk_tick(desk);
    }
    CHECK(desk_told(desk, RL_NEWS_FAILED) == 1, "told once");
    CHECK(desk->lease.dirty == attempt->silent, "what may still store the token");
    CHECK(desk->lease.state == (attempt->silent ? RL_LEASE_LINGERING : RL_LEASE_OVER),
          "over when nothing is left");
    unsigned held = rl_count(attempt->held), grants = rl_count(attempt->grants);
    enum rl_cause cause =
        held > 0 && held + grants >= attempt->q ? RL_CAUSE_TAKEN : RL_CAUSE_NO_QUORUM;
    CHECK(desk->lease.cause == cause, "%u held, %u grants of %u", held, grants, attempt->q);
}

static void run(struct attempt *attempt)
{
    struct desk desk;
    struct rl_terms terms = desk_terms(attempt->n, attempt->q);
    desk_init(&desk, &terms);
    desk_say(&desk, RL_EVENT_START);
    CHECK(desk.sent.send == rl_all(attempt->n), "all are asked");
    vote_all(&desk, attempt);
    if (rl_count(attempt->grants) >= attempt->q)
        check_won(&desk, attempt);
    else
        check_lost(&desk, attempt);
    unsigned ends = desk_told(&desk, RL_NEWS_HELD) + desk_told(&desk, RL_NEWS_FAILED);
    CHECK(ends == 1, "an acquire ends once");
}

static void run_all(unsigned n)
{
    struct chance chance = {n};
    struct attempt attempt = {.n = n};
    unsigned patterns = 1;
    for (unsigned i = 0; i < n; i++)
        patterns *= 3;
    for (attempt.q = rl_majority(n); attempt.q <= n; attempt.q++) {
        for (unsigned pattern = 0; pattern < patterns; pattern++) {
            for (unsigned order = 0; order < 3; order++) {
                make(&attempt, pattern, &chance);
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
    struct chance chance = {7};
    for (unsigned i = 0; i < 5000; i++) {
        struct attempt attempt = {.n = 1 + chance_below(&chance, RL_NODES_MAX)};
        unsigned least = rl_majority(attempt.n);
        attempt.q = least + chance_below(&chance, attempt.n - least + 1);
        make(&attempt, (unsigned)chance_bits(&chance), &chance);
        run(&attempt);
    }
}
