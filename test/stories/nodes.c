#include "nodes.h"

#include <string.h>

#include "core/kind.h"
#include "sim/virtual/node.h"

#define PENDING_MAX 16

static struct story_node {
    struct node node;
    struct {
        enum rl_command command;
        struct connection *connection;
    } pending[PENDING_MAX]; /* commands, the oldest first */
    unsigned pending_count;
} nodes[RL_NODES_MAX];

static unsigned count;
static struct sent sent;

static bool is(struct rl_word word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.text, text, word.len) == 0;
}

/* RL_COMMANDS: it does not belong to a lock. */
static enum rl_command command_of(const struct rl_word *word)
{
    const struct rl_kind *plain = rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE);
    bool whole = is(word[0], "EVAL");
    if (is(word[0], "SET"))
        return RL_CMD_ACQUIRE;
    if ((!whole && !is(word[0], "EVALSHA")) || is(word[1], "return 1")) /* the greeting */
        return RL_COMMANDS;
    unsigned command = 0;
    while (!plain->script[command] || !is(word[1], whole ? plain->script[command]->body
                                                         : plain->script[command]->sha1))
        command++;
    return command;
}

/* EVALSHA, script, 1, key, token; then TTL and "recreate", or a queue entry and a time. */
static void note_sent(unsigned index, enum rl_command command,
                      const struct node_command *read)
{
    struct rl_word last = read->word[read->words - 1];
    bool queues = command == RL_CMD_RELEASE && read->words > 5;
    sent.to[command] |= rl_bit(index);
    sent.recreates = command == RL_CMD_EXTEND && is(last, "1");
    sent.joins |= queues && last.len > 0;
    sent.leaves |= queues && last.len == 0;
}

/* A command of the lock gets no reply yet. */
static bool replaces(const struct node_command *read, struct bytes *out)
{
    (void)out;
    enum rl_command command = command_of(read->word);
    struct story_node *node = (struct story_node *)read->node;
    if (command == RL_COMMANDS)
        return false;
    note_sent(node->node.index - 1, command, read);
    if (node->pending_count < PENDING_MAX) {
        node->pending[node->pending_count].command = command;
        node->pending[node->pending_count++].connection = read->link->connection;
    }
    return true;
}

static const struct node_class class = {.replaces = replaces};

void nodes_begin(unsigned n)
{
    count = n;
    sent = (struct sent){0};
    for (unsigned i = 0; i < n; i++) {
        for (unsigned p = 0; p < NETWORK_PROCESSES; p++)
            network.path[p][i + 1].latency = 0;
        nodes[i].pending_count = 0;
        node_begin(&nodes[i].node, i + 1);
        node_watch(&nodes[i].node, &class);
    }
}

void nodes_end(void)
{
    for (unsigned i = 0; i < count; i++)
        node_end(&nodes[i].node);
}

struct sent nodes_take_sent(void)
{
    struct sent taken = sent;
    sent = (struct sent){0};
    return taken;
}

enum rl_command nodes_next_command(unsigned index)
{
    const struct story_node *node = &nodes[index];
    return node->pending_count > 0 ? node->pending[0].command : RL_COMMANDS;
}

void nodes_reply(unsigned index, const char *reply)
{
    struct story_node *node = &nodes[index];
    connection_write(node->pending[0].connection, reply, strlen(reply), NULL);
    memmove(&node->pending[0], &node->pending[1],
            --node->pending_count * sizeof(node->pending[0]));
}

void nodes_lose(unsigned index)
{
    nodes[index].pending_count = 0;
    node_hang(&nodes[index].node);
}

void nodes_cut(unsigned index)
{
    node_hang_up(&nodes[index].node);
    nodes_lose(index);
}

void nodes_restart(unsigned index)
{
    node_restart(&nodes[index].node);
    nodes_lose(index);
}

void nodes_greet(unsigned index, enum guise guise)
{
    struct node *node = &nodes[index].node;
    struct redis_config *config = &node->redis->config;
    config->is_replica = guise == GUISE_REPLICA;
    config->is_cluster = guise == GUISE_CLUSTER;
    if (guise == GUISE_FIRST)
        memcpy(config->run_id, nodes[0].node.redis->config.run_id, sizeof(config->run_id));
    node_resume(node);
}
