/*
 * A connection that is freed: everything that was written still arrives, although the
 * server reads slowly and replies are unread. Unread input turns the close of a TCP socket
 * into a reset, and the kernel then drops what it has not delivered yet.
 */
#include "io/stream_parts.h"
#include "net/connection.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <event2/event.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SMALL   2048  /* bytes that the server's socket takes */
#define LARGE   65536 /* and ours */
#define WRITTEN 12000

static bool connected;

static void nothing(void *arg)
{
    (void)arg;
}

static void on_connected(void *arg)
{
    (void)arg;
    connected = true;
}

static const struct rl_connection_handler owner = {
    .enter = nothing,
    .leave = nothing,
    .connected = on_connected,
};

static void set_room(int fd, int option, int bytes)
{
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof(bytes)), 0);
}

static int listen_anywhere(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    set_room(fd, SO_RCVBUF, SMALL);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, len), 0);
    cr_assert_eq(listen(fd, 1), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static int bytes_of(int fd, unsigned long request)
{
    int bytes = 0;
    cr_assert_eq(ioctl(fd, request, &bytes), 0);
    return bytes;
}

/* How many bytes arrive; -1: the connection was reset. */
static ssize_t read_to_the_end(int fd)
{
    char bytes[1024];
    ssize_t got, all = 0;
    while ((got = read(fd, bytes, sizeof(bytes))) > 0)
        all += got;
    return got < 0 ? -1 : all;
}

Test(connection_close, delivers_what_was_written_although_input_is_unread)
{
    static char text[WRITTEN];
    struct event_base *base = event_base_new();
    struct rl_resolver resolver = {.base = base};
    struct rl_send_batch batch = {0};
    char host[] = "127.0.0.1";
    struct rl_uri uri = {.host = host};
    struct rl_connection node;
    struct rl_segment segment;
    int listener = listen_anywhere(&uri.port);
    rl_connection_init(&node, &resolver, &batch, &uri, NULL, &owner, NULL);
    rl_connection_connect(&node);
    while (!connected)
        event_base_loop(base, EVLOOP_ONCE);
    int server = accept(listener, NULL, NULL);
    cr_assert_geq(server, 0);
    set_room(node.stream->file.fd, SO_SNDBUF, LARGE);
    cr_assert(rl_send_batch_add(&batch, text, sizeof(text), &segment));
    cr_assert(rl_connection_send(&node, &(struct rl_op){.sent = 1}, segment));
    cr_assert_eq(rl_connection_flush(&node), RL_FAULT_NONE);
    cr_assert_eq(node.kept.len, 0, "the kernel has taken everything");
    cr_assert_gt(bytes_of(node.stream->file.fd, SIOCOUTQ), 0,
                 "and part of it is not delivered yet");
    cr_assert_eq(write(server, "+OK\r\n", 5), 5);
    while (bytes_of(node.stream->file.fd, SIOCINQ) < 5)
        usleep(1000);
    rl_connection_clear(&node, false);
    cr_assert_eq(read_to_the_end(server), WRITTEN);
    close(server);
    close(listener);
    rl_send_batch_free(&batch);
    event_base_free(base);
}
