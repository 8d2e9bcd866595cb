#include "attempt.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "world.h"

struct attempt *attempt_new(struct world *world, struct client *client, struct user *user,
                            const struct rl_lease_params *terms, unsigned resource,
                            uint16_t token)
{
    unsigned i = 0;
    while (i < client->attempts && client->attempt[i].used)
        i++;
    assert(i < ATTEMPTS_MAX);
    if (i == client->attempts)
        client->attempts++;
    struct attempt *attempt = &client->attempt[i];
    memset(attempt, 0, sizeof(*attempt));
    attempt->used = true;
    attempt->index = (uint8_t)i;
    attempt->resource = (uint8_t)resource;
    attempt->token = token;
    attempt->user = user;
    attempt->due = RL_NEVER;
    attempt->begun = client->view.now;
    if (world->swarm.fenced) {
        attempt->proposed = rl_node_time_median(client->node_time, NODES, client->view.now);
        attempt->fences =
            draw_once_in(&world->prng, 2) ? 1 : (unsigned)draw_between(&world->prng, 2, 64);
    }
    attempt->terms = *terms;
    rl_lease_init(&attempt->lease, &attempt->terms, attempt->ballot,
                  world->swarm.fenced ? attempt->granted_fence : NULL);
    attempt->lease.spread = rl_lease_spread(token);
    return attempt;
}

const struct rl_kind *attempt_kind(const struct world *world, const struct attempt *attempt)
{
    return rl_kind_of((struct rl_word){world->token[attempt->token].text, TOKEN_LEN});
}

static void settle(struct client *client, struct attempt *attempt)
{
    bool over = attempt->lease.state == RL_LEASE_OVER;
    attempt->due = over ? RL_NEVER : rl_lease_next(&attempt->lease);
    if (!over || attempt->user || attempt->owed > 0)
        return;
    attempt->used = false;
    while (client->attempts > 0 && !client->attempt[client->attempts - 1].used)
        client->attempts--;
}

/* Whose votes count: of a fenced lock's nodes the marker tells, of others the link. */
static struct rl_view view_of(const struct world *world, const struct client *client)
{
    struct rl_view view = client->view;
    if (world->swarm.fenced)
        view.ready = client->sound & client->awake;
    return view;
}

void attempt_step(struct world *world, struct client *client, struct attempt *attempt,
                  const struct rl_lease_event *event)
{
    if (attempt->lease.state != RL_LEASE_OVER) {
        struct rl_view view = view_of(world, client);
        rl_time next = rl_lease_next(&attempt->lease);
        struct rl_update update = rl_lease_step(&attempt->lease, &view, event);
        /* A client that has a timer for it does not look at it again. */
        if (!update.sooner && rl_lease_next(&attempt->lease) < next)
            oracle_accuse(world, INVARIANT_ASLEEP, "at %" PRId64 " instead of %" PRId64,
                          next, rl_lease_next(&attempt->lease));
        world->steps++;
        trace_stepped(world, client, attempt, event, &update);
        oracle_stepped(world, client, attempt, &update);
        if (update.send)
            client_say(world, client, attempt, &update, update.send, false);
        if (update.reports && attempt->user)
            user_told(world, client, attempt->user, update.reports);
    }
    settle(client, attempt);
}

void attempt_expire(struct world *world, struct client *client, struct attempt *attempt)
{
    attempt_step(world, client, attempt, &(struct rl_lease_event){.type = RL_EVENT_EXPIRE});
}

void attempt_tick(struct world *world, struct client *client, struct attempt *attempt)
{
    attempt_step(world, client, attempt, &(struct rl_lease_event){.type = RL_EVENT_TICK});
}

static void vote(struct world *world, struct client *client, struct attempt *attempt,
                 const struct order *order, const struct rl_answer *answer)
{
    attempt_step(world, client, attempt,
                 &(struct rl_lease_event){
                     .type = RL_EVENT_VOTE,
                     .node = order->node,
                     .seq = order->seq,
                     .command = order->text,
                     .vote = answer->vote,
                     .fault = answer->fault,
                     .pttl = answer->pttl,
                     .fence = answer->fence,
                     .took = client->view.now - order->sent,
                 });
}

void attempt_cut(struct world *world, struct client *client, struct attempt *attempt,
                 const struct order *order)
{
    struct rl_answer unknown = {
        .vote = RL_VOTE_UNKNOWN,
        .fault = client->member[order->node].link.fault,
        .pttl = -1,
    };
    attempt->owed--;
    vote(world, client, attempt, order, &unknown);
}

