#include "node.h"

#include <stdlib.h>
#include <string.h>

#define TIME_OF_DAY (INT64_C(1700000000) * 1000000) /* us */
#define DELAY       (200 * VIRTUAL_US)

/* One connection to it. */
struct node_link {
    struct node *node;
    struct connection *connection;
    struct redis_link *redis_link;
    struct node_link *next, **link;
};

int64_t node_now(const struct node *node)
{
    return node->clock_us + events_now() / VIRTUAL_US;
}

static void draw_id(char ret_id[REDIS_ID + 1])
{
    for (int i = 0; i < REDIS_ID; i++)
        ret_id[i] = "0123456789abcdef"[events_random(16)];
    ret_id[REDIS_ID] = '\0';
}

static void set_config(struct redis_config *config)
{
    *config = (struct redis_config){
        .version = "7.0.15",
        .maxmemory_policy = "noeviction",
        .fsync = "everysec",
        .no_fsync_on_rewrite = "no",
        .debug_command = "no",
    };
    draw_id(config->run_id);
    draw_id(config->replid);
}

/* --- connections --- */

static void *on_accepted(void *server, struct connection *connection)
{
    struct node *node = server;
    struct node_link *link = malloc(sizeof(*link));
    if (!link)
        abort();
    *link = (struct node_link){
        .node = node,
        .connection = connection,
        .redis_link = redis_connect(node->redis),
        .next = node->link,
        .link = &node->link,
    };
    if (node->link)
        node->link->link = &link->next;
    node->link = link;
    return link;
}

static void drop_link(struct node_link *link)
{
    redis_disconnect(link->redis_link);
    *link->link = link->next;
    if (link->next)
        link->next->link = link->link;
    free(link);
}

static void on_closed(void *peer)
{
    drop_link(peer);
}

/* Replies go out, and messages to subscribers on other connections. */
static void send_replies(struct node *node)
{
    struct node_link *next;
    for (struct node_link *link = node->link; link; link = next) {
        struct bytes *out = &link->redis_link->out;
        next = link->next;
        if (out->len > 0)
            connection_write(link->connection, out->data, out->len);
        bytes_drop(out, out->len);
        if (link->redis_link->is_broken) {
            struct connection *connection = link->connection;
            drop_link(link);
            connection_close(connection);
        }
    }
}

static void on_received(void *peer, const char *bytes, size_t len)
{
    struct node_link *link = peer;
    struct node *node = link->node;
    redis_receive(link->redis_link, (struct rl_word){bytes, len}, node_now(node));
    send_replies(node);
}

static const struct peer_class class = {
    .accepted = on_accepted,
    .received = on_received,
    .closed = on_closed,
};

/* --- the server --- */

void node_begin(struct node *node, unsigned host)
{
    struct redis_config config;
    set_config(&config);
    *node = (struct node){
        .host = host,
        .redis = redis_new(&config),
        .clock_us = TIME_OF_DAY,
    };
    network.address[host] = (struct address){
        .class = &class,
        .server = node,
        .delay = DELAY,
    };
}

void node_end(struct node *node)
{
    network.address[node->host].server = NULL;
    network_reset(node->host);
    redis_free(node->redis);
}

void node_restart(struct node *node)
{
    network_reset(node->host);
    redis_lose_memory(node->redis);
    draw_id(node->redis->config.run_id);
    draw_id(node->redis->config.replid);
}
