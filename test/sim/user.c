#include "user.h"

#include <string.h>

#include "world.h"

static void plan(struct user *user)
{
    switch (user->phase) {
    case USER_IDLE: user->due = user->next; break;
    case USER_WAITING:
    case USER_TRYING: user->due = user->cancel_at; break;
    case USER_PAUSING: user->due = rl_min(user->cancel_at, user->next); break;
    case USER_HOLDING: user->due = rl_min(user->extend_at, user->end_at); break;
    case USER_RELEASING: user->due = RL_NEVER; break;
    }
}

static void rest(struct world *world, struct client *client, struct user *user)
{
    rl_time longest = world->phase == PHASE_STORM ? world->swarm.ttl_min : 50 * RL_MS;
    rl_time gap = draw_span(&world->chance, world->swarm.near, longest);
    user->phase = USER_IDLE;
    user->attempt = NULL;
    user->next = world->phase == PHASE_END ? RL_NEVER : client->view.now + gap;
    plan(user);
}

void user_init(struct world *world, struct client *client, struct user *user)
{
    memset(user, 0, sizeof(*user));
    user->index = (uint8_t)(user - client->user);
    rest(world, client, user);
}

/* --- what it wants --- */

static rl_time custom_delay(unsigned attempt, uint64_t random, void *arg)
{
    const struct world *world = arg;
    return attempt < 3 ? rl_uniform(random, world->swarm.ttl_min) : -1;
}

static void want_retry(struct world *world, struct client *client, struct user *user)
{
    struct chance *chance = &world->chance;
    bool patient = world->phase != PHASE_STORM;
    static const enum rl_retry_kind kinds[] = {RL_RETRY_EXPONENTIAL, RL_RETRY_FIXED,
                                               RL_RETRY_CUSTOM, RL_RETRY_NONE};
    user->retry = (struct rl_retry){
        .kind = kinds[patient ? 0 : chance_below(chance, 4)],
        .base = patient ? world->swarm.ttl_min / 4 : 20 * RL_MS,
        .cap = patient ? world->swarm.ttl_max / 2 : 500 * RL_MS,
        .custom = custom_delay,
        .arg = world,
    };
    rl_time wait = draw_span(chance, RL_MS, 4 * world->swarm.ttl_max);
    user->give_up = patient ? RL_NEVER : client->view.now + wait;
    user->cancel_at = draw_once_in(chance, patient ? 0 : 12)
                          ? client->view.now + draw_span(chance, 1, wait)
                          : RL_NEVER;
}

/* The library refuses options whose margin or least validity would use up the rest. */
static void want_terms(struct world *world, struct user *user)
{
    struct chance *chance = &world->chance;
    const struct swarm *swarm = &world->swarm;
    rl_time ttl = draw_between(chance, swarm->ttl_min / RL_MS, swarm->ttl_max / RL_MS);
    ttl *= RL_MS;
    user->terms = (struct rl_terms){
        .ttl = ttl,
        .max_hold = RL_NEVER,
        .node_timeout = swarm->node_timeout,
        .drift_ppm = swarm->drift_ppm,
        .n = NODES,
        .q = (uint8_t)swarm->q,
    };
    if (draw_once_in(chance, 3))
        user->terms.margin = draw_between(chance, 0, ttl / 4);
    rl_time most = rl_valid_until(0, ttl, swarm->drift_ppm) - 8 * swarm->far;
    if (draw_once_in(chance, 4)) /* there and back takes at most 3 of the 8 */
        user->terms.min_validity = draw_between(chance, 0, most);
    rl_time least = rl_max(ttl / 2, user->terms.min_validity + ttl / 4);
    if (draw_once_in(chance, 4))
        user->terms.max_hold = draw_between(chance, least, 4 * ttl);
    if (!draw_once_in(chance, 3))
        user->terms.extend_every = draw_between(chance, ttl / 10, ttl / 2);
}

static void want_resource(struct world *world, struct user *user)
{
    rl_nodes wanted = world->wanted;
    user->resource = (uint8_t)chance_below(&world->chance, world->swarm.resources);
    if (world->phase == PHASE_CALM && wanted)
        while (!(wanted & rl_bit(user->resource)))
            user->resource = (uint8_t)((user->resource + 1) % world->swarm.resources);
}

static void begin_attempt(struct world *world, struct client *client, struct user *user)
{
    user->phase = USER_TRYING;
    user->attempts++;
    if (user->attempt)
        attempt_leave(world, client, user->attempt);
    uint16_t token = world_new_token(world, client, user->resource);
    user->attempt = attempt_new(client, user, &user->terms, user->resource, token);
    trace_asks(world, client, user);
    attempt_step(world, client, user->attempt,
                 &(struct rl_lease_event){.type = RL_EVENT_START});
    plan(user);
}

/* --- what it does with a lock --- */

