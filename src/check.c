/* Are the nodes fit to hold locks? What each is asked, and what its answers say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "core/quorum.h"
#include "net/info.h"
#include "rights.h"

/* What a node is asked, in this order and in one write; from ASK_RIGHTS on, each right. */
enum question {
    ASK_SERVER,
    ASK_MEMORY,
    ASK_PERSISTENCE,
    ASK_REPLICATION,
    ASK_FSYNC,
    ASK_REWRITE,
    ASK_RIGHTS,
};

static const char *const questions[ASK_RIGHTS][3] = {
    [ASK_SERVER] = {"INFO", "server"},
    [ASK_MEMORY] = {"INFO", "memory"},
    [ASK_PERSISTENCE] = {"INFO", "persistence"},
    [ASK_REPLICATION] = {"INFO", "replication"},
    [ASK_FSYNC] = {"CONFIG", "GET", "appendfsync"},
    [ASK_REWRITE] = {"CONFIG", "GET", "no-appendfsync-on-rewrite"},
};

#define KEY_NAME "redlock-check-%016llx%016llx"
#define KEY_ROOM (REDLOCK_KEY_MAX + 64)

struct check {
    struct rl_task task;
    bool strict;
    bool begun, asked;
    rl_time deadline;
    unsigned waiting[RL_NODES_MAX]; /* how many answers a node owes */
    redlock_check_fn *callback;
    void *arg;
    struct rl_facts facts[RL_NODES_MAX];
    redlock_fitness fitness[RL_NODES_MAX];
    struct rl_findings findings[RL_NODES_MAX];
    struct rl_right right[RL_RIGHTS_MAX]; /* as they are asked for */
    size_t rights;
    size_t key_len;
    char key[KEY_ROOM]; /* one that nobody uses */
};

static struct check *check_of(struct rl_task *task)
{
    return (struct check *)task;
}

/* --- reporting --- */

/* How far a clock may be off: what the drift allows for in the usual TTL, as one step. */
static rl_time allowance_of(const redlock_client *client)
{
    rl_time ttl = REDLOCK_TTL_MS * RL_MS;
    return ttl - rl_valid_until(0, ttl, client->options.drift_ppm);
}

static const char *find_twin(const redlock_client *client, unsigned node)
{
    for (unsigned i = 0; i < client->n; i++)
        if (i != node &&
            strcmp(client->member[i].link.run_id, client->member[node].link.run_id) == 0)
            return client->member[i].node.uri.shown;
    return NULL;
}

/* What the links know of nodes that were not asked. */
static void note_links(struct check *check)
{
    const redlock_client *client = check->task.client;
    for (unsigned i = 0; i < client->n; i++) {
        struct rl_facts *facts = &check->facts[i];
        facts->db = client->member[i].node.uri.db > 0;
        if (facts->fault == RL_FAULT_DUPLICATE)
            facts->twin = find_twin(client, i);
    }
}

static void judge(struct check *check, redlock_checkup *report)
{
    const redlock_client *client = check->task.client;
    struct rl_judgement all = {
        .facts = check->facts,
        .nodes = check->fitness,
        .n = client->n,
        .prefix = client->options.prefix ? client->options.prefix : "",
        .strict = check->strict,
        .durable = client->options.durable,
        .allowance = allowance_of(client),
    };
    rl_judge_clocks(check->facts, check->fitness, client->n);
    for (unsigned i = 0; i < client->n; i++) {
        redlock_fitness *node = &check->fitness[i];
        struct rl_findings *findings = &check->findings[i];
        rl_judge_node(&all, i, findings);
        node->findings = findings->finding;
        node->count = findings->count;
        node->fit = true;
        for (size_t j = 0; j < node->count; j++)
            node->fit &= node->findings[j].rank != REDLOCK_DEFECT;
        report->fit += node->fit;
    }
    report->verdict = rl_judge_all(check->fitness, client->n, client->q);
}

static void finish(struct check *check, redlock_code code)
{
    redlock_client *client = check->task.client;
    redlock_checkup report = {
        .code = code,
        .verdict = REDLOCK_UNTRIED,
        .quorum = client->q,
        .nodes = check->fitness,
        .count = client->n,
    };
    if (code == REDLOCK_OK) {
        note_links(check);
        judge(check, &report);
    }
    rl_task_end(&check->task); /* its memory stays until the last call inside returned */
    check->callback(client, &report, check->arg);
}

/* --- asking --- */

static size_t write_question(const struct check *check, unsigned question,
                             struct rl_word word[RL_TRY_WORDS])
{
    if (question >= ASK_RIGHTS)
        return rl_right_try(&check->right[question - ASK_RIGHTS],
                            (struct rl_word){check->key, check->key_len}, word);
    size_t words = 0;
    for (; words < 3 && questions[question][words]; words++)
        word[words] = (struct rl_word){questions[question][words],
                                       strlen(questions[question][words])};
    return words;
}

