/*
 * Inspections: inspect and break send one command to every node with an open connection. It
 * does not matter which client holds the lock. A list inspects many keys by one command.
 */
#include "inspect.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/explain.h"
#include "core/reason.h"
#include "redlock/admin.h"

/* What the nodes have at one key. */
struct finding {
    struct rl_ballot ballot[RL_NODES_MAX];
    char value[RL_NODES_MAX][REDLOCK_TOKEN_MAX + 1];
    uint32_t depth[RL_NODES_MAX], queued[RL_NODES_MAX], waited[RL_NODES_MAX];
    int64_t fence[RL_NODES_MAX];
    struct readers {
        char (*token)[REDLOCK_TOKEN_MAX + 1]; /* NULL: none, or no memory */
        size_t count;
    } readers[RL_NODES_MAX]; /* of a shared lock */
    char key[REDLOCK_KEY_MAX];
};

struct inspection {
    struct rl_task task;
    enum rl_command command;
    bool asked;
    bool in_turn; /* as of rl_inspect_keys() */
    rl_node_set unasked, waiting;
    rl_time start, deadline;
    redlock_inspect_fn *callback;
    void *arg;
    unsigned keys, next,
        until; /* `next` is reported next; nodes replied `until` this one */
    struct rl_word key[RL_INSPECT_MAX];
    struct finding finding[];
};

static struct rl_message message_of(const struct inspection *inspection)
{
    return (struct rl_message){
        .kind = rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE),
        .command = inspection->command,
        .seq = inspection->next,
        .args = {.key = inspection->key[0],
                 .set = inspection->key + inspection->next,
                 .set_size = inspection->keys - inspection->next},
    };
}

/* --- reporting --- */

/* Counts the nodes with the value of node `i`. */
static unsigned agree(const struct finding *finding, unsigned n, unsigned i)
{
    unsigned count = 0;
    for (unsigned j = 0; j < n; j++)
        count += finding->ballot[j].vote == RL_VOTE_HELD &&
                 strcmp(finding->value[j], finding->value[i]) == 0;
    return count;
}

/* The largest fence of those that have the same value as node `i`. */
static int64_t highest_fence(const struct finding *finding, unsigned n, unsigned i)
{
    int64_t highest = 0;
    for (unsigned j = 0; j < n; j++)
        if (finding->ballot[j].vote == RL_VOTE_HELD &&
            strcmp(finding->value[j], finding->value[i]) == 0)
            highest = rl_max(highest, finding->fence[j]);
    return highest;
}

static bool has_reader(const struct readers *readers, const char *token)
{
    for (size_t i = 0; i < readers->count; i++)
        if (strcmp(readers->token[i], token) == 0)
            return true;
    return false;
}

/* The nodes that have this reader. */
static rl_node_set nodes_with(const struct finding *finding, unsigned n, const char *token)
{
    rl_node_set nodes = 0;
    for (unsigned i = 0; i < n; i++)
        if (has_reader(&finding->readers[i], token))
            nodes |= rl_bit(i);
    return nodes;
}

/*
 * Counts the readers that q nodes have; writes them to `reader`, if that is not NULL. Their
 * order differs from node to node. So the reader that most nodes have becomes the value of
 * each of them.
 */
static unsigned count_readers(const redlock_client *client, struct finding *finding,
                              const char **reader)
{
    const char *most = NULL;
    rl_node_set found = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < client->nodes.n; i++)
        for (size_t r = 0; r < finding->readers[i].count; r++) {
            const char *token = finding->readers[i].token[r];
            rl_node_set nodes = nodes_with(finding, client->nodes.n, token);
            if (rl_count(nodes) > rl_count(found)) {
                found = nodes;
                most = token;
            }
            if (rl_first(nodes) != i || rl_count(nodes) < client->nodes.q)
                continue;
            if (reader)
                reader[count] = token;
            count++;
        }
    for (; found; found &= found - 1)
        strcpy(finding->value[rl_first(found)], most);
    return count;
}

/* An array for all readers of all nodes. NULL: there are none, or no memory. */
static const char **new_readers(const struct finding *finding, unsigned n)
{
    size_t count = 0;
    for (unsigned i = 0; i < n; i++)
        count += finding->readers[i].count;
    return count > 0 ? malloc(count * sizeof(char *)) : NULL;
}

/* What a key was before it was broken is not asked again: q replies tell what was removed.
 */
