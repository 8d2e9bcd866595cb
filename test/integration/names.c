/* Addresses of nodes and identities of clients: names, ports, databases and credentials. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "quorum.h"

/* Three servers, of which the first listens on TCP too, and no client yet. */
static void open_tcp(struct quorum *s, const char *addresses)
{
    memset(s, 0, sizeof(*s));
    servers_start(&s->servers, 3, NULL);
    servers_kill(&s->servers, 0);
    servers_choose_port(&s->servers, 0, addresses);
    servers_launch(&s->servers, 0);
    s->base = event_base_new();
}

/* Names the first server by this URI, and creates a client. */
__attribute__((format(printf, 3, 4))) static void meet_as(struct quorum *s,
                                                          const redlock_options *options,
                                                          const char *format, ...)
{
    static char uri[200];
    va_list args;
    va_start(args, format);
    vsnprintf(uri, sizeof(uri), format, args);
    va_end(args);
    redlock_client_free(s->client);
    s->servers.uri[0] = uri;
    s->client = quorum_client(s, options);
}

static void expect_all_vote(struct quorum *s)
{
    quorum_await_ready(s);
    redlock_lease *lease = quorum_hold(s, "job", NULL);
    LOOP_UNTIL(s->base, quorum_count_votes(lease, "granted") == 3);
    cr_assert_eq(quorum_release(s, lease), REDLOCK_OK);
    quorum_free_lease(s, lease);
}

Test(names, a_name_that_resolves)
{
    struct quorum s;
    open_tcp(&s, "127.0.0.1 -::1");
    meet_as(&s, NULL, "redis://localhost:%d", s.servers.server[0].port);
    expect_all_vote(&s);
    for (int i = 0; i < 3; i++) { /* and again for each connection */
        servers_do(&s.servers, 0, "CLIENT KILL TYPE normal SKIPME yes");
        LOOP_UNTIL(s.base, !quorum_is(s.client, 0, "ready"));
        expect_all_vote(&s);
    }
    quorum_close(&s);
}

Test(names, numeric_addresses)
{
    struct quorum s;
    open_tcp(&s, "127.0.0.1");
    meet_as(&s, NULL, "redis://127.0.0.1:%d", s.servers.server[0].port);
    expect_all_vote(&s);
    quorum_close(&s);
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6,
                                .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
    close(fd);
    return has;
}

Test(names, ipv6)
{
    struct quorum s;
    if (!has_ipv6())
        cr_skip_test("no IPv6 here");
    open_tcp(&s, "::1");
    meet_as(&s, NULL, "redis://[::1]:%d", s.servers.server[0].port);
    expect_all_vote(&s);
    quorum_close(&s);
}

/* A label of more than 63 letters cannot resolve, with any servers. */
#define NO_NAME                                                                            \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."      \
    "invalid"

