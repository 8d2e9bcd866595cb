/* Are the nodes fit to hold locks? Who is asked when, and what is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "core/admission.h"
#include "core/quorum.h"
#include "facts.h"

#define KEY_NAME "!wake:check-%016llx%016llx"
#define KEY_ROOM (REDLOCK_KEY_MAX + 64)

struct check {
    struct rl_task task;
    unsigned how;
    bool begun, asked;
    rl_time deadline;
    unsigned waiting[RL_NODES_MAX]; /* how many answers a node owes */
    redlock_check_fn *callback;
    void *arg;
    struct rl_facts facts[RL_NODES_MAX];
    redlock_fitness fitness[RL_NODES_MAX];
    struct rl_findings findings[RL_NODES_MAX];
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

static const char *const standings[] = {
    [RL_STANDING_UNSEEN] = "",           [RL_STANDING_UNMARKED] = "unmarked",
    [RL_STANDING_ALONE] = "alone",       [RL_STANDING_ELSEWHERE] = "elsewhere",
    [RL_STANDING_REPLACED] = "replaced", [RL_STANDING_FOREIGN] = "foreign",
    [RL_STANDING_BARRED] = "barred",     [RL_STANDING_CLOCK] = "clock_set",
    [RL_STANDING_SOUND] = "sound",       [RL_STANDING_UNCONFIRMED] = "unconfirmed",
};

/* Someone knows of a later incarnation of some seat than this marker names. */
static bool is_behind(const struct rl_roster *known, const struct rl_roster *roster)
{
    for (unsigned i = 0; i < roster->n; i++)
        if (roster->deployment == known->deployment && roster->n == known->n &&
            rl_later_incarnation(known->seat[i], roster->seat[i]))
            return true;
    return false;
}

static void note_marker(const struct rl_steward *steward, const struct rl_ward *ward,
                        struct rl_membership *member, redlock_fitness *node)
{
    const struct rl_roster *roster = &ward->marker.roster;
    bool is_ours = roster->deployment == steward->roster.deployment;
    member->seats = roster->n;
    member->deployment = roster->deployment;
    member->usual = steward->roster.deployment;
    member->behind = is_behind(&steward->roster, roster);
    member->latest = is_ours ? steward->roster.seat[ward->marker.seat].generation : 0;
    member->same_run =
        memcmp(ward->marker.process.run_id, ward->process.run_id, RL_RUN_ID) == 0;
    node->seat = ward->marker.seat;
    node->generation = rl_marker_self(&ward->marker).generation;
    node->max_ttl_ms = roster->max_ttl_ms;
}

/* What the nodes are to fenced locks. */
static void note_members(struct check *check)
{
    const redlock_client *client = check->task.client;
    const struct rl_steward *steward = &client->steward;
    for (unsigned i = 0; i < client->n; i++) {
        const struct rl_ward *ward = &steward->ward[i];
        struct rl_membership *member = &check->facts[i].member;
        rl_time left = rl_steward_left(steward, i, client->view.now);
        member->standing = ward->standing;
        member->garbled = ward->garbled;
        member->quarantine = rl_steward_quarantine(steward);
        strcpy(check->fitness[i].standing, standings[ward->standing]);
        if (left != RL_NEVER)
            check->fitness[i].quarantine_ms = left / RL_MS;
        if (ward->greeted && ward->marked)
            note_marker(steward, ward, member, &check->fitness[i]);
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
        .strict = check->how & REDLOCK_CHECK_STRICT,
        .durable = client->options.durable,
        .fenced = check->how & REDLOCK_CHECK_FENCED,
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
        note_members(check);
        judge(check, &report);
    }
    rl_task_end(&check->task); /* its memory stays until the last call inside returned */
    check->callback(client, &report, check->arg);
    rl_client_called_back(client);
}

/* --- asking --- */

/* The answers that have not come are those to the questions that were not read. */
static void ask_node(struct check *check, unsigned node)
{
    struct rl_facts *facts = &check->facts[node];
    struct rl_word key = {check->key, check->key_len};
    facts->rights = rl_rights(facts->right);
    facts->asked = check->task.client->view.now;
    for (size_t i = 0; i < rl_questions(facts); i++) {
        struct rl_word word[RL_TRY_WORDS];
        size_t words = rl_question(facts, i, key, word);
        if (words == 0)
            continue;
        if (!rl_client_ask(check->task.client, &check->task, (uint32_t)i, word, words,
                           node)) {
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

static void answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                   const struct rl_reply *reply)
{
    struct check *check = check_of(task);
    redlock_client *client = task->client;
    check->waiting[node]--;
    if (!reply) {
        check->facts[node].fault = client->member[node].link.fault;
    } else {
        check->fitness[node].latency_us = client->view.now - check->facts[node].asked;
        rl_facts_read(&check->facts[node], &check->fitness[node], op->seq, reply,
                      client->view.now);
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
    if (rl_gate_is_open(&task->client->gate))
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

/*
 * Random, and where the prefix is long, longer than a lock's may be: it is nobody's. It is
 * a channel, too, of those that the rule of --acl names.
 */
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
            .seat = -1,
            .generation = -1,
            .quarantine_ms = -1,
            .max_ttl_ms = -1,
        };
}

static redlock_code start(redlock_client *client, unsigned how, redlock_check_fn *callback,
                          void *arg)
{
    struct check *check = calloc(1, sizeof(*check));
    if (!check || !rl_task_init(&check->task, client, &check_class)) {
        free(check);
        return REDLOCK_NO_MEMORY;
    }
    check->how = how;
    check->callback = callback;
    check->arg = arg;
    choose_key(check);
    describe_as_unknown(check);
    if (rl_gate_is_open(&client->gate))
        look_again(&check->task);
    return REDLOCK_OK;
}

redlock_code redlock_check(redlock_client *client, unsigned how, redlock_check_fn *callback,
                           void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = start(client, how, callback, arg);
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
