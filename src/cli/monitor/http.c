#include "http.h"

#include "io/queue.h"
#include "listener.h"

#include <event2/bufferevent.h>
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SWEEP_MS  1000
#define INPUT_MAX (HTTP_HEADERS_MAX + HTTP_BODY_MAX)

/*
 * What is computed delays the replies of the nodes: it gets one part in COMPUTE_PARTS of
 * the time, and is refused while it has used COMPUTE_AHEAD_US / COMPUTE_PARTS more than
 * that.
 */
#define COMPUTE_PARTS    4
#define COMPUTE_AHEAD_US 1000000

#define NO_POLICY                                                                          \
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* A connection. The oldest one comes first. */
struct connection {
    TAILQ_ENTRY(connection) next;
    struct bufferevent *stream;
    int64_t begun_us;
    bool is_ending; /* it was shut down */
};

struct http {
    const struct http_route *routes;
    void *arg;
    struct evhttp *server;
    struct listener listener;
    TAILQ_HEAD(, connection) connections;
    unsigned open, ending; /* connections */
    struct cli_timer sweep;
    int64_t computed_until_us; /* when what was computed is no more than its part */
    char host[256];            /* the name of this machine */
};

/* --- connections --- */

/*
 * Libevent has no limit of connections, and reports the end of one only if it has begun a
 * request. So each stream has a second reference, which is given back when evhttp has freed
 * its own: then the stream has no callback any more.
 */
static bool has_ended(const struct connection *connection)
{
    void *owner = NULL;
    bufferevent_getcb(connection->stream, NULL, NULL, NULL, &owner);
    return !owner;
}

static void forget(struct http *http, struct connection *connection)
{
    http->open -= !connection->is_ending;
    http->ending -= connection->is_ending;
    TAILQ_REMOVE(&http->connections, connection, next);
    bufferevent_decref(connection->stream);
    free(connection);
}

/* The client gets what was written; evhttp finds the end of the stream. */
static void end(struct http *http, struct connection *connection)
{
    connection->is_ending = true;
    http->open--;
    http->ending++;
    shutdown(bufferevent_getfd(connection->stream), SHUT_RDWR);
}

static void sweep(void *arg)
{
    struct http *http = arg;
    int64_t now = cli_clock_us(CLOCK_MONOTONIC);
    struct connection *following;
    for (struct connection *at = TAILQ_FIRST(&http->connections); at; at = following) {
        following = TAILQ_NEXT(at, next);
        if (has_ended(at))
            forget(http, at);
        else if (!at->is_ending && now - at->begun_us > HTTP_SECONDS_MAX * INT64_C(1000000))
            end(http, at);
    }
    if (http->open + http->ending < HTTP_FILES_MAX)
        evconnlistener_enable(http->listener.of_loop);
}

/* If there are too many, the oldest one makes room: it had the most time. */
static struct bufferevent *accepted(struct event_base *base, void *arg)
{
    struct http *http = arg;
    struct connection *new = cli_need_memory(calloc(1, sizeof(*new))), *oldest;
    sweep(http);
    oldest = TAILQ_FIRST(&http->connections);
    while (oldest && oldest->is_ending)
        oldest = TAILQ_NEXT(oldest, next);
    if (http->open >= HTTP_CONNECTIONS_MAX && oldest)
        end(http, oldest);
    new->begun_us = cli_clock_us(CLOCK_MONOTONIC);
    new->stream = cli_need_memory(bufferevent_socket_new(base, -1, 0));
    bufferevent_setwatermark(new->stream, EV_READ, 0, INPUT_MAX);
    bufferevent_incref(new->stream);
    TAILQ_INSERT_TAIL(&http->connections, new, next);
    http->open++;
    if (http->open + http->ending == HTTP_FILES_MAX)
        evconnlistener_disable(http->listener.of_loop); /* until the next sweep */
    return new->stream;
}

/* The connection was closed for a newer one: compute no answer. */
static bool is_ending(const struct http *http, struct evhttp_request *request)
{
    const struct connection *at;
    const struct bufferevent *stream =
        evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
    TAILQ_FOREACH (at, &http->connections, next)
        if (at->stream == stream)
            return at->is_ending;
    return false;
}

/* --- answers --- */

static bool is_our_name(const struct http *http, const char *name, size_t len)
{
    return (len == strlen("localhost") &&
            evutil_ascii_strncasecmp(name, "localhost", len) == 0) ||
           (len == strlen(http->host) &&
            evutil_ascii_strncasecmp(name, http->host, len) == 0);
}

/* It could make the monitor work, though not read the answer. It may have a link to us. */
static bool is_of_other_site(struct evhttp_request *request)
{
    const char *site =
        evhttp_find_header(evhttp_request_get_input_headers(request), "Sec-Fetch-Site");
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
    return site && strcmp(site, "cross-site") == 0 && path && strcmp(path, "/") != 0;
}

/*
 * A page of another site must not read this one by a name that it lets point here (DNS
 * rebinding). A browser always sends the name; no such page has an address as its name. A
 * name in the request line ("GET //127.0.0.1/") is not the one that the browser asked for.
 */
static bool is_for_us(const struct http *http, struct evhttp_request *request)
{
    const char *host =
        evhttp_find_header(evhttp_request_get_input_headers(request), "Host");
    struct sockaddr_storage address;
    int len = sizeof(address);
    if (evhttp_uri_get_host(evhttp_request_get_evhttp_uri(request)) ||
        is_of_other_site(request))
        return false;
    return !host || is_our_name(http, host, strcspn(host, ":")) ||
           evutil_parse_sockaddr_port(host, (struct sockaddr *)&address, &len) == 0;
}

