#include "resolver.h"

#include "file_stamp.h"

#include <event2/dns.h>
#include <event2/util.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOSTS   "/etc/hosts"
#define SERVERS "/etc/resolv.conf"

/*
 * A name has addresses of two kinds. With less patience for the second one, libevent goes
 * on with a request after it has called back.
 */
#define PATIENCE "3600"

/*
 * The link has the timeout of a whole request, which is shorter than libevent's patience
 * with one server. In s; without a point, which a locale may write otherwise.
 */
#define NEXT_SERVER_AFTER "2e-1"
#define ATTEMPTS          "255"

/*
 * What is known of hosts and name servers. Calls of libevent that read it may be queued in
 * the loop when it is retired: so it lives until each request has called back.
 */
struct rl_names {
    struct evdns_base *dns;
    unsigned requests; /* that have not called back */
    bool is_retired;   /* no further request begins */
    struct rl_file_stamp hosts, servers;
};

struct rl_resolve {
    struct rl_names *names;
    struct evdns_getaddrinfo_request *dns;
    rl_resolve_fn *done; /* NULL once cancelled */
    void *arg;
    unsigned address_turn;
};

static bool pick(const struct addrinfo *list, unsigned address_turn,
                 struct rl_address *ret_address)
{
    unsigned count = 0;
    for (const struct addrinfo *at = list; at; at = at->ai_next)
        count++;
    if (count == 0)
        return false;
    for (address_turn %= count; address_turn > 0; address_turn--)
        list = list->ai_next;
    if (list->ai_addrlen > sizeof(ret_address->addr))
        return false;
    memcpy(&ret_address->addr, list->ai_addr, list->ai_addrlen);
    ret_address->len = list->ai_addrlen;
    return true;
}

static struct addrinfo hints_with(int flags)
{
    return (struct addrinfo){
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_protocol = IPPROTO_TCP,
        .ai_flags = flags,
    };
}

static bool parse_numeric(const char *host, const char *port,
                          struct rl_address *ret_address)
{
    const struct addrinfo hints = hints_with(AI_NUMERICHOST | AI_NUMERICSERV);
    struct addrinfo *list;
    if (getaddrinfo(host, port, &hints, &list) != 0)
        return false;
    bool picked = pick(list, 0, ret_address);
    freeaddrinfo(list);
    return picked;
}

static void free_if_unused(struct rl_names *names)
{
    if (!names->is_retired || names->requests > 0)
        return;
    evdns_base_free(names->dns, 0);
    free(names);
}

/* Closes its sockets at once. */
static void retire(struct rl_names *names)
{
    evdns_base_clear_nameservers_and_suspend(names->dns);
    names->is_retired = true;
    free_if_unused(names);
}

/* As rl_file_stamp(), but of a file that cannot be opened now: it is to be read again. */
static struct rl_file_stamp stamp_to_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rl_file_stamp(NULL);
    close(fd);
    return rl_file_stamp(path);
}

/* If a file is missing, or names no server, the other one counts. */
static struct rl_names *read_names(struct event_base *base)
{
    struct rl_names *names = calloc(1, sizeof(*names));
    if (!names)
        return NULL;
    *names =
        (struct rl_names){.dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE),
                          .hosts = stamp_to_read(HOSTS),
                          .servers = stamp_to_read(SERVERS)};
    if (!names->dns) {
        free(names);
        return NULL;
    }
    evdns_base_resolv_conf_parse(names->dns, DNS_OPTIONS_ALL, SERVERS);
    evdns_base_set_option(names->dns, "getaddrinfo-allow-skew:", PATIENCE);
    evdns_base_set_option(names->dns, "timeout:", NEXT_SERVER_AFTER);
    evdns_base_set_option(names->dns, "attempts:", ATTEMPTS);
    evdns_base_set_option(names->dns, "max-timeouts:", ATTEMPTS);
    return names;
}

/* A request that is under way when a file has changed gets no reply: the link asks again.
 */
static struct rl_names *current(struct rl_resolver *resolver)
{
    const struct rl_names *names = resolver->names;
    if (names && !(rl_file_stamp_equal(names->hosts, rl_file_stamp(HOSTS)) &&
                   rl_file_stamp_equal(names->servers, rl_file_stamp(SERVERS))))
        rl_resolver_clear(resolver);
    if (!resolver->names)
        resolver->names = read_names(resolver->base);
    return resolver->names;
}

static void resolved(int result, struct evutil_addrinfo *list, void *arg)
{
    struct rl_resolve *request = arg;
    struct rl_address address;
    bool picked = result == 0 && pick(list, request->address_turn, &address);
    if (list)
        evutil_freeaddrinfo(list);
    if (request->done)
        request->done(picked ? &address : NULL, request->arg);
    request->names->requests--;
    free_if_unused(request->names);
    free(request);
}

struct rl_resolve *rl_resolve_start(struct rl_resolver *resolver, const char *host,
                                    int port, unsigned address_turn, rl_resolve_fn *done,
                                    void *arg)
{
    const struct evutil_addrinfo names = hints_with(EVUTIL_AI_ADDRCONFIG);
    char service[8];
    struct rl_address address;
    snprintf(service, sizeof(service), "%d", port);
    if (parse_numeric(host, service, &address)) {
        done(&address, arg);
        return NULL;
    }
    struct rl_names *known = current(resolver);
    struct rl_resolve *request = known ? calloc(1, sizeof(*request)) : NULL;
    if (!request) {
        done(NULL, arg);
        return NULL;
    }
    *request = (struct rl_resolve){
        .names = known, .done = done, .arg = arg, .address_turn = address_turn};
    known->requests++;
    /* `resolved` may run before this returns, and free the request; then `dns` is NULL. */
    struct evdns_getaddrinfo_request *dns =
        evdns_getaddrinfo(known->dns, host, service, &names, resolved, request);
    if (!dns)
        return NULL;
    request->dns = dns;
    return request;
}

void rl_resolve_cancel(struct rl_resolve *request)
{
    request->done = NULL;
    evdns_getaddrinfo_cancel(request->dns);
}

void rl_resolver_clear(struct rl_resolver *resolver)
{
    if (resolver->names)
        retire(resolver->names);
    resolver->names = NULL;
}