static bool is_known(const struct inspection *inspection, const redlock_inspection *report)
{
    const struct rl_nodes *nodes = &rl_client_of(&inspection->task)->nodes;
    if (inspection->command == RL_CMD_BREAK)
        return report->held + report->free >= nodes->q;
    return rl_replies_decide(nodes->n, nodes->q, report->held, report->free,
                             report->agreeing);
}

static int64_t since_of(const char *value)
{
    int64_t since = rl_token_since(value);
    return since < 0 ? since : 1000 * since;
}

static void summarize(const struct inspection *inspection, const struct finding *finding,
                      redlock_inspection *report)
{
    const redlock_client *client = rl_client_of(&inspection->task);
    int64_t free_in = rl_free_in(finding->ballot, client->nodes.n, client->nodes.q);
    report->remaining_ms = free_in < 0 ? REDLOCK_UNKNOWN : free_in;
    for (unsigned i = 0; i < client->nodes.n; i++) {
        report->free += finding->ballot[i].vote == RL_VOTE_GONE;
        if (finding->ballot[i].vote != RL_VOTE_HELD)
            continue;
        report->held++;
        report->waiting = (unsigned)rl_max(report->waiting, finding->queued[i]);
        if (finding->queued[i] > 0)
            report->waited_ms = rl_max(report->waited_ms, finding->waited[i]);
        unsigned count = agree(finding, client->nodes.n, i);
        if (count <= report->agreeing)
            continue;
        report->agreeing = count;
        report->depth = finding->depth[i];
        report->since_ms = since_of(finding->value[i]);
        report->fence = highest_fence(finding, client->nodes.n, i);
    }
    if (report->code == REDLOCK_OK && !is_known(inspection, report)) {
        report->code = rl_client_is_denied(client, finding->ballot) ? REDLOCK_DENIED
                                                                    : REDLOCK_NO_QUORUM;
        report->reason = rl_reason_of_nodes(finding->ballot, client->nodes.n);
    }
}

static void report_finding(struct inspection *inspection, struct finding *finding,
                           redlock_code code)
{
    redlock_client *client = rl_client_of(&inspection->task);
    redlock_node nodes[RL_NODES_MAX];
    const redlock_node *each[RL_NODES_MAX];
    redlock_inspection report = {
        .code = code,
        .quorum = client->nodes.q,
        .nodes = each,
        .count = client->nodes.n,
        .since_ms = REDLOCK_UNKNOWN,
        .waited_ms = REDLOCK_UNKNOWN,
    };
    const char **reader = new_readers(finding, client->nodes.n);
    rl_client_note_absent(client, finding->ballot, false);
    report.readers = count_readers(client, finding, reader);
    report.reader = reader;
    summarize(inspection, finding, &report);
    for (unsigned i = 0; i < client->nodes.n; i++) {
        rl_client_describe(client, i, &finding->ballot[i], finding->value[i], &nodes[i]);
        each[i] = &nodes[i];
    }
    if (inspection->callback)
        inspection->callback(client, &report, inspection->arg);
    free(reader);
}

/* --- sending --- */

#define NEAR_TRIP INT64_C(500) /* us */

bool rl_nodes_are_near(const redlock_client *client)
{
    for (rl_node_set rest = client->nodes.view.open; rest; rest &= rest - 1)
        if (client->nodes.node[rl_first(rest)].link.shortest_trip > NEAR_TRIP)
            return false;
    return true;
}

static void set_votes(struct inspection *inspection, rl_node_set nodes, enum rl_vote vote,
                      enum rl_fault fault)
{
    for (unsigned k = inspection->next; k < inspection->keys; k++)
        for (rl_node_set rest = nodes; rest; rest &= rest - 1) {
            struct finding *finding = &inspection->finding[k];
            finding->ballot[rl_first(rest)] =
                (struct rl_ballot){.vote = vote, .fault = fault, .pttl = -1};
            finding->readers[rl_first(rest)].count = 0; /* of an earlier reply */
        }
}

static void inspect_send(struct inspection *inspection)
{
    redlock_client *client = rl_client_of(&inspection->task);
    struct rl_message message = message_of(inspection);
    do {
        rl_node_set to = inspection->unasked & client->nodes.view.open;
        if (inspection->in_turn)
            to &= -to;
        inspection->unasked &= ~to & client->nodes.view.open;
        inspection->waiting =
            to & ~rl_nodes_send(&client->nodes, &inspection->task, &message, to);
    } while (!inspection->waiting && inspection->unasked);
    set_votes(inspection, inspection->waiting, RL_VOTE_WAITING, RL_FAULT_NONE);
    inspection->start = client->loop.now;
    inspection->deadline = rl_time_add_sat(
        inspection->start, rl_nodes_reply_timeout(&client->nodes, inspection->waiting));
    rl_task_schedule(&inspection->task, inspection->deadline);
}

