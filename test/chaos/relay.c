/* clang-format off */
/*
 * The network between clients and servers, which a test breaks: relay
 *
 * A way leads from a port of 127.0.0.1 to the unix socket of a server. Commands come by
 * stdin, one per line, and each is answered by a line, the port or "ok":
 *   way NAME PATH     make a way
 *   to NAME PATH      it leads to another server from now on; connections are reset
 *   stop NAME in|out  nothing passes to the server (in), or from it (out); connections stay
 *   go NAME           both directions pass
 *   cut NAME          reset its connections
 * Ends with stdin.
 */
/* clang-format on */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WAYS_MAX 512
#define ROOM     65536
#define READY    64

struct connection;

/* One socket: what epoll reports. */
struct end {
    struct connection *of; /* NULL: that of a listener, or stdin */
    struct way *way;
    int fd;
    uint32_t events;
};

/* end[0] is the client's. What was read from end[i] waits in buffer[i]. */
struct connection {
    struct end end[2];
    struct connection *next;
    size_t begin[2], len[2];
    bool ended[2], passed_end[2], is_dead;
    char buffer[2][ROOM];
};

struct way {
    char name[32], path[108];
    struct end listener;
    struct connection *first;
    bool is_stopped[2];
};

static struct way way[WAYS_MAX];
static size_t ways;
static int poller;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void watch(struct end *end, uint32_t events, int how)
{
    struct epoll_event event = {.events = events, .data.ptr = end};
    if (epoll_ctl(poller, how, end->fd, &event) < 0)
        fail("epoll_ctl");
    end->events = events;
}

/* --- connections --- */

