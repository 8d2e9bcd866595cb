#include "fake.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLOOD (1024 * 1024)

struct fake_connection {
    struct fake *fake;
    struct fake_connection *older;
    struct bufferevent *stream; /* NULL: the connection has ended */
    struct event *drip;         /* sends the next byte of the buffered replies */
    struct evbuffer *kept;
};

/* --- sending --- */

static void end_connection(struct fake_connection *connection, int reset)
{
    if (!connection->stream)
        return;
    struct linger now = {.l_onoff = reset, .l_linger = 0};
    evutil_socket_t fd = bufferevent_getfd(connection->stream);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    bufferevent_free(connection->stream);
    connection->stream = NULL;
}

static void on_drip(evutil_socket_t fd, short what, void *arg)
{
    struct fake_connection *connection = arg;
    struct timeval soon = {.tv_usec = 200};
    char byte;
    (void)fd;
    (void)what;
    if (!connection->stream || evbuffer_remove(connection->kept, &byte, 1) != 1)
        return;
    bufferevent_write(connection->stream, &byte, 1);
    event_add(connection->drip, &soon);
}

/* The bytes before a reset must be sent before the socket is closed. */
static void send_now(struct fake_connection *connection, const char *text)
{
    size_t len = strlen(text);
    cr_assert_eq(send(bufferevent_getfd(connection->stream), text, len, MSG_NOSIGNAL),
                 (ssize_t)len);
}

static void send_text(struct fake_connection *connection, const char *text,
                      enum fake_way way)
{
    size_t len = strlen(text);
    if (evbuffer_get_length(connection->kept) > 0 && way == FAKE_SEND)
        way = FAKE_BYTEWISE; /* in order */
    switch (way) {
    case FAKE_SEND:
    case FAKE_FOREVER: bufferevent_write(connection->stream, text, len); break;
    case FAKE_BYTEWISE:
        evbuffer_add(connection->kept, text, len);
        if (!event_pending(connection->drip, EV_TIMEOUT, NULL))
            on_drip(-1, 0, connection);
        break;
    case FAKE_FLOOD:
        bufferevent_write(connection->stream, text, len);
        for (size_t sent = 0; sent < FLOOD; sent += 4)
            bufferevent_write(connection->stream, text + len - 4, 4);
        break;
    case FAKE_RESET:
    case FAKE_CLOSE:
        send_now(connection, text);
        end_connection(connection, way == FAKE_RESET);
        break;
    }
}

/* --- the replies of a master --- */

static const char *info_of(const char *section)
{
    if (strcasecmp(section, "server") == 0)
        return "$82\r\n"
               "# Server\r\nredis_mode:standalone\r\n"
               "run_id:000000000000000000000000000000000000fa4e\r\n\r\n";
    if (strcasecmp(section, "replication") == 0)
        return "$13\r\nrole:master\r\n\r\n";
    if (strcasecmp(section, "cluster") == 0)
        return "$19\r\ncluster_enabled:0\r\n\r\n";
    return "$11\r\nloading:0\r\n\r\n";
}

static const char *good_answer(const char *name, const char *argument)
{
    if (strcasecmp(name, "INFO") == 0)
        return info_of(argument);
    if (strcasecmp(name, "GETRANGE") == 0) /* of no marker */
        return "$0\r\n\r\n";
    if (strncasecmp(name, "EVAL", 4) == 0)
        return ":1\r\n";
    return "+OK\r\n";
}

/* --- receiving --- */

#define WORD 32

/*
 * Parses one whole command and its first two arguments, truncated; 0: no whole command yet.
 */
static size_t parse(const char *bytes, size_t len, char word[2][WORD])
{
    char *end;
    const char *at = bytes, *stop = bytes + len;
    if (!memchr(at, '\n', len) || *at != '*')
        return 0;
    long count = strtol(at + 1, &end, 10);
    at = end + 2;
    for (long i = 0; i < count; i++) {
        if (at >= stop || !memchr(at, '\n', (size_t)(stop - at)))
            return 0;
        long size = strtol(at + 1, &end, 10);
        at = end + 2;
        if (stop - at < size + 2)
            return 0;
        if (i < 2)
            snprintf(word[i], WORD, "%.*s", (int)size, at);
        at += size + 2;
    }
    return (size_t)(at - bytes);
}

