#include "swarm.h"

#include "core/quorum.h"

const char *mishap_text(enum mishap mishap)
{
    static const char *const texts[] = {
#define X(name, text) text,
        MISHAPS(X)
#undef X
    };
    return texts[mishap];
}

rl_time draw_between(struct prng *prng, rl_time low, rl_time high)
{
    uint64_t span = (uint64_t)(high - low) + 1;
    return low + (rl_time)(prng_bits(prng) % span);
}

static int magnitude(rl_time value)
{
    return 63 - __builtin_clzll((unsigned long long)value | 1);
}

rl_time draw_span(struct prng *prng, rl_time low, rl_time high)
{
    rl_time bits = draw_between(prng, magnitude(low), magnitude(high));
    rl_time least = INT64_C(1) << bits;
    return rl_clamp(draw_between(prng, least, 2 * least), low, high);
}

bool draw_once_in(struct prng *prng, unsigned times)
{
    return times > 0 && prng_below(prng, times) == 0;
}

int32_t swarm_loss(const struct swarm *swarm)
{
    return (int32_t)swarm->drift_ppm / 2;
}

/* (1 - loss) / (1 + gain) = 1 - drift: what a key lasts, by the slow clock. */
int32_t swarm_gain(const struct swarm *swarm)
{
    int64_t drift = swarm->drift_ppm;
    return (int32_t)((drift - swarm_loss(swarm)) * 1000000 / (1000000 - drift));
}

#define FENCED_DRIFT 1000

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Nonsense, too: if it can be read, it tells a time, and so of a clock that was set. */
static const enum mishap disturbing[] = {
    MISHAP_SUSPEND, MISHAP_RESTART, MISHAP_FORGET, MISHAP_FLUSH,
    MISHAP_GARBAGE, MISHAP_STEP,    MISHAP_SLEW,   MISHAP_FREEZE,
    MISHAP_SWAP,    MISHAP_REPLACE, MISHAP_TYPO,
};

bool swarm_disturbs(const struct swarm *swarm)
{
    for (unsigned i = 0; i < COUNT(disturbing); i++)
        if (swarm->weight[disturbing[i]] > 0)
            return true;
    return swarm->unfounded;
}

/*
 * Nodes whose clocks are set by hours are seen, but a seat that was lost meanwhile would
 * take its fences from them: so in such a run nothing is forgotten.
 */
static void draw_fenced(struct swarm *swarm, struct prng *prng)
{
    bool stepped = swarm->weight[MISHAP_STEP] + swarm->weight[MISHAP_FREEZE] > 0;
    swarm->events += 500 + prng_below(prng, 2500);
    swarm->idle = draw_once_in(prng, 2) ? draw_span(prng, RL_SECOND, 20 * RL_SECOND) : 0;
    swarm->slow = swarm->idle > 0 && draw_once_in(prng, 2);
    if (swarm->slow)
        swarm->events += 3000;
    swarm->unfounded = !swarm->duplicate && draw_once_in(prng, 8);
    swarm->hasty = swarm_disturbs(swarm) && draw_once_in(prng, 4);
    swarm->distant = stepped && draw_once_in(prng, 4);
    if (!swarm->distant)
        return;
    unsigned first = prng_below(prng, NODES);
    swarm->victims =
        rl_bit(first) | rl_bit((first + 1 + prng_below(prng, NODES - 1)) % NODES);
    swarm->weight[MISHAP_FORGET] = swarm->weight[MISHAP_FLUSH] =
        swarm->weight[MISHAP_SWAP] = swarm->weight[MISHAP_REPLACE] = 0;
}