/* The answers that have not come are those to the questions that were not read. */
static void ask_node(struct check *check, unsigned node)
{
    struct rl_facts *facts = &check->facts[node];
    memcpy(facts->right, check->right, sizeof(facts->right));
    facts->rights = check->rights;
    facts->asked = check->task.client->view.now;
    for (unsigned i = 0; i < ASK_RIGHTS + check->rights; i++) {
        struct rl_word word[RL_TRY_WORDS];
        size_t words = write_question(check, i, word);
        if (words == 0)
            continue;
        if (!rl_client_ask(check->task.client, &check->task, i, word, words, node)) {
            facts->fault = RL_FAULT_MEMORY;
            return;
        }
        check->waiting[node]++;
    }
}

static bool all_were_tried(const redlock_client *client)
{
    for (unsigned i = 0; i < client->n; i++)
        if (!rl_link_is_settled(&client->member[i].link))
            return false;
    return true;
}

static bool is_answered(const struct check *check)
{
    for (unsigned i = 0; i < check->task.client->n; i++)
        if (check->waiting[i] > 0)
            return false;
    return true;
}

/* Nobody is in a hurry here: a node has as long to answer as to be connected to. */
static rl_time patience_of(const redlock_client *client)
{
    return rl_max(client->options.node_timeout_ms, client->options.connect_timeout_ms) *
           RL_MS;
}

static void ask(struct check *check)
{
    redlock_client *client = check->task.client;
    check->asked = true;
    check->deadline = rl_later(client->view.now, patience_of(client));
    for (unsigned i = 0; i < client->n; i++) {
        check->facts[i].fault = client->member[i].link.fault;
        if (!rl_link_is_open(&client->member[i].link))
            continue;
        if (check->facts[i].fault ==
            RL_FAULT_TIMEOUT) /* suspect: its answer may yet come */
            check->facts[i].fault = RL_FAULT_NONE;
        ask_node(check, i);
    }
    rl_task_due(&check->task, check->deadline);
}

/* Also called early, by whatever may have changed. */
static void tick(struct rl_task *task)
{
    struct check *check = check_of(task);
    redlock_client *client = task->client;
    rl_heap_drop(&client->heap, &task->due);
    if (!check->begun) {
        check->begun = true;
        check->deadline =
            rl_later(client->view.now, client->options.connect_timeout_ms * RL_MS);
    }
    bool late = client->view.now >= check->deadline;
    if (!check->asked && (late || all_were_tried(client))) {
        ask(check);
        late = false;
    }
    if (!check->asked || (!late && !is_answered(check))) {
        rl_task_due(task, check->deadline);
        return;
    }
    for (unsigned i = 0; i < client->n; i++)
        if (check->waiting[i] > 0)
            check->facts[i].fault = RL_FAULT_TIMEOUT;
    finish(check, REDLOCK_OK);
}

/* --- answers --- */

static void keep(struct rl_word word, char *ret_text, size_t room)
{
    size_t len = word.len < room - 1 ? word.len : room - 1;
    memcpy(ret_text, word.text, len);
    ret_text[len] = '\0';
}

static void read_version(const struct rl_reply *reply, redlock_fitness *node)
{
    struct rl_word valkey = rl_info_field(reply, "valkey_version");
    struct rl_word redis = rl_info_field(reply, "redis_version");
    if (valkey.len > 0)
        snprintf(node->version, sizeof(node->version), "valkey %.*s", (int)valkey.len,
                 valkey.text);
    else if (redis.len > 0)
        snprintf(node->version, sizeof(node->version), "redis %.*s", (int)redis.len,
                 redis.text);
}

static enum rl_known known_digit(struct rl_word value)
{
    return rl_info_is(value, "1") ? RL_YES : rl_info_is(value, "0") ? RL_NO : RL_UNKNOWN;
}

static void read_info(struct check *check, unsigned node, unsigned question,
                      const struct rl_reply *reply)
{
    redlock_fitness *fitness = &check->fitness[node];
    struct rl_facts *facts = &check->facts[node];
    switch (question) {
    case ASK_SERVER: read_version(reply, fitness); break;
    case ASK_MEMORY:
        keep(rl_info_field(reply, "maxmemory_policy"), fitness->policy,
             sizeof(fitness->policy));
        fitness->maxmemory = rl_info_number(rl_info_field(reply, "maxmemory"));
        break;
    case ASK_PERSISTENCE:
        facts->appendonly = known_digit(rl_info_field(reply, "aof_enabled"));
        if (facts->appendonly == RL_NO)
            strcpy(fitness->fsync, "none");
        break;
    case ASK_REPLICATION:
        fitness->replicas = rl_info_number(rl_info_field(reply, "connected_slaves"));
        break;
    }
}

/* {name, value}; anything else is a setting that is not told. */
static void read_setting(struct check *check, unsigned node, unsigned question,
                         const struct rl_reply *reply)
{
    redlock_fitness *fitness = &check->fitness[node];
    if (reply->items != 2 || reply->item[1].type != RL_REPLY_STRING)
        return;
    struct rl_word value = {reply->item[1].text, reply->item[1].len};
    if (question == ASK_REWRITE)
        check->facts[node].unsynced_rewrite = rl_info_is(value, "yes")  ? RL_YES
                                              : rl_info_is(value, "no") ? RL_NO
                                                                        : RL_UNKNOWN;
    else if (!fitness->fsync[0])
        keep(value, fitness->fsync, sizeof(fitness->fsync));
}

