/* A client's members: their links, what is said to them and what they answer. */
#include <assert.h>
#include <string.h>

#include "world.h"

/* --- links --- */

static void show(struct client *client, unsigned node)
{
    const struct rl_link *link = &client->member[node].link;
    rl_node_set bit = rl_bit(node);
    struct rl_view *view = &client->view;
    view->ready = rl_link_is_ready(link) ? view->ready | bit : view->ready & ~bit;
    client->awake = rl_link_is_awake(link) ? client->awake | bit : client->awake & ~bit;
    view->open = rl_link_is_open(link) ? view->open | bit : view->open & ~bit;
    client->round_trip[node] = link->round_trip;
}

static void owe(struct world *world, struct client *client, struct member *member,
                uint16_t i)
{
    assert(member->owed < OWED_MAX && client->unsent < UNSENT_MAX);
    member->order[(member->first + member->owed++) % OWED_MAX] = i;
    client->unsent_order[client->unsent++] = i;
    world->wire.order[i].refs++;
}

static uint16_t owed_first(struct member *member)
{
    uint16_t order = member->order[member->first];
    member->first = (member->first + 1) % OWED_MAX;
    member->owed--;
    return order;
}

static struct order *new_order(struct world *world, struct client *client, unsigned node,
                               uint16_t *ret_index)
{
    struct member *member = &client->member[node];
    *ret_index = wire_new_order(world);
    struct order *order = &world->wire.order[*ret_index];
    order->client = client->index;
    order->node = (uint8_t)node;
    order->server = world->wire.line[member->line].server;
    order->line = member->line;
    order->sent = client->view.now;
    order->has_nonce = false;
    world->wire.line[member->line].refs++;
    return order;
}

static void greet(struct world *world, struct client *client, unsigned node)
{
    uint16_t i;
    new_order(world, client, node, &i)->greeting = true;
    owe(world, client, &client->member[node], i);
}

/* A client that waits for a reply on this line waits in vain. */
static void cut(struct world *world, struct client *client, unsigned node)
{
    struct member *member = &client->member[node];
    while (member->owed > 0) {
        uint16_t i = owed_first(member);
        struct order *order = &world->wire.order[i];
        order->cut = true;
        if (!order->greeting && !order->of_ward)
            attempt_cut(world, client, &client->attempt[order->attempt], order);
        wire_drop_order(world, i);
    }
}

static void hang_up(struct world *world, struct client *client, unsigned node)
{
    struct member *member = &client->member[node];
    member->known = 0;
    if (member->has_line)
        wire_close(world, member->line, true);
    member->has_line = false;
    cut(world, client, node);
}

static void step_link(struct world *world, struct client *client, unsigned node,
                      struct rl_link_event event)
{
    struct member *member = &client->member[node];
    enum rl_link_state before = member->link.state;
    event.now = client->view.now;
    if (event.type != RL_LINK_SENT && event.type != RL_LINK_ANSWERED)
        event.random = prng_bits(&world->prng);
    enum rl_link_action action = rl_link_step(&member->link, &event);
    world->steps++;
    show(client, node);
    if (member->link.state != before)
        trace_link(world, client, node, before);
    if (!rl_link_is_open(&member->link))
        ward_gone(world, client, node);
    switch (action) {
    case RL_LINK_NOTHING: break;
    case RL_LINK_CONNECT:
        member->line = wire_connect(world, client->index, node);
        member->has_line = true;
        break;
    case RL_LINK_GREET: greet(world, client, node); break;
    case RL_LINK_ABORT: hang_up(world, client, node); break;
    }
    member->due = rl_link_next(&member->link);
}

/* --- the gate --- */