#define GREETING_SCRIPT "return 1"

static bool is_greeting_script(char word[2][WORD])
{
    return strcasecmp(word[0], "EVAL") == 0 && strcmp(word[1], GREETING_SCRIPT) == 0;
}

static void count(struct fake *fake, char word[2][WORD])
{
    const char *name = word[0];
    static const char *const greeting[] = {"INFO", "AUTH", "SELECT", "GETRANGE", "CLIENT"};
    for (size_t i = 0; i < sizeof(greeting) / sizeof(greeting[0]); i++)
        if (strcasecmp(name, greeting[i]) == 0)
            return;
    if (is_greeting_script(word))
        return;
    fake->commands++;
    fake->scripts += strncasecmp(name, "EVAL", 4) == 0;
}

static void answer(struct fake_connection *connection, char word[2][WORD])
{
    struct fake *fake = connection->fake;
    const struct fake_line *line = fake->line;
    char command[2 * WORD];
    snprintf(command, sizeof(command), "%s %s", word[0], word[1]);
    count(fake, word);
    /* A line for scripts is not for that of the greeting, unless it names it. */
    bool is_meant = line->expect &&
                    (!is_greeting_script(word) || strstr(line->expect, GREETING_SCRIPT));
    if (!is_meant || strncasecmp(line->expect, command, strlen(line->expect)) != 0) {
        send_text(connection, good_answer(word[0], word[1]), FAKE_SEND);
        return;
    }
    if (line->way != FAKE_FOREVER)
        fake->line++;
    if (line->send)
        send_text(connection, line->send, line->way);
}

static void on_read(struct bufferevent *stream, void *arg)
{
    struct fake_connection *connection = arg;
    struct evbuffer *input = bufferevent_get_input(stream);
    while (connection->stream && evbuffer_get_length(input) > 0) {
        char word[2][WORD] = {"", ""};
        size_t len = evbuffer_get_length(input);
        size_t used = parse((const char *)evbuffer_pullup(input, -1), len, word);
        if (used == 0)
            return;
        evbuffer_drain(input, used);
        answer(connection, word);
    }
}

static void on_end(struct bufferevent *stream, short what, void *arg)
{
    (void)stream;
    (void)what;
    end_connection(arg, 0);
}

static void on_connection(struct evconnlistener *listener, evutil_socket_t fd,
                          struct sockaddr *addr, int len, void *arg)
{
    struct fake *fake = arg;
    struct fake_connection *connection = calloc(1, sizeof(*connection));
    (void)listener;
    (void)addr;
    (void)len;
    cr_assert_not_null(connection);
    *connection = (struct fake_connection){
        .fake = fake,
        .older = fake->connection,
        .stream = bufferevent_socket_new(fake->base, fd, BEV_OPT_CLOSE_ON_FREE),
        .drip = evtimer_new(fake->base, on_drip, connection),
        .kept = evbuffer_new(),
    };
    fake->connection = connection;
    fake->connections++;
    bufferevent_setcb(connection->stream, on_read, NULL, on_end, connection);
    bufferevent_enable(connection->stream, EV_READ | EV_WRITE);
    if (fake->refusal)
        send_text(connection, fake->refusal, fake->refusal_way);
}

void fake_open(struct fake *fake, struct event_base *base, const struct fake_line *script)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    *fake = (struct fake){.base = base, .line = script};
    fake->listener = evconnlistener_new_bind(base, on_connection, fake,
                                             LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
                                             -1, (struct sockaddr *)&addr, sizeof(addr));
    cr_assert_not_null(fake->listener);
    getsockname(evconnlistener_get_fd(fake->listener), (struct sockaddr *)&addr, &len);
    snprintf(fake->uri, sizeof(fake->uri), "redis://127.0.0.1:%d", ntohs(addr.sin_port));
}

void fake_close(struct fake *fake)
{
    evconnlistener_free(fake->listener);
    while (fake->connection) {
        struct fake_connection *connection = fake->connection;
        fake->connection = connection->older;
        end_connection(connection, 0);
        event_free(connection->drip);
        evbuffer_free(connection->kept);
        free(connection);
    }
}