/* See is_outdated() in src/lease/attempt.c. */
static bool is_outdated(const struct world *world, const struct client *client,
                        const struct order *order)
{
    return world->swarm.fenced && order->text != RL_CMD_RELEASE &&
           order->sent <= client->steward.learned_at;
}

/* The server does not know the script: it is sent whole, unless its time has passed. */
static bool say_again(struct world *world, struct client *client, struct attempt *attempt,
                      const struct order *order)
{
    struct member *member = &client->member[order->node];
    member->known &= ~rl_kind_script_bit(attempt_kind(world, attempt), order->text);
    if (!rl_lease_resend_is_safe(&attempt->lease, order->text, order->seq) ||
        is_outdated(world, client, order))
        return false;
    struct rl_update again = {
        .command = order->text,
        .seq = order->seq,
        .recreate = order->plant,
    };
    client_say(world, client, attempt, &again, rl_bit(order->node), true);
    return true;
}

enum rl_fault attempt_answered(struct world *world, struct client *client,
                               struct attempt *attempt, const struct order *order)
{
    struct rl_answer answer;
    attempt->owed--;
    bool trusted = rl_kind_read(attempt_kind(world, attempt), order->text,
                                &order->reply.reply, &answer);
    if (!trusted) {
        answer.vote = RL_VOTE_UNKNOWN;
        answer.fault = RL_FAULT_PROTOCOL;
    }
    if (!order->whole && answer.fault == RL_FAULT_NOSCRIPT &&
        rl_link_is_open(&client->member[order->node].link) &&
        say_again(world, client, attempt, order))
        return RL_FAULT_NONE;
    enum rl_vote truth = order->truth;
    if (answer.value.len > 0 && world_token_of(world, answer.value))
        attempt->ours |= rl_bit(order->node);
    else if (answer.value.len > 0)
        attempt->ours &= ~rl_bit(order->node);
    bool trusts = ward_time(world, client, order->node, order->sent, answer.time);
    oracle_sampled(world, client, order, answer.time, trusts);
    if (!trusts && order->text != RL_CMD_RELEASE) {
        truth = answer.vote = RL_VOTE_UNKNOWN;
        answer.fault = RL_FAULT_CLOCK;
    }
    if (world->swarm.fenced) {
        bool granted = answer.vote == RL_VOTE_GRANTED;
        rl_membership_check_grant(&client->steward, order->node, order->text, &answer);
        if (granted && answer.vote == RL_VOTE_UNKNOWN)
            truth = RL_VOTE_UNKNOWN;
    }
    if (order->enters && attempt->user && answer.fault == RL_FAULT_NONE &&
        !answer.not_queued)
        user_placed(client, attempt->user, order->node, order->sent);
    if (answer.fault == RL_FAULT_LATE || answer.fault == RL_FAULT_AHEAD)
        ward_doubt(world, client, order->node);
    if (answer.fault == RL_FAULT_MARKER)
        ward_disputed(world, client, order->node, order->sent);
    oracle_heard(world, attempt, order,
                 truth); /* not where it is said again: that is to be answered */
    vote(world, client, attempt, order, &answer);
    return trusted ? RL_FAULT_NONE : RL_FAULT_PROTOCOL;
}

void attempt_forgot(struct world *world, struct client *client, struct attempt *attempt,
                    unsigned node)
{
    attempt_step(
        world, client, attempt,
        &(struct rl_lease_event){.type = RL_EVENT_RESTARTED, .node = (uint8_t)node});
}

void attempt_greeted(struct world *world, struct client *client, struct attempt *attempt,
                     unsigned node)
{
    if (attempt->used && attempt->lease.state == RL_LEASE_CLEANUP)
        attempt_step(
            world, client, attempt,
            &(struct rl_lease_event){.type = RL_EVENT_READY, .node = (uint8_t)node});
}

void attempt_leave(struct world *world, struct client *client, struct attempt *attempt)
{
    attempt->leaves = attempt->user && attempt->user->entered;
    if (attempt->leaves)
        attempt->place = attempt->user->place;
    attempt->user = NULL;
    oracle_left(world, attempt, attempt->lease.state != RL_LEASE_OVER);
    attempt_step(world, client, attempt,
                 &(struct rl_lease_event){.type = RL_EVENT_RELEASE});
    attempt->leaves = false;
}
