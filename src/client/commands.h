/* Sends commands to the nodes, and parses the replies. */
#ifndef RL_COMMANDS_H
#define RL_COMMANDS_H

#include "nodes.h"

struct rl_message {
    const struct rl_kind *kind;
    enum rl_command command;
    uint32_t seq;
    struct rl_command_args args;
};

/* Queues the message for the nodes `to`. Returns those for which there was no memory. */
rl_node_set rl_nodes_send(struct rl_nodes *nodes, struct rl_task *task,
                          const struct rl_message *message, rl_node_set to);

/*
 * Parses the reply to a message. False: the node does not know the script; send the message
 * again, and the client includes the script's source. NOSCRIPT in reply to a command other
 * than EVALSHA is an ordinary error: the same command would get the same reply.
 */
bool rl_nodes_parse_reply(struct rl_nodes *nodes, const struct rl_kind *kind, unsigned node,
                          const struct rl_op *op, const struct rl_reply *reply,
                          struct rl_answer *ret_answer);

/*
 * Queues a command that belongs to no round. The reply's rl_op carries `seq`. False: no
 * memory.
 */
bool rl_nodes_send_raw(struct rl_nodes *nodes, struct rl_task *task, uint32_t seq,
                       const struct rl_word *word, size_t words, unsigned node);

#endif
