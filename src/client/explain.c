#include "explain.h"

#include <ctype.h>
#include <string.h>

#include "base/options.h"
#include "base/token.h"
#include "redlock/admin.h"

/* Copies the token's label if it has one, else the value. Unprintable bytes become '?'. */
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

/* Replaces each NUL by another control character, so that the bytes after it are kept. */
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
        ballot->fault == RL_FAULT_QUARANTINE || ballot->fault == RL_FAULT_MEMBER_QUARANTINE;
    bool shows_time = ballot->vote == RL_VOTE_HELD || quarantined;
    bool answered = ballot->vote == RL_VOTE_GRANTED || ballot->vote == RL_VOTE_HELD ||
                    ballot->vote == RL_VOTE_GONE || ballot->vote == RL_VOTE_RECREATED ||
                    ballot->vote == RL_VOTE_ERROR;
    *ret_node = (redlock_node){
        .uri = client->nodes.node[node].uri.shown,
        .verdict = rl_verdict_of_vote(ballot->vote),
        .fault = (redlock_fault)ballot->fault,
        .denied = rl_fault_is_denial(ballot->fault),
        .latency_us = answered ? (int64_t)ballot->latency : REDLOCK_UNKNOWN,
        .remaining_us =
            shows_time && ballot->pttl >= 0 ? ballot->pttl * RL_MS : REDLOCK_UNKNOWN,
    };
    strcpy(ret_node->text, rl_node_text(&client->nodes.node[node], ballot->fault));
    if (!value || ballot->vote != RL_VOTE_HELD) /* `value` may be from an earlier round */
        return;
    show_holder(value, ret_node->holder);
    if (is_text(value))
        strcpy(ret_node->value, value);
}

/* The time until a node with this fault may vote, in ms; -1: unknown. */
static int32_t absent_for(const redlock_client *client, unsigned node, enum rl_fault fault)
{
    rl_time now = client->loop.now, left = RL_NEVER;
    if (fault == RL_FAULT_NONE) /* it may vote now: too few other nodes were ready */
        left = 0;
    else if (fault == RL_FAULT_QUARANTINE)
        left = rl_max(client->nodes.node[node].link.quarantine_until - now, 0);
    else if (fault == RL_FAULT_MEMBER_QUARANTINE)
        left = rl_membership_quarantine_left(&client->members.membership, node, now);
    return left == RL_NEVER ? -1 : (int32_t)rl_min((left + RL_MS - 1) / RL_MS, INT32_MAX);
}

void rl_client_note_absent(const redlock_client *client, struct rl_ballot *ballot,
                           bool is_fenced)
{
    for (unsigned i = 0; i < client->nodes.n; i++) {
        if (ballot[i].vote != RL_VOTE_ABSENT || ballot[i].fault != RL_FAULT_NONE)
            continue;
        ballot[i].fault = is_fenced ? rl_members_fault(&client->members, i)
                                    : client->nodes.node[i].link.fault;
        ballot[i].pttl = absent_for(client, i, ballot[i].fault);
    }
}

bool rl_client_is_denied(const redlock_client *client, const struct rl_ballot *ballot)
{
    unsigned denied = 0;
    for (unsigned i = 0; i < client->nodes.n; i++)
        denied += rl_fault_is_denial(ballot[i].fault);
    return denied > client->nodes.n - client->nodes.q;
}

void rl_client_put_node(const redlock_node *node, unsigned i, redlock_node *nodes,
                        size_t size)
{
    rl_copy_sized((char *)nodes + i * size, size, node, sizeof(*node));
}

/* Describes a node that has no vote in a round: the latency is that of its link. */
static void describe_state(const redlock_client *client, unsigned node,
                           const struct rl_ballot *ballot, redlock_node *ret_node)
{
    rl_time round_trip = client->nodes.node[node].link.round_trip;
    rl_client_describe(client, node, ballot, NULL, ret_node);
    ret_node->latency_us = round_trip > 0 ? round_trip : REDLOCK_UNKNOWN;
}

size_t redlock_client_explain_sized(const redlock_client *client, redlock_node *nodes,
                                    size_t room, size_t size)
{
    for (unsigned i = 0; i < client->nodes.n && i < room; i++) {
        const struct rl_link *link = &client->nodes.node[i].link;
        struct rl_ballot ballot = {.fault = link->fault,
                                   .pttl = absent_for(client, i, link->fault)};
        redlock_node node;
        describe_state(client, i, &ballot, &node);
        node.verdict = rl_verdict_of_link(link->state);
        rl_client_put_node(&node, i, nodes, size);
    }
    return client->nodes.n;
}

size_t redlock_client_members_sized(const redlock_client *client, redlock_node *nodes,
                                    size_t room, size_t size)
{
    for (unsigned i = 0; i < client->nodes.n && i < room; i++) {
        bool active = client->nodes.awake & client->members.active & rl_bit(i);
        struct rl_ballot ballot = {.fault = rl_members_fault(&client->members, i)};
        rl_time left =
            rl_membership_quarantine_left(&client->members.membership, i, client->loop.now);
        redlock_node node;
        describe_state(client, i, &ballot, &node);
        node.verdict = active ? REDLOCK_VERDICT_ACTIVE : REDLOCK_VERDICT_ABSENT;
        node.remaining_us = left == RL_NEVER ? REDLOCK_UNKNOWN : left;
        rl_client_put_node(&node, i, nodes, size);
    }
    return client->nodes.n;
}