static void plan_hold(struct world *world, struct client *client, struct user *user)
{
    struct chance *chance = &world->chance;
    rl_time now = client->view.now;
    rl_time longest = world->swarm.ttl_min / 4;
    if (world->phase == PHASE_STORM && draw_once_in(chance, 3))
        longest = 3 * world->swarm.ttl_max;
    rl_time hold = draw_span(chance, world->swarm.near, longest);
    bool watched = user->terms.extend_every > 0;
    user->phase = USER_HOLDING;
    user->lost = false;
    user->extend_at =
        draw_once_in(chance, 3) ? now + draw_between(chance, 0, hold) : RL_NEVER;
    switch (chance_below(chance, 16)) {
    case 0:
    case 1: user->end = USER_DISOWNS; break;
    case 2: user->end = USER_LEAVES; break;
    case 3:
    case 4: user->end = watched ? USER_RELEASES : USER_LETS_EXPIRE; break;
    default: user->end = USER_RELEASES; break;
    }
    user->end_at = user->end == USER_LETS_EXPIRE ? RL_NEVER : now + hold;
    plan(user);
}

static void extend(struct world *world, struct client *client, struct user *user)
{
    struct chance *chance = &world->chance;
    const struct rl_lease *lease = &user->attempt->lease;
    rl_time ttl = 0, now = client->view.now;
    user->extend_at = RL_NEVER;
    attempt_expire(world, client, user->attempt);
    if (user->phase != USER_HOLDING)
        return;
    if (lease->state != RL_LEASE_HELD) { /* it asked too late: nothing comes of it */
        attempt_step(world, client, user->attempt,
                     &(struct rl_lease_event){.type = RL_EVENT_EXTEND});
        return;
    }
    if (draw_once_in(chance, 2)) {
        ttl = draw_between(chance, world->swarm.ttl_min / RL_MS,
                           world->swarm.ttl_max / RL_MS);
        ttl *= RL_MS;
        rl_time least = rl_max(user->terms.margin, user->terms.min_validity);
        if (rl_valid_until(0, ttl, user->terms.drift_ppm) <= least)
            ttl = 0;
    }
    if (draw_once_in(chance, 2))
        user->extend_at = now + draw_span(chance, world->swarm.near, lease->terms.ttl);
    if (user->extending)
        return;
    user->extending = true;
    trace_extends(world, client, user, ttl);
    attempt_step(world, client, user->attempt,
                 &(struct rl_lease_event){.type = RL_EVENT_EXTEND, .ttl = ttl});
}

static void give(struct world *world, struct client *client, const struct user *user)
{
    const struct attempt *attempt = user->attempt;
    bool held = attempt->lease.state == RL_LEASE_HELD;
    if (!held || world->phase != PHASE_STORM)
        return;
    world->gift = (struct gift){
        .there = true,
        .resource = attempt->resource,
        .client = client->index,
        .given = world->now,
        .token = attempt->token,
        .valid = attempt->lease.timed ? attempt->lease.valid : 0,
        .rests_on = attempt->rests_on,
    };
}

