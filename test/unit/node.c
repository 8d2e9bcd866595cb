/* What is said to some nodes in a pass arrives at each in order, whatever a socket takes.
 */
#include "net/node.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "chance.h"
#include "desk.h"
#include "scarce.h"

#define NODES     3
#define PASSES    4000
#define TEXT_MAX  6000 /* some fit into a socket many times, some fill it */
#define SOCKET    8192
#define READ_SIZE 4096

struct peer {
    struct rl_node node;
    int listener, fd;
    char *expected;
    size_t told, heard, room;
    unsigned owed, connected, failed;
    enum rl_fault fault; /* it failed by, the last time */
};

static struct event_base *base;
static struct rl_resolver resolver;
static struct rl_post post;
static struct peer peer[NODES];
static char folder[] = "/tmp/node.XXXXXX";

/* --- the owner --- */

static void nothing(void *arg)
{
    (void)arg;
}

static void on_connected(void *arg, struct rl_node *node)
{
    (void)node;
    ((struct peer *)arg)->connected++;
}

static void on_cut(void *arg, struct rl_node *node, const struct rl_op *op)
{
    (void)node;
    (void)op;
    ((struct peer *)arg)->owed--;
}

static void on_failed(void *arg, struct rl_node *node, enum rl_fault fault)
{
    (void)node;
    ((struct peer *)arg)->failed++;
    ((struct peer *)arg)->fault = fault;
}

static const struct rl_node_owner owner = {
    .wake = nothing,
    .sleep = nothing,
    .connected = on_connected,
    .cut = on_cut,
    .failed = on_failed,
};

/* --- peers --- */

static void set_small(int fd, int option)
{
    int size = SOCKET;
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, option, &size, sizeof(size)), 0);
}

