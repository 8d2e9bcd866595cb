#include "resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "system.h"

#define RESOLUTION_DELAY_US INT64_C(50000)
#define US_PER_SECOND       1000000

struct rl_resolve {
    struct rl_resolver *resolver;
    const char *host;
    int port;
    rl_resolve_fn *done;
    void *arg;
    struct rl_name_user user;    /* .name is NULL: none yet */
    LIST_ENTRY(rl_resolve) link; /* while it waits */
    bool waits;
    int64_t late_at; /* when it stops waiting for the rest; 0: it has no address yet */
    struct rl_addresses answer;
};

static int64_t now_us(void)
{
    return rl_system_clock_ns(CLOCK_MONOTONIC) / 1000;
}

/* --- numeric addresses --- */

static bool is_numeric(const struct rl_resolve *request)
{
    struct in_addr ignored;
    return strchr(request->host, ':') || inet_aton(request->host, &ignored);
}

/* The interface of a zone may be missing: so this may fail, and succeed later. */
static void parse_numeric(struct rl_resolve *request)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct rl_addresses *answer = &request->answer;
    struct addrinfo *list;
    int error = getaddrinfo(request->host, NULL, &hints, &list);
    answer->count = error == 0;
    if (error != 0) {
        snprintf(answer->reason, sizeof(answer->reason), "%s", gai_strerror(error));
        return;
    }
    memcpy(&answer->address[0].addr, list->ai_addr, list->ai_addrlen);
    answer->address[0].len = list->ai_addrlen;
    freeaddrinfo(list);
}

/* --- waiting --- */

static void stop_waiting(struct rl_resolve *request)
{
    if (request->waits)
        LIST_REMOVE(request, link);
    request->waits = false;
}

static void wait_for_lookups(struct rl_resolve *request)
{
    request->late_at = 0;
    request->waits = true;
    LIST_INSERT_HEAD(&request->resolver->waiting, request, link);
}

/* Returns whether the request need not wait any more. */
static bool is_over(struct rl_resolve *request, int64_t now)
{
    rl_name_read(&request->user, &request->answer);
    if (request->answer.is_whole)
        return true;
    if (request->answer.count > 0 && request->late_at == 0)
        request->late_at = now + RESOLUTION_DELAY_US;
    return request->answer.count > 0 && now >= request->late_at;
}

static void resolver_set_timer(const struct rl_resolver *resolver, int64_t now)
{
    int64_t first = INT64_MAX;
    const struct rl_resolve *at;
    LIST_FOREACH (at, &resolver->waiting, link)
        if (at->late_at > 0 && at->late_at < first)
            first = at->late_at;
    if (first == INT64_MAX)
        return;
    int64_t left = first > now ? first - now : 0;
    struct timeval delay = {.tv_sec = left / US_PER_SECOND,
                            .tv_usec = left % US_PER_SECOND};
    event_add(resolver->late, &delay);
}

static void set_port(struct rl_address *address, int port)
{
    if (address->addr.ss_family == AF_INET)
        ((struct sockaddr_in *)&address->addr)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)&address->addr)->sin6_port = htons((uint16_t)port);
}

static void resolver_finish(struct rl_resolve *request)
{
    struct rl_addresses *answer = &request->answer;
    for (unsigned i = 0; i < answer->count; i++)
        set_port(&answer->address[i], request->port);
    request->done(answer->address, answer->count, answer->reason, request->arg);
}

/* `done` may free the client: so it is called last, for one request at a time. */
static void resolver_on_event(evutil_socket_t fd, short what, void *arg)
{
    struct rl_resolver *resolver = arg;
    int64_t now = now_us();
    uint64_t times;
    if (resolver->wake.is_inert)
        return;
    if (what & EV_READ)
        (void)!read(fd, &times, sizeof(times));
    struct rl_resolve *request;
    LIST_FOREACH (request, &resolver->waiting, link)
        if (is_over(request, now)) {
            event_active(resolver->late, EV_TIMEOUT, 0);
            stop_waiting(request);
            resolver_finish(request);
            return;
        }
    resolver_set_timer(resolver, now);
}

/* --- requests --- */

static void close_resolver(struct rl_resolver *resolver)
{
    if (resolver->late)
        event_free(resolver->late);
    if (resolver->woken)
        event_free(resolver->woken);
    resolver->woken = resolver->late = NULL;
    rl_loop_fd_close(&resolver->wake);
}

/* Returns 0, or the error number. */
static int open_resolver(struct rl_resolver *resolver)
{
    if (resolver->woken)
        return 0;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return errno;
    rl_loop_fd_init(&resolver->wake, fd);
    resolver->late = evtimer_new(resolver->base, resolver_on_event, resolver);
    resolver->woken =
        event_new(resolver->base, fd, EV_READ | EV_PERSIST, resolver_on_event, resolver);
    if (resolver->late && resolver->woken && event_add(resolver->woken, NULL) == 0)
        return 0;
    close_resolver(resolver);
    return ENOMEM;
}

/* Returns 0, or the error number. */
static int use_name(struct rl_resolve *request)
{
    int error = open_resolver(request->resolver);
    if (error != 0 || request->user.name)
        return error;
    return rl_name_use(&request->user, request->host, request->resolver->wake.fd) ? 0
                                                                                  : ENOMEM;
}

struct rl_resolve *rl_resolve_new(struct rl_resolver *resolver, const char *host, int port,
                                  rl_resolve_fn *done, void *arg)
{
    struct rl_resolve *request = malloc(sizeof(*request));
    if (request)
        *request = (struct rl_resolve){
            .resolver = resolver, .host = host, .port = port, .done = done, .arg = arg};
    return request;
}

void rl_resolve_start(struct rl_resolve *request)
{
    if (is_numeric(request)) {
        parse_numeric(request);
        resolver_finish(request);
        return;
    }
    int error = use_name(request);
    if (error != 0) {
        request->done(NULL, 0, strerror(error), request->arg);
        return;
    }
    int64_t now = now_us();
    rl_name_look_up(&request->user);
    wait_for_lookups(request);
    if (!is_over(request, now)) {
        resolver_set_timer(request->resolver, now);
        return;
    }
    stop_waiting(request);
    resolver_finish(request);
}

const char *rl_resolve_silence(const struct rl_resolve *request)
{
    struct rl_addresses known;
    rl_name_read(&request->user, &known);
    return known.is_running ? "the name server has not answered"
                            : "the lookup of the name waits for others to end";
}

void rl_resolve_cancel(struct rl_resolve *request)
{
    stop_waiting(request);
}

/* A forked child leaves the names alone, which are its parent's. */
void rl_resolve_free(struct rl_resolve *request)
{
    if (!request)
        return;
    stop_waiting(request);
    if (request->user.name && !request->resolver->wake.is_inert)
        rl_name_leave(&request->user);
    free(request);
}

void rl_resolver_clear(struct rl_resolver *resolver)
{
    if (resolver->woken)
        close_resolver(resolver);
}
