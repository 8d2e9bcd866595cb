#include "node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_SIZE      4096 /* on the stack of whoever runs the loop */
#define READS_PER_PASS 16
#define OP_ROOM        64 /* doubled as needed */
#define OP_KEPT        8192

void rl_node_init(struct rl_node *node, struct event_base *base,
                  struct rl_resolver *resolver, const struct rl_post *post,
                  const struct rl_uri *uri, const struct rl_node_owner *owner, void *arg)
{
    *node = (struct rl_node){
        .owner = owner,
        .arg = arg,
        .base = base,
        .resolver = resolver,
        .post = post,
        .uri = *uri,
        .fd = -1,
    };
}

/* --- what is owed an answer --- */

static struct rl_op take_op(struct rl_node *node)
{
    struct rl_op op = *rl_node_op(node, 0);
    node->op_first++;
    if (--node->op_count == 0 && node->op_room > OP_KEPT) {
        free(node->op);
        node->op = NULL;
        node->op_room = 0;
    }
    return op;
}

/* --- connecting --- */

static void drop_events(struct rl_node *node)
{
    if (node->readable)
        event_free(node->readable);
    if (node->writable)
        event_free(node->writable);
    node->readable = node->writable = NULL;
}

/* What is queued has been written, or never will be. */
static void drop_queue(struct rl_node *node)
{
    rl_post_empty(&node->kept);
    node->kept_at = 0;
    node->part = (struct rl_part){0};
}

static void disconnect(struct rl_node *node, void (*close_fd)(int))
{
    if (node->resolving)
        rl_resolve_cancel(node->resolving);
    node->resolving = NULL;
    drop_events(node);
    rl_resp_free(node->resp);
    node->resp = NULL;
    if (node->fd >= 0)
        close_fd(node->fd);
    node->fd = -1;
    node->connected = false;
    node->greeting_now = false;
    node->said = RL_FAULT_NONE;
    node->known = 0;
    drop_queue(node);
}

static void on_readable(evutil_socket_t fd, short what, void *arg);
static void on_writable(evutil_socket_t fd, short what, void *arg);

static enum rl_fault open_stream(struct rl_node *node, const struct rl_address *address)
{
    int fd = rl_stream_open(address);
    if (fd < 0)
        return fd == -EMFILE || fd == -ENFILE ? RL_FAULT_FILES : RL_FAULT_CONNECT;
    node->fd = fd;
    node->resp = rl_resp_new();
    node->readable = event_new(node->base, fd, EV_READ | EV_PERSIST, on_readable, node);
    node->writable = event_new(node->base, fd, EV_WRITE, on_writable, node);
    if (!node->resp || !node->readable || !node->writable ||
        event_add(node->writable, NULL) != 0)
        return RL_FAULT_MEMORY;
    return RL_FAULT_NONE;
}

static void connect_to(struct rl_node *node, const struct rl_address *address)
{
    enum rl_fault fault = open_stream(node, address);
    if (fault != RL_FAULT_NONE)
        node->owner->failed(node->arg, node, fault);
}

static void on_resolved(const struct rl_address *address, void *arg)
{
    struct rl_node *node = arg;
    node->owner->wake(node->arg);
    node->resolving = NULL;
    if (address)
        connect_to(node, address);
    else
        node->owner->failed(node->arg, node, RL_FAULT_RESOLVE);
    node->owner->sleep(node->arg);
}

void rl_node_connect(struct rl_node *node)
{
    assert(node->fd < 0 && !node->resolving);
    if (node->uri.path) {
        struct rl_address address = {.len = sizeof(struct sockaddr_un)};
        struct sockaddr_un *un = (struct sockaddr_un *)&address.addr;
        un->sun_family = AF_UNIX;
        strncpy(un->sun_path, node->uri.path, sizeof(un->sun_path) - 1);
        connect_to(node, &address);
        return;
    }
    struct rl_resolve *request = rl_resolve_start(
        node->resolver, node->uri.host, node->uri.port, node->turn++, on_resolved, node);
    if (request)
        node->resolving = request;
}

static void note_error(struct rl_node *node, const struct rl_reply *reply)
{
    if (reply->type == RL_REPLY_ERROR && node->said == RL_FAULT_NONE)
        node->said = rl_fault_of_error(reply->text, reply->len);
}

