/*
 * Random walks of one lease over nodes that store and expire keys as Redis does: replies
 * come late, in the order of each stream, or never; connections are cut; clocks run fast.
 * No node forgets. After every step: a lease that reported HELD holds the lock, on a
 * quorum, until the reported deadline; and a lease that is over has left nothing.
 */
#include "lease_fixture.h"
#include "prng.h"

#define NODES 5
#define QUEUE 64

enum owner { NOBODY, OURS, ANOTHER };

struct pending {
    struct rl_update round;
    rl_time ttl, sent;
    enum rl_vote vote; /* once it was executed */
};

/*
 * A node and our stream to it: first the commands that it has not read, then its replies.
 */
struct node {
    enum owner owner;
    rl_time expiry;
    rl_time fast; /* how much sooner than a TTL later its key expires, in ppm */
    struct pending queue[QUEUE];
    unsigned queued, done;
};

struct walk {
    struct lease_fixture lease_fixture;
    struct prng prng;
    struct node node[NODES];
    unsigned run;
};

static bool one_in(struct walk *walk, unsigned odds)
{
    return prng_below(&walk->prng, odds) == 0;
}

static rl_time expiry_of(const struct walk *walk, const struct node *node, rl_time ttl)
{
    return walk->lease_fixture.view.now + ttl - ttl / 1000000 * node->fast - RL_MS;
}

/* Queues what the last step sent, as it was at that moment. */
static void execute_commands(struct walk *walk)
{
    struct rl_update update = walk->lease_fixture.update;
    for (; update.send; update.send &= update.send - 1) {
        struct node *node = &walk->node[rl_first(update.send)];
        CHECK(node->queued < QUEUE, "the stream is full, run %u", walk->run);
        node->queue[node->queued++] = (struct pending){
            .round = walk->lease_fixture.update,
            .ttl = walk->lease_fixture.lease.ttl,
            .sent = walk->lease_fixture.view.now,
        };
    }
}

static void check(struct walk *walk)
{
    const struct rl_lease *lease = &walk->lease_fixture.lease;
    rl_time now = walk->lease_fixture.view.now;
    unsigned holding = 0;
    rl_node_set stored = 0;
    for (unsigned i = 0; i < NODES; i++) {
        bool ours = walk->node[i].owner == OURS && walk->node[i].expiry > now;
        stored |= ours ? rl_bit(i) : 0;
        holding += ours && walk->node[i].expiry >= lease->valid;
    }
    if (rl_lease_left(lease, now) > 0 && lease->state == RL_LEASE_HELD)
        CHECK(holding >= lease->params->q, "held by %u nodes only, run %u", holding,
              walk->run);
    /*
     * A lease that is given up because of its deadline may have been read late, and expires
     * late.
     */
    if (lease->state == RL_LEASE_OVER)
        CHECK((stored & ~lease->dirty) == 0, "over, and still on nodes %x, run %u", stored,
              walk->run);
}

static void step(struct walk *walk, struct rl_lease_event event)
{
    fixture_step(&walk->lease_fixture, event);
    execute_commands(walk);
    check(walk);
}

/* Acts as Redis and the scripts. */
static enum rl_vote carry_out(struct walk *walk, struct node *node, struct pending *pending)
{
    bool free = node->owner == NOBODY;
    bool ours = node->owner == OURS;
    bool stores = pending->round.command == RL_CMD_ACQUIRE || pending->round.recreate;
    if (pending->round.command == RL_CMD_RELEASE) {
        if (ours)
            node->owner = NOBODY;
        return ours ? RL_VOTE_GRANTED : free ? RL_VOTE_GONE : RL_VOTE_HELD;
    }
    if (pending->round.command == RL_CMD_EXTEND && ours) {
        node->expiry = expiry_of(walk, node, pending->ttl);
        return RL_VOTE_GRANTED;
    }
    if (!free || !stores)
        return free ? RL_VOTE_GONE : RL_VOTE_HELD;
    node->owner = OURS;
    node->expiry = expiry_of(walk, node, pending->ttl);
    return pending->round.command == RL_CMD_ACQUIRE ? RL_VOTE_GRANTED : RL_VOTE_RECREATED;
}

static void read_one(struct walk *walk, struct node *node)
{
    if (node->done == node->queued)
        return;
    struct pending *pending = &node->queue[node->done++];
    bool refused = one_in(walk, 12);
    pending->vote = refused ? RL_VOTE_ERROR : carry_out(walk, node, pending);
}

/* Takes the oldest command off the stream and gives its reply to the lease. */
static void answer_one(struct walk *walk, unsigned i, bool cut)
{
    struct node *node = &walk->node[i];
    struct pending pending = node->queue[0];
    memmove(&node->queue[0], &node->queue[1], --node->queued * sizeof(pending));
    node->done -= node->done > 0;
    step(walk, (struct rl_lease_event){
                   .type = RL_EVENT_VOTE,
                   .node = (uint8_t)i,
                   .seq = pending.round.seq,
                   .command = pending.round.command,
                   .vote = cut ? RL_VOTE_UNKNOWN : pending.vote,
                   .pttl = -1,
               });
}

/*
 * A prefix of what the server has not read is in its socket already, and is read after all.
 */
static void cut(struct walk *walk, unsigned i)
{
    struct node *node = &walk->node[i];
    walk->lease_fixture.view.open &= ~rl_bit(i);
    walk->lease_fixture.view.ready &= ~rl_bit(i);
    while (node->done < node->queued && one_in(walk, 2))
        read_one(walk, node);
    while (node->queued > 0)
        answer_one(walk, i, true);
}