/* Where the bounds allow a restart to forget, or not, follows from the rest. */
static void draw_mishaps(struct swarm *swarm, struct prng *prng)
{
    bool calm = draw_once_in(prng, 12);
    for (unsigned i = 0; i < MISHAP_COUNT; i++) {
        bool left_out = calm || draw_once_in(prng, 2);
        swarm->weight[i] = left_out ? 0 : 1 + prng_below(prng, 8);
    }
    if (swarm->durable)
        swarm->weight[MISHAP_FORGET] = 0;
    if (!swarm->fenced)
        swarm->weight[MISHAP_SWAP] = swarm->weight[MISHAP_REPLACE] =
            swarm->weight[MISHAP_TYPO] = 0;
    if (swarm->fenced && swarm->duplicate && draw_once_in(prng, 2)) /* to the end */
        for (unsigned i = 0; i < COUNT(disturbing); i++)
            swarm->weight[disturbing[i]] = 0;
    if (swarm->fenced)
        draw_fenced(swarm, prng);
    for (unsigned i = 0; i < MISHAP_COUNT; i++)
        swarm->weights += swarm->weight[i];
}

#define FAR_MAX (100 * RL_MS) /* connecting and the greeting take less than its timeout */

/* No lock can be had with a TTL of less than ten round trips: so long a node is waited for.
 */
static void draw_network(struct swarm *swarm, struct prng *prng)
{
    swarm->near = draw_span(prng, 20, rl_min(swarm->ttl_min / 80, 5 * RL_MS));
    swarm->far = draw_span(prng, swarm->near, rl_min(swarm->ttl_min / 40, FAR_MAX));
    if (draw_once_in(prng, 3))
        swarm->node_timeout = draw_span(prng, 4 * swarm->far, swarm->ttl_min / 4);
    swarm->spike = draw_once_in(prng, 2) ? 0 : 20 + prng_below(prng, 200);
    swarm->loss = draw_once_in(prng, 2) ? 0 : 20 + prng_below(prng, 200);
    swarm->turns = draw_once_in(prng, 2);
    swarm->muffle = draw_once_in(prng, 2) ? 0 : 5 + prng_below(prng, 50);
    swarm->stall = draw_once_in(prng, 2) ? 0 : 20 + prng_below(prng, 200);
}

void swarm_draw(struct swarm *swarm, struct prng *prng)
{
    static const uint32_t drifts[] = {10000, 10000, 10000, 1000, 50000};
    *swarm = (struct swarm){
        .clients = 3 + prng_below(prng, USING_MAX - 2),
        .users = 1 + prng_below(prng, USERS_MAX),
        .resources = 1 + prng_below(prng, RESOURCES_MAX),
        .q = rl_majority(NODES),
        .events = 500 + prng_below(prng, 700),
        .drift_ppm = drifts[prng_below(prng, 5)],
        .ttl_min = draw_span(prng, 80 * RL_MS, 16 * RL_SECOND),
        .durable = draw_once_in(prng, 10),
        .duplicate = draw_once_in(prng, 20),
        .wild = draw_once_in(prng, 16),
        .each = draw_once_in(prng, 8),
    };
    swarm->fenced = !swarm->wild && !swarm->durable && draw_once_in(prng, 3);
    if (swarm->fenced) { /* the nodes' clocks may not part */
        swarm->drift_ppm = FENCED_DRIFT;
        swarm->ttl_min = draw_span(prng, 80 * RL_MS, 8 * RL_SECOND);
    }
    if (swarm->wild)
        swarm->beyond_ppm = (int32_t)draw_span(prng, 100, 300000);
    if (draw_once_in(prng, 6))
        swarm->q += 1 + prng_below(prng, NODES - swarm->q);
    if (swarm->duplicate) /* or nothing would ever be acquired */
        swarm->q = rl_majority(NODES);
    swarm->ttl_max = swarm->ttl_min * (1 + prng_below(prng, 3));
    draw_network(swarm, prng);
    draw_mishaps(swarm, prng);
    rl_time longest =
        swarm->fenced ? rl_max(4 * swarm->ttl_min, 8 * RL_SECOND) : 4 * swarm->ttl_min;
    swarm->gap = draw_span(prng, swarm->slow ? RL_SECOND : swarm->ttl_min / 16, longest);
}
