#include "nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "base/options.h"
#include "io/system.h"
#include "link_events.h"

static bool is_full(const struct rl_node *node)
{
    size_t trip_ms = (size_t)(node->link.shortest_trip / RL_MS);
    return node->connection.op_count >= node->nodes->window * (1 + trip_ms);
}

void rl_node_note_full(const struct rl_node *node)
{
    if (is_full(node))
        node->nodes->full |= rl_bit(node->index);
}

/* A suspect node gets no more work before it has replied to what it has. */
RL_RARE static void note_room(const struct rl_node *node)
{
    if (!rl_link_is_open(&node->link) || (rl_link_is_awake(&node->link) && !is_full(node)))
        node->nodes->full &= ~rl_bit(node->index);
}

/* Updates the view, from which the leases read the state of this node's link. */
static void update_view(struct rl_node *node)
{
    struct rl_view *view = &node->nodes->view;
    rl_node_set bit = rl_bit(node->index);
    view->ready = rl_link_is_ready(&node->link) ? view->ready | bit : view->ready & ~bit;
    rl_node_set *awake = &node->nodes->awake;
    *awake = rl_link_is_awake(&node->link) ? *awake | bit : *awake & ~bit;
    view->open = rl_link_is_open(&node->link) ? view->open | bit : view->open & ~bit;
    node->nodes->round_trip[node->index] = node->link.round_trip;
    note_room(node);
}

static char *read_password(const char *path)
{
    char text[512];
    if (!rl_system_read_file(path, text, sizeof(text)))
        return NULL;
    text[strcspn(text, "\r\n")] = '\0';
    return strdup(text);
}

bool rl_node_greet(const struct rl_node *node, struct rl_connection *connection)
{
    bool is_named = !node->connection.name_refused && !connection->name_refused;
    const struct rl_nodes *nodes = node->nodes;
    const redlock_options *options = nodes->options;
    const struct rl_uri *uri = &node->uri;
    char *from_file = options->password_file && !uri->password
                          ? read_password(options->password_file)
                          : NULL;
    struct rl_credentials who = {
        .user = uri->user ? uri->user : options->username,
        .password = uri->password ? uri->password
                    : from_file   ? from_file
                                  : options->password,
        .db = uri->db,
        .marker_key = nodes->marker_key,
        .name = is_named ? options->label : NULL,
    };
    bool sent = rl_connection_greet(connection, &who);
    free(from_file);
    return sent;
}

static bool greet(struct rl_node *node)
{
    struct rl_nodes *nodes = node->nodes;
    nodes->unwritten |= rl_bit(node->index);
    nodes->loop->wants_end = true;
    return rl_node_greet(node, &node->connection);
}

static void step_link(struct rl_node *node, struct rl_link_event event);

static void node_failed(struct rl_node *node, enum rl_fault fault)
{
    step_link(node, (struct rl_link_event){.type = RL_LINK_FAILED, .fault = fault});
}

static void act(struct rl_node *node, enum rl_link_action action)
{
    switch (action) {
    case RL_LINK_NOTHING: break;
    case RL_LINK_CONNECT: rl_connection_connect(&node->connection); break;
    case RL_LINK_GREET:
        if (!greet(node))
            node_failed(node, RL_FAULT_MEMORY);
        break;
    case RL_LINK_ABORT: rl_connection_abort(&node->connection); break;
    }
}

/* By far the most events: commands to a READY node and its replies change no link state. */
static bool is_usual(const struct rl_link *link, const struct rl_link_event *event)
{
    bool passes_by = event->type == RL_LINK_ANSWERED || event->type == RL_LINK_SENT;
    return passes_by && link->state == RL_LINK_READY;
}

