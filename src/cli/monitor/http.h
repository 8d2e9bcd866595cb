/*
 * A small HTTP server in the loop of a command, for reading only. Each connection gets one
 * answer. What a client can make it use is bounded: connections, bytes of a request, time.
 */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include "cli.h"

#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>

#define HTTP_CONNECTIONS_MAX 64
#define HTTP_FILES_MAX       (2 * HTTP_CONNECTIONS_MAX) /* with those that are ending */
#define HTTP_HEADERS_MAX     8192                       /* bytes */
#define HTTP_BODY_MAX        1024                       /* bytes; no request needs one */
#define HTTP_IDLE_S          10 /* without a byte in either direction */
#define HTTP_SECONDS_MAX     30 /* of a connection */

#define HTTP_TEXT "text/plain; charset=utf-8"
#define HTTP_JSON "application/json"
#define HTTP_HTML "text/html; charset=utf-8"

/* A path, and what answers it: writes the body, and returns the status code. */
struct http_route {
    const char *path; /* NULL: the end of a list */
    const char *type;
    int (*answer)(void *arg, const struct evkeyvalq *query, struct evbuffer *body);
    const char *policy; /* Content-Security-Policy; NULL: nothing is allowed */
    bool computes;      /* it takes time: all of these together get a quarter of it */
};

struct http;

/*
 * Listens at "ADDRESS:PORT" or "unix:PATH". Ends the process with a message if that is not
 * possible, or if the address is not of the loopback interface and `allow_remote` is not
 * set.
 */
struct http *http_new(const struct cli *cli, const char *listen, bool allow_remote,
                      const struct http_route *routes, void *arg);

/* Where it listens: "http://127.0.0.1:9121/", also if the kernel chose the port. */
const char *http_place(const struct http *http);
bool http_is_remote(const struct http *http);

void http_free(struct http *http);

#endif
