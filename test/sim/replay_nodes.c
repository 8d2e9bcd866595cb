/*
 * The nodes of a replay. A simulated server greets; what it replies to the commands of a
 * lock is in the dump. The client sees nothing of a connection before the dump says so.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "core/kind.h"
#include "lease/attempt.h"
#include "replay_parts.h"

static struct node nodes[RL_NODES_MAX];
static unsigned unanswered[RL_NODES_MAX]; /* commands of locks that the node has received */

static unsigned node_count(void)
{
    return (unsigned)line_number(&player.dump->client, "nodes", 0);
}

/* --- what the dump says of a connection --- */

static bool is_of_link(const struct line *event, unsigned node)
{
    return line_is_named(event, "link") && line_number(event, "node", -1) == node &&
           !line_is(event, "state", "connecting");
}

/* How the attempt to connect ends that is under way, or begins now; NULL: not in the dump.
 */
static const struct line *coming(unsigned node)
{
    for (size_t i = player.next; i < player.dump->event.count; i++)
        if (is_of_link(player_event(i), node))
            return player_event(i);
    return NULL;
}

static const struct line *latest(unsigned node)
{
    for (size_t i = player.next; i-- > 0;)
        if (is_of_link(player_event(i), node))
            return player_event(i);
    return NULL;
}

/* --- connections --- */

static struct connection *connection_of(unsigned node, bool is_link)
{
    const void *owner = &player.client->nodes.node[node].connection;
    for (struct connection *at = network.connection; at; at = at->next)
        if (at->stream && at->host == node + 1 && (at->owner == owner) == is_link)
            return at;
    return NULL;
}

static enum rl_link_state link_state(unsigned node)
{
    return player.client->nodes.node[node].link.state;
}

/* The event that the client records next. */
static const struct line *expected(void)
{
    size_t at = player.next + player_recorded();
    return at < player.dump->event.count ? player_event(at) : NULL;
}

/*
 * The dump has the first attempt to connect that fails, and each that fails in another way.
 * The others fail as the one before. A refused connection fails at once.
 */
static void on_opened(struct connection *connection)
{
    unsigned node = connection->host - 1;
    connection->is_held = true;
    if (!player.client || connection_of(node, true)) /* the one of its notifications */
        return;
    unanswered[node] = 0;
    const struct line *next = expected(), *last = latest(node);
    bool is_now = next && (player.is_called || next->at <= player_now());
    bool is_next = is_now && is_of_link(next, node);
    const struct line *like = is_next ? next : last;
    if (like && line_is(like, "fault", "CONNECT"))
        connection->error = ECONNREFUSED;
    else if (!is_next && last && line_is(last, "by", "greeted"))
        connection->is_held = false; /* it is refused again */
}

/* The client sees what has arrived, and nothing after that. False: nothing has. */
static bool show(struct connection *connection, unsigned node, bool is_link)
{
    struct ready **last = player.process.last;
    connection->is_held = false;
    stream_changed(connection->stream);
    bool shows = player.process.last != last && process_run_one(&player.process, true);
    connection = connection_of(node, is_link);
    if (connection)
        connection->is_held = true;
    return shows;
}

static void write_and_show(struct connection *connection, unsigned node, bool is_link,
                           const char *bytes)
{
    connection->is_held = true;
    connection_write(connection, bytes, strlen(bytes), NULL);
    player_settle();
    show(connection, node, is_link);
}

static void hang_up(struct connection *connection)
{
    connection->is_held = true;
    if (connection->peer)
        node_break(connection->peer);
    connection->error = connection->error ? connection->error : ECONNRESET;
    player_settle();
}

/* --- greetings --- */

static bool is_restart(const struct line *event)
{
    return line_is(event, "restarted", "1");
}