static void reset(struct connection *connection)
{
    struct linger now = {.l_onoff = 1};
    for (int i = 0; i < 2 && !connection->is_dead; i++) {
        setsockopt(connection->end[i].fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(connection->end[i].fd);
    }
    connection->is_dead = true;
}

/* The dead ones are freed when no event can name them any more. */
static void bury(struct way *from)
{
    for (struct connection **at = &from->first; *at;) {
        struct connection *one = *at;
        if (one->is_dead) {
            *at = one->next;
            free(one);
        } else
            at = &one->next;
    }
}

static void want(struct connection *connection)
{
    for (int i = 0; i < 2; i++) {
        bool reads = connection->len[i] == 0 && !connection->ended[i] &&
                     !connection->end[i].way->is_stopped[i];
        uint32_t events =
            (reads ? EPOLLIN : 0U) | (connection->len[!i] > 0 ? EPOLLOUT : 0U);
        if (events != connection->end[i].events)
            watch(&connection->end[i], events, EPOLL_CTL_MOD);
    }
}

static bool is_only_late(ssize_t done)
{
    return done < 0 && (errno == EAGAIN || errno == EINTR);
}

/* From end[i] to the other one; false: the connection is broken. */
static bool pass(struct connection *connection, int i)
{
    char *buffer = connection->buffer[i];
    if (connection->len[i] == 0 && !connection->ended[i] &&
        !connection->end[i].way->is_stopped[i]) {
        ssize_t got = read(connection->end[i].fd, buffer, ROOM);
        if (got < 0 && !is_only_late(got))
            return false;
        connection->ended[i] = got == 0;
        connection->begin[i] = 0;
        connection->len[i] = got > 0 ? (size_t)got : 0;
    }
    if (connection->len[i] > 0) {
        ssize_t put = send(connection->end[!i].fd, buffer + connection->begin[i],
                           connection->len[i], MSG_NOSIGNAL);
        if (put < 0 && !is_only_late(put))
            return false;
        connection->begin[i] += put > 0 ? (size_t)put : 0;
        connection->len[i] -= put > 0 ? (size_t)put : 0;
    }
    if (connection->ended[i] && connection->len[i] == 0 && !connection->passed_end[i]) {
        connection->passed_end[i] = true;
        shutdown(connection->end[!i].fd, SHUT_WR);
    }
    return !(connection->passed_end[0] && connection->passed_end[1]);
}

/* A client that gave up is seen also where nothing of it passes. */
static void on_socket(struct end *end, uint32_t events)
{
    struct connection *connection = end->of;
    int i = end == &connection->end[1];
    if (connection->is_dead)
        return;
    bool is_broken =
        (events & EPOLLERR) ||
        ((events & EPOLLHUP) &&
         (connection->len[i] > 0 || connection->ended[i] || end->way->is_stopped[i]));
    if (is_broken || !pass(connection, i) || !pass(connection, !i))
        reset(connection);
    else
        want(connection);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void on_client(struct way *to)
{
    int on = 1, fd = accept4(to->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    int server = connect_to(to->path);
    if (server < 0) {
        struct linger now = {.l_onoff = 1};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(fd);
        return;
    }
    struct connection *made = calloc(1, sizeof(*made));
    if (!made)
        fail("calloc");
    made->next = to->first;
    to->first = made;
    for (int i = 0; i < 2; i++) {
        made->end[i] = (struct end){.of = made, .way = to, .fd = i == 0 ? fd : server};
        watch(&made->end[i], 0, EPOLL_CTL_ADD);
    }
    want(made);
}

/* --- commands --- */

static struct way *find(const char *name)
{
    for (size_t i = 0; i < ways; i++)
        if (strcmp(way[i].name, name) == 0)
            return &way[i];
    return NULL;
}

static unsigned make(const char *name, const char *path)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    if (ways == WAYS_MAX)
        fail("too many ways");
    struct way *made = &way[ways++];
    snprintf(made->name, sizeof(made->name), "%s", name);
    snprintf(made->path, sizeof(made->path), "%s", path);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 64) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        fail("listen");
    made->listener = (struct end){.way = made, .fd = fd};
    watch(&made->listener, EPOLLIN, EPOLL_CTL_ADD);
    return ntohs(address.sin_port);
}

static void cut(struct way *of)
{
    for (struct connection *one = of->first; one; one = one->next)
        reset(one);
}

static void refresh(struct way *of)
{
    for (struct connection *one = of->first; one; one = one->next)
        if (!one->is_dead)
            want(one);
}

static void obey(char *line)
{
    char verb[8] = "", name[32] = "", rest[108] = "";
    sscanf(line, "%7s %31s %107s", verb, name, rest);
    if (strcmp(verb, "way") == 0) {
        printf("%u\n", make(name, rest));
        return;
    }
    struct way *of = find(name);
    if (!of)
        fail(line);
    if (strcmp(verb, "to") == 0)
        snprintf(of->path, sizeof(of->path), "%s", rest);
    if (strcmp(verb, "to") == 0 || strcmp(verb, "cut") == 0)
        cut(of);
    if (strcmp(verb, "stop") == 0)
        of->is_stopped[strcmp(rest, "out") == 0] = true;
    if (strcmp(verb, "go") == 0)
        of->is_stopped[0] = of->is_stopped[1] = false;
    refresh(of);
    puts("ok");
}

/* Whole lines arrive: each is one write. */
static void on_stdin(void)
{
    static char text[65536];
    static size_t len;
    ssize_t got = read(STDIN_FILENO, text + len, sizeof(text) - 1 - len);
    if (got <= 0)
        exit(0);
    len += (size_t)got;
    text[len] = '\0';
    char *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        obey(line);
    }
    len = strlen(line);
    memmove(text, line, len + 1);
    fflush(stdout);
}

int main(void)
{
    struct epoll_event ready[READY];
    struct end commands = {.fd = STDIN_FILENO};
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0)
        fail("epoll_create1");
    watch(&commands, EPOLLIN, EPOLL_CTL_ADD);
    for (;;) {
        int count = epoll_wait(poller, ready, READY, -1);
        for (int i = 0; i < count; i++) {
            struct end *end = ready[i].data.ptr;
            if (end->of)
                on_socket(end, ready[i].events);
            else if (end->way)
                on_client(end->way);
            else
                on_stdin();
        }
        for (size_t i = 0; i < ways; i++)
            bury(&way[i]);
    }
}
