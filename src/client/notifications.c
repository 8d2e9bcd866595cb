#include "notifications.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "core/retry.h"
#include "core/waiter.h"
#include "io/system.h"

#define BACKOFF_BASE  (20 * RL_MS)
#define BACKOFF_CAP   (5 * RL_SECOND)
#define LASTING       RL_SECOND /* a subscription that lasts this long resets the backoff */
#define IDLE          (10 * RL_SECOND) /* without any message for this long, send PING */
#define REPLY_TIMEOUT (2 * RL_SECOND)  /* how long to wait for the reply to a command */

#define CHANNEL_DIGITS (2 * RL_CHANNEL_BYTES)

enum state {
    DISCONNECTED, /* no connection until `task.due` */
    CONNECTING,
    SUBSCRIBED,
};

struct rl_subscriber {
    struct rl_task task;
    struct rl_notifications *notifications;
    unsigned index;
    enum state state;
    unsigned failures; /* in a row */
    rl_time since;     /* when it entered this state */
    rl_time parsed;    /* when the last message was parsed */
    struct rl_connection connection;
};

static void record_state(const struct rl_subscriber *subscriber)
{
    struct rl_record *record =
        rl_loop_record(subscriber->task.loop, RL_RECORD_SUBSCRIBED, 0);
    record->head.node = subscriber->index & 0xff;
    record->head.state = subscriber->state == SUBSCRIBED;
}

/* --- the connection --- */

static void enter(struct rl_subscriber *subscriber, enum state state, rl_time due)
{
    subscriber->state = state;
    subscriber->since = subscriber->parsed = subscriber->task.loop->now;
    rl_heap_drop(&subscriber->task.loop->heap, &subscriber->task.due);
    rl_task_schedule(&subscriber->task, due);
}

/* Half of the pause is random, so that not all clients reconnect at once. */
static void fail(struct rl_subscriber *subscriber)
{
    struct rl_loop *loop = subscriber->task.loop;
    rl_time now = loop->now;
    bool was_subscribed = subscriber->state == SUBSCRIBED;
    if (was_subscribed && now - subscriber->since >= LASTING)
        subscriber->failures = 0;
    rl_time pause = rl_backoff(BACKOFF_BASE, BACKOFF_CAP, subscriber->failures++);
    pause = pause / 2 + rl_uniform(rl_loop_random(loop), pause / 2);
    rl_connection_abort(&subscriber->connection);
    enter(subscriber, DISCONNECTED, now + pause);
    if (was_subscribed) {
        record_state(subscriber);
        rl_loop_broadcast(loop, RL_TASK_UNSUBSCRIBED, subscriber->index);
    }
}

static void notifications_begin(struct rl_subscriber *subscriber)
{
    struct rl_nodes *nodes = subscriber->notifications->nodes;
    if (!(nodes->view.open & rl_bit(subscriber->index))) {
        /* on_event() starts it once the node is greeted. */
        rl_heap_drop(&nodes->loop->heap, &subscriber->task.due);
        return;
    }
    enter(subscriber, CONNECTING,
          nodes->loop->now + nodes->options->connect_timeout_ms * RL_MS);
    rl_connection_connect(&subscriber->connection);
}

static bool send_command(struct rl_subscriber *subscriber, const struct rl_word *word,
                         size_t words)
{
    struct rl_nodes *nodes = subscriber->notifications->nodes;
    struct rl_op op = {.task = &subscriber->task, .sent = nodes->loop->now};
    struct rl_segment segment;
    return rl_loop_is_ours(nodes->loop) &&
           rl_send_batch_add_argv(&nodes->batch, word, words, &segment) &&
           rl_connection_send(&subscriber->connection, &op, segment) &&
           rl_connection_flush(&subscriber->connection) == RL_FAULT_NONE;
}

static void subscribe(struct rl_subscriber *subscriber)
{
    const struct rl_notifications *notifications = subscriber->notifications;
    struct rl_word words[] = {{"SUBSCRIBE", 9},
                              {notifications->entry, notifications->channel_len}};
    if (!send_command(subscriber, words, 2))
        fail(subscriber);
}

static void check_alive(struct rl_subscriber *subscriber)
{
    rl_time now = subscriber->task.loop->now;
    rl_time oldest = rl_connection_oldest(&subscriber->connection);
    rl_time due = oldest == RL_NEVER ? subscriber->parsed + IDLE : oldest + REPLY_TIMEOUT;
    struct rl_word ping = {"PING", 4};
    if (now < due)
        rl_task_schedule(&subscriber->task, due);
    else if (oldest != RL_NEVER || !send_command(subscriber, &ping, 1))
        fail(subscriber);
    else
        rl_task_schedule(&subscriber->task, now + REPLY_TIMEOUT);
}

static void notifications_tick(struct rl_task *task)
{
    struct rl_subscriber *subscriber = (struct rl_subscriber *)task;
    switch (subscriber->state) {
    case DISCONNECTED: notifications_begin(subscriber); break;
    case CONNECTING: fail(subscriber); break;
    case SUBSCRIBED: check_alive(subscriber); break;
    }
}