void member_look_at_gate(struct world *world, struct client *client)
{
    rl_node_set settled = 0;
    bool was_open = client->open;
    for (unsigned i = 0; i < NODES; i++)
        if (rl_link_was_tried(&client->member[i].link))
            settled |= rl_bit(i);
    client->open = rl_startup_barrier_step(&client->gate, NODES, world->swarm.q,
                                           client->view.ready, settled, client->view.now);
    for (unsigned i = 0; client->open && !was_open && i < client->users; i++)
        user_open(world, client, &client->user[i]);
}

/* --- saying --- */

static const char unmarked[RL_NONCE] = "----------------";

/* As write_nonce() in src/client/commands.c. */
static void add_nonce(const struct client *client, unsigned node, struct order *order)
{
    order->has_nonce = true;
    rl_membership_nonce(&client->steward, node, order->nonce);
}

/* Its place in the queue: see rl_waiting_set_queue_entry() in src/lease/waiting.c. */
static void add_place(struct world *world, const struct client *client,
                      const struct attempt *attempt, struct rl_command_args *subject)
{
    if (attempt->user) {
        user_place(world, client, attempt->user, subject);
    } else if (attempt->leaves) {
        subject->queue_entry = attempt->place;
        subject->waited = -1;
    }
}

static uint16_t say_words(struct world *world, const struct client *client,
                          const struct attempt *attempt, const struct rl_update *update,
                          const struct rl_command_args *place, bool whole)
{
    uint16_t i = wire_new_saying(world);
    const struct token *token = &world->token[attempt->token];
    struct rl_word word = {token->text, TOKEN_LEN};
    bool proposes = update->command == RL_CMD_ACQUIRE;
    struct rl_command_args subject = {
        .key = world_key(attempt->resource),
        .token = word,
        .fence_key = world_fence_key(attempt->resource),
        .marker_key = world_marker_key(),
        .nonce = {unmarked, RL_NONCE},
        .max_ttl_ms = client->steward.roster.max_ttl_ms,
        .fence = proposes ? rl_fence_last(attempt->proposed, attempt->fences)
                          : attempt->lease.fence,
        .fences = attempt->fences,
        .sent_at = proposes
                       ? attempt->proposed
                       : rl_node_time_median(client->node_time, NODES, client->view.now),
        .ttl_ms = attempt->lease.ttl / RL_MS,
        .recreate = update->recreate,
        .queue_entry = place->queue_entry,
        .waited = place->waited,
    };
    rl_kind_argv(rl_kind_of(word), update->command, whole, &subject,
                 &world->wire.saying[i].command);
    return i;
}

void client_say(struct world *world, struct client *client, struct attempt *attempt,
                const struct rl_update *update, rl_node_set nodes, bool again)
{
    uint32_t script = rl_kind_script_bit(attempt_kind(world, attempt), update->command);
    uint16_t said[2];
    bool has_said[2] = {false, false};
    struct rl_command_args place = {.waited = -1};
    oracle_says(world, client, attempt, update, nodes);
    if (update->command == RL_CMD_RELEASE)
        add_place(world, client, attempt, &place);
    for (rl_node_set rest = nodes; rest; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        struct member *member = &client->member[node];
        bool whole = again || (script & ~member->known);
        if (!has_said[whole])
            said[whole] = say_words(world, client, attempt, update, &place, whole);
        has_said[whole] = true;
        uint16_t i;
        struct order *order = new_order(world, client, node, &i);
        order->whole = whole;
        order->plant = update->recreate;
        order->saying = said[whole];
        order->token = attempt->token;
        order->attempt = attempt->index;
        order->text = update->command;
        order->seq = update->seq;
        order->place = place.queue_entry;
        order->enters = place.queue_entry.len > 0 && place.waited >= 0;
        order->leaves = place.queue_entry.len > 0 && place.waited < 0;
        order->ttl_ms = (int32_t)(attempt->lease.ttl / RL_MS);
        if (world->swarm.fenced)
            add_nonce(client, node, order);
        world->wire.saying[said[whole]].refs++;
        attempt->owed++;
        bool first = member->owed == 0;
        owe(world, client, member, i);
        member->known |= script;
        if (first)
            step_link(world, client, node, (struct rl_link_event){.type = RL_LINK_SENT});
    }
    for (unsigned whole = 0; whole < 2; whole++)
        if (has_said[whole])
            wire_drop_saying(world, said[whole]);
}

