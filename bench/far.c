#include "far.h"

#include <math.h>
#include <string.h>

/* --- random times --- */

static rl_time exponential(struct far *far, rl_time mean)
{
    double unit = (double)((prng_bits(&far->prng) >> 11) + 1) / 9007199254740992.0;
    return (rl_time)(-log(unit) * (double)mean);
}

/* How long a message takes from the client to this node, or back. */
static rl_time way(struct far *far, unsigned i)
{
    const struct far_terms *terms = &far->terms;
    rl_time least = terms->round_trip[i] / 2;
    rl_time took = least + exponential(far, least / FAR_JITTER_SHARE + FAR_JITTER_MORE);
    if (terms->loss && prng_below(&far->prng, terms->loss) == 0)
        took += FAR_RETRANSMISSION + terms->round_trip[i];
    return took;
}

/* --- nodes --- */

/* A node that is down refuses the connection, unless it is silent. */
static void look_at_connecting(struct far *far, unsigned i)
{
    struct far_node *node = &far->node[i];
    enum rl_link_state state = far->world.node[i].link.state;
    bool under_way = state == RL_LINK_CONNECTING || state == RL_LINK_GREETING;
    if (!under_way)
        node->step = RL_NEVER;
    else if (node->step == RL_NEVER && (node->up || !node->silent))
        node->step = far->world.view.now + way(far, i) + way(far, i);
}

/* The node replies at once to what arrives. */
static void schedule_replies(struct far *far, unsigned i)
{
    struct far_node *node = &far->node[i];
    const struct world_node *sent = &far->world.node[i];
    if (node->pending > sent->pending_count) /* the connection has ended */
        node->pending = 0;
    while (node->pending < sent->pending_count) {
        node->there = rl_max(node->there, far->world.view.now + way(far, i));
        node->back = rl_max(node->back, node->there + way(far, i));
        node->arrives[node->pending++] = node->up ? node->back : RL_NEVER;
    }
}

static void look(struct far *far)
{
    for (unsigned i = 0; i < far->terms.n; i++) {
        look_at_connecting(far, i);
        schedule_replies(far, i);
    }
}

static void take_connecting_step(struct far *far, unsigned i)
{
    struct far_node *node = &far->node[i];
    node->step = RL_NEVER;
    if (!node->up)
        world_cut(&far->world, i);
    else if (!world_connect(&far->world, i))
        world_greet(&far->world, i, (struct rl_identity){.is_master = true});
}

/* The reply to the oldest command. No other client uses the key, so nothing is refused. */
static void reply_oldest(struct far *far, unsigned i)
{
    struct far_node *node = &far->node[i];
    bool acquires = far->world.node[i].pending[0].command == RL_CMD_ACQUIRE;
    bool granted = acquires || node->stores;
    node->stores = acquires;
    memmove(&node->arrives[0], &node->arrives[1],
            --node->pending * sizeof(node->arrives[0]));
    world_reply(&far->world, i, granted ? RL_VOTE_GRANTED : RL_VOTE_GONE, RL_FAULT_NONE,
                -1);
}

/*
 * Its process ends, and its kernel resets the connections; or a new process has begun
 * without memory.
 */
static void turn(struct far *far, unsigned i)
{
    struct far_node *node = &far->node[i];
    struct world_node *seen = &far->world.node[i];
    rl_time now = far->world.view.now;
    node->up = !node->up;
    node->turns = now + exponential(far, node->up ? far->terms.mtbf : far->terms.mttr);
    if (node->up)
        return;
    seen->letter = seen->letter == 'a' ? 'b' : 'a';
    node->stores = false;
    node->cut = now + way(far, i);
    for (unsigned k = 0; k < node->pending; k++)
        node->arrives[k] = RL_NEVER;
}

static rl_time next_of(const struct far_node *node)
{
    rl_time next = rl_min(rl_min(node->turns, node->cut), node->step);
    return node->pending > 0 ? rl_min(next, node->arrives[0]) : next;
}