static void hold_without_the_first(struct quorum *s)
{
    for (int i = 0; i < 100; i++) {
        redlock_lease *lease = quorum_hold(s, "job", NULL);
        cr_assert_eq(quorum_node(lease, 0)->verdict, REDLOCK_VERDICT_ABSENT);
        cr_assert_eq(quorum_release(s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
    }
}

Test(names, a_name_that_does_not_resolve)
{
    struct quorum s;
    open_tcp(&s, "127.0.0.1");
    meet_as(&s, NULL, "redis://%s", NO_NAME);
    LOOP_UNTIL(s.base, quorum_link(s.client, 0)->fault == REDLOCK_FAULT_RESOLVE);
    hold_without_the_first(&s);
    cr_assert_eq(quorum_link(s.client, 0)->fault, REDLOCK_FAULT_RESOLVE);
    quorum_close(&s);
}

/*
 * Name servers may refuse, or not reply at all: nothing waits for them, and all ends with
 * the client.
 */
Test(names, a_name_that_gets_no_reply)
{
    struct quorum s;
    redlock_options options = quorum_options();
    options.connect_timeout_ms = 500;
    open_tcp(&s, "127.0.0.1");
    meet_as(&s, &options, "redis://no-such-host.invalid");
    LOOP_UNTIL(s.base, quorum_is(s.client, 1, "ready") && quorum_is(s.client, 2, "ready"));
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    redlock_lease_free(lease);
    LOOP_UNTIL(s.base, quorum_link(s.client, 0)->fault == REDLOCK_FAULT_RESOLVE ||
                           quorum_link(s.client, 0)->fault == REDLOCK_FAULT_TIMEOUT);
    hold_without_the_first(&s);
    quorum_close(&s);
}

/* The resolver still has calls in the loop, which goes on. */
Test(names, the_loop_goes_on_after_the_client)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_options options = quorum_options();
    options.connect_timeout_ms = 60000;
    open_tcp(&s, "127.0.0.1");
    for (int i = 0; i < 20; i++) {
        meet_as(&s, &options, "redis://no-such-host.invalid");
        event_base_loop(s.base, EVLOOP_NONBLOCK);
    }
    redlock_client_free(s.client);
    s.client = quorum_client(&s, NULL);
    redlock_lease *lease = quorum_start(&s, "job", NULL, &reported);
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

Test(names, a_port_without_a_listener)
{
    struct quorum s;
    open_tcp(&s, "127.0.0.1");
    servers_kill(&s.servers, 0);
    meet_as(&s, NULL, "redis://127.0.0.1:%d", s.servers.server[0].port);
    LOOP_UNTIL(s.base, quorum_link(s.client, 0)->fault == REDLOCK_FAULT_CONNECT);
    hold_without_the_first(&s);
    servers_launch(&s.servers, 0);
    expect_all_vote(&s);
    quorum_close(&s);
}

Test(names, a_socket_that_does_not_exist)
{
    struct quorum s;
    open_tcp(&s, "127.0.0.1");
    meet_as(&s, NULL, "unix://%s/nothing.sock", s.servers.folder);
    LOOP_UNTIL(s.base, quorum_link(s.client, 0)->fault == REDLOCK_FAULT_CONNECT);
    hold_without_the_first(&s);
    quorum_close(&s);
}

/* --- databases --- */

static void expect_in_database(struct quorum *s, int db)
{
    quorum_await_ready(s);
    redlock_lease *lease = quorum_hold(s, "job", NULL);
    LOOP_UNTIL(s->base, quorum_count_votes(lease, "granted") == 3);
    servers_do(&s->servers, 0, "SELECT %d", db);
    cr_assert(servers_text(&s->servers, 0, redlock_token(lease), "GET job"));
    servers_do(&s->servers, 0, "SELECT 0");
    cr_assert(servers_text(&s->servers, 0, NULL, "GET job"));
    quorum_free_lease(s, lease);
    servers_do(&s->servers, 0, "SELECT %d", db);
    cr_assert(servers_text(&s->servers, 0, NULL, "GET job"));
}

Test(names, database_of_a_port)
{
    struct quorum s;
    open_tcp(&s, "127.0.0.1");
    meet_as(&s, NULL, "redis://127.0.0.1:%d/3", s.servers.server[0].port);
    expect_in_database(&s, 3);
    quorum_close(&s);
}

Test(names, database_of_a_socket)
{
    struct quorum s;
    open_tcp(&s, "127.0.0.1");
    meet_as(&s, NULL, "unix://%s?db=3", s.servers.server[0].socket);
    expect_in_database(&s, 3);
    quorum_close(&s);
}

Test(names, database_that_does_not_exist)
{
    struct quorum s;
    open_tcp(&s, "127.0.0.1");
    meet_as(&s, NULL, "unix://%s?db=999", s.servers.server[0].socket);
    LOOP_UNTIL(s.base, quorum_link(s.client, 0)->fault == REDLOCK_FAULT_ERR);
    hold_without_the_first(&s);
    quorum_close(&s);
}

/* --- credentials --- */

static void open_locked(struct quorum *s)
{
    open_tcp(s, "127.0.0.1");
    servers_do(&s->servers, 0, "ACL SETUSER a:b on >p@ss/w%%rd ~* &* +@all");
    servers_do(&s->servers, 0, "CONFIG SET requirepass secret");
}

Test(names, user_and_password_in_the_uri)
{
    struct quorum s;
    open_locked(&s);
    meet_as(&s, NULL, "redis://a%%3Ab:p%%40ss%%2Fw%%25rd@127.0.0.1:%d",
            s.servers.server[0].port);
    expect_all_vote(&s);
    meet_as(&s, NULL, "unix://a%%3Ab:p%%40ss%%2Fw%%25rd@%s", s.servers.server[0].socket);
    expect_all_vote(&s);
    const char *reported = quorum_link(s.client, 0)->uri;
    cr_assert_null(strstr(reported, "ss/w"), "the error contains the password: %s",
                   reported);
    cr_assert_null(strstr(reported, "ss%2Fw"), "the error contains the password: %s",
                   reported);
    quorum_close(&s);
}

Test(names, password_only_in_the_uri)
{
    struct quorum s;
    open_locked(&s);
    meet_as(&s, NULL, "unix://:secret@%s", s.servers.server[0].socket);
    expect_all_vote(&s);
    meet_as(&s, NULL, "unix://default:secret@%s", s.servers.server[0].socket);
    expect_all_vote(&s);
    quorum_close(&s);
}

Test(names, password_in_the_options)
{
    struct quorum s;
    redlock_options options = quorum_options();
    options.password = "secret";
    open_locked(&s);
    for (unsigned i = 1; i < 3; i++)
        servers_do(&s.servers, i, "CONFIG SET requirepass other");
    meet_as(&s, &options, "unix://%s", s.servers.server[0].socket);
    LOOP_UNTIL(s.base, quorum_is(s.client, 0, "ready"));
    LOOP_UNTIL(s.base, quorum_link(s.client, 1)->fault == REDLOCK_FAULT_WRONGPASS);
    quorum_close(&s);
}

static void write_password(const char *path, const char *password)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, password, strlen(password)), (ssize_t)strlen(password));
    close(fd);
}

