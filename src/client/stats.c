/* The numbers of a client, as its caller gets them. */
#include "base/options.h"
#include "client.h"
#include "explain.h"

void redlock_stats_init_sized(redlock_stats *stats, size_t size, size_t node_size)
{
    const redlock_stats empty = {.size = size, .node_size = node_size};
    rl_copy_sized(stats, size, &empty, sizeof(empty));
}

static rl_node_set voting_fenced(const redlock_client *client)
{
    return client->nodes.awake & client->members.active;
}

static void describe_node(const redlock_client *client, unsigned i, redlock_node_stats *ret)
{
    const struct rl_node *node = &client->nodes.node[i];
    *ret = node->stats;
    ret->uri = node->uri.shown;
    ret->connected = rl_link_is_open(&node->link);
    ret->votes = rl_link_is_ready(&node->link);
    ret->votes_fenced = voting_fenced(client) & rl_bit(i);
    ret->queue = node->connection.op_count;
}

static void describe(const redlock_client *client, redlock_stats *ret)
{
    *ret = client->stats;
    ret->quorum = client->nodes.q;
    ret->votes = rl_count(client->nodes.view.ready);
    ret->votes_fenced = rl_count(voting_fenced(client));
    ret->events_dropped = client->loop.events.dropped;
}

redlock_code redlock_client_stats(const redlock_client *client, redlock_stats *stats)
{
    redlock_stats all;
    if (!client)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_NULL_HANDLE);
    if (!rl_loop_is_ours(&client->loop))
        return rl_fail_by_code(REDLOCK_FORKED);
    if (client->loop.closing)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_CLIENT_FREED);
    redlock_code code = rl_check_sized(stats, RL_FIRST_SIZE(redlock_stats, validity),
                                       sizeof(*stats), "redlock_stats_init");
    if (code != REDLOCK_OK)
        return code;
    describe(client, &all);
    all.size = stats->size;
    all.node_size = stats->node_size;
    all.nodes = stats->nodes;
    all.room = stats->nodes ? stats->room : 0;
    for (; all.count < all.room && all.count < client->nodes.n; all.count++) {
        redlock_node_stats node;
        describe_node(client, (unsigned)all.count, &node);
        rl_copy_sized((char *)all.nodes + all.count * all.node_size, all.node_size, &node,
                      sizeof(node));
    }
    rl_copy_sized(stats, all.size, &all, sizeof(all));
    return REDLOCK_OK;
}
