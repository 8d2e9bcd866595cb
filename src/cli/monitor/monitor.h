/* Shared by the parts of redlock monitor. */
#ifndef CLI_MONITOR_H
#define CLI_MONITOR_H

#include "canary.h"
#include "changes.h"
#include "http.h"
#include "locks.h"

/* Whether locks can be taken, and what the last check found. */
struct monitor_health {
    struct cli_timer look, check;
    bool began;       /* the next three are known */
    char *reason;     /* why no lock can be taken; NULL: one can */
    int64_t since_ms; /* the time of day of the last change between these two */
    unsigned votes;   /* nodes that may vote on plain locks */
    unsigned votes_fenced;
    bool marked;      /* a node has a marker */
    bool watches;     /* their markers, and readmits those that restarted */
    bool lacks_right; /* too few nodes let its user write a marker */
    struct changes changes;
    bool checking;
    json_t *checked; /* of each node; NULL: no check has ended yet */
    int64_t checked_us;
};

/* The last answer of /api/latency. */
struct monitor_answer {
    char *text; /* NULL: there is none */
    size_t len;
    int64_t seconds, made_us;
    uint64_t cycles; /* that had ended then */
};

struct monitor {
    struct cli *cli;
    const char *listen;
    bool allow_remote, no_recover;
    int64_t every_ms, keep_ms;
    struct http *http;
    struct monitor_locks *locks;
    struct cli_timer refresh; /* of the locks that somebody looks at */
    struct canary canary;
    struct monitor_health health;
    struct monitor_answer latency;
    bool done;
};

/* nodes.c: the client's numbers with those of its nodes; /api/nodes and /healthz. */
void monitor_stats(const redlock_client *client, redlock_stats *ret_stats,
                   redlock_node_stats ret_nodes[REDLOCK_NODES_MAX]);
void monitor_health_begin(struct monitor *monitor);
void monitor_health_end(struct monitor *monitor);
void monitor_health_free(struct monitor *monitor); /* when the client was freed */
int monitor_api_nodes(void *arg, const struct evkeyvalq *query, struct evbuffer *body);
int monitor_healthz(void *arg, const struct evkeyvalq *query, struct evbuffer *body);

/* latency.c: /api/latency and /api/whatif. */
int monitor_api_latency(void *arg, const struct evkeyvalq *query, struct evbuffer *body);
void monitor_latency_end(struct monitor *monitor);
int monitor_api_whatif(void *arg, const struct evkeyvalq *query, struct evbuffer *body);

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

/* answer.c: the value of a label for Prometheus, in quotes. */
void monitor_write_label(const char *value, FILE *to);

#endif
