#include "ward.h"

#include <string.h>

#include "world.h"

static void learn_time(struct client *client, unsigned node, rl_time sent, rl_time told)
{
    if (told > 0)
        rl_node_time_note(&client->node_time[node], sent, client->view.now, told);
}

static void say(struct world *world, struct client *client,
                const struct rl_member_command *order)
{
    const struct rl_member *ward = &client->steward.member[order->node];
    char expected[RL_MARKER_MAX], wanted[RL_MARKER_MAX];
    struct rl_command_args subject = {
        .marker_key = world_marker_key(),
        .write = order->write,
    };
    size_t expected_len = ward->marked ? rl_marker_write(&ward->marker, expected) : 0;
    size_t wanted_len = order->erase ? 0 : rl_marker_write(&order->wanted, wanted);
    if (order->write) {
        subject.expected = world_keep_text(world, expected, expected_len);
        subject.wanted = world_keep_text(world, wanted, wanted_len);
    }
    trace_orders(world, client, order);
    member_say_mark(world, client, order->node, &subject);
}

void ward_act(struct world *world, struct client *client)
{
    struct rl_member_command order;
    for (;;) {
        uint64_t random[2] = {prng_bits(&world->prng), prng_bits(&world->prng)};
        if (!rl_membership_next_command(&client->steward, client->view.now, random, &order))
            break;
        say(world, client, &order);
        if (order.history)
            member_ask_history(world, client, order.node);
    }
    world->steps++;
    client->sound = rl_membership_active(&client->steward);
    client->ward_due = rl_membership_next(&client->steward);
    trace_wards(world, client);
}

void ward_init(struct world *world, struct client *client)
{
    struct rl_membership_params terms = {.n = NODES, .drift_ppm = world->swarm.drift_ppm};
    rl_membership_init(&client->steward, &terms);
    client->steward.active = true;
    client->sound = 0;
    client->ward_due = RL_NEVER;
}

void ward_greeted(struct world *world, struct client *client, unsigned node,
                  const struct rl_identity *identity)
{
    struct rl_word marker = {identity->marker, identity->marker_len};
    learn_time(client, node, client->member[node].link.greeted_at, identity->time);
    rl_membership_greeted(&client->steward, node, &identity->process, marker,
                          client->view.now);
    ward_act(world, client);
}

void ward_gone(struct world *world, struct client *client, unsigned node)
{
    if (!world->swarm.fenced || !client->steward.member[node].greeted)
        return;
    rl_membership_disconnected(&client->steward, node, client->view.now);
    ward_act(world, client);
}

bool ward_time(struct world *world, struct client *client, unsigned node, rl_time sent,
               rl_time told)
{
    if (told == 0)
        return true;
    client_look_at_clock(world, client);
    learn_time(client, node, sent, told);
    rl_time raw = skew_read(&client->raw, world->now);
    if (rl_membership_time(&client->steward, node, sent, client->view.now, raw, told))
        return true;
    ward_act(world, client);
    return false;
}

void ward_doubt(struct world *world, struct client *client, unsigned node)
{
    client->steward.member[node].look_at = client->view.now;
    ward_act(world, client);
}

void ward_disputed(struct world *world, struct client *client, unsigned node, rl_time sent)
{
    rl_membership_marker_mismatch(&client->steward, node, sent, client->view.now);
    ward_act(world, client);
}

static enum rl_fault hear_history(struct world *world, struct client *client,
                                  const struct order *order)
{
    const char *told = order->process.replid;
    struct rl_word replid = {told, strlen(told)};
    bool is_same =
        rl_membership_history(&client->steward, order->node, replid, client->view.now);
    ward_act(world, client);
    return is_same ? RL_FAULT_NONE : RL_FAULT_OTHER_PROCESS;
}

/* See src/client/members.c. */
static enum rl_fault look_behind(const struct client *client, unsigned node)
{
    rl_time connected = client->view.now - client->member[node].link.greeted_at;
    bool is_replaced = client->steward.member[node].state == RL_MEMBER_REPLACED;
    return is_replaced && connected >= RL_MEMBER_PROBE_INTERVAL ? RL_FAULT_REPLACED
                                                                : RL_FAULT_NONE;
}

/* A script that is not known is said again when the node is looked at next, and whole. */
enum rl_fault ward_answered(struct world *world, struct client *client,
                            const struct order *order)
{
    if (order->of_history)
        return hear_history(world, client, order);

    const struct rl_kind *kind = rl_kind_of((struct rl_word){"f:", 2});
    struct rl_membership *steward = &client->steward;
    struct rl_answer heard;
    unsigned node = order->node;
    bool trusted = rl_kind_read(kind, RL_CMD_MARKER, &order->reply.reply, &heard);
    enum rl_fault fault = trusted ? RL_FAULT_NONE : RL_FAULT_PROTOCOL;
    if (!trusted || heard.vote != RL_VOTE_GRANTED) {
        bool again = trusted && heard.fault == RL_FAULT_NOSCRIPT && !order->whole;
        if (again)
            client->member[node].known &= ~rl_kind_script_bit(kind, RL_CMD_MARKER);
        rl_membership_command_failed(steward, node, again, client->view.now);
    } else {
        bool trusts = ward_time(world, client, node, order->sent, heard.time);
        oracle_sampled(world, client, order, heard.time, trusts);
        rl_membership_replied(steward, node, heard.value, order->sent, client->view.now);
        fault = look_behind(client, node);
    }
    ward_act(world, client);
    return fault;
}
