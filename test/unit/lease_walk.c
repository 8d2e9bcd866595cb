/*
 * Random walks of one lease over nodes that store and expire keys as Redis does: answers
 * come late, in the order of each stream, or never; connections are cut; clocks run fast.
 * No node forgets. After every step: whoever is told that it holds the lock does hold it,
 * on a quorum, until the deadline that it was told; and what is over has left nothing.
 */
#include "chance.h"
#include "desk.h"

#define NODES 5
#define QUEUE 64

enum owner { NOBODY, OURS, ANOTHER };

struct order {
    struct rl_update round;
    rl_time ttl, sent;
    enum rl_vote vote; /* once it was done */
};

/* A node and our stream to it: first the orders that it has not read, then its answers. */
struct node {
    enum owner owner;
    rl_time expiry;
    rl_time fast; /* how much sooner than a TTL later its key expires, in ppm */
    struct order order[QUEUE];
    unsigned orders, done;
};

struct walk {
    struct desk desk;
    struct chance chance;
    struct node node[NODES];
    unsigned run;
};

static bool one_in(struct walk *walk, unsigned odds)
{
    return chance_below(&walk->chance, odds) == 0;
}

static rl_time expiry_of(const struct walk *walk, const struct node *node, rl_time ttl)
{
    return walk->desk.view.now + ttl - ttl / 1000000 * node->fast - RL_MS;
}

/* Queues what the last step sent, as it was at that moment. */
static void take_orders(struct walk *walk)
{
    struct rl_update update = walk->desk.update;
    for (; update.send; update.send &= update.send - 1) {
        struct node *node = &walk->node[rl_first(update.send)];
        CHECK(node->orders < QUEUE, "the stream is full, run %u", walk->run);
        node->order[node->orders++] = (struct order){
            .round = walk->desk.update,
            .ttl = walk->desk.lease.ttl,
            .sent = walk->desk.view.now,
        };
    }
}

static void check(struct walk *walk)
{
    const struct rl_lease *lease = &walk->desk.lease;
    rl_time now = walk->desk.view.now;
    unsigned holding = 0;
    rl_nodes stored = 0;
    for (unsigned i = 0; i < NODES; i++) {
        bool ours = walk->node[i].owner == OURS && walk->node[i].expiry > now;
        stored |= ours ? rl_bit(i) : 0;
        holding += ours && walk->node[i].expiry >= lease->valid;
    }
    if (rl_lease_left(lease, now) > 0 && lease->state == RL_LEASE_HELD)
        CHECK(holding >= lease->terms->q, "held by %u nodes only, run %u", holding,
              walk->run);
    /* What is given up by its time may have been read late, and expires late. */
    if (lease->state == RL_LEASE_OVER)
        CHECK((stored & ~lease->dirty) == 0, "over, and still on nodes %x, run %u", stored,
              walk->run);
}

static void step(struct walk *walk, struct rl_lease_event event)
{
    desk_step(&walk->desk, event);
    take_orders(walk);
    check(walk);
}

/* What Redis and the scripts do. */
static enum rl_vote carry_out(struct walk *walk, struct node *node, struct order *order)
{
    bool free = node->owner == NOBODY;
    bool ours = node->owner == OURS;
    bool plants = order->round.text == RL_ACQUIRE || order->round.plant;
    if (order->round.text == RL_RELEASE) {
        if (ours)
            node->owner = NOBODY;
        return ours ? RL_VOTE_GRANTED : free ? RL_VOTE_GONE : RL_VOTE_HELD;
    }
    if (order->round.text == RL_EXTEND && ours) {
        node->expiry = expiry_of(walk, node, order->ttl);
        return RL_VOTE_GRANTED;
    }
    if (!free || !plants)
        return free ? RL_VOTE_GONE : RL_VOTE_HELD;
    node->owner = OURS;
    node->expiry = expiry_of(walk, node, order->ttl);
    return order->round.text == RL_ACQUIRE ? RL_VOTE_GRANTED : RL_VOTE_PLANTED;
}

static void read_one(struct walk *walk, struct node *node)
{
    if (node->done == node->orders)
        return;
    struct order *order = &node->order[node->done++];
    bool refused = one_in(walk, 12);
    order->vote = refused ? RL_VOTE_ERROR : carry_out(walk, node, order);
}

/* Takes the oldest order off the stream and tells the lease what became of it. */
static void answer_one(struct walk *walk, unsigned i, bool cut)
{
    struct node *node = &walk->node[i];
    struct order order = node->order[0];
    memmove(&node->order[0], &node->order[1], --node->orders * sizeof(order));
    node->done -= node->done > 0;
    step(walk, (struct rl_lease_event){
                   .type = RL_EVENT_VOTE,
                   .node = (uint8_t)i,
                   .seq = order.round.seq,
                   .text = order.round.text,
                   .vote = cut ? RL_VOTE_UNKNOWN : order.vote,
                   .pttl = -1,
               });
}

/* Some of what the server has not read is in its socket already, and is read after all. */
static void cut(struct walk *walk, unsigned i)
{
    struct node *node = &walk->node[i];
    walk->desk.view.open &= ~rl_bit(i);
    walk->desk.view.ready &= ~rl_bit(i);
    while (node->done < node->orders && one_in(walk, 2))
        read_one(walk, node);
    while (node->orders > 0)
        answer_one(walk, i, true);
}

