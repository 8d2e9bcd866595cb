/* Checks whether the nodes are fit to hold locks: probes them and reports the findings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client_list.h"
#include "core/quorum.h"
#include "health_probe.h"
#include "member_probe.h"

#define KEY_NAME "!wake:check-%016llx%016llx"
#define KEY_ROOM (REDLOCK_KEY_MAX + 64)

/* Of each node: the first list of its clients, and one that confirms it. Their indexes are
   also the `seq` of CLIENT LIST; the other commands follow. */
#define LISTS 2

struct check {
    struct rl_task task;
    unsigned how;
    bool begun, asked;
    bool again;   /* the lists that confirm the first ones are asked for */
    bool pausing; /* before that, until `deadline` */
    rl_time deadline;
    rl_node_set listing; /* the nodes whose list is due */
    struct rl_client_list *list[LISTS][RL_NODES_MAX];
    unsigned waiting[RL_NODES_MAX]; /* outstanding replies per node */
    redlock_check_fn *callback;
    void *arg;
    struct rl_probe probe[RL_NODES_MAX];
    redlock_node_health health[RL_NODES_MAX];
    const redlock_node_health *each[RL_NODES_MAX];
    struct rl_findings findings[RL_NODES_MAX];
    size_t key_len;
    char key[KEY_ROOM]; /* unused by any client */
};

/* --- reporting --- */

/* The largest step of a clock: the drift bound for the default TTL. */
static rl_time allowance_of(const redlock_client *client)
{
    rl_time ttl = REDLOCK_TTL_MS * RL_MS;
    return ttl - rl_valid_until(0, ttl, client->options.drift_ppm);
}

static const char *find_twin(const redlock_client *client, unsigned node)
{
    for (unsigned i = 0; i < client->nodes.n; i++)
        if (i != node && strcmp(client->nodes.node[i].link.server_id,
                                client->nodes.node[node].link.server_id) == 0)
            return client->nodes.node[i].uri.shown;
    return NULL;
}

static void note_certificates(const struct rl_connection *connection,
                              struct rl_probe *probe, redlock_node_health *node)
{
    rl_time left;
    rl_connection_certificates(connection, &left, &probe->client_certificate);
    node->certificate_us = left < 0 ? REDLOCK_UNKNOWN : left;
}

/* Adds what is known from the nodes' links and URIs. */
static void note_links(struct check *check)
{
    const redlock_client *client = rl_client_of(&check->task);
    for (unsigned i = 0; i < client->nodes.n; i++) {
        struct rl_probe *probe = &check->probe[i];
        probe->denied = rl_greeting_command(client->nodes.node[i].connection.denied_at);
        note_certificates(&client->nodes.node[i].connection, probe, &check->health[i]);
        probe->text = rl_node_text(&client->nodes.node[i], probe->fault);
        if (probe->fault == RL_FAULT_DUPLICATE)
            probe->twin = find_twin(client, i);
    }
}

static void evaluate(struct check *check, redlock_health_report *report)
{
    const redlock_client *client = rl_client_of(&check->task);
    struct rl_health_context all = {
        .probes = check->probe,
        .nodes = check->health,
        .n = client->nodes.n,
        .prefix = client->options.prefix ? client->options.prefix : "",
        .strict = check->how & REDLOCK_CHECK_STRICT,
        .durable = client->options.durable,
        .fenced = check->how & REDLOCK_CHECK_FENCED,
        .allowance = allowance_of(client),
        .quarantine = client->nodes.node[0].link.params.quarantine,
    };
    rl_clock_offsets(check->probe, check->health, client->nodes.n);
    for (unsigned i = 0; i < client->nodes.n; i++) {
        redlock_node_health *node = &check->health[i];
        struct rl_findings *findings = &check->findings[i];
        rl_health_check_node(&all, i, findings);
        node->findings = findings->each;
        node->count = findings->count;
        node->fit = true;
        for (size_t j = 0; j < node->count; j++)
            node->fit &= node->findings[j]->severity != REDLOCK_DEFECT;
        report->fit += node->fit;
    }
    report->health = rl_health_overall(check->health, client->nodes.n, client->nodes.q);
}

static void check_finish(struct check *check, redlock_code code)
{
    redlock_client *client = rl_client_of(&check->task);
    redlock_health_report report = {
        .code = code,
        .health = REDLOCK_NOT_CHECKED,
        .quorum = client->nodes.q,
        .nodes = check->each,
        .count = client->nodes.n,
    };
    if (code == REDLOCK_OK) {
        note_links(check);
        evaluate(check, &report);
    }
    rl_task_end(&check->task); /* the memory stays valid until the outermost call returns */
    check->callback(client, &report, check->arg);
    rl_loop_called_back(&client->loop);
}

/* --- sending --- */

