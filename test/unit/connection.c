/*
 * The segments of one iteration arrive at each node in order, however much its socket
 * takes.
 */
#include "net/connection.h"
#include "io/stream_parts.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "alloc_faults.h"
#include "lease_fixture.h"
#include "prng.h"

#define NODES     3
#define PASSES    4000
#define TEXT_MAX  6000 /* some fit into a socket many times, some fill it */
#define SOCKET    8192
#define READ_SIZE 4096

struct peer {
    struct rl_connection node;
    struct sockaddr_un at;
    struct rl_uri uri;
    int listener, fd;
    char *expected;
    size_t sent, received, room;
    unsigned owed, connected, failed;
    enum rl_fault fault; /* the last reason why it failed */
};

static struct event_base *base;
static struct rl_resolver resolver;
static struct rl_send_batch batch;
static struct peer peer[NODES];
static char folder[] = "/tmp/node.XXXXXX";

/* libevent's: no further descriptor is watched, as at max_user_watches. */
static bool epoll_is_full;

int epoll_ctl(int poller, int what, int fd, struct epoll_event *event)
{
    if (epoll_is_full && what != EPOLL_CTL_DEL) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, poller, what, fd, event);
}

/* --- the handler --- */

static void nothing(void *arg)
{
    (void)arg;
}

static void on_connected(void *arg)
{
    ((struct peer *)arg)->connected++;
}

static void on_cut(void *arg, const struct rl_op *op)
{
    (void)op;
    ((struct peer *)arg)->owed--;
}

static void on_failed(void *arg, enum rl_fault fault)
{
    ((struct peer *)arg)->failed++;
    ((struct peer *)arg)->fault = fault;
}

static const struct rl_connection_handler owner = {
    .enter = nothing,
    .leave = nothing,
    .connected = on_connected,
    .dropped = on_cut,
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
    struct sockaddr_un *at = &peer[i].at;
    at->sun_family = AF_UNIX;
    sprintf(at->sun_path, "%s/%u", folder, i);
    peer[i].uri.path = at->sun_path;
    peer[i].listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(peer[i].listener, (struct sockaddr *)at, sizeof(*at)), 0);
    cr_assert_eq(listen(peer[i].listener, 1), 0);
    rl_connection_init(&peer[i].node, &resolver, &batch, &peer[i].uri, NULL, &owner,
                       &peer[i]);
    rl_connection_connect(&peer[i].node);
    while (!peer[i].connected)
        event_base_loop(base, EVLOOP_ONCE);
    peer[i].fd = accept4(peer[i].listener, NULL, NULL, SOCK_NONBLOCK);
    cr_assert_geq(peer[i].fd, 0);
    set_small(peer[i].node.stream->file.fd, SO_SNDBUF);
    unlink(at->sun_path);
}

static void expect(struct peer *to, const char *text, size_t len)
{
    if (to->sent + len > to->room) {
        to->room = 2 * (to->sent + len);
        to->expected = realloc(to->expected, to->room);
    }
    memcpy(to->expected + to->sent, text, len);
    to->sent += len;
    to->owed++;
}

/* Returns whether there was something to read. */
static bool read_some(struct peer *from)
{
    char bytes[READ_SIZE];
    ssize_t got = read(from->fd, bytes, sizeof(bytes));
    if (got <= 0) {
        cr_assert(got < 0 && errno == EAGAIN);
        return false;
    }
    CHECK(from->received + (size_t)got <= from->sent, "more than was sent");
    CHECK(memcmp(bytes, from->expected + from->received, (size_t)got) == 0,
          "after %zu bytes", from->received);
    from->received += (size_t)got;
    if (from->received == from->sent)
        from->received = from->sent = 0;
    return true;
}

/* --- the iterations --- */

static void send_something(struct prng *prng)
{
    static char text[TEXT_MAX];
    size_t most = prng_below(prng, 8) == 0 ? TEXT_MAX : 100;
    size_t len = 1 + prng_below(prng, (unsigned)most);
    rl_node_set nodes = prng_below(prng, 4) ? rl_all(NODES) : prng_below(prng, 8);
    struct rl_op op = {.sent = 1};
    struct rl_segment segment;
    for (size_t i = 0; i < len; i++)
        text[i] = (char)prng_bits(prng);
    cr_assert(rl_send_batch_add(&batch, text, len, &segment));
    for (rl_node_set rest = nodes; rest; rest &= rest - 1) {
        struct peer *to = &peer[rl_first(rest)];
        cr_assert(rl_connection_send(&to->node, &op, segment));
        expect(to, text, len);
    }
}