/* Sends all keys that are not reported yet. */
static void inspect_send_all(struct inspection *inspection)
{
    redlock_client *client = rl_client_of(&inspection->task);
    inspection->asked = true;
    inspection->until = inspection->keys;
    inspection->unasked = client->nodes.view.open;
    set_votes(inspection, rl_all(client->nodes.n), RL_VOTE_ABSENT, RL_FAULT_NONE);
    inspect_send(inspection);
}

/* Reports all keys that are left, unless nodes had no room for them in their replies. */
static void inspect_finish(struct inspection *inspection, redlock_code code)
{
    redlock_client *client = rl_client_of(&inspection->task);
    unsigned until = code == REDLOCK_OK ? inspection->until : inspection->keys;
    if (until == inspection->keys)
        rl_task_end(
            &inspection->task); /* its memory stays until the callback has returned */
    while (inspection->next < until) {
        struct finding *finding = &inspection->finding[inspection->next++];
        report_finding(inspection, finding,
                       client->loop.closing ? REDLOCK_CANCELLED : code);
    }
    if (until < inspection->keys && !client->loop.closing)
        inspect_send_all(inspection);
    rl_loop_called_back(&client->loop);
}

static void inspect_go_on(struct inspection *inspection)
{
    if (inspection->unasked)
        inspect_send(inspection);
    else
        inspect_finish(inspection, REDLOCK_OK);
}

static void inspect_tick(struct rl_task *task)
{
    struct inspection *inspection = (struct inspection *)task;
    redlock_client *client = rl_client_of(task);
    if (!inspection->asked) {
        inspect_send_all(inspection);
        return;
    }
    if (inspection->waiting && client->loop.now < inspection->deadline) {
        rl_task_schedule(task, inspection->deadline);
        return;
    }
    set_votes(inspection, inspection->waiting, RL_VOTE_SILENT, RL_FAULT_TIMEOUT);
    inspection->waiting = 0;
    inspection->in_turn = false; /* the wait for others, too, would be too long */
    inspect_go_on(inspection);
}

/* The words of a text. If there is no memory, there are none. */
static void keep_readers(struct rl_word text, struct readers *ret_readers)
{
    size_t count = text.len > 0;
    free(ret_readers->token); /* of a reply to an earlier command */
    ret_readers->count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.text[i] == ' ';
    ret_readers->token = count > 0 ? calloc(count, sizeof(*ret_readers->token)) : NULL;
    for (size_t from = 0, i = 0; ret_readers->token && from < text.len; i++) {
        size_t len = 0;
        while (from + len < text.len && text.text[from + len] != ' ')
            len++;
        rl_client_keep_value((struct rl_word){text.text + from, len},
                             ret_readers->token[i]);
        ret_readers->count++;
        from += len + 1;
    }
}

static void note_answer(struct finding *finding, unsigned node, uint32_t latency,
                        const struct rl_answer *parsed)
{
    struct rl_ballot *ballot = &finding->ballot[node];
    ballot->vote = parsed->vote;
    ballot->fault = parsed->fault;
    ballot->pttl = parsed->pttl;
    ballot->latency = latency;
    rl_client_keep_value(parsed->value, finding->value[node]);
    finding->depth[node] = parsed->depth;
    finding->queued[node] = parsed->waiting;
    finding->waited[node] = parsed->waited;
    finding->fence[node] = parsed->fence;
    keep_readers(parsed->readers, &finding->readers[node]);
}

/* A text has one key after the other. Any other reply, an error for instance, is of all. */
static void note_answers(struct inspection *inspection, unsigned node,
                         struct rl_answer *parsed)
{
    rl_time latency = inspection->task.loop->now - inspection->start;
    bool is_text = inspection->command == RL_CMD_INSPECT &&
                   (parsed->vote == RL_VOTE_HELD || parsed->vote == RL_VOTE_GONE) &&
                   parsed->fault == RL_FAULT_NONE;
    for (unsigned k = inspection->next; k < inspection->keys; k++) {
        note_answer(&inspection->finding[k], node, (uint32_t)rl_min(latency, UINT32_MAX),
                    parsed);
        if (is_text && !rl_kind_read_rest(parsed)) {
            inspection->until = inspection->until < k + 1 ? inspection->until : k + 1;
            return;
        }
    }
}