/* As the client was greeted next; it has already noticed some restarts. */
static const struct line *greeting_of(unsigned node)
{
    const struct line *next = coming(node), *last = latest(node);
    if (next && !line_is(next, "by", "greeted"))
        next = NULL;
    if (!next)
        return last && line_is(last, "by", "greeted") ? last : NULL;
    bool is_known = last && is_restart(last) && line_is(last, "by", "greeted") &&
                    line_is(last, "state", "down");
    if (is_restart(next) && !is_known)
        node_draw_id(nodes[node].redis->config.run_id);
    return next;
}

/* Before the first command of a greeting. True: the reply is an error. */
static bool greet(unsigned node, struct bytes *out)
{
    struct redis_config *config = &nodes[node].redis->config;
    const struct line *greeting = greeting_of(node);
    char fault[DUMP_VALUE] = "NONE", reply[DUMP_VALUE];
    if (greeting)
        line_value(greeting, "fault", fault);
    config->is_replica = strcmp(fault, "REPLICA") == 0;
    config->is_cluster = strcmp(fault, "CLUSTER") == 0;
    if (strcmp(fault, "DUPLICATE") == 0)
        memcpy(config->run_id, nodes[node == 0].redis->config.run_id,
               sizeof(config->run_id));
    if (!replay_error_prefix(fault))
        return false;
    int len = snprintf(reply, sizeof(reply), "-%s as in the dump\r\n",
                       replay_error_prefix(fault));
    bytes_add(out, reply, (size_t)len);
    return true;
}

static bool is_word(struct rl_word word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.text, text, word.len) == 0;
}

/* A command of a lock is not executed: the dump has the reply, and its time. */
static bool replaces(const struct node_command *command, struct bytes *out)
{
    unsigned node = command->node->index - 1;
    const struct rl_word *word = command->word;
    if (is_word(word[0], "SET") || is_word(word[0], "EVAL") ||
        is_word(word[0], "EVALSHA")) {
        unanswered[node]++;
        return true;
    }
    return is_word(word[0], "INFO") && is_word(word[1], "server") && greet(node, out);
}

static const struct node_class node_class = {.replaces = replaces};

/* How long the client waits before it connects again is drawn: here, until it has to. */
static void reconnect(void *arg)
{
    struct rl_node *node = arg;
    struct rl_loop *loop = node->task.loop;
    rl_loop_wake(loop);
    node->link.retry_at = loop->now;
    node->task.class->tick(&node->task);
    rl_loop_leave(loop);
}

static void write_greeting(void *arg)
{
    rl_nodes_write(arg);
}

/* Goes on until the client has read the whole greeting. */
static void greet_client(unsigned node)
{
    struct connection *connection = connection_of(node, true);
    if (connection && link_state(node) == RL_LINK_CONNECTING)
        show(connection, node, true);
    process_call(&player.process, write_greeting, &player.client->nodes);
    player_settle();
    do
        connection = connection_of(node, true);
    while (connection && link_state(node) == RL_LINK_GREETING &&
           show(connection, node, true));
}

/* The client learns that a connection was made or ended, or reads a greeting. */
static bool link_acts(const struct line *event, unsigned node)
{
    bool is_input = line_is(event, "by", "connected") || line_is(event, "by", "greeted") ||
                    line_is(event, "by", "failed");
    if (!is_input || player.is_called)
        return false;
    player.is_called = true;
    if (link_state(node) == RL_LINK_DOWN)
        process_call(&player.process, reconnect, &player.client->nodes.node[node]);
    player_settle();
    struct connection *connection = connection_of(node, true);
    if (line_is(event, "by", "greeted"))
        greet_client(node);
    else if (connection && line_is(event, "fault", "PROTOCOL"))
        write_and_show(connection, node, true, "?\r\n");
    else if (connection) {
        if (line_is(event, "by", "failed"))
            hang_up(connection);
        show(connection, node, true);
    }
    return true;
}

/* --- replies --- */

/* The node replies to the oldest command, with this or if it is another one with anything.
 */
