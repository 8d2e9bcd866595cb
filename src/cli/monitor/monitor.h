/* Shared by the parts of redlock monitor. */
#ifndef CLI_MONITOR_H
#define CLI_MONITOR_H

#include "http.h"

struct monitor {
    struct cli *cli;
    const char *listen;
    bool allow_remote;
    int64_t every_ms, keep_ms;
    struct http *http;
    bool done;
};

/* nodes.c: /healthz. */
int monitor_healthz(void *arg, const struct evkeyvalq *query, struct evbuffer *body);

/* metrics.c: /metrics. */
int monitor_metrics(void *arg, const struct evkeyvalq *query, struct evbuffer *body);

#endif