static void flush(unsigned i)
{
    cr_assert_eq(rl_connection_flush(&peer[i].node), RL_FAULT_NONE);
}

/* Returns how many nodes had to keep bytes for later. */
static unsigned pass(struct prng *prng)
{
    unsigned kept = 0;
    for (unsigned count = prng_below(prng, 12); count > 0; count--) {
        send_something(prng);
        if (prng_below(prng, 16) == 0)
            flush(prng_below(prng, NODES));
    }
    for (unsigned i = 0; i < NODES; i++) {
        flush(i);
        kept += peer[i].node.kept_at < peer[i].node.kept.len;
    }
    rl_send_batch_clear(&batch);
    for (unsigned count = prng_below(prng, 6); count > 0; count--)
        read_some(&peer[prng_below(prng, NODES)]);
    event_base_loop(base, EVLOOP_NONBLOCK);
    return kept;
}

static void read_the_rest(struct peer *from)
{
    while (from->received < from->sent)
        if (!read_some(from))
            event_base_loop(base, EVLOOP_ONCE);
}

static void end_peer(struct peer *it)
{
    cr_assert_eq(it->failed, 0);
    cr_assert_eq(it->node.op_count, it->owed);
    rl_connection_abort(&it->node);
    cr_assert_eq(it->owed, 0);
    rl_connection_clear(&it->node, false);
    close(it->fd);
    close(it->listener);
    free(it->expected);
}

Test(connection, sends_everything_in_order)
{
    struct prng prng = {11};
    unsigned kept = 0;
    base = event_base_new();
    resolver.base = base;
    cr_assert(mkdtemp(folder));
    for (unsigned i = 0; i < NODES; i++)
        connect_peer(i);
    for (unsigned i = 0; i < PASSES; i++)
        kept += pass(&prng);
    cr_assert_gt(kept, PASSES / 10, "the sockets took all");
    cr_assert_lt(kept, NODES * PASSES / 2, "they took little");
    for (unsigned i = 0; i < NODES; i++)
        read_the_rest(&peer[i]);
    for (unsigned i = 0; i < NODES; i++)
        end_peer(&peer[i]);
    rl_send_batch_free(&batch);
    event_base_free(base);
    rmdir(folder);
}

/* With one peer. */
static struct rl_connection *begin_alone(void)
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
    rl_send_batch_free(&batch);
    event_base_free(base);
    rmdir(folder);
}

/* Queues more than its socket takes. */
static void send_burst(struct rl_connection *node)
{
    static char burst[1 << 20];
    struct rl_segment segment;
    cr_assert(rl_send_batch_add(&batch, burst, sizeof(burst), &segment));
    cr_assert(rl_connection_send(node, &(struct rl_op){.sent = 1}, segment));
    peer[0].owed++;
}

Test(connection, unsent_bytes_that_epoll_does_not_wait_for_are_no_lack_of_memory)
{
    struct rl_connection *node = begin_alone();
    send_burst(node);
    epoll_is_full = true;
    cr_assert_eq(rl_connection_flush(node), RL_FAULT_CLOSED);
    epoll_is_full = false;
    cr_assert_str_eq(rl_words_text(&node->words, RL_FAULT_CLOSED),
                     "the connection was closed: No space left on device");
    end_alone();
}

Test(connection, out_of_memory_for_unsent_bytes_is_reported)
{
    struct rl_connection *node = begin_alone();
    send_burst(node);
    alloc_faults_begin(0, 1);
    alloc_faults_enter();
    enum rl_fault fault = rl_connection_flush(node);
    alloc_faults_leave();
    cr_assert(alloc_faults_end());
    cr_assert_eq(fault, RL_FAULT_MEMORY);
    cr_assert_eq(rl_connection_flush(node), RL_FAULT_NONE, "it can be tried again");
    end_alone();
}

Test(connection, queues_nothing_without_memory_for_the_earlier_segment)
{
    struct rl_connection *node = begin_alone();
    struct rl_segment first, others, second;
    cr_assert(rl_send_batch_add(&batch, "first ", 6, &first));
    cr_assert(rl_send_batch_add(&batch, "of others ", 10, &others));
    cr_assert(rl_send_batch_add(&batch, "second", 6, &second));
    cr_assert(rl_connection_send(node, &(struct rl_op){.sent = 1}, first));
    alloc_faults_begin(0, 1);
    alloc_faults_enter();
    bool sent = rl_connection_send(node, &(struct rl_op){.sent = 1}, second);
    alloc_faults_leave();
    cr_assert(alloc_faults_end());
    cr_assert_not(sent);
    cr_assert(rl_connection_send(node, &(struct rl_op){.sent = 1}, second));
    expect(&peer[0], "first ", 6);
    expect(&peer[0], "second", 6);
    flush(0);
    read_the_rest(&peer[0]);
    end_alone();
}