void member_ask_history(struct world *world, struct client *client, unsigned node)
{
    uint16_t i;
    struct order *order = new_order(world, client, node, &i);
    order->of_ward = order->of_history = true;
    bool first = client->member[node].owed == 0;
    owe(world, client, &client->member[node], i);
    if (first)
        step_link(world, client, node, (struct rl_link_event){.type = RL_LINK_SENT});
}

void member_say_mark(struct world *world, struct client *client, unsigned node,
                     const struct rl_command_args *subject)
{
    struct member *member = &client->member[node];
    const struct rl_kind *kind = rl_kind_that_is(true);
    uint32_t script = rl_kind_script_bit(kind, RL_CMD_MARKER);
    uint16_t i;
    struct order *order = new_order(world, client, node, &i);
    order->of_ward = true;
    order->text = RL_CMD_MARKER;
    order->whole = script & ~member->known;
    order->saying = wire_new_saying(world);
    rl_kind_argv(kind, RL_CMD_MARKER, order->whole, subject,
                 &world->wire.saying[order->saying].command);
    bool first = member->owed == 0;
    owe(world, client, member, i);
    member->known |= script;
    if (first)
        step_link(world, client, node, (struct rl_link_event){.type = RL_LINK_SENT});
}

/* --- what arrives --- */

void client_connected(struct world *world, struct client *client, uint16_t i)
{
    struct line *line = &world->wire.line[i];
    struct member *member = &client->member[line->node];
    bool current = !line->closed && member->has_line && member->line == i;
    if (current && line->refused) {
        step_link(
            world, client, line->node,
            (struct rl_link_event){.type = RL_LINK_FAILED, .fault = RL_FAULT_CONNECT});
        member_look_at_gate(world, client);
    } else if (current) {
        step_link(world, client, line->node,
                  (struct rl_link_event){.type = RL_LINK_CONNECTED});
    }
}

static bool is_duplicate(const struct client *client, unsigned node, const char *run_id)
{
    for (unsigned i = 0; i < NODES; i++) {
        const struct rl_link *other = &client->member[i].link;
        if (i != node && !other->duplicate && run_id[0] &&
            memcmp(other->run_id, run_id, RL_RUN_ID) == 0)
            return true;
    }
    return false;
}

static struct rl_identity identity_of(const struct order *order)
{
    struct rl_identity identity;
    identity.is_master = order->is_master;
    identity.is_cluster = order->is_cluster;
    identity.is_loading = order->is_loading;
    identity.is_duplicate = false;
    identity.denied = order->denied;
    identity.process = order->process;
    identity.time = order->time;
    identity.marker_len = order->marker.len;
    memcpy(identity.marker, order->marker.text, order->marker.len);
    return identity;
}

static void greeted(struct world *world, struct client *client, const struct order *order)
{
    unsigned node = order->node;
    struct member *member = &client->member[node];
    struct rl_identity identity = identity_of(order);
    identity.is_duplicate = is_duplicate(client, node, identity.process.run_id);
    oracle_greeted(world, client, order, &identity);
    step_link(world, client, node,
              (struct rl_link_event){.type = RL_LINK_GREETED, .identity = &identity});
    if (rl_link_is_open(&member->link))
        ear_greeted(client, node);
    if (rl_link_is_open(&member->link) && world->swarm.fenced)
        ward_greeted(world, client, node, &identity);
    for (unsigned i = 0; member->link.restarted && i < client->attempts; i++)
        if (client->attempt[i].used)
            attempt_forgot(world, client, &client->attempt[i], node);
    for (unsigned i = 0; rl_link_is_open(&member->link) && i < client->attempts; i++)
        if (client->attempt[i].used)
            attempt_greeted(world, client, &client->attempt[i], node);
    member_look_at_gate(world, client);
}