static bool replies(const struct line *event, unsigned node, const char *reply)
{
    struct connection *connection = connection_of(node, true);
    if (!connection || link_state(node) < RL_LINK_READY || unanswered[node] == 0)
        return false;
    const struct rl_op *op =
        rl_connection_op(&player.client->nodes.node[node].connection, 0);
    unanswered[node]--;
    write_and_show(connection, node, true,
                   replay_is_command_of(op, event) ? reply : replay_any_reply(op));
    return true;
}

static bool reply_acts(const struct line *event, unsigned node)
{
    char reply[REPLAY_REPLY];
    replay_reply(event, reply);
    return replies(event, node, reply);
}

/* A command that was sent to a node twice in a round: the node did not know the script. */
static bool is_sent_again(const struct line *event)
{
    rl_node_set to = line_nodes(event, "nodes");
    for (size_t i = player.next; i-- > 0 && rl_count(to) == 1;) {
        const struct line *other = player_event(i);
        if (!line_is_named(other, "sent") || !(line_nodes(other, "nodes") & to))
            continue;
        static const char *const names[] = {"lease", "attempt", "command", "round"};
        unsigned same = 0;
        for (unsigned n = 0; n < 4; n++) {
            char value[DUMP_VALUE];
            same += line_is(other, names[n], line_value(event, names[n], value));
        }
        if (same == 4)
            return true;
    }
    return false;
}

/* --- notifications --- */

/* From now on the client sees at once what comes there: only replies to PING. */
static void let_go(unsigned node)
{
    struct connection *connection = connection_of(node, false);
    if (!connection)
        return;
    connection->is_held = false;
    stream_changed(connection->stream);
}

/* From the connection to the reply to SUBSCRIBE. */
static bool subscribed_acts(const struct line *event, unsigned node)
{
    struct connection *connection = connection_of(node, false);
    if (!connection || player.is_called)
        return false;
    player.is_called = true;
    if (line_is(event, "on", "0"))
        hang_up(connection);
    while (connection && show(connection, node, false)) {
        player_settle();
        connection = connection_of(node, false);
    }
    let_go(node);
    return true;
}

static bool notified_acts(const struct line *event, unsigned node)
{
    struct connection *connection = connection_of(node, false);
    const struct rl_notifications *notifications = &player.client->notifications;
    char text[100], message[REPLAY_REPLY];
    if (!connection || player.is_called)
        return false;
    player.is_called = true;
    snprintf(text, sizeof(text), "%" PRIu64 " %" PRId64,
             replay_waiter(line_number(event, "lease", 0)),
             line_number(event, "position", 0));
    snprintf(message, sizeof(message),
             "*3\r\n$7\r\nmessage\r\n$%zu\r\n%.*s\r\n$%zu\r\n%s\r\n",
             notifications->channel_len, (int)notifications->channel_len,
             notifications->entry, strlen(text), text);
    write_and_show(connection, node, false, message);
    let_go(node);
    return true;
}

/* --- all of it --- */

bool replay_node_acts(const struct line *event)
{
    int64_t node = line_number(event, "node", -1);
    if (line_is_named(event, "sent") && is_sent_again(event))
        return replies(event, rl_first(line_nodes(event, "nodes")),
                       "-NOSCRIPT as in the dump\r\n");
    if (node < 0)
        return false;
    if (line_is_named(event, "link"))
        return link_acts(event, (unsigned)node);
    if (line_is_named(event, "reply"))
        return reply_acts(event, (unsigned)node);
    if (line_is_named(event, "subscribed"))
        return subscribed_acts(event, (unsigned)node);
    if (line_is_named(event, "notified"))
        return notified_acts(event, (unsigned)node);
    return false;
}

static const struct network_observer observer = {.opened = on_opened};

void replay_nodes_begin(void)
{
    memset(unanswered, 0, sizeof(unanswered));
    network.observer = &observer;
    for (unsigned i = 0; i < node_count(); i++) {
        node_begin(&nodes[i], i + 1);
        node_watch(&nodes[i], &node_class);
        network.path[0][i + 1].latency = 0;
    }
}

void replay_nodes_end(void)
{
    for (unsigned i = 0; i < node_count(); i++)
        node_end(&nodes[i]);
}
