/* The client's members: links and their nodes, and the gate before the first acquire. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "options.h"
#include "wards.h"

static rl_nodes settled(const redlock_client *client)
{
    rl_nodes set = 0;
    for (unsigned i = 0; i < client->n; i++)
        if (rl_link_is_settled(&client->member[i].link))
            set |= rl_bit(i);
    return set;
}

static void look_at_gate(redlock_client *client)
{
    if (rl_gate_is_open(&client->gate))
        return;
    rl_client_freshen(client);
    if (client->gate.deadline == 0) /* the loop begins to run: only now time counts */
        rl_gate_init(&client->gate, client->view.now,
                     client->options.connect_timeout_ms * RL_MS);
    if (!rl_gate_step(&client->gate, client->n, client->q, client->view.ready,
                      settled(client), client->view.now)) {
        rl_task_due(&client->gate_task, client->gate.deadline);
        return;
    }
    rl_task_end(&client->gate_task);
    for (struct rl_task *task = client->list.next; task != &client->list;
         task = task->next) {
        rl_client_freshen(client);
        if (!task->dead && task->class->open)
            task->class->open(task);
    }
}

static void tick_gate(struct rl_task *task)
{
    rl_heap_drop(&task->client->heap, &task->due);
    look_at_gate(task->client);
}

static void destroy_nothing(struct rl_task *task)
{
    (void)task;
}

static const struct rl_task_class gate_class = {
    .tick = tick_gate,
    .destroy = destroy_nothing,
};

/* What the leases see of this member's link. */
static void show(struct rl_member *member)
{
    struct rl_view *view = &member->task.client->view;
    rl_nodes bit = rl_bit(member->index);
    view->ready = rl_link_is_ready(&member->link) ? view->ready | bit : view->ready & ~bit;
    rl_nodes *awake = &member->task.client->awake;
    *awake = rl_link_is_awake(&member->link) ? *awake | bit : *awake & ~bit;
    view->open = rl_link_is_open(&member->link) ? view->open | bit : view->open & ~bit;
    member->task.client->round_trip[member->index] = member->link.round_trip;
}

static char *read_password(const char *path)
{
    char text[512];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    ssize_t len = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (len <= 0)
        return NULL;
    text[len] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    return strdup(text);
}

bool rl_member_greet(const struct rl_member *member, struct rl_node *node)
{
    const redlock_client *client = member->task.client;
    const redlock_options *options = &client->options;
    const struct rl_uri *uri = &member->node.uri;
    char *from_file = options->password_file && !uri->password
                          ? read_password(options->password_file)
                          : NULL;
    struct rl_credentials who = {
        .user = uri->user ? uri->user : options->username,
        .password = uri->password ? uri->password
                    : from_file   ? from_file
                                  : options->password,
        .db = uri->db,
        .marker_key = {client->marker_key, client->marker_key_len},
    };
    bool said = rl_node_greet(node, &who);
    free(from_file);
    return said;
}

static bool greet(struct rl_member *member)
{
    redlock_client *client = member->task.client;
    client->unwritten |= rl_bit(member->index);
    rl_client_plan(client);
    return rl_member_greet(member, &member->node);
}

static void step_link(struct rl_member *member, struct rl_link_event event);

void rl_member_failed(struct rl_member *member, enum rl_fault fault)
{
    step_link(member, (struct rl_link_event){.type = RL_LINK_FAILED, .fault = fault});
}

static void act(struct rl_member *member, enum rl_link_action action)
{
    switch (action) {
    case RL_LINK_NOTHING: break;
    case RL_LINK_CONNECT: rl_node_connect(&member->node); break;
    case RL_LINK_GREET:
        if (!greet(member))
            rl_member_failed(member, RL_FAULT_MEMORY);
        break;
    case RL_LINK_ABORT: rl_node_abort(&member->node); break;
    }
}

/* By far the most events: what a node that votes is asked and answers moves no state. */
static bool is_usual(const struct rl_link *link, const struct rl_link_event *event)
{
    bool passes_by = event->type == RL_LINK_ANSWERED || event->type == RL_LINK_SENT;
    return passes_by && link->state == RL_LINK_READY;
}

static void step_link(struct rl_member *member, struct rl_link_event event)
{
    redlock_client *client = member->task.client;
    rl_client_freshen(client);
    event.now = client->view.now;
    if (is_usual(&member->link, &event)) {
        rl_link_step(&member->link, &event);
        client->round_trip[member->index] = member->link.round_trip;
        rl_task_due(&member->task, rl_link_next(&member->link));
        return;
    }
    if (event.type != RL_LINK_SENT && event.type != RL_LINK_ANSWERED)
        event.random = rl_client_random(client);
    enum rl_link_action action = rl_link_step(&member->link, &event);
    show(member);
    if (!rl_link_is_open(&member->link))
        rl_wards_gone(client, member->index);
    if (action != RL_LINK_NOTHING)
        act(member, action);
    rl_task_due(&member->task, rl_link_next(&member->link));
}