static void replied(struct world *world, struct client *client, const struct order *order)
{
    unsigned node = order->node;
    struct member *member = &client->member[node];
    const struct rl_reply *reply = &order->reply.reply;
    uint16_t line = order->line;
    rl_time oldest =
        member->owed > 0 ? world->wire.order[member->order[member->first]].sent : RL_NEVER;
    if (rl_link_wants_reply(&member->link, client->view.now, oldest))
        step_link(world, client, node,
                  (struct rl_link_event){
                      .type = RL_LINK_ANSWERED, .sent = order->sent, .oldest = oldest});
    enum rl_fault distrust =
        order->of_ward
            ? ward_answered(world, client, order)
            : attempt_answered(world, client, &client->attempt[order->attempt], order);
    enum rl_fault fault = !order->of_history && reply->type == RL_REPLY_ERROR
                              ? rl_fault_of_error(reply->text, reply->len)
                              : RL_FAULT_NONE;
    if (distrust != RL_FAULT_NONE)
        fault = distrust;
    bool stands = member->has_line && member->line == line;
    if (stands && (distrust != RL_FAULT_NONE || rl_fault_is_of_node(fault)) &&
        rl_link_is_open(&member->link))
        step_link(world, client, node,
                  (struct rl_link_event){.type = RL_LINK_FAULT, .fault = fault});
}

void client_answered(struct world *world, struct client *client, uint16_t i)
{
    struct order *order = &world->wire.order[i];
    if (order->cut)
        return;
    struct member *member = &client->member[order->node];
    assert(member->owed > 0 && member->order[member->first] == i);
    owed_first(member);
    if (order->greeting)
        greeted(world, client, order);
    else
        replied(world, client, order);
    wire_drop_order(world, i);
}

void client_closed(struct world *world, struct client *client, uint16_t i)
{
    struct line *line = &world->wire.line[i];
    struct member *member = &client->member[line->node];
    if (line->closed || !member->has_line || member->line != i)
        return;
    step_link(world, client, line->node,
              (struct rl_link_event){.type = RL_LINK_FAILED, .fault = RL_FAULT_CLOSED});
    member_look_at_gate(world, client);
}

void client_lose_server(struct world *world, struct client *client, unsigned server)
{
    ears_lose_server(world, client, server);
    for (unsigned i = 0; client->alive && i < NODES; i++)
        if (client->member[i].has_line &&
            world->wire.line[client->member[i].line].server == server)
            wire_break(world, client->member[i].line);
}

/* --- for the client's passes and its end --- */

void member_tick(struct world *world, struct client *client, unsigned node)
{
    step_link(world, client, node, (struct rl_link_event){.type = RL_LINK_TICK});
    member_look_at_gate(world, client);
}

void member_init(struct world *world, struct client *client, unsigned node)
{
    struct member *member = &client->member[node];
    struct rl_link_params terms = {
        .connect_timeout = RL_SECOND,
        .node_timeout = world->swarm.node_timeout,
        .quarantine = client_quarantine(world),
    };
    rl_link_init(&member->link, &terms, client->view.now);
    member->due = client->view.now;
    member->has_line = member->forgot = false;
    member->first = member->owed = member->known = member->life = 0;
    member->barred = member->refused = member->quarantined_until = INT64_MIN;
    member->server = client->address[node];
    client->round_trip[node] = 0;
}

/* Nobody is there any more who waits for answers. */
void member_drop(struct world *world, struct client *client, unsigned node, bool power)
{
    struct member *member = &client->member[node];
    while (member->owed > 0) {
        uint16_t order = owed_first(member);
        world->wire.order[order].cut = true;
        wire_drop_order(world, order);
    }
    if (member->has_line)
        wire_close(world, member->line, power);
    member->has_line = false;
}