/* The owner hears nothing of it: the connection has ended. */
static void read_reason(struct rl_node *node)
{
    char bytes[READ_SIZE];
    const struct rl_reply *reply;
    for (int i = 0; i < READS_PER_PASS && node->said == RL_FAULT_NONE; i++) {
        ssize_t got = rl_stream_read(node->fd, bytes, sizeof(bytes));
        if (got <= 0)
            return;
        rl_resp_feed(node->resp, bytes, (size_t)got);
        while (rl_resp_next(node->resp, &reply) == RL_RESP_REPLY)
            note_error(node, reply);
    }
}

/*
 * Why the connection ended. A server that takes no more clients, or none from this machine,
 * says so unasked and hangs up: what it said may still be unread when a write fails.
 */
static enum rl_fault fault_of_end(struct rl_node *node, enum rl_fault fault)
{
    bool greeted = node->connected && !node->greeting_now;
    if (!greeted)
        read_reason(node);
    return node->said != RL_FAULT_NONE ? node->said : fault;
}

static void finish_connecting(struct rl_node *node)
{
    int state = rl_stream_connected(node->fd);
    if (state == -EINPROGRESS && event_add(node->writable, NULL) == 0)
        return;
    node->connected = state == 0 && event_add(node->readable, NULL) == 0;
    if (node->connected)
        node->owner->connected(node->arg, node);
    else
        node->owner->failed(node->arg, node, fault_of_end(node, RL_FAULT_CONNECT));
}

static void flush(struct rl_node *node)
{
    enum rl_fault fault = rl_node_flush(node);
    if (fault != RL_FAULT_NONE)
        node->owner->failed(node->arg, node, fault);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct rl_node *node = arg;
    (void)fd;
    (void)what;
    node->owner->wake(node->arg);
    if (node->fd >= 0 && !node->connected)
        finish_connecting(node);
    else if (node->fd >= 0)
        flush(node);
    node->owner->sleep(node->arg);
}

void rl_node_abort(struct rl_node *node)
{
    disconnect(node, rl_stream_abort);
    while (node->op_count > 0) {
        struct rl_op op = take_op(node);
        node->owner->cut(node->arg, node, &op);
    }
}

static void free_memory(struct rl_node *node)
{
    rl_post_free(&node->kept);
    free(node->op);
    rl_uri_clear(&node->uri);
    node->op = NULL;
    node->op_count = 0;
}

void rl_node_deafen(struct rl_node *node)
{
    node->deaf = true;
    node->op_count = 0;
    if (node->readable)
        event_del(node->readable);
}

/* What was not read when a socket is closed turns the close into a reset. */
static void discard_input(struct rl_node *node)
{
    char bytes[READ_SIZE];
    for (int i = 0; i < READS_PER_PASS; i++)
        if (rl_stream_read(node->fd, bytes, sizeof(bytes)) <= 0)
            break;
}

void rl_node_clear(struct rl_node *node)
{
    if (node->connected && rl_node_flush(node) == RL_FAULT_NONE)
        discard_input(node);
    disconnect(node, rl_stream_close);
    free_memory(node);
}

void rl_node_forget(struct rl_node *node)
{
    rl_resp_free(node->resp);
    if (node->fd >= 0)
        close(node->fd);
    free_memory(node);
}

/* --- sending --- */

/* Whoever takes less than is said is never done with all of it. */
static void drop_what_is_written(struct rl_node *node)
{
    size_t left = node->kept.len - node->kept_at;
    if (left >= node->kept_at)
        return;
    memmove(node->kept.bytes, node->kept.bytes + node->kept_at, left);
    node->kept.len = left;
    node->kept_at = 0;
}

/* What the socket did not take, or what does not end where the next part begins. */
static bool keep_part(struct rl_node *node)
{
    struct rl_part kept;
    size_t len = node->part.end - node->part.at;
    drop_what_is_written(node);
    if (len > 0 && !rl_post_add(&node->kept, node->post->bytes + node->part.at, len, &kept))
        return false;
    node->part = (struct rl_part){0};
    return true;
}

static bool double_ops(struct rl_node *node)
{
    size_t room = node->op_room ? 2 * node->op_room : OP_ROOM;
    struct rl_op *op = malloc(room * sizeof(*op));
    if (!op)
        return false;
    for (size_t i = 0; i < node->op_count; i++)
        op[i] = *rl_node_op(node, i);
    free(node->op);
    node->op = op;
    node->op_first = 0;
    node->op_room = room;
    return true;
}

