/* What a user wants, and how it waits for that. */
#include "user_parts.h"
#include "world.h"

static rl_time custom_delay(unsigned attempt, uint64_t random, void *arg)
{
    const struct world *world = arg;
    return attempt < 3 ? rl_uniform(random, world->swarm.ttl_min) : -1;
}

void user_want_retry(struct world *world, struct client *client, struct user *user)
{
    struct prng *prng = &world->prng;
    bool patient = world->phase != PHASE_STORM;
    rl_time least = world->swarm.fenced ? RL_SECOND : 0; /* for a quarantine takes long */
    static const enum rl_retry_kind kinds[] = {RL_RETRY_EXPONENTIAL, RL_RETRY_FIXED,
                                               RL_RETRY_CUSTOM, RL_RETRY_NONE};
    user->retry = (struct rl_retry){
        .kind = kinds[patient ? 0 : prng_below(prng, 4)],
        .base = patient ? rl_max(world->swarm.ttl_min / 4, least) : 20 * RL_MS,
        .cap = patient ? rl_max(world->swarm.ttl_max / 2, least) : 500 * RL_MS,
        .custom = custom_delay,
        .arg = world,
    };
    rl_time wait = draw_span(prng, RL_MS, 4 * world->swarm.ttl_max);
    user->give_up = patient ? RL_NEVER : client->view.now + wait;
    user->cancel_at = draw_once_in(prng, patient ? 0 : 12)
                          ? client->view.now + draw_span(prng, 1, wait)
                          : RL_NEVER;
}

/* The library refuses options whose margin or least validity would use up the rest. */
void user_want_terms(struct world *world, struct user *user)
{
    struct prng *prng = &world->prng;
    const struct swarm *swarm = &world->swarm;
    rl_time ttl = draw_between(prng, swarm->ttl_min / RL_MS, swarm->ttl_max / RL_MS);
    ttl *= RL_MS;
    user->terms = (struct rl_lease_params){
        .ttl = ttl,
        .max_hold = RL_NEVER,
        .node_timeout = swarm->node_timeout,
        .drift_ppm = swarm->drift_ppm,
        .n = NODES,
        .q = (uint8_t)swarm->q,
    };
    if (draw_once_in(prng, 3))
        user->terms.margin = draw_between(prng, 0, ttl / 4);
    rl_time most = rl_valid_until(0, ttl, swarm->drift_ppm) - 8 * swarm->far;
    if (draw_once_in(prng, 4)) /* there and back takes at most 3 of the 8 */
        user->terms.min_validity = draw_between(prng, 0, most);
    rl_time least = rl_max(ttl / 2, user->terms.min_validity + ttl / 4);
    if (draw_once_in(prng, 4))
        user->terms.max_hold = draw_between(prng, least, 4 * ttl);
    if (!draw_once_in(prng, 3))
        user->terms.extend_every = draw_between(prng, ttl / 10, ttl / 2);
}

void user_want_resource(struct world *world, struct user *user)
{
    rl_node_set wanted = world->wanted;
    user->resource = (uint8_t)prng_below(&world->prng, world->swarm.resources);
    if (world->phase == PHASE_CALM && wanted)
        while (!(wanted & rl_bit(user->resource)))
            user->resource = (uint8_t)((user->resource + 1) % world->swarm.resources);
}
