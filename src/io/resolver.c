#include "resolver.h"

#include <event2/dns.h>
#include <event2/util.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DNS_FLAGS (EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE)

struct rl_resolve {
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

static void resolved(int result, struct evutil_addrinfo *list, void *arg)
{
    struct rl_resolve *request = arg;
    struct rl_address address;
    bool picked = result == 0 && pick(list, request->address_turn, &address);
    if (list)
        evutil_freeaddrinfo(list);
    if (request->done)
        request->done(picked ? &address : NULL, request->arg);
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
    if (!resolver->dns)
        resolver->dns = evdns_base_new(resolver->base, DNS_FLAGS);
    struct rl_resolve *request = resolver->dns ? calloc(1, sizeof(*request)) : NULL;
    if (!request) {
        done(NULL, arg);
        return NULL;
    }
    *request = (struct rl_resolve){.done = done, .arg = arg, .address_turn = address_turn};
    /* `resolved` may run before this returns, and free the request; then `dns` is NULL. */
    struct evdns_getaddrinfo_request *dns =
        evdns_getaddrinfo(resolver->dns, host, service, &names, resolved, request);
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
    if (resolver->dns)
        evdns_base_free(resolver->dns, 1);
    resolver->dns = NULL;
}
