#include "listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX      "unix:"
#define UNIX_MODE 0177 /* of umask(2): only the user may connect */
#define BACKLOG   64

_Noreturn static void fail(const char *where, const char *why)
{
    cli_fail(CLI_CONFIG, "monitor: --listen %s: %s", where, why);
}

/* --- accepting --- */

/*
 * Without file descriptors the socket stays readable: to accept again at once would spin.
 * The owner of the listener enables it again.
 */
static void not_accepted(struct evconnlistener *of_loop, void *arg)
{
    (void)arg;
    evconnlistener_disable(of_loop);
}

static void bind_to(struct listener *listener, const struct cli *cli, const char *where,
                    const struct sockaddr *address, socklen_t len)
{
    unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE |
                     LEV_OPT_DISABLED;
    listener->of_loop =
        evconnlistener_new_bind(cli->base, NULL, NULL, flags, BACKLOG, address, (int)len);
    if (!listener->of_loop)
        fail(where, strerror(errno));
    evconnlistener_set_error_cb(listener->of_loop, not_accepted);
}

/* --- a unix socket --- */

static bool is_in_use(const char *where, const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        fail(where, strerror(errno));
    int error =
        connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : errno;
    close(fd);
    if (error != 0 && error != ECONNREFUSED && error != EAGAIN)
        fail(where, strerror(error));
    return error != ECONNREFUSED; /* EAGAIN: its queue is full */
}

/* Removes the socket of a process that has ended, and nothing else. */
static void remove_old(const char *where, const struct sockaddr_un *address)
{
    struct stat found;
    if (lstat(address->sun_path, &found) != 0)
        return;
    if (!S_ISSOCK(found.st_mode))
        fail(where, "the file exists, and is no socket");
    if (is_in_use(where, address))
        fail(where, "another process uses it");
    if (unlink(address->sun_path) != 0)
        fail(where, strerror(errno));
}

static void begin_unix(struct listener *listener, const struct cli *cli, const char *where)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = where + strlen(UNIX);
    if (!path[0] || strlen(path) >= sizeof(address.sun_path))
        fail(where, "the path is empty or too long");
    strcpy(address.sun_path, path);
    remove_old(where, &address);
    mode_t mask = umask(UNIX_MODE);
    bind_to(listener, cli, where, (struct sockaddr *)&address, sizeof(address));
    umask(mask);
    listener->path = lstat(path, &listener->made) == 0 ? path : NULL;
    listener->place = cli_format("%s", where);
}

/* --- an address --- */

/*
 * Cuts "127.0.0.1:9121" or "[::1]:9121" in two. A name may have several addresses, of which
 * only one would be bound.
 */
static struct addrinfo *read_address(const char *where)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    char *host = cli_format("%s", where), *begin = host;
    char *colon = strrchr(host, ':');
    if (!colon || colon == host || !colon[1])
        fail(where, "ADDRESS:PORT or unix:PATH is needed");
    *colon = '\0';
    if (host[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        begin++;
    }
    if (strspn(colon + 1, "0123456789") != strlen(colon + 1) || strlen(colon + 1) > 5 ||
        atol(colon + 1) > UINT16_MAX)
        fail(where, "the port is a number up to 65535");
    if (getaddrinfo(begin, colon + 1, &wanted, &found) != 0)
        fail(where, "no address, such as 127.0.0.1 or [::1]; a name is not looked up");
    free(host);
    return found;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in of_4;
        memcpy(&of_4, address, sizeof(of_4));
        return ntohl(of_4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    struct sockaddr_in6 of_6;
    memcpy(&of_6, address, sizeof(of_6));
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&of_6.sin6_addr);
}

/* The kernel may have chosen the port. */
static char *place_of(evutil_socket_t fd)
{
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof(own);
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(fd, (struct sockaddr *)&own, &len) != 0 ||
        getnameinfo((struct sockaddr *)&own, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        cli_fail(CLI_FAILED, "monitor: --listen: %s", strerror(errno));
    bool is_6 = own.ss_family == AF_INET6;
    return cli_format("http://%s%s%s:%s/", is_6 ? "[" : "", host, is_6 ? "]" : "", port);
}

static void begin_tcp(struct listener *listener, const struct cli *cli, const char *where,
                      bool allow_remote)
{
    struct addrinfo *found = read_address(where);
    listener->is_remote = !is_loopback(found->ai_addr);
    if (listener->is_remote && !allow_remote)
        cli_fail(CLI_USAGE,
                 "monitor: --listen %s: other hosts could read the keys and the holders of "
                 "all locks: add --allow-remote if they may",
                 where);
    bind_to(listener, cli, where, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    listener->place = place_of(evconnlistener_get_fd(listener->of_loop));
}

void listener_begin(struct listener *listener, const struct cli *cli, const char *where,
                    bool allow_remote)
{
    *listener = (struct listener){0};
    if (strncmp(where, UNIX, strlen(UNIX)) == 0)
        begin_unix(listener, cli, where);
    else
        begin_tcp(listener, cli, where, allow_remote);
}

void listener_end(struct listener *listener)
{
    struct stat found;
    if (listener->path && lstat(listener->path, &found) == 0 &&
        found.st_dev == listener->made.st_dev && found.st_ino == listener->made.st_ino)
        unlink(listener->path);
    free(listener->place);
}
