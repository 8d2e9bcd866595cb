/* A name with several addresses: which of them are tried, and when. */
#include "net/connection.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOSTS   4          /* 127.83.0.1 and so on, with one port */
#define NETWORK 0x7f530000 /* 127.83.0.0 */

static struct event_base *base;
static struct rl_resolver resolver;
static struct rl_send_batch batch;
static struct rl_uri uri = {.host = (char[]){"node"}};
static struct rl_connection node;
static int listener[HOSTS + 1];
static unsigned connected, failed;
static enum rl_fault fault; /* the last reason why it failed */

/* --- the resolver --- */

static struct rl_address address[RL_ADDRESSES_MAX];
static unsigned addresses;

struct rl_resolve {
    rl_resolve_fn *done;
    void *arg;
};

struct rl_resolve *rl_resolve_new(struct rl_resolver *its, const char *host, int port,
                                  rl_resolve_fn *done, void *arg)
{
    static struct rl_resolve request;
    (void)its;
    (void)host;
    (void)port;
    request = (struct rl_resolve){done, arg};
    return &request;
}

void rl_resolve_start(struct rl_resolve *request)
{
    request->done(address, addresses, addresses ? "" : "no such name", request->arg);
}

const char *rl_resolve_silence(const struct rl_resolve *request)
{
    (void)request;
    return "";
}

void rl_resolve_cancel(struct rl_resolve *request)
{
    (void)request;
}

void rl_resolve_free(struct rl_resolve *request)
{
    (void)request;
}

static void add_address(const char *text)
{
    struct rl_address *added = &address[addresses++];
    struct sockaddr_in *in = (struct sockaddr_in *)&added->addr;
    *added = (struct rl_address){.len = sizeof(*in)};
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)uri.port);
    cr_assert_eq(inet_pton(AF_INET, text, &in->sin_addr), 1);
}

/* The name has 127.83.0.N for each N of the list, which ends with 0. */
static void set_addresses(const uint8_t *hosts)
{
    addresses = 0;
    for (; *hosts; hosts++) {
        char text[INET_ADDRSTRLEN];
        snprintf(text, sizeof(text), "127.83.0.%u", *hosts);
        add_address(text);
    }
}

#define ADDRESSES(...) set_addresses((const uint8_t[]){__VA_ARGS__, 0})

/* --- the owner --- */

static void nothing(void *arg)
{
    (void)arg;
}

/* The greeting is sent, and no server here replies. */
static void on_connected(void *arg)
{
    static const struct rl_credentials who = {.marker_key = {"!marker", 7}};
    (void)arg;
    connected++;
    cr_assert(rl_connection_greet(&node, &who));
}

static void on_failed(void *arg, enum rl_fault reason)
{
    (void)arg;
    failed++;
    fault = reason;
    rl_connection_abort(&node);
}

static const struct rl_connection_handler owner = {
    .enter = nothing,
    .leave = nothing,
    .connected = on_connected,
    .failed = on_failed,
};

/* --- the hosts --- */

/* Those that listen accept and do not reply; the others refuse. */
static void begin(const uint8_t *hosts)
{
    base = event_base_new();
    resolver.base = base;
    for (; *hosts; hosts++) {
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)uri.port),
                                 .sin_addr.s_addr = htonl(NETWORK + *hosts)};
        socklen_t len = sizeof(at);
        int fd = listener[*hosts] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
            cr_skip_test("this port or address is not free");
        cr_assert_eq(listen(fd, 8), 0);
        cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
        uri.port = ntohs(at.sin_port);
    }
    rl_connection_init(&node, &resolver, &batch, &uri, NULL, &owner, NULL);
}

#define BEGIN(...) begin((const uint8_t[]){__VA_ARGS__, 0})

/* Connects, or fails; returns to which host, or 0. */
static unsigned connect_once(void)
{
    unsigned before = connected + failed;
    rl_connection_connect(&node);
    while (connected + failed == before)
        cr_assert_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    for (unsigned host = 1; host <= HOSTS; host++) {
        int fd = listener[host] ? accept(listener[host], NULL, NULL) : -1;
        if (fd < 0)
            continue;
        close(fd);
        return host;
    }
    return 0;
}

static void end(void)
{
    rl_connection_abort(&node);
    rl_connection_clear(&node, false);
    rl_send_batch_free(&batch);
    for (unsigned host = 1; host <= HOSTS; host++)
        if (listener[host])
            close(listener[host]);
    event_base_free(base);
}

/* --- the cases --- */

TestSuite(addresses, .timeout = 60);

Test(addresses, after_a_refusal_the_next_one_is_tried_at_once)
{
    BEGIN(3);
    ADDRESSES(1, 2, 3, 4);
    cr_assert_eq(connect_once(), 3);
    cr_assert_eq(connected, 1);
    cr_assert_eq(failed, 0);
    end();
}

/* No connection to it can even begin: EACCES, ENETUNREACH. */
Test(addresses, one_that_cannot_be_reached_is_passed_over)
{
    BEGIN(1);
    add_address("255.255.255.255");
    add_address("127.83.0.1");
    cr_assert_eq(connect_once(), 1);
    cr_assert_eq(failed, 0);
    end();
}

Test(addresses, all_of_them_refuse)
{
    BEGIN(4);
    ADDRESSES(1, 2, 3);
    for (unsigned i = 1; i <= 3; i++) {
        cr_assert_eq(connect_once(), 0);
        cr_assert_eq(failed, i);
        cr_assert_eq(fault, RL_FAULT_CONNECT);
    }
    end();
}

Test(addresses, a_name_without_any)
{
    BEGIN(1);
    cr_assert_eq(connect_once(), 0);
    cr_assert_eq(fault, RL_FAULT_RESOLVE);
    end();
}

/* Whatever the order in which the resolver gives them. */
Test(addresses, after_a_silent_one_the_next_try_begins_with_another)
{
    BEGIN(1, 2, 3);
    ADDRESSES(1, 2, 3);
    cr_assert_eq(connect_once(), 1);
    rl_connection_abort(&node);
    ADDRESSES(3, 1, 2);
    cr_assert_eq(connect_once(), 2);
    rl_connection_abort(&node);
    ADDRESSES(1, 2, 3);
    cr_assert_eq(connect_once(), 3);
    rl_connection_abort(&node);
    cr_assert_eq(connect_once(), 1);
    ADDRESSES(4);
    rl_connection_abort(&node);
    cr_assert_eq(connect_once(), 0, "127.83.0.4 refuses");
    end();
}