static void on_event(struct rl_task *task, enum rl_task_event event, unsigned node)
{
    struct rl_subscriber *subscriber = (struct rl_subscriber *)task;
    if (event == RL_TASK_READY && node == subscriber->index &&
        subscriber->state == DISCONNECTED && !task->due.position)
        notifications_begin(subscriber);
}

/* The reply to pass_on(): it only shows whether the node knows the script. */
static void on_passed_on(struct rl_task *task, unsigned node, const struct rl_op *op,
                         const struct rl_reply *reply)
{
    struct rl_nodes *nodes = ((struct rl_subscriber *)task)->notifications->nodes;
    struct rl_answer answer;
    (void)rl_nodes_parse_reply(nodes, rl_kind_that_is(false, (enum redlock_kind)op->kind),
                               node, op, reply, &answer);
}

static const struct rl_task_class subscriber_class = {
    .tick = notifications_tick,
    .event = on_event,
    .replied = on_passed_on,
};

/* --- messages from the node --- */

static void on_enter(void *arg)
{
    rl_loop_wake(((struct rl_subscriber *)arg)->task.loop);
}

static void on_leave(void *arg)
{
    rl_loop_leave(((struct rl_subscriber *)arg)->task.loop);
}

static void on_connected(void *arg)
{
    struct rl_subscriber *subscriber = arg;
    struct rl_nodes *nodes = subscriber->notifications->nodes;
    if (!rl_node_greet(&nodes->node[subscriber->index], &subscriber->connection) ||
        rl_connection_flush(&subscriber->connection) != RL_FAULT_NONE)
        fail(subscriber);
}

static void on_greeted(void *arg, struct rl_identity *identity)
{
    struct rl_subscriber *subscriber = arg;
    if (identity->denied != RL_FAULT_NONE)
        fail(subscriber);
    else
        subscribe(subscriber);
}

/* The reply to SUBSCRIBE, and later to PING. (safety.md, rule 4) */
static void on_replied(void *arg, const struct rl_op *op, const struct rl_reply *reply)
{
    struct rl_subscriber *subscriber = arg;
    const char *word = subscriber->state == CONNECTING ? "subscribe" : "pong";
    (void)op;
    subscriber->parsed = subscriber->task.loop->now;
    if (!rl_resp_begins(reply, word)) {
        fail(subscriber);
    } else if (subscriber->state == CONNECTING) {
        enter(subscriber, SUBSCRIBED, subscriber->parsed + IDLE);
        record_state(subscriber);
        rl_loop_broadcast(subscriber->task.loop, RL_TASK_SUBSCRIBED, subscriber->index);
    }
}

struct notification {
    uint64_t number;
    unsigned position, slot; /* of a semaphore: which one is free; 0: none is named */
    struct rl_word key;      /* empty: of an election, to an observer */
};

/* Parses "NUMBER POSITION SLOT KEY", or to an observer "NUMBER POSITION". */
static bool read_notification(const struct rl_reply *reply, struct notification *ret)
{
    char text[RL_DIGITS + 8];
    int numbers = 0, used = 0;
    *ret = (struct notification){0};
    if (reply->items != 3 || reply->item[2].type != RL_REPLY_STRING)
        return false;
    struct rl_word all = {reply->item[2].text, reply->item[2].len};
    size_t len = all.len < sizeof(text) ? all.len : sizeof(text) - 1;
    memcpy(text, all.text, len);
    text[len] = '\0';
    if (sscanf(text, "%" SCNu64 " %1u%n %3u%n", &ret->number, &ret->position, &numbers,
               &ret->slot, &used) < 2)
        return false;
    size_t end = (size_t)used;
    if (used > 0 && end + 1 < all.len && all.len - end - 1 <= REDLOCK_KEY_MAX)
        ret->key = (struct rl_word){all.text + end + 1, all.len - end - 1};
    return (ret->key.len > 0 ? all.text[end] == ' ' : (size_t)numbers == all.len) &&
           ret->position <= RL_WAITER_SECOND && ret->slot <= RL_SLOTS_MAX;
}

/*
 * Nobody here waits under this number, so the notification is for the next waiter. The
 * token is one that no lock has.
 */
static void pass_on(struct rl_subscriber *subscriber, const struct notification *call)
{
    struct rl_nodes *nodes = subscriber->notifications->nodes;
    struct rl_word entry =
        rl_notifications_queue_entry(subscriber->notifications, call->number);
    char slot[REDLOCK_KEY_MAX + RL_DIGITS];
    struct rl_message message = {
        .kind = rl_kind_that_is(false, call->slot > 0 ? REDLOCK_KIND_SLOT
                                                      : REDLOCK_KIND_EXCLUSIVE),
        .command = RL_CMD_RELEASE,
        .args = {.key = call->key, .token = entry, .queue_entry = entry, .waited = -1},
    };
    if (!(nodes->view.open & rl_bit(subscriber->index)) || call->key.len == 0)
        return;
    if (call->slot > 0) {
        memcpy(slot, call->key.text, call->key.len);
        int len = snprintf(slot + call->key.len, RL_DIGITS, "!%u", call->slot);
        message.args.key = (struct rl_word){slot, call->key.len + (size_t)len};
        message.args.base = call->key;
        message.args.slots = call->slot;
    }
    (void)rl_nodes_send(nodes, &subscriber->task, &message, rl_bit(subscriber->index));
}

