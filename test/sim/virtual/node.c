#include "node.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TIME_OF_DAY (INT64_C(1700000000) * VIRTUAL_S)

int64_t node_now(const struct node *node)
{
    return virtual_clock_read(&node->clock, events_now()) / VIRTUAL_US;
}

void node_draw_id(char ret_id[REDIS_ID + 1])
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
    node_draw_id(config->run_id);
    node_draw_id(config->replid);
}

/* --- connections --- */

static bool is_down(const void *server)
{
    return ((const struct node *)server)->state == NODE_DOWN;
}

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
        .is_accepted = node->state == NODE_RUNS,
        .next = node->link,
        .link = &node->link,
    };
    link->last = &link->unread;
    if (node->link)
        node->link->link = &link->next;
    node->link = link;
    return link;
}

static struct segment *take_unread(struct node_link *link)
{
    struct segment *segment = link->unread;
    link->unread = segment->next;
    if (!link->unread)
        link->last = &link->unread;
    return segment;
}

static void drop_link(struct node_link *link)
{
    while (link->unread)
        free(take_unread(link));
    if (link->node->reader == link)
        link->node->reader = NULL;
    redis_disconnect(link->redis_link);
    *link->link = link->next;
    if (link->next)
        link->next->link = link->link;
    free(link);
}

static void close_link(struct node_link *link)
{
    struct connection *connection = link->connection;
    drop_link(link);
    connection_close(connection);
}

static bool on_closed(void *peer)
{
    struct node_link *link = peer;
    bool runs = link->node->state == NODE_RUNS;
    link->is_ended = true;
    if (runs)
        drop_link(link);
    return runs;
}

static void write_out(struct node_link *link, void *note)
{
    struct bytes *out = &link->redis_link->out;
    if (out->len > 0)
        connection_write(link->connection, out->data, out->len, note);
    bytes_drop(out, out->len);
}

static void write_messages(struct node *node)
{
    for (struct node_link *link = node->link; link; link = link->next)
        write_out(link, NULL);
}

/* --- commands --- */

static struct node_command command_of(struct node *node, const struct rl_word *word,
                                      size_t words)
{
    return (struct node_command){
        .node = node,
        .link = node->reader,
        .word = word,
        .words = words,
        .written = node->reading->written,
        .is_straggler = !node->reader->connection->stream,
    };
}

static bool replaces(void *arg, const struct rl_word *word, size_t words, struct bytes *out)
{
    struct node *node = arg;
    struct node_command command = command_of(node, word, words);
    return node->class->replaces && node->class->replaces(&command, out);
}

static int64_t now(void *arg)
{
    return node_now(arg);
}

/* The reply does not leave before the node has worked on this command and all before it. */
static void work(struct node *node)
{
    int64_t *leaves = &node->reader->connection->down.arrives;
    int64_t begins = node->busy_until > events_now() ? node->busy_until : events_now();
    node->busy_until = begins + node->service;
    *leaves = *leaves > node->busy_until ? *leaves : node->busy_until;
}

static void executed(void *arg, const struct rl_word *word, size_t words, struct bytes *out,
                     size_t at)
{
    struct node *node = arg;
    struct node_command command = command_of(node, word, words);
    void *note = node->class->executed ? node->class->executed(&command, out, at) : NULL;
    if (node->service > 0)
        work(node);
    write_out(node->reader, note);
    write_messages(node);
}

static void read_segment(struct node_link *link, const struct segment *segment)
{
    struct node *node = link->node;
    node->reader = link;
    node->reading = segment;
    redis_receive(link->redis_link, (struct rl_word){segment->bytes, segment->len},
                  node_now(node));
    write_messages(node);
    if (link->redis_link->is_broken)
        close_link(link);
    node->reader = NULL;
}

static void on_received(void *peer, const struct segment *segment)
{
    struct node_link *link = peer;
    if (link->node->state == NODE_RUNS) {
        read_segment(link, segment);
        return;
    }
    struct segment *copy = malloc(sizeof(*copy) + segment->len);
    if (!copy)
        abort();
    memcpy(copy, segment, sizeof(*copy) + segment->len);
    copy->next = NULL;
    *link->last = copy;
    link->last = &copy->next;
}

static const struct peer_class peer_class = {
    .is_down = is_down,
    .accepted = on_accepted,
    .received = on_received,
    .closed = on_closed,
};

/* --- the process --- */

void node_begin(struct node *node, unsigned index)
{
    struct redis_config config;
    set_config(&config);
    *node = (struct node){
        .index = index,
        .redis = redis_new(&config),
        .clock = {.since = events_now(), .value = TIME_OF_DAY},
    };
    network.class = &peer_class;
    network.server[index] = node;
}

void node_break(struct node_link *link)
{
    struct connection *connection = link->connection;
    drop_link(link);
    connection_break(connection);
}

void node_hang_up(struct node *node)
{
    while (node->link)
        node_break(node->link);
}

void node_end(struct node *node)
{
    node_hang_up(node);
    network.server[node->index] = NULL;
    redis_free(node->redis);
}

void node_hang(struct node *node)
{
    if (node->state == NODE_RUNS)
        node->state = NODE_HANGS;
}

void node_stop(struct node *node)
{
    node->state = NODE_DOWN;
    node_hang_up(node);
    redis_restart(node->redis);
    node_draw_id(node->redis->config.run_id);
}

static bool has_read_all(struct node_link *link)
{
    return !link->unread && !link->is_ended;
}

/* One that has something to read, or an end; of those that were accepted, or of the rest.
 */
static struct node_link *draw_link(struct node *node, bool is_accepted)
{
    struct node_link *drawn = NULL;
    unsigned count = 0;
    for (struct node_link *link = node->link; link; link = link->next)
        if (link->is_accepted == is_accepted && !has_read_all(link) &&
            events_random(++count) == 0)
            drawn = link;
    return drawn;
}

/* The node reads what is in its sockets: of one connection in order, of several in any
   order; but connections that it has yet to accept come last. */
static void read_unread(struct node *node, bool is_accepted)
{
    struct node_link *link;
    while (node->state == NODE_RUNS && (link = draw_link(node, is_accepted))) {
        if (!link->unread) {
            close_link(link);
            continue;
        }
        struct segment *segment = take_unread(link);
        read_segment(link, segment);
        free(segment);
    }
}

void node_resume(struct node *node)
{
    if (node->state == NODE_RUNS)
        return;
    node->state = NODE_RUNS;
    read_unread(node, true);
    read_unread(node, false);
    for (struct node_link *link = node->link; link; link = link->next)
        link->is_accepted = true;
}

void node_restart(struct node *node)
{
    node_stop(node);
    redis_lose_memory(node->redis);
    node_draw_id(node->redis->config.replid);
    node_resume(node);
}

void node_watch(struct node *node, const struct node_class *class)
{
    node->class = class;
    node->redis->hooks = (struct redis_hooks){replaces, executed, now, node};
}