/* All other events. */
RL_RARE static void change_link(struct rl_node *node, struct rl_link_event event)
{
    struct rl_nodes *nodes = node->nodes;
    if (event.type != RL_LINK_SENT && event.type != RL_LINK_ANSWERED)
        event.random = rl_loop_random(nodes->loop);
    const struct rl_link before = node->link;
    enum rl_link_action action = rl_link_step(&node->link, &event);
    if (event.type == RL_LINK_TICK && action == RL_LINK_ABORT)
        rl_connection_note_silence(&node->connection);
    rl_link_note_step(node, &event, &before);
    update_view(node);
    if (!rl_link_is_open(&node->link))
        nodes->handler->disconnected(nodes->arg, node->index);
    if (action != RL_LINK_NOTHING)
        act(node, action);
    node->woke |= before.state == RL_LINK_SUSPECT && rl_link_is_awake(&node->link) &&
                  node->link.seen_restart > 0;
    rl_task_schedule(&node->task, node->woke ? event.now : rl_link_next(&node->link));
}

RL_HOT static void step_link(struct rl_node *node, struct rl_link_event event)
{
    struct rl_nodes *nodes = node->nodes;
    rl_loop_refresh_clock(nodes->loop);
    event.now = nodes->loop->now;
    if (!is_usual(&node->link, &event)) {
        change_link(node, event);
        return;
    }
    rl_link_step(&node->link, &event);
    nodes->round_trip[node->index] = node->link.round_trip;
    rl_task_schedule(&node->task, rl_link_next(&node->link));
}

/* The node was greeted or failed, for the first time or again. */
static void note_tried(const struct rl_node *node)
{
    rl_startup_check(node->nodes);
    rl_loop_broadcast(node->task.loop, RL_TASK_TRIED, node->index);
}

void rl_nodes_report_voter(struct rl_nodes *nodes, enum rl_task_event event, unsigned node)
{
    nodes->view.leases = nodes->loop->tasks;
    rl_loop_broadcast(nodes->loop, event, node);
}

static void tick_node(struct rl_task *task)
{
    struct rl_node *node = (struct rl_node *)task;
    bool was_quarantined = node->link.state == RL_LINK_QUARANTINED;
    step_link(node, (struct rl_link_event){.type = RL_LINK_TICK});
    if (was_quarantined && rl_link_is_ready(&node->link))
        rl_nodes_report_voter(node->nodes, RL_TASK_READY, node->index);
    else if (node->woke)
        rl_loop_broadcast(node->task.loop, RL_TASK_AWAKE, node->index);
    node->woke = false;
    if (node->link.state == RL_LINK_DOWN)
        note_tried(node);
    else
        rl_startup_check(node->nodes);
}

static const struct rl_task_class node_class = {
    .tick = tick_node,
};

static void on_connected(void *arg)
{
    struct rl_node *node = arg;
    step_link(node, (struct rl_link_event){.type = RL_LINK_CONNECTED});
}

static bool is_duplicate(const struct rl_node *node, const char *server_id)
{
    const struct rl_nodes *nodes = node->nodes;
    for (unsigned i = 0; i < nodes->n; i++) {
        const struct rl_link *other = &nodes->node[i].link;
        if (i != node->index && !other->duplicate && server_id[0] &&
            strcmp(other->server_id, server_id) == 0)
            return true;
    }
    return false;
}

static void nodes_on_greeted(void *arg, struct rl_identity *identity)
{
    struct rl_node *node = arg;
    struct rl_nodes *nodes = node->nodes;
    identity->is_duplicate = is_duplicate(node, rl_identity_server_id(identity));
    step_link(node, (struct rl_link_event){.type = RL_LINK_GREETED, .identity = identity});
    if (rl_link_is_open(&node->link))
        nodes->handler->greeted(nodes->arg, node->index, identity);
    if (node->link.restarted) /* its data may be lost, even if the node is refused */
        rl_loop_broadcast(nodes->loop, RL_TASK_RESTARTED, node->index);
    if (rl_link_is_open(&node->link))
        rl_nodes_report_voter(nodes, RL_TASK_READY, node->index);
    note_tried(node);
}