static void connect_peer(unsigned i)
{
    struct rl_uri uri = {.path = malloc(sizeof(folder) + 16)};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    sprintf(uri.path, "%s/%u", folder, i);
    strcpy(at.sun_path, uri.path);
    peer[i].listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(peer[i].listener, (struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(listen(peer[i].listener, 1), 0);
    rl_node_init(&peer[i].node, base, &resolver, &post, &uri, &owner, &peer[i]);
    rl_node_connect(&peer[i].node);
    while (!peer[i].connected)
        event_base_loop(base, EVLOOP_ONCE);
    peer[i].fd = accept4(peer[i].listener, NULL, NULL, SOCK_NONBLOCK);
    cr_assert_geq(peer[i].fd, 0);
    set_small(peer[i].node.fd, SO_SNDBUF);
    unlink(at.sun_path);
}

static void expect(struct peer *to, const char *text, size_t len)
{
    if (to->told + len > to->room) {
        to->room = 2 * (to->told + len);
        to->expected = realloc(to->expected, to->room);
    }
    memcpy(to->expected + to->told, text, len);
    to->told += len;
    to->owed++;
}

/* Whether there was something. */
static bool hear_some(struct peer *from)
{
    char bytes[READ_SIZE];
    ssize_t got = read(from->fd, bytes, sizeof(bytes));
    if (got <= 0) {
        cr_assert(got < 0 && errno == EAGAIN);
        return false;
    }
    CHECK(from->heard + (size_t)got <= from->told, "more than was said");
    CHECK(memcmp(bytes, from->expected + from->heard, (size_t)got) == 0, "after %zu bytes",
          from->heard);
    from->heard += (size_t)got;
    if (from->heard == from->told)
        from->heard = from->told = 0;
    return true;
}

/* --- the passes --- */

static void say_something(struct chance *chance)
{
    static char text[TEXT_MAX];
    size_t most = chance_below(chance, 8) == 0 ? TEXT_MAX : 100;
    size_t len = 1 + chance_below(chance, (unsigned)most);
    rl_nodes nodes = chance_below(chance, 4) ? rl_all(NODES) : chance_below(chance, 8);
    struct rl_op op = {.sent = 1};
    struct rl_part part;
    for (size_t i = 0; i < len; i++)
        text[i] = (char)chance_bits(chance);
    cr_assert(rl_post_add(&post, text, len, &part));
    for (rl_nodes rest = nodes; rest; rest &= rest - 1) {
        struct peer *to = &peer[rl_first(rest)];
        cr_assert(rl_node_send(&to->node, &op, part));
        expect(to, text, len);
    }
}

static void flush(unsigned i)
{
    cr_assert_eq(rl_node_flush(&peer[i].node), RL_FAULT_NONE);
}

/* Returns how many nodes had to keep something for later. */
static unsigned pass(struct chance *chance)
{
    unsigned kept = 0;
    for (unsigned count = chance_below(chance, 12); count > 0; count--) {
        say_something(chance);
        if (chance_below(chance, 16) == 0)
            flush(chance_below(chance, NODES));
    }
    for (unsigned i = 0; i < NODES; i++) {
        flush(i);
        kept += peer[i].node.kept_at < peer[i].node.kept.len;
    }
    rl_post_empty(&post);
    for (unsigned count = chance_below(chance, 6); count > 0; count--)
        hear_some(&peer[chance_below(chance, NODES)]);
    event_base_loop(base, EVLOOP_NONBLOCK);
    return kept;
}

static void hear_the_rest(struct peer *from)
{
    while (from->heard < from->told)
        if (!hear_some(from))
            event_base_loop(base, EVLOOP_ONCE);
}

static void end_peer(struct peer *it)
{
    cr_assert_eq(it->failed, 0);
    cr_assert_eq(it->node.op_count, it->owed);
    rl_node_abort(&it->node);
    cr_assert_eq(it->owed, 0);
    rl_node_clear(&it->node);
    close(it->fd);
    close(it->listener);
    free(it->expected);
}

Test(node, is_told_all_in_order)
{
    struct chance chance = {11};
    unsigned kept = 0;
    base = event_base_new();
    resolver.base = base;
    cr_assert(mkdtemp(folder));
    for (unsigned i = 0; i < NODES; i++)
        connect_peer(i);
    for (unsigned i = 0; i < PASSES; i++)
        kept += pass(&chance);
    cr_assert_gt(kept, PASSES / 10, "the sockets took all");
    cr_assert_lt(kept, NODES * PASSES / 2, "they took little");
    for (unsigned i = 0; i < NODES; i++)
        hear_the_rest(&peer[i]);
    for (unsigned i = 0; i < NODES; i++)
        end_peer(&peer[i]);
    rl_post_free(&post);
    event_base_free(base);
    rmdir(folder);
}

/* With one peer. */
static struct rl_node *begin_alone(void)
{
    base = event_base_new();
    resolver.base = base;
    cr_assert(mkdtemp(folder));
    connect_peer(0);
    return &peer[0].node;
}

static void end_alone(void)
{
    end_peer(&peer[0]);
    rl_post_free(&post);
    event_base_free(base);
    rmdir(folder);
}

Test(node, that_cannot_keep_what_its_socket_does_not_take_says_why)
{
    static char burst[1 << 20];
    struct rl_node *node = begin_alone();
    struct rl_part part;
    cr_assert(rl_post_add(&post, burst, sizeof(burst), &part));
    cr_assert(rl_node_send(node, &(struct rl_op){.sent = 1}, part));
    peer[0].owed++;
    scarce_begin(0, 1);
    scarce_enter();
    enum rl_fault fault = rl_node_flush(node);
    scarce_leave();
    cr_assert(scarce_end());
    cr_assert_eq(fault, RL_FAULT_MEMORY);
    cr_assert_eq(rl_node_flush(node), RL_FAULT_NONE, "it can be tried again");
    end_alone();
}

Test(node, queues_nothing_where_there_is_no_memory_for_the_part_before)
{
    struct rl_node *node = begin_alone();
    struct rl_part first, others, second;
    cr_assert(rl_post_add(&post, "first ", 6, &first));
    cr_assert(rl_post_add(&post, "of others ", 10, &others));
    cr_assert(rl_post_add(&post, "second", 6, &second));
    cr_assert(rl_node_send(node, &(struct rl_op){.sent = 1}, first));
    scarce_begin(0, 1);
    scarce_enter();
    bool sent = rl_node_send(node, &(struct rl_op){.sent = 1}, second);
    scarce_leave();
    cr_assert(scarce_end());
    cr_assert_not(sent);
    cr_assert(rl_node_send(node, &(struct rl_op){.sent = 1}, second));
    expect(&peer[0], "first ", 6);
    expect(&peer[0], "second", 6);
    flush(0);
    hear_the_rest(&peer[0]);
    end_alone();
}

/* The server hung up before anything could be written: what it said lies unread. */
static enum rl_fault fault_of_refusal(const char *says, bool greets)
{
    static const struct rl_credentials who = {.marker_key = {"!marker", 7}};
    struct rl_node *node = begin_alone();
    struct rl_part part;
    cr_assert_eq(write(peer[0].fd, says, strlen(says)), (ssize_t)strlen(says));
    cr_assert_eq(shutdown(peer[0].fd, SHUT_RDWR), 0);
    if (greets) {
        cr_assert(rl_node_greet(node, &who));
    } else {
        cr_assert(rl_post_add(&post, "PING", 4, &part));
        cr_assert(rl_node_send(node, &(struct rl_op){.sent = 1}, part));
        peer[0].owed++;
    }
    enum rl_fault fault = rl_node_flush(node);
    end_alone();
    return fault;
}

Test(node, tells_what_the_server_said_before_it_hung_up)
{
    cr_assert_eq(fault_of_refusal("-ERR max number of clients reached\r\n", true),
                 RL_FAULT_MAXCLIENTS);
}

Test(node, tells_that_the_server_hung_up_without_a_word)
{
    cr_assert_eq(fault_of_refusal("", true), RL_FAULT_CLOSED);
}

/* The reset is there before the node has noticed that it is connected. */
Test(node, tells_what_the_server_said_before_it_reset_the_connection)
{
    static const char says[] = "-DENIED Redis is running in protected mode\r\n";
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    base = event_base_new();
    resolver.base = base;
    cr_assert_eq(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    struct rl_uri uri = {.host = strdup("127.0.0.1"), .port = ntohs(at.sin_port)};
    rl_node_init(&peer[0].node, base, &resolver, &post, &uri, &owner, &peer[0]);
    rl_node_connect(&peer[0].node);
    int fd = accept(listener, NULL, NULL);
    cr_assert_eq(send(fd, says, strlen(says), 0), (ssize_t)strlen(says));
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close(fd);
    while (!peer[0].failed && !peer[0].connected)
        event_base_loop(base, EVLOOP_ONCE);
    cr_assert_eq(peer[0].failed, 1);
    cr_assert_eq(peer[0].fault, RL_FAULT_PROTECTED);
    rl_node_abort(&peer[0].node);
    rl_node_clear(&peer[0].node);
    close(listener);
    event_base_free(base);
}

/* The answer to a command is none to why the connection ended later. */
Test(node, tells_no_reason_once_it_was_greeted)
{
    cr_assert_eq(fault_of_refusal("-ERR no such command\r\n", false), RL_FAULT_CLOSED);
}

Test(post, has_words_where_they_are_said_to_be)
{
    static const struct rl_word word[] = {{"INFO", 4}, {"", 0}, {"0123456789", 10}};
    static const char expected[] = "*3\r\n$4\r\nINFO\r\n$0\r\n\r\n$10\r\n0123456789\r\n";
    struct rl_part before, part;
    cr_assert(rl_post_add(&post, "before", 6, &before));
    cr_assert(rl_post_words(&post, word, 3, &part));
    cr_assert_eq(part.at, before.end);
    cr_assert_eq(part.end - part.at, sizeof(expected) - 1);
    cr_assert_eq(part.end, post.len);
    cr_assert_arr_eq(post.bytes + part.at, expected, sizeof(expected) - 1);
    for (size_t i = 0; i < 3; i++)
        cr_assert_arr_eq(post.bytes + part.at + rl_resp_at(word, 3, i), word[i].text,
                         word[i].len);
    rl_post_free(&post);
}

Test(post, gives_back_what_a_burst_took)
{
    static char burst[RL_POST_KEPT + 1];
    struct rl_part part;
    cr_assert(rl_post_add(&post, burst, 100, &part));
    rl_post_empty(&post);
    cr_assert_eq(post.len, 0);
    cr_assert(post.bytes, "a little is kept");
    cr_assert(rl_post_add(&post, burst, sizeof(burst), &part));
    rl_post_empty(&post);
    cr_assert(!post.bytes);
}
