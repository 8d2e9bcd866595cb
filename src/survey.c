/* Surveys: one question to every node, whoever holds the lock; inspect and break. */
#include <stdlib.h>
#include <string.h>

#include "client.h"

struct survey {
    struct rl_task task;
    enum rl_text text;
    bool asked;
    rl_nodes waiting;
    rl_time start, deadline;
    redlock_survey_fn *callback;
    void *arg;
    struct rl_ballot ballot[RL_NODES_MAX];
    char value[RL_NODES_MAX][REDLOCK_TOKEN_MAX + 1];
    size_t key_len;
    char key[REDLOCK_KEY_MAX];
};

static struct survey *survey_of(struct rl_task *task)
{
    return (struct survey *)task;
}

static struct rl_message message_of(const struct survey *survey)
{
    return (struct rl_message){
        .kind = rl_kind_that_is(false),
        .text = survey->text,
        .subject = {.key = {survey->key, survey->key_len}},
    };
}

/* --- reporting --- */

/* How many nodes have the same value as node `i`. */
static unsigned agree(const struct survey *survey, unsigned n, unsigned i)
{
    unsigned count = 0;
    for (unsigned j = 0; j < n; j++)
        count += survey->ballot[j].vote == RL_VOTE_HELD &&
                 strcmp(survey->value[j], survey->value[i]) == 0;
    return count;
}

static void summarize(const struct survey *survey, redlock_survey *report)
{
    const redlock_client *client = survey->task.client;
    report->remaining_ms = rl_free_in(survey->ballot, client->n, client->q);
    for (unsigned i = 0; i < client->n; i++) {
        report->free += survey->ballot[i].vote == RL_VOTE_GONE;
        if (survey->ballot[i].vote != RL_VOTE_HELD)
            continue;
        report->held++;
        unsigned count = agree(survey, client->n, i);
        if (count > report->agreeing)
            report->agreeing = count;
    }
    if (report->code == REDLOCK_OK && report->held + report->free < client->q)
        report->code = rl_client_is_denied(client, survey->ballot) ? REDLOCK_DENIED
                                                                   : REDLOCK_NO_QUORUM;
}

static void finish(struct survey *survey, redlock_code code)
{
    redlock_client *client = survey->task.client;
    redlock_node nodes[RL_NODES_MAX];
    redlock_survey report = {
        .code = code,
        .quorum = client->q,
        .nodes = nodes,
        .count = client->n,
    };
    rl_client_note_absent(client, survey->ballot, false);
    summarize(survey, &report);
    for (unsigned i = 0; i < client->n; i++)
        rl_client_describe(client, i, &survey->ballot[i], survey->value[i], &nodes[i]);
    rl_task_end(&survey->task);
    survey->callback(client, &report, survey->arg);
    rl_client_called_back(client);
}

/* --- asking --- */

rl_time rl_client_patience(const redlock_client *client, unsigned node)
{
    return rl_lease_patience(client->options.node_timeout_ms * RL_MS,
                             RL_SUSPECT_CAP * RL_PATIENCE_SHARE, client->round_trip[node]);
}

static void ask(struct survey *survey)
{
    redlock_client *client = survey->task.client;
    struct rl_message message = message_of(survey);
    survey->asked = true;
    survey->start = client->view.now;
    survey->deadline = client->view.now;
    for (unsigned i = 0; i < client->n; i++)
        survey->ballot[i] = (struct rl_ballot){.vote = RL_VOTE_ABSENT, .pttl = -1};
    survey->waiting = client->view.open;
    survey->waiting &= ~rl_client_say(client, &survey->task, &message, survey->waiting);
    for (rl_nodes rest = survey->waiting; rest; rest &= rest - 1) {
        unsigned i = rl_first(rest);
        survey->ballot[i].vote = RL_VOTE_WAITING;
        survey->deadline = rl_max(survey->deadline,
                                  rl_later(survey->start, rl_client_patience(client, i)));
    }
    rl_task_due(&survey->task, survey->deadline);
}

static void tick(struct rl_task *task)
{
    struct survey *survey = survey_of(task);
    redlock_client *client = task->client;
    rl_heap_drop(&client->heap, &task->due);
    if (!survey->asked) {
        ask(survey);
        return;
    }
    if (survey->waiting && client->view.now < survey->deadline) {
        rl_task_due(task, survey->deadline);
        return;
    }
    for (rl_nodes rest = survey->waiting; rest; rest &= rest - 1) {
        survey->ballot[rl_first(rest)].vote = RL_VOTE_SILENT;
        survey->ballot[rl_first(rest)].fault = RL_FAULT_TIMEOUT;
    }
    finish(survey, REDLOCK_OK);
}

static void answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                   const struct rl_reply *reply)
{
    struct survey *survey = survey_of(task);
    struct rl_message message = message_of(survey);
    struct rl_answer heard;
    if (!rl_client_hear(task->client, message.kind, node, op, reply, &heard) &&
        rl_client_say(task->client, task, &message, rl_bit(node)) == 0)
        return;
    struct rl_ballot *ballot = &survey->ballot[node];
    ballot->vote = heard.vote;
    ballot->fault = heard.fault;
    ballot->pttl = heard.pttl;
    ballot->latency = (uint32_t)rl_min(task->client->view.now - survey->start, UINT32_MAX);
    rl_client_keep_value(heard.value, survey->value[node]);
    survey->waiting &= ~rl_bit(node);
    if (!survey->waiting)
        finish(survey, REDLOCK_OK);
}

static void open_gate(struct rl_task *task)
{
    rl_task_due(task, task->client->view.now);
}

static void close_survey(struct rl_task *task)
{
    finish(survey_of(task), REDLOCK_CANCELLED);
}

static void destroy(struct rl_task *task)
{
    free(task);
}

static const struct rl_task_class survey_class = {
    .tick = tick,
    .open = open_gate,
    .answer = answer,
    .close = close_survey,
    .destroy = destroy,
};

static redlock_code start(redlock_client *client, enum rl_text text, const void *key,
                          size_t key_len, redlock_survey_fn *callback, void *arg)
{
    struct survey *survey = calloc(1, sizeof(*survey));
    if (!survey)
        return REDLOCK_NO_MEMORY;
    bool fits = rl_client_key(client, key, key_len, survey->key, &survey->key_len);
    if (!fits || !rl_task_init(&survey->task, client, &survey_class)) {
        free(survey);
        return fits ? REDLOCK_NO_MEMORY : REDLOCK_BAD_KEY;
    }
    survey->text = text;
    survey->callback = callback;
    survey->arg = arg;
    if (rl_gate_is_open(&client->gate))
        open_gate(&survey->task);
    return REDLOCK_OK;
}

static redlock_code call(redlock_client *client, enum rl_text text, const void *key,
                         size_t key_len, redlock_survey_fn *callback, void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = start(client, text, key, key_len, callback, arg);
    rl_client_return(client);
    return code;
}

redlock_code redlock_inspect(redlock_client *client, const void *key, size_t key_len,
                             redlock_survey_fn *callback, void *arg)
{
    return call(client, RL_INSPECT, key, key_len, callback, arg);
}

redlock_code redlock_break(redlock_client *client, const void *key, size_t key_len,
                           redlock_survey_fn *callback, void *arg)
{
    return call(client, RL_BREAK, key, key_len, callback, arg);
}