static void ask_for_clients(struct check *check, unsigned node)
{
    struct rl_nodes *nodes = &rl_client_of(&check->task)->nodes;
    struct rl_word word[] = {{"CLIENT", 6}, {"LIST", 4}};
    check->probe[node].unlisted = true;
    if (!rl_nodes_send_raw(nodes, &check->task, check->again, word, 2, node))
        return;
    rl_resp_keep_whole(nodes->node[node].connection.resp);
    check->listing |= rl_bit(node);
}

/* Sends all commands to a node, and counts the replies to wait for. */
static void probe_node(struct check *check, unsigned node)
{
    struct rl_probe *probe = &check->probe[node];
    struct rl_word key = {check->key, check->key_len};
    probe->rights = rl_acl_rights(probe->right);
    probe->asked = check->task.loop->now;
    for (size_t i = 0; i < rl_probe_commands(probe); i++) {
        struct rl_word word[RL_ACL_RIGHT_WORDS];
        size_t words = rl_probe_argv(probe, i, key, word);
        if (!rl_nodes_send_raw(&rl_client_of(&check->task)->nodes, &check->task,
                               (uint32_t)(LISTS + i), word, words, node)) {
            probe->fault = RL_FAULT_MEMORY;
            return;
        }
        check->waiting[node]++;
    }
    if (check->how & REDLOCK_CHECK_CLIENTS) /* the last one: its reply may be long */
        ask_for_clients(check, node);
}

static bool is_answered(const struct check *check)
{
    if (check->pausing || check->listing)
        return false;
    for (unsigned i = 0; i < rl_client_of(&check->task)->nodes.n; i++)
        if (check->waiting[i] > 0)
            return false;
    return true;
}

/* A check is not urgent: a node gets at least the connect timeout to reply. */
static rl_time timeout_of(const redlock_client *client)
{
    return rl_max(client->options.node_timeout_ms, client->options.connect_timeout_ms) *
           RL_MS;
}

static void check_send_all(struct check *check)
{
    redlock_client *client = rl_client_of(&check->task);
    check->asked = true;
    check->deadline = rl_time_add_sat(client->loop.now, timeout_of(client));
    /* Now: a list that is too long ends its connection. */
    rl_member_probe_note(client, check->probe, check->health);
    for (unsigned i = 0; i < client->nodes.n; i++) {
        check->probe[i].fault = client->nodes.node[i].link.fault;
        if (!rl_link_is_open(&client->nodes.node[i].link))
            continue;
        if (check->probe[i].fault == RL_FAULT_TIMEOUT) /* SUSPECT: it may still reply */
            check->probe[i].fault = RL_FAULT_NONE;
        probe_node(check, i);
    }
    rl_task_schedule(&check->task, check->deadline);
}

/* Compares the lists of clients. If they differ, asks for them again, after a pause. */
static bool goes_on(struct check *check)
{
    redlock_client *client = rl_client_of(&check->task);
    if (check->pausing) {
        check->pausing = false;
        check->deadline = rl_time_add_sat(client->loop.now, timeout_of(client));
        for (unsigned i = 0; i < client->nodes.n; i++)
            if (check->list[0][i] && rl_link_is_open(&client->nodes.node[i].link))
                ask_for_clients(check, i);
        return true;
    }
    bool differ = rl_client_lists_compare(check->list[0], check->list[check->again],
                                          client->nodes.n, check->probe);
    if (!differ || check->again)
        return false;
    check->again = check->pausing = true;
    check->listing = 0;
    check->deadline = rl_time_add_sat(client->loop.now, RL_CLIENT_AGE);
    return true;
}

/* Also called before the deadline, whenever something may have changed. */
static void check_tick(struct rl_task *task)
{
    struct check *check = (struct check *)task;
    redlock_client *client = rl_client_of(task);
    if (!check->begun) {
        check->begun = true;
        check->deadline =
            rl_time_add_sat(client->loop.now, client->options.connect_timeout_ms * RL_MS);
    }
    bool late = client->loop.now >= check->deadline;
    if (!check->asked &&
        (late || rl_startup_tried(&client->nodes) == rl_all(client->nodes.n))) {
        check_send_all(check);
        late = false;
    }
    if (!check->asked || (!late && !is_answered(check))) {
        rl_task_schedule(task, check->deadline);
        return;
    }
    for (unsigned i = 0; i < client->nodes.n; i++)
        if (check->waiting[i] > 0)
            check->probe[i].fault = RL_FAULT_TIMEOUT;
    if (goes_on(check))
        rl_task_schedule(task, check->deadline);
    else
        check_finish(check, REDLOCK_OK);
}

/* --- replies --- */