/* It is read at each connection, so that a password can be changed while a client runs. */
Test(names, password_in_a_file_that_changes)
{
    struct quorum s;
    char path[80];
    redlock_options options = quorum_options();
    open_tcp(&s, "127.0.0.1");
    snprintf(path, sizeof(path), "%s/password", s.servers.folder);
    write_password(path, "first\n");
    options.password_file = path;
    servers_do_first(&s.servers, 3, "CONFIG SET requirepass first");
    meet_as(&s, &options, "unix://%s", s.servers.server[0].socket);
    expect_all_vote(&s);
    write_password(path, "second");
    for (unsigned i = 0; i < 3; i++) {
        servers_do(&s.servers, i, "CONFIG SET requirepass second");
        servers_do(&s.servers, i, "CLIENT KILL TYPE normal SKIPME yes");
    }
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, !quorum_is(s.client, i, "ready"));
    expect_all_vote(&s);
    quorum_close(&s);
}

/* --- descriptors --- */

#define MANY 1100 /* more than select() supports */

static void limit_descriptors(rlim_t to)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = to < limit.rlim_max ? to : limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(names, many_descriptors)
{
    struct quorum s;
    int fd[MANY];
    limit_descriptors(4 * MANY);
    memset(&s, 0, sizeof(s));
    servers_start(&s.servers, 3, NULL);
    for (int i = 0; i < MANY; i++)
        cr_assert_geq(fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    s.base = event_base_new();
    s.client = quorum_client(&s, NULL);
    expect_all_vote(&s);
    redlock_client_free(s.client);
    s.client = NULL;
    for (int i = 0; i < MANY; i++)
        close(fd[i]);
    quorum_close(&s);
}

/* None is left: the nodes are unreachable, and reachable as soon as there are some. */
Test(names, no_descriptor)
{
    struct quorum s;
    struct reported reported;
    int fd[MANY], count = 0;
    memset(&s, 0, sizeof(s));
    servers_start(&s.servers, 3, NULL);
    s.base = event_base_new();
    s.client = quorum_client(&s, NULL);
    limit_descriptors(100);
    while (count < MANY && (fd[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(reported.result.reason, REDLOCK_REASON_RESOURCES);
    cr_assert_eq(quorum_node(lease, 0)->fault, REDLOCK_FAULT_FILES);
    redlock_lease_free(lease);
    while (count > 0)
        close(fd[--count]);
    expect_all_vote(&s);
    quorum_close(&s);
}

/*
 * The resolver gets none either: the process survives, and continues as soon as there are
 * some.
 */
Test(names, no_descriptor_for_the_resolver)
{
    struct quorum s;
    struct reported reported;
    int fd[MANY], count = 0;
    open_tcp(&s, "127.0.0.1 -::1");
    meet_as(&s, NULL, "redis://localhost:%d", s.servers.server[0].port);
    limit_descriptors(100);
    while (count < MANY && (fd[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    redlock_fault fault = quorum_node(lease, 0)->fault;
    cr_assert(fault == REDLOCK_FAULT_FILES || fault == REDLOCK_FAULT_RESOLVE, "%s",
              redlock_fault_name(fault));
    redlock_lease_free(lease);
    while (count > 0)
        close(fd[--count]);
    expect_all_vote(&s);
    quorum_close(&s);
}

Test(names, no_descriptor_for_a_new_client)
{
    struct event_base *base = event_base_new();
    redlock_client *client = NULL;
    const char *const uris[] = {"unix:///nowhere/1"};
    int fd[MANY], count = 0;
    limit_descriptors(100);
    while (count < MANY && (fd[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    cr_assert_eq(redlock_client_new(base, uris, 1, NULL, &client), REDLOCK_SYSTEM);
    cr_assert_eq(redlock_last_error()->code, REDLOCK_SYSTEM);
    cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_RESOURCES);
    cr_assert(strstr(redlock_last_error()->text, "Too many open files"), "%s",
              redlock_last_error()->text);
    cr_assert_null(client);
    while (count > 0)
        close(fd[--count]);
    event_base_free(base);
}