/* The reply to a release means the same at any time, so it needs no fresh clock. */
static void deliver_reply(struct rl_node *node, const struct rl_op *op,
                          const struct rl_reply *reply)
{
    struct rl_task *task = op->task;
    if (op->command != RL_CMD_RELEASE)
        rl_loop_refresh_clock(node->task.loop);
    if (!task->dead)
        task->class->replied(task, node->index, op, reply);
    else if (task->class->replied_late)
        task->class->replied_late(task, node->index, op, reply);
    if (node->task.loop->closing)
        return; /* rl_task_close_all() has set `pending` to 0 */
    rl_task_replied(task);
}

static void update_link(struct rl_node *node, rl_time sent)
{
    rl_time oldest = rl_connection_oldest(&node->connection);
    if (rl_link_wants_reply(&node->link, node->task.loop->now, oldest))
        step_link(node, (struct rl_link_event){
                            .type = RL_LINK_ANSWERED, .sent = sent, .oldest = oldest});
}

/* Passes a fault of the node itself, not of a single command, to its link. */
RL_RARE static void handle_fault(struct rl_node *node, const struct rl_reply *reply)
{
    enum rl_fault fault = node->reconnect_fault;
    if (reply->type == RL_REPLY_ERROR &&
        rl_fault_of_error(reply->text, reply->len) != RL_FAULT_NOSCRIPT)
        node->stats.errors++;
    if (fault == RL_FAULT_NONE) {
        fault = rl_fault_of_error(reply->text, reply->len);
        if (!rl_fault_is_of_node(fault))
            return;
    }
    node->reconnect_fault = RL_FAULT_NONE;
    if (rl_link_is_open(&node->link))
        step_link(node, (struct rl_link_event){.type = RL_LINK_FAULT, .fault = fault});
}

/* Before the task gets the reply: its callback may ask why it failed. */
RL_RARE static void keep_words(struct rl_node *node, const struct rl_reply *reply)
{
    enum rl_fault fault = rl_fault_of_error(reply->text, reply->len);
    if (fault != RL_FAULT_NOSCRIPT)
        rl_words_set_reply(&node->connection.words, fault, reply, false,
                           node->connection.secret);
}

/* on_leave() updates the link of a READY node, when all arrived replies are parsed. */
RL_HOT static void on_replied(void *arg, const struct rl_op *op,
                              const struct rl_reply *reply)
{
    struct rl_node *node = arg;
    rl_histogram_add(&node->stats.round_trip, node->task.loop->boot - op->asked);
    if (!rl_link_is_ready(&node->link))
        update_link(node, op->sent);
    else if (node->took == 0)
        node->took = rl_max(node->task.loop->now - op->sent, 1);
    if (reply->type == RL_REPLY_ERROR)
        keep_words(node, reply);
    deliver_reply(node, op, reply);
    if (reply->type == RL_REPLY_ERROR || node->reconnect_fault != RL_FAULT_NONE)
        handle_fault(node, reply);
}

static void on_dropped(void *arg, const struct rl_op *op)
{
    deliver_reply(arg, op, NULL);
}

static void on_failed(void *arg, enum rl_fault fault)
{
    node_failed(arg, fault);
    note_tried(arg);
}

static void on_enter(void *arg)
{
    struct rl_loop *loop = ((struct rl_node *)arg)->task.loop;
    rl_loop_wake(loop);
    loop->reads_replies = true;
}

RL_HOT static void on_leave(void *arg)
{
    struct rl_node *node = arg;
    struct rl_loop *loop = node->task.loop;
    loop->reads_replies = false;
    if (!loop->closing)
        rl_loop_refresh_clock(loop);
    /* Uses `took`, which excludes the time spent in callbacks. */
    if (node->took > 0 && rl_link_is_ready(&node->link) && !loop->closing)
        update_link(node, loop->now - node->took);
    node->took = 0;
    if (node->nodes->full)
        note_room(node);
    rl_loop_leave(loop);
}

static const struct rl_connection_handler node_handler = {
    .enter = on_enter,
    .leave = on_leave,
    .connected = on_connected,
    .greeted = nodes_on_greeted,
    .replied = on_replied,
    .dropped = on_dropped,
    .failed = on_failed,
};

