#include "commands.h"

#include <string.h>

/* The nonce is the last word of the command. Only the nonce differs between nodes. */
static void write_nonce(const struct rl_node *node, struct rl_command_template *template)
{
    static const size_t crlf = 2;
    memcpy(template->bytes + template->len - crlf - RL_NONCE,
           node->nodes->nonce[node->index], RL_NONCE);
}

static bool queue(struct rl_node *node, const struct rl_op *op, struct rl_segment segment)
{
    if (!rl_connection_send(&node->connection, op, segment))
        return false;
    if (node->connection.op_count == 1)
        rl_node_sent(node);
    else if ((node->connection.op_count & (node->nodes->window - 1)) == 0)
        rl_node_note_full(node);
    return true;
}

static void note_queued(struct rl_nodes *nodes, struct rl_task *task, rl_node_set to)
{
    task->pending += rl_count(to);
    nodes->unwritten |= to;
    nodes->loop->wants_end = true;
}

static struct rl_op op_of(const struct rl_nodes *nodes, struct rl_task *task,
                          const struct rl_message *message)
{
    return (struct rl_op){
        .task = task,
        .sent = nodes->loop->now,
        .asked = nodes->loop->boot,
        .command = message->command,
        .kind = (uint8_t)message->kind->type,
        .seq = message->seq,
        .recreate = message->args.recreate,
        .joins_queue = message->args.queue_entry.len > 0 && message->args.waited >= 0,
    };
}

bool rl_nodes_send_raw(struct rl_nodes *nodes, struct rl_task *task, uint32_t seq,
                       const struct rl_word *word, size_t words, unsigned node)
{
    struct rl_op op = {
        .task = task, .sent = nodes->loop->now, .asked = nodes->loop->boot, .seq = seq};
    struct rl_segment segment;
    if (!rl_send_batch_add_argv(&nodes->batch, word, words, &segment) ||
        !queue(&nodes->node[node], &op, segment))
        return false;
    note_queued(nodes, task, rl_bit(node));
    return true;
}

static rl_node_set without_script(const struct rl_nodes *nodes, rl_script_set script,
                                  rl_node_set to)
{
    rl_node_set found = 0;
    for (rl_node_set rest = to; rest; rest &= rest - 1)
        if (!(nodes->node[rl_first(rest)].connection.known_scripts & script))
            found |= rest & -rest;
    return found;
}

/*
 * Adds the command to the send batch once for all nodes, or once per node if it contains a
 * nonce. Returns the nodes for which it could not be queued.
 */
RL_HOT static rl_node_set send_to(struct rl_nodes *nodes, struct rl_task *task,
                                  const struct rl_message *message, bool whole,
                                  rl_node_set to)
{
    struct rl_command_template *template = &nodes->template[message->command][whole];
    struct rl_op op = op_of(nodes, task, message);
    bool each = message->args.nonce.len > 0;
    struct rl_segment segment;
    rl_node_set failed = 0;
    op.whole = whole;
    if (!rl_command_template_write(template, message->kind, message->command, whole,
                                   &message->args))
        return to;
    if (!each &&
        !rl_send_batch_add(&nodes->batch, template->bytes, template->len, &segment))
        return to;
    for (rl_node_set rest = to; rest; rest &= rest - 1) {
        struct rl_node *node = &nodes->node[rl_first(rest)];
        bool added = true;
        if (each) {
            write_nonce(node, template);
            added =
                rl_send_batch_add(&nodes->batch, template->bytes, template->len, &segment);
        }
        if (!added || !queue(node, &op, segment))
            failed |= rest & -rest;
    }
    return failed;
}

rl_node_set rl_nodes_send(struct rl_nodes *nodes, struct rl_task *task,
                          const struct rl_message *message, rl_node_set to)
{
    rl_script_set script = rl_kind_script_bit(message->kind, message->command);
    rl_node_set whole = script ? without_script(nodes, script, to) : 0;
    rl_node_set failed = 0;
    if (to & ~whole)
        failed |= send_to(nodes, task, message, false, to & ~whole);
    if (whole)
        failed |= send_to(nodes, task, message, true, whole);
    for (rl_node_set rest = whole & ~failed; rest; rest &= rest - 1)
        nodes->node[rl_first(rest)].connection.known_scripts |= script;
    note_queued(nodes, task, to & ~failed);
    return failed;
}

bool rl_nodes_parse_reply(struct rl_nodes *nodes, const struct rl_kind *kind, unsigned node,
                          const struct rl_op *op, const struct rl_reply *reply,
                          struct rl_answer *ret_answer)
{
    struct rl_node *source = &nodes->node[node];
    if (!reply) { /* the connection ended; the link has the reason */
        *ret_answer = (struct rl_answer){
            .vote = RL_VOTE_UNKNOWN,
            .fault = source->link.fault,
            .pttl = -1,
        };
        return true;
    }
    if (!rl_kind_read(kind, op->command, reply, ret_answer)) {
        ret_answer->vote = RL_VOTE_UNKNOWN;
        ret_answer->fault = RL_FAULT_PROTOCOL;
        source->reconnect_fault = RL_FAULT_PROTOCOL;
        return true;
    }
    rl_script_set script = rl_kind_script_bit(kind, op->command);
    if (ret_answer->fault != RL_FAULT_NOSCRIPT || !script || op->whole ||
        !rl_link_is_open(&source->link))
        return true;
    source->connection.known_scripts &= ~script;
    return false;
}