static void tell_forgot(redlock_client *client, unsigned node)
{
    for (struct rl_task *task = client->list.next; task != &client->list;
         task = task->next) {
        rl_client_freshen(client);
        if (!task->dead && task->class->forgot)
            task->class->forgot(task, node);
    }
}

static void tell_ready(redlock_client *client, unsigned node)
{
    for (struct rl_task *task = client->list.next; task != &client->list;
         task = task->next) {
        rl_client_freshen(client);
        if (!task->dead && task->class->ready)
            task->class->ready(task, node);
    }
}

/* Greeted or failed, for the first time or again. */
static void tell_tried(redlock_client *client, unsigned node)
{
    for (struct rl_task *task = client->list.next; task != &client->list; task = task->next)
        if (!task->dead && task->class->tried)
            task->class->tried(task, node);
}

static void tick_member(struct rl_task *task)
{
    struct rl_member *member = (struct rl_member *)task;
    rl_heap_drop(&task->client->heap, &task->due);
    step_link(member, (struct rl_link_event){.type = RL_LINK_TICK});
    look_at_gate(task->client);
    if (!rl_link_is_open(&member->link))
        tell_tried(task->client, member->index);
}

static const struct rl_task_class member_class = {
    .tick = tick_member,
    .destroy = destroy_nothing,
};

static void on_connected(void *arg, struct rl_node *node)
{
    struct rl_member *member = arg;
    (void)node;
    step_link(member, (struct rl_link_event){.type = RL_LINK_CONNECTED});
}

static bool is_duplicate(const struct rl_member *member, const char *run_id)
{
    const redlock_client *client = member->task.client;
    for (unsigned i = 0; i < client->n; i++) {
        const struct rl_link *other = &client->member[i].link;
        if (i != member->index && !other->duplicate && run_id[0] &&
            strcmp(other->run_id, run_id) == 0)
            return true;
    }
    return false;
}

static void on_greeted(void *arg, struct rl_node *node, struct rl_identity *identity)
{
    struct rl_member *member = arg;
    redlock_client *client = member->task.client;
    (void)node;
    identity->is_duplicate = is_duplicate(member, identity->process.run_id);
    step_link(member,
              (struct rl_link_event){.type = RL_LINK_GREETED, .identity = identity});
    if (rl_link_is_open(&member->link))
        rl_wards_greeted(client, member->index, identity);
    if (member->link.restarted) /* it has forgotten, also if it is refused */
        tell_forgot(client, member->index);
    if (rl_link_is_open(&member->link))
        tell_ready(client, member->index);
    look_at_gate(client);
    tell_tried(client, member->index);
}

/* What the answer to a release means does not depend on when it is looked at. */
static void give_answer(struct rl_member *member, const struct rl_op *op,
                        const struct rl_reply *reply)
{
    struct rl_task *task = op->task;
    if (op->text != RL_RELEASE)
        rl_client_freshen(member->task.client);
    if (!task->dead)
        task->class->answer(task, member->index, op, reply);
    if (member->task.client->closing)
        return; /* nothing is owed any more */
    rl_task_repaid(task);
}

static void learn(struct rl_member *member, rl_time sent)
{
    rl_time oldest = rl_node_oldest(&member->node);
    if (rl_link_learns(&member->link, member->task.client->view.now, oldest))
        step_link(member, (struct rl_link_event){
                              .type = RL_LINK_ANSWERED, .sent = sent, .oldest = oldest});
}

/* Of the node itself, not of what was asked. */
RL_RARE static void look_at_fault(struct rl_member *member, const struct rl_reply *reply)
{
    enum rl_fault fault = member->distrust;
    if (fault == RL_FAULT_NONE) {
        fault = rl_fault_of_error(reply->text, reply->len);
        if (!rl_fault_is_of_node(fault))
            return;
    }
    member->distrust = RL_FAULT_NONE;
    if (rl_link_is_open(&member->link))
        step_link(member, (struct rl_link_event){.type = RL_LINK_FAULT, .fault = fault});
}

/* Of a node that votes the link learns when all that arrived has been looked at. */
static void on_replied(void *arg, struct rl_node *node, const struct rl_op *op,
                       const struct rl_reply *reply)
{
    struct rl_member *member = arg;
    (void)node;
    if (!rl_link_is_ready(&member->link))
        learn(member, op->sent);
    else if (member->took == 0)
        member->took = rl_max(member->task.client->view.now - op->sent, 1);
    give_answer(member, op, reply);
    if (reply->type == RL_REPLY_ERROR || member->distrust != RL_FAULT_NONE)
        look_at_fault(member, reply);
}

static void on_cut(void *arg, struct rl_node *node, const struct rl_op *op)
{
    (void)node;
    give_answer(arg, op, NULL);
}