static const struct http_route *find(const struct http *http, const char *path)
{
    for (const struct http_route *route = http->routes; path && route->path; route++)
        if (strcmp(route->path, path) == 0)
            return route;
    return NULL;
}

static const char *phrase_of(int status)
{
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    default: return "Service Unavailable";
    }
}

static void reply(struct evhttp_request *request, int status,
                  const struct http_route *route, struct evbuffer *body)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    char length[32];
    snprintf(length, sizeof(length), "%zu", evbuffer_get_length(body));
    evhttp_add_header(headers, "Connection", "close");
    evhttp_add_header(headers, "Content-Length", length);
    evhttp_add_header(headers, "Content-Type", route ? route->type : HTTP_TEXT);
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evhttp_add_header(headers, "Content-Security-Policy",
                      route && route->policy ? route->policy : NO_POLICY);
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(headers, "Referrer-Policy", "no-referrer");
    evhttp_add_header(headers, "Cross-Origin-Resource-Policy", "same-origin");
    if (status == 405)
        evhttp_add_header(headers, "Allow", "GET, HEAD");
    if (evhttp_request_get_command(request) == EVHTTP_REQ_HEAD)
        evbuffer_drain(body, evbuffer_get_length(body));
    struct bufferevent *stream =
        evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
    evhttp_send_reply(request, status, phrase_of(status), body);
    bufferevent_disable(stream, EV_READ); /* the client may still read */
}

static int compute(struct http *http, const struct http_route *route,
                   const struct evkeyvalq *query, struct evbuffer *body)
{
    int64_t now = cli_clock_us(CLOCK_MONOTONIC);
    int64_t begun_us = cli_clock_us(CLOCK_THREAD_CPUTIME_ID);
    if (http->computed_until_us - now > COMPUTE_AHEAD_US) {
        evbuffer_add_printf(body, "{\"error\": \"too many requests; ask again later\"}");
        return 503;
    }
    int status = route->answer(http->arg, query, body);
    int64_t took_us = cli_clock_us(CLOCK_THREAD_CPUTIME_ID) - begun_us;
    if (http->computed_until_us < now)
        http->computed_until_us = now;
    http->computed_until_us += COMPUTE_PARTS * took_us;
    return status;
}

static int answer(struct http *http, const struct http_route *route,
                  struct evhttp_request *request, struct evbuffer *body)
{
    const char *text = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
    struct evkeyvalq query = {0};
    if (evhttp_parse_query_str(text ? text : "", &query) != 0)
        return 400;
    int status = route->computes ? compute(http, route, &query, body)
                                 : route->answer(http->arg, &query, body);
    evhttp_clear_headers(&query);
    return status;
}

static void requested(struct evhttp_request *request, void *arg)
{
    struct http *http = arg;
    enum evhttp_cmd_type command = evhttp_request_get_command(request);
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
    const struct http_route *route = find(http, path);
    struct evbuffer *body = cli_need_memory(evbuffer_new());
    int status;
    if (is_ending(http, request))
        status = 503;
    else if (!is_for_us(http, request))
        status = 403;
    else if (command != EVHTTP_REQ_GET && command != EVHTTP_REQ_HEAD)
        status = 405;
    else if (!route)
        status = 404;
    else
        status = answer(http, route, request, body);
    bool has_answer = evbuffer_get_length(body) > 0;
    if (!has_answer)
        evbuffer_add_printf(body, "%s\n", phrase_of(status));
    reply(request, status, has_answer ? route : NULL, body);
    evbuffer_free(body);
}

/* --- the server --- */

struct http *http_new(const struct cli *cli, const char *where, bool allow_remote,
                      const struct http_route *routes, void *arg)
{
    struct http *http = cli_need_memory(calloc(1, sizeof(*http)));
    http->routes = routes;
    http->arg = arg;
    TAILQ_INIT(&http->connections);
    gethostname(http->host, sizeof(http->host) - 1);
    listener_begin(&http->listener, cli, where, allow_remote);
    http->server = cli_need_memory(evhttp_new(cli->base));
    evhttp_set_allowed_methods(http->server, UINT16_MAX);
    evhttp_set_max_headers_size(http->server, HTTP_HEADERS_MAX);
    evhttp_set_max_body_size(http->server, HTTP_BODY_MAX);
    evhttp_set_timeout(http->server, HTTP_IDLE_S);
    evhttp_set_bevcb(http->server, accepted, http);
    evhttp_set_gencb(http->server, requested, http);
    cli_timer_begin(&http->sweep, cli->base, SWEEP_MS, sweep, http);
    cli_need_memory(evhttp_bind_listener(http->server, http->listener.of_loop));
    evconnlistener_enable(http->listener.of_loop);
    return http;
}

const char *http_place(const struct http *http)
{
    return http->listener.place;
}

bool http_is_remote(const struct http *http)
{
    return http->listener.is_remote;
}

/* evhttp also frees the listener and its own connections. */
void http_free(struct http *http)
{
    listener_end(&http->listener);
    evhttp_free(http->server);
    while (!TAILQ_EMPTY(&http->connections))
        forget(http, TAILQ_FIRST(&http->connections));
    cli_timer_end(&http->sweep);
    free(http);
}
