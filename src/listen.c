#include "listen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/retry.h"

#define BACKOFF_BASE (20 * RL_MS)
#define BACKOFF_CAP  (5 * RL_SECOND)
#define LASTING      RL_SECOND        /* what ended after that did not fail to begin */
#define IDLE         (10 * RL_SECOND) /* then it is asked whether it is still there */
#define PATIENCE     (2 * RL_SECOND)  /* for the answer */

#define CHANNEL_BITS 16 /* hex digits */
#define PLACE_ROOM   (REDLOCK_KEY_MAX + sizeof("!wake:") + CHANNEL_BITS + 1 + RL_DIGITS + 1)

enum state {
    AWAY, /* until `due` */
    CONNECTING,
    LISTENING,
};

struct listener {
    struct rl_task task;
    unsigned index;
    enum state state;
    unsigned failures; /* in a row */
    rl_time since;     /* it is in this state */
    rl_time heard;     /* something, for the last time */
    struct rl_node node;
};

struct rl_ears {
    size_t channel_len;
    char place[PLACE_ROOM]; /* begins with the channel */
    struct listener listener[];
};

/* --- the connection --- */

static void enter(struct listener *listener, enum state state, rl_time due)
{
    listener->state = state;
    listener->since = listener->heard = listener->task.client->view.now;
    rl_heap_drop(&listener->task.client->heap, &listener->task.due);
    rl_task_due(&listener->task, due);
}

static void tell(redlock_client *client, unsigned node, bool hears)
{
    for (struct rl_task *task = client->list.next; task != &client->list; task = task->next)
        if (!task->dead && task->class->hears)
            task->class->hears(task, node, hears);
}

/* Half of the pause is by chance, so that not all come back at once. */
static void fail(struct listener *listener)
{
    redlock_client *client = listener->task.client;
    rl_time now = client->view.now;
    bool listened = listener->state == LISTENING;
    if (listened && now - listener->since >= LASTING)
        listener->failures = 0;
    rl_time pause = rl_backoff(BACKOFF_BASE, BACKOFF_CAP, listener->failures++);
    pause = pause / 2 + rl_uniform(rl_client_random(client), pause / 2);
    rl_node_abort(&listener->node);
    enter(listener, AWAY, now + pause);
    if (listened)
        tell(client, listener->index, false);
}

static void begin(struct listener *listener)
{
    redlock_client *client = listener->task.client;
    if (!(client->view.open & rl_bit(listener->index))) {
        rl_heap_drop(&client->heap, &listener->task.due); /* until it is greeted there */
        return;
    }
    enter(listener, CONNECTING,
          client->view.now + client->options.connect_timeout_ms * RL_MS);
    rl_node_connect(&listener->node);
}

static bool say(struct listener *listener, const struct rl_word *word, size_t words)
{
    redlock_client *client = listener->task.client;
    struct rl_op op = {.task = &listener->task, .sent = client->view.now};
    struct rl_part part;
    return rl_client_is_ours(client) && rl_post_words(&client->post, word, words, &part) &&
           rl_node_send(&listener->node, &op, part) &&
           rl_node_flush(&listener->node) == RL_FAULT_NONE;
}

static void subscribe(struct listener *listener)
{
    const struct rl_ears *ears = listener->task.client->ears;
    struct rl_word words[] = {{"SUBSCRIBE", 9}, {ears->place, ears->channel_len}};
    if (!say(listener, words, 2))
        fail(listener);
}

static void look_whether_it_is_there(struct listener *listener)
{
    rl_time now = listener->task.client->view.now;
    rl_time oldest = rl_node_oldest(&listener->node);
    rl_time due = oldest == RL_NEVER ? listener->heard + IDLE : oldest + PATIENCE;
    struct rl_word ping = {"PING", 4};
    if (now < due)
        rl_task_due(&listener->task, due);
    else if (oldest != RL_NEVER || !say(listener, &ping, 1))
        fail(listener);
    else
        rl_task_due(&listener->task, now + PATIENCE);
}

static void tick(struct rl_task *task)
{
    struct listener *listener = (struct listener *)task;
    rl_heap_drop(&task->client->heap, &task->due);
    switch (listener->state) {
    case AWAY: begin(listener); break;
    case CONNECTING: fail(listener); break;
    case LISTENING: look_whether_it_is_there(listener); break;
    }
}

static void ready(struct rl_task *task, unsigned node)
{
    struct listener *listener = (struct listener *)task;
    if (node == listener->index && listener->state == AWAY && !task->due.place)
        begin(listener);
}

static void destroy_nothing(struct rl_task *task)
{
    (void)task;
}

static const struct rl_task_class listener_class = {
    .tick = tick,
    .ready = ready,
    .destroy = destroy_nothing,
};

/* --- what the node says --- */

static void on_wake(void *arg)
{
    rl_client_wake(((struct listener *)arg)->task.client);
}

static void on_sleep(void *arg)
{
    rl_client_leave(((struct listener *)arg)->task.client);
}

static void on_connected(void *arg, struct rl_node *node)
{
    struct listener *listener = arg;
    redlock_client *client = listener->task.client;
    if (!rl_member_greet(&client->member[listener->index], node) ||
        rl_node_flush(node) != RL_FAULT_NONE)
        fail(listener);
}