static void on_failed(void *arg, struct rl_node *node, enum rl_fault fault)
{
    struct rl_member *member = arg;
    redlock_client *client = member->task.client;
    (void)node;
    rl_member_failed(member, fault);
    look_at_gate(client);
    tell_tried(client, member->index);
}

static void on_wake(void *arg)
{
    redlock_client *client = ((struct rl_member *)arg)->task.client;
    rl_client_wake(client);
    client->hears = true;
}

static void on_sleep(void *arg)
{
    struct rl_member *member = arg;
    redlock_client *client = member->task.client;
    client->hears = false;
    if (!client->closing)
        rl_client_freshen(client);
    if (member->took > 0 && rl_link_is_ready(&member->link) && !client->closing)
        learn(member, client->view.now - member->took); /* callbacks took their own time */
    member->took = 0;
    rl_client_leave(client);
}

static const struct rl_node_owner node_owner = {
    .wake = on_wake,
    .sleep = on_sleep,
    .connected = on_connected,
    .greeted = on_greeted,
    .replied = on_replied,
    .cut = on_cut,
    .failed = on_failed,
};

void rl_member_sent(struct rl_member *member)
{
    step_link(member, (struct rl_link_event){.type = RL_LINK_SENT});
}

void rl_member_distrust(struct rl_member *member, enum rl_fault fault)
{
    member->distrust = fault;
}

/* --- making --- */

redlock_code rl_members_parse(redlock_client *client, const char *const *uris,
                              redlock_error *error)
{
    for (unsigned i = 0; i < client->n; i++) {
        struct rl_member *member = &client->member[i];
        struct rl_uri uri;
        errno = 0;
        const char *why = rl_uri_parse(uris[i], &uri);
        if (why && errno == ENOMEM)
            return rl_fail(error, REDLOCK_NO_MEMORY, "out of memory");
        const char *scheme = why ? rl_uri_missing_scheme(uris[i]) : NULL;
        if (scheme)
            return rl_fail(error, REDLOCK_BAD_URI,
                           "node %u: the URI has no scheme: did you mean %s%s?", i + 1,
                           scheme, uris[i]);
        if (why) /* the text is not shown: it may hold a password */
            return rl_fail(error, REDLOCK_BAD_URI, "node %u: the URI is malformed: %s",
                           i + 1, why);
        rl_node_init(&member->node, client->base, &client->resolver, &client->post, &uri,
                     &node_owner, member);
        if (uri.tls)
            return rl_fail(error, REDLOCK_NOT_BUILT,
                           "node %u: rediss:// is not built in yet", i + 1);
        for (unsigned j = 0; j < i; j++)
            if (rl_uri_same(&client->member[j].node.uri, &uri))
                return rl_fail(error, REDLOCK_DUPLICATE_NODE,
                               "nodes %u and %u are the same: %s", j + 1, i + 1, uri.shown);
    }
    return REDLOCK_OK;
}

/*
 * Our clock is the faster of two, which is the safe side for a holder and the wrong one for
 * a quarantine: a time daemon may slew one of them by 8.3 %.
 */
#define CLOCK_SLACK 10

static rl_time quarantine_of(const redlock_client *client)
{
    if (client->options.durable)
        return 0;
    rl_time ttl = client->max_ttl;
    rl_time drift = ttl - rl_valid_until(0, ttl, client->options.drift_ppm);
    return ttl + drift + ttl / CLOCK_SLACK;
}

void rl_client_use_ttl(redlock_client *client, rl_time ttl)
{
    if (ttl <= client->max_ttl)
        return;
    client->max_ttl = ttl;
    for (unsigned i = 0; i < client->n; i++)
        client->member[i].link.terms.quarantine = quarantine_of(client);
}

void rl_members_start(redlock_client *client)
{
    struct rl_link_terms terms = {
        .connect_timeout = client->options.connect_timeout_ms * RL_MS,
        .node_timeout = client->options.node_timeout_ms * RL_MS,
        .quarantine = quarantine_of(client),
    };
    for (unsigned i = 0; i < client->n; i++) {
        struct rl_member *member = &client->member[i];
        member->index = i;
        rl_link_init(&member->link, &terms, client->view.now);
        rl_task_due(&member->task, client->view.now);
    }
    client->gate.opened_at = RL_NEVER;
    rl_task_due(&client->gate_task, client->view.now);
}

bool rl_members_init(redlock_client *client)
{
    if (!rl_task_init(&client->gate_task, client, &gate_class))
        return false;
    for (unsigned i = 0; i < client->n; i++)
        if (!rl_task_init(&client->member[i].task, client, &member_class))
            return false;
    return true;
}

void rl_members_deafen(redlock_client *client)
{
    for (unsigned i = 0; i < client->n; i++)
        rl_node_deafen(&client->member[i].node);
}