/*
 * Any client with the right to publish can send a message here. A notification is only a
 * hint, so a malformed one is ignored.
 */
static void on_published(void *arg, const struct rl_reply *reply)
{
    struct rl_subscriber *subscriber = arg;
    struct notification call;
    subscriber->parsed = subscriber->task.loop->now;
    if (!read_notification(reply, &call))
        return;
    struct rl_task *task =
        rl_waiter_table_find(&subscriber->notifications->waiters, call.number);
    if (!task || task->dead ||
        !task->class->notified(task, subscriber->index, call.position, call.slot))
        pass_on(subscriber, &call);
}

static void on_failed(void *arg, enum rl_fault fault)
{
    (void)fault;
    fail(arg);
}

static const struct rl_connection_handler subscriber_handler = {
    .enter = on_enter,
    .leave = on_leave,
    .connected = on_connected,
    .greeted = on_greeted,
    .replied = on_replied,
    .published = on_published,
    .failed = on_failed,
};

/* --- all nodes --- */

static bool make_subscriber(struct rl_notifications *notifications, unsigned i)
{
    struct rl_nodes *nodes = notifications->nodes;
    struct rl_subscriber *subscriber = &notifications->subscriber[i];
    if (!rl_task_init(&subscriber->task, nodes->loop, &subscriber_class))
        return false;
    subscriber->notifications = notifications;
    subscriber->index = i;
    rl_connection_init(&subscriber->connection, &nodes->resolver, &nodes->batch,
                       &nodes->node[i].uri, nodes->tls, &subscriber_handler, subscriber);
    return true;
}

/* Nobody can guess the channel. False: getrandom() failed. */
static bool name_channel(struct rl_notifications *notifications)
{
    const char *prefix = notifications->nodes->options->prefix;
    uint64_t random;
    if (!rl_system_random(&random, sizeof(random), true))
        return false;
    int len = snprintf(notifications->entry, sizeof(notifications->entry),
                       "%s!wake:k%0*" PRIx64, prefix ? prefix : "", CHANNEL_DIGITS, random);
    notifications->channel_len = (size_t)len;
    return true;
}

/* If it cannot start, the waiters follow their retry policies, and the next one tries. */
void rl_notifications_start(struct rl_notifications *notifications)
{
    struct rl_nodes *nodes = notifications->nodes;
    if (notifications->subscriber || nodes->loop->closing || !name_channel(notifications))
        return;
    notifications->subscriber = calloc(nodes->n, sizeof(*notifications->subscriber));
    for (unsigned i = 0; notifications->subscriber && i < nodes->n; i++)
        if (make_subscriber(notifications, i))
            rl_task_schedule(&notifications->subscriber[i].task, nodes->loop->now);
}

rl_node_set rl_notifications_nodes(const struct rl_notifications *notifications)
{
    rl_node_set where = 0;
    for (unsigned i = 0; notifications->subscriber && i < notifications->nodes->n; i++)
        if (notifications->subscriber[i].state == SUBSCRIBED)
            where |= rl_bit(i);
    return where;
}

bool rl_notifications_since(const struct rl_notifications *notifications, unsigned node,
                            rl_time sent)
{
    const struct rl_subscriber *subscriber =
        notifications->subscriber ? &notifications->subscriber[node] : NULL;
    /* At the same time it may have been sent before: the clock can stand still. */
    return subscriber && subscriber->state == SUBSCRIBED && sent > subscriber->since;
}

struct rl_word rl_notifications_queue_entry(struct rl_notifications *notifications,
                                            uint64_t number)
{
    int len = snprintf(notifications->entry + notifications->channel_len,
                       sizeof(notifications->entry) - notifications->channel_len,
                       " %" PRIu64, number);
    return (struct rl_word){notifications->entry, notifications->channel_len + (size_t)len};
}

void rl_notifications_stop_reading(struct rl_notifications *notifications)
{
    for (unsigned i = 0; notifications->subscriber && i < notifications->nodes->n; i++)
        rl_connection_stop_reading(&notifications->subscriber[i].connection);
}

void rl_notifications_close(struct rl_notifications *notifications, bool forked)
{
    for (unsigned i = 0; notifications->subscriber && i < notifications->nodes->n; i++)
        rl_connection_clear(&notifications->subscriber[i].connection, forked);
    free(notifications->subscriber);
    free(notifications->waiters.slot);
}