static void end(struct world *world, struct client *client, struct user *user)
{
    struct attempt *attempt = user->attempt;
    attempt_expire(world, client, attempt);
    if (user->phase != USER_HOLDING)
        return;
    user->end_at = user->extend_at = RL_NEVER;
    trace_ends(world, client, user);
    switch (user->end) {
    case USER_DISOWNS:
        give(world, client, user);
        oracle_left(world, attempt, false);
        attempt_step(world, client, attempt,
                     &(struct rl_lease_event){.type = RL_EVENT_DISOWN});
        oracle_disowned(world, client, user);
        attempt_leave(world, client, attempt);
        rest(world, client, user);
        break;
    case USER_LEAVES:
        user->extending = false;
        attempt_leave(world, client, attempt);
        rest(world, client, user);
        break;
    default:
        user->phase = USER_RELEASING;
        user->releasing = true;
        plan(user);
        oracle_left(world, attempt, true);
        attempt_step(world, client, attempt,
                     &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
        break;
    }
}

/* With the deadline, if it is the same process; else it is not known. */
static void adopt(struct world *world, struct client *client, struct user *user)
{
    struct gift *gift = &world->gift;
    bool known = gift->client == client->index && client->born <= gift->given &&
                 gift->valid > client->view.now && !draw_once_in(&world->chance, 3);
    gift->there = false;
    user->resource = gift->resource;
    user->attempt = attempt_new(client, user, &user->terms, gift->resource, gift->token);
    oracle_adopted(world, user->attempt);
    if (known)
        user->attempt->rests_on = gift->rests_on;
    trace_adopts(world, client, user, known);
    plan_hold(world, client, user);
    if (!known && user->end == USER_LETS_EXPIRE) { /* of what it knows no end of */
        user->end = USER_RELEASES;
        user->end_at = client->view.now + user->terms.ttl;
    }
    attempt_step(world, client, user->attempt,
                 &(struct rl_lease_event){.type = RL_EVENT_ADOPT,
                                          .deadline = known ? gift->valid : 0});
    if (user->phase == USER_HOLDING)
        user->extend_at = client->view.now;
    plan(user);
    /* The answers to its extension are read when they say nothing any more. */
    if (world->swarm.weight[MISHAP_PAUSE] > 0 && draw_once_in(&world->chance, 8))
        client_pause(client, world->now + 2 * user->terms.ttl);
}

/* --- being woken --- */

static void begin(struct world *world, struct client *client, struct user *user)
{
    bool served = world->phase == PHASE_CALM && world->swarm.each && !world->wanted &&
                  !(world->waiting & rl_bit(client->index));
    if (world->phase == PHASE_END || served) {
        rest(world, client, user);
        return;
    }
    want_terms(world, user);
    if (client->open && world->gift.there) {
        adopt(world, client, user);
        return;
    }
    want_resource(world, user);
    want_retry(world, client, user);
    user->attempts = 0;
    user->acquiring = true;
    user->phase = client->open ? USER_PAUSING : USER_WAITING;
    user->next = client->view.now;
    plan(user);
}

static void fail(struct world *world, struct client *client, struct user *user)
{
    user->acquiring = false;
    if (user->attempt)
        attempt_leave(world, client, user->attempt);
    rest(world, client, user);
}

static void cancel(struct world *world, struct client *client, struct user *user)
{
    user->cancel_at = RL_NEVER;
    user->give_up = client->view.now;
    user->retry.kind = RL_RETRY_NONE;
    if (user->phase == USER_TRYING)
        attempt_step(world, client, user->attempt,
                     &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
    else
        fail(world, client, user);
}

void user_tick(struct world *world, struct client *client, struct user *user)
{
    rl_time now = client->view.now;
    switch (user->phase) {
    case USER_IDLE: begin(world, client, user); break;
    case USER_PAUSING:
        if (user->cancel_at <= now)
            cancel(world, client, user);
        else if (user->next <= now)
            begin_attempt(world, client, user);
        break;
    case USER_WAITING:
    case USER_TRYING:
        if (user->cancel_at <= now)
            cancel(world, client, user);
        break;
    case USER_HOLDING:
        if (user->end_at <= now)
            end(world, client, user);
        else if (user->extend_at <= now)
            extend(world, client, user);
        break;
    case USER_RELEASING: break;
    }
    plan(user);
}

void user_open(struct world *world, struct client *client, struct user *user)
{
    (void)world;
    if (user->phase != USER_WAITING)
        return;
    user->phase = USER_PAUSING;
    user->next = client->view.now;
    plan(user);
}

void user_stop(struct client *client, struct user *user)
{
    rl_time now = client->view.now;
    user->cancel_at = user->end_at = now;
    if (user->end == USER_LETS_EXPIRE)
        user->end = USER_RELEASES;
    if (user->phase == USER_IDLE)
        user->next = RL_NEVER;
    plan(user);
}

/* --- being told --- */

static void attempt_failed(struct world *world, struct client *client, struct user *user)
{
    rl_time at = RL_NEVER;
    if (user->attempt->lease.cause != RL_CAUSE_CANCELLED)
        at = rl_retry_at(&user->retry, user->attempts - 1, chance_bits(&world->chance),
                         client->view.now, user->give_up);
    int64_t free_in = rl_free_in(user->attempt->ballot, NODES, world->swarm.q);
    oracle_promised(world, client, user, free_in);
    bool soon = free_in > 0 && free_in * RL_MS <= world->swarm.ttl_max;
    if (at != RL_NEVER && soon && draw_once_in(&world->chance, 4))
        at = rl_max(at, client->view.now + free_in * RL_MS);
    if (at == RL_NEVER) {
        fail(world, client, user);
        return;
    }
    user->phase = USER_PAUSING;
    user->next = at;
    plan(user);
}

static void tell_one(struct world *world, struct client *client, struct user *user,
                     enum rl_news news)
{
    oracle_told(world, client, user, news);
    switch (news) {
    case RL_NEWS_LOST:
        user->lost = true;
        user->end = draw_once_in(&world->chance, 8) ? USER_DISOWNS : USER_RELEASES;
        user->end_at = client->view.now;
        if (world->phase != PHASE_END && draw_once_in(&world->chance, 3))
            user->end_at += draw_span(&world->chance, 1, world->swarm.ttl_min);
        break;
    case RL_NEWS_HELD:
        user->acquiring = false;
        plan_hold(world, client, user);
        break;
    case RL_NEWS_FAILED: attempt_failed(world, client, user); break;
    case RL_NEWS_NOT_EXTENDED:
    case RL_NEWS_EXTENDED: user->extending = false; break;
    case RL_NEWS_RENEWED: break;
    case RL_NEWS_RELEASED:
        user->releasing = false;
        attempt_leave(world, client, user->attempt);
        rest(world, client, user);
        break;
    }
    plan(user);
}

void user_told(struct world *world, struct client *client, struct user *user, unsigned news)
{
    static const enum rl_news order[] = {
        RL_NEWS_LOST,     RL_NEWS_HELD,    RL_NEWS_FAILED,   RL_NEWS_NOT_EXTENDED,
        RL_NEWS_EXTENDED, RL_NEWS_RENEWED, RL_NEWS_RELEASED,
    };
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (news & order[i])
            tell_one(world, client, user, order[i]);
}
