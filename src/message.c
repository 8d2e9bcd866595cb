/* Messages to the nodes, in one text for all, and how their answers are explained. */
#include <ctype.h>
#include <string.h>

#include "client.h"
#include "wards.h"

/* The nonce is the last word: the one thing that differs from node to node. */
static void write_nonce(const redlock_client *client, unsigned node, struct rl_form *form)
{
    static const size_t crlf = 2;
    rl_steward_nonce(&client->steward, node, form->bytes + form->len - crlf - RL_NONCE);
}

static bool queue(struct rl_member *member, const struct rl_op *op, struct rl_part part)
{
    if (!rl_node_send(&member->node, op, part))
        return false;
    if (member->node.op_count == 1)
        rl_member_sent(member);
    return true;
}

static void note_queued(redlock_client *client, struct rl_task *task, rl_nodes nodes)
{
    task->owed += rl_count(nodes);
    client->unwritten |= nodes;
    rl_client_plan(client);
}

static struct rl_op op_of(const redlock_client *client, struct rl_task *task,
                          const struct rl_message *message)
{
    return (struct rl_op){
        .task = task,
        .sent = client->view.now,
        .asked = client->boot,
        .text = message->text,
        .seq = message->seq,
        .plant = message->subject.plant,
        .takes_place = message->subject.place.len > 0 && message->subject.waited >= 0,
    };
}

bool rl_client_ask(redlock_client *client, struct rl_task *task, uint32_t seq,
                   const struct rl_word *word, size_t words, unsigned node)
{
    struct rl_op op = {
        .task = task, .sent = client->view.now, .asked = client->boot, .seq = seq};
    struct rl_part part;
    if (!rl_post_words(&client->post, word, words, &part) ||
        !queue(&client->member[node], &op, part))
        return false;
    note_queued(client, task, rl_bit(node));
    return true;
}

/* The text with this node's nonce. */
static bool post_for(redlock_client *client, unsigned node, struct rl_form *form,
                     struct rl_part *ret_part)
{
    write_nonce(client, node, form);
    return rl_post_add(&client->post, form->bytes, form->len, ret_part);
}

static rl_nodes who_does_not_know(const redlock_client *client, uint32_t script,
                                  rl_nodes nodes)
{
    rl_nodes found = 0;
    for (rl_nodes rest = nodes; rest; rest &= rest - 1)
        if (!(client->member[rl_first(rest)].node.known & script))
            found |= rest & -rest;
    return found;
}

/* One text for all, but for the nonces. Returns those of the nodes that were not told. */
static rl_nodes say_to(redlock_client *client, struct rl_task *task,
                       const struct rl_message *message, bool whole, rl_nodes nodes)
{
    struct rl_form *form = &client->form[message->text][whole];
    struct rl_op op = op_of(client, task, message);
    bool each = message->subject.nonce.len > 0;
    struct rl_part part;
    rl_nodes failed = 0;
    op.whole = whole;
    if (!rl_form_write(form, message->kind, message->text, whole, &message->subject))
        return nodes;
    if (!each && !rl_post_add(&client->post, form->bytes, form->len, &part))
        return nodes;
    for (rl_nodes rest = nodes; rest; rest &= rest - 1) {
        unsigned i = rl_first(rest);
        bool added = !each || post_for(client, i, form, &part);
        if (!added || !queue(&client->member[i], &op, part))
            failed |= rest & -rest;
    }
    return failed;
}

rl_nodes rl_client_say(redlock_client *client, struct rl_task *task,
                       const struct rl_message *message, rl_nodes nodes)
{
    uint32_t script = rl_kind_script_bit(message->kind, message->text);
    rl_nodes whole = script ? who_does_not_know(client, script, nodes) : 0;
    rl_nodes failed = 0;
    if (nodes & ~whole)
        failed |= say_to(client, task, message, false, nodes & ~whole);
    if (whole)
        failed |= say_to(client, task, message, true, whole);
    for (rl_nodes rest = whole & ~failed; rest; rest &= rest - 1)
        client->member[rl_first(rest)].node.known |= script;
    note_queued(client, task, nodes & ~failed);
    return failed;
}

bool rl_client_hear(redlock_client *client, const struct rl_kind *kind, unsigned node,
                    const struct rl_op *op, const struct rl_reply *reply,
                    struct rl_answer *ret_answer)
{
    struct rl_member *member = &client->member[node];
    if (!reply) { /* the link has ended, and knows why */
        *ret_answer = (struct rl_answer){
            .vote = RL_VOTE_UNKNOWN,
            .fault = member->link.fault,
            .pttl = -1,
        };
        return true;
    }
    if (!rl_kind_read(kind, op->text, reply, ret_answer)) {
        ret_answer->vote = RL_VOTE_UNKNOWN;
        ret_answer->fault = RL_FAULT_PROTOCOL;
        rl_member_distrust(member, RL_FAULT_PROTOCOL);
        return true;
    }
    uint32_t script = rl_kind_script_bit(kind, op->text);
    if (ret_answer->fault != RL_FAULT_NOSCRIPT || !script || op->whole ||
        !rl_link_is_open(&member->link))
        return true;
    member->node.known &= ~script;
    return false;
}

bool rl_client_key(const redlock_client *client, const void *key, size_t len,
                   char ret_key[REDLOCK_KEY_MAX], size_t *ret_len)
{
    const char *prefix = client->options.prefix ? client->options.prefix : "";
    size_t prefix_len = strlen(prefix);
    if (len == 0 || len > REDLOCK_KEY_MAX - prefix_len)
        return false;
    memcpy(ret_key, prefix, prefix_len);
    memcpy(ret_key + prefix_len, key, len);
    *ret_len = prefix_len + len;
    return !rl_wards_own(ret_key, *ret_len);
}