static void on_greeted(void *arg, struct rl_node *node, struct rl_identity *identity)
{
    struct listener *listener = arg;
    (void)node;
    if (identity->denied != RL_FAULT_NONE)
        fail(listener);
    else
        subscribe(listener);
}

/* To SUBSCRIBE, and to PING later on. */
static void on_replied(void *arg, struct rl_node *node, const struct rl_op *op,
                       const struct rl_reply *reply)
{
    struct listener *listener = arg;
    (void)node;
    (void)op;
    listener->heard = listener->task.client->view.now;
    if (reply->type != RL_REPLY_ARRAY) {
        fail(listener);
    } else if (listener->state == CONNECTING) {
        enter(listener, LISTENING, listener->heard + IDLE);
        tell(listener->task.client, listener->index, true);
    }
}

/* "NUMBER RANK" */
static bool read_call(const struct rl_reply *reply, uint64_t *ret_number,
                      unsigned *ret_rank)
{
    char text[RL_DIGITS + 4], end;
    if (reply->items != 3 || reply->item[2].type != RL_REPLY_STRING ||
        reply->item[2].len >= sizeof(text))
        return false;
    memcpy(text, reply->item[2].text, reply->item[2].len);
    text[reply->item[2].len] = '\0';
    return sscanf(text, "%" SCNu64 " %1u%c", ret_number, ret_rank, &end) == 2 &&
           *ret_rank <= RL_TURN_SECOND;
}

/* Whoever may publish may call: it is a hint, so what cannot be read is nothing. */
static void on_called(void *arg, struct rl_node *node, const struct rl_reply *reply)
{
    struct listener *listener = arg;
    redlock_client *client = listener->task.client;
    uint64_t number;
    unsigned rank;
    (void)node;
    listener->heard = client->view.now;
    if (!read_call(reply, &number, &rank))
        return;
    for (struct rl_task *task = client->list.next; task != &client->list; task = task->next)
        if (!task->dead && task->class->called)
            task->class->called(task, listener->index, number, rank);
}

static void on_cut(void *arg, struct rl_node *node, const struct rl_op *op)
{
    (void)arg;
    (void)node;
    (void)op;
}

static void on_failed(void *arg, struct rl_node *node, enum rl_fault fault)
{
    (void)node;
    (void)fault;
    fail(arg);
}

static const struct rl_node_owner listener_owner = {
    .wake = on_wake,
    .sleep = on_sleep,
    .connected = on_connected,
    .greeted = on_greeted,
    .replied = on_replied,
    .called = on_called,
    .cut = on_cut,
    .failed = on_failed,
};

/* --- all of them --- */

static bool make_listener(redlock_client *client, unsigned i, struct listener *listener)
{
    struct rl_uri uri;
    if (!rl_uri_copy(&client->member[i].node.uri, &uri))
        return false;
    if (!rl_task_init(&listener->task, client, &listener_class)) {
        rl_uri_clear(&uri);
        return false;
    }
    listener->index = i;
    rl_node_init(&listener->node, client->base, &client->resolver, &client->post, &uri,
                 &listener_owner, listener);
    return true;
}

static void name_channel(redlock_client *client, struct rl_ears *ears)
{
    int len = snprintf(ears->place, sizeof(ears->place), "%s!wake:%0*" PRIx64,
                       client->options.prefix ? client->options.prefix : "", CHANNEL_BITS,
                       rl_client_random(client));
    ears->channel_len = (size_t)len;
}

void rl_listen_begin(redlock_client *client)
{
    if (client->ears || client->closing)
        return;
    struct rl_ears *ears = calloc(1, sizeof(*ears) + client->n * sizeof(ears->listener[0]));
    if (!ears)
        return;
    name_channel(client, ears);
    client->ears = ears;
    for (unsigned i = 0; i < client->n; i++) {
        ears->listener[i].node.fd = -1;
        if (make_listener(client, i, &ears->listener[i]))
            rl_task_due(&ears->listener[i].task, client->view.now);
    }
}

rl_nodes rl_listen_where(const redlock_client *client)
{
    rl_nodes where = 0;
    for (unsigned i = 0; client->ears && i < client->n; i++)
        if (client->ears->listener[i].state == LISTENING)
            where |= rl_bit(i);
    return where;
}

bool rl_listen_since(const redlock_client *client, unsigned node, rl_time sent)
{
    const struct listener *listener = client->ears ? &client->ears->listener[node] : NULL;
    return listener && listener->state == LISTENING && sent >= listener->since;
}

struct rl_word rl_listen_place(redlock_client *client, uint64_t number)
{
    struct rl_ears *ears = client->ears;
    if (!ears)
        return (struct rl_word){"", 0};
    int len = snprintf(ears->place + ears->channel_len,
                       sizeof(ears->place) - ears->channel_len, " %" PRIu64, number);
    return (struct rl_word){ears->place, ears->channel_len + (size_t)len};
}

void rl_listen_deafen(redlock_client *client)
{
    for (unsigned i = 0; client->ears && i < client->n; i++)
        rl_node_deafen(&client->ears->listener[i].node);
}

void rl_listen_clear(redlock_client *client)
{
    for (unsigned i = 0; client->ears && i < client->n; i++)
        rl_node_clear(&client->ears->listener[i].node);
    free(client->ears);
    client->ears = NULL;
}

void rl_listen_forget(redlock_client *client)
{
    for (unsigned i = 0; client->ears && i < client->n; i++)
        rl_node_forget(&client->ears->listener[i].node);
}