void rl_node_sent(struct rl_node *node)
{
    step_link(node, (struct rl_link_event){.type = RL_LINK_SENT});
}

/*
 * A child that was forked inside a callback must not write: the streams are its parent's.
 */
void rl_nodes_write(struct rl_nodes *nodes)
{
    while (nodes->unwritten && rl_loop_is_ours(nodes->loop)) {
        unsigned i = rl_first(nodes->unwritten);
        struct rl_node *node = &nodes->node[i];
        nodes->unwritten &= ~rl_bit(i);
        enum rl_fault fault = node->connection.stream
                                  ? rl_connection_flush(&node->connection)
                                  : RL_FAULT_NONE;
        if (fault != RL_FAULT_NONE)
            node_failed(node, fault);
    }
    if (!nodes->unwritten)
        rl_send_batch_clear(&nodes->batch);
}

/* --- init --- */

bool rl_nodes_init(struct rl_nodes *nodes, struct rl_loop *loop,
                   const redlock_options *options, unsigned n,
                   const struct rl_nodes_handler *handler, void *arg)
{
    nodes->loop = loop;
    nodes->options = options;
    nodes->handler = handler;
    nodes->arg = arg;
    nodes->resolver.base = loop->base;
    nodes->window = RL_NODE_WINDOW;
    nodes->view.round_trip = nodes->round_trip;
    nodes->node = calloc(n, sizeof(*nodes->node));
    if (!nodes->node || !rl_startup_init(nodes))
        return false;
    for (; nodes->n < n; nodes->n++) {
        struct rl_node *node = &nodes->node[nodes->n];
        node->nodes = nodes;
        node->index = nodes->n;
        if (!rl_task_init(&node->task, loop, &node_class))
            return false;
    }
    nodes->all = rl_all(n);
    nodes->q = options->quorum ? options->quorum : rl_majority(n);
    nodes->max_ttl =
        (options->max_ttl_ms ? options->max_ttl_ms : REDLOCK_QUARANTINE_FLOOR_MS) * RL_MS;
    return true;
}

static redlock_code begin_tls(struct rl_nodes *nodes)
{
    const redlock_options *options = nodes->options;
    const struct rl_tls_options tls = {
        .ca_file = options->tls_ca_file,
        .ca_dir = options->tls_ca_dir,
        .cert_file = options->tls_cert_file,
        .key_file = options->tls_key_file,
        .name = options->tls_name,
        .insecure = options->tls_insecure,
    };
    enum rl_fault fault;
    char why[192];
    nodes->tls = rl_tls_new(&tls, &fault, why, sizeof(why));
    if (nodes->tls)
        return REDLOCK_OK;
    if (fault == RL_FAULT_MEMORY)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    const char *field = fault == RL_FAULT_TLS_CA_FILE
                            ? tls.ca_file ? "tls_ca_file" : "tls_ca_dir"
                        : fault == RL_FAULT_TLS_CERT_FILE ? "tls_cert_file"
                        : fault == RL_FAULT_TLS_KEY_FILE  ? "tls_key_file"
                                                          : NULL;
    return rl_fail_field(field ? REDLOCK_BAD_OPTION : REDLOCK_UNSUPPORTED,
                         REDLOCK_REASON_NONE, field, "%s", why);
}