/* The server closed before anything was written: its last reply is still unread. */
static enum rl_fault fault_of_refusal(const char *says, bool greets)
{
    static const struct rl_credentials who = {.marker_key = {"!marker", 7}};
    struct rl_connection *node = begin_alone();
    struct rl_segment segment;
    cr_assert_eq(write(peer[0].fd, says, strlen(says)), (ssize_t)strlen(says));
    cr_assert_eq(shutdown(peer[0].fd, SHUT_RDWR), 0);
    if (greets) {
        cr_assert(rl_connection_greet(node, &who));
    } else {
        cr_assert(rl_send_batch_add(&batch, "PING", 4, &segment));
        cr_assert(rl_connection_send(node, &(struct rl_op){.sent = 1}, segment));
        peer[0].owed++;
    }
    enum rl_fault fault = rl_connection_flush(node);
    end_alone();
    return fault;
}

Test(connection, reports_what_the_server_sent_before_it_closed)
{
    cr_assert_eq(fault_of_refusal("-ERR max number of clients reached\r\n", true),
                 RL_FAULT_MAXCLIENTS);
}

Test(connection, reports_a_server_that_closed_without_a_reply)
{
    cr_assert_eq(fault_of_refusal("", true), RL_FAULT_CLOSED);
}

/* The reset arrives before the client has noticed that it is connected. */
Test(connection, reports_what_the_server_sent_before_a_reset)
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
    char host[] = "127.0.0.1";
    struct rl_uri uri = {.host = host, .port = ntohs(at.sin_port)};
    rl_connection_init(&peer[0].node, &resolver, &batch, &uri, NULL, &owner, &peer[0]);
    rl_connection_connect(&peer[0].node);
    int fd = accept(listener, NULL, NULL);
    cr_assert_eq(send(fd, says, strlen(says), 0), (ssize_t)strlen(says));
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close(fd);
    while (!peer[0].failed && !peer[0].connected)
        event_base_loop(base, EVLOOP_ONCE);
    cr_assert_eq(peer[0].failed, 1);
    cr_assert_eq(peer[0].fault, RL_FAULT_PROTECTED);
    rl_connection_abort(&peer[0].node);
    rl_connection_clear(&peer[0].node, false);
    close(listener);
    event_base_free(base);
}

/* The reply to a command does not explain why the connection ended later. */
Test(connection, reports_no_server_fault_after_the_greeting)
{
    cr_assert_eq(fault_of_refusal("-ERR no such command\r\n", false), RL_FAULT_CLOSED);
}

Test(batch, argv_offsets_point_to_the_arguments)
{
    static const struct rl_word word[] = {{"INFO", 4}, {"", 0}, {"0123456789", 10}};
    static const char expected[] = "*3\r\n$4\r\nINFO\r\n$0\r\n\r\n$10\r\n0123456789\r\n";
    struct rl_segment before, segment;
    cr_assert(rl_send_batch_add(&batch, "before", 6, &before));
    cr_assert(rl_send_batch_add_argv(&batch, word, 3, &segment));
    cr_assert_eq(segment.at, before.end);
    cr_assert_eq(segment.end - segment.at, sizeof(expected) - 1);
    cr_assert_eq(segment.end, batch.len);
    cr_assert_arr_eq(batch.bytes + segment.at, expected, sizeof(expected) - 1);
    for (size_t i = 0; i < 3; i++)
        cr_assert_arr_eq(batch.bytes + segment.at + rl_resp_at(word, 3, i), word[i].text,
                         word[i].len);
    rl_send_batch_free(&batch);
}

Test(batch, releases_the_memory_of_a_burst)
{
    static char burst[RL_SEND_BATCH_KEPT + 1];
    struct rl_segment segment;
    cr_assert(rl_send_batch_add(&batch, burst, 100, &segment));
    rl_send_batch_clear(&batch);
    cr_assert_eq(batch.len, 0);
    cr_assert(batch.bytes, "a little is kept");
    cr_assert(rl_send_batch_add(&batch, burst, sizeof(burst), &segment));
    rl_send_batch_clear(&batch);
    cr_assert(!batch.bytes);
}
