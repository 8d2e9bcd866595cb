#include "user.h"

#include <string.h>

#include "user_parts.h"
#include "world.h"

void user_plan(struct user *user)
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
    if (world->phase == PHASE_STORM && world->swarm.idle > 0 &&
        (world->swarm.slow || draw_once_in(&world->prng, 6)))
        longest = rl_max(longest, world->swarm.idle);
    rl_time gap = draw_span(&world->prng, world->swarm.near, longest);
    user->phase = USER_IDLE;
    user->attempt = NULL;
    user->next = world->phase == PHASE_END ? RL_NEVER : client->view.now + gap;
    user_plan(user);
}

void user_init(struct world *world, struct client *client, struct user *user)
{
    memset(user, 0, sizeof(*user));
    user->expected = RL_NEVER;
    user->index = (uint8_t)(user - client->user);
    rest(world, client, user);
}

/* --- what it wants --- */

static void begin_attempt(struct world *world, struct client *client, struct user *user)
{
    user->phase = USER_TRYING;
    user->queues = user->behind;
    user->behind = false;
    user->attempts += !user->queues;
    rl_waiter_attempt(&user->turn);
    user->called = RL_NEVER;
    oracle_comes(user);
    if (user->attempt)
        attempt_leave(world, client, user->attempt);
    uint16_t token = world_new_token(world, client, user->resource);
    user->attempt = attempt_new(world, client, user, &user->terms, user->resource, token);
    trace_asks(world, client, user);
    if (user->queues) /* it is given up before it begins: nothing may be stored */
        oracle_left(world, user->attempt, true);
    attempt_step(
        world, client, user->attempt,
        &(struct rl_lease_event){.type = user->queues ? RL_EVENT_ENQUEUE : RL_EVENT_START});
    user_plan(user);
}

/* --- what it does with a lock --- */

static void plan_hold(struct world *world, struct client *client, struct user *user)
{
    struct prng *prng = &world->prng;
    rl_time now = client->view.now;
    rl_time longest = world->swarm.ttl_min / 4;
    if (world->phase == PHASE_STORM && draw_once_in(prng, 3))
        longest = 3 * world->swarm.ttl_max;
    rl_time hold = draw_span(prng, world->swarm.near, longest);
    bool watched = user->terms.extend_every > 0;
    user->phase = USER_HOLDING;
    user->lost = false;
    user->extend_at = draw_once_in(prng, 3) ? now + draw_between(prng, 0, hold) : RL_NEVER;
    switch (prng_below(prng, 16)) {
    case 0:
    case 1: user->end = USER_DISOWNS; break;
    case 2: user->end = USER_LEAVES; break;
    case 3:
    case 4: user->end = watched ? USER_RELEASES : USER_LETS_EXPIRE; break;
    default: user->end = USER_RELEASES; break;
    }
    user->end_at = user->end == USER_LETS_EXPIRE ? RL_NEVER : now + hold;
    user_plan(user);
}

static void extend(struct world *world, struct client *client, struct user *user)
{
    struct prng *prng = &world->prng;
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
    if (draw_once_in(prng, 2)) {
        ttl =
            draw_between(prng, world->swarm.ttl_min / RL_MS, world->swarm.ttl_max / RL_MS);
        ttl *= RL_MS;
        rl_time least = rl_max(user->terms.margin, user->terms.min_validity);
        if (rl_valid_until(0, ttl, user->terms.drift_ppm) <= least)
            ttl = 0;
    }
    if (draw_once_in(prng, 2))
        user->extend_at = now + draw_span(prng, world->swarm.near, lease->ttl);
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
        .fence = rl_lease_fence(&attempt->lease),
    };
    memcpy(world->gift.server, attempt->server, sizeof(attempt->server));
    memcpy(world->gift.memory, attempt->memory, sizeof(attempt->memory));
    memcpy(world->gift.seal, attempt->seal, sizeof(attempt->seal));
    memcpy(world->gift.ran, attempt->ran, sizeof(attempt->ran));
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
        user_plan(user);
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
                 gift->valid > client->view.now && !draw_once_in(&world->prng, 3);
    gift->there = false;
    user->waits = user->entered = false;
    user->resource = gift->resource;
    user->attempt =
        attempt_new(world, client, user, &user->terms, gift->resource, gift->token);
    oracle_adopted(world, user->attempt);
    if (known)
        user->attempt->rests_on = gift->rests_on;
    memcpy(user->attempt->server, gift->server, sizeof(gift->server));
    memcpy(user->attempt->memory, gift->memory, sizeof(gift->memory));
    memcpy(user->attempt->seal, gift->seal, sizeof(gift->seal));
    memcpy(user->attempt->ran, gift->ran, sizeof(gift->ran));
    trace_adopts(world, client, user, known);
    plan_hold(world, client, user);
    if (!known && user->end == USER_LETS_EXPIRE) { /* of what it knows no end of */
        user->end = USER_RELEASES;
        user->end_at = client->view.now + user->terms.ttl;
    }
    attempt_step(world, client, user->attempt,
                 &(struct rl_lease_event){.type = RL_EVENT_ADOPT,
                                          .deadline = known ? gift->valid : 0,
                                          .fence = gift->fence});
    if (user->phase == USER_HOLDING)
        user->extend_at = client->view.now;
    user_plan(user);
    /* The answers to its extension are read when they say nothing any more. */
    if (world->swarm.weight[MISHAP_PAUSE] > 0 && draw_once_in(&world->prng, 8))
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
    user_want_terms(world, user);
    if (client->open && world->gift.there) {
        adopt(world, client, user);
        return;
    }
    user_want_resource(world, user);
    user_want_retry(world, client, user);
    user->attempts = 0;
    user->acquiring = true;
    user->waits = world->swarm.turns && !draw_once_in(&world->prng, 8);
    user->behind = user->waits && draw_once_in(&world->prng, 4);
    user->entered = user->queues = false;
    user->number = ++client->number;
    user->began = client->view.now;
    user->phase = client->open ? USER_PAUSING : USER_WAITING;
    user->next = client->view.now;
    user_plan(user);
}