redlock_code rl_nodes_parse_uris(struct rl_nodes *nodes, const char *const *uris)
{
    redlock_code code;
    for (unsigned i = 0; i < nodes->n; i++) {
        struct rl_node *node = &nodes->node[i];
        errno = 0;
        const char *why = rl_uri_parse(uris[i], nodes->options->tls, &node->uri);
        if (why && errno == ENOMEM)
            return rl_fail_by_code(REDLOCK_NO_MEMORY);
        const char *scheme = why ? rl_uri_missing_scheme(uris[i]) : NULL;
        if (scheme)
            return rl_fail(REDLOCK_BAD_URI, REDLOCK_REASON_MALFORMED,
                           "node %u: the URI has no scheme: did you mean %s%s?", i + 1,
                           scheme, uris[i]);
        if (why) /* the message omits the URI: it may contain a password */
            return rl_fail(REDLOCK_BAD_URI, REDLOCK_REASON_MALFORMED,
                           "node %u: the URI is malformed: %s", i + 1, why);
        if (node->uri.tls && !nodes->tls && (code = begin_tls(nodes)) != REDLOCK_OK)
            return code;
        rl_connection_init(&node->connection, &nodes->resolver, &nodes->batch, &node->uri,
                           nodes->tls, &node_handler, node);
        for (unsigned j = 0; j < i; j++)
            if (rl_uri_same(&nodes->node[j].uri, &node->uri))
                return rl_fail(REDLOCK_DUPLICATE_NODE, REDLOCK_REASON_TWICE,
                               "nodes %u and %u are the same: %s", j + 1, i + 1,
                               node->uri.shown);
    }
    return REDLOCK_OK;
}

/*
 * The client's clock advances with the faster of two clocks, and a time daemon may slew one
 * of them by 8.3 %. A fast clock is safe for a holder, but ends a quarantine too early. So
 * the quarantine is a tenth longer.
 */
#define CLOCK_SLACK 10

static rl_time quarantine_of(const struct rl_nodes *nodes)
{
    if (nodes->options->durable)
        return 0;
    rl_time ttl = nodes->max_ttl;
    rl_time drift = ttl - rl_valid_until(0, ttl, nodes->options->drift_ppm);
    return ttl + drift + ttl / CLOCK_SLACK;
}

rl_time rl_nodes_reply_timeout(const struct rl_nodes *nodes, rl_node_set of)
{
    rl_time longest = 0;
    for (rl_node_set rest = of; rest; rest &= rest - 1)
        longest =
            rl_max(longest, rl_lease_node_timeout(nodes->options->node_timeout_ms * RL_MS,
                                                  RL_SUSPECT_CAP * RL_NODE_TIMEOUT_SHARE,
                                                  nodes->round_trip[rl_first(rest)]));
    return longest;
}

void rl_nodes_use_ttl(struct rl_nodes *nodes, rl_time ttl)
{
    if (ttl <= nodes->max_ttl)
        return;
    nodes->max_ttl = ttl;
    for (unsigned i = 0; i < nodes->n; i++) {
        rl_link_set_quarantine(&nodes->node[i].link, quarantine_of(nodes));
        rl_task_schedule(&nodes->node[i].task, nodes->loop->now);
    }
}

void rl_nodes_start(struct rl_nodes *nodes)
{
    struct rl_link_params params = {
        .connect_timeout = nodes->options->connect_timeout_ms * RL_MS,
        .node_timeout = nodes->options->node_timeout_ms * RL_MS,
        .quarantine = quarantine_of(nodes),
    };
    for (unsigned i = 0; i < nodes->n; i++) {
        rl_link_init(&nodes->node[i].link, &params, nodes->loop->now);
        rl_task_schedule(&nodes->node[i].task, nodes->loop->now);
    }
    nodes->startup.over_at = RL_NEVER;
    rl_task_schedule(&nodes->startup_task, nodes->loop->now);
}

void rl_nodes_stop_reading(struct rl_nodes *nodes)
{
    for (unsigned i = 0; i < nodes->n; i++)
        rl_connection_stop_reading(&nodes->node[i].connection);
}

void rl_nodes_close(struct rl_nodes *nodes, bool forked)
{
    for (unsigned i = 0; i < nodes->n; i++) {
        rl_connection_clear(&nodes->node[i].connection, forked);
        rl_uri_clear(&nodes->node[i].uri);
    }
    rl_resolver_clear(&nodes->resolver);
    for (unsigned command = 0; command < RL_COMMANDS; command++)
        for (unsigned i = 0; i < RL_TEMPLATES; i++)
            rl_command_template_clear(&nodes->template[command][i]);
    rl_send_batch_free(&nodes->batch);
    free(nodes->node);
    rl_tls_free(nodes->tls);
}