/* --- explaining --- */

static const char *const verdicts[] = {
    [RL_VOTE_UNASKED] = "unasked", [RL_VOTE_WAITING] = "waiting",
    [RL_VOTE_GRANTED] = "granted", [RL_VOTE_HELD] = "held",
    [RL_VOTE_GONE] = "gone",       [RL_VOTE_PLANTED] = "planted",
    [RL_VOTE_ERROR] = "error",     [RL_VOTE_UNKNOWN] = "unknown",
    [RL_VOTE_SILENT] = "silent",   [RL_VOTE_ABSENT] = "absent",
};

/* The label of a token of ours, or the foreign value as it can be shown. */
static void show_holder(const char *value, char ret_holder[REDLOCK_TOKEN_MAX + 1])
{
    const char *label = rl_token_label(value);
    strcpy(ret_holder, label ? label : value);
    for (char *c = ret_holder; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
}

static bool is_text(const char *value)
{
    while (*value && !iscntrl((unsigned char)*value))
        value++;
    return *value == '\0';
}

/* A NUL becomes another control character, so that what is behind it is kept. */
void rl_client_keep_value(struct rl_word value, char ret_value[REDLOCK_TOKEN_MAX + 1])
{
    size_t len = value.len < REDLOCK_TOKEN_MAX ? value.len : REDLOCK_TOKEN_MAX;
    for (size_t i = 0; i < len; i++)
        ret_value[i] = value.text[i] ? value.text[i] : '\1';
    ret_value[len] = '\0';
}

void rl_client_describe(const redlock_client *client, unsigned node,
                        const struct rl_ballot *ballot, const char *value,
                        redlock_node *ret_node)
{
    bool quarantined =
        ballot->fault == RL_FAULT_QUARANTINE || ballot->fault == RL_FAULT_BARRED;
    bool answered = ballot->vote == RL_VOTE_GRANTED || ballot->vote == RL_VOTE_HELD ||
                    ballot->vote == RL_VOTE_GONE || ballot->vote == RL_VOTE_PLANTED ||
                    ballot->vote == RL_VOTE_ERROR;
    *ret_node = (redlock_node){
        .uri = client->member[node].node.uri.shown,
        .verdict = verdicts[ballot->vote],
        .fault = rl_fault_name(ballot->fault),
        .text = rl_fault_text(ballot->fault),
        .denied = rl_fault_is_denial(ballot->fault),
        .latency_us = answered ? (int64_t)ballot->latency : -1,
        .remaining_ms = ballot->vote == RL_VOTE_HELD || quarantined ? ballot->pttl : -1,
    };
    if (!value || ballot->vote != RL_VOTE_HELD) /* it may be of an earlier round */
        return;
    show_holder(value, ret_node->holder);
    if (is_text(value))
        strcpy(ret_node->value, value);
}

/* How long it is until a node that has this fault may vote, in ms; -1: unknown. */
static int32_t absent_for(const redlock_client *client, unsigned node, enum rl_fault fault)
{
    rl_time now = client->view.now, left = RL_NEVER;
    if (fault == RL_FAULT_NONE) /* it may now: others were too few */
        left = 0;
    else if (fault == RL_FAULT_QUARANTINE)
        left = rl_max(client->member[node].link.quarantine_until - now, 0);
    else if (fault == RL_FAULT_BARRED)
        left = rl_steward_left(&client->steward, node, now);
    return left == RL_NEVER ? -1 : (int32_t)rl_min((left + RL_MS - 1) / RL_MS, INT32_MAX);
}

void rl_client_note_absent(const redlock_client *client, struct rl_ballot *ballot,
                           bool is_fenced)
{
    for (unsigned i = 0; i < client->n; i++) {
        if (ballot[i].vote != RL_VOTE_ABSENT || ballot[i].fault != RL_FAULT_NONE)
            continue;
        bool awake = client->awake & rl_bit(i);
        ballot[i].fault =
            is_fenced && awake ? rl_wards_fault(client, i) : client->member[i].link.fault;
        ballot[i].pttl = absent_for(client, i, ballot[i].fault);
    }
}

bool rl_client_is_denied(const redlock_client *client, const struct rl_ballot *ballot)
{
    unsigned denied = 0;
    for (unsigned i = 0; i < client->n; i++)
        denied += rl_fault_is_denial(ballot[i].fault);
    return denied > client->n - client->q;
}

size_t redlock_client_explain(const redlock_client *client, redlock_node *nodes,
                              size_t room)
{
    static const char *const states[] = {
        [RL_LINK_DOWN] = "down",         [RL_LINK_CONNECTING] = "connecting",
        [RL_LINK_GREETING] = "greeting", [RL_LINK_READY] = "ready",
        [RL_LINK_SUSPECT] = "suspect",   [RL_LINK_QUARANTINED] = "quarantined",
    };
    for (unsigned i = 0; i < client->n && i < room; i++) {
        const struct rl_link *link = &client->member[i].link;
        struct rl_ballot ballot = {.fault = link->fault,
                                   .pttl = absent_for(client, i, link->fault)};
        rl_client_describe(client, i, &ballot, NULL, &nodes[i]);
        nodes[i].verdict = states[link->state];
        nodes[i].latency_us = link->round_trip ? link->round_trip : -1;
    }
    return client->n;
}