static void note_clients(struct check *check, unsigned node, const struct rl_reply *reply)
{
    struct rl_connection *connection =
        &rl_client_of(&check->task)->nodes.node[node].connection;
    struct rl_client_list **list = &check->list[check->again][node];
    check->listing &= ~rl_bit(node);
    if (reply && reply->type == RL_REPLY_STRING)
        *list = rl_client_list_read(rl_resp_whole(connection->resp, reply));
    check->probe[node].unlisted = !*list;
}

static void note_reply(struct check *check, unsigned node, size_t question,
                       const struct rl_reply *reply)
{
    redlock_client *client = rl_client_of(&check->task);
    check->waiting[node]--;
    if (!reply) {
        check->probe[node].fault = client->nodes.node[node].link.fault;
        return;
    }
    check->health[node].latency_us = client->loop.now - check->probe[node].asked;
    rl_probe_read(&check->probe[node], &check->health[node], question, reply,
                  client->loop.now);
}

static void check_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                         const struct rl_reply *reply)
{
    struct check *check = (struct check *)task;
    if (op->seq >= LISTS)
        note_reply(check, node, op->seq - LISTS, reply);
    else if (op->seq == check->again) /* else it is too late */
        note_clients(check, node, reply);
    if (is_answered(check))
        rl_task_schedule(task, task->loop->now);
}

/* --- start and end --- */

static void check_on_event(struct rl_task *task, enum rl_task_event event, unsigned node)
{
    (void)node;
    if ((event == RL_TASK_TRIED || event == RL_TASK_STARTUP_OVER) &&
        rl_startup_barrier_is_open(&rl_client_of(task)->nodes.startup))
        rl_task_schedule(task, task->loop->now);
}

static void close_check(struct rl_task *task)
{
    check_finish((struct check *)task, REDLOCK_CANCELLED);
}

static void destroy_check(struct rl_task *task)
{
    struct check *check = (struct check *)task;
    for (unsigned i = 0; i < LISTS * RL_NODES_MAX; i++)
        free(check->list[i / RL_NODES_MAX][i % RL_NODES_MAX]);
    rl_task_free(task);
}

static const struct rl_task_class check_class = {
    .tick = check_tick,
    .event = check_on_event,
    .replied = check_answer,
    .close = close_check,
    .destroy = destroy_check,
};

/*
 * Makes a key that no client uses: it is random, and with a long prefix it is longer than a
 * lock's key may be. It is also a channel name that the rule of --acl allows.
 */
static void choose_key(struct check *check)
{
    redlock_client *client = rl_client_of(&check->task);
    const char *prefix = client->options.prefix ? client->options.prefix : "";
    unsigned long long high = rl_loop_random(&client->loop);
    unsigned long long low = rl_loop_random(&client->loop);
    int len = snprintf(check->key, sizeof(check->key), "%s" KEY_NAME, prefix, high, low);
    check->key_len = (size_t)len;
}

static void describe_as_unknown(struct check *check)
{
    const redlock_client *client = rl_client_of(&check->task);
    for (unsigned i = 0; i < client->nodes.n; i++) {
        check->each[i] = &check->health[i];
        check->health[i] = (redlock_node_health){
            .uri = client->nodes.node[i].uri.shown,
            .latency_us = REDLOCK_UNKNOWN,
            .maxmemory = REDLOCK_UNKNOWN,
            .replicas = REDLOCK_UNKNOWN,
            .member_index = REDLOCK_UNKNOWN,
            .generation = REDLOCK_UNKNOWN,
            .quarantine_us = REDLOCK_UNKNOWN,
            .max_ttl_us = REDLOCK_UNKNOWN,
            .certificate_us = REDLOCK_UNKNOWN,
        };
    }
}

static redlock_code check_start(redlock_client *client, unsigned how,
                                redlock_check_fn *callback, void *arg)
{
    if (!callback)
        return rl_fail_no_callback();
    struct check *check = rl_task_new(sizeof(*check), &client->loop, &check_class);
    if (!check)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    check->how = how;
    check->callback = callback;
    check->arg = arg;
    choose_key(check);
    describe_as_unknown(check);
    check_on_event(&check->task, RL_TASK_STARTUP_OVER, 0); /* if it was over before */
    return REDLOCK_OK;
}

redlock_code redlock_check(redlock_client *client, unsigned how, redlock_check_fn *callback,
                           void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = check_start(client, how, callback, arg);
    rl_loop_return(&client->loop);
    return code;
}

size_t redlock_client_acl(const redlock_client *client, unsigned uses, char *text,
                          size_t room)
{
    const redlock_options *options = &client->options;
    const char *user = NULL;
    bool select = false;
    for (unsigned i = 0; i < client->nodes.n; i++) {
        const struct rl_uri *uri = &client->nodes.node[i].uri;
        user = user ? user : uri->user;
        select |= uri->db > 0;
    }
    user = user ? user : options->username;
    return rl_acl_rule(user ? user : "lock", options->prefix ? options->prefix : "", select,
                       uses, text, room);
}