static void inspect_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                           const struct rl_reply *reply)
{
    struct inspection *inspection = (struct inspection *)task;
    struct rl_message message = message_of(inspection);
    struct rl_answer parsed;
    if (op->seq != inspection->next) /* it came too late */
        return;
    if (!rl_nodes_parse_reply(&rl_client_of(task)->nodes, message.kind, node, op, reply,
                              &parsed) &&
        rl_nodes_send(&rl_client_of(task)->nodes, task, &message, rl_bit(node)) == 0)
        return;
    note_answers(inspection, node, &parsed);
    inspection->waiting &= ~rl_bit(node);
    if (!inspection->waiting)
        inspect_go_on(inspection);
}

static void close_inspection(struct rl_task *task)
{
    inspect_finish((struct inspection *)task, REDLOCK_CANCELLED);
}

static void inspect_destroy(struct rl_task *task)
{
    struct inspection *inspection = (struct inspection *)task;
    for (unsigned k = 0; k < inspection->keys; k++)
        for (unsigned i = 0; i < RL_NODES_MAX; i++)
            free(inspection->finding[k].readers[i].token);
    rl_task_free(task);
}

static const struct rl_task_class inspection_class = {
    .tick = inspect_tick,
    .event = rl_startup_event,
    .replied = inspect_answer,
    .close = close_inspection,
    .destroy = inspect_destroy,
};

/* NULL: no memory. The keys are to be written. */
static struct inspection *new_inspection(redlock_client *client, enum rl_command command,
                                         unsigned keys, redlock_inspect_fn *callback,
                                         void *arg)
{
    struct inspection *inspection =
        rl_task_new(sizeof(*inspection) + keys * sizeof(inspection->finding[0]),
                    &client->loop, &inspection_class);
    if (!inspection)
        return NULL;
    inspection->command = command;
    inspection->keys = keys;
    inspection->callback = callback;
    inspection->arg = arg;
    for (unsigned k = 0; k < keys; k++)
        inspection->key[k].text = inspection->finding[k].key;
    if (rl_startup_barrier_is_open(&client->nodes.startup))
        rl_task_schedule(&inspection->task, client->loop.now);
    return inspection;
}

redlock_code rl_inspect_keys(redlock_client *client, const struct rl_word *key,
                             unsigned keys, bool in_turn, redlock_inspect_fn *callback,
                             void *arg)
{
    assert(keys > 0 && keys <= RL_INSPECT_MAX);
    struct inspection *inspection =
        new_inspection(client, RL_CMD_INSPECT, keys, callback, arg);
    if (!inspection)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    for (unsigned k = 0; k < keys; k++) {
        memcpy(inspection->finding[k].key, key[k].text, key[k].len);
        inspection->key[k].len = key[k].len;
    }
    inspection->in_turn = in_turn && rl_nodes_are_near(client);
    return REDLOCK_OK;
}

static redlock_code inspect_start(redlock_client *client, enum rl_command command,
                                  const void *key, size_t key_len,
                                  redlock_inspect_fn *callback, void *arg)
{
    if (!callback && command == RL_CMD_INSPECT)
        return rl_fail_no_callback();
    struct inspection *inspection = new_inspection(client, command, 1, callback, arg);
    if (!inspection)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    redlock_code code = rl_client_key(client, key, key_len, inspection->finding[0].key,
                                      &inspection->key[0].len);
    if (code != REDLOCK_OK)
        rl_task_end(&inspection->task);
    return code;
}

static redlock_code call(redlock_client *client, enum rl_command command, const void *key,
                         size_t key_len, redlock_inspect_fn *callback, void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = inspect_start(client, command, key, key_len, callback, arg);
    rl_loop_return(&client->loop);
    return code;
}

redlock_code redlock_inspect(redlock_client *client, const void *key, size_t key_len,
                             redlock_inspect_fn *callback, void *arg)
{
    return call(client, RL_CMD_INSPECT, key, key_len, callback, arg);
}

redlock_code redlock_break(redlock_client *client, const void *key, size_t key_len,
                           redlock_inspect_fn *callback, void *arg)
{
    return call(client, RL_CMD_BREAK, key, key_len, callback, arg);
}