static void connect_again(struct walk *walk, unsigned i)
{
    walk->desk.view.open |= rl_bit(i);
    walk->desk.view.ready |= rl_bit(i);
    step(walk, (struct rl_lease_event){.type = RL_EVENT_READY, .node = (uint8_t)i});
}

static void act_at(struct walk *walk, unsigned i)
{
    struct node *node = &walk->node[i];
    bool open = walk->desk.view.open & rl_bit(i);
    unsigned dice = chance_below(&walk->chance, 40);
    if (dice < 18)
        read_one(walk, node);
    else if (dice < 34 && node->done > 0)
        answer_one(walk, i, false);
    else if (dice == 34 && open)
        walk->desk.view.ready ^= rl_bit(i); /* suspect, or no longer */
    else if (dice == 35 && open)
        cut(walk, i);
    else if (dice == 36 && node->owner == NOBODY && one_in(walk, 4)) {
        node->owner = ANOTHER;
        node->expiry = walk->desk.view.now + chance_below(&walk->chance, 5) * RL_SECOND;
    } else if (dice > 36 && !open)
        connect_again(walk, i);
}

static void pass_time(struct walk *walk)
{
    unsigned steps = one_in(walk, 20) ? 2000 * 1000 : 10 * 1000;
    rl_time to = walk->desk.view.now + chance_below(&walk->chance, steps);
    if (one_in(walk, 3) && rl_lease_next(&walk->desk.lease) < to)
        to = rl_max(walk->desk.view.now, rl_lease_next(&walk->desk.lease));
    walk->desk.view.now = to;
    for (unsigned i = 0; i < NODES; i++) {
        struct node *node = &walk->node[i];
        if (node->expiry <= to)
            node->owner = NOBODY;
        if (node->orders > 0 && node->order[0].sent + RL_SECOND <= to)
            cut(walk, i); /* nobody waits longer for an answer */
    }
    if (rl_lease_next(&walk->desk.lease) <= to)
        step(walk, (struct rl_lease_event){.type = RL_EVENT_TICK});
}

static void wish(struct walk *walk)
{
    static const rl_time ttls[] = {
        0, 0, RL_SECOND, 3 * RL_SECOND, 10 * RL_SECOND, 40 * RL_SECOND};
    if (one_in(walk, 8))
        step(walk, (struct rl_lease_event){.type = RL_EVENT_RELEASE});
    else
        step(walk, (struct rl_lease_event){.type = RL_EVENT_EXTEND,
                                           .ttl = ttls[chance_below(&walk->chance, 6)]});
}

static void walk_once(struct walk *walk, const struct rl_terms *terms)
{
    desk_init(&walk->desk, terms);
    for (unsigned i = 0; i < NODES; i++)
        walk->node[i] = (struct node){.fast = chance_below(&walk->chance, 10001)};
    if (one_in(walk, 3))
        walk->desk.view.ready &= ~rl_bit(chance_below(&walk->chance, NODES));
    step(walk, (struct rl_lease_event){.type = RL_EVENT_START});
    for (unsigned i = 0; i < 600 && walk->desk.lease.state != RL_LEASE_OVER; i++) {
        unsigned dice = chance_below(&walk->chance, 100);
        if (dice < 15)
            pass_time(walk);
        else if (dice < 16)
            wish(walk);
        else
            act_at(walk, chance_below(&walk->chance, NODES));
    }
}

/* How many walks saw each news, so that the walks are known to go everywhere. */
static void walk_all(struct rl_terms terms, uint64_t seed)
{
    struct walk walk = {.chance = {seed}};
    unsigned saw[NEWS_KINDS] = {0}, over = 0;
    for (walk.run = 0; walk.run < 3000; walk.run++) {
        walk_once(&walk, &terms);
        for (unsigned i = 0; i < NEWS_KINDS; i++)
            saw[i] += walk.desk.told[i] > 0;
        over += walk.desk.lease.state == RL_LEASE_OVER;
    }
    for (unsigned i = 0; i < NEWS_KINDS; i++)
        if (terms.extend_every > 0 || (1 << i) != RL_NEWS_RENEWED)
            cr_assert_gt(saw[i], 20, "news %u", i);
    cr_assert_gt(over, 100);
}

Test(walk, with_a_watchdog)
{
    struct rl_terms terms = desk_terms(NODES, 3);
    terms.extend_every = terms.ttl / 3;
    walk_all(terms, 1);
}

Test(walk, without_a_watchdog)
{
    walk_all(desk_terms(NODES, 3), 2);
}

Test(walk, with_a_larger_quorum_and_a_margin)
{
    struct rl_terms terms = desk_terms(NODES, 4);
    terms.extend_every = terms.ttl / 3;
    terms.margin = 300 * RL_MS;
    terms.min_validity = RL_SECOND;
    walk_all(terms, 3);
}

Test(walk, with_a_short_ttl_and_a_long_timeout)
{
    struct rl_terms terms = desk_terms(NODES, 3);
    terms.ttl = 500 * RL_MS;
    terms.extend_every = terms.ttl / 3;
    terms.node_timeout = RL_SECOND;
    terms.max_hold = 4 * RL_SECOND;
    walk_all(terms, 4);
}