/* {seconds, microseconds} */
static void read_time(struct check *check, unsigned node, const struct rl_reply *reply)
{
    struct rl_facts *facts = &check->facts[node];
    if (reply->items != 2 || reply->item[0].type != RL_REPLY_STRING ||
        reply->item[1].type != RL_REPLY_STRING)
        return;
    int64_t s = rl_info_number((struct rl_word){reply->item[0].text, reply->item[0].len});
    int64_t us = rl_info_number((struct rl_word){reply->item[1].text, reply->item[1].len});
    if (s < 0 || s > RL_NEVER / RL_SECOND / 2 || us < 0 || us >= RL_SECOND)
        return;
    facts->time = s * RL_SECOND + us;
    facts->answered = check->task.client->view.now;
}

static void read_right(struct check *check, unsigned node, unsigned index,
                       const struct rl_reply *reply)
{
    struct rl_right *right = &check->facts[node].right[index];
    right->fault = rl_right_read(right, reply);
    if (reply->type == RL_REPLY_ARRAY && strcmp(right->name, "TIME") == 0)
        read_time(check, node, reply);
}

static void answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                   const struct rl_reply *reply)
{
    struct check *check = check_of(task);
    redlock_client *client = task->client;
    unsigned question = op->seq;
    check->waiting[node]--;
    if (!reply) {
        check->facts[node].fault = client->member[node].link.fault;
    } else {
        check->fitness[node].latency_us = client->view.now - check->facts[node].asked;
        if (question >= ASK_RIGHTS)
            read_right(check, node, question - ASK_RIGHTS, reply);
        else if (reply->type == RL_REPLY_STRING)
            read_info(check, node, question, reply);
        else if (reply->type == RL_REPLY_ARRAY)
            read_setting(check, node, question, reply);
    }
    if (is_answered(check))
        rl_task_due(task, client->view.now);
}

/* --- beginning and ending --- */

static void look_again(struct rl_task *task)
{
    rl_task_due(task, task->client->view.now);
}

static void tried(struct rl_task *task, unsigned node)
{
    (void)node;
    if (task->client->gate.opened_at != RL_NEVER)
        look_again(task);
}

static void close_check(struct rl_task *task)
{
    finish(check_of(task), REDLOCK_CANCELLED);
}

static void destroy(struct rl_task *task)
{
    free(task);
}

static const struct rl_task_class check_class = {
    .tick = tick,
    .tried = tried,
    .open = look_again,
    .answer = answer,
    .close = close_check,
    .destroy = destroy,
};

/* Random, and where the prefix is long, longer than a lock's may be: it is nobody's. */
static void choose_key(struct check *check)
{
    redlock_client *client = check->task.client;
    const char *prefix = client->options.prefix ? client->options.prefix : "";
    int len = snprintf(check->key, sizeof(check->key), "%s" KEY_NAME, prefix,
                       (unsigned long long)rl_client_random(client),
                       (unsigned long long)rl_client_random(client));
    check->key_len = (size_t)len;
}

static void describe_as_unknown(struct check *check)
{
    const redlock_client *client = check->task.client;
    for (unsigned i = 0; i < client->n; i++)
        check->fitness[i] = (redlock_fitness){
            .uri = client->member[i].node.uri.shown,
            .latency_us = -1,
            .maxmemory = -1,
            .replicas = -1,
        };
}

static redlock_code start(redlock_client *client, bool strict, redlock_check_fn *callback,
                          void *arg)
{
    struct check *check = calloc(1, sizeof(*check));
    if (!check || !rl_task_init(&check->task, client, &check_class)) {
        free(check);
        return REDLOCK_NO_MEMORY;
    }
    check->strict = strict;
    check->callback = callback;
    check->arg = arg;
    check->rights = rl_rights(check->right);
    choose_key(check);
    describe_as_unknown(check);
    if (client->gate.opened_at != RL_NEVER)
        look_again(&check->task);
    return REDLOCK_OK;
}

redlock_code redlock_check(redlock_client *client, bool strict, redlock_check_fn *callback,
                           void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = start(client, strict, callback, arg);
    rl_client_return(client);
    return code;
}

size_t redlock_client_acl(const redlock_client *client, char *text, size_t room)
{
    const redlock_options *options = &client->options;
    const char *user = NULL;
    bool select = false;
    for (unsigned i = 0; i < client->n; i++) {
        const struct rl_uri *uri = &client->member[i].node.uri;
        user = user ? user : uri->user;
        select |= uri->db > 0;
    }
    user = user ? user : options->username;
    return rl_rights_acl(user ? user : "lock", options->prefix ? options->prefix : "",
                         select, text, room);
}
