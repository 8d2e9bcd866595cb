/* Shared by the parts of redlock monitor. */
#ifndef CLI_MONITOR_H
#define CLI_MONITOR_H

#include "http.h"
#include "locks.h"

struct monitor {
    struct cli *cli;
    const char *listen;
    bool allow_remote;
    int64_t every_ms, keep_ms;
    struct http *http;
    struct monitor_locks *locks;
    bool done;
};

/* nodes.c: /healthz. */
int monitor_healthz(void *arg, const struct evkeyvalq *query, struct evbuffer *body);

/* metrics.c: /metrics. */
int monitor_metrics(void *arg, const struct evkeyvalq *query, struct evbuffer *body);

/* locks.c: /api/locks. */
int monitor_api_locks(void *arg, const struct evkeyvalq *query, struct evbuffer *body);

/*
 * answer.c: writes {"schema":"redlock.monitor.<name>/1", ...} and frees `object`; or
 * {"error": ...} to a query that is wrong. They return the status code.
 */
int monitor_answer(struct evbuffer *body, const char *name, json_t *object);
int monitor_refuse(struct evbuffer *body, const char *error);

#endif