/* A user that gives up leaves the queue, wherever it may have a place. */
static void withdraw(struct world *world, struct client *client, struct user *user)
{
    struct rl_update leave = {.command = RL_CMD_RELEASE,
                              .seq = user->attempt->lease.round.seq};
    user->waits = false;
    client_say(world, client, user->attempt, &leave, client->view.open, false);
}

static void fail(struct world *world, struct client *client, struct user *user)
{
    user->acquiring = false;
    oracle_comes(user);
    if (user->entered)
        withdraw(world, client, user);
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
        else if (user->next <= now && user_can_begin(world, client, user))
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
    user_plan(user);
}

void user_open(struct world *world, struct client *client, struct user *user)
{
    (void)world;
    if (user->phase != USER_WAITING)
        return;
    user->phase = USER_PAUSING;
    user->next = client->view.now;
    user_plan(user);
}

void user_stop(struct client *client, struct user *user)
{
    rl_time now = client->view.now;
    user->cancel_at = user->end_at = now;
    if (user->end == USER_LETS_EXPIRE)
        user->end = USER_RELEASES;
    if (user->phase == USER_IDLE)
        user->next = RL_NEVER;
    user_plan(user);
}

/* --- being told --- */

static void attempt_failed(struct world *world, struct client *client, struct user *user)
{
    rl_time at = RL_NEVER;
    bool cancelled = user->attempt->lease.cause == RL_CAUSE_CANCELLED;
    if (user->waits && !cancelled)
        ears_begin(client);
    if (world->swarm.turns && !cancelled)
        at = user_next_attempt_at(world, client, user);
    else if (!cancelled)
        at = rl_retry_at(&user->retry, user->attempts - 1, prng_bits(&world->prng),
                         client->view.now, user->give_up);
    int64_t free_in = rl_free_in(user->attempt->ballot, NODES, world->swarm.q);
    oracle_promised(world, client, user, free_in);
    bool soon =
        !world->swarm.turns && free_in > 0 && free_in * RL_MS <= world->swarm.ttl_max;
    if (at != RL_NEVER && soon && draw_once_in(&world->prng, 4))
        at = rl_max(at, client->view.now + free_in * RL_MS);
    if (at == RL_NEVER) {
        fail(world, client, user);
        return;
    }
    user->phase = USER_PAUSING;
    user->next = at;
    oracle_fails(world, user);
    user_plan(user);
}

static void tell_one(struct world *world, struct client *client, struct user *user,
                     enum rl_report news)
{
    oracle_told(world, client, user, news);
    switch (news) {
    case RL_REPORT_LOST:
        user->lost = true;
        user->end = draw_once_in(&world->prng, 8) ? USER_DISOWNS : USER_RELEASES;
        user->end_at = client->view.now;
        if (world->phase != PHASE_END && draw_once_in(&world->prng, 3))
            user->end_at += draw_span(&world->prng, 1, world->swarm.ttl_min);
        break;
    case RL_REPORT_HELD:
        user->acquiring = false;
        oracle_comes(user);
        plan_hold(world, client, user);
        break;
    case RL_REPORT_FAILED: attempt_failed(world, client, user); break;
    case RL_REPORT_NOT_EXTENDED:
    case RL_REPORT_EXTENDED: user->extending = false; break;
    case RL_REPORT_RENEWED: break;
    case RL_REPORT_RELEASED:
        user->releasing = false;
        attempt_leave(world, client, user->attempt);
        rest(world, client, user);
        break;
    }
    user_plan(user);
}

void user_told(struct world *world, struct client *client, struct user *user, unsigned news)
{
    static const enum rl_report order[] = {
        RL_REPORT_LOST,     RL_REPORT_HELD,    RL_REPORT_FAILED,   RL_REPORT_NOT_EXTENDED,
        RL_REPORT_EXTENDED, RL_REPORT_RENEWED, RL_REPORT_RELEASED,
    };
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (news & order[i])
            tell_one(world, client, user, order[i]);
}