bool rl_node_make_room(struct rl_node *node, size_t at)
{
    if (node->op_count == node->op_room && !double_ops(node))
        return false;
    if (node->part.end == at)
        return true;
    if (!keep_part(node))
        return false;
    node->part = (struct rl_part){at, at};
    return true;
}

static bool say_greeting(void *arg, const struct rl_word *word, size_t words)
{
    struct rl_node *node = arg;
    struct rl_part kept;
    return keep_part(node) && rl_post_words(&node->kept, word, words, &kept);
}

bool rl_node_greet(struct rl_node *node, const struct rl_credentials *who)
{
    node->greeting_now = true;
    return rl_greeting_begin(&node->greeting, who, say_greeting, node);
}

/* As much as the socket takes. False: the connection ended. */
static bool write_some(const struct rl_node *node, const char *bytes, size_t *at,
                       size_t end)
{
    while (*at < end) {
        ssize_t put = rl_stream_write(node->fd, bytes + *at, end - *at);
        if (put == -EAGAIN)
            return true;
        if (put < 0)
            return false;
        *at += (size_t)put;
    }
    return true;
}

static enum rl_fault write_later(struct rl_node *node)
{
    return keep_part(node) && event_add(node->writable, NULL) == 0 ? RL_FAULT_NONE
                                                                   : RL_FAULT_MEMORY;
}

enum rl_fault rl_node_flush(struct rl_node *node)
{
    if (!write_some(node, node->kept.bytes, &node->kept_at, node->kept.len))
        return fault_of_end(node, RL_FAULT_CLOSED);
    bool kept = node->kept_at < node->kept.len;
    if (!kept && !write_some(node, node->post->bytes, &node->part.at, node->part.end))
        return fault_of_end(node, RL_FAULT_CLOSED);
    if (kept || node->part.at < node->part.end)
        return write_later(node);
    drop_queue(node);
    return RL_FAULT_NONE;
}

/* --- receiving --- */

/* ["message", channel, text] may come before any answer. */
static bool is_message(const struct rl_reply *reply)
{
    static const char mark[] = "message";
    return reply->type == RL_REPLY_ARRAY && reply->items > 0 &&
           reply->item[0].type == RL_REPLY_STRING &&
           reply->item[0].len == sizeof(mark) - 1 &&
           memcmp(reply->item[0].text, mark, sizeof(mark) - 1) == 0;
}

static void take_reply(struct rl_node *node, const struct rl_reply *reply)
{
    if (node->greeting_now) {
        note_error(node, reply);
        if (!rl_greeting_read(&node->greeting, reply))
            return;
        node->greeting_now = false;
        node->said = RL_FAULT_NONE;
        node->owner->greeted(node->arg, node, &node->greeting.identity);
        return;
    }
    if (node->owner->called && is_message(reply)) {
        node->owner->called(node->arg, node, reply);
        return;
    }
    if (node->op_count == 0) { /* nobody asked */
        node->owner->failed(node->arg, node, RL_FAULT_PROTOCOL);
        return;
    }
    struct rl_op op = take_op(node);
    node->owner->replied(node->arg, node, &op, reply);
}

/* The owner may end the connection at each reply: then `resp` is another one or none. */
static bool take_replies(struct rl_node *node)
{
    struct rl_resp *resp = node->resp;
    const struct rl_reply *reply;
    for (;;) {
        switch (rl_resp_next(resp, &reply)) {
        case RL_RESP_MORE: return true;
        case RL_RESP_BROKEN:
            node->owner->failed(node->arg, node, RL_FAULT_PROTOCOL);
            return false;
        case RL_RESP_REPLY: take_reply(node, reply); break;
        }
        if (node->resp != resp || node->deaf)
            return false;
    }
}

/* What arrived, some of it: whether there may be more. */
static bool take_bytes(struct rl_node *node)
{
    char bytes[READ_SIZE];
    ssize_t got = rl_stream_read(node->fd, bytes, sizeof(bytes));
    if (got == -EAGAIN)
        return false;
    if (got <= 0) {
        node->owner->failed(node->arg, node, fault_of_end(node, RL_FAULT_CLOSED));
        return false;
    }
    rl_resp_feed(node->resp, bytes, (size_t)got);
    return take_replies(node) && (size_t)got == sizeof(bytes);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct rl_node *node = arg;
    (void)fd;
    (void)what;
    node->owner->wake(node->arg);
    for (int i = 0; i < READS_PER_PASS && node->fd >= 0 && !node->deaf; i++)
        if (!take_bytes(node))
            break;
    node->owner->sleep(node->arg);
}