static void connect_again(struct walk *walk, unsigned i)
{
    walk->lease_fixture.view.open |= rl_bit(i);
    walk->lease_fixture.view.ready |= rl_bit(i);
    step(walk, (struct rl_lease_event){.type = RL_EVENT_READY, .node = (uint8_t)i});
}

static void act_at(struct walk *walk, unsigned i)
{
    struct node *node = &walk->node[i];
    bool open = walk->lease_fixture.view.open & rl_bit(i);
    unsigned dice = prng_below(&walk->prng, 40);
    if (dice < 18)
        read_one(walk, node);
    else if (dice < 34 && node->done > 0)
        answer_one(walk, i, false);
    else if (dice == 34 && open)
        walk->lease_fixture.view.ready ^= rl_bit(i); /* suspect, or no longer */
    else if (dice == 35 && open)
        cut(walk, i);
    else if (dice == 36 && node->owner == NOBODY && one_in(walk, 4)) {
        node->owner = ANOTHER;
        node->expiry =
            walk->lease_fixture.view.now + prng_below(&walk->prng, 5) * RL_SECOND;
    } else if (dice > 36 && !open)
        connect_again(walk, i);
}

static void pass_time(struct walk *walk)
{
    unsigned steps = one_in(walk, 20) ? 2000 * 1000 : 10 * 1000;
    rl_time to = walk->lease_fixture.view.now + prng_below(&walk->prng, steps);
    if (one_in(walk, 3) && rl_lease_next(&walk->lease_fixture.lease) < to)
        to =
            rl_max(walk->lease_fixture.view.now, rl_lease_next(&walk->lease_fixture.lease));
    walk->lease_fixture.view.now = to;
    for (unsigned i = 0; i < NODES; i++) {
        struct node *node = &walk->node[i];
        if (node->expiry <= to)
            node->owner = NOBODY;
        if (node->queued > 0 && node->queue[0].sent + RL_SECOND <= to)
            cut(walk, i); /* no reply is awaited any longer */
    }
    if (rl_lease_next(&walk->lease_fixture.lease) <= to)
        step(walk, (struct rl_lease_event){.type = RL_EVENT_TICK});
}

static void request(struct walk *walk)
{
    static const rl_time ttls[] = {
        0, 0, RL_SECOND, 3 * RL_SECOND, 10 * RL_SECOND, 40 * RL_SECOND};
    if (one_in(walk, 8))
        step(walk, (struct rl_lease_event){.type = RL_EVENT_RELEASE});
    else
        step(walk, (struct rl_lease_event){.type = RL_EVENT_EXTEND,
                                           .ttl = ttls[prng_below(&walk->prng, 6)]});
}

static void walk_once(struct walk *walk, const struct rl_lease_params *params)
{
    fixture_init(&walk->lease_fixture, params);
    for (unsigned i = 0; i < NODES; i++)
        walk->node[i] = (struct node){.fast = prng_below(&walk->prng, 10001)};
    if (one_in(walk, 3))
        walk->lease_fixture.view.ready &= ~rl_bit(prng_below(&walk->prng, NODES));
    step(walk, (struct rl_lease_event){.type = RL_EVENT_START});
    for (unsigned i = 0; i < 600 && walk->lease_fixture.lease.state != RL_LEASE_OVER; i++) {
        unsigned dice = prng_below(&walk->prng, 100);
        if (dice < 15)
            pass_time(walk);
        else if (dice < 16)
            request(walk);
        else
            act_at(walk, prng_below(&walk->prng, NODES));
    }
}

/* How many walks had each report, so that the walks are known to reach all of them. */
static void walk_all(struct rl_lease_params params, uint64_t seed)
{
    struct walk walk = {.prng = {seed}};
    unsigned saw[REPORT_KINDS] = {0}, over = 0;
    for (walk.run = 0; walk.run < 3000; walk.run++) {
        walk_once(&walk, &params);
        for (unsigned i = 0; i < REPORT_KINDS; i++)
            saw[i] += walk.lease_fixture.reported[i] > 0;
        over += walk.lease_fixture.lease.state == RL_LEASE_OVER;
    }
    for (unsigned i = 0; i < REPORT_KINDS; i++)
        if (params.extend_every > 0 || (1 << i) != RL_REPORT_RENEWED)
            cr_assert_gt(saw[i], 20, "news %u", i);
    cr_assert_gt(over, 100);
}

Test(walk, with_a_watchdog)
{
    struct rl_lease_params params = fixture_params(NODES, 3);
    params.extend_every = params.ttl / 3;
    walk_all(params, 1);
}

Test(walk, without_a_watchdog)
{
    walk_all(fixture_params(NODES, 3), 2);
}

Test(walk, with_a_larger_quorum_and_a_margin)
{
    struct rl_lease_params params = fixture_params(NODES, 4);
    params.extend_every = params.ttl / 3;
    params.margin = 300 * RL_MS;
    params.min_validity = RL_SECOND;
    walk_all(params, 3);
}

Test(walk, with_a_short_ttl_and_a_long_timeout)
{
    struct rl_lease_params params = fixture_params(NODES, 3);
    params.ttl = 500 * RL_MS;
    params.extend_every = params.ttl / 3;
    params.node_timeout = RL_SECOND;
    params.max_hold = 4 * RL_SECOND;
    walk_all(params, 4);
}