static void happen(struct far *far, unsigned i)
{
    struct far_node *node = &far->node[i];
    rl_time now = far->world.view.now;
    if (node->cut <= now) {
        node->cut = RL_NEVER;
        if (far->world.node[i].link.state != RL_LINK_DOWN)
            world_cut(&far->world, i);
    } else if (node->step <= now) {
        take_connecting_step(far, i);
    } else if (node->pending > 0 && node->arrives[0] <= now) {
        reply_oldest(far, i);
    } else {
        turn(far, i);
    }
}

/* --- time --- */

/* Runs one event until then, the timers first; false: there is none. */
static bool pass(struct far *far, rl_time until)
{
    rl_time next = RL_NEVER;
    unsigned who = 0;
    for (unsigned i = 0; i < far->terms.n; i++) {
        rl_time at = next_of(&far->node[i]);
        who = at < next ? i : who;
        next = rl_min(next, at);
    }
    bool ticked = world_tick(&far->world, rl_min(next, until));
    if (!ticked && next > until)
        return false;
    if (!ticked) {
        world_at(&far->world, next);
        happen(far, who);
        world_done(&far->world);
    }
    look(far);
    return true;
}

void far_wait(struct far *far, rl_time span)
{
    rl_time until = far->world.view.now + span;
    while (pass(far, until))
        ;
    world_at(&far->world, until);
}

void far_lose(struct far *far, rl_node_set nodes)
{
    for (; nodes; nodes &= nodes - 1) {
        struct far_node *node = &far->node[rl_first(nodes)];
        node->up = false;
        node->silent = true;
    }
}

void far_init(struct far *far, const struct far_terms *terms, uint64_t seed)
{
    memset(far, 0, sizeof(*far));
    far->terms = *terms;
    far->prng.state = seed;
    far->world.params = (struct rl_lease_params){
        .n = (uint8_t)terms->n,
        .q = (uint8_t)rl_majority(terms->n),
        .ttl = terms->ttl,
        .max_hold = RL_NEVER,
        .drift_ppm = 10000,
    };
    far->world.link_params = (struct rl_link_params){
        .connect_timeout = RL_SECOND,
        .quarantine = terms->quarantine,
    };
    for (unsigned i = 0; i < terms->n; i++)
        far->node[i] = (struct far_node){
            .up = true,
            .turns = terms->mtbf ? exponential(far, terms->mtbf) : RL_NEVER,
            .cut = RL_NEVER,
            .step = RL_NEVER,
        };
    world_init(&far->world);
    look(far);
    far_wait(far, FAR_LOCKS_GAP);
}

/* --- a lock --- */

static void step(struct far *far, enum rl_lease_event_type type)
{
    world_step(&far->world, (struct rl_lease_event){.type = type});
    look(far);
}

/* Runs until the machine has left this state; returns how long that took. */
static rl_time leave_state(struct far *far, enum rl_lease_state state)
{
    rl_time from = far->world.view.now;
    while (far->world.lease.state == state && pass(far, RL_NEVER - 1))
        ;
    return far->world.view.now - from;
}

static bool owes_answers(const struct far *far)
{
    for (unsigned i = 0; i < far->terms.n; i++)
        if (far->world.node[i].pending_count > 0)
            return true;
    return false;
}

struct far_lock far_lock(struct far *far)
{
    struct far_lock lock = {0};
    struct world *world = &far->world;
    rl_lease_init(&world->lease, &world->params, world->ballot, NULL);
    step(far, RL_EVENT_START);
    lock.acquire = leave_state(far, RL_LEASE_ACQUIRING);
    lock.held = world->lease.state == RL_LEASE_HELD;
    if (lock.held) {
        lock.left = rl_lease_left(&world->lease, world->view.now);
        far_wait(far, FAR_HOLD);
        step(far, RL_EVENT_RELEASE);
        lock.release = leave_state(far, RL_LEASE_RELEASING);
        lock.released = world->lease.cause == RL_CAUSE_NONE;
    } else {
        leave_state(far, RL_LEASE_ABORTING);
    }
    /* The next lock's machine must not get the events of this one. */
    while (owes_answers(far) && pass(far, RL_NEVER - 1))
        ;
    return lock;
}
